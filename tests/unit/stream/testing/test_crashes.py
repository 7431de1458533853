"""A task that is lost at any step, and the laws of exactly-once."""

from __future__ import annotations

from headrace.clients.serdes import int64, json, utf8
from headrace.stream import Builder, TestDriver, join_window, session
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
