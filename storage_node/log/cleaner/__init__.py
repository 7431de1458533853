"""Compaction of a log: what of it, the work in steps, and a swap that survives a crash at any of them."""
