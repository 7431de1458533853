"""The writes of a persistent store since its last commit, over the files that have the others.

A crash loses the overlay alone: the files are those of a commit, with its changelog offset. A crash inside a
commit of a key-value store may leave some of its values with the offset before (docs/adr/0038).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from .merging import merged
from .sorted_keys import SortedKeys

if TYPE_CHECKING:
    from .engines import Engine

Rows = Iterator[tuple[bytes, bytes]]

_META, _STREAM_TIME = "meta", b"stream-time"

_OVERHEAD = 200  # bytes of a key and of Python's objects around key and value, about


class _Changes:
    """Uncommitted values of one key space; None: deleted."""

    __slots__ = ("keys", "values")

    def __init__(self) -> None:
        self.values: dict[bytes, bytes | None] = {}
        self.keys: SortedKeys | None = None

    def between(
        self, from_key: bytes | None, to_key: bytes | None, forward: bool
    ) -> list[tuple[bytes, bytes | None]]:
        if self.keys is None:
            self.keys = SortedKeys(self.values)
        keys = self.keys.between(from_key, to_key, to_inclusive=False)
        if not forward:
            keys.reverse()
        values = self.values
        return [(key, values[key]) for key in keys]


class Overlay:
    """Reads see all writes; an iterator sees those from before it was made, as one of RocksDB does.

    Invariant: `uncommitted_bytes` is 0 exactly after a commit. It is an estimate, which counts each write: a
    worker commits early when the overlays of its stores become too large.
    """

    __slots__ = ("_changes", "_dropped", "_engine", "_may_divide", "_spaces", "uncommitted_bytes")

    def __init__(self, engine: Engine, *, may_divide: bool = False) -> None:
        """`may_divide`: each record of the changelog is one entry, so that restoring from the last offset is
        right also if some entries are newer."""
        self._engine, self._may_divide = engine, may_divide
        self._changes: dict[str, _Changes] = {}
        self._dropped: list[str] = []
        self._spaces = set(engine.spaces())
        self.uncommitted_bytes = 0

    def spaces(self) -> set[str]:
        """The key spaces with committed or uncommitted values."""
        return self._spaces | self._changes.keys()

    # for readers in other threads: first the uncommitted values, then those of the engine

    @property
    def engine(self) -> Engine:
        """The committed values."""
        return self._engine

    def uncommitted(self, space: str) -> dict[bytes, bytes | None] | None:
        """The values of a key space since the last commit, a dict that only grows; None: none."""
        changes = self._changes.get(space)
        return None if changes is None else changes.values

    def is_committed(self, space: str) -> bool:
        """Whether the engine has the key space."""
        return space in self._spaces

    def get(self, space: str, key: bytes) -> bytes | None:
        changes = self._changes.get(space)
        if changes is not None and key in changes.values:
            return changes.values[key]
        if space in self._spaces:
            return self._engine.get(space, key)
        return None

    def put(self, space: str, key: bytes, value: bytes | None) -> None:
        """None deletes."""
        changes = self._changes.get(space)
        if changes is None:
            changes = self._changes[space] = _Changes()
        values = changes.values
        if changes.keys is not None and key not in values:
            changes.keys.add(key)
        values[key] = value
        self.uncommitted_bytes += _OVERHEAD if value is None else _OVERHEAD + len(value)

    def put_rows(self, space: str, keys: list[bytes], values: list[bytes | None]) -> None:
        changes = self._changes.get(space)
        if changes is None:
            changes = self._changes[space] = _Changes()
        if changes.keys is not None:
            for key in keys:
                if key not in changes.values:
                    changes.keys.add(key)
        changes.values.update(zip(keys, values, strict=True))
        self.uncommitted_bytes += _OVERHEAD * len(keys) + sum(map(len, filter(None, values)))

    def drop(self, space: str) -> None:
        """Remove a key space with all of its values."""
        self._changes.pop(space, None)
        if space in self._spaces:
            self._spaces.remove(space)
            self._dropped.append(space)
            self.uncommitted_bytes += _OVERHEAD

    def rows(
        self, space: str, from_key: bytes | None = None, to_key: bytes | None = None, forward: bool = True
    ) -> Rows:
        """Entries with `from_key` <= key < `to_key`."""
        changes = self._changes.get(space)
        over = changes.between(from_key, to_key, forward) if changes is not None else []
        if space not in self._spaces:
            return iter([(key, value) for key, value in over if value is not None])
        under = self._engine.rows(space, from_key, to_key, forward)
        return merged(iter(over), under, forward) if over else under

    def approximate_count(self, space: str) -> int:
        """The committed entries, and the uncommitted ones as if their keys were new."""
        changes = self._changes.get(space)
        count = self._engine.approximate_count(space) if space in self._spaces else 0
        return count + (0 if changes is None else len(changes.values))

    def stream_time(self) -> int:
        """The stream time of the last commit, -1 without one: a store that is opened again refuses what it
        refused before."""
        data = self.get(_META, _STREAM_TIME)
        return -1 if data is None else int.from_bytes(data, "big", signed=True)

    def commit(self, offset: int | None, stream_time: int = -1) -> None:
        """Write everything (see Engine.write). Errors: StateStoreError; the overlay is kept."""
        if self.uncommitted_bytes and stream_time >= 0:
            self.put(_META, _STREAM_TIME, stream_time.to_bytes(8, "big", signed=True))
        if not self.uncommitted_bytes and offset is None:
            return
        batch = {space: changes.values for space, changes in self._changes.items()}
        self._engine.write(batch, tuple(self._dropped), offset, may_divide=self._may_divide)
        self._spaces |= self._changes.keys()
        self._changes = {}
        self._dropped = []
        self.uncommitted_bytes = 0

    def committed_offset(self) -> int | None:
        return self._engine.offset()

    def close(self) -> None:
        """Drop what is not committed."""
        self._engine.close()
