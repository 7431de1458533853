"""`make oracle-streams`: the same topology and input in Kafka Streams and in headrace, compared."""
