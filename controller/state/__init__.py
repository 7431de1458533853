"""The rules of the cluster, pure: brokers, topics, placement, elections, configs."""
