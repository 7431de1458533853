"""State stores: interfaces, builders, layers and Java's byte formats."""
