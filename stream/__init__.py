"""The stream processing library, on top of clients. Empty until streams exist."""
