"""Counters of a router. Plain numbers; the owner publishes them as metrics."""

from __future__ import annotations

from dataclasses import asdict, dataclass


@dataclass(slots=True)
class RouterStats:
    """Counters since the start of the router."""

    connections_accepted: int = 0
    connections_refused: int = 0  # above the limit, or without a timely handshake
    handshakes: int = 0
    handshakes_failed: int = 0  # another protocol
    handshakes_broken_off: int = 0  # the peer disconnected before the handshake
    requests: int = 0
    request_bytes: int = 0
    requests_refused: int = 0
    answers_sent: int = 0
    answers_dropped: int = 0  # the peer had disconnected or did not read
    peers_dropped: int = 0
    messages_unfinished: int = 0  # of connections that were closed for them
    peers_idled: int = 0
    authentications: int = 0
    authentications_failed: int = 0
    authentications_overdue: int = 0  # not in time, or not again in time

    def to_mapping(self) -> dict[str, int]:
        """Values by name."""
        return asdict(self)
