"""The offsets of stores in the state directory that no thread has open."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from headrace.protocol.errors import NetworkError
from headrace.protocol.model import TopicPartition
from headrace.stream.records import TaskId
from headrace.stream.state.files_io import open_engine
from headrace.stream.worker.state_directory_io import StateDirectory, StoredOffset
from headrace.stream.worker.stored_offsets_io import read_stored_offsets
from stream_clients import FakeAdmin, FakeStreamsCluster
from worker_rig import COUNTS, SOURCE, WorkerRig, counting_app, plan_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

CHANGELOG, TASK, OTHER = "app-store-changelog", TaskId(0, 0), TaskId(0, 1)
IDS = {CHANGELOG: "id"}


@pytest.fixture
def cluster() -> FakeStreamsCluster:
    """The changelog of the first task has three records, that of the other one none."""
    made = FakeStreamsCluster(**{SOURCE: 2, COUNTS: 1, CHANGELOG: 2})
    for _ in range(3):
        made.append(CHANGELOG, b"a", b"", timestamp=1)
    return made


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[StateDirectory]:
    with StateDirectory(str(tmp_path), "app") as made:
        yield made


def store(directory: StateDirectory, task: TaskId, offset: int, ids: dict[str, str] | None = None) -> None:
    """Files of a store, as a killed process leaves them."""
    folder = directory.acquire(task, "thread")
    directory.bind(task, IDS if ids is None else ids)
    engine = open_engine(folder, "store")
    engine.write({"": {b"a": b"1"}}, (), offset)
    engine.close()
    directory.release(task)


def read(directory: StateDirectory, cluster: FakeStreamsCluster) -> dict[TaskId, StoredOffset]:
    plan = plan_of(counting_app(), {SOURCE: 2}, open_engine)
    read_stored_offsets(directory, plan, lambda: FakeAdmin(cluster))
    return directory.stored_offsets()


def test_stores_are_read_with_the_ends_of_their_changelogs(
    directory: StateDirectory, cluster: FakeStreamsCluster
) -> None:
    """Not those of tasks that the topology does not have, and not those whose changelog was created again."""
    store(directory, TASK, 2)
    store(directory, OTHER, 2, {CHANGELOG: "another id"})
    store(directory, TaskId(7, 0), 2)
    assert read(directory, cluster) == {TASK: StoredOffset(2, 3)}
    directory.acquire(TASK, "thread")
    assert directory.stored_offsets() == {}, "the thread reports it now"


def test_stores_that_are_deleted_are_forgotten(
    directory: StateDirectory, cluster: FakeStreamsCluster
) -> None:
    store(directory, TASK, 2)
    store(directory, OTHER, 0)
    assert read(directory, cluster).keys() == {TASK, OTHER}
    directory.wipe(OTHER)
    assert directory.stored_offsets().keys() == {TASK}
    directory.clean(10**15, 0)
    assert directory.stored_offsets() == {}


def test_damaged_stores_and_a_cluster_that_does_not_answer_are_left_to_the_tasks(
    directory: StateDirectory, cluster: FakeStreamsCluster, caplog: pytest.LogCaptureFixture
) -> None:
    store(directory, TASK, 2)
    store(directory, OTHER, 1)
    for path in (directory.path / str(OTHER)).rglob("*"):
        if path.is_file() and path.name != "changelogs.json":
            path.write_bytes(b"damaged")
    cluster.failures["admin.list_offsets"] = [NetworkError("away")]
    assert read(directory, cluster) == {}
    assert "stores of task 0_1 cannot be read" in caplog.text
    assert read(directory, cluster) == {TASK: StoredOffset(2, 3)}


def test_a_task_that_leaves_is_reported_from_its_files(tmp_path: Path) -> None:
    """With the offset of its last commit, until it is opened again."""
    rig = WorkerRig(tmp_path)
    first = TopicPartition(SOURCE, 0)
    rig.assign(first)
    rig.send("a", "b", "a")
    rig.work()
    assert rig.directory.stored_offsets() == {}
    rig.revoke(first)
    assert rig.directory.stored_offsets() == {TASK: StoredOffset(3, 3)}
    rig.assign(first)
    assert rig.directory.stored_offsets() == {}
