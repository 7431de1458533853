"""`headrace bench`: load generators for produce, consume, end-to-end latency and mixed load, against any
cluster."""
