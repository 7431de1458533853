"""Enforcement of the table of required operations on requests of both planes."""
