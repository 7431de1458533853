"""The input of `joining_app` and its expected output, computed without headrace.

Event times depend on the input only: a pair of a left and a right record every EVENT_MS. One record in
five is up to LATE_MS older than the one before it in its partition, which is less than the join window, so
that no record is late. No two records have the same time: left ones are even, right ones
odd, so the order in which a task takes the records of its two partitions is defined.
"""

from __future__ import annotations

import random
from collections import defaultdict, deque
from typing import TYPE_CHECKING, NamedTuple

from joining_app import CHAIN_MS, COUNT_MS, JOIN_MS, LEFT, RIGHT, category, chained

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

EVENT_MS, LATE_MS = 100, 1_000
USERS = 24
PARTITIONS = 4
END_MS = 60_000  # from the last event to the records that end the input


class Event(NamedTuple):
    """An input record. `side` is its topic; times in ms."""

    side: str
    partition: int
    user: str
    value: str
    at_ms: int


class Joined(NamedTuple):
    """A record of the join."""

    user: str
    value: str
    at_ms: int


def partition_of(user: str) -> int:
    """The partition of a user's records: user-0 to user-3 are in 0 to 3."""
    return int(user.removeprefix("user-")) % PARTITIONS


def events(begin_ms: int, seed: int) -> Iterator[Event]:
    """An endless sequence of pairs. Half of the right records have another user than the left one."""
    rng = random.Random(seed)
    begin_ms -= begin_ms % 2
    taken: set[int] = set()
    number = 0
    while True:
        now_ms = begin_ms + number * EVENT_MS
        left = f"user-{rng.randrange(USERS)}"
        right = left if rng.random() < 0.5 else f"user-{rng.randrange(USERS)}"
        for side, user, odd in ((LEFT, left, 0), (RIGHT, right, 1)):
            at_ms = now_ms + odd - (2 * rng.randrange(LATE_MS // 2) if rng.random() < 0.2 else 0)
            while at_ms in taken:
                at_ms += 2
            taken.add(at_ms)
            yield Event(side, partition_of(user), user, f"{side[0].upper()}{number}", at_ms)
        number += 1
        if not number % 1000:
            taken = {at_ms for at_ms in taken if at_ms > now_ms - 2 * LATE_MS}


def endings(last_ms: int) -> list[Event]:
    """The records that close all windows of the join: the left record of each partition is processed and has
    no partner; the right one stays buffered in its task."""
    begin_ms = last_ms - last_ms % 2 + END_MS
    return [
        Event(side, number, f"user-{number}", f"{side}-end", begin_ms + odd)
        for number in range(PARTITIONS)
        for side, odd in ((LEFT, 0), (RIGHT, 1))
    ]


def is_end(event: Event) -> bool:
    """Whether the event is one of `endings`."""
    return event.value.endswith("-end")


def processed(given: Iterable[Event]) -> Iterator[Event]:
    """The records of one partition of both topics in the order in which a task takes them: the older of
    the two next records; none while one side is empty."""
    sides: dict[str, deque[Event]] = {LEFT: deque(), RIGHT: deque()}
    for event in given:
        sides[event.side].append(event)
    left, right = sides[LEFT], sides[RIGHT]
    while left and right:
        yield (left if left[0].at_ms < right[0].at_ms else right).popleft()


def joined(given: Iterable[Event]) -> tuple[list[Joined], set[Joined]]:
    """The left join of one partition: pairs of a left and a right record of one user at most JOIN_MS apart,
    in order, and the left records without a partner; all windows are closed at the end."""
    pairs: list[Joined] = []
    alone: dict[int, Joined] = {}
    seen: dict[tuple[str, str], list[Event]] = defaultdict(list)
    for event in processed(given):
        other = RIGHT if event.side == LEFT else LEFT
        near = [each for each in seen[other, event.user] if abs(each.at_ms - event.at_ms) <= JOIN_MS]
        for each in sorted(near, key=lambda one: one.at_ms):
            left, right = (event, each) if event.side == LEFT else (each, event)
            alone.pop(left.at_ms, None)
            at_ms = max(left.at_ms, right.at_ms)
            pairs.append(Joined(event.user, f"{left.value}+{right.value}", at_ms))
        if event.side == LEFT and not near and not is_end(event):
            alone[event.at_ms] = Joined(event.user, f"{event.value}+None", event.at_ms)
        recent = seen[event.side, event.user]
        recent.append(event)
        if len(recent) > 400:  # a window has far fewer records of one user
            del recent[:200]
    return pairs, set(alone.values())


class Expected:
    """The output of the application. `pairs` and `alone` by partition; `chains` and `counts` by key@start,
    all values in their order: the last one is that of the store."""

    def __init__(self, given: Iterable[Event]) -> None:
        by_partition: dict[int, list[Event]] = {number: [] for number in range(PARTITIONS)}
        for event in given:
            by_partition[event.partition].append(event)
        self.pairs: dict[int, list[Joined]] = {}
        self.alone: dict[int, set[Joined]] = {}
        self.chains: Mapping[str, list[int]] = defaultdict(list)
        self.counts: Mapping[str, list[int]] = defaultdict(list)
        for number, some in by_partition.items():
            self.pairs[number], self.alone[number] = joined(some)
            for record in self.pairs[number]:
                values = self.chains[_window(record.user, record.at_ms, CHAIN_MS)]
                values.append(chained(record.value, values[-1] if values else 0))
            for record in (*self.pairs[number], *self.alone[number]):
                counts = self.counts[_window(category(record.user), record.at_ms, COUNT_MS)]
                counts.append(len(counts) + 1)


def _window(key: str, at_ms: int, size_ms: int) -> str:
    return f"{key}@{at_ms - at_ms % size_ms}"
