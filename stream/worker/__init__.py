"""Runs the tasks of an application: threads, clients, transactions, the state directory."""
