"""The coordinator runtime: decide on requests, append records, apply them, respond."""
