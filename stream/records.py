"""Ids of tasks; what the processors of a topology pass on and keep: records, changes, windowed keys."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, NoReturn, TypeVar

if TYPE_CHECKING:
    from ..clients.records import Headers

K = TypeVar("K")
V = TypeVar("V")


class TaskId(NamedTuple):
    """A task: one sub-topology over one partition of its source topics."""

    sub_topology: int
    partition: int

    def __str__(self) -> str:
        return f"{self.sub_topology}_{self.partition}"


class Record(NamedTuple, Generic[K, V]):
    """A record as a processor of the Processor API receives and forwards it. `timestamp` in ms."""

    key: K
    value: V
    timestamp: int
    headers: Headers = ()


class RecordMetadata(NamedTuple):
    """The position of the input record that is being processed."""

    topic: str
    partition: int
    offset: int


class RecordContext(NamedTuple):
    """The input record that caused a write; caches keep it with each entry. `timestamp` in ms. `raw_key` and
    `raw_value`: the bytes of the input record, for its dead letter."""

    timestamp: int
    offset: int
    topic: str
    partition: int
    headers: Headers = ()
    raw_key: bytes | None = None
    raw_value: bytes | None = None


class LateRecord(NamedTuple, Generic[K, V]):
    """A record that an operator dropped because it came too late. Times in ms.

    `window`: the window that was closed already, None for a table; `metadata`: the position of the input
    record that was processed.
    """

    key: K
    value: V
    timestamp: int
    headers: Headers
    window: Window | None
    stream_time: int
    metadata: RecordMetadata | None = None

    @property
    def lateness_ms(self) -> int:
        """By how much stream time is ahead of the record."""
        return self.stream_time - self.timestamp


class Change(NamedTuple):
    """A change of one key of a table. `old` is None as well where the table does not send old values;
    `is_latest` is False for an update of a versioned table behind a newer version."""

    new: Any
    old: Any
    is_latest: bool = True


class ValueAndTimestamp(NamedTuple, Generic[V]):
    """A value of a timestamped store. `timestamp` in ms."""

    value: V
    timestamp: int


class ValueTimestampHeaders(NamedTuple, Generic[V]):
    """A value of a timestamped store with headers. `timestamp` in ms."""

    value: V
    timestamp: int
    headers: Headers = ()


class AggregationWithHeaders(NamedTuple, Generic[V]):
    """An aggregate of a session store with headers."""

    aggregation: V
    headers: Headers = ()


class VersionedRecord(NamedTuple, Generic[V]):
    """A version in a versioned store, valid from `timestamp` to before `valid_to` (None: still valid)."""

    value: V
    timestamp: int
    valid_to: int | None = None


def _read_only(self: Row, *_arguments: object, **_values: object) -> NoReturn:
    raise TypeError("a row cannot be changed: make a dict of it, dict(row)")


class Row(dict[str, Any]):
    """The result of named aggregates: a read-only dict by name, whose values are attributes as well.

    A name that is a method of dict (`items`, `values`, ...) is read as row["items"].
    """

    __slots__ = ("states",)
    states: tuple[Any, ...]
    """What the aggregates keep; only in rows from the store of the aggregates."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"the row has no {name}, but {', '.join(self)}") from None

    def __reduce__(self) -> tuple[type[Row], tuple[dict[str, Any]]]:
        return Row, (dict(self),)

    __setitem__ = __delitem__ = __ior__ = _read_only
    clear = pop = popitem = setdefault = update = _read_only


@dataclass(frozen=True, slots=True)
class Window:
    """A span of event time in ms. A time window contains `start` and not `end`; a session window both."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Windowed(Generic[K]):
    """The key of a windowed aggregate."""

    key: K
    window: Window
