"""Standby tasks of a thread over a cluster in memory: kept up to date, promoted, taken over, lost."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import pytest
from headrace.clients.group.group_metadata import OffsetAndMetadata
from headrace.clients.serdes import int64
from headrace.protocol.errors import ApiTimeoutError, OffsetOutOfRangeError
from headrace.protocol.model import TopicPartition
from headrace.stream import RestoreListener
from headrace.stream.errors import StateDirectoryError, TaskRetryError
from headrace.stream.records import TaskId
from headrace.stream.task.states import TaskState
from headrace.stream.worker.listeners_io import SuspendReason
from worker_rig import SOURCE, WorkerRig

if TYPE_CHECKING:
    from pathlib import Path

FIRST, SECOND = (TopicPartition(SOURCE, number) for number in (0, 1))
TASK, OTHER = TaskId(0, 0), TaskId(0, 1)


class RecordingListener(RestoreListener):
    """The calls of a listener for standbys and restores."""

    def __init__(self) -> None:
        self.events: list[tuple[Any, ...]] = []

    def on_restore_start(self, partition: TopicPartition, store: str, start: int, end: int) -> None:
        self.events.append(("restore", start, end))

    def on_update_start(self, partition: TopicPartition, store: str, start: int) -> None:
        self.events.append(("update", store, start))

    def on_batch_loaded(self, partition: TopicPartition, store: str, last: int, count: int, end: int) -> None:
        self.events.append(("loaded", last, count))

    def on_update_suspended(
        self, partition: TopicPartition, store: str, offset: int, end: int, reason: SuspendReason
    ) -> None:
        self.events.append(("suspended", offset, end, reason))


@pytest.fixture
def rig(tmp_path: Path) -> WorkerRig:
    """An application that counts words, at least once."""
    return WorkerRig(tmp_path)


def log_counts(rig: WorkerRig, *counts: int, key: bytes = b"a") -> None:
    """Another member's active task counts a word."""
    for count in counts:
        rig.cluster.append(rig.changelog.topic, key, int64.dumps(count), timestamp=3)


def value_of(rig: WorkerRig, word: str) -> Any:
    """The count in the store of the standby."""
    found = rig.manager.standbys.tasks[TASK].task.stores["store"].get(word)
    return None if found is None else found.value


def follow(rig: WorkerRig) -> None:
    """A turn of the standbys."""
    rig.manager.update_standbys(is_idle=True)


def test_a_standby_follows_its_changelog_and_processes_nothing(rig: WorkerRig) -> None:
    """Its input is not read; its store and position are durable after each turn."""
    rig.send("a", "a")
    log_counts(rig, 1)
    rig.manager.use_roles((), [TASK], ())
    follow(rig)
    assert value_of(rig, "a") == 1
    log_counts(rig, 2)
    rig.cluster.append_marker(rig.changelog.topic)
    follow(rig)
    standby = rig.manager.standbys.tasks[TASK]
    assert (value_of(rig, "a"), rig.stored_offset()) == (2, 3), "the marker has an offset, too"
    assert standby.task.state is TaskState.RESTORING
    assert rig.manager.tasks == {}
    assert rig.counts() == []


def test_positions_move_over_markers_once_in_a_while(rig: WorkerRig) -> None:
    """A position that stays before a marker would look like a lag for ever."""
    log_counts(rig, 1)
    rig.cluster.append_marker(rig.changelog.topic)
    rig.manager.use_roles((), (), [TASK])
    follow(rig)
    assert rig.manager.task_offsets() == rig.manager.task_end_offsets() == {TASK: 2}


def test_committed_records_alone_reach_a_standby_with_exactly_once(tmp_path: Path) -> None:
    """Those of an open transaction wait."""
    rig = WorkerRig(tmp_path, guarantee="exactly_once_v2")
    log_counts(rig, 1, 2)
    rig.cluster.open_from[rig.changelog] = 1
    rig.manager.use_roles((), [TASK], ())
    follow(rig)
    assert value_of(rig, "a") == 1
    rig.cluster.open_from.clear()
    follow(rig)
    assert value_of(rig, "a") == 2


def test_a_promoted_standby_restores_the_rest_with_its_open_store(tmp_path: Path) -> None:
    """The engine of the store is not opened a second time."""
    listener = RecordingListener()
    rig = WorkerRig(tmp_path, listener=listener)
    log_counts(rig, 1, 2)
    rig.manager.use_roles((), [TASK], ())
    follow(rig)
    task = rig.manager.standbys.tasks[TASK].task
    log_counts(rig, 3)
    opened = rig.files.opened
    rig.send("old", "old", "old", "a")
    rig.cluster.committed[FIRST] = OffsetAndMetadata(3)
    rig.manager.use_roles([TASK], (), ())
    rig.assign(FIRST)
    assert rig.manager.standbys.tasks == {}
    rig.work()
    rig.manager.commit()
    assert rig.manager.running == [task]
    assert rig.files.opened == opened
    assert rig.counts() == [("a", 4)]
    assert rig.restorer.restored == 1
    assert listener.events == [
        ("update", "store", 0),
        ("loaded", 1, 2),
        ("suspended", 2, 2, SuspendReason.PROMOTED),
        ("restore", 2, 3),
    ]


def test_active_task_becomes_a_standby_with_its_open_store(rig: WorkerRig) -> None:
    """It is committed first, follows what the new active task writes, and can be promoted again."""
    rig.send("a")
    rig.manager.use_roles([TASK], (), ())
    rig.assign(FIRST)
    rig.work()
    task, opened = rig.manager.tasks[TASK], rig.files.opened
    rig.manager.use_roles((), [TASK], ())
    rig.revoke(FIRST)
    assert rig.committed() == {FIRST: 1}
    assert rig.manager.tasks == {}
    assert rig.manager.standbys.tasks[TASK].task is task
    assert list(rig.manager.standbys.tasks[TASK].positions()) == [("store", rig.changelog, 1)]
    log_counts(rig, 2, 7)
    follow(rig)
    assert value_of(rig, "a") == 7
    rig.cluster.committed[FIRST] = OffsetAndMetadata(2)
    rig.send("other elsewhere", "a")
    rig.manager.use_roles([TASK], (), ())
    rig.assign(FIRST)
    rig.work()
    rig.manager.commit()
    assert rig.counts()[-1] == ("a", 8)
    assert rig.files.opened == opened


def test_a_recycled_store_forgets_its_cache(tmp_path: Path) -> None:
    """An entry of the cache would hide what the changelog says later."""
    rig = WorkerRig(tmp_path, cache_bytes=1 << 20)
    rig.send("a", "a")
    rig.manager.use_roles([TASK], (), ())
    rig.assign(FIRST)
    rig.work()
    rig.manager.use_roles((), [TASK], ())
    rig.revoke(FIRST)
    assert value_of(rig, "a") == 2
    log_counts(rig, 9)
    follow(rig)
    assert value_of(rig, "a") == 9


def test_a_task_that_cannot_be_committed_is_no_standby_with_its_writes(rig: WorkerRig) -> None:
    """Its store is opened again, as of the last commit."""
    rig.send("a")
    rig.manager.use_roles([TASK], (), ())
    rig.assign(FIRST)
    rig.work()
    task = rig.manager.tasks[TASK]
    rig.cluster.send_errors[rig.changelog.topic] = [ApiTimeoutError("no leader")]
    rig.manager.use_roles((), [TASK], ())
    with pytest.raises(TaskRetryError):
        rig.revoke(FIRST)
    assert rig.manager.standbys.tasks == {}
    follow(rig)
    assert rig.manager.standbys.tasks[TASK].task is not task
    assert value_of(rig, "a") is None


def test_standby_without_role_is_closed_and_keeps_its_store(tmp_path: Path) -> None:
    """Another thread may open its store at once. The next time only the rest is read."""
    listener = RecordingListener()
    rig = WorkerRig(tmp_path, listener=listener)
    log_counts(rig, 1, 2)
    rig.manager.use_roles((), [TASK, OTHER], ())
    follow(rig)
    with pytest.raises(StateDirectoryError):
        rig.directory.acquire(TASK, "another thread")
    rig.manager.use_roles((), [OTHER], ())
    rig.directory.acquire(TASK, "another thread")
    assert ("suspended", 2, 2, SuspendReason.MIGRATED) in listener.events
    rig.directory.release(TASK)
    rig.manager.use_roles((), [TASK, OTHER], ())
    follow(rig)
    assert listener.events[-1] == ("update", "store", 2)


def test_a_standby_waits_for_the_folder_that_another_thread_has(
    rig: WorkerRig, caplog: pytest.LogCaptureFixture
) -> None:
    """Its turn changes nothing, and is not repeated at once. That is no reason for a warning."""
    rig.directory.acquire(TASK, "another thread")
    rig.manager.use_roles((), [TASK], ())
    with caplog.at_level("INFO", "headrace.stream"):
        follow(rig)
    assert rig.manager.standbys.tasks == {}
    (waiting,) = (each for each in caplog.records if "open in thread another thread" in each.message)
    assert waiting.levelname == "INFO"
    assert not rig.manager.standbys.has_work
    rig.directory.release(TASK)
    rig.manager.use_roles((), [TASK], ())
    follow(rig)
    assert list(rig.manager.standbys.tasks) == [TASK]


def test_the_folders_of_standbys_are_not_cleaned(rig: WorkerRig) -> None:
    """However long ago they were opened."""
    rig.manager.use_roles((), [TASK], ())
    follow(rig)
    assert rig.directory.clean(10**15, 0) == []
    rig.manager.use_roles((), (), ())
    assert rig.directory.clean(10**15, 0) == [TASK]


def test_restores_have_precedence_over_standbys(rig: WorkerRig) -> None:
    """While a task is being restored, standbys read nothing."""
    log_counts(rig, 1)
    rig.cluster.append("app-store-changelog", b"b", int64.dumps(1), partition=1)
    rig.manager.use_roles([OTHER], [TASK], ())
    rig.assign(SECOND)
    follow(rig)
    assert rig.manager.standbys.tasks == {}
    rig.work()
    follow(rig)
    assert value_of(rig, "a") == 1


@pytest.mark.parametrize("truncated_to", [5, None])
def test_a_changelog_that_was_cut_under_a_standby_is_read_again(
    rig: WorkerRig, caplog: pytest.LogCaptureFixture, truncated_to: int | None
) -> None:
    """Its start was deleted behind the position, or its end before it: the store is built again."""
    log_counts(rig, 1, 2, 3)
    rig.manager.use_roles((), [TASK], ())
    follow(rig)
    if truncated_to is None:
        del rig.cluster.logs[rig.changelog][1:]
    else:
        log_counts(rig, 4, 5, 6, 7)
        rig.cluster.starts[rig.changelog] = truncated_to
    rig.cluster.failures["consumer.poll"] = [OffsetOutOfRangeError(f"{rig.changelog} at offset 3")]
    follow(rig)
    assert "stores of standby task 0_0 are deleted and built again" in caplog.text
    rig.manager.use_roles((), [TASK], ())
    follow(rig)
    follow(rig)
    assert value_of(rig, "a") == (1 if truncated_to is None else 7)


def test_an_empty_standby_begins_at_the_start_of_its_changelog(
    rig: WorkerRig, caplog: pytest.LogCaptureFixture
) -> None:
    """Retention has deleted offset 0: nothing is lost."""
    log_counts(rig, 1, 2)
    rig.cluster.starts[rig.changelog] = 1
    rig.cluster.failures["consumer.poll"] = [OffsetOutOfRangeError(f"{rig.changelog} at offset 0")]
    rig.manager.use_roles((), [TASK], ())
    follow(rig)
    follow(rig)
    assert value_of(rig, "a") == 2
    assert "built again" not in caplog.text


def test_a_full_disk_stops_the_standbys_alone(rig: WorkerRig, caplog: pytest.LogCaptureFixture) -> None:
    """What was read is written when there is space; the active tasks go on."""
    log_counts(rig, 1)
    rig.manager.use_roles((), [TASK], ())
    rig.manager.standbys.step(is_idle=True)
    rig.full_disk(1)
    log_counts(rig, 2)
    follow(rig)
    assert "standby tasks wait: no space left" in caplog.text
    assert rig.stored_offset() == 1
    rig.manager.use_roles((), [TASK], ())
    follow(rig)
    assert (value_of(rig, "a"), rig.stored_offset()) == (2, 2)


def test_a_damaged_standby_is_built_again(rig: WorkerRig, caplog: pytest.LogCaptureFixture) -> None:
    """Its files cannot be read when it is promoted: the task restores everything."""
    caplog.set_level(logging.INFO)
    log_counts(rig, 1, 2)
    rig.manager.use_roles((), [TASK], ())
    follow(rig)
    del rig.cluster.logs[rig.changelog][1:]
    rig.manager.use_roles([TASK], (), ())
    rig.assign(FIRST)
    assert "store store has offset 2, its changelog app-store-changelog-0 has 0 to 1" in caplog.text
    rig.send("a")
    rig.work()
    rig.manager.commit()
    assert rig.counts() == [("a", 2)]


def test_an_input_topic_as_changelog_is_read_up_to_the_committed_offset(tmp_path: Path) -> None:
    """The records behind it are input that the active task has yet to process."""
    rig = WorkerRig(tmp_path, table=True)
    for value in (b"1", b"2", b"3"):
        rig.cluster.append(SOURCE, b"a", value, timestamp=3)
    rig.cluster.committed[FIRST] = OffsetAndMetadata(2)
    rig.manager.use_roles((), [TASK], ())
    follow(rig)
    follow(rig)
    assert value_of(rig, "a") == "2"
    assert rig.manager.task_offsets() == {TASK: 2}
    rig.cluster.committed[FIRST] = OffsetAndMetadata(3)
    rig.manager.use_roles([TASK], (), ())
    rig.assign(FIRST)
    rig.work()
    assert rig.manager.tasks[TASK].stores["store"].get("a").value == "3"


def test_standbys_are_part_of_the_offsets_of_the_tasks(rig: WorkerRig) -> None:
    """Those of an active task are what it has written; the end of a changelog is known before it is read."""
    log_counts(rig, 1, 2, 3)
    rig.send("b", "c", partition=1)
    rig.manager.use_roles([OTHER], [TASK], ())
    rig.assign(SECOND)
    rig.work()
    rig.manager.commit()
    follow(rig)
    assert rig.manager.task_offsets() == rig.manager.task_end_offsets() == {OTHER: 2, TASK: 3}
    assert list(rig.manager.standbys.tasks[TASK].positions()) == [("store", rig.changelog, 3)]
    assert not rig.manager.standbys.has_work, "there are no more records"


def test_offsets_of_a_standby_are_unknown_until_the_end_of_its_changelog_is(rig: WorkerRig) -> None:
    """It would seem to have caught up."""
    log_counts(rig, 1, 2)
    rig.cluster.failures["consumer.poll"] = [ApiTimeoutError("no leader")]
    rig.manager.use_roles((), (), [TASK])
    follow(rig)
    assert list(rig.manager.standbys.tasks) == [TASK]
    assert rig.manager.standbys.lag_of(TASK) is None
    assert (rig.manager.task_offsets(), rig.manager.task_end_offsets()) == ({}, {})
    rig.manager.use_roles((), (), [TASK])
    follow(rig)
    assert (rig.manager.standbys.lag_of(TASK), rig.manager.standbys.lag_of(OTHER)) == (0, None)
    assert rig.manager.task_offsets() == {TASK: 2}


def test_a_closed_thread_leaves_its_standbys_complete(rig: WorkerRig) -> None:
    """Position and store are those of the last turn; the consumer is closed."""
    log_counts(rig, 1)
    rig.manager.use_roles((), [TASK], ())
    follow(rig)
    rig.manager.close(clean=True)
    assert rig.stored_offset() == 1
    assert all(each.is_closed for each in rig.cluster.consumers[2:])
    rig.directory.acquire(TASK, "another thread")
