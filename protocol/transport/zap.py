"""ZeroMQ's authentication protocol (ZAP), with which libzmq checks each connection of a CURVE server. Pure.

Every client with a key pair is accepted, and its public key becomes the user id of its messages. Rights are
decided at the handshake of a connection, where a rejection has a text that the client can show.

Source: RFC 27/ZAP.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

ENDPOINT = "inproc://zeromq.zap.01"
DOMAIN = b"headrace"
_VERSION = b"1.0"
_FIELDS = 6  # version, request id, domain, address, routing id, mechanism


def answer(parts: Sequence[bytes]) -> list[bytes]:
    """The reply to a request, both with the envelope of a ROUTER socket; empty for a malformed request."""
    try:
        start = list(parts).index(b"") + 1
    except ValueError:
        return []
    envelope, request = parts[:start], parts[start:]
    if len(request) < _FIELDS or request[0] != _VERSION:
        return []
    _, request_id, domain, _, _, mechanism = request[:_FIELDS]
    credentials = request[_FIELDS:]
    is_known = domain == DOMAIN and mechanism == b"CURVE" and len(credentials) == 1
    status, text = (b"200", b"OK") if is_known else (b"400", b"this listener needs CURVE")
    user_id = credentials[0].hex().encode() if is_known else b""
    return [*envelope, _VERSION, request_id, status, text, user_id, b""]
