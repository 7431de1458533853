"""Tasks without stores wait for a snapshot, and do without one that does not fit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from headrace.clients.serdes import int64
from headrace.protocol.model import TopicPartition
from headrace.stream.records import TaskId
from worker_rig import SOURCE, WorkerRig

if TYPE_CHECKING:
    from pathlib import Path

FIRST, TASK = TopicPartition(SOURCE, 0), TaskId(0, 0)


class Stored:
    """Snapshots by the offset of the store; each is under way for one call."""

    def __init__(self, rig: WorkerRig, *offsets: int) -> None:
        self.rig, self.offsets = rig, list(offsets)
        self.calls: list[Any] = []

    def load(self, task: TaskId, topic_ids: dict[str, str]) -> bool:
        assert topic_ids == {"app-store-changelog": "id"}
        self.calls.append("load")
        if self.calls.count("load") % 2:
            return False
        if self.offsets:
            engine = self.rig.files.open(self.rig.directory.path / str(task), "store")
            engine.write({}, (), self.offsets.pop(0))
        return True

    def deleted(self, task: TaskId) -> None:
        self.calls.append("deleted")

    def closed(self, task: TaskId) -> None:
        self.calls.append("closed")

    def take(self, task: TaskId, engines: Any, topic_ids: Any, now_ms: int) -> None:
        self.calls.append(("take", list(engines)))


def run(rig: WorkerRig, offsets: list[int]) -> Stored:
    """A task whose changelog has two records, and snapshots with these offsets."""
    stored: Any = Stored(rig, *offsets)
    rig.directory.snapshots = stored
    for count in (1, 2):
        rig.cluster.append(rig.changelog.topic, b"a", int64.dumps(count), timestamp=3)
    rig.assign(FIRST)
    return stored


@pytest.fixture
def rig(tmp_path: Path) -> WorkerRig:
    return WorkerRig(tmp_path)


def test_a_task_waits_for_its_snapshot_and_reads_the_rest(rig: WorkerRig) -> None:
    """Another thread may have the folder meanwhile."""
    stored = run(rig, [1])
    assert rig.manager.tasks == {}
    rig.directory.acquire(TASK, "another thread")
    rig.directory.release(TASK)
    rig.work()
    assert rig.restorer.restored == 1
    rig.send("b")
    rig.work()
    rig.manager.commit_due(rig.now_ms)
    assert rig.manager.commit_due(rig.now_ms + 10**9)
    assert stored.calls == ["load", "load", ("take", ["store"])]
    rig.revoke(FIRST)
    rig.assign(FIRST)
    assert stored.calls[-1] == "closed", "a task with stores needs no snapshot"


def test_a_snapshot_that_is_newer_than_the_changelog_is_left(rig: WorkerRig) -> None:
    """The next one is loaded, and at last all is read from the changelog."""
    stored = run(rig, [9, 8])
    for _ in range(4):
        rig.manager.open_tasks()
    rig.work()
    assert stored.calls.count("deleted") == 2
    assert rig.restorer.restored == 2


def test_a_standby_begins_with_a_snapshot_as_well(rig: WorkerRig) -> None:
    stored = run(rig, [1])
    rig.revoke(FIRST)
    rig.manager.use_roles((), [TASK], ())
    rig.manager.update_standbys(is_idle=True)
    rig.manager.use_roles((), [TASK], ())
    rig.manager.update_standbys(is_idle=True)
    assert list(rig.manager.standbys.tasks) == [TASK]
    assert stored.offsets == []
