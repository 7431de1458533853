"""After a commit that failed: tasks that stay in a rebalance, and tasks with async functions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from headrace.protocol.errors import ApiTimeoutError, ProducerFencedError
from headrace.protocol.model import TopicPartition
from headrace.stream.errors import TaskMigratedError, TaskRetryError
from headrace.stream.records import TaskId
from worker_rig import SOURCE, ThreadRig, WorkerRig

if TYPE_CHECKING:
    from pathlib import Path

FIRST, SECOND = (TopicPartition(SOURCE, number) for number in (0, 1))
EXACTLY_ONCE = {"guarantee": "exactly_once_v2", "commit_interval_ms": 10**9}
ERRORS = [ProducerFencedError("a newer producer"), ApiTimeoutError("no answer")]


def nothing() -> None:
    """One more turn."""


def two_tasks(rig: ThreadRig) -> None:
    """Each task has a record in the open transaction."""
    rig.send("a")
    rig.send("b", partition=1)
    rig.consumer.give(FIRST, SECOND)


def fail_commit(rig: ThreadRig, error: Exception) -> None:
    """The first partition is revoked, and the commit before that fails."""
    rig.cluster.failures["producer.commit_transaction"] = [error]
    rig.consumer.take(FIRST)


@pytest.mark.parametrize("calls", [False, True])
@pytest.mark.parametrize("error", ERRORS)
def test_remaining_task_repeats_records_aborted_with_a_revoked_task(
    tmp_path: Path, error: Exception, calls: bool
) -> None:
    """Both tasks share the transaction: the output of the second one is lost. Its record is counted again,
    before its offset is committed; the next owner of the first partition counts the other record."""
    rig = ThreadRig(tmp_path, **EXACTLY_ONCE, calls=calls)
    rig.run(lambda: two_tasks(rig), nothing, lambda: fail_commit(rig, error), nothing, nothing, nothing)
    assert rig.errors == []
    assert rig.counts() == [("b", 1)]
    assert {tp: offset.offset for tp, offset in rig.cluster.committed.items()} == {SECOND: 1}


def test_remaining_task_repeats_records_aborted_with_a_lost_task(tmp_path: Path) -> None:
    """The partition was lost without a commit."""
    rig = ThreadRig(tmp_path, **EXACTLY_ONCE)
    rig.run(
        lambda: two_tasks(rig),
        nothing,
        lambda: rig.consumer.take(FIRST, lost=True),
        nothing,
        nothing,
        nothing,
    )
    assert rig.counts() == [("b", 1)]
    assert {tp: offset.offset for tp, offset in rig.cluster.committed.items()} == {SECOND: 1}


def two_records(rig: WorkerRig, error: Exception | None) -> None:
    """Each of two tasks processes a record; then the commit before a revocation fails, or the first partition
    is lost."""
    rig.send("a")
    rig.send("b", partition=1)
    rig.assign(FIRST, SECOND)
    rig.work()
    assert not rig.manager.commit_due(rig.now_ms), "commit.interval.ms begins now"
    if error is not None:
        rig.cluster.failures["producer.commit_transaction"] = [error]
        with pytest.raises((TaskMigratedError, TaskRetryError)):
            rig.revoke(FIRST)
    rig.lose(FIRST)


@pytest.mark.parametrize("error", [*ERRORS, None])
def test_a_thread_that_ends_before_the_reset_commits_nothing(tmp_path: Path, error: Exception | None) -> None:
    """The task that stays would commit an offset whose output was aborted."""
    rig = WorkerRig(tmp_path, **EXACTLY_ONCE)
    two_records(rig, error)
    assert rig.manager.needs_reset
    assert list(rig.manager.tasks) == [TaskId(0, 1)]
    rig.manager.close(clean=True)
    assert (rig.counts(), rig.committed()) == ([], {})
    assert rig.manager.tasks == {}


@pytest.mark.parametrize("error", [*ERRORS, None])
def test_no_offset_is_committed_before_the_reset(tmp_path: Path, error: Exception | None) -> None:
    """The turn in which the commit failed goes on, perhaps after its timeout: the next commit is due. Its
    output was aborted, so the offset of the task that stays would skip a record."""
    rig = WorkerRig(tmp_path, **EXACTLY_ONCE)
    two_records(rig, error)
    with pytest.raises(TaskMigratedError, match="the transaction was aborted"):
        rig.manager.commit_due(rig.now_ms + 2 * 10**9)
    assert (rig.counts(), rig.committed()) == ([], {})
    rig.manager.reset()
    rig.work()
    rig.manager.commit()
    assert (rig.counts(), rig.committed()) == ([("b", 1)], {SECOND: 1})


@pytest.mark.parametrize("error", [*ERRORS, None])
def test_no_revocation_commits_before_the_reset(tmp_path: Path, error: Exception | None) -> None:
    """The task that stayed is revoked in the same poll: its next owner processes the record."""
    rig = WorkerRig(tmp_path, **EXACTLY_ONCE)
    two_records(rig, error)
    with pytest.raises(TaskMigratedError, match="the transaction was aborted"):
        rig.revoke(SECOND)
    assert (rig.counts(), rig.committed(), rig.manager.tasks) == ([], {}, {})


def test_a_lost_task_without_a_transaction_resets_no_other(tmp_path: Path) -> None:
    """Nothing of the others was aborted."""
    rig = WorkerRig(tmp_path, **EXACTLY_ONCE)
    rig.assign(FIRST, SECOND)
    rig.work()
    rig.lose(FIRST)
    assert not rig.manager.needs_reset


def drain(rig: WorkerRig) -> None:
    """Forward the results of async functions; the tasks wait for their commit."""
    for task in rig.manager.running:
        task.forward_results(rig.now_ms)
        assert task.drain()


def test_async_task_continues_after_a_commit_timeout(tmp_path: Path) -> None:
    """It took no input while the commit waited for calls. Its offsets are committed with the next commit."""
    rig = WorkerRig(tmp_path, calls=True)
    rig.send("a")
    rig.assign(FIRST)
    rig.work()
    drain(rig)
    rig.send("b")
    rig.read()
    rig.process(1)
    rig.cluster.failures["consumer.commit"] = [ApiTimeoutError("no answer")]
    rig.manager.commit()
    assert (rig.committed(), rig.stored_offset()) == ({}, None)
    rig.process(1)
    drain(rig)
    rig.manager.commit()
    assert rig.committed() == {FIRST: 2}
    assert rig.counts() == [("a", 1), ("b", 1)]


@pytest.mark.parametrize("error", ERRORS)
def test_a_lost_transaction_repeats_calls_of_async_functions(tmp_path: Path, error: Exception) -> None:
    """The tasks are made again; none waits for a commit."""
    rig = WorkerRig(tmp_path, **EXACTLY_ONCE, calls=True)
    rig.send("a")
    rig.assign(FIRST)
    rig.work()
    drain(rig)
    rig.cluster.failures["producer.commit_transaction"] = [error]
    with pytest.raises((TaskMigratedError, TaskRetryError)):
        rig.manager.commit()
    rig.manager.reset()
    rig.send("b")
    rig.work()
    drain(rig)
    rig.manager.commit()
    assert rig.committed() == {FIRST: 2}
    assert rig.counts() == [("a", 1), ("b", 1)]


def test_a_task_that_leaves_before_it_is_restored_claims_nothing(tmp_path: Path) -> None:
    """The thread had the task before, and knows how far its changelog was: the files that the task has now,
    after its disk was wiped, are empty, and stay at no offset."""
    rig = WorkerRig(tmp_path)
    rig.send("a", "b")
    rig.assign(FIRST)
    rig.work()
    rig.manager.commit(rig.manager.running)
    assert rig.files.engines["0_0"].offset() == 2
    rig.lose(FIRST)
    rig.directory.wipe(TaskId(0, 0))
    rig.assign(FIRST)
    assert rig.manager.running == []
    rig.revoke(FIRST)
    assert rig.files.engines["0_0"].offset() is None
    rig.assign(FIRST)
    rig.send("a")
    rig.work()
    rig.manager.commit(rig.manager.running)
    assert rig.counts() == [("a", 1), ("b", 1), ("a", 2)]
