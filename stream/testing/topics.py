"""Input and output topics of the test driver."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, TypeVar

if TYPE_CHECKING:
    from ...clients.records import Headers
    from ..records import Record

K = TypeVar("K")
V = TypeVar("V")

HeadersLike = Mapping[str, bytes | None] | Sequence[tuple[str, bytes | None]]


class StoredRecord(NamedTuple):
    """A record of a topic, in bytes. `timestamp` in ms."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


class Pipe(Protocol):
    """The driver behind a topic."""

    def pipe(
        self, topic: str, key: Any, value: Any, timestamp: int, headers: Headers, serdes: Any
    ) -> None: ...

    def next_output(self, topic: str, serdes: Any) -> Record[Any, Any] | None: ...

    def outputs_left(self, topic: str) -> int: ...


class InputTopic(Generic[K, V]):
    """Passes records to the topology, each at its own time or at that of the topic.

    The time of the topic starts at `start_ms` and advances by `auto_advance_ms` with every record that uses
    it.
    """

    def __init__(self, driver: Pipe, topic: str, serdes: Any, start_ms: int, auto_advance_ms: int) -> None:
        if auto_advance_ms < 0:
            raise ValueError(f"auto_advance must not be negative: {auto_advance_ms} ms")
        self.topic = topic
        self._driver = driver
        self._serdes = serdes
        self._time_ms = start_ms
        self._auto_advance_ms = auto_advance_ms

    def advance_time(self, by: int | timedelta) -> None:
        """Advance the time of the topic (int: ms)."""
        by_ms = to_ms(by)
        if by_ms < 0:
            raise ValueError(f"time does not go back: {by_ms} ms")
        self._time_ms += by_ms

    def pipe_input(
        self,
        key: K | None,
        value: V | None,
        timestamp: int | datetime | None = None,
        headers: HeadersLike = (),
    ) -> None:
        """Process one record, and all that follow from it."""
        if timestamp is None:
            timestamp = self._time_ms
            self._time_ms += self._auto_advance_ms
        pairs = headers.items() if isinstance(headers, Mapping) else headers
        self._driver.pipe(self.topic, key, value, to_time(timestamp), tuple(pairs), self._serdes)

    def pipe_value(self, value: V | None, timestamp: int | datetime | None = None) -> None:
        """Process one record without a key."""
        self.pipe_input(None, value, timestamp)

    def pipe_records(self, records: Iterable[Record[K, V]]) -> None:
        for record in records:
            self.pipe_input(*record)

    def pipe_key_values(
        self,
        pairs: Iterable[tuple[K | None, V | None]],
        start: int | datetime | None = None,
        advance: int | timedelta = 0,
    ) -> None:
        """Process records, from `start` on `advance` apart; without `start`, at the time of the topic."""
        time_ms = None if start is None else to_time(start)
        for key, value in pairs:
            self.pipe_input(key, value, time_ms)
            if time_ms is not None:
                time_ms += to_ms(advance)


class OutputTopic(Generic[K, V]):
    """Reads the records that the topology has sent to a topic, each once."""

    def __init__(self, driver: Pipe, topic: str, serdes: Any) -> None:
        self.topic = topic
        self._driver = driver
        self._serdes = serdes

    @property
    def queue_size(self) -> int:
        return self._driver.outputs_left(self.topic)

    @property
    def is_empty(self) -> bool:
        return self.queue_size == 0

    def read_record(self) -> Record[K, V]:
        """The next record. Errors: LookupError if there is none."""
        record = self._driver.next_output(self.topic, self._serdes)
        if record is None:
            raise LookupError(f"no record is left in topic {self.topic}")
        return record

    def read_value(self) -> V:
        return self.read_record().value

    def read_key_value(self) -> tuple[K, V]:
        record = self.read_record()
        return record.key, record.value

    def read_records(self) -> list[Record[K, V]]:
        """All records that are left."""
        return [self.read_record() for _ in range(self.queue_size)]

    def read_key_values(self) -> list[tuple[K, V]]:
        return [(record.key, record.value) for record in self.read_records()]

    def read_values(self) -> list[V]:
        return [record.value for record in self.read_records()]

    def read_key_values_to_map(self) -> dict[K, V]:
        """The last value of each key. Errors: ValueError for a null key."""
        result: dict[K, V] = {}
        for record in self.read_records():
            if record.key is None:
                raise ValueError(f"a record of topic {self.topic} has a null key")
            result[record.key] = record.value
        return result


def to_ms(duration: int | timedelta) -> int:
    """Milliseconds of a duration."""
    return duration // timedelta(milliseconds=1) if isinstance(duration, timedelta) else duration


def to_time(time: int | datetime) -> int:
    """Milliseconds since the epoch."""
    return int(time.timestamp() * 1000) if isinstance(time, datetime) else time
