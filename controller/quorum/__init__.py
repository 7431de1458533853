"""The metadata log and who may write it."""
