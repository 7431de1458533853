"""A stream thread over a cluster in memory, step by step in the thread of the test."""

from __future__ import annotations

import asyncio
import logging
import re
import threading
import time
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from headrace.clients.serdes import utf8
from headrace.protocol.errors import (
    ApiTimeoutError,
    CommitFailedError,
    DeliveryTimeoutError,
    GroupIdNotFoundError,
    InvalidRequestError,
    ProducerFencedError,
    UnsupportedVersionError,
)
from headrace.protocol.messages.streams_groups import StatusCode
from headrace.protocol.model import TopicPartition
from headrace.stream import App
from headrace.stream.errors import ProcessingError, StreamsError, TaskTimeoutError
from headrace.stream.records import TaskId
from headrace.stream.worker.thread_membership import main_config
from worker_rig import COUNTS, SOURCE, ThreadRig, plan_of

if TYPE_CHECKING:
    from pathlib import Path

FIRST, SECOND = (TopicPartition(SOURCE, number) for number in (0, 1))


def nothing() -> None:
    """One more turn."""


@pytest.fixture
def rig(tmp_path: Path) -> ThreadRig:
    """A thread that commits in each turn, at least once."""
    return ThreadRig(tmp_path)


def give(rig: ThreadRig, *partitions: TopicPartition) -> None:
    rig.consumer.give(*partitions)


def test_a_rebalance_opens_and_closes_tasks(rig: ThreadRig) -> None:
    """The thread tells its instance; it is restored once all of its tasks run."""
    restored: list[bool] = []

    def note() -> None:
        restored.append(rig.thread.is_restored)

    rig.send("a")
    rig.send("b", partition=1)
    rig.run(
        note,
        lambda: give(rig, FIRST, SECOND),
        note,
        lambda: rig.consumer.take(FIRST),
        lambda: rig.send("c"),
        lambda: rig.consumer.take(SECOND, lost=True),
        nothing,
        lambda: give(rig, FIRST),
        nothing,
    )
    assert (restored, rig.errors) == ([False, True], [])
    assert sorted(rig.counts()) == [("a", 1), ("b", 1), ("c", 1)]
    assert rig.changes >= 4
    assert all(client.is_closed for client in (*rig.cluster.consumers, *rig.cluster.producers))


def test_a_task_that_cannot_be_opened_yet_is_not_restored(rig: ThreadRig) -> None:
    """The instance is not RUNNING then, although no task is being restored."""
    restored: list[bool] = []
    rig.cluster.failures["consumer.end_offsets"] = [ApiTimeoutError("no leader")]

    def note() -> None:
        restored.append(rig.thread.is_restored)

    rig.run(lambda: give(rig, FIRST), nothing, note)
    assert restored == [True]
    rig.cluster.failures["consumer.end_offsets"] = [ApiTimeoutError("no leader")]
    manager = rig.thread.manager
    assert manager is not None
    manager.owned.add(FIRST)
    assert not rig.thread.is_restored


@pytest.mark.parametrize("error", [CommitFailedError("the generation is over"), ApiTimeoutError("no answer")])
def test_a_commit_that_fails_does_not_end_the_thread(rig: ThreadRig, error: Exception) -> None:
    """The next one has the offsets: at once after a timeout, after another read where it was refused."""
    rig.send("a")
    rig.cluster.failures["consumer.commit"] = [error]
    rig.run(lambda: give(rig, FIRST), nothing, nothing, nothing)
    assert rig.errors == []
    assert rig.cluster.committed[FIRST].offset == 1


@pytest.mark.parametrize("error", [ProducerFencedError("a newer one"), ApiTimeoutError("no answer")])
def test_a_lost_transaction_counts_each_record_once(tmp_path: Path, error: Exception) -> None:
    """The thread aborts it, and reads from the committed offsets."""
    rig = ThreadRig(tmp_path, guarantee="exactly_once_v2")
    rig.send("a", "a")
    rig.cluster.failures["producer.commit_transaction"] = [error]
    rig.run(lambda: give(rig, FIRST), nothing, nothing, nothing)
    assert rig.errors == []
    assert rig.counts() == [("a", 1), ("a", 2)]
    assert [admin.is_closed for admin in rig.cluster.admins] == [True]


def test_a_send_error_with_retry_repeats_the_records(tmp_path: Path) -> None:
    """The transaction without the record is not committed."""
    rig = ThreadRig(tmp_path, guarantee="exactly_once_v2")
    rig.send("a", "b")
    rig.cluster.send_errors[COUNTS] = [DeliveryTimeoutError("late")]
    rig.run(lambda: give(rig, FIRST), nothing, nothing)
    assert rig.errors == []
    assert rig.counts() == [("a", 1), ("b", 1)]


def test_the_cache_of_a_thread_follows_the_number_of_threads(tmp_path: Path) -> None:
    """With more of them it gives up entries in its own turn."""
    rig = ThreadRig(tmp_path, cache_bytes=1000, commit_interval_ms=10**9)
    found: list[tuple[int, int]] = []
    rig.send("a", "b")

    def note(threads: int) -> None:
        rig.thread_count = threads
        assert rig.thread.manager is not None
        store: Any = rig.thread.manager.tasks[TaskId(0, 0)].stores["store"]
        found.append((rig.thread._cache.max_bytes, len(store._cache.entries)))

    rig.run(lambda: give(rig, FIRST), nothing, lambda: note(2000), lambda: note(1), lambda: note(1))
    assert rig.errors == []
    assert found == [(1000, 2), (0, 0), (1000, 0)]


def test_a_damaged_store_is_rebuilt_while_it_runs(rig: ThreadRig, caplog: pytest.LogCaptureFixture) -> None:
    """The read that finds the damage is repeated on the restored store. The log says so."""
    rig.send("a")

    def damage() -> None:
        rig.files.engines["0_0"].is_damaged = True
        rig.send("a")

    with caplog.at_level(logging.INFO, "headrace.stream"):
        rig.run(lambda: give(rig, FIRST), nothing, damage, nothing, nothing, nothing)
    assert rig.errors == []
    assert "restores its tasks: task 0_0: bad checksum in block 7" in caplog.text
    assert rig.counts() == [("a", 1), ("a", 2)]
    assert rig.thread.restored_records == 1


def test_a_store_that_a_full_disk_keeps_closed_is_read_later(tmp_path: Path) -> None:
    """The task is read again from its last commit."""
    rig = ThreadRig(tmp_path, guarantee="exactly_once_v2")
    rig.send("a")

    def close() -> None:
        rig.files.engines["0_0"].unreadable = 1
        rig.send("a")

    rig.run(lambda: give(rig, FIRST), nothing, close, nothing, nothing)
    assert rig.errors == []
    assert rig.counts() == [("a", 1), ("a", 2)]


def test_an_error_of_the_user_ends_the_thread(tmp_path: Path) -> None:
    """Nothing of its turn is committed; the instance gets the error."""

    def fail(key: str, _value: str) -> None:
        if key == "bad":
            raise ValueError(key)

    rig = ThreadRig(tmp_path, function=fail, guarantee="exactly_once_v2")
    rig.send("a", "bad")
    rig.run(lambda: give(rig, FIRST), nothing)
    assert [type(error) for error in rig.errors] == [ProcessingError]
    assert (rig.counts(), rig.cluster.committed) == ([], {})
    assert rig.consumer.is_closed


def test_retriable_errors_end_the_thread_after_the_timeout_of_the_task(tmp_path: Path) -> None:
    """With task.timeout.ms=0 at the first."""
    rig = ThreadRig(tmp_path, task_timeout_ms=0)
    rig.send("a")
    rig.cluster.failures["consumer.commit"] = [ApiTimeoutError("no answer")]
    rig.run(lambda: give(rig, FIRST), nothing)
    assert [type(error) for error in rig.errors] == [TaskTimeoutError]


@pytest.mark.parametrize("error", [CommitFailedError("over"), ApiTimeoutError("no answer")])
@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once_v2"])
def test_partitions_are_given_back_also_where_their_commit_fails(
    tmp_path: Path, guarantee: str, error: Exception
) -> None:
    """The rebalance goes on. Their next owner reads from the last commit."""
    rig = ThreadRig(tmp_path, guarantee=guarantee, commit_interval_ms=10**9)
    calls = ("consumer.commit", "producer.commit_transaction")

    def take() -> None:
        rig.cluster.failures.update({call: [error] for call in calls})
        rig.consumer.take(FIRST)

    rig.send("a")
    rig.run(lambda: give(rig, FIRST), nothing, take, nothing)
    assert rig.errors == []
    assert FIRST not in rig.cluster.committed


@pytest.mark.parametrize(("limit", "commits"), [(0, True), (10**6, False), (-1, False)])
def test_large_writes_are_committed_early(tmp_path: Path, limit: int, commits: bool) -> None:
    """statestore.uncommitted.max.bytes, long before the commit interval has passed."""
    rig = ThreadRig(tmp_path, commit_interval_ms=10**9, uncommitted_bytes=limit)
    committed: list[bool] = []
    rig.send("a")
    rig.run(lambda: give(rig, FIRST), nothing, lambda: committed.append(FIRST in rig.cluster.committed))
    assert committed == [commits]


def test_the_commit_interval_is_kept(tmp_path: Path) -> None:
    """commit.interval.ms: no commit before it has passed, but the one at the end."""
    rig = ThreadRig(tmp_path, commit_interval_ms=10**9)
    committed: list[bool] = []
    rig.send("a")
    rig.run(lambda: give(rig, FIRST), nothing, lambda: committed.append(FIRST in rig.cluster.committed))
    assert committed == [False]
    assert rig.cluster.committed[FIRST].offset == 1


@pytest.mark.parametrize(("interval_ms", "has_lines"), [(0, True), (-1, False)])
def test_a_summary_is_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, interval_ms: int, has_lines: bool
) -> None:
    """log.summary.interval.ms."""
    rig = ThreadRig(tmp_path, log_summary_interval_ms=interval_ms)
    rig.send("a", "b")
    with caplog.at_level(logging.INFO, "headrace.stream"):
        rig.run(lambda: give(rig, FIRST), nothing)
    assert ("app-thread-1 processed 2 records" in caplog.text) == has_lines


@pytest.mark.parametrize(("poll_ms", "commit_ms", "longest_s"), [(70, 10**9, 0.07), (10**6, 40, 0.04)])
def test_a_poll_waits_no_longer_than_it_may(
    tmp_path: Path, poll_ms: int, commit_ms: int, longest_s: float
) -> None:
    """poll.ms, and the time until the next commit."""
    rig = ThreadRig(tmp_path, poll_ms=poll_ms, commit_interval_ms=commit_ms)
    rig.run(lambda: give(rig, FIRST), nothing, nothing)
    assert longest_s / 2 < max(rig.consumer.timeouts_s) <= longest_s


def test_a_request_to_shut_down_is_sent_at_once(rig: ThreadRig) -> None:
    """The heartbeats have it until the application ends; its status in a response ends the instance."""
    rig.run(
        rig.thread.request_shutdown,
        nothing,
        nothing,
        lambda: rig.answer(StatusCode.SHUTDOWN_APPLICATION),
        nothing,
    )
    assert rig.consumer.rebalances == ["the application is to end"]
    assert rig.consumer.streams.requests_shutdown
    assert rig.shutdowns[:1] == ["requested"]


def test_topics_that_match_are_subscribed_while_the_thread_runs(tmp_path: Path) -> None:
    """Also the first one. The member of the group maps tasks to them."""
    rig = ThreadRig(tmp_path, source=re.compile("words.*"))
    late = TopicPartition("words2", 0)

    def use(**partitions: int) -> None:
        rig.thread.use_plan(plan_of(rig.app, partitions, rig.files.open))

    use()
    rig.run(
        partial(use, words=2),
        lambda: give(rig, FIRST),
        lambda: rig.send("a"),
        partial(use, words=2, words2=1),
        lambda: give(rig, late),
        lambda: rig.cluster.append("words2", b"a", b""),
        lambda: rig.consumer.take(late),
        partial(use, words=2),
        lambda: rig.send("a"),
        nothing,
    )
    assert rig.errors == []
    assert rig.consumer.subscriptions == [("words",), (), ("words",), ("words", "words2"), ("words",)]
    assert rig.counts() == [("a", 1), ("a", 2), ("a", 3)]


def test_a_new_member_epoch_reaches_the_instance(rig: ThreadRig) -> None:
    """Topics may be the reason. The same epoch in further responses is no news."""
    rig.run(rig.answer, rig.answer, nothing, partial(rig.answer, epoch=8), nothing)
    assert rig.group_changes == 2


def test_internal_topics_are_known_when_their_tasks_are_assigned(tmp_path: Path) -> None:
    """The coordinator creates them. An error of the cluster delays only."""
    rig = ThreadRig(tmp_path)
    rig.thread.use_plan(replace(rig.plan, topic_ids={}))
    rig.cluster.failures["admin.list_topics"] = [ApiTimeoutError("no node")]
    rig.send("a")
    rig.run(nothing, lambda: give(rig, FIRST), nothing)
    assert rig.errors == []
    assert rig.counts() == [("a", 1)]


@pytest.mark.parametrize(("ends", "leaves"), [("close", None), ("close for good", True), ("fail", True)])
def test_a_static_member_returns_unless_its_thread_does_not(rig: ThreadRig, ends: str, leaves: Any) -> None:
    """A thread that is removed, or that failed, leaves its tasks to the others at once."""
    if ends == "fail":
        rig.cluster.failures["consumer.poll"] = [InvalidRequestError("no")]
    rig.run(*([partial(rig.thread.close, leaves=True)] if ends == "close for good" else [nothing]))
    assert (rig.consumer.is_closed, rig.consumer.leaves) == (True, leaves)


def test_threads_have_instance_ids_of_their_own() -> None:
    """group.instance.id with the number of the thread; without it none."""
    config = {"group.id": "app", "group.instance.id": "pod"}
    assert main_config(config, "app-thread-2") == {"group.id": "app", "group.instance.id": "pod-2"}
    assert main_config({"group.id": "app"}, "app-thread-2") == {"group.id": "app"}


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (GroupIdNotFoundError("a classic group"), "members of another kind"),
        (InvalidRequestError("the topology differs"), "does not take this member: the topology differs"),
        (UnsupportedVersionError("streams.version"), "no streams groups"),
    ],
)
def test_a_refused_member_ends_the_thread(rig: ThreadRig, error: Exception, said: str) -> None:
    """The error says why, and what to do."""
    rig.cluster.failures["consumer.poll"] = [error]
    rig.run(nothing)
    assert [type(each) for each in rig.errors] == [StreamsError]
    assert said in str(rig.errors[0])


def test_roles_reach_the_tasks(rig: ThreadRig) -> None:
    """Before partitions are assigned, revoked or lost."""
    seen: list[tuple[Any, ...]] = []

    def note() -> None:
        manager = rig.thread.manager
        assert manager is not None
        manager.use_roles = lambda *roles: seen.append(tuple(map(sorted, roles)))  # type: ignore[method-assign]

    first, second = TaskId(0, 0), TaskId(0, 1)
    rig.run(
        note,
        lambda: give(rig, FIRST, SECOND),
        lambda: rig.consumer.take(FIRST),
        lambda: rig.consumer.take(SECOND, lost=True),
        nothing,
    )
    assert seen == [([first, second], [], []), ([second], [], []), ([], [], [])]


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once_v2"])
def test_a_slow_async_call_delays_only_the_commit_of_its_task(tmp_path: Path, guarantee: str) -> None:
    """With exactly-once that of all tasks of the thread, because they share a transaction."""
    release = threading.Event()

    async def wait(value: str) -> str:
        if value == "slow":
            await asyncio.to_thread(release.wait, 60)
        return value

    def async_app(**options: Any) -> App:
        app = App("app", key=utf8, value=utf8, **options)
        app.stream(SOURCE).map_values_async(wait).to(COUNTS)
        return app

    rig = ThreadRig(tmp_path, make_app=async_app, guarantee=guarantee)
    seen: list[int | None] = []
    ends_at = time.monotonic() + 60

    def turn() -> None:
        committed = [rig.cluster.committed.get(tp) for tp in (FIRST, SECOND)]
        if not rig.consumer.positions:
            give(rig, FIRST, SECOND)
        elif not release.is_set():
            rig.cluster.append(SOURCE, b"k", b"quick", partition=1)
            seen.append(None if committed[1] is None else committed[1].offset)
            if len({*seen} - {None}) > 5 or (rig.plan.config.is_exactly_once and len(seen) > 200):
                assert committed[0] is None
                release.set()
        elif all(committed) or time.monotonic() > ends_at:
            rig.thread.close()

    rig.cluster.append(SOURCE, b"k", b"slow")
    rig.cluster.on_poll = turn
    rig.thread.run()
    assert rig.errors == []
    assert rig.cluster.committed[FIRST].offset == 1
    if rig.plan.config.is_exactly_once:
        assert {*seen} == {None}


def test_a_paused_thread_processes_nothing(rig: ThreadRig) -> None:
    """It polls on, and stays in its group."""
    seen: list[int] = []
    rig.send("a")
    rig.run(
        partial(rig.thread.stop, is_stopped=True),
        lambda: give(rig, FIRST),
        nothing,
        lambda: seen.append(len(rig.counts())),
        partial(rig.thread.stop, is_stopped=False),
        nothing,
        nothing,
        lambda: seen.append(len(rig.counts())),
    )
    assert seen == [0, 1]
