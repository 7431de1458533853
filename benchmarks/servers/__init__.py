"""The two systems under test: their server processes, clusters, and Apache Kafka's own tools."""
