"""Apache Kafka and headrace beside each other: the same scenarios, what differed, and the page about it."""
