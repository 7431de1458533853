"""The synchronous producer."""

from __future__ import annotations

import contextlib
import time
from functools import partial
from typing import TYPE_CHECKING, Any, Generic

from ...protocol.errors import (
    BufferExhaustedError,
    ClosedError,
    FlushTimeoutError,
    HeadraceError,
    UnknownTopicOrPartitionError,
)
from ...runtime.clock_io import wall_ms
from ..cluster.attach_io import attach
from ..cluster.cluster_io import ClusterIo
from ..config import ProducerConfig
from ..losses_io import log_loss, raise_unless
from ..producer.appending import NO_MEMORY, NO_PARTITION, NO_TOPIC
from ..producer.delivery_io import BatchResult, RecordFuture, Run
from ..producer.partitioner import murmur2_sticky
from ..producer.producer_io import ProducerEngine
from ..producer.record_preparer_io import RecordPreparer, check_records, known_partition
from ..records import K, PartitionInfo, ProducerRecord, RecordMetadata, V
from ..serdes import bytes_
from ..tracing.enabling_io import producer_tracing
from .transaction_io import TransactionalProducer

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from contextlib import AbstractContextManager
    from types import TracebackType
    from typing import Self, Unpack

    from ..arrow.sending_io import ArrowData, ArrowSend, Need
    from ..cluster.cluster_io import SharedCluster
    from ..cluster.hub_io import Hub
    from ..options import ProducerOptions
    from ..producer.delivery_io import Delivery
    from ..producer.partitioner import Partitioner
    from ..producer.record_preparer_io import PreparedRecord, SomeProducerInterceptor
    from ..producer.transaction_manager_io import TransactionManager
    from ..records import HeadersLike, TimestampLike
    from ..serdes import Serializer

_BYTES: Any = bytes_


class Producer(TransactionalProducer[K, V], Generic[K, V]):
    """Sends records; thread-safe. One per process is enough; `close` it, or use it as a context manager.

    `bootstrap` is "host:port,..." or a `Cluster` to share; None takes HEADRACE_BOOTSTRAP or finds the
    cluster that runs on Ray. Other keyword arguments are keys of ProducerConfig. An IO thread sends the
    records: no call has to poll.
    """

    def __init__(
        self,
        bootstrap: str | Iterable[str] | SharedCluster | None = None,
        *,
        key: Serializer[K] = _BYTES,
        value: Serializer[V] = _BYTES,
        partitioner: Partitioner = murmur2_sticky,
        interceptors: Iterable[SomeProducerInterceptor] = (),
        config: Mapping[str, Any] | None = None,
        **options: Unpack[ProducerOptions],
    ) -> None:
        self._io, self.config = attach(ClusterIo, bootstrap, ProducerConfig, config, options)
        with self._io.opening(self):
            self._preparer = RecordPreparer(self.config, key, value, partitioner, interceptors, wall_ms)
            self._engine: ProducerEngine = self._io.engine(self._new_engine).get()
        self._append = self._engine.append
        self.append_run = self._engine.lanes.append_run
        """See `Lanes`: records that join open batches at once. `send` takes the first of the others."""
        self._max_block_s = self.config.max_block_ms / 1000
        self._is_closed = False
        self._tracing = tracing = producer_tracing(self.config, self._io.hub.client_id)
        if tracing is not None:
            self._send_any = tracing.around_send(self._send_any)  # type: ignore[method-assign]
        # Over the method of the class, unless a subclass has its own: one call less for every record.
        send_any = self._send_any
        if self._engine.transactions is not None:
            send_any = self._send_in_transaction
            self._preparer.on_failed = self._record_failed
        else:
            self._preparer.losses = self._engine.losses
        lanes = self._engine.lanes
        send = lanes.bind(send_any) if tracing is None else tracing.bind(lanes, send_any)
        if type(self).send is Producer.send:
            self.send = send  # type: ignore[method-assign]

    def _new_engine(self, hub: Hub) -> ProducerEngine:
        preparer = self._preparer
        is_plain = preparer.is_plain and preparer.wall_ms is wall_ms
        return ProducerEngine(hub, self.config, preparer.partitioner, self._io.thread_id, is_plain=is_plain)

    def _transactions(self) -> TransactionManager | None:
        return self._engine.transactions

    def _commit_span(self) -> AbstractContextManager[None]:
        return super()._commit_span() if self._tracing is None else self._tracing.committing()

    def _until_buffered(self) -> None:
        """Nothing to wait for: `send` returns when the record is in a batch."""

    def _drop_unbuffered(self) -> None:
        """Nothing to drop."""

    def send(
        self,
        topic: str,
        value: V | None = None,
        *,
        key: K | None = None,
        partition: int | None = None,
        timestamp: TimestampLike | None = None,
        headers: HeadersLike = (),
    ) -> RecordFuture:
        """Send one record; the future has its partition and offset once it is acknowledged.

        Blocks only for the metadata of a new topic and while the buffer is full, up to max.block.ms.
        A value of None is a tombstone. Errors: SerializationError, MessageTooLargeError,
        UnknownTopicOrPartitionError, BufferExhaustedError, ClosedError; TypeError, ValueError (arguments).
        """
        return self._send_any(
            topic, value, key=key, partition=partition, timestamp=timestamp, headers=headers
        )

    def _send_any(
        self,
        topic: str,
        value: V | None = None,
        *,
        key: K | None = None,
        partition: int | None = None,
        timestamp: TimestampLike | None = None,
        headers: HeadersLike = (),
    ) -> RecordFuture:
        """`send` in Python; the compiled one calls it for records with serdes or headers."""
        preparer = self._preparer
        if preparer.is_intercepted:
            return self._send_intercepted(topic, ProducerRecord(value, key, headers, partition, timestamp))
        # `_send`, written out: this is the path of every record
        prepared = preparer.prepare(topic, key, value, headers, timestamp)
        key_data, value_data, pairs, timestamp_ms = prepared
        found = self._append(topic, key_data, value_data, pairs, partition, timestamp_ms)
        if isinstance(found, str):
            found = self._send_slowly(topic, prepared, partition, found)
        return RecordFuture(
            found[0],
            found[1],
            timestamp_ms,
            -1 if key_data is None else len(key_data),
            -1 if value_data is None else len(value_data),
        )

    def _send_in_transaction(self, topic: str, value: V | None = None, **facts: Any) -> RecordFuture:
        try:
            return self._send_any(topic, value, **facts)
        except HeadraceError as error:
            self._record_failed(error)
            raise

    def _record_failed(self, error: BaseException) -> None:
        assert self._engine.transactions is not None
        self._io.wake(partial(self._engine.transactions.on_error, error))

    def send_many(self, topic: str, records: Iterable[ProducerRecord[K, V] | V | None]) -> BatchResult:
        """Send many records: plain values, or `ProducerRecord`s with keys, headers and so on.

        Each record has its own outcome in the result; a record that cannot be sent does not hold up the
        others. Errors: ClosedError; TypeError for an argument that is no iterable of records.
        """
        check_records(records)
        sent = None if self._tracing is None else self._tracing.begin_call(topic)
        if sent is not None:
            return sent.around(partial(self._send_all, topic), records)
        return self._send_all(topic, records)

    def _send_all(self, topic: str, records: Iterable[Any]) -> BatchResult:
        outcomes: list[RecordFuture | Run] = []
        full: BufferExhaustedError | None = None  # after one timeout the others do not wait
        for sizes, items in self._preparer.groups(records):
            try:
                if full is not None:
                    raise full
                if sizes is None:
                    outcomes.append(self._send_item(topic, items[0]))
                else:
                    outcomes += self._send_values(topic, items, sizes)
            except BufferExhaustedError as error:
                full = error
                outcomes += [self._preparer.failed(topic, item, error) for item in items]
            except ClosedError:
                raise
            except (HeadraceError, TypeError, ValueError) as error:
                outcomes += [self._preparer.failed(topic, item, error) for item in items]
        return BatchResult(outcomes)

    def send_arrow(
        self,
        topic: str,
        data: ArrowData,
        *,
        key: str | None = "key",
        value: str | None = "value",
        headers: str | None = "headers",
        partition: str | None = "partition",
        timestamp: str | None = "timestamp",
    ) -> BatchResult:
        """Send every row of a pyarrow Table or RecordBatch, a data frame, or a dict of columns.

        The other arguments name the columns, None for one that is not used; the column of the values, and
        columns that are named, must exist. Blocks as `send`. Each row has its own outcome in the result, in
        row order; a row that cannot be sent does not hold up the others. Errors: TypeError, ValueError for
        the table as a whole, before any row is sent; ClosedError; ImportError without pyarrow.
        """
        from ..arrow.sending_io import ArrowSend, Names

        self._check_open()
        names = Names(key, value, headers, partition, timestamp)
        sending = ArrowSend(self._preparer, self.config, topic, data, names)
        if sending.needs_records:
            return self.send_many(topic, sending.records())
        sent = None if self._tracing is None else self._tracing.begin_call(topic)
        if sent is not None:
            return sent.around(lambda _: self._send_rows(topic, sending), ())
        return self._send_rows(topic, sending)

    def _send_rows(self, topic: str, sending: ArrowSend) -> BatchResult:
        steps, error, ends_at = sending.steps(self._engine), None, 0.0
        while True:
            try:
                need = steps.send(error)
            except StopIteration as done:
                result: BatchResult = done.value
                return result
            if need.is_first:
                ends_at = time.monotonic() + self._max_block_s
            error = self._meet(topic, need, ends_at - time.monotonic())

    def flush(self, timeout: float | None = None) -> None:
        """Send all records now and wait until they are acknowledged or have failed; `timeout` in seconds.

        Errors: FlushTimeoutError with the number of records without an outcome. The futures have the errors
        of failed records.
        """
        ends_at = None if timeout is None else time.monotonic() + timeout
        batches = self._engine.flush()
        for delivery, _ in batches:
            left = None if ends_at is None else max(ends_at - time.monotonic(), 0)
            if not delivery.wait(left):
                raise _flush_timeout(batches, timeout)

    def partitions_for(self, topic: str) -> list[PartitionInfo]:
        """The partitions of a topic. Errors: UnknownTopicOrPartitionError, ApiTimeoutError."""
        self._check_open()
        self._io.call(self._engine.load_topic(topic, self._deadline_ms()))
        return self._engine.partitions(topic)

    def metrics(self) -> dict[str, float]:
        """Totals and gauges by Kafka's metric names."""
        return self._engine.metrics()

    def close(self, timeout: float | None = None) -> None:
        """Flush and close; an open transaction is aborted instead. Records that are not acknowledged within
        `timeout` seconds, delivery.timeout.ms by default, fail with ClosedError. Connections are closed in
        any case, and a second call does nothing.

        Errors: FlushTimeoutError with the number of records that were not acknowledged; else the first
        delivery error that no future has reported.
        """
        if self._is_closed:
            return
        self._io.check_may_block()
        self._is_closed = True
        ends_at = None if timeout is None else time.monotonic() + timeout
        try:
            if self._engine.transactions is not None:
                with contextlib.suppress(ClosedError):
                    self._io.call(self._engine.transactions.close(timeout))
            with contextlib.suppress(FlushTimeoutError):  # what is left is counted below
                self.flush(None if ends_at is None else max(ends_at - time.monotonic(), 0))
        except BaseException:
            lost = self._end(timeout)
            if lost is not None:
                log_loss(lost)
            raise
        lost = self._end(timeout)
        if lost is not None:
            raise lost

    def forked(self) -> None:
        """Make every further call raise ClosedError: this process is a forked child."""
        self._is_closed = True
        self._engine.forked()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.close()
        except Exception as lost:  # noqa: BLE001 - raised, or logged behind the block's own
            raise_unless(error, lost)

    def _end(self, timeout: float | None) -> BaseException | None:
        """Fail all records without an outcome with ClosedError; gives the error that `close` raises."""
        try:
            return self._io.run(self._engine.end, {}, timeout)
        except ClosedError:  # the IO thread has ended, and every record with it
            return self._engine.losses.first()
        finally:
            self._io.leave(self)

    def _check_open(self) -> None:
        if self._is_closed:
            raise ClosedError("the producer was closed")

    def _deadline_ms(self) -> int:
        return self._io.hub.now_ms() + self.config.max_block_ms

    def _send_values(self, topic: str, values: list[bytes], sizes: Sequence[int]) -> list[RecordFuture | Run]:
        """Append plain bytes without keys; values that are in a batch before an error keep their outcome."""
        outcomes: list[RecordFuture | Run] = []
        start, timestamp_ms = 0, self._preparer.wall_ms()
        while start < len(values):
            runs, lacks = self._engine.append_values(topic, values, start, timestamp_ms)
            for delivery, first, count in runs:
                outcomes.append(Run(delivery, first, timestamp_ms, sizes[start : start + count]))
                start += count
            if lacks is not None:
                try:
                    outcomes.append(self._send(topic, (None, values[start], (), timestamp_ms), None))
                except (HeadraceError, ValueError) as error:
                    if not outcomes:
                        raise
                    outcomes += [self._preparer.failed(topic, value, error) for value in values[start:]]
                    break
                start += 1
        return outcomes

    def _send_item(self, topic: str, item: Any) -> RecordFuture:
        record: ProducerRecord[Any, Any]
        record = item if isinstance(item, ProducerRecord) else ProducerRecord(value=item)
        topic = record.topic or topic
        if record.timestamp is None and not record.headers:
            future = self._engine.lanes.try_send(topic, record.value, record.key, record.partition)
            if future is not None:
                return future
        if self._preparer.is_intercepted:
            return self._send_intercepted(topic, record)
        prepared = self._preparer.prepare(topic, record.key, record.value, record.headers, record.timestamp)
        return self._send(topic, prepared, record.partition)

    def _send_intercepted(self, topic: str, record: ProducerRecord[Any, Any]) -> RecordFuture:
        preparer = self._preparer
        record = preparer.intercept(record)
        topic = record.topic or topic
        try:
            prepared = preparer.prepare(topic, record.key, record.value, record.headers, record.timestamp)
            future = self._send(topic, prepared, record.partition)
        except (HeadraceError, TypeError, ValueError) as error:
            partition = known_partition(record.partition)
            preparer.acknowledge(RecordMetadata(topic, partition, -1, -1, -1, -1), error)
            raise
        preparer.watch(future)
        return future

    def _send(self, topic: str, prepared: PreparedRecord, partition: int | None) -> RecordFuture:
        key, value, headers, timestamp_ms = prepared
        found = self._engine.append(topic, key, value, headers, partition, timestamp_ms)
        if isinstance(found, str):
            found = self._send_slowly(topic, prepared, partition, found)
        delivery, index = found
        key_size = -1 if key is None else len(key)
        value_size = -1 if value is None else len(value)
        return RecordFuture(delivery, index, timestamp_ms, key_size, value_size)

    def _send_slowly(
        self, topic: str, prepared: PreparedRecord, partition: int | None, lacks: str
    ) -> tuple[Delivery, int]:
        """Wait for metadata or memory, up to max.block.ms in all, and append."""
        self._check_open()
        key, value, headers, timestamp_ms = prepared
        ends_at = time.monotonic() + self._max_block_s
        while True:
            left_s = ends_at - time.monotonic()
            if lacks == NO_MEMORY:
                self._wait_for_memory(left_s)
            else:
                assert lacks in (NO_TOPIC, NO_PARTITION), lacks
                self._load(topic, partition if lacks == NO_PARTITION else None, left_s)
            found = self._engine.append(topic, key, value, headers, partition, timestamp_ms)
            if not isinstance(found, str):
                return found
            lacks = found

    def _meet(self, topic: str, need: Need, left_s: float) -> HeadraceError | None:
        """Wait for the metadata or the memory that `send_arrow` needs; the error when the wait fails."""
        try:
            if need.lacks == NO_MEMORY:
                self._wait_for_memory(left_s)
            elif need.lacks in (NO_TOPIC, NO_PARTITION):
                self._load(topic, need.partition, left_s)
        except ClosedError:
            raise
        except HeadraceError as error:
            return error
        return None

    def _wait_for_memory(self, left_s: float) -> None:
        if self._io.is_io_thread():
            raise BufferExhaustedError(
                "the buffer is full, and waiting on the client's IO thread would never end"
            )
        if not self._engine.wait_for_memory(left_s):
            raise BufferExhaustedError(
                f"the buffer ({self.config.buffer_memory} bytes) was full for {self.config.max_block_ms} ms;"
                f" {self._engine.oldest_cause()}"
            )

    def _load(self, topic: str, partition: int | None, left_s: float) -> None:
        if partition is not None and partition < 0:
            raise UnknownTopicOrPartitionError(f"partition {partition} of {topic!r}")
        deadline_ms = self._io.hub.now_ms() + max(int(left_s * 1000), 0)
        least = 0 if partition is None else partition + 1
        self._io.call(self._engine.load_topic(topic, deadline_ms, least))


def _flush_timeout(batches: list[tuple[Delivery, int]], timeout: float | None) -> FlushTimeoutError:
    remaining = sum(count for delivery, count in batches if not delivery.is_done)
    return FlushTimeoutError(f"{remaining} records are not acknowledged after {timeout} s", remaining)
