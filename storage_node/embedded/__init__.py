"""Coordinators inside the event loop of a storage node: their contract, and how the node hosts them."""
