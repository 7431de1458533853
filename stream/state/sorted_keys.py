"""Keys of a hash map in the order of their bytes, sorted when a range is read."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

# A few keys are inserted one by one, which moves memory; more are appended and sorted with the others.
_FEW = 8


class SortedKeys:
    """A sorted set of bytes; `add` and `discard` take constant time, `between` sorts what is new."""

    __slots__ = ("_removed", "_sorted", "_unsorted")

    def __init__(self, keys: Iterable[bytes] = ()) -> None:
        self._sorted = sorted(keys)
        self._unsorted: list[bytes] = []
        self._removed: set[bytes] = set()

    def add(self, key: bytes) -> None:
        """Add a key that is not in the set."""
        if key in self._removed:
            self._removed.remove(key)
        else:
            self._unsorted.append(key)

    def discard(self, key: bytes) -> None:
        """Remove a key that is in the set."""
        self._removed.add(key)

    def between(self, from_key: bytes | None, to_key: bytes | None, to_inclusive: bool = True) -> list[bytes]:
        """A new list of the keys of a range; None: no bound."""
        self._settle()
        keys = self._sorted
        start = 0 if from_key is None else bisect_left(keys, from_key)
        if to_key is None:
            end = len(keys)
        else:
            end = bisect_right(keys, to_key) if to_inclusive else bisect_left(keys, to_key)
        found = keys[start:end]
        if self._removed:
            removed = self._removed
            found = [key for key in found if key not in removed]
        return found

    def _settle(self) -> None:
        if len(self._removed) > _FEW and len(self._removed) * 2 > len(self._sorted) + len(self._unsorted):
            removed = self._removed
            self._sorted = [key for key in self._sorted if key not in removed]
            self._unsorted = [key for key in self._unsorted if key not in removed]
            self._removed = set()
        unsorted = self._unsorted
        if not unsorted:
            return
        if len(unsorted) <= _FEW:
            for key in unsorted:
                insort(self._sorted, key)
        else:
            self._sorted += sorted(unsorted)
            self._sorted.sort()
        self._unsorted = []
