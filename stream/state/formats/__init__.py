"""Bytes of stores, changelogs and internal topics, as Kafka Streams 4.3 writes them."""
