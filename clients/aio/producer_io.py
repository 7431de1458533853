"""The asyncio producer."""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic

from ...protocol.errors import (
    BufferExhaustedError,
    ClosedError,
    FlushTimeoutError,
    HeadraceError,
    TransactionAbortableError,
    TransactionAbortedError,
    UnknownTopicOrPartitionError,
)
from ...runtime.clock_io import wall_ms
from ..config import ProducerConfig
from ..producer.delivery_io import BatchResult, RecordFuture, until_done
from ..producer.outgoing_io import OVERHEAD_BYTES, Outgoing, check_records, known_partition
from ..producer.partitioner import murmur2_sticky
from ..producer.producer_io import NO_PARTITION, NO_ROOM, NO_TOPIC, ProducerEngine
from ..records import K, PartitionInfo, ProducerRecord, RecordMetadata, V
from ..serdes import bytes_
from .cluster_io import attach_async
from .transaction_io import AsyncTransactionalCalls

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from types import TracebackType
    from typing import Self, Unpack

    from ..arrow.sending_io import ArrowData, Need
    from ..options import ProducerOptions
    from ..producer.delivery_io import Delivery
    from ..producer.outgoing_io import Prepared, ProducerInterceptor
    from ..producer.partitioner import Partitioner
    from ..records import HeadersLike, TimestampLike
    from ..serdes import Serializer
    from .cluster_io import AsyncCluster

_BYTES: Any = bytes_
YIELD_EVERY = 1000  # about a millisecond of work


@dataclass(slots=True, eq=False)
class _Waiting:
    """A record that cannot be buffered yet: its topic is not known, or there is no room."""

    prepared: Prepared
    partition: int | None
    future: asyncio.Future[RecordFuture]
    deadline_ms: int
    size_bytes: int


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
        interceptors: Iterable[ProducerInterceptor] = (),
        config: Mapping[str, Any] | None = None,
        **options: Unpack[ProducerOptions],
    ) -> None:
        attached = attach_async(bootstrap, ProducerConfig, config, options)
        self._cluster, self.config, self._owns_cluster = attached
        self._outgoing = Outgoing(self.config, key, value, partitioner, interceptors, wall_ms)
        self._made: ProducerEngine | None = None
        self._lines: dict[str, deque[_Waiting]] = {}  # by topic: what waits, in the order of the calls
        self._line_tasks: dict[str, asyncio.Task[Any] | None] = {}
        self._lines_ended_by: HeadraceError = ClosedError("the client was closed")
        self._waiting_bytes = 0
        self._room = asyncio.Event()
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
        for number, item in enumerate(records):
            if self._lines:
                await self._until_room()
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
            await self._line_ended()
        steps, answer, deadline_ms = sending.steps(engine), None, 0
        while True:
            try:
                need = steps.send(answer)
            except StopIteration as done:
                result: BatchResult = done.value
                await until_done(result.deliveries())
                return result
            if need.is_first:
                deadline_ms = self._deadline_ms()
            answer = await self._meet(engine, topic, need, deadline_ms)

    async def drain(self) -> None:
        """Wait until there is room in the buffer and nothing waits in line.

        Errors: BufferExhaustedError after max.block.ms.
        """
        self._engine.metrics()  # a closed producer has nothing to wait for, and says so
        try:
            async with asyncio.timeout(self.config.max_block_ms / 1000):
                await self._until_room()
        except TimeoutError:
            raise self._no_room() from None

    async def flush(self, timeout: float | None = None) -> None:
        """Send everything now and wait until it is acknowledged or has failed; `timeout` in seconds.

        Errors: FlushTimeoutError with the number of records still on their way.
        """
        if self._made is None:
            return
        left: list[tuple[Delivery, int]] = []
        try:
            async with asyncio.timeout(timeout):
                await self._enter_lines()
                left = self._made.flush()
                await until_done([delivery for delivery, _ in left])
        except TimeoutError:
            waiting = sum(len(line) for line in self._lines.values())
            remaining = waiting + sum(count for delivery, count in left if not delivery.is_done)
            text = f"{remaining} records are still on their way after {timeout} s"
            raise FlushTimeoutError(text, remaining) from None

    async def partitions_for(self, topic: str) -> list[PartitionInfo]:
        """The partitions of a topic. Errors: UnknownTopicOrPartitionError, ApiTimeoutError."""
        engine = self._engine
        await engine.load_topic(topic, self._deadline_ms())
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
            await self.flush(None if ends_at is None else max(ends_at - now(), 0))
        except FlushTimeoutError:
            pass  # the futures tell
        finally:
            self._is_closed = True
            self._cluster.remove(self)
            if self._made is not None:
                self._made.fail(ClosedError("the producer was closed"))
                await self._end_lines(ClosedError("the producer was closed"))
            if self._owns_cluster:
                await self._cluster.close()

    async def __aenter__(self) -> Self:
        self._engine.metrics()  # starts it on this loop
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    # --- inside -----------------------------------------------------------------------------------------

    @property
    def _engine(self) -> ProducerEngine:
        if self._is_closed:
            raise ClosedError("the producer was closed")
        hub = self._cluster.hub  # raises on another event loop than the first
        if self._made is None:
            outgoing = self._outgoing
            self._made = ProducerEngine(
                hub, self.config, outgoing.partitioner, None, is_plain=outgoing.is_plain
            )
            self._made.add_room_listener(self._room.set)
            if self._made.transactions is not None:
                outgoing.on_failed = self._made.transactions.on_error
        return self._made

    def _send(
        self, topic: str, record: ProducerRecord[Any, Any], outcome: asyncio.Future[RecordMetadata]
    ) -> None:
        buffered = self._buffer(topic, record)
        if isinstance(buffered, RecordFuture):
            buffered.add_done_callback(lambda done: _settle(outcome, done))
        else:
            buffered.add_done_callback(lambda entered: _pass_on(outcome, entered))

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
        if topic not in self._lines:
            found = engine.append(topic, key, value, headers, record.partition, timestamp_ms)
            if not isinstance(found, str):
                return _future(found, prepared)
        size_bytes = len(key or b"") + len(value or b"") + OVERHEAD_BYTES
        if self._waiting_bytes + size_bytes > self.config.buffer_memory:
            raise self._no_room()
        waiting = _Waiting(
            prepared,
            record.partition,
            asyncio.get_running_loop().create_future(),
            self._deadline_ms(),
            size_bytes,
        )
        self._waiting_bytes += size_bytes
        if topic in self._lines:
            self._lines[topic].append(waiting)
        else:
            self._lines[topic] = deque([waiting])
            self._line_tasks[topic] = self._cluster.hub.tasks.spawn(self._serve_line(topic))
        return waiting.future

    async def _serve_line(self, topic: str) -> None:
        """Buffer what waits for one topic, in order, until nothing does."""
        line, engine = self._lines[topic], self._made
        assert engine is not None
        try:
            while line:
                waiting = line[0]
                try:
                    found = await self._append_when_possible(engine, topic, waiting)
                except (HeadraceError, TypeError, ValueError) as error:
                    self._outgoing.tell_failed(error)
                    if not waiting.future.done():
                        waiting.future.set_exception(error)
                else:
                    if not waiting.future.done():
                        waiting.future.set_result(_future(found, waiting.prepared))
                line.popleft()
                self._waiting_bytes -= waiting.size_bytes
        finally:
            self._close_line(topic)

    def _close_line(self, topic: str) -> None:
        del self._line_tasks[topic]
        for waiting in self._lines.pop(topic):  # cancelled: the client ends, or the transaction
            self._waiting_bytes -= waiting.size_bytes
            if not waiting.future.done():
                waiting.future.set_exception(self._lines_ended_by)
        self._room.set()

    async def _append_when_possible(
        self, engine: ProducerEngine, topic: str, waiting: _Waiting
    ) -> tuple[Delivery, int]:
        key, value, headers, timestamp_ms = waiting.prepared
        while True:
            found = engine.append(topic, key, value, headers, waiting.partition, timestamp_ms)
            if not isinstance(found, str):
                return found
            if found == NO_ROOM:
                await self._wait_for_room(engine, waiting.deadline_ms)
                continue
            least = 0
            if found == NO_PARTITION:
                least = (waiting.partition or 0) + 1
                if least < 1:
                    raise UnknownTopicOrPartitionError(f"partition {waiting.partition} of {topic!r}")
            await engine.load_topic(topic, waiting.deadline_ms, least)

    async def _wait_for_room(self, engine: ProducerEngine, deadline_ms: int) -> None:
        left_ms = deadline_ms - self._cluster.hub.now_ms()
        if left_ms <= 0:
            raise self._no_room()
        engine.raise_waiting()
        try:
            self._room.clear()
            async with asyncio.timeout(left_ms / 1000):
                await self._room.wait()
        except TimeoutError:
            raise self._no_room() from None
        finally:
            engine.lower_waiting()

    async def _meet(
        self, engine: ProducerEngine, topic: str, need: Need, deadline_ms: int
    ) -> HeadraceError | None:
        """Wait for what `send_arrow` lacks; the error if that does not come."""
        try:
            if need.lacks == NO_ROOM:
                await self._wait_for_room(engine, deadline_ms)
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

    async def _until_room(self) -> None:
        while self._lines or (self._made is not None and not self._made.has_room()):
            if self._lines:
                await self._line_ended()
            else:
                self._room.clear()
                await self._room.wait()

    async def _end_lines(self, error: HeadraceError) -> None:
        """What still waits in line fails."""
        self._lines_ended_by = error
        tasks = [task for task in self._line_tasks.values() if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for topic in list(self._lines):  # its task was cancelled before it began
            self._close_line(topic)

    async def _enter_lines(self) -> None:
        while self._lines:
            await self._line_ended()

    async def _line_ended(self) -> None:
        """Wait until what waits in the lines now is buffered. Not gather: that would cancel them with us."""
        last = [line[-1].future for line in self._lines.values() if line]
        if last:
            await asyncio.wait(last)
        await asyncio.sleep(0)  # the lines' tasks end

    def _deadline_ms(self) -> int:
        return self._cluster.hub.now_ms() + self.config.max_block_ms

    def _no_room(self) -> BufferExhaustedError:
        return BufferExhaustedError(
            f"the buffer ({self.config.buffer_memory} bytes) is full; await drain() between sends"
        )

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


def _future(found: tuple[Delivery, int], prepared: Prepared) -> RecordFuture:
    key, value, _, timestamp_ms = prepared
    key_size, value_size = -1 if key is None else len(key), -1 if value is None else len(value)
    return RecordFuture(found[0], found[1], timestamp_ms, key_size, value_size)


def _settle(outcome: asyncio.Future[RecordMetadata], done: RecordFuture) -> None:
    if outcome.done():  # the user gave up waiting
        return
    metadata, error = done.outcome()
    if error is None:
        outcome.set_result(metadata)
    else:
        outcome.set_exception(error)
        if isinstance(error, TransactionAbortableError | TransactionAbortedError):
            outcome.exception()  # the end of the transaction tells; nobody has to look here as well


def _pass_on(outcome: asyncio.Future[RecordMetadata], entered: asyncio.Future[RecordFuture]) -> None:
    error = entered.exception()
    if error is None:
        entered.result().add_done_callback(lambda done: _settle(outcome, done))
    elif not outcome.done():
        outcome.set_exception(error)
