"""The records of an asyncio producer on their way into batches, and the futures of their outcomes."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ...protocol.errors import ClosedError, HeadraceError, TransactionAbortableError, TransactionAbortedError
from ..producer.appending import NO_MEMORY, NO_PARTITION, NO_TOPIC
from ..producer.delivery_io import RecordFuture
from ..producer.producer_io import ProducerEngine
from ..producer.record_preparer_io import known_partition
from ..records import ProducerRecord, RecordMetadata
from ..tracing.enabling_io import producer_tracing
from .lines_io import Lines, future_of

if TYPE_CHECKING:
    from ..arrow.sending_io import Need
    from ..cluster.hub_io import Hub
    from ..config import ProducerConfig
    from ..producer.delivery_io import AsyncRecordFuture
    from ..producer.record_preparer_io import RecordPreparer

    Buffered = RecordFuture | asyncio.Future[RecordFuture]  # the latter while the record waits in line


class SendPath:
    """The engine of one asyncio producer, and the lines of records that it cannot buffer yet."""

    def __init__(self, hub: Hub, config: ProducerConfig, preparer: RecordPreparer) -> None:
        self.engine = ProducerEngine(hub, config, preparer.partitioner, None, is_plain=preparer.is_plain)
        self.lines = Lines(self.engine, hub, config, preparer)
        self._preparer = preparer
        self.tracing = producer_tracing(config, hub.client_id)
        if self.engine.transactions is not None:
            preparer.on_failed = self.engine.transactions.on_error
        else:
            preparer.losses = self.engine.losses

    def send(self, topic: str, record: ProducerRecord[Any, Any]) -> AsyncRecordFuture:
        """The future of the record's outcome. Errors: those of `AsyncProducer.send`."""
        outcome: AsyncRecordFuture = asyncio.get_running_loop().create_future()
        buffered = self._buffer(topic, record)

        def settle(done: RecordFuture) -> None:
            metadata, error = done.outcome()
            if error is not None:
                self._fail(outcome, error)
            elif not outcome.done():
                outcome.set_result(metadata)

        def on_buffered(waited: asyncio.Future[RecordFuture]) -> None:
            error = waited.exception()
            if error is not None:
                self._fail(outcome, error)
            else:
                waited.result().add_done_callback(settle)

        if isinstance(buffered, RecordFuture):
            buffered.add_done_callback(settle)
        else:
            buffered.add_done_callback(on_buffered)
        return outcome

    def send_item(self, topic: str, item: Any) -> Buffered:
        """`send` for `send_many`: a record that cannot be sent has a failed future. Errors: ClosedError."""
        record: ProducerRecord[Any, Any]
        record = item if isinstance(item, ProducerRecord) else ProducerRecord(value=item)
        try:
            buffered = self._buffer(record.topic or topic, record)
        except ClosedError:
            raise
        except (HeadraceError, TypeError, ValueError) as error:
            return self._preparer.failed(topic, item, error)
        if isinstance(buffered, RecordFuture):
            return buffered
        entered: asyncio.Future[RecordFuture] = asyncio.get_running_loop().create_future()

        def on_buffered(waited: asyncio.Future[RecordFuture]) -> None:
            error = waited.exception()
            future = waited.result() if error is None else self._preparer.failed(topic, item, error)
            if not entered.done():
                entered.set_result(future)

        buffered.add_done_callback(on_buffered)
        return entered

    async def meet(self, topic: str, need: Need, deadline_ms: int) -> HeadraceError | None:
        """Wait for the metadata or the free memory that `send_arrow` needs; the error when the wait fails."""
        try:
            if need.lacks == NO_MEMORY:
                await self.lines.wait_for_memory(deadline_ms)
            elif need.lacks in (NO_TOPIC, NO_PARTITION):
                least = 0 if need.partition is None else need.partition + 1
                await self.engine.load_topic(topic, deadline_ms, least)
            else:
                await asyncio.sleep(0)  # the loop runs other tasks, and sends batches
        except ClosedError:
            raise
        except HeadraceError as error:
            return error
        return None

    def _buffer(self, topic: str, record: ProducerRecord[Any, Any]) -> Buffered:
        if self.tracing is None:
            return self._buffer_untraced(topic, record)
        sent = self.tracing.begin(record.topic or topic, record.headers, record.key)
        if sent is None:
            buffered = self._buffer_untraced(topic, record)
            if isinstance(buffered, RecordFuture):
                self.tracing.appended(buffered._index)  # noqa: SLF001 - as in the synchronous producer
            return buffered
        try:
            buffered = self._buffer_untraced(topic, replace(record, headers=sent.headers))
        except BaseException as error:
            sent.fail(error)
            raise
        if isinstance(buffered, RecordFuture):
            sent.follow(buffered)
        else:
            buffered.add_done_callback(sent.follow_waiting)
        return buffered

    def _buffer_untraced(self, topic: str, record: ProducerRecord[Any, Any]) -> Buffered:
        preparer = self._preparer
        # Order: not before records of the topic that wait in line.
        if record.timestamp is None and not record.headers and topic not in self.lines:
            future = self.engine.lanes.try_send(topic, record.value, record.key, record.partition)
            if future is not None:
                return future
        if not preparer.is_intercepted:
            return self._append(topic, record)
        record = preparer.intercept(record)
        topic = record.topic or topic
        try:
            buffered = self._append(topic, record)
        except (HeadraceError, TypeError, ValueError) as error:
            self._report_failure(topic, record, error)
            raise
        if isinstance(buffered, RecordFuture):
            preparer.watch(buffered)
        else:
            buffered.add_done_callback(lambda waited: self._watch_buffered(topic, record, waited))
        return buffered

    def _append(self, topic: str, record: ProducerRecord[Any, Any]) -> Buffered:
        prepared = self._preparer.prepare(topic, record.key, record.value, record.headers, record.timestamp)
        key, value, headers, timestamp_ms = prepared
        if topic not in self.lines:
            appended = self.engine.append(topic, key, value, headers, record.partition, timestamp_ms)
            if not isinstance(appended, str):
                return future_of(appended, prepared)
        return self.lines.add(topic, prepared, record.partition)

    def _watch_buffered(
        self, topic: str, record: ProducerRecord[Any, Any], waited: asyncio.Future[RecordFuture]
    ) -> None:
        if waited.cancelled():
            return
        error = waited.exception()
        if error is None:
            self._preparer.watch(waited.result())
        else:
            self._report_failure(topic, record, error)

    def _report_failure(self, topic: str, record: ProducerRecord[Any, Any], error: BaseException) -> None:
        """Call `on_acknowledgement` of the interceptors for a record that never joined a batch."""
        partition = known_partition(record.partition)
        self._preparer.acknowledge(RecordMetadata(topic, partition, -1, -1, -1, -1), error)

    def _fail(self, outcome: AsyncRecordFuture, error: BaseException) -> None:
        if not outcome.done():  # the caller may have cancelled it
            outcome.set_exception(error)
            if isinstance(error, TransactionAbortableError | TransactionAbortedError):
                outcome.exception()  # marks it as retrieved: the end of the transaction raises the error
        if self._preparer.losses is not None:
            self._preparer.losses.add(_FailedRecord(outcome, error), 1)


@dataclass(slots=True, eq=False)
class _FailedRecord:
    """The outcome of one record that has failed: an `Outcome`."""

    future: AsyncRecordFuture
    error: BaseException | None

    @property
    def is_reported(self) -> bool:
        """Whether the future was awaited or read, which asyncio notes by turning off its own log line."""
        return not (self.future.cancelled() or getattr(self.future, "_log_traceback", False))
