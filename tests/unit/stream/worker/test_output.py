"""The producer of a stream thread over a cluster in memory."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from headrace.clients.group.group_metadata import GroupMetadata
from headrace.protocol.errors import (
    ApiTimeoutError,
    ClosedError,
    DeliveryTimeoutError,
    MessageTooLargeError,
    ProducerFencedError,
    TransactionAbortableError,
)
from headrace.protocol.model import TopicPartition
from headrace.stream.errors import StreamsError, TaskMigratedError, TaskRetryError
from headrace.stream.task.handlers import ProducedRecord
from headrace.stream.task.task import CommitOffset
from headrace.stream.worker.output_io import Output
from stream_clients import FakeStreamsCluster

GROUP = GroupMetadata("app")
INPUT = TopicPartition("in", 0)
ABORTABLE = TransactionAbortableError("abort it")


class Collector:
    """Notes the errors of sent records."""

    def __init__(self) -> None:
        self.errors: list[tuple[str, Exception]] = []
        self.records: list[ProducedRecord] = []

    def on_send_error(self, _node: str, record: ProducedRecord, error: Exception) -> None:
        self.errors.append((record.topic, error))
        self.records.append(record)


class RowsResult:
    """The result of `send_arrow`."""

    def __init__(self, errors: dict[int, Exception]) -> None:
        self._errors = errors
        self.is_done = False

    def done(self) -> bool:
        return self.is_done

    def errors(self, _timeout: float) -> dict[int, Exception]:
        return self._errors


class Sender:
    """An output with one task."""

    def __init__(self, transactional_id: str | None = None) -> None:
        self.cluster = FakeStreamsCluster(out=1)
        self.output = Output(self.cluster, {}, transactional_id, frozenset({"log"}))
        self.collector: Any = Collector()

    def send(self, topic: str = "out", value: bytes = b"v") -> None:
        self.output.send(self.collector, topic, 0, b"k", value, 5, ())


def test_the_errors_of_records_reach_their_task() -> None:
    """Also the one of a record whose batch was sent in several parts, of which one failed."""
    sender, error = Sender(), MessageTooLargeError("too large")
    sender.cluster.send_errors["out"] = [error]
    sender.send()
    sender.send()
    sender.output.flush()
    sender.send("other")
    producer = sender.cluster.producers[0]
    future, _ = producer.pending.pop()
    future.resolve_in_parts(error)
    sender.output.poll()
    assert sender.collector.errors == [("out", error), ("other", error)]
    assert sender.cluster.values("out") == [b"v"]


def test_the_errors_of_rows_reach_their_task() -> None:
    """With the record of the row."""
    sender, error = Sender(), MessageTooLargeError("too large")
    result = RowsResult({1: error})
    sender.cluster.row_results = [result]
    rows = pa.RecordBatch.from_pydict({"key": [b"a", b"b"], "value": [b"1", b"2"], "timestamp": [5, 6]})
    sender.output.send_columns(sender.collector, "out", rows)
    sender.output.poll()
    assert sender.collector.errors == []
    result.is_done = True
    sender.output.poll()
    assert sender.collector.errors == [("out", error)]
    assert sender.collector.records == [ProducedRecord("out", b"b", b"2", 6)]


def test_ends_of_changelogs_are_those_of_acknowledged_records() -> None:
    """As of the last flush."""
    sender = Sender()
    sender.send("log")
    assert sender.output.changelog_ends() == {}
    sender.output.flush()
    sender.cluster.send_errors["log"] = [DeliveryTimeoutError("late")]
    sender.send("log")
    sender.send("out")
    sender.output.flush()
    assert sender.output.changelog_ends() == {TopicPartition("log", 0): 1}


def test_a_commit_without_records_and_offsets_needs_no_transaction() -> None:
    """Offsets alone do."""
    sender = Sender("app-1")
    sender.output.commit({}, GROUP)
    sender.cluster.failures["producer.commit_transaction"] = [ProducerFencedError("a newer producer")]
    with pytest.raises(TaskMigratedError):
        sender.output.commit({INPUT: CommitOffset(3, "")}, GROUP)
    sender.output.abort()
    sender.output.commit({INPUT: CommitOffset(3, "")}, GROUP)
    assert sender.cluster.committed[INPUT].offset == 3


@pytest.mark.parametrize(("error", "raised"), [
    (MessageTooLargeError("too large"), StreamsError), (DeliveryTimeoutError("late"), TaskMigratedError),
])  # fmt: skip
def test_a_transaction_is_lost_for_good_by_a_record_that_is_refused(
    error: Exception, raised: type[Exception]
) -> None:
    """It would be refused again; after a timeout the transaction is made again."""
    sender = Sender("app-1")
    sender.cluster.failures["producer.send"] = [error]
    sender.send()
    sender.cluster.failures["producer.commit_transaction"] = [ABORTABLE]
    with pytest.raises(StreamsError) as found:
        sender.output.commit({INPUT: CommitOffset(3, "")}, GROUP)
    assert type(found.value) is raised
    sender.output.abort()
    sender.cluster.failures["producer.commit_transaction"] = [ABORTABLE]
    with pytest.raises(TaskMigratedError):
        sender.output.commit({INPUT: CommitOffset(3, "")}, GROUP)


def test_a_producer_that_cannot_abort_is_replaced() -> None:
    """Its transaction is aborted by the next one."""
    sender = Sender("app-1")
    sender.send()
    sender.cluster.failures["producer.abort_transaction"] = [ProducerFencedError("a newer producer")]
    sender.output.abort()
    assert [producer.is_closed for producer in sender.cluster.producers] == [True, False]
    sender.send(value=b"w")
    sender.output.commit({}, GROUP)
    assert sender.cluster.values("out") == [b"w"]


def test_an_output_is_initialized_once() -> None:
    """A transaction that begins before does it, too. Without a transactional id there is nothing to do."""
    sender = Sender("app-1")
    sender.cluster.failures["producer.init_transactions"] = [ApiTimeoutError("no coordinator")]
    with pytest.raises(ApiTimeoutError):
        sender.output.initialize()
    for _ in range(2):
        sender.output.initialize()
    sender.output.reopen()
    sender.send()
    sender.output.initialize()
    sender.output.commit({}, GROUP)
    assert sender.cluster.values("out") == [b"v"]
    plain = Sender()
    plain.output.initialize()
    assert not plain.cluster.producers[0].is_initialized


@pytest.mark.parametrize("call", ["init_transactions", "begin_transaction"])
def test_a_producer_that_is_fenced_between_transactions_is_replaced(call: str) -> None:
    """It can begin none."""
    sender = Sender("app-1")
    sender.cluster.failures[f"producer.{call}"] = [ProducerFencedError("a newer producer")]
    if call == "begin_transaction":
        with pytest.raises(TaskMigratedError):
            sender.send()
    else:
        sender.output.initialize()
    assert [producer.is_closed for producer in sender.cluster.producers] == [True, False]
    sender.send()
    sender.output.commit({}, GROUP)
    assert sender.cluster.values("out") == [b"v"]


def test_an_output_topic_without_metadata_is_tried_again() -> None:
    """A partitioner needs the number of its partitions. Other errors are raised as they are."""
    sender = Sender()
    assert sender.output.partitions_of("out") == 1
    sender.cluster.failures["producer.partitions_for"] = [ApiTimeoutError("no node"), ClosedError("closed")]
    with pytest.raises(TaskRetryError, match="no metadata of output topic out: no node"):
        sender.output.partitions_of("out")
    with pytest.raises(ClosedError):
        sender.output.partitions_of("out")


def send_rows(sender: Sender, topic: str, values: list[bytes]) -> None:
    keys = [b"k%d" % number for number in range(len(values))]
    sender.output.send_rows(sender.collector, topic, 0, keys, list(values), list(range(len(values))))


@pytest.mark.parametrize("longest_run", [0, 2, 100])
def test_rows_of_a_task_are_sent_in_order(longest_run: int) -> None:
    """Those that join a batch and those that do not."""
    sender, values = Sender(), [b"%d" % number for number in range(7)]
    sender.cluster.longest_run = longest_run
    send_rows(sender, "log", values)
    send_rows(sender, "out", [])
    sender.output.flush()
    assert sender.cluster.values("log") == values
    log = sender.cluster.logs[TopicPartition("log", 0)]
    assert [(record.key, record.timestamp) for record in log if record] == [
        (b"k%d" % number, number) for number in range(7)
    ]
    assert sender.output.changelog_ends() == {TopicPartition("log", 0): 7}


def test_the_errors_of_records_of_a_run_reach_their_task() -> None:
    """With the record; the changelog does not end behind a record that was not acknowledged."""
    sender, error = Sender(), DeliveryTimeoutError("late")
    send_rows(sender, "log", [b"0", b"1"])
    sender.output.flush()
    future_errors: list[Any] = [None, None, error]
    send_rows(sender, "log", [b"2", b"3", b"4"])
    producer = sender.cluster.producers[0]
    for (future, _), failure in zip(producer.pending, future_errors, strict=True):
        future.resolve(-1 if failure else 7, failure)
    assert sender.collector.errors == []
    sender.output.poll()
    assert sender.collector.errors == [("log", error)]
    assert sender.collector.records == [ProducedRecord("log", b"k2", b"4", 2, (), 0)]
    sender.output.flush()
    assert sender.output.changelog_ends() == {TopicPartition("log", 0): 2}


def test_a_run_begins_a_transaction_and_is_dropped_with_it() -> None:
    """As single records do."""
    sender = Sender("id")
    send_rows(sender, "out", [b"0", b"1", b"2"])
    assert sender.output.in_transaction
    sender.output.abort()
    send_rows(sender, "out", [b"3", b"4", b"5"])
    sender.output.commit({}, GROUP)
    assert sender.cluster.values("out") == [b"3", b"4", b"5"]
