"""Values that an async function makes."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from headrace.clients.serdes import json, utf8
from headrace.stream import Builder, Record, Retry, TestDriver
from headrace.stream.errors import ProcessingError, StreamsError
from headrace.stream.task.handlers import LogAndContinue
from headrace.stream.task.settings import TaskSettings

from tests.fakes.stream_run import Run


async def after(delay_ms: int) -> int:
    """Returns its argument that much later."""
    await asyncio.sleep(delay_ms / 1000)
    return delay_ms


def mapped(**options: Any) -> Builder:
    """The values of a list, each after its own time."""
    builder = Builder()
    builder.stream("in").flat_map_values(list).map_values_async(after, **options).to("out")
    return builder


def test_functions_take_the_value_the_key_or_the_record() -> None:
    """The key, the timestamp and the headers of the result are those of the record."""

    async def of_key(key: str, value: int) -> str:
        return key * value

    async def of_record(record: Record[str, int]) -> int:
        return record.timestamp

    builder = Builder()
    stream = builder.stream("in")
    stream.map_values_async(after).to("value")
    stream.map_values_async(of_key, with_key=True).to("key")
    stream.map_values_async(of_record, with_record=True).to("record")
    run = Run(builder)
    run.driver.input_topic("in").pipe_input("a", 2, 9, {"h": b"1"})
    found = {topic: run.driver.output_topic(topic).read_record() for topic in ("value", "key", "record")}
    assert found == {
        topic: Record("a", value, 9, (("h", b"1"),))
        for topic, value in {"value": 2, "key": "aa", "record": 9}.items()
    }


def test_results_are_in_the_order_of_the_records() -> None:
    """Of all keys, although the first call is the slowest."""
    builder = Builder()
    builder.stream("in").flat_map(lambda _, pairs: pairs).map_values_async(after).to("out")
    run = Run(builder).send("in", ("x", [["a", 9], ["b", 1], [None, 5]], 0))
    assert run.read() == [("a", 9, 0), ("b", 1, 0), (None, 5, 0)]


def test_unordered_results_keep_the_order_of_each_key() -> None:
    """A fast result of a key waits for a slow one before it; those of other keys, and of none, do not."""
    builder = Builder()
    pairs = builder.stream("in").flat_map(lambda _, pairs: pairs)
    pairs.map_values_async(after, ordered=False).to("out")
    run = Run(builder).send("in", ("x", [["a", 9], ["b", 4], ["a", 1], [None, 6], [None, 2]], 0))
    assert run.read() == [(None, 2, 0), ("b", 4, 0), (None, 6, 0), ("a", 9, 0), ("a", 1, 0)]


def test_keys_that_cannot_be_hashed_share_an_order() -> None:
    """Lists of JSON, for example."""
    builder = Builder()
    pairs = builder.stream("in").flat_map(lambda _, pairs: pairs)
    pairs.map_values_async(after, ordered=False).to("out", key=json)
    run = Run(builder).send("in", ("x", [[[1], 9], [[2], 4]], 0))
    assert run.read("out", json) == [([1], 9, 0), ([2], 4, 0)]


@pytest.mark.parametrize("concurrency", [1, 3])
def test_concurrency_bounds_the_calls_under_way(concurrency: int) -> None:
    """Also when one record causes more calls than that."""
    under_way, most = 0, 0

    async def count(value: int) -> int:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        await asyncio.sleep(1)
        under_way -= 1
        return value

    builder = Builder()
    builder.stream("in").flat_map_values(range).map_values_async(count, concurrency=concurrency).to("out")
    assert len(Run(builder).send("in", ("a", 7, 0)).read()) == 7
    assert most == concurrency


def test_a_full_operator_takes_no_more_records() -> None:
    """They stay in the buffers of the task; results that wait for their turn count like calls."""
    started: list[int] = []

    async def note(value: int) -> int:
        started.append(value)
        return await after(value)

    builder = Builder()
    builder.stream("in").map_values_async(note, concurrency=2).to("out")
    run = Run(builder, at_once=False, exactly_once=False)
    run.send("in", *[("a", value, 0) for value in (100, 10, 11, 12, 13)])
    run.driver.advance_wall_clock_time(0)
    assert started == [100, 10]
    run.driver.advance_wall_clock_time(50)
    assert started == [100, 10, 11, 12], "the results of three calls wait for the first one"
    assert run.read() == []
    run.driver.advance_wall_clock_time(50)
    assert [value for _, value, _ in run.read()] == [100, 10, 11, 12]
    run.driver.advance_wall_clock_time(13)
    assert [value for _, value, _ in run.read()] == [13]


def test_a_call_that_takes_too_long_fails() -> None:
    """The error names processor, topic, partition and offset, as every error of a user's function."""
    run = Run(mapped(timeout=timedelta(seconds=1), name="slow"))
    run.send("in", ("a", [999], 0))
    with pytest.raises(
        ProcessingError, match="processor slow of task 0_0 failed on offset 1 of in-0"
    ) as info:
        run.send("in", ("a", [1001], 0))
    assert isinstance(info.value.__cause__, TimeoutError)
    assert str(info.value.__cause__) == "the async function had no result within 1000 ms"


def test_a_failed_call_is_retried() -> None:
    """After pauses that double; for the errors of the policy alone; within the timeout."""
    attempts: list[float] = []

    async def fail(value: int) -> int:
        attempts.append(asyncio.get_running_loop().time())
        if len(attempts) <= value:
            raise OSError(f"attempt {len(attempts)}")
        return value

    def run(value: int, retry: Retry, timeout: int = 5000) -> Any:
        attempts.clear()
        builder = Builder()
        builder.stream("in").map_values_async(fail, retry=retry, timeout=timeout).to("out")
        return Run(builder).send("in", ("a", value, 0)).read()

    assert run(3, Retry(4, 100, 300)) == [("a", 3, 0)]
    assert attempts == pytest.approx([0, 0.1, 0.3, 0.6])
    for retry, timeout, count in [(Retry(3), 5000, 3), (Retry(on=(ValueError,)), 5000, 1)]:
        with pytest.raises(ProcessingError) as info:
            run(9, retry, timeout)
        assert str(info.value.__cause__) == f"attempt {count}"
    with pytest.raises(ProcessingError) as info:
        run(9, Retry(9), 250)
    timeout_error = info.value.__cause__
    assert isinstance(timeout_error, TimeoutError)
    assert str(timeout_error.__cause__) == "attempt 2", "the error of the last attempt is its cause"


def test_a_handler_decides_on_failed_calls() -> None:
    """The dead letter has the bytes and the position of the record; the others go on."""

    async def even(value: int) -> int:
        if value % 2:
            raise ValueError(f"{value} is odd")
        return value

    builder = Builder()
    builder.stream("in").map_values_async(even, name="even").to("out")
    handler = LogAndContinue("dead")
    run = Run(builder, TaskSettings(key_serde=utf8, value_serde=json, processing_handler=handler))
    assert run.send("in", ("a", 2, 5), ("a", 3, 6), ("a", 4, 7)).read() == [("a", 2, 5), ("a", 4, 7)]
    (letter,) = run.driver.producer_records("dead")
    assert (letter.key, letter.value, letter.timestamp) == (b"a", b"3", 6)
    headers = dict(letter.headers)
    assert headers["__streams.errors.message"] == b"3 is odd"
    assert headers["__streams.errors.offset"] == b"1"
    assert run.driver.dropped_records == {"processing failed": 1}


def test_an_error_behind_the_function_names_its_own_processor() -> None:
    """And the record that the result is for, which is not the one that was read last."""

    def divide(value: int) -> float:
        return 1 / value

    builder = Builder()
    builder.stream("in").map_values_async(after).map_values(divide, name="divide").to("out")
    run = Run(builder, at_once=False).send("in", ("a", 1, 0), ("a", 0, 0), ("a", 2, 0))
    with pytest.raises(ProcessingError, match="processor divide of task 0_0 failed on offset 1 of in-0"):
        run.driver.advance_wall_clock_time(5)


def test_a_processor_behind_the_function_sees_the_record_of_the_result() -> None:
    """Its topic, partition and offset."""
    seen: list[tuple[Any, int]] = []

    class Note:
        def init(self, context: Any) -> None:
            self.context = context

        def process(self, record: Record[Any, Any]) -> None:
            seen.append((record.value, self.context.record_metadata.offset))

    builder = Builder()
    builder.stream("in").map_values_async(after, ordered=False).process(Note)
    run = Run(builder, at_once=False).send("in", ("a", 3, 0), ("b", 2, 0), ("c", 1, 0))
    run.driver.advance_wall_clock_time(5)
    assert seen == [(1, 2), (2, 1), (3, 0)]


def test_a_function_that_is_not_async_is_refused() -> None:
    """With what it returned."""
    builder = Builder()
    builder.stream("in").map_values_async(str).to("out")  # type: ignore[arg-type]
    with pytest.raises(ProcessingError) as info:
        Run(builder).send("in", ("a", 1, 0))
    assert str(info.value.__cause__) == "the function must be async, it returned str"


def test_a_function_that_is_cancelled_from_inside_has_failed() -> None:
    """It is not taken for a call that its task has cancelled."""

    async def cancelled(_: int) -> int:
        raise asyncio.CancelledError

    builder = Builder()
    builder.stream("in").map_values_async(cancelled).to("out")
    with pytest.raises(ProcessingError) as info:
        Run(builder).send("in", ("a", 1, 0))
    assert isinstance(info.value.__cause__, StreamsError)


def test_results_of_a_cache_and_of_a_punctuator_are_calls_as_well() -> None:
    """Flushing a cache forwards records; the commit waits for their calls, and for those behind them."""
    builder = Builder()
    counts = builder.stream("in").group_by_key().count(store="counts").to_stream()
    doubled = counts.map_values_async(after).group_by_key().reduce(lambda old, new: old + new, store="sums")
    doubled.to_stream().map_values_async(after).to("out")
    run = Run(builder).send("in", ("a", "x", 0), ("a", "y", 1))
    assert run.read() == [("a", 1, 0), ("a", 3, 1)]


def test_options_that_cannot_be_are_refused() -> None:
    """When the operator is added."""
    stream = Builder().stream("in")
    with pytest.raises(ValueError, match="concurrency must be at least 1, not 0"):
        stream.map_values_async(after, concurrency=0)
    with pytest.raises(ValueError, match="timeout must be at least 1 ms"):
        stream.map_values_async(after, timeout=0)
    with pytest.raises(ValueError, match="attempts must be at least 1, not 0"):
        Retry(0)
    with pytest.raises(ValueError, match="backoff must not be negative"):
        Retry(backoff=-1)
    with pytest.raises(TypeError):
        Retry(on=(KeyboardInterrupt,))  # type: ignore[arg-type]


def test_it_is_described_as_an_operator_that_changes_values() -> None:
    """Its repartition topic is not merged with others above it."""
    builder = Builder(optimization="all")
    changed = builder.stream("in").select_key(lambda _, value: value)
    changed.group_by_key().count()
    changed.map_values_async(after).group_by_key().count()
    text = str(builder.topology().describe())
    assert "Processor: KSTREAM-MAPVALUESASYNC-0000000007 (stores: [])" in text
    assert text.count("-repartition)") == 2, "two topics are written"


def test_a_key_changed_before_is_repartitioned_behind() -> None:
    """The operator leaves keys as they are."""
    builder = Builder()
    builder.stream("in").select_key(lambda _, value: str(value)).map_values_async(
        after
    ).group_by_key().count()
    assert "repartition" in str(builder.topology().describe())


def test_the_driver_has_no_network() -> None:
    """A function that opens a connection fails with a hint."""

    async def connect(_: int) -> None:
        await asyncio.open_connection("127.0.0.1", 9)

    builder = Builder()
    builder.stream("in").map_values_async(connect).to("out")
    with pytest.raises(ProcessingError) as info:
        Run(builder).send("in", ("a", 1, 0))
    assert "no network: give it a fake" in str(info.value.__cause__)


def test_threads_of_asyncio_run_at_once() -> None:
    """`asyncio.to_thread` works in the driver, in the thread of the test."""
    builder = Builder()
    builder.stream("in").map_values_async(lambda value: asyncio.to_thread(int.__add__, value, 1)).to("out")
    assert Run(builder).send("in", ("a", 1, 0)).read() == [("a", 2, 0)]


def test_the_driver_works_in_an_async_test() -> None:
    """And in a notebook, where a loop is running as well."""

    async def test() -> list[Any]:
        return Run(mapped()).send("in", ("a", [3], 0)).read()

    assert asyncio.run(test()) == [("a", 3, 0)]


def test_closing_the_driver_waits_for_calls() -> None:
    """Their results are in the output; after a failure they are cancelled."""
    builder = mapped()
    settings = TaskSettings(key_serde=utf8, value_serde=json)
    with TestDriver(builder, settings=settings, at_once=False) as driver:
        driver.input_topic("in").pipe_input("a", [1000], 0)
        assert driver.output_topic("out").is_empty
    assert driver.output_topic("out").read_values() == [1000]
