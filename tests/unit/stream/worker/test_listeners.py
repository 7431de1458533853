"""What an instance tells: changes of its state, restored stores, its threads, tasks and lags."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest
from headrace.protocol.errors import ApiTimeoutError
from headrace.protocol.model import TopicPartition
from headrace.stream import (
    AppInstance,
    InstanceState,
    LagInfo,
    RestoreListener,
    TaskId,
    TaskMetadata,
    ThreadState,
)
from headrace.stream.errors import StreamsError
from headrace.stream.task.states import TaskState
from headrace.stream.worker.listeners_io import StateNotices
from headrace.stream.worker.uncaught import SHUTDOWN_APPLICATION
from stream_clients import FakeStreamsCluster
from worker_rig import SOURCE, Files, ThreadRig, counting_app

if TYPE_CHECKING:
    from pathlib import Path

    from headrace.stream.worker.metadata import ThreadMetadata

FIRST, SECOND = (TopicPartition(SOURCE, number) for number in (0, 1))
CHANGELOG = TopicPartition("app-store-changelog", 0)
S = InstanceState
PATIENCE_S = 60.0


class RecordingListener(RestoreListener):
    """Notes the calls; fails in `fails`."""

    def __init__(self, fails: str = "") -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.fails = fails

    def _note(self, name: str, *facts: Any) -> None:
        self.calls.append((name, *facts))
        if name == self.fails:
            raise KeyError(name)

    def on_restore_start(self, partition: TopicPartition, store: str, start: int, end: int) -> None:
        self._note("start", partition, store, start, end)

    def on_batch_restored(self, partition: TopicPartition, store: str, last: int, count: int) -> None:
        self._note("batch", partition, store, last, count)

    def on_restore_end(self, partition: TopicPartition, store: str, count: int) -> None:
        self._note("end", partition, store, count)

    def on_restore_suspended(self, partition: TopicPartition, store: str, count: int) -> None:
        self._note("suspended", partition, store, count)


def nothing() -> None:
    """One more turn."""


def stored(rig: ThreadRig, *counts: int) -> None:
    """Records of the first changelog."""
    for count in counts:
        rig.cluster.append(CHANGELOG.topic, b"a", count.to_bytes(8, "big"))


def test_restore_listener_is_called_for_each_store(tmp_path: Path) -> None:
    """Also those without records. Offsets are those of the changelog, which may have gaps."""
    listener = RecordingListener()
    rig = ThreadRig(tmp_path, restore_listener=listener)
    stored(rig, 1, 2, 3)
    rig.cluster.append_marker(CHANGELOG.topic)
    rig.cluster.max_poll_records = 2
    rig.run(lambda: rig.consumer.give(FIRST, SECOND), nothing, nothing, nothing)
    assert rig.errors == []
    other = TopicPartition(CHANGELOG.topic, 1)
    assert [call for call in listener.calls if call[1] == other] == [
        ("start", other, "store", 0, 0),
        ("end", other, "store", 0),
    ]
    assert [call for call in listener.calls if call[1] == CHANGELOG] == [
        ("start", CHANGELOG, "store", 0, 4),
        ("batch", CHANGELOG, "store", 1, 2),
        ("batch", CHANGELOG, "store", 2, 1),
        ("end", CHANGELOG, "store", 3),
    ]


@pytest.mark.parametrize("fails", ["", "suspended"])
def test_restore_listener_is_called_for_a_task_revoked_during_restore(tmp_path: Path, fails: str) -> None:
    """An error of the listener does not keep the task."""
    listener = RecordingListener(fails)
    rig = ThreadRig(tmp_path, restore_listener=listener)
    stored(rig, 1, 2, 3)
    rig.cluster.max_poll_records = 2
    found: list[Any] = []

    def leave() -> None:
        found.append((rig.thread.positions(), rig.thread.state))
        rig.consumer.take(FIRST)

    rig.run(lambda: rig.consumer.give(FIRST), leave, nothing)
    assert rig.errors == []
    assert found == [({("store", CHANGELOG): 2}, ThreadState.PARTITIONS_ASSIGNED)]
    assert [call[0] for call in listener.calls] == ["start", "batch", "suspended"]
    assert listener.calls[-1] == ("suspended", CHANGELOG, "store", 2)


@pytest.mark.parametrize("fails", ["start", "batch", "end"])
def test_an_error_of_the_listener_ends_the_thread(tmp_path: Path, fails: str) -> None:
    """It names the store and its changelog."""
    rig = ThreadRig(tmp_path, restore_listener=RecordingListener(fails))
    stored(rig, 1)
    rig.run(lambda: rig.consumer.give(FIRST), nothing, nothing, nothing)
    (error,) = rig.errors
    assert isinstance(error, StreamsError)
    assert f"the restore listener failed for store store, partition {CHANGELOG}: KeyError" in str(error)


def test_each_rebalance_is_a_state_of_the_thread(tmp_path: Path) -> None:
    """As in Java, also one that changes nothing; RUNNING comes when all tasks run."""
    rig = ThreadRig(tmp_path)
    states: list[ThreadState] = []
    rig.on_change = lambda: states.append(rig.thread.state)
    assert rig.thread.state is ThreadState.CREATED
    rig.cluster.failures["consumer.end_offsets"] = [ApiTimeoutError("no leader")]
    rig.run(
        lambda: states.append(rig.thread.state),
        lambda: rig.consumer.give(FIRST),
        nothing,
        rig.consumer_gives_nothing,
        nothing,
        lambda: rig.consumer.take(FIRST),
    )
    rebalance = [ThreadState.PARTITIONS_ASSIGNED, ThreadState.RUNNING]
    changes = [state for number, state in enumerate(states) if state is not states[number - 1]]
    assert changes == [
        ThreadState.STARTING,
        *rebalance,
        *rebalance,
        ThreadState.PARTITIONS_REVOKED,
        ThreadState.PENDING_SHUTDOWN,
    ]


class Running:
    """An instance over a cluster in memory, whose thread gets both partitions with its first poll."""

    def __init__(self, folder: Path, **options: Any) -> None:
        self.cluster = FakeStreamsCluster(words=2, counts=1)
        self.states: list[tuple[InstanceState, InstanceState]] = []
        self.listener = RecordingListener()
        self.has_given = threading.Event()
        app = counting_app(commit_interval_ms=0, state_dir=str(folder))
        self.instance = AppInstance(
            app.topology(),
            app.config,
            app.settings,
            clients=self.cluster,  # type: ignore[arg-type]  # a fake
            open_engine=Files().open,
            on_state_change=lambda new, old: self.states.append((new, old)),
            on_restore=self.listener,
            **options,
        )
        self.cluster.on_poll = self._give

    def _give(self) -> None:
        if not self.has_given.is_set():
            self.has_given.set()
            next(each for each in self.cluster.consumers if each.listener).give(FIRST, SECOND)


def test_instance_reports_state_threads_and_lags(tmp_path: Path) -> None:
    """From the start to the end. A store that is complete has no lag."""
    running = Running(tmp_path)
    for _ in range(3):
        running.cluster.append(SOURCE, b"a", b"")
    with running.instance as instance:
        assert instance.wait_for(S.RUNNING, timeout_s=PATIENCE_S)

        def committed() -> ThreadMetadata | None:
            (thread,) = instance.threads
            return thread if thread.tasks[0].committed else None

        with_offsets = None
        while with_offsets is None:
            with_offsets = committed()
        assert (with_offsets.name, with_offsets.state) == ("app-thread-1", ThreadState.RUNNING)
        assert with_offsets.tasks == (
            TaskMetadata(TaskId(0, 0), TaskState.RUNNING, (FIRST,), {FIRST: 3}),
            TaskMetadata(TaskId(0, 1), TaskState.RUNNING, (SECOND,), {}),
        )
        assert instance.lags() == {"store": {0: LagInfo(3, 3, 0), 1: LagInfo(0, 0, 0)}}
    assert running.states == [
        (S.REBALANCING, S.CREATED),
        (S.RUNNING, S.REBALANCING),
        (S.PENDING_SHUTDOWN, S.RUNNING),
        (S.NOT_RUNNING, S.PENDING_SHUTDOWN),
    ]
    assert [call[0] for call in running.listener.calls] == ["start", "end"] * 2
    (thread,) = instance.threads
    assert thread.state is ThreadState.DEAD


def test_failed_instance_reports_pending_error(tmp_path: Path) -> None:
    """PENDING_ERROR while its threads end. An error of the state listener is logged only."""
    running = Running(tmp_path)
    running.cluster.failures["producer.flush"] = [StreamsError("boom")]
    running.cluster.append(SOURCE, b"a", b"")
    running.instance.start()
    assert running.instance.wait_for(S.ERROR, timeout_s=PATIENCE_S)
    assert running.states[-2:] == [(S.PENDING_ERROR, S.RUNNING), (S.ERROR, S.PENDING_ERROR)]


def test_uncaught_handler_is_not_called_while_the_instance_ends(tmp_path: Path) -> None:
    """SHUTDOWN_APPLICATION would start a thread to carry the request, which an instance that ends refuses."""
    asked: list[BaseException] = []
    running = Running(tmp_path, on_uncaught=lambda error: asked.append(error) or SHUTDOWN_APPLICATION)
    with running.instance as instance:
        assert instance.wait_for(S.RUNNING, timeout_s=PATIENCE_S)
        (thread,) = instance._threads
        instance.shutdown_requested()
        instance.thread_failed(thread, StreamsError("boom"))
        assert instance.wait_for(S.ERROR, timeout_s=PATIENCE_S)
    assert asked == []


def test_state_listener_is_called_in_order() -> None:
    """Also when a listener causes another change, or fails."""
    reported_states: list[InstanceState] = []

    def listen(new: InstanceState, _old: InstanceState) -> None:
        reported_states.append(new)
        if new is S.REBALANCING:
            notices.add(S.RUNNING, S.REBALANCING)
            notices.send()
            reported_states.append(S.CREATED)
        if new is S.RUNNING:
            notices.add(S.ERROR, S.RUNNING)
            raise ValueError(new)

    notices = StateNotices(listen)
    notices.add(S.REBALANCING, S.CREATED)
    notices.send()
    assert reported_states == [S.REBALANCING, S.CREATED, S.RUNNING, S.ERROR]
    silent = StateNotices(None)
    silent.add(S.REBALANCING, S.CREATED)
    silent.send()


def test_a_global_store_is_restored_before_the_start(tmp_path: Path) -> None:
    """The listener is called with the name of the store."""
    from headrace.clients.serdes import utf8
    from headrace.stream import App

    cluster, listener = FakeStreamsCluster(words=1, rates=1), RecordingListener()
    for _ in range(2):
        cluster.append("rates", b"a", b"1")
    app = App("app", key=utf8, value=utf8, state_dir=str(tmp_path))
    rates = app.global_table("rates", store="rates-store")
    app.stream("words").join(rates, lambda word, rate: rate, key=lambda key, word: word).to("out")
    instance = AppInstance(
        app.topology(),
        app.config,
        app.settings,
        clients=cluster,  # type: ignore[arg-type]  # a fake
        open_engine=Files().open,
        on_restore=listener,
    )
    instance.prepare()
    instance.close()
    partition = TopicPartition("rates", 0)
    assert listener.calls == [
        ("start", partition, "rates-store", 0, 2),
        ("batch", partition, "rates-store", 1, 2),
        ("end", partition, "rates-store", 2),
    ]
