"""Streams and tables, in Java's names: builds a topology, runs nothing."""
