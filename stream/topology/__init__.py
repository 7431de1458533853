"""The nodes of a topology, its sub-topologies, internal topics and description."""
