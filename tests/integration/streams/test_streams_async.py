"""Async functions in instances over a running cluster."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

import headrace
import pytest
from headrace import NewTopic, TopicPartition, stream, utf8
from headrace.services.local_io import LocalCluster
from headrace.stream.errors import ProcessingError
from headrace.stream.worker.states import InstanceState
from waiting import wait_for

if TYPE_CHECKING:
    from pathlib import Path

    from headrace.stream.worker.instance_io import AppInstance

PATIENCE_S = 120.0
GUARANTEES = pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once_v2"])


class Calls:
    """An application that passes values through an async function."""

    def __init__(self, cluster: LocalCluster, name: str, folder: Path) -> None:
        self.cluster, self.name, self.folder = cluster, name, folder
        self.source, self.sink = f"{name}-in", f"{name}-out"
        self.sent: list[str] = []
        with headrace.Admin(cluster.bootstrap) as admin:
            admin.create_topics(NewTopic(self.source, 3), NewTopic(self.sink, 3)).raise_for_errors()

    def send(self, count: int) -> None:
        """Send values that no other call sends, over ten keys."""
        values = [f"{number}" for number in range(len(self.sent), len(self.sent) + count)]
        with headrace.Producer(self.cluster.bootstrap) as producer:
            for value in values:
                producer.send(self.source, value.encode(), key=value[-1].encode())
        self.sent += values

    def instance(self, function: Any, *, process: int = 1, **options: Any) -> AppInstance:
        """An instance over the stores of a process. `call`: options of the operator."""
        call = options.pop("call", {})
        given = {"commit_interval_ms": 50, "state_dir": str(self.folder / str(process)), **options}
        app = stream.App(self.name, key=utf8, value=utf8, **given)
        app.stream(self.source).map_values_async(function, name="call", **call).to(self.sink)
        return app.instance(self.cluster.bootstrap)

    def wait_for_output(self) -> dict[str, list[str]]:
        """The committed values of each key, once every input is among them."""
        found: dict[str, list[str]] = defaultdict(list)
        with headrace.Consumer(
            self.sink,
            bootstrap=self.cluster.bootstrap,
            key=utf8,
            value=utf8,
            auto_offset_reset="earliest",
            isolation_level="read_committed",
        ) as consumer:

            def is_complete() -> bool:
                for record in consumer.poll(0.1):
                    found[str(record.key)].append(str(record.value))
                return set(self.sent) <= {value for values in found.values() for value in values}

            wait_for(is_complete, "all inputs were processed", PATIENCE_S)
        return found

    def in_order(self) -> dict[str, list[str]]:
        """The values of each key as they were sent."""
        found: dict[str, list[str]] = defaultdict(list)
        for value in self.sent:
            found[value[-1]].append(value)
        return found

    def committed(self) -> int:
        """The sum of the committed offsets."""
        with headrace.Consumer(bootstrap=self.cluster.bootstrap, group=self.name) as consumer:
            partitions = [TopicPartition(self.source, number) for number in range(3)]
            return sum(
                found.offset for found in consumer.committed(*partitions).values() if found is not None
            )


@pytest.fixture
def calls(cluster: LocalCluster, tmp_path: Path, request: pytest.FixtureRequest) -> Calls:
    """Topics and an application named after the test."""
    return Calls(cluster, request.node.name.replace("[", "-").replace("]", ""), tmp_path)


@GUARANTEES
def test_many_calls_are_under_way_and_results_keep_their_order(calls: Calls, guarantee: str) -> None:
    """Each input is in the output once: the end waits for calls. No more than `concurrency` per task."""
    under_way: Counter[str] = Counter()
    most = 0

    async def slowly(value: str) -> str:
        nonlocal most
        under_way["calls"] += 1
        most = max(most, under_way["calls"])
        await asyncio.sleep(0.001 * (int(value) % 7))
        under_way["calls"] -= 1
        return value

    calls.send(600)
    with calls.instance(slowly, guarantee=guarantee, call={"concurrency": 20}) as instance:
        assert instance.wait_for(InstanceState.RUNNING, timeout_s=PATIENCE_S)
        assert calls.wait_for_output() == calls.in_order()
        calls.send(100)
        wait_for(lambda: calls.committed() > 600, "some of the second part was committed", PATIENCE_S)
    assert calls.wait_for_output() == calls.in_order()
    assert 10 < most <= 60


@GUARANTEES
def test_nothing_behind_a_call_is_committed_before_it_ends(calls: Calls, guarantee: str) -> None:
    """The other partitions go on; the commit waits, and the thread stays in its group."""
    release = threading.Event()

    async def hang(value: str) -> str:
        if value == "3":
            await asyncio.to_thread(release.wait, PATIENCE_S)
        return value

    calls.send(10)
    started = calls.instance(hang, guarantee=guarantee, call={"concurrency": 2, "ordered": False})
    with started as instance:
        assert instance.wait_for(InstanceState.RUNNING, timeout_s=PATIENCE_S)
        calls.send(1)
        assert not instance.wait_for(InstanceState.ERROR, timeout_s=0.5), instance.error
        assert calls.committed() < 10
        release.set()
        assert calls.wait_for_output() == calls.in_order()
        wait_for(lambda: calls.committed() >= 11, "all was committed", PATIENCE_S)


@GUARANTEES
def test_a_failed_call_ends_the_instance_and_its_record_is_processed_again(
    calls: Calls, guarantee: str
) -> None:
    """The error names the record; with exactly-once no result is in the output twice."""
    failed: list[str] = []

    async def fail_once(value: str) -> str:
        await asyncio.sleep(0.01)
        if value == "17" and not failed:
            failed.append(value)
            raise ValueError(value)
        return value

    calls.send(40)
    with (
        pytest.raises(ProcessingError, match=r"processor call of task 0_\d failed on offset \d+ of ") as info,
        calls.instance(fail_once, guarantee=guarantee, commit_interval_ms=10_000) as instance,
    ):
        instance.wait(PATIENCE_S)
    assert isinstance(info.value.__cause__, ValueError)
    with calls.instance(fail_once, guarantee=guarantee):
        found = calls.wait_for_output()
    assert all(set(values) == set(calls.in_order()[key]) for key, values in found.items())
    if guarantee == "exactly_once_v2":
        assert found == calls.in_order()


@GUARANTEES
def test_calls_move_with_their_tasks(calls: Calls, guarantee: str) -> None:
    """A second process joins while calls are under way: their results are in the output before it begins."""

    async def slowly(value: str) -> str:
        await asyncio.sleep(0.02)
        return value

    calls.send(300)
    options: dict[str, Any] = {"guarantee": guarantee, "call": {"concurrency": 4}}
    with calls.instance(slowly, **options) as first:
        assert first.wait_for(InstanceState.RUNNING, timeout_s=PATIENCE_S)
        with calls.instance(slowly, process=2, **options) as second:
            assert second.wait_for(InstanceState.RUNNING, timeout_s=PATIENCE_S)
            calls.send(100)
            found = calls.wait_for_output()
        calls.send(50)
        found = calls.wait_for_output()
    assert found == calls.in_order()


def test_closing_waits_for_calls(calls: Calls) -> None:
    """Their results are in the output, and committed."""
    started: set[str] = set()
    release = threading.Event()

    async def wait(value: str) -> str:
        started.add(value)
        await asyncio.to_thread(release.wait, PATIENCE_S)
        return value

    calls.send(5)
    instance = calls.instance(wait, commit_interval_ms=60_000)  # a commit would hold back inputs
    instance.start()
    wait_for(lambda: len(started) == 5, "all calls are under way", PATIENCE_S)
    closing = threading.Thread(target=instance.close)
    closing.start()
    assert instance.wait_for(InstanceState.PENDING_SHUTDOWN, timeout_s=PATIENCE_S)
    release.set()
    closing.join(PATIENCE_S)
    assert instance.state is InstanceState.NOT_RUNNING
    assert calls.wait_for_output() == calls.in_order()
    assert calls.committed() == 5


def test_a_function_that_blocks_the_event_loop_is_given_up(calls: Calls) -> None:
    """The thread ends although the call does not; its record is processed again."""
    started, release = threading.Event(), threading.Event()

    async def block(value: str) -> str:
        started.set()
        release.wait(PATIENCE_S)
        return value

    def stream_threads() -> list[str]:
        return [each.name for each in threading.enumerate() if each.name == f"{calls.name}-thread-1"]

    calls.send(1)
    instance = calls.instance(block, call={"timeout": 10})
    instance.start()
    assert started.wait(PATIENCE_S)
    assert stream_threads() == [f"{calls.name}-thread-1"]
    closing = threading.Thread(target=instance.close)
    closing.start()
    wait_for(lambda: not stream_threads(), "the stream thread has ended", PATIENCE_S)
    release.set()
    closing.join(PATIENCE_S)
    assert calls.committed() == 0
    with calls.instance(block):
        assert calls.wait_for_output() == calls.in_order()
