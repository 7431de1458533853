"""Cluster metadata: the records of the metadata log, and the immutable image that they produce."""
