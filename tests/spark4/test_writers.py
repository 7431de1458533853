"""The writers of `format("headrace")` as Spark's processes call them, without its processes: what no job of a
local Spark comes to."""

import pickle
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest
from headrace.clients.pipeline import Planner, Sink, fetch_arrow, read_options, write_options
from headrace.clients.spark.source_writer_io import BatchWriter, Delivery, StreamWriter
from headrace.protocol.errors import ProducerFencedError
from pyspark import TaskContext


class Tasks:
    """Runs attempts of tasks, here."""

    def __init__(self, cluster: Any, topic: str, monkeypatch: pytest.MonkeyPatch) -> None:
        self.cluster, self.topic, self._patch = cluster, topic, monkeypatch
        self.how = Delivery(
            write_options({"bootstrap": cluster.bootstrap, "topic": topic}), True, f"of-{topic}"
        )
        self.query, self.run, self.batch = f"query-{topic}", "run-1", 0

    def write(self, writer: Any, partition: int, rows: Any = ("row",), attempt: int = 0) -> Any:
        """An attempt in another process; its message."""
        known = {
            "sql.streaming.queryId": self.query,
            "spark.jobGroup.id": self.run,
            "streaming.sql.batchId": str(self.batch),
        }

        class Context:
            def partitionId(self) -> int:
                return partition

            def attemptNumber(self) -> int:
                return attempt

            def getLocalProperty(self, name: str) -> str | None:
                return known.get(name)

        with self._patch.context() as patched:
            patched.setattr(TaskContext, "get", Context)
            batches = (pa.record_batch({"value": pa.array([row])}) for row in rows)
            return pickle.loads(pickle.dumps(pickle.loads(pickle.dumps(writer)).write(batches)))

    def seen(self) -> list[bytes]:
        """By readers of committed records; an open transaction hides what comes after it."""
        wanted = read_options(
            {
                "bootstrap": self.cluster.bootstrap,
                "subscribe": self.topic,
                "kafka.isolation.level": "read_committed",
            }
        )
        ranges = Planner(wanted).batch().ranges
        batches = (batch for each in ranges for batch in fetch_arrow(each, wanted, columns=["value"]))
        return sorted(value for batch in batches for value in batch.column("value").to_pylist())

    def open(self, query: str | None = None) -> list[str]:
        """The open transactions of a query, by default that of the stream."""
        found = self.cluster.admin().list_transactions(states=["Ongoing"])
        return [each.transactional_id for each in found if (query or self.query) in each.transactional_id]


@pytest.fixture
def tasks(cluster: Any, topic: Callable[..., str], monkeypatch: pytest.MonkeyPatch) -> Tasks:
    """Of one query, into a new topic."""
    return Tasks(cluster, topic(1), monkeypatch)


def test_task_that_starts_after_its_job_failed(tasks: Tasks) -> None:
    """It writes nothing. So does one that starts after the commit."""
    failed, done = BatchWriter(tasks.how), BatchWriter(tasks.how)
    message = tasks.write(failed, 0)
    failed.abort([message, None])
    with pytest.raises(ProducerFencedError, match="is too late"):
        tasks.write(failed, 1)
    done.commit([tasks.write(done, 0), tasks.write(done, 1)])
    with pytest.raises(ProducerFencedError, match="is too late"):
        tasks.write(done, 1)
    assert tasks.seen() == [b"row"] * 2


def test_task_that_has_begun_when_its_job_fails(tasks: Tasks) -> None:
    """It has its id, and no row yet."""
    writer = BatchWriter(tasks.how)

    def slow() -> Iterator[str]:
        writer.abort([None, None])
        yield "late"

    with pytest.raises(ProducerFencedError, match="its job has ended"):
        tasks.write(writer, 1, slow())
    assert tasks.seen() == []


@pytest.mark.parametrize("kind", [BatchWriter, StreamWriter])
def test_first_attempt_is_late(tasks: Tasks, kind: Any) -> None:
    """It writes nothing once the batch of the second one is committed, whether it has begun or not; the next
    batch of a stream is not disturbed."""
    writer = kind(tasks.how)

    def commit(attempt: int) -> None:
        message = tasks.write(writer, 0, attempt=attempt)
        writer.commit([message], tasks.batch) if kind is StreamWriter else writer.commit([message])

    def slow() -> Iterator[str]:
        commit(1)
        yield "late"

    with pytest.raises(ProducerFencedError, match="its job has ended"):
        tasks.write(writer, 0, slow())
    with pytest.raises(ProducerFencedError, match="is too late"):
        tasks.write(writer, 0)
    assert tasks.open(getattr(writer, "_query", None)) == []
    if kind is StreamWriter:
        tasks.batch = 1
        commit(0)
    assert tasks.seen() == [b"row"] * (tasks.batch + 1)


def test_retries_of_a_failed_batch(tasks: Tasks) -> None:
    """No message announces them, and the first attempts wrote nothing."""
    writer = StreamWriter(tasks.how)
    tasks.write(writer, 0, attempt=1)
    writer.abort([None], 0)
    assert tasks.open() == []


@pytest.mark.parametrize("has_message", [True, False])
def test_task_of_a_stream_that_starts_after_its_batch_failed(tasks: Tasks, has_message: bool) -> None:
    """Or that has written nothing yet. The next run of the query writes the batch."""
    writer = StreamWriter(tasks.how)
    message = tasks.write(writer, 0)

    def slow() -> Iterator[str]:
        writer.abort([message if has_message else None, None, None], 0)
        yield "late"

    with pytest.raises(ProducerFencedError, match="its job has ended"):
        tasks.write(writer, 1, slow())
    with pytest.raises(ProducerFencedError, match="is too late"):
        tasks.write(writer, 2)
    assert tasks.open() == []
    tasks.run = "run-2"
    writer.commit([tasks.write(writer, partition) for partition in range(3)], 0)
    assert tasks.seen() == [b"row"] * 3


def test_driver_dies_after_its_tasks(tasks: Tasks) -> None:
    """The next run writes the batch, and aborts the open transactions, though it has fewer tasks."""
    writer = StreamWriter(tasks.how)
    for partition in range(3):
        tasks.write(writer, partition, ["lost"])
    assert len(tasks.open()) == 3
    tasks.run = "run-2"
    writer.commit([tasks.write(writer, 0)], 0)
    assert tasks.open() == []
    assert tasks.seen() == [b"row"]


def test_tasks_without_rows_are_committed(tasks: Tasks) -> None:
    """Also jobs without tasks."""
    batch, stream = BatchWriter(tasks.how), StreamWriter(tasks.how)
    batch.commit([tasks.write(batch, 0, []), tasks.write(batch, 1)])
    batch.commit([])
    batch.abort([])
    stream.commit([], 0)
    stream.commit([tasks.write(stream, 0, [])], 1)
    stream.abort([], 2)
    tasks.run = "run-2"
    message = tasks.write(stream, 0)
    stream.commit([message], 1)  # is played again
    assert tasks.seen() == [b"row"]


def test_decided_batch_is_not_aborted(tasks: Tasks, monkeypatch: pytest.MonkeyPatch) -> None:
    """The commit failed after the decision, and Spark aborts: with the messages, or without."""
    writer = StreamWriter(tasks.how)
    for batch, keeps in enumerate((True, False)):
        messages = [tasks.write(writer, partition) for partition in range(2)]
        with monkeypatch.context() as patched:
            patched.setattr(Sink, "_finish", lambda *_: 1 // 0)
            with pytest.raises(ZeroDivisionError):
                writer.commit(messages, batch)
        writer.abort(messages if keeps else [None, None], batch)
        assert tasks.seen() == [b"row"] * 2 * (batch + 1)


def test_stream_without_a_checkpoint_option(tasks: Tasks) -> None:
    """It aborts the transactions of its messages, and no others."""
    writer = StreamWriter(tasks.how._replace(mark=""))
    tasks.write(writer, 0)
    writer.abort([None], 0)
    assert len(tasks.open()) == 1
    writer.commit([tasks.write(writer, 0)], 0)
    assert tasks.seen() == [b"row"]
