"""Random histories of an exactly-once query: attempts that are lost, repeated or late, drivers that die at
any step or are replaced. Each batch must be visible once.
"""

import contextlib
from collections.abc import Iterator
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from headrace import LocalCluster, NewTopic
from headrace.clients.pipeline import (
    Planner,
    PreparedWrite,
    Sink,
    commit_writes,
    fetch_arrow,
    prepare_arrow,
    read_options,
    write_options,
)
from headrace.clients.pipeline.commits import Decision, Gate
from headrace.clients.pipeline.driver_log_io import Progress
from headrace.protocol.errors import ApiTimeoutError, InvalidTxnStateError, ProducerFencedError
from markers import until_markers_are_written
from pipeline_rig import Killed, pipeline_cluster

BATCHES, TASKS = 5, 3


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    """One node for all histories, each with a topic and a query of its own."""
    with pipeline_cluster() as started:
        yield started


class History:
    """One query, and the values that it has written. `has_numbers`: its attempts have transactional ids of
    their own."""

    def __init__(self, cluster: LocalCluster, seed: int, *, has_gates: bool, has_numbers: bool) -> None:
        self.random, self.query = Random(seed), f"history{seed}-{has_gates}-{has_numbers}"
        self.has_gates, self.has_numbers = has_gates, has_numbers
        cluster.admin().create_topics(NewTopic(self.query, 2)).raise_for_errors()
        given = {"bootstrap": cluster.bootstrap, "topic": self.query}
        self.options = write_options(given)
        self.hasty_options = write_options({**given, "kafka.max.block.ms": 300})
        self.expected: set[str] = set()
        self.attempts = 0

    def attempt(
        self, batch: int, task: int, gate: Gate | None = None, *, number: int, is_late: bool = False
    ) -> tuple[str, PreparedWrite]:
        """One attempt of a task; a late one does not wait for its driver, which waits for it here."""
        self.attempts += 1
        number = number if self.has_numbers else 0
        value = f"{batch}.{task}.{self.attempts}"
        table = pa.record_batch({"value": [value] * 3})
        options = self.hasty_options if is_late else self.options
        names: dict[str, Any] = {"query": self.query, "task": task, "attempt": number}
        return value, prepare_arrow([table], options, gate=gate, **names)

    def tasks(self, batch: int, gate: Gate | None = None) -> tuple[set[str], list[PreparedWrite]]:
        """Run all tasks, some more than once; sometimes the driver uses an old commit message."""
        values, writes = set(), []
        for task in range(TASKS):
            order = range(self.random.choice([1, 1, 1, 2, 3]))
            if self.has_numbers:  # an early attempt may be late
                order = self.random.sample(order, len(order))
            made = [self.attempt(batch, task, gate, number=number) for number in order]
            value, write = made[-1] if self.random.random() < 0.95 else made[0]
            values.add(value)
            writes.append(write)
        return values, writes

    def run(self) -> None:
        for batch in range(BATCHES):
            while not self.is_committed(batch):
                self.try_batch(batch)
            for _ in range(self.random.choice([0, 0, 1])):  # the engine repeats the batch
                with Sink(self.options, self.query) as sink:
                    assert not sink.commit(batch, self.tasks(batch)[1])
                    sink.abort_leftovers()

    def is_committed(self, batch: int) -> bool:
        """Whether the batch is committed, for a new driver, which completes a decided commit."""
        with Sink(self.options, self.query) as sink:
            return sink.is_committed(batch)

    def try_batch(self, batch: int) -> None:
        with Dying(self, batch) as sink:
            gate = sink.gate = sink.open_gate() if self.has_gates else None
            sink.values, writes = self.tasks(batch, gate)
            if self.random.random() < 0.1:
                Sink(self.options, self.query).close()  # another driver has taken over
            try:
                sink.commit(batch, writes)
            except InvalidTxnStateError:
                with contextlib.suppress(ProducerFencedError):
                    sink.abort_leftovers()
            except (Killed, ProducerFencedError):
                pass


class Dying(Sink):
    """A sink whose process dies at a random step; a speculative attempt of a task may begin at another."""

    values: set[str]
    gate: Gate | None = None

    def __init__(self, history: History, batch: int) -> None:
        super().__init__(history.options, history.query)
        self.history, self.batch = history, batch

    def step(self) -> None:
        random = self.history.random
        if random.random() < 0.08:
            with contextlib.suppress(ProducerFencedError, ApiTimeoutError):  # the attempt came too late
                task, number = random.randrange(TASKS), random.randrange(3)
                self.history.attempt(self.batch, task, self.gate, number=number, is_late=True)
        if random.random() < 0.15:
            raise Killed

    def _record(self, decision: Decision, progress: Progress | None = None) -> None:
        self.step()
        super()._record(decision, progress)
        self.history.expected |= self.values
        self.step()

    def _finish(self, decision: Decision) -> None:
        some = self.history.random.randrange(TASKS + 1)
        for write in decision.writes[:some]:
            self.step()
            try:
                commit_writes([write], self.history.options)
            except (ProducerFencedError, InvalidTxnStateError):
                break  # `super` says so
        super()._finish(decision)


def visible(cluster: LocalCluster, topic: str) -> list[str]:
    until_markers_are_written(cluster)
    wanted = read_options(
        {"bootstrap": cluster.bootstrap, "subscribe": topic, "kafka.isolation.level": "read_committed"}
    )
    values: list[Any] = []
    for each in Planner(wanted).batch().ranges:
        for batch in fetch_arrow(each, wanted, columns=["value"]):
            values += batch.column("value").to_pylist()
    return sorted(value.decode() for value in values)


@pytest.mark.parametrize(
    ("seed", "has_gates", "has_numbers"),
    [(0, False, False), (100, False, True), (1, True, False), (2, True, True), (3, True, True)],
)
def test_each_batch_is_visible_once(
    cluster: LocalCluster, seed: int, has_gates: bool, has_numbers: bool
) -> None:
    """At the end a new driver opens the sink, and a reader reads all."""
    history = History(cluster, seed, has_gates=has_gates, has_numbers=has_numbers)
    history.run()
    with Sink(history.options, history.query) as sink:
        sink.abort_leftovers()
        assert sink.last_batch == BATCHES - 1
    seen = visible(cluster, history.query)
    assert {value for value in seen if seen.count(value) != 3} == set()
    assert set(seen) == history.expected
    by_task = [tuple(value.split(".")[:2]) for value in history.expected]
    assert sorted(by_task) == [(str(batch), str(task)) for batch in range(BATCHES) for task in range(TASKS)]


def test_finished_query_is_forgotten(cluster: LocalCluster) -> None:
    """Its records stay; its name may be reused."""
    cluster.admin().create_topics(NewTopic("forgotten")).raise_for_errors()
    given = write_options({"bootstrap": cluster.bootstrap, "topic": "forgotten"})
    for value in ("first", "second"):
        write = prepare_arrow([pa.record_batch({"value": [value]})], given, query="short", task=0)
        with Sink(given, "short") as sink:
            assert sink.last_batch is None
            assert sink.commit(0, [write])
            assert sink.last_batch == 0
            sink.forget()
            assert sink.last_batch is None
    assert visible(cluster, "forgotten") == ["first", "second"]


def test_tasks_of_an_aborted_batch_are_fenced(cluster: LocalCluster) -> None:
    """Their transactions are aborted, and running attempts write no more."""
    cluster.admin().create_topics(NewTopic("fenced")).raise_for_errors()
    given = write_options({"bootstrap": cluster.bootstrap, "topic": "fenced"})
    row = pa.record_batch({"value": ["v"]})
    with Sink(given, "given up") as sink:
        done = prepare_arrow([row], given, query="given up", task="run/0")
        prepare_arrow([row], given, query="given up", task="run/0", attempt=2)
        other = prepare_arrow([row], given, query="given up", task="another run/0", attempt=2)

        def rows() -> Iterator[Any]:
            yield row
            sink.fence(f"run/{task}" for task in range(3))
            yield row

        with pytest.raises(ProducerFencedError):
            prepare_arrow(rows(), given, query="given up", task="run/1", attempt=1)
        assert sink.abort_leftovers(keep=[other]) == 0
        assert sink.abort_leftovers() == 1
        with pytest.raises(InvalidTxnStateError):
            sink.commit(0, [done])
    assert visible(cluster, "fenced") == []
