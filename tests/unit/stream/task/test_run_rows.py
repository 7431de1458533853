"""Runs of input records by column, as a task processes them."""

from __future__ import annotations

from typing import Any

import pytest
from headrace.clients.serdes import Serde, int64, utf8
from headrace.protocol.model import TopicPartition
from headrace.stream import Builder
from headrace.stream.errors import ProcessingError
from headrace.stream.state.thread_cache import ThreadCache
from headrace.stream.task.settings import TaskSettings
from headrace.stream.task.task import Task, TaskIo
from headrace.stream.testing.topics import StoredRecord

IN = TopicPartition("in", 0)


class Sent:
    """What a task sends: runs of columns, and single records."""

    def __init__(self) -> None:
        self.runs: list[Any] = []
        self.records: list[Any] = []

    def io(self) -> TaskIo:
        """Of the task."""
        return TaskIo(
            lambda *record: self.records.append(record), lambda _: 4, lambda _: None, ThreadCache(0),
            produce_rows=lambda *rows: self.runs.append(rows),
        )  # fmt: skip


def task_of(builder: Builder, records: list[StoredRecord]) -> tuple[Task, Sent]:
    """A task of the topology that has these records, and what it sends."""
    sent = Sent()
    topology = builder.build("app").sub_topology(0)
    task = Task("app", 0, topology, TaskSettings(utf8, int64), sent.io(), topics=["in"], wall_ms=0)
    task.initialize()
    task.complete_restoration()
    task.add_records(IN, records)
    return task, sent


def processed(builder: Builder, records: list[StoredRecord]) -> Sent:
    """What the task sends for these records in one run."""
    task, sent = task_of(builder, records)
    assert task.process_run(0, len(records)) == len(records)
    return sent


def numbers(*values: int, headers: Any = ()) -> list[StoredRecord]:
    """Records at offsets 10, 12, ..., and at these values as timestamps."""
    return [
        StoredRecord("in", 0, 10 + 2 * place, value, b"k%d" % value, int64.dumps(value), headers)
        for place, value in enumerate(values)
    ]


def test_a_run_reaches_the_sink_as_columns() -> None:
    """The bytes of keys that no operator changes are those that were read: no key is written again."""
    written: list[str] = []
    noted = Serde("noted", lambda text: written.append(text) or text.encode(), bytes.decode)  # type: ignore[func-returns-value]
    builder = Builder()
    kept = builder.stream("in").filter(lambda _key, value: value % 2).map_values(lambda value: value * 10)
    kept.to("out")
    sent = processed(builder, numbers(1, 2, 3, 4, 5, 6))
    values = [int64.dumps(10), int64.dumps(30), int64.dumps(50)]
    assert sent.runs == [("out", None, [b"k1", b"k3", b"k5"], values, [1, 3, 5])]
    builder = Builder()
    builder.stream("in", key=noted).filter(lambda _key, value: value > 2).to("out", key=noted)
    sent = processed(builder, numbers(1, 2, 3, 4, 5, 6))
    assert sent.runs[0][2] == [b"k3", b"k4", b"k5"]
    assert sent.records[0][2] == b"k6", "the last record has none behind it that decides on its turn"
    assert written == ["k3", "k4", "k5", "k6"], "a serde of the user is asked"


def test_records_with_headers_go_one_by_one() -> None:
    """Columns have none."""
    builder = Builder()
    builder.stream("in").filter(lambda _key, value: value > 1).to("out")
    headers = (("h", b"1"),)
    sent = processed(builder, numbers(1, 2, 3, 4, headers=headers))
    assert not sent.runs
    assert [record[-1] for record in sent.records] == [headers] * 3


def test_a_failure_names_its_record() -> None:
    """Those before it are sent, and stream time is that of the failed one."""
    builder = Builder()
    kept = builder.stream("in").filter(lambda _key, value: value != 2)
    kept.map_values(lambda value: 12 // (value - 4)).to("out")
    task, sent = task_of(builder, numbers(1, 2, 3, 4, 5, 6))
    with pytest.raises(ProcessingError, match="offset 16 of in-0") as raised:
        task.process_run(0, 6)
    assert "MAPVALUES" in str(raised.value)
    assert [len(run[2]) for run in sent.runs] == [2]
    assert task.group.stream_time == 4
