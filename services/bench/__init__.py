"""`headrace bench`: produce, consume, latency and mixed load against any cluster, measured honestly."""
