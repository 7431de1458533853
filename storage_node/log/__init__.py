"""The log of one partition and of a node: segments, indexes, recovery, in the formats of Kafka."""
