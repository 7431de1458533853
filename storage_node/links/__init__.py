"""Connections of a storage node to the controllers and to other nodes, and its membership in the cluster."""
