"""A storage node: partitions on disk, served over ZeroMQ."""
