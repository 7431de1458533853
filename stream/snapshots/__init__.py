"""Snapshots of stores in a folder or an object store."""
