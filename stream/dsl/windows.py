"""Windows of aggregations and joins. Times in ms. Source: TimeWindows, SlidingWindows, SessionWindows,
UnlimitedWindows, JoinWindows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ..records import Window
from .durations import Duration, to_ms

if TYPE_CHECKING:
    from collections.abc import Sequence

MAX_TIME = 2**63 - 1


@dataclass(frozen=True, slots=True)
class TimeWindows:
    """Windows of one size that start every `advance_ms`; tumbling where that is their size."""

    size_ms: int
    advance_ms: int
    grace_ms: int

    def __post_init__(self) -> None:
        if self.size_ms <= 0:
            raise ValueError(f"the size of a window must be above zero, not {self.size_ms} ms")
        if not 0 < self.advance_ms <= self.size_ms:
            raise ValueError(
                f"windows of {self.size_ms} ms must advance by 1 to {self.size_ms} ms, not {self.advance_ms}"
            )

    def windows_for(self, timestamp: int) -> list[Window]:
        """The windows that contain `timestamp`, by their start."""
        size = self.size_ms
        return [Window(start, start + size) for start in self.starts_for(timestamp)]

    def starts_for(self, timestamp: int) -> Sequence[int]:
        """The starts of the windows that contain `timestamp`."""
        size, advance = self.size_ms, self.advance_ms
        if size == advance and timestamp >= 0:
            return (timestamp - timestamp % size,)
        first = max(0, timestamp - size + advance) // advance * advance
        return range(first, timestamp + 1, advance)


@dataclass(frozen=True, slots=True)
class UnlimitedWindows:
    """One window from `start_ms` without end."""

    start_ms: int = 0

    @property
    def size_ms(self) -> int:
        """The largest timestamp."""
        return MAX_TIME

    @property
    def grace_ms(self) -> int:
        """None: the window does not end."""
        return 0

    def windows_for(self, timestamp: int) -> list[Window]:
        """The one window, or none before its start."""
        return [Window(start, MAX_TIME) for start in self.starts_for(timestamp)]

    def starts_for(self, timestamp: int) -> Sequence[int]:
        """The start of the one window, or nothing before it."""
        return (self.start_ms,) if timestamp >= self.start_ms else ()


@dataclass(frozen=True, slots=True)
class SlidingWindows:
    """A window for each distinct set of records at most `time_difference_ms` apart; both bounds included."""

    time_difference_ms: int
    grace_ms: int


@dataclass(frozen=True, slots=True)
class SessionWindows:
    """Sessions that end after `inactivity_gap_ms` without a record."""

    inactivity_gap_ms: int
    grace_ms: int


@dataclass(frozen=True, slots=True)
class CountWindows:
    """Windows of `size` records of a key; one starts every `advance` of them. Tumbling where both are equal.

    The bounds of a window are numbers of records: the first record of a key has number 0.
    """

    size: int
    advance: int

    def __post_init__(self) -> None:
        if not _is_int(self.size) or self.size < 1:
            raise ValueError(f"the size of a count window must be a number of records, not {self.size!r}")
        if not _is_int(self.advance) or not 1 <= self.advance <= self.size:
            raise ValueError(
                f"windows of {self.size} records advance by 1 to {self.size}, not {self.advance!r}"
            )

    def first_open(self, count: int) -> int:
        """The start of the oldest window that is not full after `count` records."""
        return 0 if count < self.size else ((count - self.size) // self.advance + 1) * self.advance


@dataclass(frozen=True, slots=True)
class JoinWindows:
    """A record joins others that are at most `before_ms` older and `after_ms` newer."""

    before_ms: int
    after_ms: int
    grace_ms: int

    def __post_init__(self) -> None:
        if self.before_ms + self.after_ms < 0:
            raise ValueError("the interval of a join window must not be negative")

    @property
    def size_ms(self) -> int:
        """The length of the interval."""
        return self.before_ms + self.after_ms

    def before(self, time_difference: Duration) -> JoinWindows:
        """Another bound for older records of the other side."""
        return replace(self, before_ms=to_ms(time_difference, "time_difference", signed=True))

    def after(self, time_difference: Duration) -> JoinWindows:
        """Another bound for newer records of the other side."""
        return replace(self, after_ms=to_ms(time_difference, "time_difference", signed=True))


def tumbling(size: Duration, *, grace: Duration = 0) -> TimeWindows:
    """Windows of a fixed size, one after the other."""
    ms = to_ms(size, "size")
    return TimeWindows(ms, ms, to_ms(grace, "grace"))


def hopping(size: Duration, *, advance: Duration, grace: Duration = 0) -> TimeWindows:
    """Windows of a fixed size that overlap: a new one starts every `advance`."""
    return TimeWindows(to_ms(size, "size"), to_ms(advance, "advance"), to_ms(grace, "grace"))


def sliding(time_difference: Duration, *, grace: Duration = 0) -> SlidingWindows:
    """Windows around records that are at most `time_difference` apart."""
    return SlidingWindows(to_ms(time_difference, "time_difference"), to_ms(grace, "grace"))


def session(inactivity_gap: Duration, *, grace: Duration = 0) -> SessionWindows:
    """Sessions of a key, which end after a time without a record."""
    return SessionWindows(to_ms(inactivity_gap, "inactivity_gap"), to_ms(grace, "grace"))


def unlimited(*, start: Duration = 0) -> UnlimitedWindows:
    """One window that never ends."""
    return UnlimitedWindows(to_ms(start, "start"))


def count_windows(size: int, *, advance: int | None = None) -> CountWindows:
    """Windows of a number of records of a key; with `advance` they overlap."""
    return CountWindows(size, size if advance is None else advance)


def join_window(
    time_difference: Duration,
    *,
    grace: Duration = 0,
    before: Duration | None = None,
    after: Duration | None = None,
) -> JoinWindows:
    """Records join if they are at most `time_difference` apart; `before`, `after`: other bounds."""
    ms = to_ms(time_difference, "time_difference")
    return JoinWindows(
        ms if before is None else to_ms(before, "before", signed=True),
        ms if after is None else to_ms(after, "after", signed=True),
        to_ms(grace, "grace"),
    )


def _is_int(number: object) -> bool:
    return isinstance(number, int) and not isinstance(number, bool)
