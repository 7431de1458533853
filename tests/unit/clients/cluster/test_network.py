"""The interface between clients and sockets."""

from headrace.clients.cluster.network import Address, Reply


def test_addresses_are_equal_by_value() -> None:
    """They are keys of connection tables."""
    assert {Address("a", 1): 1}[Address("a", 1)] == 1
    assert Reply(None, ()).frames == ()
