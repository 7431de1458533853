"""The metrics of an instance, by the names of Kafka Streams."""
