"""Records, headers and timestamps of users, and the outcome of a send."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol

from ..protocol.model import TopicPartition

if TYPE_CHECKING:
    # PEP 696 defaults make `Producer()` a Producer[bytes, bytes]; needed by type checkers only
    from typing_extensions import TypeVar

    K = TypeVar("K", default=bytes)
    V = TypeVar("V", default=bytes)
    K_co = TypeVar("K_co", covariant=True, default=bytes)
    V_co = TypeVar("V_co", covariant=True, default=bytes)
else:
    from typing import TypeVar

    K = TypeVar("K")
    V = TypeVar("V")
    K_co = TypeVar("K_co", covariant=True)
    V_co = TypeVar("V_co", covariant=True)

HeaderValue = bytes | str | None
HeadersLike = Mapping[str, HeaderValue] | Sequence[tuple[str, HeaderValue]]
Headers = tuple[tuple[str, bytes | None], ...]
TimestampLike = int | datetime


class RecordMetadata(NamedTuple):
    """The position of an acknowledged record. `offset` is -1 with acks=0; sizes are -1 for null."""

    topic: str
    partition: int
    offset: int
    timestamp: int  # ms; the log's own under LogAppendTime
    serialized_key_size: int
    serialized_value_size: int

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


@dataclass(frozen=True, slots=True)
class ProducerRecord(Generic[K, V]):
    """One record to send, for `send_many` and interceptors; `topic` None takes that of the call."""

    value: V | None = None
    key: K | None = None
    headers: HeadersLike = ()
    partition: int | None = None
    timestamp: TimestampLike | None = None
    topic: str | None = None


class Record(Protocol[K_co, V_co]):
    """One consumed record. `key` and `value` are None for null."""

    @property
    def topic(self) -> str: ...
    @property
    def partition(self) -> int: ...
    @property
    def offset(self) -> int: ...
    @property
    def timestamp(self) -> int: ...
    @property
    def timestamp_type(self) -> int: ...
    @property
    def key(self) -> K_co | None: ...
    @property
    def value(self) -> V_co | None: ...
    @property
    def headers(self) -> Headers: ...
    @property
    def leader_epoch(self) -> int: ...
    def replace(self, **changes: Any) -> Record[Any, Any]:
        """A copy with other values of these attributes: records are immutable."""


class PartitionInfo(NamedTuple):
    """A partition in the cluster metadata; `leader` is -1 without one."""

    topic: str
    partition: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]


class OffsetAndTimestamp(NamedTuple):
    """An offset found by timestamp; the timestamp is that of its record."""

    offset: int
    timestamp: int
    leader_epoch: int


def normalize_headers(headers: HeadersLike) -> Headers:
    """Headers in the codec's form: text values become UTF-8. Errors: TypeError with the header."""
    if not headers:
        return ()
    pairs: Iterable[Any] = headers.items() if isinstance(headers, Mapping) else headers
    return tuple([_header(pair) for pair in pairs])


def _header(pair: Any) -> tuple[str, bytes | None]:
    # a text of two letters or a mapping of two keys would unpack too, unintentionally
    parts: Any = () if isinstance(pair, (str, Mapping)) else pair
    try:
        name, value = parts
    except (TypeError, ValueError) as error:
        raise TypeError(f"headers must be (name, value) pairs or a mapping, not {pair!r}") from error
    if not isinstance(name, str):
        raise TypeError(f"a header name must be text, not {name!r}")
    if isinstance(value, str):
        return name, value.encode()
    if value is None or isinstance(value, bytes):
        return name, value
    if isinstance(value, (bytearray, memoryview)):
        return name, bytes(value)
    raise TypeError(f"the value of header {name!r} must be bytes, text or None, not {type(value).__name__}")


def timestamp_to_ms(timestamp: TimestampLike) -> int:
    """Milliseconds since 1970, from a number of ms or an aware datetime.

    Errors: ValueError for a naive datetime or a negative number, TypeError for another type.
    """
    if isinstance(timestamp, datetime):
        if timestamp.tzinfo is None:
            raise ValueError(f"timestamp {timestamp!r} has no time zone; use datetime.now(timezone.utc)")
        timestamp = round(timestamp.timestamp() * 1000)
    if isinstance(timestamp, bool) or not isinstance(timestamp, int):
        raise TypeError(f"a timestamp must be milliseconds (int) or a datetime, not {timestamp!r}")
    if timestamp < 0:
        raise ValueError(f"a timestamp must not be negative: {timestamp}")
    return timestamp
