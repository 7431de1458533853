"""The producer: batches under construction, sending, delivery."""
