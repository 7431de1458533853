"""The table of peers."""

import pytest
from headrace.protocol.errors import ThrottlingQuotaExceededError
from headrace.protocol.transport.peers import Peer, PeerTable, printable


def peer(name: str, descriptor: int = -1, session: int = 1) -> Peer:
    return Peer(key=name.encode(), session=session, client_id=name, descriptor=descriptor)


def test_a_peer_is_found_by_identity_and_by_connection() -> None:
    """Admitted with descriptor 7: found by both, and by neither once forgotten."""
    table, one = PeerTable(5), peer("one", 7)
    table.admit(one)
    assert table.get(b"one") is table.at(7) is one
    assert list(table) == [one]
    assert table.forget(one)
    assert not one.is_connected
    assert table.get(b"one") is table.at(7) is None
    assert not table.forget(one)


def test_a_second_handshake_replaces_the_first() -> None:
    """The same connection shakes hands again, in a full table: the old session is gone, the new one is in."""
    table, first, second = PeerTable(1), peer("one", 7), peer("one", 7, session=2)
    table.admit(first)
    table.admit(second)
    assert table.get(b"one") is table.at(7) is second
    assert not first.is_connected
    assert not table.forget(first)
    assert table.get(b"one") is table.at(7) is second


def test_a_full_table_refuses() -> None:
    """The limit of two: a third is refused and not kept; after one has left there is room."""
    table = PeerTable(2)
    first = peer("one")
    table.admit(first)
    table.admit(peer("two"))
    with pytest.raises(ThrottlingQuotaExceededError):
        table.admit(peer("three"))
    assert len(table) == 2
    table.forget(first)
    table.admit(peer("three"))


def test_reused_descriptor_belongs_to_the_new_peer() -> None:
    """Connection 7 breaks and the next one gets number 7: removing the old peer leaves the new one."""
    table, old, new = PeerTable(5), peer("old", 7), peer("new", 7)
    table.admit(old)
    table.admit(new)
    table.forget(old)
    assert table.at(7) is new


@pytest.mark.parametrize(
    ("text", "safe"),
    [
        ("plain-1", "plain-1"),
        ("two\nlines\r", "two\\nlines\\r"),
        ("\x1b[31mred", "\\x1b[31mred"),
        ("ü\u2028", "\\xfc\\u2028"),
    ],
)
def test_names_are_safe_in_a_log_line(text: str, safe: str) -> None:
    """New lines, escape sequences and odd characters in a client id cannot forge a log line."""
    assert printable(text) == safe


def test_names_are_cut() -> None:
    """A client id of a megabyte does not fill the log."""
    assert len(printable("x" * 10**6)) == 200
