"""Reads of stores of bytes beside the stream thread: twins of the stores in `stream/state`, without writes.

A twin is created for each read, which takes some microseconds: data that a write changes in several steps,
such as the list of segments, is copied at the start.
"""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING, Any, TypeVar

from ..state.key_value_bytes import VALUES, InMemoryKeyValueBytes, LruKeyValueBytes, PersistentKeyValueBytes
from ..state.session_bytes import InMemorySessionBytes, PersistentSessionBytes
from ..state.versioned_store import VersionedBytes
from ..state.window_bytes import InMemoryWindowBytes, PersistentWindowBytes
from .errors import StoreUnavailableError, WrongStoreKindError
from .space_reads_io import SpaceReads

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Rows = Iterator[tuple[bytes, bytes]]

T = TypeVar("T")
_MOST_TRIES = 100_000  # each takes microseconds, and a write some more


class _Reads:
    """Has the attributes that a typed store reads."""

    def __init__(self, **reads: Any) -> None:
        self.__dict__.update(reads)


class ByteReads:
    """The reads of one store of bytes of a task. `is_committed`: only the state of the last commit."""

    def __init__(self, inner: Any, *, is_committed: bool) -> None:
        """Errors: WrongStoreKindError for a store that cannot be read in this way."""
        self._inner = inner
        make = _TWINS.get(type(inner))
        if make is None:
            if not getattr(inner, "thread_safe", False):
                raise WrongStoreKindError(
                    f"a {type(inner).__name__} cannot be queried; the store of a supplier only with"
                    " thread_safe = True"
                )
            make = _itself
        if is_committed and type(inner) not in _COMMITTED:
            raise WrongStoreKindError("in-memory stores do not track commits: query read_uncommitted")
        overlay = _overlay_of(inner)
        self._spaces = None if overlay is None else SpaceReads(overlay, is_committed=is_committed)
        self._make: Callable[[Any, Any], Any] = make

    def twin(self) -> Any:
        return self._make(self._inner, self._spaces)


def knows_committed(inner: Any) -> bool:
    """Whether the store can be read as of its last commit."""
    return type(inner) in _COMMITTED


def _overlay_of(inner: Any) -> Any:
    if type(inner) in (PersistentWindowBytes, PersistentSessionBytes):
        inner = inner._segmented  # noqa: SLF001  # the twin of this store
    return getattr(inner, "_overlay", None)


def _itself(inner: Any, _spaces: Any) -> Any:
    return inner


def _key_value(_inner: PersistentKeyValueBytes, spaces: SpaceReads) -> _Reads:
    return _Reads(
        get=lambda key: spaces.get(VALUES, key),
        rows=lambda from_key, to_key, forward: spaces.rows(VALUES, from_key, to_key, forward),
        approximate_num_entries=lambda: spaces.approximate_count(VALUES),
    )


def _key_value_in_memory(inner: InMemoryKeyValueBytes | LruKeyValueBytes, _spaces: Any) -> _Reads:
    values: dict[bytes, bytes] = inner._values  # noqa: SLF001  # the twin of this store

    def rows(from_key: bytes | None, to_key: bytes | None, forward: bool) -> Rows:
        found = [
            (key, value)
            for key, value in dict(values).items()
            if (from_key is None or from_key <= key) and (to_key is None or key < to_key)
        ]
        found.sort(reverse=not forward)
        return iter(found)

    return _Reads(get=values.get, rows=rows, approximate_num_entries=values.__len__)


def _segmented(inner: Any, spaces: SpaceReads) -> Any:
    segmented = copy(inner._segmented)  # noqa: SLF001  # the twin of this store
    segments = copy(segmented._segments)  # noqa: SLF001  # as above
    segments.numbers = segments.numbers[:]
    segmented._segments, segmented._overlay = segments, spaces  # noqa: SLF001  # as above
    twin = copy(inner)
    twin._segmented, twin.rows = segmented, segmented.rows  # noqa: SLF001  # as above
    return twin


def _window_in_memory(inner: InMemoryWindowBytes, _spaces: Any) -> _Reads:
    return _Reads(
        schema=inner.schema,
        segment_interval_ms=inner.segment_interval_ms,
        fetch=inner.peek,
        rows=inner.peek_rows,
        all_rows=lambda from_time, to_time, forward: inner.peek_rows(None, None, from_time, to_time, forward),
    )


def _session_in_memory(inner: InMemorySessionBytes, _spaces: Any) -> _Reads:
    return _Reads(
        schema=inner.schema,
        segment_interval_ms=inner.segment_interval_ms,
        fetch_session=inner.peek,
        rows=inner.peek_rows,
        rows_by_end=inner.peek_rows_by_end,
    )


def _versioned(inner: VersionedBytes, spaces: SpaceReads) -> _Reads:
    """A write changes several entries: the read is repeated if a write happened meanwhile."""

    def undisturbed(read: Callable[[Any], T]) -> T:
        for _ in range(_MOST_TRIES):
            before = inner.changes
            if before % 2 == 0:
                twin = copy(inner)
                segments = copy(inner._segments)  # noqa: SLF001  # the twin of this store
                segments.numbers = segments.numbers[:]
                twin._segments, twin._overlay = segments, spaces  # type: ignore[assignment]  # noqa: SLF001
                found = read(twin)
                if inner.changes == before:
                    return found
        raise StoreUnavailableError("the store is written all the time: retry the query")

    return _Reads(
        get=lambda key: undisturbed(lambda twin: twin.get(key)),
        get_as_of=lambda key, when: undisturbed(lambda twin: twin.get_as_of(key, when)),
        versions=lambda key, from_time, to_time, ascending: iter(
            undisturbed(lambda twin: list(twin.versions(key, from_time, to_time, ascending)))
        ),
    )


_TWINS: dict[type[Any], Callable[[Any, Any], Any]] = {
    PersistentKeyValueBytes: _key_value,
    InMemoryKeyValueBytes: _key_value_in_memory,
    LruKeyValueBytes: _key_value_in_memory,
    PersistentWindowBytes: _segmented,
    PersistentSessionBytes: _segmented,
    InMemoryWindowBytes: _window_in_memory,
    InMemorySessionBytes: _session_in_memory,
    VersionedBytes: _versioned,
}
_COMMITTED = frozenset(
    (PersistentKeyValueBytes, PersistentWindowBytes, PersistentSessionBytes, VersionedBytes)
)
