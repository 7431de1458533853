"""The life of a task: states, commits, restored metadata."""

from __future__ import annotations

from typing import Any

import pytest
from headrace.clients.serdes import Serde, json, utf8
from headrace.protocol.model import TopicPartition
from headrace.stream import Builder
from headrace.stream.errors import StreamsError
from headrace.stream.state.memory_engine import MemoryEngine
from headrace.stream.state.thread_cache import ThreadCache
from headrace.stream.task import commit_metadata
from headrace.stream.task.record_queue import RecordQueue
from headrace.stream.task.settings import TaskSettings
from headrace.stream.task.states import TaskState
from headrace.stream.task.task import Task, TaskIo
from headrace.stream.task.timestamps import FailOnInvalidTimestamp
from headrace.stream.testing.topics import StoredRecord

IN = TopicPartition("in", 1)


def task(builder: Builder | None = None, **settings: Any) -> tuple[Task, list[Any]]:
    """Partition 1 of an application that counts."""
    if builder is None:
        builder = Builder()
        builder.stream("in").group_by_key().count(store="counts").to_stream().to("out")
    topology = builder.build("app", caching=True).sub_topology(0)
    sent: list[Any] = []
    io = TaskIo(
        lambda *record: sent.append(record), lambda _: 4, lambda _: MemoryEngine(), ThreadCache(10**6)
    )
    options = TaskSettings(key_serde=utf8, value_serde=json, **settings)
    return Task("app", 1, topology, options, io, topics=["in"], wall_ms=0), sent


def running(**settings: Any) -> tuple[Task, list[Any]]:
    started, sent = task(**settings)
    started.initialize()
    started.complete_restoration()
    started.group.use_lags({IN: 0})
    return started, sent


def records(*offsets: int) -> list[StoredRecord]:
    return [StoredRecord("in", 1, offset, 10 * offset, b"k", b"1") for offset in offsets]


def test_states_follow_each_other() -> None:
    """A task is restored before it runs, and suspended before it is closed."""
    one, _ = task()
    with pytest.raises(StreamsError, match="cannot become running: it is created"):
        one.complete_restoration()
    one.initialize()
    assert one.state is TaskState.RESTORING
    one.complete_restoration()
    with pytest.raises(StreamsError, match="cannot become closed: it is running"):
        one.close()
    one.suspend()
    one.close()
    assert one.state is TaskState.CLOSED


def test_a_commit_flushes_caches_and_has_the_next_offset() -> None:
    """That of the first buffered record; with the partition time as metadata."""
    one, sent = running()
    assert one.prepare_commit() == {}
    one.add_records(IN, records(3, 5))
    assert one.process(0)
    assert sent == [], "the cache holds it back"
    assert one.commit_needed
    offsets = one.prepare_commit()
    assert offsets[IN].offset == 5
    assert commit_metadata.decode(offsets[IN].metadata) == (30, {})
    assert [record[0] for record in sent] == ["app-counts-changelog", "out"]
    one.post_commit()
    one.process(0)
    assert one.prepare_commit()[IN].offset == 6, "nothing is buffered: behind the last record"


def test_a_full_partition_is_to_be_paused() -> None:
    """buffered.records.per.partition."""
    one, _ = running(buffered_records=2)
    assert not one.add_records(IN, records(0, 1))
    assert one.add_records(IN, records(2))


def test_stream_time_continues_after_a_restart() -> None:
    """From the metadata of the committed offsets."""
    one, _ = task()
    one.initialize()
    one.complete_restoration({IN: commit_metadata.encode(70, {"counts": 5})})
    assert one.context.stream_time() == 70
    assert one.context.metadata == {"counts": 5}


def test_the_changelog_partition_is_that_of_the_task() -> None:
    """Its records have the timestamp of the value."""
    one, sent = running()
    one.add_records(IN, records(3))
    one.process(0)
    one.prepare_commit()
    assert sent[0][:2] == ("app-counts-changelog", 1)
    assert sent[0][4] == 30


def test_a_topic_of_another_task_is_refused() -> None:
    """The instances of the application run different topologies."""
    builder = Builder()
    builder.stream("other").to("out")
    one, _ = task(builder)
    one.initialize()
    with pytest.raises(StreamsError, match="topic in is not an input of task 0_1"):
        one.complete_restoration()


class Ticks:
    """A processor with a punctuator of stream time."""

    def init(self, context: Any) -> None:
        context.schedule(1_000, "stream", lambda _now: None)

    def process(self, record: Any) -> None:
        pass


def test_values_are_read_once_where_runs_are_short() -> None:
    """A task with a punctuator of stream time processes record by record, and reads each value once."""
    read: list[bytes] = []
    builder = Builder()
    value = Serde("noted", str.encode, lambda data: read.append(data) or data.decode())  # type: ignore[func-returns-value]
    builder.stream("in", key=utf8, value=value).process(Ticks)
    one, _ = task(builder)
    one.initialize()
    one.complete_restoration()
    one.add_records(IN, records(*range(50)))
    assert one.process_run(0, 100) == 50
    assert len(read) == 50


def test_reading_a_run_stops_where_the_other_partition_is_next() -> None:
    """Of partitions that take turns, a run reads no record behind the turn."""
    looked_at: list[int] = []

    class Noted(StoredRecord):
        """Notes when its timestamp is read."""

        def __getattribute__(self, name: str) -> Any:
            if name == "timestamp":
                looked_at.append(1)
            return super().__getattribute__(name)

    queue = RecordQueue(
        IN, lambda *_: None, utf8, json, FailOnInvalidTimestamp(), lambda *_: None, lambda _: None, lambda: 0
    )
    queue.add([Noted("in", 1, offset, 10 * offset, b"k", b"1") for offset in range(100)])
    looked_at.clear()
    run = queue.read_run(99, 15)
    assert run is not None
    assert run.timestamps == [0, 10, 20]
    assert len(looked_at) < 10
