"""What is sent to both systems: a module for each client."""
