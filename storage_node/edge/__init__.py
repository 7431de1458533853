"""The client side of a storage node: its listeners, the gateway for Kafka clients, quotas and forwarding."""
