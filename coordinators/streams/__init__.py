"""Streams groups (KIP-1071): tasks of a topology assigned to the members of an application."""
