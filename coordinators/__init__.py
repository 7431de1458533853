"""Group and transaction coordinators: so far only the contract of their state machines, runtime/ports.py."""
