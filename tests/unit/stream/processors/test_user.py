"""The Processor API: classes and functions of users."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from headrace.clients.serdes import json, utf8
from headrace.stream import Builder, Record, Store, StoreBuilder, StoreKind, Topology
from headrace.stream.errors import ProcessingError

from tests.fakes.stream_run import Run


def run_of(processor: Any, *stores: str, fixed_key: bool = False, store: Store | None = None) -> Run:
    builder = Builder()
    if store is not None:
        builder.add_store(store)
    stream = builder.stream("in", key=utf8, value=json)
    process: Callable[..., Any] = stream.process_values if fixed_key else stream.process
    process(processor, *stores).to("out", key=utf8, value=json)
    return Run(builder)


class Totals:
    """Sums per key, with a store that it brings."""

    @staticmethod
    def stores() -> list[StoreBuilder]:
        return [StoreBuilder("totals", StoreKind.KEY_VALUE, utf8, json)]

    def init(self, context: Any) -> None:
        self.context = context
        self.store = context.state_store("totals")

    def process(self, record: Record[str, int]) -> None:
        total = (self.store.get(record.key) or 0) + record.value
        self.store.put(record.key, total)
        self.context.forward(record._replace(value=total, timestamp=record.timestamp + 1))


def test_a_processor_has_stores_and_forwards() -> None:
    """It may change the timestamp; the changelog has that of the input record."""
    run = run_of(Totals).send("in", ("a", 1, 10), ("a", 2, 20))
    assert run.read() == [("a", 1, 11), ("a", 3, 21)]
    changelog = run.driver.producer_records("app-totals-changelog")
    assert [record.timestamp for record in changelog] == [10, 20]


def test_a_function_yields_records() -> None:
    """Of a record, or of context and record."""

    def twice(record: Record[str, int]) -> Iterator[Record[str, int]]:
        yield record
        yield record._replace(value=-record.value)

    def place(context: Any, record: Record[str, int]) -> Iterator[Record[str, Any]]:
        yield record._replace(value=list(context.record_metadata))

    assert run_of(twice).send("in", ("a", 1, 0)).read() == [("a", 1, 0), ("a", -1, 0)]
    assert run_of(place).send("in", ("a", 1, 0)).read() == [("a", ["in", 0, 0], 0)]


def test_process_values_keeps_the_key() -> None:
    """A function may yield values; another key is an error."""

    def both(record: Record[str, int]) -> Iterator[Any]:
        yield record.value + 1
        yield record._replace(value=0)

    def other(record: Record[str, int]) -> Iterator[Any]:
        yield record._replace(key="other")

    assert run_of(both, fixed_key=True).send("in", ("a", 1, 0)).read() == [("a", 2, 0), ("a", 0, 0)]
    with pytest.raises(ProcessingError) as found:
        run_of(other, fixed_key=True).send("in", ("a", 1, 0))
    assert "must not change keys" in str(found.value.__cause__)


def test_a_store_must_be_connected() -> None:
    """The error names the processor and the store."""

    class Reads:
        def init(self, context: Any) -> None:
            context.state_store("rows")

        def process(self, record: Any) -> None:
            """Nothing."""

    with pytest.raises(Exception, match="failed to initialize") as found:
        run_of(Reads, store=Store("rows", key=utf8, value=json))
    assert "is not connected to store rows" in str(found.value.__cause__)


class Ticks:
    """Forwards the time of each punctuation."""

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def init(self, context: Any) -> None:
        self.context = context
        self.schedule = context.schedule(timedelta(milliseconds=10), self.kind, self.tick)

    def tick(self, timestamp: int) -> None:
        metadata, now = self.context.record_metadata, self.context.current_stream_time_ms()
        self.context.forward(Record("tick", [timestamp, metadata, now], timestamp))

    def process(self, record: Record[str, int]) -> None:
        if record.value == 0:
            self.schedule.cancel()
            self.context.commit()


def test_punctuators_on_stream_time() -> None:
    """At the first record, then every interval; missed intervals are skipped; there is no input record."""
    run = run_of(lambda: Ticks("stream")).send("in", ("a", 1, 3), ("a", 1, 9), ("a", 1, 35), ("a", 1, 40))
    assert [value for _, value, _ in run.read()] == [[3, None, 3], [35, None, 35], [40, None, 40]]
    assert run.send("in", ("a", 0, 50), ("a", 1, 60)).read() == []


def test_punctuators_on_the_wall_clock() -> None:
    """After an interval of the clock."""
    run = run_of(lambda: Ticks("wall")).send("in", ("a", 1, 1000))
    assert run.read() == []
    run.driver.advance_wall_clock_time(25)
    run.driver.advance_wall_clock_time(timedelta(milliseconds=5))
    assert [value for _, value, _ in run.read()] == [[25, None, 1000], [30, None, 1000]]


def test_forward_to_one_child() -> None:
    """By the name of the node."""

    def by_sign(context: Any, record: Record[str, int]) -> None:
        context.forward(record, "small" if record.value < 10 else "large")

    topology = Topology().add_source("s", "in", key=utf8, value=json).add_processor("p", by_sign, "s")
    topology.add_sink("small", "small-out", "p", key=utf8, value=json)
    topology.add_sink("large", "large-out", "p", key=utf8, value=json)
    run = Run(topology).send("in", ("a", 5, 0), ("a", 50, 1))
    assert (run.read("small-out"), run.read("large-out")) == ([("a", 5, 0)], [("a", 50, 1)])


def test_processors_are_closed() -> None:
    """With the task."""
    closed = []

    class Closing(Totals):
        def close(self) -> None:
            closed.append(True)

    run_of(Closing).close()
    assert closed == [True]
