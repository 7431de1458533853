"""The buffered records of one input partition. The first one is read before its turn: its timestamp
decides."""

from __future__ import annotations

from collections import deque
from itertools import islice
from operator import index
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from ...clients.serdes import Serde, deserializer, loads_column
from ..errors import StreamsError
from .timestamps import FailOnInvalidTimestamp

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from ...clients.records import Headers
    from ...protocol.model import TopicPartition
    from ..processing import Forward, ProcessRun

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


class Run(NamedTuple):
    """Columns of consecutive records that are read: those to process, and at the end the one behind them."""

    raws: list[InputRecord]
    keys: list[Any]
    values: list[Any]
    timestamps: list[int]


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
        "_read_key", "_read_value", "_wall_ms", "consumed", "head", "is_skipped", "key", "partition",
        "partition_time", "process", "process_run", "serdes", "timestamp", "value",
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
        process_run: ProcessRun | None = None,
    ) -> None:
        """`failed` raises, or returns to skip a record that cannot be read. `process_run`: `process` of many
        records."""
        self.partition = partition
        self.process, self.process_run = process, process_run
        self.serdes = key_serde, value_serde
        self._loads_key, self._read_key = _plain_loads(key_serde), loader(key_serde, "key")
        self._loads_value, self._read_value = _plain_loads(value_serde), loader(value_serde, "value")
        self._extractor = extractor
        self._default_extractor = type(extractor) is FailOnInvalidTimestamp
        self._failed = failed
        self._dropped = dropped
        self._wall_ms = wall_ms
        self._fifo: deque[InputRecord] = deque()
        self.partition_time = NO_TIMESTAMP
        self.consumed = -1  # the offset of the last record that was processed
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

    def read_run(self, most: int, limit: int | None) -> Run | None:
        """The first record, up to `most` behind it, and the one after them, with keys and values read; all
        but the last have timestamps below `limit`. None where they are to be read one by one: the timestamp
        or the serdes depend on the record, or a handler has to decide on one."""
        if self._loads_key is None or self._loads_value is None:
            return None
        if not self._default_extractor or self.is_skipped:
            return None
        following = list(islice(self._fifo, most) if limit is None else self._below(limit, most))
        timestamps = [self.timestamp, *[raw.timestamp for raw in following]]
        if not following or min(timestamps) < 0:
            return None
        try:
            keys = loads_column(self.serdes[0], [raw.key for raw in following])
            values = loads_column(self.serdes[1], [raw.value for raw in following])
        except Exception:  # noqa: BLE001  # of the user's serde; it is raised again when its record is read
            return None
        assert self.head is not None
        return Run([self.head, *following], [self.key, *keys], [self.value, *values], timestamps)

    def _below(self, limit: int, most: int) -> Iterator[InputRecord]:
        """Up to `most` records behind the first one; the first that is not below `limit` ends them."""
        if self.timestamp < limit:
            for raw in islice(self._fifo, most):
                yield raw
                if raw.timestamp >= limit:
                    return

    def advance_in(self, run: Run, count: int, latest: int) -> None:
        """Drop the first `count` records of a run, which have been taken; `latest` is the largest timestamp
        of these."""
        if not count:
            return
        fifo = self._fifo
        if len(fifo) == count:
            fifo.clear()
        else:
            for _ in range(count):
                fifo.popleft()
        self.head = run.raws[count]
        self.key, self.value, self.timestamp = run.keys[count], run.values[count], run.timestamps[count]
        self.partition_time = max(self.partition_time, latest)

    def _read_next(self) -> None:
        fifo = self._fifo
        loads_key, loads_value = self._loads_key, self._loads_value
        raw = None
        while fifo:
            raw = fifo.popleft()
            try:
                key, value = raw.key, raw.value
                if key is not None:
                    key = self._read_key(raw, key) if loads_key is None else loads_key(key)
                if value is not None:
                    value = self._read_value(raw, value) if loads_value is None else loads_value(value)
            except Exception as error:  # noqa: BLE001  # of the user's serde; the handler decides
                self._failed(raw, error)
                continue
            timestamp = raw.timestamp
            if timestamp < 0 or not self._default_extractor:
                read = ReadRecord(raw, key, value)
                timestamp = self._extracted(read)
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

    def _extracted(self, read: ReadRecord) -> int:
        """Errors: StreamsError, which names the record."""
        try:
            return index(self._extractor.extract(read, self.partition_time, self._wall_ms()))
        except StreamsError:
            raise
        except Exception as error:
            raise StreamsError(
                f"the timestamp extractor failed on offset {read.offset} of {self.partition}:"
                f" {type(error).__name__}: {error}"
            ) from error

    def next_offset(self) -> int | None:
        """The offset to commit: that of the first buffered record, or behind the last processed one."""
        if self.head is not None:
            return self.head.offset
        return None if self.consumed < 0 else self.consumed + 1

    def clear(self) -> None:
        self._fifo.clear()
        self.head = None
        self.partition_time = NO_TIMESTAMP


def _plain_loads(serde: Any) -> Callable[[bytes], Any] | None:
    """`loads` of a serde that needs neither topic nor headers."""
    return serde.loads if isinstance(serde, Serde) else None


def loader(serde: Any, field: str) -> Callable[[InputRecord, bytes], Any]:
    """Reads a key or value that is not null."""
    if isinstance(serde, Serde):
        loads = serde.loads
        return lambda _raw, data: loads(data)
    loads_in_context = deserializer(serde, field)
    return lambda raw, data: loads_in_context(raw.topic, data, raw.headers)
