"""Runs of records that are combined per key, beside the same records one by one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from headrace.clients.serdes import json, utf8
from headrace.protocol.model import TopicPartition
from headrace.stream import (
    Aggregate,
    Builder,
    Collect,
    Count,
    Distinct,
    First,
    KStream,
    Last,
    Max,
    Mean,
    Min,
    Store,
    Sum,
    TopN,
    hopping,
    session,
    tumbling,
)
from headrace.stream.errors import ProcessingError
from headrace.stream.processors import combined_runs
from headrace.stream.state.memory_engine import MemoryEngine
from headrace.stream.state.thread_cache import ThreadCache
from headrace.stream.task.handlers import LogAndContinue
from headrace.stream.task.settings import TaskSettings
from headrace.stream.task.task import Task, TaskIo
from headrace.stream.testing.strategies import out_of_order
from headrace.stream.testing.topics import StoredRecord
from hypothesis import given, settings
from hypothesis import strategies as st

IN = TopicPartition("in", 0)


def amount(value: Any) -> Any:
    return value["amount"]


AGGREGATES: dict[str, Aggregate[Any]] = {
    "n": Count(),
    "amounts": Count(amount),
    "total": Sum(amount),
    "mean": Mean(amount),
    "low": Min(amount),
    "high": Max(amount),
    "first": First(amount),
    "last": Last(amount),
    "distinct": Distinct(amount, limit=3),
    "top": TopN(2, amount),
    "all": Collect(amount, limit=4, keep="last"),
}
WINDOWS: dict[str, Any] = {
    "none": None,
    "tumbling": tumbling(10, grace=5),
    "hopping": hopping(10, advance=4),
    "session": session(5, grace=5),
}
KEYS = st.sampled_from([b'"a"', b'"b"', b"1", b"1.0", b"true", b"[1]", None])
VALUES = st.sampled_from([b'{"amount":1}', b'{"amount":2.5}', b'{"amount":null}', b'{"amount":"x"}', b"{}"])
RECORDS = out_of_order(KEYS, VALUES, max_size=25, max_step_ms=6, max_lateness_ms=25, tombstones=True)


class Reader:
    """Another processor of the store: then it is read and written for each record."""

    def process(self, record: Any) -> None:
        """Nothing."""


class Run:
    """A task with one partition. What it sent: topic, key, value, timestamp."""

    def __init__(
        self,
        add_operators: Callable[[KStream[Any, Any]], object],
        cache_bytes: int = 10**6,
        *,
        store_headers: bool = False,
        **options: Any,
    ) -> None:
        builder = Builder(store_headers=store_headers)
        add_operators(builder.stream("in", key=json, value=json))
        self.sent: list[Any] = []
        io = TaskIo(
            lambda *record: self.sent.append(record),
            lambda _: 1,
            lambda _: MemoryEngine(),
            ThreadCache(cache_bytes),
        )
        topology = builder.build("app", caching=cache_bytes > 0).sub_topology(0)
        self.task = Task(
            "app", 0, topology, TaskSettings(json, json, **options), io, topics=["in"], wall_ms=0
        )
        self.task.initialize()
        self.task.complete_restoration()
        self.task.group.use_lags({IN: 0})

    def process(self, records: list[tuple[Any, Any, int]], commit_every: int = 1000) -> Run:
        stored = [
            StoredRecord("in", 0, offset, timestamp, key, value, (("h", b"%d" % offset),))
            for offset, (key, value, timestamp) in enumerate(records)
        ]
        self.task.add_records(IN, stored)
        for number in range(1, len(stored) + 1):
            assert self.task.process(0)
            if number % commit_every == 0:
                self.commit()
        return self

    def commit(self) -> Run:
        self.task.prepare_commit()
        self.task.post_commit()
        return self


def operators(kind: str, *, combined: bool) -> Callable[[KStream[Any, Any]], object]:
    def add(stream: KStream[Any, Any]) -> None:
        grouped: Any = stream.group_by_key()
        if WINDOWS[kind] is not None:
            grouped = grouped.windowed_by(WINDOWS[kind])
        table = grouped.aggregate(**AGGREGATES, value=json)
        table.to_stream(lambda key, row: str(key)).to("out", key=utf8)
        if not combined:
            stream.process(Reader, "KSTREAM-AGGREGATE-STATE-STORE-0000000001")

    return add


@pytest.mark.parametrize("kind", WINDOWS)
@given(
    records=RECORDS, commit_every=st.integers(1, 12), most=st.sampled_from([3, 1000]), headers=st.booleans()
)
@settings(max_examples=40)
def test_a_run_gives_what_its_records_give_one_by_one(
    kind: str, records: list[tuple[Any, Any, int]], commit_every: int, most: int, headers: bool
) -> None:
    """Output, changelogs and dropped records, also where a function fails on some of them."""
    runs = []
    before = combined_runs.MAX_RECORDS
    combined_runs.MAX_RECORDS = most
    try:
        for combined in (True, False):
            add_operators = operators(kind, combined=combined)
            run = Run(add_operators, store_headers=headers, processing_handler=LogAndContinue())
            runs.append(run.process(records, commit_every).commit())
    finally:
        combined_runs.MAX_RECORDS = before
    assert runs[0].sent == runs[1].sent
    assert runs[0].task.context.dropped_records == runs[1].task.context.dropped_records


def counted(stream: KStream[Any, Any]) -> None:
    stream.group_by_key().aggregate(n=Count(), total=Sum(amount), store="rows").to_stream().to(
        "out", key=json
    )


TWO = [(b'"a"', b'{"amount":1}', 1), (b'"a"', b'{"amount":2}', 2)]


def test_the_store_is_read_and_written_once_per_key_and_run() -> None:
    """That is what runs are for."""
    run = Run(counted)
    store = run.task.stores["rows"]
    assert run.process(TWO).task.context.runs
    assert store.get("a") is None
    run.commit()
    assert store.get("a") == ({"n": 2, "total": 3}, 2)
    assert len(run.sent) == 2  # one record of the changelog, one result


def uncached(stream: KStream[Any, Any]) -> None:
    stream.group_by_key().aggregate(n=Count(), store=Store("rows", cached=False)).to_stream().to(
        "out", key=json
    )


def joined(stream: KStream[Any, Any]) -> None:
    table = stream.group_by_key().aggregate(n=Count(), store="rows")
    stream.join(table, lambda value, row: row.n).to("out")


@pytest.mark.parametrize(("add_operators", "cache_bytes"), [(uncached, 10**6), (counted, 0), (joined, 10**6)])
def test_each_record_has_its_result_where_it_can_be_seen(
    add_operators: Callable[[KStream[Any, Any]], object], cache_bytes: int
) -> None:
    """Without a cache, and where another operator reads the store."""
    run = Run(add_operators, cache_bytes).process(TWO)
    assert not run.task.context.runs
    assert [value for topic, _, _, value, *_ in run.sent if topic == "out"] != []


@pytest.mark.parametrize("bad", [b'{"amount":"x"}', b"{}"])
def test_a_failing_record_is_named_when_its_run_is_combined(bad: bytes) -> None:
    """By its own offset, not by that of the last record; nothing of the run is written."""
    run = Run(counted).process([TWO[0], (b'"a"', bad, 2), (b'"b"', b'{"amount":1}', 3)])
    with pytest.raises(
        ProcessingError, match="KSTREAM-AGGREGATE-0000000001 of task 0_0 failed on offset 1 of in-0"
    ):
        run.task.prepare_commit()
    assert run.sent == []


def test_a_task_that_leaves_combines_its_run_first() -> None:
    """Before its processors are closed."""
    run = Run(counted).process(TWO)
    assert run.task.drain()
    run.task.suspend()
    assert run.task.prepare_commit()[IN].offset == 2
    assert len(run.sent) == 2


def test_a_run_has_an_end() -> None:
    """It is combined after a number of records, so that memory is bounded; a result waits for the commit."""
    run = Run(counted).process([(b'"a"', b'{"amount":1}', 1)] * (combined_runs.MAX_RECORDS + 1), 10**6)
    assert run.task.stores["rows"].get("a").value.n == combined_runs.MAX_RECORDS
    assert run.sent == []
