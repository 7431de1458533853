"""The asyncio producer."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any, Generic

from ...protocol.errors import ClosedError, FlushTimeoutError, HeadraceError, TransactionAbortedError
from ...runtime.clock_io import wall_ms
from ..cluster.async_cluster_io import AsyncClusterIo
from ..cluster.attach_io import attach
from ..config import ProducerConfig
from ..losses_io import log_loss, raise_unless
from ..producer.delivery_io import BatchResult, RecordFuture, until_done
from ..producer.partitioner import murmur2_sticky
from ..producer.record_preparer_io import RecordPreparer, check_records
from ..records import K, PartitionInfo, ProducerRecord, V
from ..serdes import bytes_
from .send_path_io import SendPath
from .transaction_io import AsyncTransactionalProducer

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from contextlib import AbstractContextManager
    from types import TracebackType
    from typing import Self, Unpack

    from ..arrow.sending_io import ArrowData, ArrowSend
    from ..cluster.async_cluster_io import AsyncSharedCluster
    from ..options import ProducerOptions
    from ..producer.delivery_io import AsyncRecordFuture, Delivery
    from ..producer.partitioner import Partitioner
    from ..producer.producer_io import ProducerEngine
    from ..producer.record_preparer_io import SomeProducerInterceptor
    from ..producer.transaction_manager_io import TransactionManager
    from ..records import HeadersLike, TimestampLike
    from ..serdes import Serializer

_BYTES: Any = bytes_
YIELD_EVERY = 1000  # about a millisecond of work


class AsyncProducer(AsyncTransactionalProducer[K, V], Generic[K, V]):
    """Sends records from one event loop; `close` it, or use `async with`.

    Arguments are those of `Producer`. `send` is a plain call that returns an already scheduled future:
    `await producer.send(...)` is delivered, `future = producer.send(...)` is pipelined, and
    `await producer.drain()` between such calls keeps the buffer from filling up.
    """

    def __init__(
        self,
        bootstrap: str | Iterable[str] | AsyncSharedCluster | None = None,
        *,
        key: Serializer[K] = _BYTES,
        value: Serializer[V] = _BYTES,
        partitioner: Partitioner = murmur2_sticky,
        interceptors: Iterable[SomeProducerInterceptor] = (),
        config: Mapping[str, Any] | None = None,
        **options: Unpack[ProducerOptions],
    ) -> None:
        self._io, self.config = attach(AsyncClusterIo, bootstrap, ProducerConfig, config, options)
        preparer = RecordPreparer(self.config, key, value, partitioner, interceptors, wall_ms)
        self._preparer, self._is_closed = preparer, False
        with self._io.opening(self):
            self._holder = self._io.engine(lambda hub: SendPath(hub, self.config, preparer))

    def send(
        self,
        topic: str,
        value: V | None = None,
        *,
        key: K | None = None,
        partition: int | None = None,
        timestamp: TimestampLike | None = None,
        headers: HeadersLike = (),
    ) -> AsyncRecordFuture:
        """Send one record; the future has its partition and offset once it is acknowledged.

        Never blocks. While the buffer is full, or the metadata of the topic is not known, records wait in
        line for up to max.block.ms; when these hold another buffer.memory, BufferExhaustedError is raised at
        once. A record whose future is cancelled is sent nevertheless. Errors: SerializationError,
        MessageTooLargeError, ClosedError here; the others, as of `Producer.send`, from the future.
        """
        record = ProducerRecord(value, key, headers, partition, timestamp)
        try:
            return self._path.send(topic, record)
        except HeadraceError as error:
            self._preparer.tell_failed(error)
            raise

    async def send_many(self, topic: str, records: Iterable[ProducerRecord[K, V] | V | None]) -> BatchResult:
        """Send many records, plain values or `ProducerRecord`s, and wait until each has its outcome.

        A record that cannot be sent does not hold up the others. Errors: ClosedError; TypeError for an
        argument that is no iterable of records.
        """
        check_records(records)
        sent = None if self._path.tracing is None else self._path.tracing.begin_call(topic)
        if sent is None:
            return await self._send_all(topic, records)
        with sent.failing():
            result = await self._send_all(topic, sent.mark_first(records))
        sent.follow_all(result)
        return result

    async def _send_all(self, topic: str, records: Iterable[Any]) -> BatchResult:
        outcomes: list[RecordFuture | asyncio.Future[RecordFuture]] = []
        lines = self._path.lines
        for number, item in enumerate(records):
            if lines:
                await lines.until_free_memory()
            elif number % YIELD_EVERY == YIELD_EVERY - 1:
                await asyncio.sleep(0)  # the loop runs other tasks, and sends batches
            outcomes.append(self._path.send_item(topic, item))
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

        path = self._path
        names = Names(key, value, headers, partition, timestamp)
        sending = ArrowSend(self._preparer, self.config, topic, data, names)
        if sending.needs_records:
            return await self.send_many(topic, sending.records())
        sent = None if path.tracing is None else path.tracing.begin_call(topic)
        if sent is None:
            return await self._send_rows(topic, sending)
        with sent.failing():
            result = await self._send_rows(topic, sending)
        sent.follow_all(result)
        return result

    async def _send_rows(self, topic: str, sending: ArrowSend) -> BatchResult:
        path = self._path
        while topic in path.lines:  # records that were sent before come first
            await path.lines.until_one_ended()
        steps, error, deadline_ms = sending.steps(path.engine), None, 0
        while True:
            try:
                need = steps.send(error)
            except StopIteration as done:
                result: BatchResult = done.value
                await until_done(result.deliveries())
                return result
            if need.is_first:
                deadline_ms = path.lines.deadline_ms()
            error = await path.meet(topic, need, deadline_ms)

    async def drain(self) -> None:
        """Wait until the buffer has free memory and no record waits in line.

        Errors: BufferExhaustedError after max.block.ms.
        """
        lines = self._path.lines
        try:
            async with asyncio.timeout(self.config.max_block_ms / 1000):
                await lines.until_free_memory()
        except TimeoutError:
            raise lines.buffer_exhausted() from None

    async def flush(self, timeout: float | None = None) -> None:
        """Send all records now and wait until they are acknowledged or have failed; `timeout` in seconds.

        Errors: FlushTimeoutError with the number of records without an outcome.
        """
        path = self._holder.made
        if path is None:
            return
        left: list[tuple[Delivery, int]] = []
        try:
            async with asyncio.timeout(timeout):
                await path.lines.until_buffered()
                left = path.engine.flush()
                await until_done([delivery for delivery, _ in left])
        except TimeoutError:
            waiting = path.lines.counts().total()
            remaining = waiting + sum(count for delivery, count in left if not delivery.is_done)
            text = f"{remaining} records are not acknowledged after {timeout} s"
            raise FlushTimeoutError(text, remaining) from None

    async def partitions_for(self, topic: str) -> list[PartitionInfo]:
        """The partitions of a topic. Errors: UnknownTopicOrPartitionError, ApiTimeoutError."""
        engine = self._engine
        await engine.load_topic(topic, self._path.lines.deadline_ms())
        return engine.partitions(topic)

    def metrics(self) -> dict[str, float]:
        """Totals and gauges by Kafka's metric names."""
        return self._engine.metrics()

    async def close(self, timeout: float | None = None) -> None:
        """Flush and close; an open transaction is aborted instead. As `Producer.close`."""
        if self._is_closed:
            return
        now = asyncio.get_running_loop().time
        ends_at = None if timeout is None else now() + timeout
        try:
            if self._holder.made is not None and self._holder.made.engine.transactions is not None:
                await self._holder.made.engine.transactions.close(timeout)
            with contextlib.suppress(FlushTimeoutError):  # `_end` counts the records that are left
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
        """Make every further call raise ClosedError: this process is a forked child."""
        self._is_closed = True
        if self._holder.made is not None:
            self._holder.made.engine.forked()
            self._holder.made.lines.over()

    async def __aenter__(self) -> Self:
        assert self._path is not None  # made on this loop
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            await self.close()
        except Exception as lost:  # noqa: BLE001 - raised, or logged behind the block's own
            raise_unless(error, lost)

    # --- inside -----------------------------------------------------------------------------------------

    @property
    def _path(self) -> SendPath:
        if self._is_closed:
            assert self._io.hub is not None  # raises after a fork
            raise ClosedError("the producer was closed")
        return self._holder.get()

    @property
    def _engine(self) -> ProducerEngine:
        return self._path.engine

    def _transactions(self) -> TransactionManager | None:
        return self._engine.transactions

    def _commit_span(self) -> AbstractContextManager[None]:
        tracing = self._path.tracing
        return super()._commit_span() if tracing is None else tracing.committing()

    async def _until_buffered(self) -> None:
        await self._path.lines.until_buffered()

    async def _drop_unbuffered(self) -> None:
        await self._path.lines.end(TransactionAbortedError("the transaction was aborted"))

    async def _end(self, timeout: float | None) -> BaseException | None:
        """Fail all records without an outcome with ClosedError; gives the error that `close` raises."""
        if self._is_closed:  # closed twice at the same time
            return None
        self._is_closed, lost = True, None
        path = self._holder.made
        try:
            if path is not None:
                lost = path.engine.end(path.lines.counts(), timeout)
                await path.lines.end(ClosedError("the producer was closed"))
                path.lines.over()
        finally:
            await self._io.leave(self)
        return lost
