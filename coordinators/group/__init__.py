"""The group coordinator: classic groups, groups of the consumer protocol (KIP-848), committed offsets."""
