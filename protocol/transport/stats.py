"""What a router counts. Plain numbers; the owner publishes them as metrics."""

from __future__ import annotations

from dataclasses import asdict, dataclass


@dataclass(slots=True)
class RouterStats:
    """Counters since the start."""

    connections_accepted: int = 0
    connections_refused: int = 0  # over the limit, or silent for too long
    handshakes: int = 0
    handshakes_failed: int = 0  # not our protocol at all
    handshakes_broken_off: int = 0  # the peer ended the connection before it had greeted
    requests: int = 0
    request_bytes: int = 0
    requests_refused: int = 0
    answers_sent: int = 0
    answers_dropped: int = 0  # the peer was gone or did not read
    peers_dropped: int = 0
    peers_idled: int = 0

    def to_mapping(self) -> dict[str, int]:
        """All counters by name."""
        return asdict(self)
