"""A task that is lost at any step, and the laws of exactly-once."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest
from headrace.clients.serdes import int64, json, utf8
from headrace.stream import Builder, Store, TestDriver, ValueAndTimestamp, join_window, session
from headrace.stream.errors import StreamsError
from headrace.stream.task.settings import TaskSettings
from headrace.stream.testing.strategies import out_of_order
from hypothesis import given, settings
from hypothesis import strategies as st


def application() -> Builder:
    """Counts through a repartition topic, sessions, and a join of two streams."""
    builder = Builder()
    stream = builder.stream("in", key=utf8, value=utf8)
    counts = stream.group_by(lambda k, v: v, key=utf8, value=utf8).count(store="counts")
    counts.to_stream().to("counts-out", key=utf8, value=int64)
    sessions = stream.group_by_key(key=utf8, value=utf8).windowed_by(session(5, grace=1000))
    sessions.count(store="sessions").to_stream().map(lambda k, n: (k.key, n)).to("sessions-out", key=utf8)
    stream.left_join(
        stream.map_values(str.upper), lambda a, b: [a, b], window=join_window(5, grace=1000), name="pairs"
    ).to("pairs-out", key=utf8, value=json)
    return builder


RECORDS = out_of_order(st.sampled_from("ab"), st.sampled_from("xy"), max_size=6, max_lateness_ms=8)


def run(records: list[tuple[str, str, int]], **options: object) -> TestDriver:
    defaults = TaskSettings(key_serde=utf8, value_serde=json)
    driver = TestDriver(application(), settings=defaults, **options)  # type: ignore[arg-type]
    topic = driver.input_topic("in")
    for key, value, timestamp in records:
        topic.pipe_input(key, value, timestamp)
    return driver


def everything(driver: TestDriver) -> dict[str, list[object]]:
    found: dict[str, list[object]] = {
        topic: list(driver.producer_records(topic)) for topic in sorted(driver.produced_topic_names)
    }
    for name, store in driver.stores.items():
        with store.fetch_key_range(None, None) if name == "sessions" else store.all() as rows:
            found[name] = list(rows)
    return found


@settings(max_examples=30)
@given(RECORDS, st.sets(st.integers(1, 120), max_size=4))
def test_a_crash_changes_nothing_with_exactly_once(
    records: list[tuple[str, str, int]], crash_at: set[int]
) -> None:
    """Output, changelogs and stores are those of a run without crashes."""
    assert everything(run(records, crash_at=crash_at)) == everything(run(records))


@settings(max_examples=30)
@given(RECORDS, st.sets(st.integers(1, 120), max_size=4))
def test_a_crash_loses_nothing_with_at_least_once(
    records: list[tuple[str, str, int]], crash_at: set[int]
) -> None:
    """Each record is counted at least once."""
    crashed = run(records, crash_at=crash_at, exactly_once=False)
    for value in {value for _, value, _ in records}:
        assert crashed.store("counts").get(value).value >= [v for _, v, _ in records].count(value)


def asynchronous(*, ordered: bool) -> Builder:
    """A store before and a store behind an async function whose duration is its value."""

    async def slowly(key: str, value: int) -> int:
        await asyncio.sleep(value)
        return value

    builder = Builder()
    stream = builder.stream("in").merge(builder.stream("other"))
    counts = stream.group_by_key().count(store="before").to_stream()
    called = counts.merge(stream).map_values_async(slowly, with_key=True, concurrency=3, ordered=ordered)
    called.to("results")
    called.group_by(lambda _, value: str(value % 2)).count(store="behind").to_stream().to("out")
    return builder


CALLS = st.lists(
    st.tuples(st.sampled_from(("in", "other")), st.sampled_from("ab"), st.integers(0, 5), st.integers(0, 3)),
    max_size=8,
)
"""Topic, key, value, and how much the clock advances behind the record."""


def call_all(
    calls: list[tuple[str, str, int, int]], *, ordered: bool, at_once: bool, **options: object
) -> TestDriver:
    driver = TestDriver(
        asynchronous(ordered=ordered),
        settings=TaskSettings(key_serde=utf8, value_serde=json),
        at_once=at_once,
        **options,  # type: ignore[arg-type]
    )
    for topic, key, value, seconds in calls:
        driver.input_topic(topic).pipe_input(key, value)
        driver.advance_wall_clock_time(1000 * seconds)
    driver.advance_wall_clock_time(1_000_000)
    return driver


@settings(max_examples=60)
@given(CALLS, st.sets(st.integers(1, 150), max_size=4), st.booleans(), st.booleans())
def test_a_crash_between_async_calls_changes_nothing(
    calls: list[tuple[str, str, int, int]], crash_at: set[int], ordered: bool, at_once: bool
) -> None:
    """Each record is counted once before and behind the function, and has one result; in order, if wanted."""
    crashed = call_all(calls, ordered=ordered, at_once=at_once, crash_at=crash_at)
    rows = {name: dict(crashed.store(name).all()) for name in ("before", "behind")}
    for key in "ab":
        values = [value for _, found, value, _ in calls if found == key]
        count = rows["before"].get(key)
        assert (0 if count is None else count.value) == len(values)
    results = crashed.output_topic("results").read_key_values()
    counted = {key: found.value for key, found in rows["behind"].items()}
    assert counted == Counter(str(value % 2) for _, value in results)
    for topic, key in {(topic, key) for topic, key, _, _ in calls}:
        values = [value for *place, value, _ in calls if place == [topic, key]]
        found = [value for name, value in results if name == key]
        assert is_subsequence(values, found), "a key of a partition keeps its order in any case"
    if at_once:
        calm = call_all(calls, ordered=ordered, at_once=True)
        assert crashed.producer_records("results") == calm.producer_records("results")


def is_subsequence(some: list[int], values: list[int]) -> bool:
    rest = iter(values)
    return all(value in rest for value in some)


def in_sections() -> Builder:
    """Stores and an async function between two Arrow sections."""

    async def echo(value: int) -> int:
        await asyncio.sleep(value)
        return value

    builder = Builder()
    stream = builder.stream("in").arrow(lambda batch: batch, batch=2, max_wait=1000)
    counts = stream.group_by_key(key=utf8, value=json).count(store="counts").to_stream()
    counts.map_values_async(echo).arrow(lambda batch: batch, max_wait=700).to("out")
    return builder


@settings(max_examples=40)
@given(CALLS, st.sets(st.integers(1, 150), max_size=4), st.booleans())
def test_a_crash_while_rows_wait_changes_nothing(
    calls: list[tuple[str, str, int, int]], crash_at: set[int], at_once: bool
) -> None:
    """Each record is counted once, and the last count of each key is in the output once."""
    defaults = TaskSettings(key_serde=utf8, value_serde=json)
    driver = TestDriver(in_sections(), settings=defaults, at_once=at_once, crash_at=crash_at)
    for _, key, value, seconds in calls:
        driver.input_topic("in").pipe_input(key, value)
        driver.advance_wall_clock_time(1000 * seconds)
    for _ in range(4):  # rows, calls, rows, and a commit that was lost
        driver.advance_wall_clock_time(100_000)
    found = driver.output_topic("out").read_key_values()
    assert len(set(found)) == len(found)
    assert dict(found) == Counter(key for _, key, _, _ in calls)


@settings(max_examples=30)
@given(CALLS, st.sets(st.integers(1, 150), max_size=4))
def test_a_crash_between_async_calls_loses_nothing_with_at_least_once(
    calls: list[tuple[str, str, int, int]], crash_at: set[int]
) -> None:
    """Each record has its result."""
    crashed = call_all(calls, ordered=False, at_once=False, crash_at=crash_at, exactly_once=False)
    results = Counter(crashed.output_topic("results").read_key_values())
    assert all(results[key, value] >= count for (key, value), count in Counter(c[1:3] for c in calls).items())


@pytest.mark.parametrize(("after_and_grace_ms", "values"), [(0, [b"aNone", b"cNone"]), (20, [b"aNone"])])
def test_results_without_partner_survive_a_crash_at_each_step(
    after_and_grace_ms: int, values: list[bytes]
) -> None:
    """What waits is found in the store after a restart; nothing else remembers it."""

    def results(crash_at: set[int]) -> tuple[list[object], int]:
        builder = Builder()
        left, right = (builder.stream(topic, key=utf8, value=utf8) for topic in ("left", "right"))
        window = join_window(0, after=after_and_grace_ms, grace=after_and_grace_ms)
        left.left_join(right, lambda a, b: f"{a}{b}", window=window).to("out", key=utf8, value=utf8)
        strings = TaskSettings(key_serde=utf8, value_serde=utf8)
        driver = TestDriver(builder, settings=strings, crash_at=crash_at)
        driver.input_topic("left").pipe_input("k", "a", 10)
        driver.input_topic("left").pipe_input("k", "c", 45)
        driver.input_topic("right").pipe_input("other", "b", 60)
        return list(driver.producer_records("out")), driver.steps

    expected, steps = results(set())
    assert [record.value for record in expected] == values
    assert all(results({step})[0] == expected for step in range(1, steps + 1))


class Note:
    """Puts each value into the store `notes`."""

    def init(self, context: Any) -> None:
        self.notes = context.state_store("notes")

    def process(self, record: Any) -> None:
        self.notes.put(record.key, record.value)


@pytest.mark.parametrize("crash_at", range(16))
def test_a_store_that_a_later_flush_writes_to_is_in_the_same_commit(crash_at: int) -> None:
    """The store is flushed before the table whose changes are written to it."""
    builder = Builder()
    builder.add_store(Store("notes", key=utf8, value=int64, cached=True))
    words = builder.stream("words", key=utf8, value=utf8)
    words.filter(lambda _key, word: word == "reset").map_values(lambda _: 0).process(Note, "notes")
    words.group_by_key().count(store="counts").to_stream().process(Note, "notes")
    with TestDriver(builder, crash_at=[crash_at]) as driver:
        for key in "abab":
            driver.input_topic("words").pipe_input(key, "word")
        assert {key: driver.store("notes").get(key) for key in "ab"} == {"a": 2, "b": 2}


def test_a_store_that_its_own_changes_write_to_without_end_is_named() -> None:
    """In place of a commit that never ends, or of one that lacks the last write."""

    class Again:
        def init(self, context: Any) -> None:
            self.counts = context.state_store("counts")

        def process(self, record: Any) -> None:
            self.counts.put(record.key, ValueAndTimestamp(record.value + 1, record.timestamp))

    builder = Builder()
    words = builder.stream("words", key=utf8, value=utf8)
    words.group_by_key().count(store="counts").to_stream().process(Again, "counts")
    driver = TestDriver(builder)
    with pytest.raises(StreamsError, match=r"task 0_0 cannot commit: each flush of counts causes further"):
        driver.input_topic("words").pipe_input("a", "word")
