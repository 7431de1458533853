"""The files of a store whose values have headers, also those that the store wrote without headers before.

Values with headers are in key spaces of their own. One without headers is read from the old key space until
it is written again. Source: RocksDBTimestampedStoreWithHeaders.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .engines import DamagedStoreError
from .formats.headers import NO_HEADERS
from .merging import merged

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from .engines import Engine
    from .stores import StoreContext

_MARK = "headers-"


def _has_values(space: str) -> bool:
    """Not the index of a segment, and not what a store knows of itself."""
    return space == "values" or space.isdigit()


def open_files(
    context: StoreContext, name: str, *, has_headers: bool = False, can_upgrade: bool = True
) -> Engine:
    """The files of a store. Errors: DamagedStoreError for files of the other format that cannot be converted:
    the changelog serves both formats."""
    engine = context.open_engine(name)
    spaces = engine.spaces()
    is_marked = any(space.startswith(_MARK) for space in spaces)
    is_old = any(map(_has_values, spaces))
    if (is_marked and not has_headers) or (is_old and has_headers and not can_upgrade):
        engine.close()
        before, now = ("with", "without") if is_marked else ("without", "with")
        raise DamagedStoreError(f"store {name} was written {before} headers and is now one {now} headers")
    return HeadersFiles(engine) if has_headers else engine


class HeadersFiles:
    """Invariant: no key is in a key space and in the one of its values without headers."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._spaces = set(engine.spaces())
        self.offset = engine.offset
        self.close = engine.close

    def spaces(self) -> list[str]:
        return sorted({space.removeprefix(_MARK) for space in self._spaces})

    def get(self, space: str, key: bytes) -> bytes | None:
        if not _has_values(space):
            return self._engine.get(space, key)
        value = self._engine.get(_MARK + space, key) if _MARK + space in self._spaces else None
        if value is None and space in self._spaces:
            old = self._engine.get(space, key)
            value = None if old is None else NO_HEADERS + old
        return value

    def rows(
        self, space: str, from_key: bytes | None, to_key: bytes | None, forward: bool
    ) -> Iterator[tuple[bytes, bytes]]:
        if not _has_values(space):
            return self._engine.rows(space, from_key, to_key, forward)
        found: list[Iterator[tuple[bytes, bytes]]] = [
            self._engine.rows(each, from_key, to_key, forward)
            for each in (_MARK + space, space)
            if each in self._spaces
        ]
        if space in self._spaces:
            found[-1] = ((key, NO_HEADERS + value) for key, value in found[-1])
        return merged(found[0], found[1], forward) if len(found) > 1 else found[0]

    def write(
        self,
        changes: Mapping[str, Mapping[bytes, bytes | None]],
        dropped_spaces: tuple[str, ...] = (),
        offset: int | None = None,
        *,
        may_divide: bool = False,
    ) -> None:
        del may_divide  # the invariant holds behind a crash as well
        marked: dict[str, Mapping[bytes, bytes | None]] = {}
        for space, values in changes.items():
            marked[_MARK + space if _has_values(space) else space] = values
            if _has_values(space) and space in self._spaces and space not in dropped_spaces:
                marked[space] = dict.fromkeys(values)
        dropped = [_MARK + space for space in dropped_spaces if _has_values(space)]
        self._engine.write(marked, (*dropped_spaces, *dropped), offset)
        self._spaces.difference_update(dropped_spaces, dropped)
        self._spaces.update(marked)

    def approximate_count(self, space: str) -> int:
        spaces = (space, _MARK + space)
        return sum(self._engine.approximate_count(each) for each in spaces if each in self._spaces)
