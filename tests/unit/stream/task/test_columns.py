"""Batches of a task by column: the same results as record by record."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from headrace import ARROW_SCHEMA
from headrace.clients.serdes import bytes_, int64, json, utf8
from headrace.protocol.model import TopicPartition
from headrace.stream import Builder
from headrace.stream.errors import ProcessingError, StreamsError
from headrace.stream.processors import arrow_columns
from headrace.stream.processors.arrow_paths import ArrowPath, by_partition, records_of
from headrace.stream.state.memory_engine import MemoryEngine
from headrace.stream.state.thread_cache import ThreadCache
from headrace.stream.task.columns import ColumnIo
from headrace.stream.task.handlers import LogAndContinue
from headrace.stream.task.settings import TaskSettings
from headrace.stream.task.task import Task, TaskIo
from headrace.stream.topology.column_paths import column_paths
from hypothesis import given
from hypothesis import strategies as st

IN = TopicPartition("in", 0)
Row = tuple[bytes | None, bytes | None, int | None, tuple[tuple[str, bytes | None], ...]]
"""Key, value, timestamp, headers."""


def batch_of(rows: list[Row], start: int = 0, topic: str = "in", partition: int = 0) -> pa.RecordBatch:
    """Rows as the consumer returns them."""
    count = len(rows)
    columns = {
        "key": pa.array([row[0] for row in rows], pa.binary()),
        "value": pa.array([row[1] for row in rows], pa.binary()),
        "topic": [topic] * count,
        "partition": pa.array([partition] * count, pa.int32()),
        "offset": pa.array(range(start, start + count), pa.int64()),
        "timestamp": arrow_columns.timestamps_of([row[2] for row in rows]),  # type: ignore[misc]
        "timestampType": pa.array([0] * count, pa.int32()),
        "headers": arrow_columns.headers_of([row[3] for row in rows]),
    }
    return pa.RecordBatch.from_pydict(columns, schema=ARROW_SCHEMA)


class Running:
    """A task and what it sends, as records."""

    def __init__(self, builder: Builder, settings: TaskSettings, *, by_column: bool) -> None:
        topology = builder.build("app", caching=False).sub_topology(0)
        self.sent: list[tuple[Any, ...]] = []
        self.sent_columns = 0
        columns = None
        if by_column:
            found = column_paths(topology)
            paths = {topic: ArrowPath(path, settings) for topic, path in found.items()}
            columns = ColumnIo(paths, self.produce_columns, records_of)
        io = TaskIo(
            lambda topic, _, key, value, timestamp, headers: self.sent.append(
                (topic, key, value, timestamp, headers)
            ),
            *(lambda _: 1, lambda _: MemoryEngine(), ThreadCache(0), None, columns),
        )
        self.task = Task("app", 0, topology, settings, io, topics=["in"], wall_ms=0)
        self.task.initialize()
        self.task.complete_restoration()
        self.task.group.use_lags({IN: 0})
        self.by_column = by_column

    def produce_columns(self, topic: str, rows: pa.RecordBatch) -> None:
        self.sent_columns += 1
        count = rows.num_rows
        keys = rows.column("key").to_pylist() if "key" in rows.schema.names else [None] * count
        headers = list(arrow_columns.headers_from(rows))
        for index, (value, timestamp) in enumerate(
            zip(rows.column("value").to_pylist(), rows.column("timestamp").to_pylist(), strict=True)
        ):
            texts = (each.encode() if isinstance(each, str) else each for each in (keys[index], value))
            self.sent.append((topic, *texts, timestamp, headers[index]))

    def run(self, *batches: pa.RecordBatch) -> Running:
        """Process batches, each up to a commit."""
        for batch in batches:
            if self.by_column:
                self.task.add_columns(IN, batch)
            else:
                self.task.add_records(IN, records_of(batch))
            while self.task.process(0):
                pass
            self.offsets = self.task.prepare_commit()
            self.task.post_commit()
        return self


def both(builder: Builder, rows: list[Row], **settings: Any) -> tuple[Running, Running]:
    """By column and by record, in two batches."""
    defaults = TaskSettings(**{"key_serde": utf8, "value_serde": json, **settings})
    half = len(rows) // 2
    batches = [batch_of(part, start) for part, start in ((rows[:half], 0), (rows[half:], half)) if part]
    runs = [Running(builder, defaults, by_column=by_column).run(*batches) for by_column in (True, False)]
    return runs[0], runs[1]


def positive(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Rows with positive values."""
    return batch.filter(pc.greater(batch.column("value"), 0))


def fail_at_seven(batch: pa.RecordBatch) -> pa.RecordBatch:
    """For a batch that has a 7."""
    if 7 in batch.column("value").to_pylist():
        raise ArithmeticError("seven")
    return batch


def totals(batch: pa.RecordBatch) -> pa.RecordBatch:
    """One row without key and timestamp."""
    return pa.RecordBatch.from_pydict({"value": [pc.sum(batch.column("value")).as_py() or 0]})


FUNCTIONS: dict[str, list[Any]] = {
    "same": [lambda batch: batch],
    "positive": [positive],
    "totals": [totals],
    "two": [totals, positive],
    "nothing": [lambda _: None],
    "fails": [fail_at_seven],
}
ROWS = st.lists(
    st.tuples(
        st.none() | st.sampled_from([b"a", b"b", b"\xff"]),
        st.none()
        | st.integers(-5, 9).map(lambda number: number.to_bytes(8, "big", signed=True))
        | st.just(b"x"),
        st.integers(0, 5),
        st.sampled_from([(), (("h", b"1"),), (("h", None), ("g", b"2"))]),
    ),
    max_size=8,
)


def to_sink(stream: Any) -> None:
    stream.to("out", value=int64)


def to_operators(stream: Any) -> None:
    stream.filter(lambda key, value: key != "b").to("out", value=int64)
    stream.map_values(lambda value: 0 if value is None else 8 // value).to("out", value=int64)


@given(ROWS, st.sampled_from(sorted(FUNCTIONS)), st.sampled_from([to_sink, to_operators]))
def test_the_results_are_those_of_records(rows: list[Row], name: str, end: Any) -> None:
    """Output, dead letters, offsets and stream time; also with keys and values that cannot be read, nulls,
    and functions that fail, of a section or behind it."""
    builder = Builder()
    stream = builder.stream("in", value=int64)
    for function in FUNCTIONS[name]:
        stream = stream.arrow(function)
    end(stream)
    skip = LogAndContinue("dead")
    column, record = both(builder, rows, deserialization_handler=skip, processing_handler=skip)
    assert [sent for sent in column.sent if sent[0] == "out"] == [s for s in record.sent if s[0] == "out"]
    assert [sent[1:4] for sent in column.sent] == [sent[1:4] for sent in record.sent]
    assert column.task.group.stream_time == record.task.group.stream_time
    if rows:
        assert column.offsets == record.offsets


@pytest.mark.parametrize(
    ("serde", "data"),
    [
        (bytes_, [b"\xff", None, b""]),
        (utf8, [b"x", None, "ä".encode()]),
        (int64, [(5).to_bytes(8, "big"), None, (-1).to_bytes(8, "big", signed=True)]),
        (json, [b'{"a":1}', None, b'{"a":2}']),
        (json, [b"1", b"2"]),
    ],
)
def test_serde_columns_round_trip(serde: Any, data: list[bytes | None]) -> None:
    """Nulls included, of whole columns and of slices."""
    builder = Builder()
    builder.stream("in", value=serde).arrow(lambda batch: batch.slice(1)).to("out", value=serde)
    rows: list[Row] = [(b"k", value, 1, ()) for value in [data[0], *data]]
    settings = TaskSettings(key_serde=utf8, value_serde=json)
    running = Running(builder, settings, by_column=True)
    running.run(batch_of([rows[0], *rows]).slice(1))
    assert [sent[2] for sent in running.sent] == data
    assert running.sent_columns == 1, "no object was made per record"


def test_a_serde_of_the_user_is_called_for_each_value() -> None:
    """By column still."""
    builder = Builder()
    builder.stream("in", value=len).arrow(lambda batch: batch).to("out", value=lambda n: b"x" * n)
    running = Running(builder, TaskSettings(key_serde=utf8, value_serde=json), by_column=True)
    running.run(batch_of([(b"k", b"abc", 1, ())]))
    assert (running.sent, running.sent_columns) == ([("out", b"k", b"xxx", 1, ())], 1)


def test_a_record_without_timestamp_is_an_error() -> None:
    """By its offset."""
    builder = Builder()
    builder.stream("in").arrow(lambda batch: batch).to("out")
    running = Running(builder, TaskSettings(key_serde=utf8, value_serde=json), by_column=True)
    batch = batch_of([(b"k", b"1", 1, ()), (b"k", b"1", None, ())])
    with pytest.raises(StreamsError, match="offset 1 of in-0 has timestamp -1"):
        running.run(batch)


def test_an_error_names_the_offsets_of_the_batch() -> None:
    """As in a run by record."""
    builder = Builder()
    builder.stream("in", value=int64).arrow(fail_at_seven, name="section").to("out", value=int64)
    rows: list[Row] = [(b"k", number.to_bytes(8, "big"), 1, ()) for number in (1, 7, 2)]
    running = Running(builder, TaskSettings(key_serde=utf8, value_serde=json), by_column=True)
    running.run(batch_of(rows[:1]))
    with pytest.raises(ProcessingError, match="section of task 0_0 failed on offsets 10 to 12 of in-0"):
        running.run(batch_of(rows, 10))


def test_a_batch_that_waits_counts_for_the_limit_of_the_buffers() -> None:
    """And is dropped with the task."""
    builder = Builder()
    builder.stream("in").arrow(lambda batch: batch).to("out")
    settings = TaskSettings(key_serde=utf8, value_serde=json, buffered_records=2)
    task = Running(builder, settings, by_column=True).task
    rows: list[Row] = [(b"k", b"1", 1, ())]
    assert not task.add_columns(IN, batch_of(rows * 2))
    assert task.add_columns(IN, batch_of(rows, 2))
    assert task.is_ready(0)
    task.suspend()
    task.close()
    assert not task.is_ready(0)


def test_caches_are_flushed_by_commits_alone() -> None:
    """Not by each batch."""
    flushed: list[str] = []

    class Cache:
        has_unflushed = False

        def flush(self) -> None:
            flushed.append("flushed")

    builder = Builder()
    builder.stream("in").arrow(lambda batch: batch).foreach(lambda key, value: None)
    task = Running(builder, TaskSettings(key_serde=utf8, value_serde=json), by_column=True).task
    task.context.stores["cache"] = Cache()
    for offset in range(2):
        task.add_columns(IN, batch_of([(b"k", b"1", 1, ())], offset))
        assert task.process(0)
    assert flushed == []
    task.prepare_commit()
    assert flushed == ["flushed"]


def test_rows_are_divided_by_partition() -> None:
    """In the order of their offsets, although the partitions alternate."""
    rows: list[Row] = [(b"k", b"1", 1, ())]
    places = [("in", 0, 3), ("in", 1, 7), ("in", 0, 4), ("other", 0, 0), ("in", 1, 8)]
    batches = [batch_of(rows, offset, topic, number) for topic, number, offset in places]
    mixed = pa.Table.from_batches(batches).combine_chunks().to_batches()[0]
    found = [
        (topic, number, part.column("offset").to_pylist()) for topic, number, part in by_partition(mixed)
    ]
    assert found == [("in", 0, [3, 4]), ("in", 1, [7, 8]), ("other", 0, [0])]
    assert [part.num_rows for _, _, part in by_partition(batches[0])] == [1]


def test_paths_by_column_are_sections_behind_a_source() -> None:
    """Nothing before or beside them; to one plain sink, or up to other operators."""

    def path_of(make: Any, **source: Any) -> Any:
        builder = Builder()
        make(builder.stream("in", **source))
        return column_paths(builder.build("app", caching=False).sub_topology(0)).get("in")

    def same(batch: Any) -> Any:
        return batch

    def sink_of(make: Any) -> Any:
        found = path_of(make)
        assert [section.name for section in found.sections] == ["a"]
        return None if found.sink is None else found.sink.topic

    chain = path_of(lambda stream: stream.arrow(same, name="a").arrow(same, name="b").to("out"))
    assert [section.name for section in chain.sections] == ["a", "b"]
    assert sink_of(lambda stream: stream.arrow(same, name="a").to("out")) == "out"
    assert sink_of(lambda stream: stream.arrow(same, name="a")) is None
    assert sink_of(lambda stream: stream.arrow(same, name="a").filter(bool).to("out")) is None
    assert sink_of(lambda stream: stream.arrow(same, name="a").to("out", partitioner=lambda *_: 0)) is None
    assert sink_of(lambda stream: stream.arrow(same, name="a").to(lambda *_: "out")) is None
    both_needed = Builder()
    both_needed.stream("in").arrow(same).merge(both_needed.stream("other")).to("out")
    assert column_paths(both_needed.build("app", caching=False).sub_topology(0)) == {}
    assert path_of(lambda stream: stream.filter(bool).arrow(same).to("out")) is None
    assert path_of(lambda stream: stream.to("out")) is None
    assert path_of(lambda stream: [stream.arrow(same).to("out"), stream.to("copy")]) is None
    assert path_of(lambda stream: stream.arrow(same).to("out"), timestamp=lambda *_: 0) is None
