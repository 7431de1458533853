"""Replies to libzmq's questions about connections."""

import pytest
from headrace.protocol.transport.zap import DOMAIN, answer

KEY = bytes(range(32))
ASK = (b"envelope", b"", b"1.0", b"7", DOMAIN, b"127.0.0.1", b"", b"CURVE", KEY)


def test_a_client_with_a_key_is_let_in_under_its_key() -> None:
    """The key in hexadecimal digits is the user id of all its messages."""
    assert answer(ASK) == [b"envelope", b"", b"1.0", b"7", b"200", b"OK", KEY.hex().encode(), b""]


@pytest.mark.parametrize(
    "change",
    [{7: b"NULL"}, {7: b"PLAIN"}, {4: b"other"}],
)
def test_other_mechanisms_and_domains_are_rejected(change: dict[int, bytes]) -> None:
    """Another mechanism, and another listener of this process."""
    parts = [change.get(place, part) for place, part in enumerate(ASK)]
    reply = answer(parts)
    assert (reply[4], reply[6]) == (b"400", b"")


@pytest.mark.parametrize("parts", [(), (b"x",), ASK[:5], (b"", b"2.0", *ASK[3:]), ASK[1:2]])
def test_malformed_zap_requests_get_no_reply(parts: tuple[bytes, ...]) -> None:
    """Too short, or of another version."""
    assert answer(parts) == []
