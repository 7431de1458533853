"""What a stream thread did since its last line in the log: log.summary.interval.ms."""

from __future__ import annotations


class Summary:
    """Counts of one thread. An interval of -1: no lines."""

    def __init__(self, interval_ms: int, now_ms: int) -> None:
        self._interval_ms = interval_ms
        self._since_ms = now_ms
        self.records = 0
        self.commits = 0

    def text_if_due(self, now_ms: int, tasks: int) -> str | None:
        """The line, once per interval; the counts begin again."""
        passed_ms = now_ms - self._since_ms
        if self._interval_ms < 0 or passed_ms < self._interval_ms:
            return None
        text = (
            f"processed {self.records} records in {passed_ms / 1000:.0f} s,"
            f" {self.commits} commits, {tasks} running tasks"
        )
        self._since_ms, self.records, self.commits = now_ms, 0, 0
        return text
