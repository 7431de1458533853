"""The producer of a stream thread: records of its tasks, and with exactly-once their transaction."""

from __future__ import annotations

from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from ...clients.group.group_metadata import OffsetAndMetadata
from ...protocol.errors import (
    HeadraceError,
    InvalidProducerEpochError,
    ProducerFencedError,
    TransactionAbortableError,
    TransactionAbortedError,
)
from ...protocol.model import TopicPartition
from ..errors import StreamsError, TaskMigratedError, TaskRetryError, is_retriable
from ..task.handlers import ProducedRecord
from .sent_run import SentRun

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ...clients.group.group_metadata import GroupMetadata
    from ...clients.producer.delivery_io import BatchResult, Delivery, RecordFuture
    from ...clients.records import Headers
    from ..task.collector import RecordCollector
    from ..task.task import CommitOffset
    from .clients_io import Clients

# Future, collector, and the fields of the record, for an error of the producer.
_Sent = tuple[
    "RecordFuture", "RecordCollector | None", str, "bytes | None", "bytes | None", "int | None", "Headers",
    "int | None",
]  # fmt: skip

_FENCED = (
    ProducerFencedError,
    InvalidProducerEpochError,
    TransactionAbortableError,
    TransactionAbortedError,
)


class Output:
    """One producer for all tasks of a thread. With a transactional id, what is sent between two commits is
    one transaction, with the offsets of the commit. Not thread-safe.

    Errors of all: TaskMigratedError if another member has the tasks now, so that the transaction was lost.
    """

    def __init__(
        self,
        clients: Clients,
        config: Mapping[str, Any],
        transactional_id: str | None,
        changelogs: frozenset[str],
    ) -> None:
        self._clients = clients
        self._config = dict(config)
        self.transactional_id = transactional_id
        self._changelogs = changelogs
        self._ends: dict[TopicPartition, int] = {}
        self._open()

    def _open(self) -> None:
        extra = {"transactional.id": self.transactional_id} if self.transactional_id else {}
        self._producer = self._clients.producer({**self._config, **extra})
        self._send = self._producer.send
        self._append_run = self._producer.append_run
        self._in_transaction = self._is_initialized = False
        self._refused: BaseException | None = None  # the error of a record of this transaction
        self._unacknowledged: dict[Delivery, list[_Sent]] = {}  # by batch
        self._unacknowledged_columns: deque[tuple[BatchResult, RecordCollector | None, str, Any]] = deque()
        self._unacknowledged_runs: deque[SentRun] = deque()
        self._last: dict[tuple[str, int], RecordFuture | SentRun] = {}

    def initialize(self) -> None:
        """Abort the transaction that an earlier process with this transactional id left open: until then its
        records hold up readers of committed records, such as those that restore a changelog.

        Errors: those of the producer, not TaskMigratedError; after a retriable one the next call tries again.
        """
        if self.transactional_id is None or self._is_initialized:
            return
        try:
            self._producer.init_transactions()
        except _FENCED:  # by the last request of that process
            self.reopen()
            self._producer.init_transactions()
        self._is_initialized = True

    def _begin(self) -> None:
        try:
            self._producer.begin_transaction()
        except _FENCED:  # between two transactions: there is none to abort, the next one needs a producer
            self.reopen()
            raise
        self._in_transaction = self._is_initialized = True

    def partitions_of(self, topic: str) -> int:
        """The number of partitions of an output topic; fetches metadata the first time.

        Errors: TaskRetryError while no node has any.
        """
        try:
            return len(self._producer.partitions_for(topic))
        except HeadraceError as error:
            if not is_retriable(error):
                raise
            raise TaskRetryError(f"no metadata of output topic {topic}: {error}") from error

    def for_task(self) -> TaskOutput:
        """The output of one task."""
        return TaskOutput(self)

    def send(
        self,
        collector: RecordCollector | None,
        topic: str,
        partition: int | None,
        key: bytes | None,
        value: bytes | None,
        timestamp: int | None,
        headers: Headers,
    ) -> None:
        """Send one record; an error of the producer reaches `collector` at latest at the next commit."""
        try:
            if self.transactional_id is not None and not self._in_transaction:
                self._begin()
            future = self._send(
                topic, value, key=key, partition=partition, timestamp=timestamp, headers=headers
            )
        except _FENCED as error:
            raise self._lost(error) from error
        except HeadraceError as error:
            self._failed(collector, ProducedRecord(topic, key, value, timestamp, headers, partition), error)
            return
        if topic in self._changelogs:
            assert partition is not None, "a changelog record has the partition of its task"
            self._last[topic, partition] = future
        sent = future, collector, topic, key, value, timestamp, headers, partition
        delivery = future.delivery
        batch = self._unacknowledged.get(delivery)
        if batch is None:
            self._unacknowledged[delivery] = [sent]
        else:
            batch.append(sent)

    def send_rows(
        self,
        collector: RecordCollector | None,
        topic: str,
        partition: int | None,
        keys: list[Any],
        values: list[bytes | None],
        timestamps: list[int],
    ) -> None:
        """`send` of each record, in order, without headers. The lists must not change afterwards."""
        start, count = 0, len(keys)
        is_changelog = topic in self._changelogs
        if self.transactional_id is not None and not self._in_transaction and count:
            # begins the transaction: a batch is open only inside one
            self.send(collector, topic, partition, keys[0], values[0], timestamps[0], ())
            start = 1
        while start < count:
            joined = self._append_run(topic, keys, values, timestamps, partition, start)
            run = SentRun(collector, topic, partition, (keys, values, timestamps), start, *joined)
            if run.count:
                self._unacknowledged_runs.append(run)
                start += run.count
                if is_changelog:
                    assert partition is not None, "a changelog record has the partition of its task"
                    self._last[topic, partition] = run
            if start < count:  # its batch is full, or not open yet
                self.send(collector, topic, partition, keys[start], values[start], timestamps[start], ())
                start += 1

    def send_columns(self, collector: RecordCollector | None, topic: str, rows: Any) -> None:
        """Send the rows of an Arrow batch with columns value, timestamp, and key and headers if it has them;
        errors as in `send`."""
        try:
            if self.transactional_id is not None and not self._in_transaction:
                self._begin()
            sent = self._producer.send_arrow(topic, rows)
        except _FENCED as error:
            raise self._lost(error) from error
        self._unacknowledged_columns.append((sent, collector, topic, rows))

    def poll(self) -> None:
        """Report the errors of records whose outcome is known."""
        columns = self._unacknowledged_columns
        while columns and columns[0][0].done():
            sent, collector, topic, rows = columns.popleft()
            for index, failure in sent.errors(0).items():
                self._failed(collector, _record_of(topic, rows, index), failure)
        runs = self._unacknowledged_runs
        while runs and runs[0].is_done:
            run = runs.popleft()
            for refused, failure in run.errors():
                self._failed(run.collector, refused, failure)
        waiting = self._unacknowledged
        for delivery in [delivery for delivery in waiting if delivery.is_done]:
            records = waiting.pop(delivery)
            if delivery.has_succeeded():
                continue
            for record in records:
                error = record[0].exception()
                if error is not None:
                    self._failed(record[1], ProducedRecord(*record[2:]), error)

    def flush(self) -> None:
        """Wait until every record has its outcome."""
        try:
            self._producer.flush()
        except _FENCED as error:
            raise self._lost(error) from error
        self.poll()
        for (topic, partition), sent in self._last.items():
            end = sent.end() if isinstance(sent, SentRun) else _end_of(sent)
            if end is not None:
                self._ends[TopicPartition(topic, partition)] = end
        self._last.clear()

    def changelog_ends(self) -> Mapping[TopicPartition, int]:
        """The offset behind the last record of each changelog that the last `flush` saw acknowledged, and
        that was sent after the last `abort`."""
        return self._ends

    @property
    def in_transaction(self) -> bool:
        return self._in_transaction

    def commit(self, offsets: Mapping[TopicPartition, CommitOffset], group_metadata: GroupMetadata) -> None:
        """Commit the transaction with these offsets."""
        try:
            if not self._in_transaction:
                if not offsets:
                    return
                self._begin()
            self.flush()
            committed = {tp: OffsetAndMetadata(*offset) for tp, offset in offsets.items()}
            if committed:
                self._producer.send_offsets_to_transaction(committed, group_metadata)
            self._producer.commit_transaction()
        except _FENCED as error:
            raise self._lost(error) from error
        self._in_transaction, self._refused = False, None

    def abort(self) -> None:
        """Drop what was sent since the last commit: readers of committed records never see it."""
        self._unacknowledged.clear()
        self._unacknowledged_columns.clear()
        self._unacknowledged_runs.clear()
        self._last.clear()
        self._ends.clear()  # some are end offsets of aborted records
        if not self._in_transaction:
            return
        self._in_transaction, self._refused = False, None
        try:
            self._producer.abort_transaction()
        except HeadraceError:  # the producer is fenced: another one has aborted it
            self.reopen()

    def reopen(self) -> None:
        """Replace a producer that cannot go on."""
        with suppress(HeadraceError):  # its records are reported lost: so is their transaction
            self._producer.close(0)
        self._open()

    def close(self, timeout_s: float | None = None) -> None:
        """Close the producer. Errors: those of records that were not acknowledged."""
        if self._in_transaction:
            self.abort()
        self._producer.close(timeout_s)

    def _lost(self, error: BaseException) -> StreamsError:
        """What ends a transaction: another producer, or a record that was refused. That one would be refused
        again, whatever the handler has decided: Kafka Streams stops, too."""
        if self._refused is None:
            return TaskMigratedError(f"the transaction was lost: {error}")
        return StreamsError(
            f"a transaction cannot be committed without a record that was refused, although a handler wants"
            f" to continue: {self._refused}"
        )

    def _failed(
        self, collector: RecordCollector | None, record: ProducedRecord, error: BaseException
    ) -> None:
        if isinstance(error, _FENCED):
            raise self._lost(error) from error
        if self._in_transaction and not is_retriable(error):
            self._refused = error
        if collector is None or not isinstance(error, Exception):
            raise error
        collector.on_send_error(record.topic, record, error)


def _end_of(future: RecordFuture) -> int | None:
    metadata, failure = future.outcome()
    return None if failure is not None else metadata.offset + 1


def _record_of(topic: str, rows: Any, index: int) -> ProducedRecord:
    from ..processors.arrow_columns import rows_of

    (row,) = rows_of(rows.slice(index, 1), -1)
    return ProducedRecord(topic, *row)


class TaskOutput:
    """`produce` of a task; `collector` gets the errors of its records."""

    def __init__(self, output: Output) -> None:
        self._send = output.send
        self._send_rows = output.send_rows
        self._send_columns = output.send_columns
        self.collector: RecordCollector | None = None

    def produce(
        self,
        topic: str,
        partition: int | None,
        key: bytes | None,
        value: bytes | None,
        timestamp: int | None,
        headers: Headers,
    ) -> None:
        """Send one record of the task."""
        self._send(self.collector, topic, partition, key, value, timestamp, headers)

    def produce_rows(
        self,
        topic: str,
        partition: int | None,
        keys: list[Any],
        values: list[bytes | None],
        timestamps: list[int],
    ) -> None:
        """Send records of the task without headers."""
        self._send_rows(self.collector, topic, partition, keys, values, timestamps)

    def produce_columns(self, topic: str, rows: Any) -> None:
        """Send the rows of an Arrow batch of the task."""
        self._send_columns(self.collector, topic, rows)
