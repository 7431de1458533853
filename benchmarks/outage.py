"""How long nothing was acknowledged, and whether what was acknowledged is there. Pure."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

MS = 1e6  # nanoseconds


class Checked(NamedTuple):
    """`lost`: acknowledged and not read; `doubled`: read more than once; `read`: all that was read."""

    lost: int
    doubled: int
    read: int


class Gap(NamedTuple):
    """Two acknowledgements without one between them: when the former came, and how much later the latter."""

    begun_ns: int
    ms: float


def longest_gaps(acked_ns: Sequence[int], count: int = 3) -> list[Gap]:
    """The longest times between acknowledgements that follow each other, the longest first."""
    times = sorted(acked_ns)
    gaps = [Gap(before, (after - before) / MS) for before, after in pairwise(times)]
    return sorted(gaps, key=lambda gap: (-gap.ms, gap.begun_ns))[:count]


def outage_ms(gaps: Iterable[Sequence[Sequence[float]]], killed_ns: int) -> float | None:
    """The longest gap among some partitions' that ended after the kill; None: one of them went on without
    any, or was never acknowledged again."""
    longest = []
    for partition in gaps:
        after = [ms for begun_ns, ms in partition if begun_ns + ms * MS > killed_ns]
        if not after:
            return None
        longest.append(max(after))
    return max(longest, default=None)


def check(acked: Iterable[int], read: Sequence[int]) -> Checked:
    """Compare the numbers of acknowledged records with those that were read."""
    distinct = set(read)
    lost = sum(number not in distinct for number in acked)
    return Checked(lost, len(read) - len(distinct), len(read))
