"""The buffered records of one input partition. The first one is read before its turn: its timestamp
decides."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Protocol

from ...clients.serdes import Serde, deserializer
from .timestamps import FailOnInvalidTimestamp

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ...clients.records import Headers
    from ...protocol.model import TopicPartition
    from ..processing import Forward

NO_TIMESTAMP = -1


class InputRecord(Protocol):
    """A consumed record, as the consumers of `clients` return it. `headers` is a tuple of pairs."""

    @property
    def topic(self) -> str: ...
    @property
    def partition(self) -> int: ...
    @property
    def offset(self) -> int: ...
    @property
    def timestamp(self) -> int: ...
    @property
    def key(self) -> bytes | None: ...
    @property
    def value(self) -> bytes | None: ...
    @property
    def headers(self) -> Headers: ...


class ReadRecord:
    """An input record with its key and value read, for timestamp extractors."""

    __slots__ = ("key", "raw", "value")

    def __init__(self, raw: InputRecord, key: Any, value: Any) -> None:
        self.raw = raw
        self.key = key
        self.value = value

    def __getattr__(self, name: str) -> Any:
        return getattr(self.raw, name)


class RecordQueue:
    """Records of one partition in offset order.

    `timestamp` is that of the first record: -1 if it is only an unreadable record, whose offset is to be
    committed but which is not processed (`is_skipped`).
    """

    __slots__ = (
        "_default_extractor", "_dropped", "_extractor", "_failed", "_fifo", "_loads_key", "_loads_value",
        "_wall_ms", "head", "is_skipped", "key", "partition", "partition_time", "process", "timestamp",
        "value",
    )  # fmt: skip

    def __init__(
        self,
        partition: TopicPartition,
        process: Forward,
        key_serde: Any,
        value_serde: Any,
        extractor: Any,
        failed: Callable[[InputRecord, Exception], None],
        dropped: Callable[[str], None],
        wall_ms: Callable[[], int],
    ) -> None:
        """`failed` raises, or returns to skip a record that cannot be read."""
        self.partition = partition
        self.process = process
        self._loads_key = loader(key_serde, "key")
        self._loads_value = loader(value_serde, "value")
        self._extractor = extractor
        self._default_extractor = type(extractor) is FailOnInvalidTimestamp
        self._failed = failed
        self._dropped = dropped
        self._wall_ms = wall_ms
        self._fifo: deque[InputRecord] = deque()
        self.partition_time = NO_TIMESTAMP
        self.head: InputRecord | None = None
        self.is_skipped = False
        self.timestamp = NO_TIMESTAMP
        self.key: Any = None
        self.value: Any = None

    def __len__(self) -> int:
        return len(self._fifo) + (self.head is not None)

    def add(self, records: Iterable[InputRecord]) -> None:
        self._fifo.extend(records)
        if self.head is None:
            self._read_next()

    def advance(self) -> None:
        """Drop the first record, which has been taken, and read the next one."""
        if self.timestamp > self.partition_time:
            self.partition_time = self.timestamp
        self.head = None
        self._read_next()

    def _read_next(self) -> None:
        fifo = self._fifo
        raw = None
        while fifo:
            raw = fifo.popleft()
            try:
                key, value = raw.key, raw.value
                if key is not None:
                    key = self._loads_key(raw, key)
                if value is not None:
                    value = self._loads_value(raw, value)
            except Exception as error:  # noqa: BLE001  # of the user's serde; the handler decides
                self._failed(raw, error)
                continue
            timestamp = raw.timestamp
            if timestamp < 0 or not self._default_extractor:
                read = ReadRecord(raw, key, value)
                timestamp = self._extractor.extract(read, self.partition_time, self._wall_ms())
                if timestamp < 0:
                    self._dropped("negative timestamp")
                    continue
            self.head = raw
            self.is_skipped = False
            self.timestamp = timestamp
            self.key = key
            self.value = value
            return
        if raw is not None:
            self.head = raw
            self.is_skipped = True
            self.timestamp = NO_TIMESTAMP

    def clear(self) -> None:
        self._fifo.clear()
        self.head = None
        self.partition_time = NO_TIMESTAMP


def loader(serde: Any, field: str) -> Callable[[InputRecord, bytes], Any]:
    """Reads a key or value that is not null."""
    if isinstance(serde, Serde):
        loads = serde.loads
        return lambda _raw, data: loads(data)
    loads_in_context = deserializer(serde, field)
    return lambda raw, data: loads_in_context(raw.topic, data, raw.headers)
