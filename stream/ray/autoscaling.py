"""How many workers an application needs, from its lag. Pure.

Two limits with a gap between them, and times for which the lag must be beyond a limit, keep the number from
swinging: with `lag` records per worker, n workers become more above n * lag, and n - 1 below a quarter of
(n - 1) * lag. A lag of zero says that the workers suffice, not that fewer would: so fewer are an attempt. If
workers are added again soon after, the attempt failed, and the next one comes after twice the time.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ...protocol.model import TopicPartition

DOWN_SHARE = 0.25
MOST_DOUBLINGS = 3
FAILED_WITHIN = 4  # times the time before a removal: workers added sooner show that the removal was wrong


class Limits(NamedTuple):
    """`lag` in records per worker; times in ms. See the keys `autoscale.*`."""

    low: int
    high: int
    lag: int
    up_ms: int
    down_ms: int


class Autoscaler:
    """Invariant: a decision is within the limits, and two changes are `up_ms` apart."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._above_since_ms: int | None = None
        self._below_since_ms: int | None = None
        self._removed_ms: int | None = None
        self._doublings = 0

    @property
    def down_ms(self) -> int:
        """How long the lag must be low before a worker is removed."""
        return self.limits.down_ms << self._doublings

    def decide(self, now_ms: int, workers: int, lag: int | None, tasks: int | None = None) -> int:
        """The number of workers from now on. `lag` None: unknown, which starts all times from the beginning.
        More workers than `tasks` are of no use."""
        limits = self.limits
        high = limits.high if tasks is None else max(min(limits.high, tasks), limits.low)
        if not limits.low <= workers <= high:
            self._forget()
            return min(max(workers, limits.low), high)
        if lag is None:
            self._forget()
            return workers
        is_above = lag > workers * limits.lag and workers < high
        is_below = lag < DOWN_SHARE * (workers - 1) * limits.lag and workers > limits.low
        self._above_since_ms = _since(is_above, self._above_since_ms, now_ms)
        self._below_since_ms = _since(is_below, self._below_since_ms, now_ms)
        if self._above_since_ms is not None and now_ms - self._above_since_ms >= limits.up_ms:
            return self._more(now_ms, min(-(-lag // limits.lag), 2 * workers, high))
        # Order: never sooner than `up_ms` after a change, also where down_ms is shorter
        wait_ms = max(self.down_ms, limits.up_ms)
        if self._below_since_ms is not None and now_ms - self._below_since_ms >= wait_ms:
            self._forget()
            self._removed_ms = now_ms
            return workers - 1
        return workers

    def _more(self, now_ms: int, workers: int) -> int:
        if self._removed_ms is not None:
            was_wrong = now_ms - self._removed_ms < FAILED_WITHIN * max(self.down_ms, self.limits.up_ms)
            self._doublings = min(self._doublings + 1, MOST_DOUBLINGS) if was_wrong else 0
            self._removed_ms = None
        self._forget()
        return workers

    def _forget(self) -> None:
        self._above_since_ms = self._below_since_ms = None


def _since(is_so: bool, since_ms: int | None, now_ms: int) -> int | None:
    if not is_so:
        return None
    return now_ms if since_ms is None else since_ms


class PastEnds:
    """The ends of the partitions one commit interval ago.

    Lag up to these ends is lag in records that are older than a commit interval: an application that keeps
    up has none by this measure, however long its commit interval is.
    """

    def __init__(self, delay_ms: int) -> None:
        self._delay_ms = delay_ms
        self._ends: deque[tuple[int, Mapping[TopicPartition, int]]] = deque()

    def note(self, now_ms: int, ends: Mapping[TopicPartition, int]) -> None:
        """The ends at this time."""
        self._ends.append((now_ms, ends))

    def at(self, now_ms: int) -> Mapping[TopicPartition, int] | None:
        """The newest ends that are one interval old; None before that."""
        while len(self._ends) > 1 and self._ends[1][0] <= now_ms - self._delay_ms:
            self._ends.popleft()
        if not self._ends or self._ends[0][0] > now_ms - self._delay_ms:
            return None
        return self._ends[0][1]
