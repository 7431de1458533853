"""Latencies of the quorum as one controller measures them. Pure."""

from __future__ import annotations

from collections import deque

from ..runtime.telemetry.histogram import Histogram

MAX_OPEN = 10_000  # Bound: appends without a commit; a leader without a majority resigns long before


class QuorumTimes:
    """`commits` of a leader's own appends, and `elections` from the first campaign to a known leader."""

    def __init__(self) -> None:
        self.commits, self.elections = Histogram(), Histogram()
        self._open: deque[tuple[int, int]] = deque(maxlen=MAX_OPEN)  # end offset, time of the append
        self._campaign_ms: int | None = None

    def appended(self, end_offset: int, now_ms: int) -> None:
        """The leader's log ends here now."""
        self._open.append((end_offset, now_ms))

    def committed(self, end_offset: int, now_ms: int) -> None:
        """Everything below is committed."""
        while self._open and self._open[0][0] <= end_offset:
            self.commits.record(now_ms - self._open.popleft()[1])

    def resigned(self) -> None:
        """What is not committed may be lost."""
        self._open.clear()

    def campaigning(self, now_ms: int) -> None:
        """This controller asks for votes; perhaps again, after a lost election."""
        if self._campaign_ms is None:
            self._campaign_ms = now_ms

    def leader_known(self, leader_id: int, now_ms: int) -> None:
        """The leader has changed, -1: there is none."""
        if leader_id >= 0 and self._campaign_ms is not None:
            self.elections.record(now_ms - self._campaign_ms)
            self._campaign_ms = None
