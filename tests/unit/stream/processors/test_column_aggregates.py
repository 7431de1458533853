"""Named aggregates by column, beside the same records one by one."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from headrace.clients.arrow.layout import ARROW_SCHEMA
from headrace.clients.serdes import int64, json, utf8
from headrace.protocol.model import TopicPartition
from headrace.stream import Builder, Count, First, Max, Mean, Min, Store, Sum, TopN, tumbling
from headrace.stream.processors import arrow_columns, column_aggregates
from headrace.stream.processors.arrow_paths import records_of
from headrace.stream.processors.column_aggregates import AggregatePath, ColumnRuns
from headrace.stream.processors.named_tables import takes_columns
from headrace.stream.state.memory_engine import MemoryEngine
from headrace.stream.state.thread_cache import ThreadCache
from headrace.stream.task.columns import ColumnIo
from headrace.stream.task.handlers import LogAndContinue
from headrace.stream.task.settings import TaskSettings
from headrace.stream.task.task import Task, TaskIo
from headrace.stream.topology.column_paths import column_paths
from hypothesis import given, settings
from hypothesis import strategies as st

IN = TopicPartition("in", 0)
NUMBERS: Any = {"n": Count(), "total": Sum(), "mean": Mean(), "low": Min(), "high": Max()}
Row = tuple[Any, Any, Any, Any]  # key, value, timestamp, headers


def app(aggregates: Any = NUMBERS, **options: Any) -> Builder:
    builder = Builder()
    table = builder.stream("in").group_by_key().aggregate(**{"store": "rows", **options}, **aggregates)
    table.to_stream().to("out", value=json)
    return builder


def paths_of(builder: Builder, found: TaskSettings) -> Any:
    topology = builder.build("app", caching=True).sub_topology(0)
    return column_paths(topology, lambda source, node: takes_columns(found, source, node))


class Running:
    """A task and what it sends."""

    def __init__(self, *, by_column: bool, key: Any = utf8) -> None:
        builder, found = app(), TaskSettings(key, int64, deserialization_handler=LogAndContinue())
        self.sent: list[Any] = []
        columns = None
        if by_column:
            paths = paths_of(builder, found)
            columns = ColumnIo(
                {topic: AggregatePath(path, found) for topic, path in paths.items()}, self.fail, records_of
            )
        io = TaskIo(
            lambda *record: self.sent.append(record),
            *(lambda _: 1, lambda _: MemoryEngine(), ThreadCache(10**6), None, columns),
        )
        topology = builder.build("app", caching=True).sub_topology(0)
        self.task = Task("app", 0, topology, found, io, topics=["in"], wall_ms=0)
        self.task.initialize()
        self.task.complete_restoration()
        self.task.group.use_lags({IN: 0})
        self.by_column = by_column
        self.offset = 0
        self.offsets: list[Any] = []

    @staticmethod
    def fail(*_rows: Any) -> None:
        raise AssertionError("no rows are sent by column")

    def add(self, rows: list[Row]) -> Running:
        batch = pa.RecordBatch.from_pydict(
            {
                "key": pa.array([row[0] for row in rows], pa.binary()),
                "value": pa.array([row[1] for row in rows], pa.binary()),
                "topic": ["in"] * len(rows),
                "partition": pa.array([0] * len(rows), pa.int32()),
                "offset": pa.array(range(self.offset, self.offset + len(rows)), pa.int64()),
                "timestamp": arrow_columns.timestamps_of([row[2] for row in rows]),
                "timestampType": pa.array([0] * len(rows), pa.int32()),
                "headers": arrow_columns.headers_of([row[3] for row in rows]),
            },
            schema=ARROW_SCHEMA,
        )
        self.offset += len(rows)
        if self.by_column:
            self.task.add_columns(IN, batch)
        else:
            self.task.add_records(IN, records_of(batch))
        while self.task.process(0):
            pass
        return self

    def commit(self) -> Running:
        self.offsets.append(self.task.prepare_commit())
        self.task.post_commit()
        return self

    def result(self) -> Any:
        return self.sent, self.offsets, self.task.context.dropped_records, self.task.group.stream_time


KEYS = st.sampled_from([b"a", b"b", b"c", b"d"])
SMALL = st.integers(-5, 5)
VALUES = st.one_of(SMALL, st.sampled_from([2**63 - 1, -(2**63), 2**61])).map(int64.dumps)
PLAIN = st.tuples(KEYS, VALUES, st.integers(0, 50), st.just(()))
ANY = st.tuples(
    st.one_of(KEYS, st.sampled_from([None, b"\xff"])),
    st.one_of(VALUES, st.sampled_from([None, b"short"])),
    st.integers(0, 50),
    st.sampled_from([(), (), (("h", b"1"),)]),
)
BATCHES = st.lists(
    st.tuples(st.one_of(st.lists(PLAIN, min_size=1, max_size=12), st.lists(ANY, min_size=1, max_size=4)),
              st.booleans()),
    max_size=6,
)  # fmt: skip


@given(batches=BATCHES, most=st.sampled_from([1, 9, 10**6]))
@settings(max_examples=150, deadline=None)
def test_column_results_equal_record_results(batches: list[tuple[list[Row], bool]], most: int) -> None:
    """Output, changelog, offsets: also for records that cannot be read, and for sums beyond 64 bits."""
    before = column_aggregates.MAX_ROWS
    column_aggregates.MAX_ROWS = most
    try:
        runs = [Running(by_column=by_column) for by_column in (True, False)]
        for run in runs:
            for rows, commits in batches:
                run.add(rows)
                if commits:
                    run.commit()
            run.commit()
    finally:
        column_aggregates.MAX_ROWS = before
    assert runs[0].result() == runs[1].result()


def test_the_store_is_touched_once_for_each_key_of_a_run() -> None:
    """Batches wait until the commit."""
    run = Running(by_column=True)
    for start in range(3):
        run.add([(b"a", int64.dumps(start), 1, ()), (b"b", int64.dumps(7), 2, ())])
    (waiting,) = run.task.context.runs
    assert waiting
    store = run.task.stores["rows"]
    assert store.get("a") is None
    run.commit()
    assert store.get("a").value == {"n": 3, "total": 3, "mean": 1.0, "low": 0, "high": 2}
    assert not waiting


def test_groups_of_several_runs_are_one_write(monkeypatch: pytest.MonkeyPatch) -> None:
    """A commit writes each key once; but a key is written earlier when there are too many groups."""
    monkeypatch.setattr(column_aggregates, "MAX_ROWS", 4)
    run = Running(by_column=True)
    written: list[Any] = []
    store = run.task.stores["rows"]
    monkeypatch.setattr(ColumnRuns, "_write", lambda _self, groups: written.append(groups))
    for start in range(3):  # 3 runs of one key
        run.add([(b"a", int64.dumps(start), 10 - start, ())] * 4)
    assert not written
    run.commit()
    ((found,),) = [groups.to_pylist() for groups in written]
    assert (found["key"], found["count"], found["sum"]) == ("a", 12, 12)
    assert (found["min"], found["max"], found["offset"]) == (0, 2, 11)
    assert store.get("a") is None
    for number in range(2):  # a run of 4 keys is as many groups as may wait
        run.add([(b"%d" % (4 * number + key), int64.dumps(1), 1, ()) for key in range(4)])
    assert [groups.num_rows for groups in written] == [1, 4, 4]


def test_keys_of_8_bytes_are_numbers() -> None:
    """Grouped as such."""
    rows = [(int64.dumps(number), int64.dumps(number), 1, ()) for number in (-1, 2, -1)]
    runs = [Running(by_column=by_column, key=int64).add(rows).commit() for by_column in (True, False)]
    assert runs[0].result() == runs[1].result()
    assert runs[0].task.stores["rows"].get(-1).value.n == 2


@pytest.mark.parametrize(
    ("builder", "defaults"),
    [
        (app({"first": First()}), (utf8, int64)),
        (app({"top": TopN(2)}), (utf8, int64)),
        (app({"n": Sum(abs)}), (utf8, int64)),
        (app(store=Store("rows", cached=False)), (utf8, int64)),
        (app(), (utf8, json)),
        (app(), (json, int64)),
        (app(), (utf8, utf8)),
    ],
    ids=["first", "top", "function", "no cache", "values", "keys", "sum of text"],
)
def test_others_are_processed_as_records(builder: Builder, defaults: Any) -> None:
    """Functions of users, other serdes, stores whose results all count."""
    assert paths_of(builder, TaskSettings(*defaults)) == {}


def test_a_store_with_another_reader_is_processed_as_records() -> None:
    """It reads the store after each record."""

    class Reader:
        def process(self, record: Any) -> None:
            """Nothing."""

    builder = Builder()
    stream = builder.stream("in")
    table = stream.group_by_key().aggregate(n=Count(), store="rows")
    table.to_stream().process(Reader, "rows")
    assert paths_of(builder, TaskSettings(utf8, int64)) == {}


def test_windows_are_processed_as_records() -> None:
    """Their records may be late."""
    builder = Builder()
    builder.stream("in").group_by_key().windowed_by(tumbling(10)).aggregate(n=Count(), store="rows")
    assert paths_of(builder, TaskSettings(utf8, int64)) == {}


def test_numbers_of_texts_are_counted_by_column() -> None:
    """A count needs no numbers."""
    assert set(paths_of(app({"n": Count()}), TaskSettings(utf8, utf8))) == {"in"}
