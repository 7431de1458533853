"""The test driver."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from headrace.clients.serdes import int64, json, utf8
from headrace.stream import Builder, Record, StoreBuilder, StoreKind, TestDriver, Topology
from headrace.stream.errors import StreamsError
from headrace.stream.task.settings import TaskSettings


def counting() -> Builder:
    """Counts by the value: through a repartition topic."""
    builder = Builder()
    stream = builder.stream("in", key=utf8, value=utf8)
    counted = stream.group_by(lambda k, v: v, key=utf8, value=utf8).count(store="counts")
    counted.to_stream().to("out", key=utf8, value=int64)
    return builder


def test_sub_topologies_are_connected_through_their_topics() -> None:
    """The repartition topic and the changelog can be inspected, in bytes."""
    with TestDriver(counting(), application_id="app") as driver:
        driver.input_topic("in").pipe_input("k", "x", 7)
        assert driver.output_topic("out").read_record() == Record("x", 1, 7)
        assert driver.produced_topic_names == {"out", "app-counts-changelog", "app-counts-repartition"}
        changelog = driver.producer_records("app-counts-changelog")
        assert [(record.key, record.value) for record in changelog] == [(b"x", (1).to_bytes(8, "big"))]
        assert driver.store("counts").get("x").value == 1
        assert list(driver.stores) == ["counts"]


def test_the_time_of_an_input_topic_advances() -> None:
    """By `auto_advance` with every record that has no timestamp of its own."""
    with TestDriver(counting()) as driver:
        topic = driver.input_topic("in", start=100, auto_advance=timedelta(milliseconds=10))
        topic.pipe_value("a")
        topic.pipe_value("b", datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC))
        topic.pipe_value("c")
        topic.advance_time(1000)
        topic.pipe_value("d")
        out = driver.output_topic("out")
        assert [(record.key, record.timestamp) for record in out.read_records()] == [
            ("a", 100), ("b", 1000), ("c", 110), ("d", 1120),
        ]  # fmt: skip
        with pytest.raises(ValueError, match="does not go back"):
            topic.advance_time(-1)


def test_output_is_read_once() -> None:
    """One by one, all, or the last value of each key."""
    with TestDriver(counting()) as driver:
        driver.input_topic("in").pipe_key_values([("k", "x"), ("k", "y"), ("k", "x")], 5, 1)
        out = driver.output_topic("out")
        assert (out.queue_size, out.is_empty) == (3, False)
        assert out.read_key_value() == ("x", 1)
        assert out.read_key_values_to_map() == {"y": 1, "x": 2}
        with pytest.raises(LookupError, match="no record is left in topic out"):
            out.read_value()


def test_an_unknown_topic_or_store_is_an_error() -> None:
    """It names it."""
    with TestDriver(counting()) as driver:
        with pytest.raises(ValueError, match="topic other is not an input"):
            driver.input_topic("other")
        with pytest.raises(LookupError, match="no store other"):
            driver.store("other")


def test_serdes_are_those_of_the_topology() -> None:
    """A source without any needs a default."""
    topology = Topology().add_source("s", "in").add_sink("k", "out", "s")
    with TestDriver(topology, settings=TaskSettings(key_serde=utf8, value_serde=json)) as driver:
        driver.input_topic("in").pipe_input("a", [1], 0, {"h": b"x"})
        assert driver.output_topic("out").read_record() == Record("a", [1], 0, (("h", b"x"),))
    with pytest.raises(StreamsError, match="has no key serde"):
        TestDriver(topology)


def test_a_global_store_is_updated_at_once() -> None:
    """Also by records that the topology itself sends to its topic."""
    builder = Builder()
    builder.global_table("rows", key=utf8, value=json, store="rows")
    builder.stream("in", key=utf8, value=json).to("rows")
    with TestDriver(builder) as driver:
        driver.input_topic("rows").pipe_input("a", 1, 0)
        driver.input_topic("in").pipe_input("b", 2, 0)
        with driver.store("rows").all() as rows:
            assert [(key, row.value) for key, row in rows] == [("a", 1), ("b", 2)]


def test_the_fixture_makes_drivers(headrace_stream_driver: Callable[..., TestDriver]) -> None:
    """Any number of them; they are closed after the test."""
    first, second = headrace_stream_driver(counting()), headrace_stream_driver(counting(), now=50)
    first.input_topic("in").pipe_value("x")
    second.input_topic("in").pipe_value("x")
    assert [driver.output_topic("out").read_record().timestamp for driver in (first, second)] == [0, 50]


LEAKS: dict[StoreKind, Callable[[Any], Any]] = {
    StoreKind.KEY_VALUE: lambda store: store.all(),
    StoreKind.TIMESTAMPED_KEY_VALUE: lambda store: store.range("a", "b"),
    StoreKind.TIMESTAMPED_KEY_VALUE_WITH_HEADERS: lambda store: store.reverse_all(),
    StoreKind.WINDOW: lambda store: store.fetch_range("a", 0, 10),
    StoreKind.TIMESTAMPED_WINDOW: lambda store: store.all(),
    StoreKind.TIMESTAMPED_WINDOW_WITH_HEADERS: lambda store: store.fetch_all(0, 10),
    StoreKind.SESSION: lambda store: store.fetch("a"),
    StoreKind.SESSION_WITH_HEADERS: lambda store: store.find_sessions("a", 0, 10),
}


@pytest.mark.parametrize("kind", LEAKS)
@pytest.mark.parametrize("cached", [False, True])
def test_an_iterator_that_is_left_open_fails_the_test(kind: StoreKind, cached: bool) -> None:
    """Of each kind of store that has iterators; also in the fixture, which closes its drivers. The error of
    the test itself comes first."""
    topology = Topology()
    topology.add_source("source", "in", key=utf8, value=utf8)
    topology.add_processor("processor", lambda: Passing(), "source")
    retention = 0 if "key-value" in kind.value else 100
    builder = StoreBuilder(
        "store", kind, utf8, int64, persistent=False, is_cached=cached, retention_ms=retention
    )
    topology.add_state_store(builder, "processor")
    driver = TestDriver(topology)
    LEAKS[kind](driver.store("store"))
    with pytest.raises(StreamsError, match="iterators were not closed: 1 of store store"):
        driver.close()
    with pytest.raises(ZeroDivisionError):
        fail_with_an_open_iterator(TestDriver(topology), LEAKS[kind])


def fail_with_an_open_iterator(driver: TestDriver, leak: Callable[[Any], Any]) -> None:
    with driver:
        leak(driver.store("store"))
        raise ZeroDivisionError


class Passing:
    """A processor that does nothing."""

    def process(self, record: Any) -> None:
        """Nothing."""
