"""What a router counts. Plain numbers; the owner publishes them as metrics."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field

# Bound: a flood of bad connections writes this many lines a second at most; all of them are counted.
LOG_LINES_PER_S = 10


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
    _log_second: int = field(default=-1, repr=False)
    _log_lines: int = field(default=0, repr=False)

    def may_log(self, now_ms: int) -> bool:
        """True while this second's share of log lines is not used up."""
        second = now_ms // 1000
        if second != self._log_second:
            self._log_second, self._log_lines = second, 0
        self._log_lines += 1
        return self._log_lines <= LOG_LINES_PER_S

    def to_mapping(self) -> dict[str, int]:
        """All counters by name."""
        return {name: value for name, value in asdict(self).items() if not name.startswith("_")}
