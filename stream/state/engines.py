"""The files of a persistent store: a sorted map of bytes that is changed in batches, in memory or on a disk.

An engine has several key spaces by name, so that the segments of a window store are dropped at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from ..errors import StreamsError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


class StateStoreError(StreamsError):
    """A state store cannot be opened, read or written."""


class DamagedStoreError(StateStoreError):
    """The files of a store cannot be read: delete them, the changelog has all of their records."""


class StoreLockedError(StateStoreError):
    """Another process has the files of a store open."""


class StoreFullError(StateStoreError):
    """The disk is full. What was not written is kept in memory; the commit can be repeated."""

    retriable = True


class Engine(Protocol):
    """Reads see what `write` wrote, not what a caller keeps uncommitted. Errors of all: StateStoreError."""

    def spaces(self) -> list[str]:
        """The names of the key spaces that exist."""

    def get(self, space: str, key: bytes) -> bytes | None: ...

    def rows(
        self, space: str, from_key: bytes | None, to_key: bytes | None, forward: bool
    ) -> Iterator[tuple[bytes, bytes]]:
        """Entries with `from_key` <= key < `to_key`. Close the iterator or read it to its end."""

    def write(
        self,
        changes: Mapping[str, Mapping[bytes, bytes | None]],
        dropped_spaces: tuple[str, ...] = (),
        offset: int | None = None,
        *,
        may_divide: bool = False,
    ) -> None:
        """Values by key space and key (None deletes), whole key spaces, and the offset. All or nothing; with
        `may_divide` a crash may leave some of the values with the offset from before, from which the
        changelog has the entries again."""

    def offset(self) -> int | None:
        """The offset of the last write that had one."""

    def approximate_count(self, space: str) -> int: ...

    def close(self) -> None: ...
