"""Queries and their results as messages between instances. Pure.

Keys and values are bytes of the store. A result is rows of columns: the columns of its key, then those of its
value. Source of the shapes: `run_query`.
"""

from __future__ import annotations

from dataclasses import fields
from itertools import islice, takewhile
from typing import TYPE_CHECKING, Any, NamedTuple

from ...protocol.messages.streams_queries import InputOffset
from ...protocol.model import TopicPartition
from ..records import VersionedRecord, Window, Windowed
from ..state.store_spec import StoreKind
from ..state.value_formats import AGGREGATION_WITH_HEADERS, PLAIN, TIMESTAMPED, WITH_HEADERS, ValueFormat
from .errors import WrongStoreKindError
from .execute import KEY_VALUE, plain, run_query
from .position import Position
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
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from ...clients.serdes import Serde
    from ...protocol.messages.streams_queries import StreamsQueryPartition

    Row = tuple[bytes | int | None, ...]

STATUS = "Status"  # in place of the name of a query
POINTS = "Points"  # keys of several partitions: `partitions` has that of each key
MAX_ROWS = 10_000
MAX_BYTES = 4 << 20
KEY_QUERIES = (
    KeyQuery,
    TimestampedKeyQuery,
    WindowKeyQuery,
    WindowRangeQuery,
    VersionedKeyQuery,
    MultiVersionedKeyQuery,
)
POINT_QUERIES = (KeyQuery, TimestampedKeyQuery, VersionedKeyQuery, CountQuery)
RANGES = (RangeQuery, TimestampedRangeQuery, PrefixQuery)
_QUERIES: dict[str, type[Any]] = {
    each.__name__: each
    for each in (*KEY_QUERIES, KeysQuery, CountQuery, RangeQuery, TimestampedRangeQuery, PrefixQuery)
}
_KEYS = frozenset(("key", "lower", "upper"))
_FORMATS: dict[StoreKind, ValueFormat] = {
    StoreKind.TIMESTAMPED_KEY_VALUE: TIMESTAMPED,
    StoreKind.TIMESTAMPED_WINDOW: TIMESTAMPED,
    StoreKind.TIMESTAMPED_KEY_VALUE_WITH_HEADERS: WITH_HEADERS,
    StoreKind.TIMESTAMPED_WINDOW_WITH_HEADERS: WITH_HEADERS,
    StoreKind.SESSION_WITH_HEADERS: AGGREGATION_WITH_HEADERS,
}


def key_of(query: Any) -> Any:
    """The key of a query for one key; None: a query of all partitions."""
    return query.key if isinstance(query, KEY_QUERIES) else None


def arguments_of(query: Any, dumps_key: Callable[[Any], bytes]) -> tuple[Any, ...]:
    """The fields of a query, keys in bytes. Errors: those of the serde; WrongStoreKindError if it is not a
    query."""
    if type(query) not in _QUERIES.values():
        raise WrongStoreKindError(f"{query!r} is no query")
    if isinstance(query, KeysQuery):
        return tuple(map(dumps_key, query.keys))
    return tuple(
        dumps_key(value) if each.name in _KEYS and value is not None else value
        for each in fields(query)
        for value in (getattr(query, each.name),)
    )


def query_from(name: str, arguments: tuple[Any, ...]) -> Any:
    """The query of a message, keys in bytes. Errors: ValueError for an unknown query, or wrong fields."""
    kind = _QUERIES.get(name)
    if kind is None:
        raise ValueError(f"there is no query {name!r}")
    if kind is KeysQuery:
        if not all(isinstance(key, bytes) for key in arguments):
            raise ValueError("KeysQuery: a key cannot be something else than bytes")
        return KeysQuery(arguments)
    names = fields(kind)
    if len(arguments) != len(names):
        raise ValueError(f"a {name} has {len(names)} arguments, not {len(arguments)}")
    for each, value in zip(names, arguments, strict=True):
        if not _fits(each.name, value):
            raise ValueError(f"{name}: {each.name} cannot be {value!r}")
    return kind(*arguments)


def points_from(arguments: tuple[Any, ...], partitions: tuple[int, ...]) -> dict[int, KeysQuery]:
    """The keys by partition, in their order. Errors: ValueError for something else than keys, or for another
    number of partitions."""
    if len(arguments) != len(partitions) or not all(isinstance(key, bytes) for key in arguments):
        raise ValueError(f"{POINTS}: keys are bytes, each with its partition")
    found: dict[int, list[bytes]] = {}
    for key, partition in zip(arguments, partitions, strict=True):
        found.setdefault(partition, []).append(key)
    return {partition: KeysQuery(tuple(keys)) for partition, keys in found.items()}


def values_by_partition(results: Iterable[StreamsQueryPartition]) -> dict[int, Iterator[bytes | None]]:
    """The values of the keys of each partition that was answered, in the order of `points_from`."""
    return {each.partition: iter([row[0] for row in each.rows]) for each in results if not each.failure}  # type: ignore[misc]  # `loads_value` checks it


def _fits(name: str, value: Any) -> bool:
    if name == "prefix":
        return isinstance(value, bytes)
    if name in _KEYS:
        return isinstance(value, bytes) or value is None
    if name in ("descending", "ascending"):
        return isinstance(value, bool)
    return (isinstance(value, int) and not isinstance(value, bool)) or (value is None and name == "as_of")


# --- the side of the store --------------------------------------------------------------------------------


class Rows(NamedTuple):
    """What one response takes of a result."""

    rows: tuple[Row, ...]
    has_more: bool


def read_rows(kind: StoreKind, reader: Any, query: Any, resume: bytes | None) -> Rows:
    """The rows of a result; `reader` reads in bytes. Errors: as `run_query`."""
    if isinstance(query, (VersionedKeyQuery, CountQuery, *POINT_QUERIES[:2])):
        # The value as stored: the client knows the format
        asked = TimestampedKeyQuery(query.key) if type(query) is KeyQuery and kind in _FORMATS else query
        value = run_query(kind, reader, asked)
        return Rows(() if value is None else (_columns(value),), False)
    if isinstance(query, KeysQuery):
        if kind not in KEY_VALUE:
            raise WrongStoreKindError(f"a {kind.value} store does not answer a KeysQuery")
        return Rows(tuple([(reader.get(key),) for key in query.keys]), False)
    found = _range_of(kind, reader, query, resume)
    rows: list[Row] = []
    size = 0
    try:
        for row in islice(found, MAX_ROWS):
            rows.append(_columns(row))
            size += sum(len(column) for column in rows[-1] if isinstance(column, bytes))
            if size >= MAX_BYTES:
                break
        has_more = (len(rows) == MAX_ROWS or size >= MAX_BYTES) and next(found, None) is not None
    finally:
        found.close()
    return Rows(tuple(rows), has_more)


def _range_of(kind: StoreKind, reader: Any, query: Any, resume: bytes | None) -> Any:
    if not isinstance(query, RANGES):
        return run_query(kind, reader, query)
    if type(query) is TimestampedRangeQuery and kind not in _FORMATS:
        raise WrongStoreKindError(f"a {kind.value} store does not answer a TimestampedRangeQuery")
    if kind not in KEY_VALUE:
        raise WrongStoreKindError(f"a {kind.value} store does not answer a {type(query).__name__}")
    if isinstance(query, PrefixQuery):
        rows = reader.prefix_scan(query.prefix) if resume is None else reader.range(resume, None)
        return _Prefixed(rows, query.prefix)
    lower, upper = query.lower, query.upper
    if resume is not None:
        lower, upper = (lower, resume) if query.descending else (resume, upper)
    return (reader.reverse_range if query.descending else reader.range)(lower, upper)


class _Prefixed:
    """Rows up to the last one whose key has the prefix."""

    def __init__(self, rows: Any, prefix: bytes) -> None:
        self.close = rows.close
        self._rows = takewhile(lambda row: row[0].startswith(prefix), rows)

    def __iter__(self) -> Iterator[Any]:
        return self._rows

    def __next__(self) -> Any:
        return next(self._rows)


def _columns(found: Any) -> Row:
    if isinstance(found, VersionedRecord):
        return found.value, found.timestamp, found.valid_to
    if not isinstance(found, tuple):
        return (found,)
    key, value = found
    if isinstance(key, Windowed):
        return key.key, key.window.start, key.window.end, value
    return key, value


# --- the side of the client -------------------------------------------------------------------------------


class Decoder:
    """Typed results from rows of bytes, for the serdes of a store."""

    def __init__(self, kind: StoreKind, key: Serde[Any], value: Serde[Any]) -> None:
        self.kind = kind
        self.dumps_key = key.dumps
        self._loads_key = key.loads
        self._loads = _FORMATS.get(kind, PLAIN).typed(value).loads

    def loads_value(self, value: bytes | int | None) -> Any:
        """The value of a get, without its timestamp."""
        return None if value is None else plain(self.kind, self._loads(_bytes(value)))

    def value(self, query: Any, rows: Iterable[Row]) -> Any:
        """The result of `run_query`, with a list in place of an iterator."""
        found = list(rows)
        if isinstance(query, POINT_QUERIES):
            return self._point(query, found[0]) if found else None
        if isinstance(query, KeysQuery):
            return [None if value is None else self._typed(query, value) for (value,) in found]
        return [self._row(query, row) for row in found]

    def _point(self, query: Any, row: Row) -> Any:
        if isinstance(query, CountQuery):
            return row[0]
        if isinstance(query, VersionedKeyQuery):
            return self._version(row)
        return self._typed(query, row[0])

    def _version(self, row: Row) -> VersionedRecord[Any]:
        value, timestamp, valid_to = row
        assert isinstance(timestamp, int)
        assert not isinstance(valid_to, bytes)
        return VersionedRecord(self._loads(_bytes(value)), timestamp, valid_to)

    def _row(self, query: Any, row: Row) -> Any:
        if isinstance(query, MultiVersionedKeyQuery):
            return self._version(row)
        if isinstance(query, WindowKeyQuery):
            return row[0], self._loads(_bytes(row[1]))
        if isinstance(query, WindowRangeQuery):
            key, start, end, value = row
            assert isinstance(start, int)
            assert isinstance(end, int)
            return Windowed(self._loads_key(_bytes(key)), Window(start, end)), self._loads(_bytes(value))
        return self._loads_key(_bytes(row[0])), self._typed(query, row[1])

    def _typed(self, query: Any, value: bytes | int | None) -> Any:
        found = self._loads(_bytes(value))
        return (
            found
            if isinstance(query, (TimestampedKeyQuery, TimestampedRangeQuery))
            else plain(self.kind, found)
        )


def _bytes(value: bytes | int | None) -> bytes:
    if not isinstance(value, bytes):
        raise ValueError(f"a column that is {value!r}, not bytes")  # noqa: TRY004  # of a peer, not of a caller
    return value


def offsets_of(position: Mapping[TopicPartition, int]) -> tuple[InputOffset, ...]:
    """A position as it is sent."""
    return tuple(InputOffset(tp.topic, tp.partition, offset) for tp, offset in position.items())


def position_from(offsets: Iterable[InputOffset]) -> Position:
    """A position as it was received."""
    return Position({TopicPartition(each.topic, each.partition): each.offset for each in offsets})
