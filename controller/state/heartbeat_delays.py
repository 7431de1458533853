"""The session timeout of each node, from the lateness of its heartbeats. Pure.

The lateness of a heartbeat is the time since the one before it, less the heartbeat interval. The timeout of a
node is the interval plus FACTOR times its largest lateness of the last minute, never below
`broker.session.timeout.ms` (the floor) and never above `broker.session.timeout.max.ms` (the ceiling). So a
node whose heartbeats are in time is fenced after the floor, and one on a busy machine has a longer session.
Invariant: floor <= timeout <= ceiling. Bound: at most one window per registered node.
Source: Hayashibara et al., "The phi accrual failure detector" (2004), for the idea; a maximum instead of a
normal distribution, because stalls of a machine are rare and long, and hardly change mean and deviation.
"""

from __future__ import annotations

from ...runtime.recent_maximum import RecentMaximum

WINDOW_MS = 60_000
# Stalls of a busy machine grow: the next may be this many times as long as the longest of the last minute.
FACTOR = 3


class HeartbeatDelays:
    """Heartbeat lateness by node id."""

    def __init__(self, interval_ms: int, floor_ms: int, ceiling_ms: int) -> None:
        self._interval_ms = interval_ms
        self.floor_ms = floor_ms
        self._ceiling_ms = max(floor_ms, ceiling_ms)
        self._lateness: dict[int, RecentMaximum] = {}

    def record(self, node_id: int, delay_ms: int, now_ms: int) -> None:
        """A heartbeat was received `delay_ms` after the one before. A delay above the ceiling is an outage
        that no timeout would have covered, and does not count."""
        if delay_ms > self._ceiling_ms:
            return
        lateness = self._lateness.get(node_id)
        if lateness is None:
            lateness = self._lateness[node_id] = RecentMaximum(WINDOW_MS)
        lateness.add(max(0, delay_ms - self._interval_ms), now_ms)

    def longest_ms(self, node_id: int, now_ms: int) -> int:
        """The largest lateness of the last minute, 0 without a heartbeat."""
        lateness = self._lateness.get(node_id)
        return lateness.at(now_ms) if lateness is not None else 0

    def timeout_ms(self, node_id: int, now_ms: int) -> int:
        """The session timeout of the node."""
        adapted_ms = self._interval_ms + FACTOR * self.longest_ms(node_id, now_ms)
        return min(max(self.floor_ms, adapted_ms), self._ceiling_ms)

    def forget(self, node_id: int) -> None:
        """Drop the delays of a process that has been replaced or removed."""
        self._lateness.pop(node_id, None)
