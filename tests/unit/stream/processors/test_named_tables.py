"""Named aggregates over a store with a cache, which keeps states, beside the same records without one."""

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


class NothingWaits(ThreadCache):
    """Each write goes to the cache at once."""

    def _share(self) -> None:
        self.most_deferred = 0


class Run:
    """A task with one partition. What it sent: topic, key, value, timestamp."""

    def __init__(
        self,
        add_operators: Callable[[KStream[Any, Any]], object],
        cache_bytes: int = 10**6,
        *,
        store_headers: bool = False,
        waits: bool = True,
        **options: Any,
    ) -> None:
        builder = Builder(store_headers=store_headers)
        add_operators(builder.stream("in", key=json, value=json))
        self.sent: list[Any] = []
        io = TaskIo(
            lambda *record: self.sent.append(record),
            lambda _: 1,
            lambda _: MemoryEngine(),
            (ThreadCache if waits else NothingWaits)(cache_bytes),
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


def operators(kind: str) -> Callable[[KStream[Any, Any]], object]:
    def add(stream: KStream[Any, Any]) -> None:
        grouped: Any = stream.group_by_key()
        if WINDOWS[kind] is not None:
            grouped = grouped.windowed_by(WINDOWS[kind])
        table = grouped.aggregate(**AGGREGATES, value=json)
        table.to_stream(lambda key, row: str(key)).to("out", key=utf8)

    return add


@pytest.mark.parametrize("kind", WINDOWS)
@given(records=RECORDS, commit_every=st.integers(1, 12), headers=st.booleans())
@settings(max_examples=40)
def test_the_states_are_those_without_a_cache(
    kind: str, records: list[tuple[Any, Any, int]], commit_every: int, headers: bool
) -> None:
    """Also where a function fails on some records. What is sent does not depend on what waits; without a
    cache the last record of each key is the same, but for sessions: those merged between two commits never
    were in the changelog, and a cached session is found a little longer than the store's retention."""
    runs = []
    for options in ({}, {"waits": False}, {"cache_bytes": 0}):
        run = Run(operators(kind), store_headers=headers, processing_handler=LogAndContinue(), **options)
        runs.append(run.process(records, commit_every).commit())
    waiting, cached, plain = runs
    assert waiting.sent == cached.sent
    dropped = [run.task.context.dropped_records for run in runs]
    assert dropped[0] == dropped[1]
    if kind != "session":
        assert dropped[1] == dropped[2]
        assert last_sent(waiting) == last_sent(plain)


def last_sent(run: Run) -> dict[Any, Any]:
    """Value, timestamp and headers by topic and key; a result has the headers of its last record."""
    return {(topic, key): rest for topic, _, key, *rest in run.sent}


def counted(stream: KStream[Any, Any]) -> None:
    stream.group_by_key().aggregate(n=Count(), total=Sum(amount), store="rows").to_stream().to(
        "out", key=json
    )


TWO = [(b'"a"', b'{"amount":1}', 1), (b'"a"', b'{"amount":2}', 2)]


def test_a_key_has_one_result_for_each_commit() -> None:
    """Until then its states wait, and are seen by readers of the store."""
    run = Run(counted)
    store = run.task.stores["rows"]
    run.process(TWO)
    assert run.sent == []
    assert not store._cache.entries
    run.commit()
    assert store.get("a") == ({"n": 2, "total": 3}, 2)
    assert len(run.sent) == 2  # one record of the changelog, one result
    run.process(TWO)
    assert store.get("a").value.n == 4
    assert store._cache.entries


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
    assert len([value for topic, _, _, value, *_ in run.sent if topic == "out"]) == 2


@pytest.mark.parametrize("bad", [b'{"amount":"x"}', b"{}"])
def test_a_failing_record_is_named(bad: bytes) -> None:
    """The records before it are kept until the task ends."""
    with pytest.raises(
        ProcessingError, match="KSTREAM-AGGREGATE-0000000001 of task 0_0 failed on offset 1 of in-0"
    ):
        Run(counted).process([TWO[0], (b'"a"', bad, 2), (b'"b"', b'{"amount":1}', 3)])


def test_long_states_do_not_wait() -> None:
    """They would be looked through for each record."""

    def collected(stream: KStream[Any, Any]) -> None:
        stream.group_by_key().aggregate(all=Collect(amount), store="rows")

    run = Run(collected).process(TWO * 4)
    store = run.task.stores["rows"]
    assert not store._cache.entries
    run.process(TWO)
    assert store._cache.entries
    assert len(store.get("a").value["all"]) == 10
