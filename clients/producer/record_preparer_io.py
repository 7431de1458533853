"""Records before they are buffered: interceptors, serializers, size check. For both producers."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from ...protocol.errors import MessageTooLargeError
from ..records import Headers, ProducerRecord, RecordMetadata, normalize_headers, timestamp_to_ms
from ..serdes import is_plain_bytes, serializer
from ..user_code import call_user, hooks_of
from .delivery_io import FailedFuture, RecordFuture
from .partitioner import murmur2_sticky
from .per_record_io import plain_sizes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ..config import ProducerConfig
    from ..losses_io import Losses
    from ..records import HeadersLike, TimestampLike
    from .partitioner import Partitioner

# A batch header has 61 bytes; a record at most 36 beside its key and value; see protocol/records.
OVERHEAD_BYTES = 61 + 36
HEADER_OVERHEAD_BYTES = 10
# Bound: how many values are appended under one hold of the lock, which the IO thread needs too; of an
# iterator, how many are collected before they are appended.
MAX_RUN = 4096
MAX_ITERATED_RUN = 256

Dumps = Callable[[str, Any, Headers], "bytes | None"]
# key, value, headers, timestamp in ms
PreparedRecord = tuple["bytes | None", "bytes | None", Headers, int]


class OnSend(Protocol):
    """An interceptor with `on_send`."""

    def on_send(self, record: ProducerRecord[Any, Any]) -> ProducerRecord[Any, Any] | None:
        """The record to send instead, before it is serialised; None for this one. Called in the thread that
        sends."""


class OnAcknowledgement(Protocol):
    """An interceptor with `on_acknowledgement`."""

    def on_acknowledgement(self, metadata: RecordMetadata, error: BaseException | None) -> Any:
        """The outcome; with an error the offset is -1. Called on the IO thread; must not block."""


class ProducerInterceptor(OnSend, OnAcknowledgement, Protocol):
    """Called for every record of a producer. Its errors are logged, and the record is sent. Each method may
    be left out: see `SomeProducerInterceptor`. Source: KIP-42."""


# What `interceptors=` takes: objects with at least one of the methods.
SomeProducerInterceptor: TypeAlias = OnSend | OnAcknowledgement


class RecordPreparer:
    """The user's settings of one producer, applied to each record."""

    def __init__(
        self,
        config: ProducerConfig,
        key: Any,
        value: Any,
        partitioner: Partitioner,
        interceptors: Iterable[SomeProducerInterceptor],
        wall_ms: Callable[[], int],
    ) -> None:
        if not callable(partitioner):
            raise TypeError(f"partitioner= takes a callable such as murmur2_sticky, not {partitioner!r}")
        self.partitioner: Partitioner = partitioner
        self._on_send, self._on_acknowledgement = hooks_of(interceptors, "on_send", "on_acknowledgement")
        self.is_intercepted = bool(self._on_send or self._on_acknowledgement)
        self._dumps_key, self._dumps_value = serializer(key, "key"), serializer(value, "value")
        self._is_plain_key, self._is_plain_value = is_plain_bytes(key), is_plain_bytes(value)
        self._max_bytes = config.max_request_size
        self.wall_ms = wall_ms
        # Called for each record that was not buffered: a transaction cannot be committed without it.
        self.on_failed: Callable[[BaseException], None] | None = None
        # None in a producer with transactions.
        self.losses: Losses | None = None

    @property
    def is_plain(self) -> bool:
        """Whether records are bytes without interceptors, so that only their size is checked."""
        return self._is_plain_key and self._is_plain_value and not self.is_intercepted

    def serializers(self) -> tuple[Dumps | None, Dumps | None]:
        """The serializers of key and value, `(topic, value, headers) -> bytes`; None for plain bytes."""
        return (
            None if self._is_plain_key else self._dumps_key,
            None if self._is_plain_value else self._dumps_value,
        )

    def prepare(
        self,
        topic: str,
        key: Any,
        value: Any,
        headers: HeadersLike,
        timestamp: TimestampLike | None,
    ) -> PreparedRecord:
        """Serialise a record. Errors: SerializationError, MessageTooLargeError, TypeError, ValueError."""
        pairs = normalize_headers(headers) if headers else ()
        if key is not None and not (self._is_plain_key and type(key) is bytes):
            key = self._dumps_key(topic, key, pairs)
        if value is not None and not (self._is_plain_value and type(value) is bytes):
            value = self._dumps_value(topic, value, pairs)
        size = (len(key) if key else 0) + (len(value) if value else 0)
        if size + OVERHEAD_BYTES > self._max_bytes or pairs:
            self._check_size(topic, size, pairs)
        return key, value, pairs, self.wall_ms() if timestamp is None else timestamp_to_ms(timestamp)

    def groups(self, records: Iterable[Any]) -> Iterator[tuple[Sequence[int] | None, list[Any]]]:
        """(sizes, plain values that need no serializer), or (None, [one record]), in the order of `records`.

        Iterables other than lists and tuples are read MAX_ITERATED_RUN items at a time.
        """
        is_plain = self._is_plain_value and not self.is_intercepted and self.partitioner is murmur2_sticky
        largest = self._max_bytes - OVERHEAD_BYTES
        for chunk in _chunks(records):
            position, count = 0, len(chunk)
            while position < count:
                sizes: Sequence[int] = ()
                if is_plain and type(chunk[position]) is bytes:
                    sizes = plain_sizes(chunk, position, largest)
                end = position + (len(sizes) or 1)
                yield (sizes or None), (chunk if end - position == count else chunk[position:end])
                position = end

    def failed(self, topic: str, item: Any, error: BaseException) -> RecordFuture:
        """The future of a record that was not buffered."""
        self.tell_failed(error)
        if isinstance(item, ProducerRecord):
            future = FailedFuture(item.topic or topic, known_partition(item.partition), error)
        else:
            future = FailedFuture(topic, -1, error)
        if self.losses is not None:
            self.losses.add(future.delivery, 1)
        return future

    def tell_failed(self, error: BaseException) -> None:
        """Report a record that was not buffered."""
        if self.on_failed is not None:
            self.on_failed(error)

    def intercept(self, record: ProducerRecord[Any, Any]) -> ProducerRecord[Any, Any]:
        """The record after all interceptors, in their order."""
        for on_send in self._on_send:
            changed = call_user(on_send, record)
            if isinstance(changed, ProducerRecord):
                record = changed
        return record

    def acknowledge(self, metadata: RecordMetadata, error: BaseException | None) -> None:
        """Call `on_acknowledgement` of all interceptors."""
        for on_acknowledgement in self._on_acknowledgement:
            call_user(on_acknowledgement, metadata, error)

    def watch(self, future: RecordFuture) -> None:
        """Call `acknowledge` when the record has its outcome."""
        future.add_done_callback(lambda done: self.acknowledge(*done.peek()))

    def _check_size(self, topic: str, size: int, headers: Headers) -> None:
        for name, value in headers:
            size += len(name.encode()) + len(value or b"") + HEADER_OVERHEAD_BYTES
        if size + OVERHEAD_BYTES > self._max_bytes:
            raise MessageTooLargeError(
                f"a record of {size} bytes for {topic!r} does not fit max.request.size ({self._max_bytes})"
            )


def known_partition(given: object) -> int:
    """The partition in the outcome of a record that was not buffered: -1 unless it is an integer."""
    return given if isinstance(given, int) else -1


def check_records(records: object) -> None:
    """Errors: TypeError for arguments that `send_many` does not take."""
    if isinstance(records, (bytes, bytearray, memoryview, str, ProducerRecord)) or not hasattr(
        records, "__iter__"
    ):
        raise TypeError(
            "records= is a list, or another iterable, of values or ProducerRecords, not"
            f" {type(records).__name__}"
        )


def _chunks(records: Iterable[Any]) -> Iterator[list[Any]]:
    """Copies, which the caller cannot modify."""
    if isinstance(records, (list, tuple)):
        for start in range(0, len(records), MAX_RUN):
            yield list(records[start : start + MAX_RUN])
    else:
        iterator = iter(records)
        while chunk := list(islice(iterator, MAX_ITERATED_RUN)):
            yield chunk
