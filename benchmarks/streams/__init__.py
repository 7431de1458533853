"""`make bench-streams`: headrace.stream beside Kafka Streams and Quix Streams."""
