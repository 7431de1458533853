"""The benchmark harness: headrace beside Apache Kafka on one machine. `make bench`; docs/BENCHMARKS.md."""
