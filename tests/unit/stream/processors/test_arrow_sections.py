"""Functions on Arrow batches of a stream."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from headrace import ARROW_SCHEMA
from headrace.clients.serdes import bytes_, int64, json, utf8
from headrace.stream import Builder, Record
from headrace.stream.errors import ProcessingError
from headrace.stream.task.handlers import LogAndContinue
from headrace.stream.task.settings import TaskSettings

from tests.fakes.stream_run import Run


def passing(seen: list[pa.RecordBatch], **options: Any) -> Builder:
    """Notes each batch, and returns it."""

    def note(batch: pa.RecordBatch) -> pa.RecordBatch:
        seen.append(batch)
        return batch

    builder = Builder()
    builder.stream("in").arrow(note, **options).to("out")
    return builder


def test_a_batch_has_the_layout_of_all_arrow_batches() -> None:
    """With keys and values as their serdes read them; what comes back is forwarded with timestamps and
    headers."""
    seen: list[pa.RecordBatch] = []
    run = Run(passing(seen))
    run.driver.input_topic("in").pipe_input("a", {"n": 1, "s": "x"}, 5, {"h": b"1"})
    (batch,) = seen
    assert batch.schema.names == ARROW_SCHEMA.names
    kept = [name for name in ARROW_SCHEMA.names if name not in ("key", "value")]
    assert [batch.schema.field(name).type for name in kept] == [
        ARROW_SCHEMA.field(name).type for name in kept
    ]
    row = batch.to_pylist()[0]
    assert (row["key"], row["value"]) == ("a", {"n": 1, "s": "x"})
    assert (row["topic"], row["partition"], row["offset"]) == ("in", 0, 0)
    assert run.driver.output_topic("out").read_record() == Record("a", {"n": 1, "s": "x"}, 5, (("h", b"1"),))


@pytest.mark.parametrize(
    ("serde", "value", "kind"),
    [(bytes_, b"x", pa.binary()), (utf8, "x", pa.string()), (int64, 7, pa.int64())],
)
def test_serdes_have_an_arrow_type(serde: Any, value: Any, kind: Any) -> None:
    """Also for a batch of nulls alone."""
    seen: list[pa.RecordBatch] = []

    def note(batch: pa.RecordBatch) -> None:
        seen.append(batch)

    builder = Builder()
    builder.stream("in", value=serde).arrow(note)
    run = Run(builder).send("in", ("a", value, 0), ("a", None, 0))
    assert [batch.schema.field("value").type for batch in seen] == [kind, kind]
    run.close()


def test_rows_may_be_fewer_or_more_and_have_new_keys() -> None:
    """Without a column of timestamps, rows have the latest of the batch; without one of keys, no key."""

    def total(batch: pa.RecordBatch) -> pa.RecordBatch:
        sums = pc.sum(batch.column("value"))
        return pa.RecordBatch.from_pydict({"value": [sums.as_py(), batch.num_rows]})

    builder = Builder()
    builder.stream("in").flat_map_values(list).arrow(total).to("out")
    run = Run(builder, at_once=False).send("in", ("a", [1, 2], 9), ("b", [4], 3))
    assert run.read() == []
    run.driver.advance_wall_clock_time(100)
    assert run.read() == [(None, 7, 9), (None, 3, 9)]


def test_batches_end_by_size_time_and_commit() -> None:
    """`batch` rows; `max_wait`; each record of the driver is committed, unless that waits."""
    seen: list[pa.RecordBatch] = []
    run = Run(passing(seen, batch=3, max_wait=50), at_once=False)
    run.send("in", *[("a", number, 0) for number in range(7)])
    assert [batch.num_rows for batch in seen] == [3, 3]
    run.driver.advance_wall_clock_time(49)
    assert len(seen) == 2
    run.driver.advance_wall_clock_time(1)
    assert [batch.num_rows for batch in seen] == [3, 3, 1]
    assert [value for _, value, _ in run.read()] == list(range(7))
    at_once: list[pa.RecordBatch] = []
    Run(passing(at_once)).send("in", ("a", 1, 0), ("a", 2, 0))
    assert [batch.num_rows for batch in at_once] == [1, 1]


def test_rows_that_wait_are_processed_before_a_task_leaves() -> None:
    """Its offsets are committed: no other task reads them again."""
    seen: list[pa.RecordBatch] = []
    run = Run(passing(seen, batch=3), at_once=False)
    run.send("in", ("a", 1, 0), ("a", 2, 0))
    run.close()
    assert [value for _, value, _ in run.read()] == [1, 2]


def test_a_batch_has_records_of_one_topic() -> None:
    """So that an error names it."""
    seen: list[pa.RecordBatch] = []
    builder = Builder()
    merged = builder.stream("in").merge(builder.stream("other"))
    merged.arrow(seen.append)
    run = Run(builder, at_once=False)
    for number in range(2):
        run.send("in", ("a", number, number)).send("other", ("b", number, number))
    run.driver.advance_wall_clock_time(100)
    assert [set(batch.column("topic").to_pylist()) for batch in seen] == [{"in"}, {"other"}]
    assert [batch.column("offset").to_pylist() for batch in seen] == [[0, 1], [0, 1]]


def fail(batch: pa.RecordBatch) -> pa.RecordBatch:
    """For a batch with a negative value."""
    if pc.min(batch.column("value")).as_py() < 0:
        raise ArithmeticError("negative")
    return batch


def failing(**options: Any) -> Builder:
    builder = Builder()
    builder.stream("in").arrow(fail, name="section", **options).to("out")
    return builder


@pytest.mark.parametrize("batch", [4, 100])
def test_an_error_names_the_first_and_the_last_offset(batch: int) -> None:
    """By the record that fills the batch, and by the clock."""
    run = Run(failing(batch=batch), at_once=False)
    run.send("in", ("a", 1, 0))
    run.driver.advance_wall_clock_time(100)
    records = [("a", value, 0) for value in (1, -1, 2, 3)]
    if batch == 100:
        run.send("in", *records)
    with pytest.raises(ProcessingError) as info:
        run.driver.advance_wall_clock_time(100) if batch == 100 else run.send("in", *records)
    assert str(info.value) == "processor section of task 0_0 failed on offsets 1 to 4 of in-0"
    assert isinstance(info.value.__cause__, ArithmeticError)


def test_an_error_at_a_commit_names_its_record() -> None:
    """A batch of one record has one offset."""
    with pytest.raises(ProcessingError, match="section of task 0_0 failed on offset 0 of in-0"):
        Run(failing()).send("in", ("a", -1, 0))


def test_a_handler_gets_each_record_of_a_batch_that_failed() -> None:
    """Each has its dead letter; later batches go on."""
    handler = LogAndContinue("dead")
    settings = TaskSettings(key_serde=utf8, value_serde=json, processing_handler=handler)
    run = Run(failing(batch=2), settings, at_once=False)
    run.send("in", ("a", 1, 4), ("b", -1, 5), ("c", 3, 6), ("d", 4, 7))
    run.driver.advance_wall_clock_time(100)
    assert run.read() == [("c", 3, 6), ("d", 4, 7)]
    letters = run.driver.producer_records("dead")
    assert [(letter.key, letter.value, letter.timestamp) for letter in letters] == [
        (b"a", b"1", 4),
        (b"b", b"-1", 5),
    ]
    assert [dict(letter.headers)["__streams.errors.offset"] for letter in letters] == [b"0", b"1"]


@pytest.mark.parametrize(
    ("result", "text"),
    [
        (7, "must return a pyarrow.RecordBatch or Table, or None, not int"),
        (pa.RecordBatch.from_pydict({"n": [1]}), "needs a column value; its columns: n"),
    ],
)
def test_other_results_are_refused(result: Any, text: str) -> None:
    """With what is wrong."""
    builder = Builder()
    builder.stream("in").arrow(lambda _: result).to("out")
    with pytest.raises(ProcessingError) as info:
        Run(builder).send("in", ("a", 1, 0))
    assert text in str(info.value.__cause__)


def test_sections_and_stores_behind_each_other_are_flushed_by_one_commit() -> None:
    """A section fills a cache, which fills the next section."""
    builder = Builder()
    same = builder.stream("in").arrow(lambda batch: batch)
    counts = same.group_by_key(key=utf8, value=json).count(store="counts").to_stream()
    counts.arrow(lambda batch: pa.Table.from_batches([batch])).to("out")
    assert Run(builder).send("in", ("a", 1, 0), ("a", 2, 0)).read() == [("a", 1, 0), ("a", 2, 0)]


def test_empty_tables_have_no_rows() -> None:
    """Such as the rows that a filter leaves."""
    builder = Builder()
    stream = builder.stream("in")
    stream.arrow(lambda batch: batch.slice(0, 0)).to("out")
    stream.arrow(lambda batch: pa.Table.from_batches([], batch.schema)).to("out")
    assert Run(builder).send("in", ("a", 1, 0)).read() == []


def test_it_is_described_as_an_operator_that_changes_keys() -> None:
    """What groups behind it is repartitioned."""
    builder = Builder()
    builder.stream("in").arrow(lambda batch: batch).group_by_key().count()
    text = str(builder.topology().describe())
    assert "KSTREAM-ARROW-0000000001" in text
    assert "-repartition" in text


def test_options_that_cannot_be_are_refused() -> None:
    """When the section is added."""
    stream = Builder().stream("in")
    with pytest.raises(ValueError, match="batch must be at least 1 row, not 0"):
        stream.arrow(fail, batch=0)
    with pytest.raises(ValueError, match="max_wait must be at least 1 ms"):
        stream.arrow(fail, max_wait=0)


def test_a_section_needs_pyarrow_and_other_operators_do_not() -> None:
    """The error names the extra, when the section is added. In a process of its own."""
    code = """if True:
        import sys
        sys.modules["pyarrow"] = None  # as if it were not installed
        from headrace import stream
        records = stream.App("app").stream("in")
        records.filter(bool).to("out")
        try:
            records.arrow(lambda batch: batch)
        except ImportError as error:
            assert "pip install 'headrace[arrow]'" in str(error), error
        else:
            sys.exit("no error")
    """
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
