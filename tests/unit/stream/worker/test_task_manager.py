"""The tasks of one thread over a cluster in memory: rebalances, commits, errors, stores that are lost."""

from __future__ import annotations

import logging
import re
from typing import TYPE_CHECKING

import pytest
from headrace.clients.serdes import int64
from headrace.protocol.errors import (
    ApiTimeoutError,
    CommitFailedError,
    DeliveryTimeoutError,
    MessageTooLargeError,
    ProducerFencedError,
)
from headrace.protocol.model import TopicPartition
from headrace.stream.errors import (
    InternalTopicError,
    StreamsError,
    TaskMigratedError,
    TaskRetryError,
    TaskTimeoutError,
)
from headrace.stream.records import TaskId
from headrace.stream.state.engines import StoreFullError
from headrace.stream.task import restored_writes
from worker_rig import COUNTS, SOURCE, WorkerRig

if TYPE_CHECKING:
    from pathlib import Path

FIRST, SECOND = (TopicPartition(SOURCE, number) for number in (0, 1))
EXACTLY_ONCE = {"guarantee": "exactly_once_v2"}


@pytest.fixture
def rig(tmp_path: Path) -> WorkerRig:
    """An application that counts words, at least once."""
    return WorkerRig(tmp_path)


@pytest.fixture
def exactly_once(tmp_path: Path) -> WorkerRig:
    """The same, exactly once."""
    return WorkerRig(tmp_path, **EXACTLY_ONCE)


def test_tasks_are_created_and_closed_with_their_partitions(rig: WorkerRig) -> None:
    """What is taken is committed and closed; the other task goes on. Another thread finds the store."""
    rig.send("a", "b", "a")
    rig.send("c", partition=1)
    rig.assign(FIRST, SECOND)
    rig.work()
    assert [task.id for task in rig.manager.running] == [TaskId(0, 0), TaskId(0, 1)]
    rig.revoke(FIRST)
    assert rig.committed() == {FIRST: 3}
    assert [task.id for task in rig.manager.running] == [TaskId(0, 1)]
    assert rig.counts() == [("a", 1), ("b", 1), ("a", 2), ("c", 1)]
    rig.assign(FIRST)
    rig.send("a")
    rig.work()
    rig.manager.commit()
    assert rig.counts()[-1] == ("a", 3)
    assert rig.committed() == {FIRST: 4, SECOND: 1}
    assert rig.restorer.restored == 0, "the store has the offset of its changelog"


def test_a_source_topic_may_grow_where_no_store_is_behind_it(rig: WorkerRig, tmp_path: Path) -> None:
    """A new partition has a task; a changelog would have no partition for it, and the error says so."""
    third = TopicPartition(SOURCE, 2)
    with pytest.raises(InternalTopicError, match=r"words has a partition 2, and 2 .* app-store-changelog"):
        rig.assign(third)
    stateless = WorkerRig(tmp_path / "stateless", counts=False)
    stateless.assign(third)
    stateless.send("a", partition=2)
    stateless.work()
    stateless.manager.commit()
    assert stateless.committed() == {third: 1}


def test_running_task_adds_a_newly_matching_topic(tmp_path: Path) -> None:
    """And with the others when it is gone: processors and stores stay open. A topic between being assigned
    and known, or known and assigned, changes nothing."""
    rig = WorkerRig(tmp_path, source=re.compile("words.*"), max_task_idle_ms=-1)
    late = TopicPartition("words2", 0)
    rig.send("a")
    rig.assign(FIRST)
    rig.work()
    (task,) = rig.manager.running
    rig.use_topics(words=2, words2=1)
    assert task.partitions == (FIRST,)
    rig.send("a", topic="words2")
    rig.assign(late)
    assert task.partitions == (FIRST, late)
    assert rig.consumer.paused == set()
    rig.send("a")
    rig.work()
    rig.manager.commit()
    assert rig.committed() == {FIRST: 2, late: 1}
    rig.send("a", topic="words2")
    rig.work()
    rig.send("lost", topic="words2")
    rig.send("a")
    rig.read()
    rig.revoke(late)
    rig.use_topics(words=2)
    rig.process(10)
    rig.manager.commit()
    assert rig.manager.running == [task]
    assert task.partitions == (FIRST,)
    assert rig.counts() == [("a", count) for count in (1, 2, 3, 4, 5)]
    assert rig.committed() == {FIRST: 3, late: 1}, "a topic that is gone takes no offsets"
    assert rig.restorer.restored == 0
    rig.revoke(FIRST)
    assert rig.manager.tasks == {}


def test_a_topic_that_matches_waits_with_its_task_for_the_stores(tmp_path: Path) -> None:
    """Nothing of it is read while they are restored."""
    rig = WorkerRig(tmp_path, source=re.compile("words.*"), max_task_idle_ms=-1)
    late = TopicPartition("words2", 0)
    rig.assign(FIRST)
    rig.use_topics(words=2, words2=1)
    rig.assign(late)
    assert rig.consumer.paused == {FIRST, late}
    rig.send("a", topic="words2")
    rig.work()
    rig.manager.commit()
    assert rig.counts() == [("a", 1)]


def test_a_topic_whose_offsets_cannot_be_read_joins_its_task_later(tmp_path: Path) -> None:
    """The task goes on without it meanwhile."""
    rig = WorkerRig(tmp_path, source=re.compile("words.*"), max_task_idle_ms=-1)
    late = TopicPartition("words2", 0)
    rig.assign(FIRST)
    rig.work()
    (task,) = rig.manager.running
    rig.use_topics(words=2, words2=1)
    rig.cluster.failures["consumer.committed"] = [ApiTimeoutError("no answer")]
    rig.assign(late)
    assert (rig.manager.running, task.partitions) == ([task], (FIRST,))
    rig.manager.open_tasks()
    assert (rig.manager.running, task.partitions) == ([task], (FIRST, late))


def test_lost_partitions_are_not_committed(rig: WorkerRig) -> None:
    """Another member has them already."""
    rig.send("a")
    rig.assign(FIRST)
    rig.work()
    rig.lose(FIRST)
    assert (rig.committed(), rig.manager.tasks) == ({}, {})


def test_offsets_that_have_not_changed_are_not_committed_again(rig: WorkerRig) -> None:
    """Those of a topic that is deleted later could not be. Partitions that come back are committed again."""
    rig.send("a")
    rig.assign(FIRST, SECOND)
    rig.work()
    rig.manager.commit()
    del rig.cluster.committed[FIRST]
    rig.send("b", partition=1)
    rig.work()
    rig.manager.commit()
    assert rig.committed() == {SECOND: 1}
    rig.revoke(FIRST)
    rig.assign(FIRST)
    rig.work()
    rig.manager.commit()
    assert rig.committed() == {FIRST: 1, SECOND: 1}


def test_a_commit_that_times_out_is_made_again_with_the_next_one(rig: WorkerRig) -> None:
    """The stores are as of the last commit until then."""
    rig.send("a")
    rig.assign(FIRST)
    rig.work()
    rig.cluster.failures["consumer.commit"] = [ApiTimeoutError("no answer")]
    rig.manager.commit()
    assert (rig.committed(), rig.stored_offset()) == ({}, None)
    rig.manager.commit()
    assert (rig.committed(), rig.stored_offset()) == ({FIRST: 1}, 1)


def test_a_commit_fails_for_good_after_the_timeout_of_the_task(rig: WorkerRig) -> None:
    """task.timeout.ms counts from the first error since the last commit."""
    rig.assign(FIRST)
    for number in range(3):
        rig.send("a")
        rig.work()
        rig.cluster.failures["consumer.commit"] = [ApiTimeoutError("no answer")]
        rig.now_ms += 200_000
        if number < 2:
            rig.manager.commit()
    with pytest.raises(TaskTimeoutError, match=r"task 0_0 made no progress within task\.timeout\.ms"):
        rig.manager.commit()


def test_records_that_can_never_be_processed_end_the_task_after_its_timeout(rig: WorkerRig) -> None:
    """Restoration, and commits without records, do not begin the time again."""
    rig.assign(FIRST)
    for _ in range(2):
        rig.manager.retry(TaskRetryError("no output topic", TaskId(0, 0)))
        rig.work()
        rig.manager.commit()
        rig.now_ms += rig.plan.config.task_timeout_ms // 2 + 1
    with pytest.raises(TaskTimeoutError, match=r"task 0_0 made no progress .* no output topic"):
        rig.manager.retry(TaskRetryError("no output topic", TaskId(0, 0)))


def test_a_commit_ends_the_time_of_earlier_errors(rig: WorkerRig) -> None:
    """Errors that come and go never end a task."""
    rig.assign(FIRST)
    for _ in range(4):
        rig.send("a")
        rig.work()
        rig.cluster.failures["consumer.commit"] = [ApiTimeoutError("no answer")]
        rig.manager.commit()
        rig.now_ms += 200_000
        rig.manager.commit()
    assert rig.committed() == {FIRST: 4}


def test_after_a_commit_that_was_refused_tasks_read_from_the_committed_offsets(rig: WorkerRig) -> None:
    """Another member may have the partitions. At least once: the changelog has the count already."""
    rig.send("a")
    rig.assign(FIRST)
    rig.work()
    rig.manager.commit()
    rig.send("a")
    rig.work()
    rig.cluster.failures["consumer.commit"] = [CommitFailedError("the generation is over")]
    with pytest.raises(CommitFailedError):
        rig.manager.commit()
    rig.manager.reset()
    rig.work()
    rig.manager.commit()
    assert rig.committed() == {FIRST: 2}
    assert rig.counts() == [("a", 1), ("a", 2), ("a", 3)]


def test_a_transaction_has_output_changelog_and_offsets(exactly_once: WorkerRig) -> None:
    """Nothing is seen before its commit."""
    rig = exactly_once
    rig.send("a")
    rig.send("b", partition=1)
    rig.assign(FIRST, SECOND)
    rig.work()
    assert (rig.counts(), rig.committed()) == ([], {})
    rig.manager.commit([rig.manager.tasks[TaskId(0, 0)]])
    assert rig.counts() == [("a", 1), ("b", 1)], "tasks share the transaction"
    assert rig.committed() == {FIRST: 1, SECOND: 1}


@pytest.mark.parametrize(
    ("call", "error", "raised"),
    [
        ("producer.commit_transaction", ProducerFencedError("a newer producer"), TaskMigratedError),
        ("producer.send_offsets", ProducerFencedError("a newer producer"), TaskMigratedError),
        ("producer.flush", ProducerFencedError("a newer producer"), TaskMigratedError),
        ("producer.commit_transaction", ApiTimeoutError("no answer"), TaskRetryError),
        ("producer.send_offsets", ApiTimeoutError("no answer"), TaskRetryError),
    ],
)
def test_a_lost_transaction_is_processed_again(
    exactly_once: WorkerRig, call: str, error: Exception, raised: type[Exception]
) -> None:
    """Each record is counted once, whatever the transaction had written."""
    rig = exactly_once
    rig.send("a", "a")
    rig.assign(FIRST)
    rig.work()
    rig.cluster.failures[call] = [error]
    with pytest.raises(raised):
        rig.manager.commit()
    assert (rig.counts(), rig.committed()) == ([], {})
    if raised is TaskRetryError:
        rig.manager.retry(TaskRetryError("again"))
    else:
        rig.manager.reset()
    rig.work()
    rig.manager.commit()
    assert rig.counts() == [("a", 1), ("a", 2)]
    assert rig.committed() == {FIRST: 2}


def test_a_send_error_with_retry_repeats_the_task(rig: WorkerRig) -> None:
    """The offsets are not committed: no record is lost. RetryOrFail is the default."""
    rig.send("a")
    rig.assign(FIRST)
    rig.work()
    rig.cluster.send_errors[COUNTS] = [DeliveryTimeoutError("late")]
    with pytest.raises(TaskRetryError) as found:
        rig.manager.commit()
    rig.manager.retry(found.value)
    rig.work()
    rig.manager.commit()
    assert (rig.counts(), rig.committed()) == ([("a", 2)], {FIRST: 1}), "the changelog had the first count"


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once_v2"])
def test_a_record_that_cannot_be_sent_stops_the_commit(tmp_path: Path, guarantee: str) -> None:
    """Else its input would count as processed."""
    rig = WorkerRig(tmp_path, guarantee=guarantee)
    rig.send("a")
    rig.assign(FIRST)
    rig.work()
    rig.cluster.send_errors[COUNTS] = [MessageTooLargeError("too large")]
    with pytest.raises(StreamsError, match="cannot send a record to topic counts"):
        rig.manager.commit()
    assert (rig.committed(), rig.stored_offset()) == ({}, None)


def test_offsets_that_cannot_be_read_delay_a_task(rig: WorkerRig) -> None:
    """The ends of its changelogs when it is opened, its committed offsets when it is restored."""
    rig.send("a")
    timeout = ApiTimeoutError("no leader")
    rig.cluster.failures["consumer.end_offsets"] = [timeout]
    rig.assign(FIRST)
    assert rig.manager.tasks == {}
    rig.cluster.failures["consumer.committed"] = [timeout]
    rig.manager.open_tasks()
    assert not rig.manager.restore(0)
    assert [task.id for task in rig.manager.tasks.values()] == [TaskId(0, 0)]
    assert rig.manager.running == []
    assert rig.manager.is_waiting
    rig.work()
    rig.manager.commit()
    assert rig.counts() == [("a", 1)]


def test_a_producer_that_stays_uninitialized_ends_the_thread(exactly_once: WorkerRig) -> None:
    """After task.timeout.ms."""
    rig = exactly_once
    rig.cluster.failures["producer.init_transactions"] = [ApiTimeoutError("no coordinator")] * 2
    rig.assign(FIRST)
    rig.now_ms += rig.plan.config.task_timeout_ms + 1
    with pytest.raises(TaskTimeoutError, match="task 0_0 made no progress"):
        rig.manager.open_tasks()


def test_after_a_reset_positions_wait_for_the_committed_offsets(rig: WorkerRig) -> None:
    """Partitions stay assigned while they cannot be read; later the task reads on at the committed offset."""
    rig.send("a", "b")
    rig.assign(FIRST)
    rig.work()
    rig.manager.commit()
    rig.send("c")
    rig.work()
    rig.cluster.failures["consumer.committed"] = [ApiTimeoutError("no coordinator")]
    rig.manager.reset()
    assert (rig.manager.tasks, rig.manager.owned) == ({}, {FIRST})
    rig.work()
    rig.manager.commit()
    assert rig.counts()[-1] == ("c", 1)
    assert rig.committed() == {FIRST: 3}


def test_a_changelog_that_is_shorter_than_its_store_rebuilds_it(
    rig: WorkerRig, caplog: pytest.LogCaptureFixture
) -> None:
    """An unclean leader lost records of the changelog: the store has what nothing else has. It is said so."""
    rig.send("a", "b")
    rig.assign(FIRST)
    rig.work()
    rig.revoke(FIRST)
    del rig.cluster.logs[rig.changelog][1:]
    with caplog.at_level(logging.WARNING, "headrace.stream"):
        rig.assign(FIRST)
    assert "are deleted and restored from their changelogs" in caplog.text
    rig.send("a")
    rig.work()
    rig.manager.commit()
    assert rig.counts()[-1] == ("a", 2)
    assert rig.restorer.restored == 1


@pytest.mark.parametrize("deleted", [2, 3])
def test_a_deleted_start_of_a_changelog_is_no_damage(rig: WorkerRig, deleted: int) -> None:
    """A new store begins where the changelog begins, also where all of it was deleted. Markers and compacted
    records at its end do not hold up the task."""
    for word in ("a", "b", "c"):
        rig.cluster.append(rig.changelog.topic, word.encode(), int64.dumps(5), timestamp=3)
    rig.cluster.starts[rig.changelog] = deleted
    rig.cluster.append_marker(rig.changelog.topic)
    rig.send("c")
    rig.assign(FIRST)
    rig.work()
    rig.manager.commit()
    assert rig.counts() == [("c", 6 if deleted == 2 else 1)]


def test_a_start_that_is_deleted_behind_the_offset_of_a_store_rebuilds_it(rig: WorkerRig) -> None:
    """Records between both are missing: the store is not what its changelog was."""
    rig.send("a")
    rig.assign(FIRST)
    rig.work()
    rig.revoke(FIRST)
    for count in (1, 2):
        rig.cluster.append(rig.changelog.topic, b"b", int64.dumps(count), timestamp=3)
    rig.cluster.starts[rig.changelog] = 2
    rig.send("a", "b")
    rig.assign(FIRST)
    rig.work()
    rig.manager.commit()
    assert rig.counts()[-2:] == [("a", 1), ("b", 3)]


def test_a_start_that_is_deleted_while_a_store_is_restored_ends_the_gap(rig: WorkerRig) -> None:
    """The consumer goes on behind it; the task runs."""
    for word in ("a", "b", "c"):
        rig.cluster.append(rig.changelog.topic, word.encode(), int64.dumps(5), timestamp=3)
    rig.assign(FIRST)
    rig.cluster.starts[rig.changelog] = 3
    rig.send("c")
    rig.work()
    rig.manager.commit()
    assert rig.counts() == [("c", 1)]


def test_a_full_disk_keeps_the_task_and_its_writes(rig: WorkerRig) -> None:
    """The offsets are committed, the changelog has the records, the next commit writes the store."""
    rig.send("a")
    rig.assign(FIRST)
    rig.work()
    rig.full_disk(1)
    rig.manager.commit()
    assert (rig.committed(), rig.stored_offset()) == ({FIRST: 1}, None)
    rig.send("a")
    rig.work()
    rig.manager.commit()
    assert (rig.counts(), rig.stored_offset()) == ([("a", 1), ("a", 2)], 2)


def test_a_disk_that_stays_full_ends_the_task(rig: WorkerRig) -> None:
    """After task.timeout.ms; the cause names the store."""
    rig.send("a")
    rig.assign(FIRST)
    rig.work()
    rig.full_disk(3)
    for _ in range(2):
        rig.manager.commit()
        rig.now_ms += 200_000
    with pytest.raises(TaskTimeoutError) as found:
        rig.manager.commit()
    assert isinstance(found.value.__cause__, StoreFullError)


def test_a_full_disk_holds_up_restoring(rig: WorkerRig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing more is read until the store has written what it holds: memory is bounded."""
    monkeypatch.setattr(restored_writes, "MOST_BYTES", 0)
    for word in ("a", "b"):
        rig.cluster.append(rig.changelog.topic, word.encode(), int64.dumps(5), timestamp=3)
    rig.cluster.max_poll_records = 1
    rig.assign(FIRST)
    rig.full_disk(2)
    for _ in range(2):
        assert not rig.manager.restore(0)
        assert (rig.restorer.restored, rig.stored_offset()) == (1, None)
    assert rig.manager.restore(0)
    assert (rig.restorer.restored, rig.stored_offset()) == (2, 2)


def test_restoring_logs_its_progress(rig: WorkerRig, caplog: pytest.LogCaptureFixture) -> None:
    """With the time that is left at the speed so far, at most every ten seconds."""
    for word in ("a", "b", "c", "d"):
        rig.cluster.append(rig.changelog.topic, word.encode(), int64.dumps(5), timestamp=3)
    rig.cluster.max_poll_records = 1
    rig.assign(FIRST)
    with caplog.at_level(logging.INFO, "headrace.stream"):
        for passed_ms in (1000, 5000, 6000):
            rig.now_ms += passed_ms
            assert not rig.manager.restore(0)
        assert rig.manager.restore(0)
    lines = [record.message for record in caplog.records if "restores" in record.message]
    assert lines == [
        "task 0_0 restores its stores: 3 offsets left, about 3 s",
        "task 0_0 restores its stores: 1 offsets left, about 4 s",
    ]


def test_partitions_are_paused_while_their_task_has_enough(tmp_path: Path) -> None:
    """buffered.records.per.partition; also before the task runs, and while the user has stopped it."""
    rig = WorkerRig(tmp_path, buffered_records=3)
    rig.assign(FIRST)
    assert rig.consumer.paused == {FIRST}
    rig.manager.restore(0)
    assert rig.consumer.paused == set()
    rig.send("a", "b", "c", "d")
    rig.read()
    assert rig.consumer.paused == {FIRST}
    rig.process(1)
    rig.manager.resume_drained()
    assert rig.consumer.paused == set()
    rig.manager.stop(is_stopped=True)
    rig.manager.resume_drained()
    assert rig.consumer.paused == {FIRST}
    rig.manager.stop(is_stopped=False)
    rig.manager.resume_drained()
    assert rig.consumer.paused == set()


def test_uncommitted_writes_are_counted_until_the_commit(tmp_path: Path) -> None:
    """statestore.uncommitted.max.bytes limits them."""
    rig = WorkerRig(tmp_path, uncommitted_bytes=50 * 8)
    rig.send(*(f"word-{number}" for number in range(50)))
    rig.assign(FIRST)
    rig.work()
    for store in rig.manager.tasks[TaskId(0, 0)].stores.values():
        store.flush()
    assert rig.manager.is_commit_due
    rig.manager.commit()
    assert not rig.manager.is_commit_due


def test_task_waits_for_a_store_locked_by_another_thread(rig: WorkerRig) -> None:
    """Both threads are in one process, which moves the task from one to the other."""
    rig.directory.acquire(TaskId(0, 0), "another")
    rig.assign(FIRST)
    assert rig.manager.tasks == {}
    rig.directory.release(TaskId(0, 0))
    rig.work()
    assert [task.id for task in rig.manager.running] == [TaskId(0, 0)]
