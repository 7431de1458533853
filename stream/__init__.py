"""The stream processing library, on top of clients: Kafka Streams for Python (in the making)."""
