"""headrace: a partitioned, replicated commit log inside a Ray cluster."""

__version__ = "0.1.0"
