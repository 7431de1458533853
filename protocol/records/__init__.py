"""Record batches: Kafka's v2 format, a readable codec and its compiled twin."""
