"""Principals, identities of connections, ACLs, and the messages of authentication mechanisms."""
