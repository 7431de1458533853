"""The listener for Kafka's own clients: Kafka's protocol over TCP, in a storage node's event loop."""
