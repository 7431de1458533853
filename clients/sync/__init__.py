"""The synchronous faces: facades over the engines on one IO thread."""
