"""Record batches: Kafka's v2 format, with a Python codec and an equivalent compiled one."""
