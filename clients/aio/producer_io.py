"""The asyncio producer."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic

from ...protocol.errors import (
    ClosedError,
    FlushTimeoutError,
    HeadraceError,
    TransactionAbortableError,
    TransactionAbortedError,
)
from ...runtime.clock_io import wall_ms
from ..config import ProducerConfig
from ..losses_io import log_loss, raise_unless
from ..producer.appending import NO_PARTITION, NO_ROOM, NO_TOPIC
from ..producer.delivery_io import BatchResult, RecordFuture, until_done
from ..producer.outgoing_io import Outgoing, check_records, known_partition
from ..producer.partitioner import murmur2_sticky
from ..producer.producer_io import ProducerEngine
from ..records import K, PartitionInfo, ProducerRecord, RecordMetadata, V
from ..serdes import bytes_
from .cluster_io import attach_async
from .lines_io import Lines, future_of
from .transaction_io import AsyncTransactionalCalls

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from types import TracebackType
    from typing import Self, Unpack

    from ..arrow.sending_io import ArrowData, Need
    from ..options import ProducerOptions
    from ..producer.delivery_io import Delivery
    from ..producer.outgoing_io import SomeProducerInterceptor
    from ..producer.partitioner import Partitioner
    from ..records import HeadersLike, TimestampLike
    from ..serdes import Serializer
    from .cluster_io import AsyncCluster

_BYTES: Any = bytes_
YIELD_EVERY = 1000  # about a millisecond of work


class AsyncProducer(AsyncTransactionalCalls, Generic[K, V]):
    """Sends records from one event loop; `close` it, or use `async with`.

    Arguments are those of `Producer`. `send` is a plain call that returns an already scheduled future:
    `await producer.send(...)` is delivered, `future = producer.send(...)` is pipelined, and
    `await producer.drain()` between such calls keeps the buffer from filling up.
    """

    def __init__(
        self,
        bootstrap: str | Iterable[str] | AsyncCluster | None = None,
        *,
        key: Serializer[K] = _BYTES,
        value: Serializer[V] = _BYTES,
        partitioner: Partitioner = murmur2_sticky,
        interceptors: Iterable[SomeProducerInterceptor] = (),
        config: Mapping[str, Any] | None = None,
        **options: Unpack[ProducerOptions],
    ) -> None:
        attached = attach_async(bootstrap, ProducerConfig, config, options)
        self._cluster, self.config, self._owns_cluster = attached
        self._outgoing = Outgoing(self.config, key, value, partitioner, interceptors, wall_ms)
        self._made: ProducerEngine | None = None
        self._lines: Lines  # made with the engine
        self._is_closed = False
        self._cluster.add(self)

    def send(
        self,
        topic: str,
        value: V | None = None,
        *,
        key: K | None = None,
        partition: int | None = None,
        timestamp: TimestampLike | None = None,
        headers: HeadersLike = (),
    ) -> asyncio.Future[RecordMetadata]:
        """Hand one record over; awaiting the future gives where it lies, once acknowledged.

        Never blocks. Records that find no room, or no metadata yet, wait in line for up to max.block.ms;
        when those hold another buffer.memory, BufferExhaustedError is raised at once. Cancelling the future
        does not call the record back. Errors: SerializationError, MessageTooLargeError, ClosedError here;
        the others, as of `Producer.send`, from the future.
        """
        record = ProducerRecord(value, key, headers, partition, timestamp)
        outcome: asyncio.Future[RecordMetadata] = asyncio.get_running_loop().create_future()
        try:
            self._send(topic, record, outcome)
        except HeadraceError as error:
            self._outgoing.tell_failed(error)
            raise
        return outcome

    async def send_many(self, topic: str, records: Iterable[ProducerRecord[K, V] | V | None]) -> BatchResult:
        """Send many records, bare values or `ProducerRecord`s, and wait until each has its outcome.

        One that cannot be sent does not hold up the others. Errors: ClosedError; TypeError for what is no
        iterable of records.
        """
        check_records(records)
        outcomes: list[RecordFuture | asyncio.Future[RecordFuture]] = []
        self._check_open()
        for number, item in enumerate(records):
            if self._lines:
                await self._lines.until_room()
            elif number % YIELD_EVERY == YIELD_EVERY - 1:
                await asyncio.sleep(0)  # the loop has others to serve, and batches to send
            outcomes.append(self._send_or_fail(topic, item))
        entered = [await item if isinstance(item, asyncio.Future) else item for item in outcomes]
        result = BatchResult([*entered])
        await until_done(result.deliveries())
        return result

    async def send_arrow(
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

        As `Producer.send_arrow`, and waits until each row has its outcome.
        """
        from ..arrow.sending_io import ArrowSend, Names

        engine = self._engine
        names = Names(key, value, headers, partition, timestamp)
        sending = ArrowSend(self._outgoing, self.config, topic, data, names)
        if sending.needs_records:
            return await self.send_many(topic, sending.records())
        while topic in self._lines:  # what was sent before comes first
            await self._lines.until_one_ended()
        steps, answer, deadline_ms = sending.steps(engine), None, 0
        while True:
            try:
                need = steps.send(answer)
            except StopIteration as done:
                result: BatchResult = done.value
                await until_done(result.deliveries())
                return result
            if need.is_first:
                deadline_ms = self._lines.deadline_ms()
            answer = await self._meet(engine, topic, need, deadline_ms)

    async def drain(self) -> None:
        """Wait until there is room in the buffer and nothing waits in line.

        Errors: BufferExhaustedError after max.block.ms.
        """
        self._check_open()
        try:
            async with asyncio.timeout(self.config.max_block_ms / 1000):
                await self._lines.until_room()
        except TimeoutError:
            raise self._lines.no_room() from None

    async def flush(self, timeout: float | None = None) -> None:
        """Send everything now and wait until it is acknowledged or has failed; `timeout` in seconds.

        Errors: FlushTimeoutError with the number of records still on their way.
        """
        if self._made is None:
            return
        left: list[tuple[Delivery, int]] = []
        try:
            async with asyncio.timeout(timeout):
                await self._lines.until_buffered()
                left = self._made.flush()
                await until_done([delivery for delivery, _ in left])
        except TimeoutError:
            waiting = self._lines.counts().total()
            remaining = waiting + sum(count for delivery, count in left if not delivery.is_done)
            text = f"{remaining} records are still on their way after {timeout} s"
            raise FlushTimeoutError(text, remaining) from None

    async def partitions_for(self, topic: str) -> list[PartitionInfo]:
        """The partitions of a topic. Errors: UnknownTopicOrPartitionError, ApiTimeoutError."""
        engine = self._engine
        await engine.load_topic(topic, self._lines.deadline_ms())
        return engine.partitions(topic)

    def metrics(self) -> dict[str, float]:
        """Totals and gauges by Kafka's metric names."""
        return self._engine.metrics()

    async def close(self, timeout: float | None = None) -> None:
        """Flush, then end; an open transaction is aborted instead. As `Producer.close`."""
        if self._is_closed:
            return
        now = asyncio.get_running_loop().time
        ends_at = None if timeout is None else now() + timeout
        try:
            if self._made is not None and self._made.transactions is not None:
                await self._made.transactions.close(timeout)
            with contextlib.suppress(FlushTimeoutError):  # what is left is counted below
                await self.flush(None if ends_at is None else max(ends_at - now(), 0))
        except BaseException:
            lost = await self._end(timeout)
            if lost is not None:
                log_loss(lost)
            raise
        lost = await self._end(timeout)
        if lost is not None:
            raise lost

    def forked(self) -> None:
        """This process is a forked child: every further call fails with ClosedError."""
        self._is_closed = True
        if self._made is not None:
            self._made.forked()
            self._lines.over()

    async def __aenter__(self) -> Self:
        self._check_open()  # starts it on this loop
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            await self.close()
        except Exception as lost:  # noqa: BLE001 - raised, or logged behind the block's own
            raise_unless(error, lost)

    # --- inside -----------------------------------------------------------------------------------------

    def _check_open(self) -> None:
        """Errors: ClosedError; HeadraceError on another event loop than that of the first use."""
        assert self._engine is not None

    async def _end(self, timeout: float | None) -> BaseException | None:
        """Everything without an outcome fails with ClosedError; what `close` raises."""
        if self._is_closed:  # closed twice at the same time
            return None
        self._is_closed, lost = True, None
        self._cluster.remove(self)
        try:
            if self._made is not None:
                lost = self._made.end(self._lines.counts(), timeout)
                await self._lines.end(ClosedError("the producer was closed"))
                self._lines.over()
        finally:
            if self._owns_cluster:
                await self._cluster.close()
        return lost

    @property
    def _engine(self) -> ProducerEngine:
        hub = self._cluster.hub  # raises on another event loop than the first, and after a fork
        if self._is_closed:
            raise ClosedError("the producer was closed")
        if self._made is None:
            outgoing = self._outgoing
            self._made = ProducerEngine(
                hub, self.config, outgoing.partitioner, None, is_plain=outgoing.is_plain
            )
            self._lines = Lines(self._made, hub, self.config, outgoing)
            if self._made.transactions is not None:
                outgoing.on_failed = self._made.transactions.on_error
            else:
                outgoing.losses = self._made.losses
        return self._made

    def _send(
        self, topic: str, record: ProducerRecord[Any, Any], outcome: asyncio.Future[RecordMetadata]
    ) -> None:
        buffered = self._buffer(topic, record)
        if isinstance(buffered, RecordFuture):
            buffered.add_done_callback(lambda done: self._settle(outcome, done))
        else:
            buffered.add_done_callback(lambda entered: self._pass_on(outcome, entered))

    def _send_or_fail(self, topic: str, item: Any) -> RecordFuture | asyncio.Future[RecordFuture]:
        record: ProducerRecord[Any, Any]
        record = item if isinstance(item, ProducerRecord) else ProducerRecord(value=item)
        try:
            buffered = self._buffer(record.topic or topic, record)
        except ClosedError:
            raise
        except (HeadraceError, TypeError, ValueError) as error:
            return self._outgoing.failed(topic, item, error)
        if isinstance(buffered, RecordFuture):
            return buffered
        entered: asyncio.Future[RecordFuture] = asyncio.get_running_loop().create_future()

        def pass_on(waited: asyncio.Future[RecordFuture]) -> None:
            error = waited.exception()
            failed = waited.result() if error is None else self._outgoing.failed(topic, item, error)
            if not entered.done():
                entered.set_result(failed)

        buffered.add_done_callback(pass_on)
        return entered

    def _buffer(
        self, topic: str, record: ProducerRecord[Any, Any]
    ) -> RecordFuture | asyncio.Future[RecordFuture]:
        """The record's future, or while it has to wait in line, a future of that."""
        engine, outgoing = self._engine, self._outgoing
        # Order: not past those that wait in line.
        if record.timestamp is None and not record.headers and topic not in self._lines:
            future = engine.lanes.try_send(topic, record.value, record.key, record.partition)
            if future is not None:
                return future
        if not outgoing.is_intercepted:
            return self._enter(engine, topic, record)
        record = outgoing.intercept(record)
        topic = record.topic or topic
        try:
            buffered = self._enter(engine, topic, record)
        except (HeadraceError, TypeError, ValueError) as error:
            self._tell_interceptors(topic, record, error)
            raise
        if isinstance(buffered, RecordFuture):
            outgoing.watch(buffered)
        else:
            buffered.add_done_callback(lambda waited: self._watch_later(topic, record, waited))
        return buffered

    def _enter(
        self, engine: ProducerEngine, topic: str, record: ProducerRecord[Any, Any]
    ) -> RecordFuture | asyncio.Future[RecordFuture]:
        prepared = self._outgoing.prepare(topic, record.key, record.value, record.headers, record.timestamp)
        key, value, headers, timestamp_ms = prepared
        lines = self._lines
        if topic not in lines:
            found = engine.append(topic, key, value, headers, record.partition, timestamp_ms)
            if not isinstance(found, str):
                return future_of(found, prepared)
        return lines.add(topic, prepared, record.partition)

    async def _meet(
        self, engine: ProducerEngine, topic: str, need: Need, deadline_ms: int
    ) -> HeadraceError | None:
        """Wait for what `send_arrow` lacks; the error if that does not come."""
        try:
            if need.lacks == NO_ROOM:
                await self._lines.wait_for_room(deadline_ms)
            elif need.lacks in (NO_TOPIC, NO_PARTITION):
                least = 0 if need.partition is None else need.partition + 1
                await engine.load_topic(topic, deadline_ms, least)
            else:
                await asyncio.sleep(0)  # the loop has others to serve, and batches to send
        except ClosedError:
            raise
        except HeadraceError as error:
            return error
        return None

    def _watch_later(
        self, topic: str, record: ProducerRecord[Any, Any], waited: asyncio.Future[RecordFuture]
    ) -> None:
        if waited.cancelled():
            return
        error = waited.exception()
        if error is None:
            self._outgoing.watch(waited.result())
        else:
            self._tell_interceptors(topic, record, error)

    def _tell_interceptors(self, topic: str, record: ProducerRecord[Any, Any], error: BaseException) -> None:
        partition = known_partition(record.partition)
        self._outgoing.acknowledge(RecordMetadata(topic, partition, -1, -1, -1, -1), error)

    def _settle(self, outcome: asyncio.Future[RecordMetadata], done: RecordFuture) -> None:
        metadata, error = done.outcome()
        if error is not None:
            self._fail(outcome, error)
        elif not outcome.done():
            outcome.set_result(metadata)

    def _pass_on(
        self, outcome: asyncio.Future[RecordMetadata], entered: asyncio.Future[RecordFuture]
    ) -> None:
        error = entered.exception()
        if error is not None:
            self._fail(outcome, error)
        else:
            entered.result().add_done_callback(lambda done: self._settle(outcome, done))

    def _fail(self, outcome: asyncio.Future[RecordMetadata], error: BaseException) -> None:
        if not outcome.done():  # the user may have given up waiting
            outcome.set_exception(error)
            if isinstance(error, TransactionAbortableError | TransactionAbortedError):
                outcome.exception()  # the end of the transaction reports it; mark it as retrieved
        if self._outgoing.losses is not None:
            self._outgoing.losses.add(_Sent(outcome, error), 1)


@dataclass(slots=True, eq=False)
class _Sent:
    """The outcome of one record that has failed: an `Outcome`."""

    future: asyncio.Future[RecordMetadata]
    error: BaseException | None

    @property
    def is_reported(self) -> bool:
        """Whether the future was awaited or asked, which asyncio notes by turning off its own log line."""
        return not (self.future.cancelled() or getattr(self.future, "_log_traceback", False))
