"""Streams from topic to topic whose driver dies at any step between plan, run and commit, and restarts from
the engine's checkpoint: each row is there once. The engines here are fakes that behave as Spark does.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from random import Random
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from headrace import LocalCluster, NewTopic, TopicPartition
from headrace.clients.pipeline import (
    Limits,
    Planner,
    Sink,
    fetch_arrow,
    prepare_arrow,
    read_options,
    write_arrow,
    write_options,
)
from headrace.clients.pipeline.commits import Decision
from headrace.clients.pipeline.driver_log_io import Progress
from headrace.clients.pipeline.ranges import CREATED_AGAIN, OffsetRange
from headrace.clients.spark import stream_io
from headrace.clients.spark.reading_io import fetched
from headrace.clients.spark.stream_offsets import from_spark, to_spark
from headrace.protocol.errors import DataLossError
from pipeline_rig import Killed, pipeline_cluster

ROUNDS, ROWS, MOST = 3, 20, 13


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    """One node for all tests, each with topics of its own."""
    with pipeline_cluster() as started:
        yield started


class Copying:
    """A query that copies a topic, with a driver that may die at each `step`."""

    def __init__(self, cluster: LocalCluster, name: str, seed: int) -> None:
        self.cluster, self.random, self.query = cluster, Random(seed), f"{name}-{seed}"
        self.target = f"{self.query}-copy"
        cluster.admin().create_topics(NewTopic(self.query, 2), NewTopic(self.target, 2)).raise_for_errors()
        self.given = {"bootstrap": cluster.bootstrap, "subscribe": self.query, "startingOffsets": "earliest"}
        self.reading = read_options({**self.given, "maxOffsetsPerTrigger": MOST}, stream=True)
        self.writing = write_options({"bootstrap": cluster.bootstrap, "topic": self.target})
        self.written = self.deaths = 0
        self.limits = Limits(MOST)

    def step(self) -> None:
        if self.random.random() < 0.12:
            self.deaths += 1
            raise Killed

    def fill(self) -> None:
        values = [f"{self.written + number}" for number in range(ROWS)]
        write_arrow(
            [pa.table({"value": values})],
            write_options({"bootstrap": self.cluster.bootstrap, "topic": self.query}),
        )
        self.written += ROWS

    def copy(self, ranges: Iterable[OffsetRange], batch: int) -> None:
        """As `write_batch` does."""
        with Dying(self) as sink:
            if sink.is_committed(batch):
                return
            sink.abort_leftovers()
            gate = sink.open_gate()
            writes = []
            for task, each in enumerate(ranges):
                rows = fetch_arrow(each, self.reading, columns=["value"])
                writes.append(prepare_arrow(rows, self.writing, query=self.query, task=task, gate=gate))
                self.step()
            sink.commit(batch, writes)

    def check(self) -> None:
        """Each row once."""
        reading = read_options(
            {
                "bootstrap": self.cluster.bootstrap,
                "subscribe": self.target,
                "kafka.isolation.level": "read_committed",
            }
        )
        found = Counter[bytes]()
        for each in Planner(reading).batch().ranges:
            for batch in fetch_arrow(each, reading, columns=["value"]):
                found.update(batch.column("value").to_pylist())
        assert found == Counter(b"%d" % number for number in range(self.written))


class Dying(Sink):
    """Before and after it has decided, and in the middle of the ends."""

    def __init__(self, copying: Copying) -> None:
        self.copying = copying
        super().__init__(copying.writing, copying.query)

    def _record(self, decision: Decision, progress: Progress | None = None) -> None:
        self.copying.step()
        super()._record(decision, progress)
        self.copying.step()

    def _finish(self, decision: Decision) -> None:
        self.copying.step()
        super()._finish(decision)


@pytest.mark.parametrize("seed", range(3))
def test_offsets_in_the_engines_checkpoint(cluster: LocalCluster, seed: int) -> None:
    """As for the source of PySpark 4: the end of a batch is stored before it runs, and after it."""
    query = Copying(cluster, "checkpoint", seed)
    noted: dict[int, str] = {}
    done = -1

    def run() -> None:
        nonlocal done
        planner = Planner(query.reading)
        if -1 not in noted:
            noted[-1] = json.dumps(to_spark(planner.initial_offsets()))
        while True:
            start, batch = from_spark(json.loads(noted[done])), done + 1
            if batch not in noted:
                end = planner.latest_offsets(start, query.limits)
                if end == start:
                    return
                query.step()
                noted[batch] = json.dumps(to_spark(end))
            query.step()
            plan = planner.between(start, from_spark(json.loads(noted[batch])))
            assert sum(each.size for each in plan.ranges) <= MOST
            query.copy(plan.ranges, batch)
            query.step()
            done = batch
            query.step()

    play(query, run)


@pytest.mark.parametrize("seed", range(3))
def test_plans_in_a_topic(cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """As for PySpark 3.5: the engine numbers batches, and repeats the last one if its commit was not stored,
    or the previous one if the disk lost it."""
    query = Copying(cluster, "clock", seed)
    monkeypatch.setattr(stream_io, "frame", lambda _spark, plan, _options: plan.ranges)
    number = 0

    def note(ranges: Any, batch: int) -> None:
        query.step()
        query.copy(ranges, batch)
        query.step()

    def run() -> None:
        nonlocal number
        stream = stream_io.Stream(query.reading, note, available_now=True)
        stream._query = SimpleNamespace(id=query.query, runId="run", name=None)
        stream._open()
        try:
            while not stream._ending.is_set():
                stream._run(None, number)
                query.step()
                number += 1
        except Killed:
            number = max(number - query.random.randrange(2), 0)
            raise
        finally:
            stream._exit.close()

    play(query, run)


def play(query: Copying, run: Any) -> None:
    """Rows come, and drivers, until all that is there is copied."""
    for _ in range(ROUNDS):
        query.fill()
        while True:
            try:
                run()
                break
            except Killed:
                pass
    assert query.deaths
    query.check()


def test_new_topic_matches_the_pattern(cluster: LocalCluster) -> None:
    """It is read from its first record, wherever the stream began; before that no topic may match."""
    planner = Planner(
        read_options({"bootstrap": cluster.bootstrap, "subscribePattern": "later-.*"}, stream=True)
    )
    start = planner.initial_offsets()
    assert to_spark(start) == to_spark(planner.latest_offsets(start)) == {}
    assert planner.between(start, start).ranges == ()
    for name, count in (("later-b", 5), ("later-a", 3)):
        cluster.admin().create_topics(NewTopic(name)).raise_for_errors()
        options = write_options({"bootstrap": cluster.bootstrap, "topic": name})
        write_arrow([pa.table({"value": ["v"] * count})], options)
        start = from_spark(json.loads(json.dumps(to_spark(start))))
        end = planner.latest_offsets(start)
        assert end[TopicPartition(name, 0)] == count
        (only,) = planner.between(start, end).ranges
        assert (only.topic, only.start, only.end) == (name, 0, count)
        start = end


@pytest.mark.parametrize("lax", [True, False])
def test_task_does_not_read_a_recreated_topic(cluster: LocalCluster, lax: bool) -> None:
    """The plan came from a node with old metadata."""
    name = f"passed-{lax}"
    given = {"bootstrap": cluster.bootstrap, "subscribe": name, "failOnDataLoss": not lax}
    options = read_options(given, stream=True)
    writing = write_options({"bootstrap": cluster.bootstrap, "topic": name})
    cluster.admin().create_topics(NewTopic(name)).raise_for_errors()
    write_arrow([pa.table({"value": ["old"]})], writing)
    planner = Planner(options)
    start = dict.fromkeys(planner.initial_offsets(), 0)
    ranges = planner.between(start, planner.latest_offsets()).ranges
    cluster.admin().delete_topics(name).raise_for_errors()
    cluster.admin().create_topics(NewTopic(name)).raise_for_errors()
    write_arrow([pa.table({"value": ["new"]})], writing)
    numbers = pa.record_batch({"id": [0]})
    with pytest.raises(DataLossError, match=CREATED_AGAIN):
        list(fetched(iter([numbers]), ranges, options, ["value"], None))
