"""Executes queries on a reader of a typed store, which takes and returns deserialized keys and values.
Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..state.store_spec import StoreKind
from ..state.stores import StoreIterator
from .errors import WrongStoreKindError
from .queries import (
    CountQuery,
    KeyQuery,
    KeysQuery,
    MultiVersionedKeyQuery,
    PrefixQuery,
    RangeQuery,
    TimestampedKeyQuery,
    TimestampedRangeQuery,
    VersionedKeyQuery,
    WindowKeyQuery,
    WindowRangeQuery,
)

if TYPE_CHECKING:
    from collections.abc import Callable

KEY_VALUE = frozenset(
    (
        StoreKind.KEY_VALUE,
        StoreKind.TIMESTAMPED_KEY_VALUE,
        StoreKind.TIMESTAMPED_KEY_VALUE_WITH_HEADERS,
    )
)
WINDOW = frozenset(
    (StoreKind.WINDOW, StoreKind.TIMESTAMPED_WINDOW, StoreKind.TIMESTAMPED_WINDOW_WITH_HEADERS)
)
SESSION = frozenset((StoreKind.SESSION, StoreKind.SESSION_WITH_HEADERS))
VERSIONED = frozenset((StoreKind.VERSIONED_KEY_VALUE,))
_TIMESTAMPED = KEY_VALUE - {StoreKind.KEY_VALUE}
_WRAPPED = _TIMESTAMPED | (WINDOW - {StoreKind.WINDOW})


def run_query(kind: StoreKind, reader: Any, query: Any) -> Any:
    """The value, or an iterator. Errors: WrongStoreKindError; those of serdes and of the store."""
    takes, run = _RUNS.get(type(query), (frozenset(), _none))
    if kind not in takes:
        raise WrongStoreKindError(f"a {kind.value} store does not answer a {type(query).__name__}")
    return run(kind, reader, query)


def _none(_kind: StoreKind, _reader: Any, _query: Any) -> Any:
    raise AssertionError("no kind of store takes this query")


def plain(kind: StoreKind, found: Any) -> Any:
    """The value without the timestamp or headers that the store has."""
    return found if found is None or kind not in _WRAPPED else found.value


def _plain_rows(kind: StoreKind, rows: StoreIterator[Any]) -> StoreIterator[Any]:
    if kind not in _TIMESTAMPED:
        return rows
    return StoreIterator(((key, found.value) for key, found in rows), rows.close)


def _range(_kind: StoreKind, reader: Any, query: Any) -> StoreIterator[Any]:
    read = reader.reverse_range if query.descending else reader.range
    found: StoreIterator[Any] = read(query.lower, query.upper)
    return found


def _window_range(kind: StoreKind, reader: Any, query: WindowRangeQuery) -> StoreIterator[Any]:
    found: StoreIterator[Any]
    if kind in SESSION:
        if query.key is None:
            raise WrongStoreKindError("a WindowRangeQuery of a session store needs a key")
        found = reader.find_sessions(query.key, query.from_time, query.to_time)
    elif query.key is not None:
        raise WrongStoreKindError("a WindowRangeQuery of a window store takes no key: use a WindowKeyQuery")
    else:
        found = reader.fetch_all(query.from_time, query.to_time)
    return found


def _versioned(_kind: StoreKind, reader: Any, query: VersionedKeyQuery) -> Any:
    return reader.get(query.key) if query.as_of is None else reader.get_as_of(query.key, query.as_of)


def _versions(_kind: StoreKind, reader: Any, query: MultiVersionedKeyQuery) -> StoreIterator[Any]:
    rows = reader.get_versions(query.key, query.from_time, query.to_time, query.ascending)
    return StoreIterator((version for _, version in rows), rows.close)


_RUNS: dict[type[Any], tuple[frozenset[StoreKind], Callable[[StoreKind, Any, Any], Any]]] = {
    KeyQuery: (KEY_VALUE, lambda kind, reader, query: plain(kind, reader.get(query.key))),
    KeysQuery: (
        KEY_VALUE,
        lambda kind, reader, query: [plain(kind, reader.get(key)) for key in query.keys],
    ),
    TimestampedKeyQuery: (_TIMESTAMPED, lambda _, reader, query: reader.get(query.key)),
    RangeQuery: (KEY_VALUE, lambda kind, reader, query: _plain_rows(kind, _range(kind, reader, query))),
    TimestampedRangeQuery: (_TIMESTAMPED, _range),
    PrefixQuery: (
        KEY_VALUE,
        lambda kind, reader, query: _plain_rows(kind, reader.prefix_scan(query.prefix)),
    ),
    CountQuery: (KEY_VALUE, lambda _, reader, __: reader.approximate_num_entries()),
    WindowKeyQuery: (
        WINDOW,
        lambda _, reader, query: reader.fetch_range(query.key, query.from_time, query.to_time),
    ),
    WindowRangeQuery: (WINDOW | SESSION, _window_range),
    VersionedKeyQuery: (VERSIONED, _versioned),
    MultiVersionedKeyQuery: (VERSIONED, _versions),
}
