"""Gaps between acknowledgements, and acknowledged records compared with those that were read. Pure."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

NS_PER_MS = 1e6


class Checked(NamedTuple):
    """`lost`: acknowledged but not read; `doubled`: read more than once; `read`: all records read."""

    lost: int
    doubled: int
    read: int


class Gap(NamedTuple):
    """`ms` between an acknowledgement at `start_ns` and the next one."""

    start_ns: int
    ms: float


def longest_gaps(acked_ns: Iterable[int], count: int = 3) -> list[Gap]:
    """The `count` longest times between consecutive acknowledgements, the longest first."""
    gaps = [Gap(before, (after - before) / NS_PER_MS) for before, after in pairwise(sorted(acked_ns))]
    return sorted(gaps, key=lambda gap: (-gap.ms, gap.start_ns))[:count]


def outage_ms(gaps: Iterable[Sequence[Sequence[float]]], killed_ns: int) -> float | None:
    """The longest gap, over the `gaps` of each partition, that ends after the kill.

    None when a partition has no such gap: it got no acknowledgement after the kill.
    """
    longest = []
    for partition in gaps:
        after = [ms for start_ns, ms in partition if start_ns + ms * NS_PER_MS > killed_ns]
        if not after:
            return None
        longest.append(max(after))
    return max(longest, default=None)


def check(acked: Iterable[int], read: Sequence[int]) -> Checked:
    """Compare the numbers of acknowledged records with the numbers that were read."""
    distinct = set(read)
    lost = sum(number not in distinct for number in acked)
    return Checked(lost, len(read) - len(distinct), len(read))
