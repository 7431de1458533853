"""The keys of a commit in order, in parts: sorting all of them in one call would keep the GIL. Pure."""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

_SAMPLES = 16  # of the keys of one part: parts have about the same length


def in_order(keys: Collection[bytes], most: int) -> Iterator[list[bytes]]:
    """Sorted lists, each behind the one before, of about `most` keys. Interpreted: other threads may run
    between two keys."""
    count = len(keys) // most + 1
    if count == 1:
        yield sorted(keys)
        return
    samples = sorted(list(keys)[:: max(len(keys) // (count * _SAMPLES), 1)])
    bounds = samples[len(samples) // count :: max(len(samples) // count, 1)]
    parts: list[list[bytes]] = [[] for _ in range(len(bounds) + 1)]
    for key in keys:
        parts[bisect_right(bounds, key)].append(key)
    for part in parts:
        part.sort()
        yield part
