"""Spans of producers and consumers, and the trace context in the headers of their records."""
