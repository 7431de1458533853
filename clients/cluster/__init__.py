"""What all clients of one cluster share: network, metadata, tasks."""
