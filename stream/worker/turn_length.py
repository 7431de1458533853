"""How many records of a task are processed before the next task has its turn. Pure."""

from __future__ import annotations

LEAST, MOST = 100, 1000
_LONG_NS = 20_000_000


class TurnLength:
    """`records` grows while turns are short, for columns of a run cost less per record the longer it is; it
    falls back where user functions are slow: commits, polls and other tasks wait for the end of a turn."""

    __slots__ = ("records",)

    def __init__(self) -> None:
        self.records = LEAST

    def ended(self, count: int, ns: int) -> bool:
        """A turn has ended, after `count` records and so many nanoseconds. True if the task may have more."""
        if count < self.records:
            return False
        if ns > _LONG_NS:
            self.records = LEAST
        elif 4 * ns < _LONG_NS:
            self.records = min(2 * self.records, MOST)
        return True
