"""What the processors of a topology pass on and keep: records, changes of tables, windowed keys."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

if TYPE_CHECKING:
    from ..clients.records import Headers

K = TypeVar("K")
V = TypeVar("V")


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
    """The input record that caused a write; caches keep it with each entry. `timestamp` in ms."""

    timestamp: int
    offset: int
    topic: str
    partition: int
    headers: Headers = ()


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


class VersionedRecord(NamedTuple, Generic[V]):
    """A version in a versioned store, valid from `timestamp` to before `valid_to` (None: still valid)."""

    value: V
    timestamp: int
    valid_to: int | None = None


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
