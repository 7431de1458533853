"""Reads of the files of a persistent store beside the stream thread that writes it.

A value moves from the overlay to the engine in this order: written to the engine, then removed from the
overlay. A reader that reads the overlay first never returns an older value than the current one at its start.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from itertools import islice
from typing import TYPE_CHECKING

from ..state.merging import merged

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..state.overlay import Overlay

    Rows = Iterator[tuple[bytes, bytes]]

_FIRST_ROWS, _MOST_ROWS = 64, 512  # rows of one read of the engine
_ABSENT = object()


class _GrowingKeys:
    """The keys of a dict that only grows, in order."""

    __slots__ = ("_count", "_keys", "values")

    def __init__(self, values: dict[bytes, bytes | None]) -> None:
        self.values = values
        self._count = 0
        self._keys: list[bytes] = []

    def between(self, from_key: bytes | None, to_key: bytes | None) -> list[bytes]:
        count = len(self.values)
        if count > self._count:
            # one call in C under the GIL: the dict cannot grow meanwhile
            self._keys += list(islice(self.values, self._count, count))
            self._keys.sort()
            self._count = count
        return between(self._keys, from_key, to_key)


def between(keys: list[bytes], from_key: bytes | None, to_key: bytes | None) -> list[bytes]:
    """The sorted keys with `from_key` <= key < `to_key`."""
    start = 0 if from_key is None else bisect_left(keys, from_key)
    return keys[start : len(keys) if to_key is None else bisect_left(keys, to_key)]


class SpaceReads:
    """The reads of `Overlay`, from any thread; `is_committed`: only the state of the last commit.

    An iterator is not a snapshot: it may return entries that are written meanwhile. It holds no resources of
    the engine between two rows. Callers read within the gate of the task.
    """

    def __init__(self, overlay: Overlay, *, is_committed: bool) -> None:
        self._overlay = overlay
        self._is_committed = is_committed
        self._lock = threading.Lock()
        self._keys: dict[str, _GrowingKeys] = {}

    def get(self, space: str, key: bytes) -> bytes | None:
        if not self._is_committed:
            changes = self._overlay.uncommitted(space)
            if changes is not None:
                found = changes.get(key, _ABSENT)
                if found is not _ABSENT:
                    return found  # type: ignore[return-value]  # a value of the dict
        return self._overlay.engine.get(space, key) if self._overlay.is_committed(space) else None

    def rows(
        self, space: str, from_key: bytes | None = None, to_key: bytes | None = None, forward: bool = True
    ) -> Rows:
        """Entries with `from_key` <= key < `to_key`."""
        over = [] if self._is_committed else self._uncommitted(space, from_key, to_key, forward)
        if not self._overlay.is_committed(space):
            return iter([(key, value) for key, value in over if value is not None])
        under = self._committed(space, from_key, to_key, forward)
        return merged(iter(over), under, forward) if over else under

    def _uncommitted(
        self, space: str, from_key: bytes | None, to_key: bytes | None, forward: bool
    ) -> list[tuple[bytes, bytes | None]]:
        values = self._overlay.uncommitted(space)
        if values is None:
            return []
        with self._lock:
            known = self._keys.get(space)
            if known is None or known.values is not values:
                known = self._keys[space] = _GrowingKeys(values)
            keys = known.between(from_key, to_key)
        if not forward:
            keys.reverse()
        return [(key, values[key]) for key in keys]

    def _committed(self, space: str, from_key: bytes | None, to_key: bytes | None, forward: bool) -> Rows:
        size = _FIRST_ROWS
        while True:
            rows = self._overlay.engine.rows(space, from_key, to_key, forward)
            found = list(islice(rows, size))
            if hasattr(rows, "close"):
                rows.close()
            yield from found
            if len(found) < size:
                return
            if forward:
                from_key = found[-1][0] + b"\0"
            else:
                to_key = found[-1][0]
            size = _MOST_ROWS

    def approximate_count(self, space: str) -> int:
        changes = None if self._is_committed else self._overlay.uncommitted(space)
        engine = self._overlay.engine
        count = engine.approximate_count(space) if self._overlay.is_committed(space) else 0
        return count + (0 if changes is None else len(changes))
