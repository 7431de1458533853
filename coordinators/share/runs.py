"""The states of consecutive offsets as runs: neighbours in one state are one entry. Pure.

A share-partition has thousands of records in flight, which are acquired and acknowledged mostly by ranges:
the cost of an operation follows the number of runs, not of records.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, replace
from enum import IntEnum
from operator import attrgetter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_first = attrgetter("first")


class Delivery(IntEnum):
    """The state of a record in a share group, by its number in records. Source: Kafka RecordState.java."""

    AVAILABLE = 0
    ACQUIRED = 1
    ACKNOWLEDGED = 2
    ARCHIVED = 4

    @property
    def is_terminal(self) -> bool:
        """Whether the record is never delivered again."""
        return self in (Delivery.ACKNOWLEDGED, Delivery.ARCHIVED)


@dataclass(slots=True)
class Run:
    """The offsets from `first` to `last`, both included, in one state.

    `until_ms` is the end of the lock of acquired records, or the earliest next delivery of available ones.
    `change` is the number of the change of acquired records that waits for its write, 0 for none.
    """

    first: int
    last: int
    state: Delivery = Delivery.AVAILABLE
    deliveries: int = 0
    member: str = ""
    until_ms: int = 0
    change: int = 0

    def __len__(self) -> int:
        return self.last - self.first + 1

    def continues(self, earlier: Run) -> bool:
        """Whether both can be one run."""
        return (
            self.state is earlier.state
            and self.change == earlier.change
            and (
                self.state.is_terminal
                or (self.deliveries, self.member, self.until_ms)
                == (earlier.deliveries, earlier.member, earlier.until_ms)
            )
        )


class Runs:
    """Runs without gaps from `start` on, in order."""

    def __init__(self, start: int) -> None:
        self._start = start
        self._runs: list[Run] = []

    def __iter__(self) -> Iterator[Run]:
        return iter(self._runs)

    def __len__(self) -> int:
        return len(self._runs)

    @property
    def start(self) -> int:
        """The first offset."""
        return self._start

    @property
    def end(self) -> int:
        """The offset after the last one."""
        return self._runs[-1].last + 1 if self._runs else self._start

    def append(self, run: Run) -> None:
        """Add a run at the end."""
        assert run.first == self.end, f"{run} does not begin at {self.end}"
        self._runs.append(run)

    def cut(self, first: int, last: int) -> list[Run]:
        """The runs of these offsets, as far as there are any; runs across an edge are divided there."""
        first, last = max(first, self._start), min(last, self.end - 1)
        if first > last:
            return []
        low = self._divide(first)
        return self._runs[low : self._divide(last + 1)]

    def _divide(self, offset: int) -> int:
        """The position of the run that begins at the offset, after dividing the one that holds it."""
        position = bisect_right(self._runs, offset, key=_first) - 1
        if position < 0:
            return 0
        run = self._runs[position]
        if run.first == offset:
            return position
        if run.last >= offset:
            self._runs.insert(position + 1, replace(run, first=offset))
            run.last = offset - 1
        return position + 1

    def join(self, first: int, last: int) -> None:
        """Unite runs of these offsets, and those beside them, where their states are equal."""
        low = max(bisect_right(self._runs, first, key=_first) - 2, 0)
        high = min(bisect_right(self._runs, last, key=_first) + 1, len(self._runs))
        joined: list[Run] = []
        for run in self._runs[low:high]:
            if joined and run.continues(joined[-1]):
                joined[-1].last = run.last
            else:
                joined.append(run)
        self._runs[low:high] = joined

    def drop_leading(self) -> None:
        """Remove the terminal runs that begin the list."""
        count = next((at for at, run in enumerate(self._runs) if not run.state.is_terminal), len(self._runs))
        if count:
            self._start = self._runs[count - 1].last + 1
            del self._runs[:count]
