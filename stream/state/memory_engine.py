"""The files of a persistent store, in memory: for tests, simulation and the test driver."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .sorted_keys import SortedKeys

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


class _Space:
    """One key space."""

    __slots__ = ("keys", "values")

    def __init__(self) -> None:
        self.values: dict[bytes, bytes] = {}
        self.keys: SortedKeys | None = None


class MemoryEngine:
    """It outlives its store where a test opens the same one again: `close` keeps what was written."""

    def __init__(self) -> None:
        self._spaces: dict[str, _Space] = {}
        self._offset: int | None = None

    def spaces(self) -> list[str]:
        return sorted(self._spaces)

    def get(self, space: str, key: bytes) -> bytes | None:
        return self._spaces[space].values.get(key)

    def rows(
        self, space: str, from_key: bytes | None, to_key: bytes | None, forward: bool
    ) -> Iterator[tuple[bytes, bytes]]:
        found = self._spaces[space]
        if found.keys is None:
            found.keys = SortedKeys(found.values)
        keys = found.keys.between(from_key, to_key, to_inclusive=False)
        if not forward:
            keys.reverse()
        values = found.values
        return iter([(key, values[key]) for key in keys])

    def write(
        self,
        changes: Mapping[str, Mapping[bytes, bytes | None]],
        dropped_spaces: tuple[str, ...] = (),
        offset: int | None = None,
        *,
        may_divide: bool = False,
    ) -> None:
        for space in dropped_spaces:
            self._spaces.pop(space, None)
        for space, values in changes.items():
            self._write_space(self._spaces.setdefault(space, _Space()), values)
        if offset is not None:
            self._offset = offset

    @staticmethod
    def _write_space(found: _Space, changes: Mapping[bytes, bytes | None]) -> None:
        values, keys = found.values, found.keys
        for key, value in changes.items():
            if value is None:
                if values.pop(key, None) is not None and keys is not None:
                    keys.discard(key)
                continue
            if keys is not None and key not in values:
                keys.add(key)
            values[key] = value

    def offset(self) -> int | None:
        return self._offset

    def approximate_count(self, space: str) -> int:
        return len(self._spaces[space].values)

    def close(self) -> None:
        """What was written stays."""
