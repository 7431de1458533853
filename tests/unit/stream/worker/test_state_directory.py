"""Tests of stream/worker/state_directory_io.py."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from headrace.stream.errors import StateDirectoryError
from headrace.stream.records import TaskId
from headrace.stream.worker.state_directory_io import StateDirectory

if TYPE_CHECKING:
    from pathlib import Path

TASK = TaskId(0, 1)


def test_the_process_id_stays_over_a_restart(tmp_path: Path) -> None:
    """The assignor finds the stores of a process by its id."""
    with StateDirectory(str(tmp_path), "app") as first:
        known = first.process_id
    with StateDirectory(str(tmp_path), "app") as second:
        assert second.process_id == known


@pytest.mark.parametrize("damage", [b"", b"{", b"[]", b'{"process_id": 5}', b'{"process_id": "x"}'])
def test_a_damaged_process_file_gets_a_new_id(tmp_path: Path, damage: bytes) -> None:
    """The stores stay."""
    (tmp_path / "app").mkdir()
    (tmp_path / "app" / "process.json").write_bytes(damage)
    with StateDirectory(str(tmp_path), "app") as directory:
        known = directory.process_id
    with StateDirectory(str(tmp_path), "app") as again:
        assert again.process_id == known


def test_the_folder_belongs_to_one_process(tmp_path: Path) -> None:
    """A second process with the same state.dir fails at its start."""
    with StateDirectory(str(tmp_path), "app"):
        with pytest.raises(StateDirectoryError, match="in use by another process"):
            StateDirectory(str(tmp_path), "app")
        StateDirectory(str(tmp_path), "other").close()
    StateDirectory(str(tmp_path), "app").close()


def test_the_stores_of_a_task_belong_to_one_thread(tmp_path: Path) -> None:
    """A task that moves to another thread waits for its release."""
    with StateDirectory(str(tmp_path), "app") as directory:
        folder = directory.acquire(TASK, "thread-1")
        assert directory.acquire(TASK, "thread-1") == folder
        with pytest.raises(StateDirectoryError, match="0_1 are open in thread thread-1"):
            directory.acquire(TASK, "thread-2")
        directory.release(TASK)
        assert directory.acquire(TASK, "thread-2") == folder


def test_stores_of_other_topics_are_deleted(tmp_path: Path) -> None:
    """A topic that was made again, or that of another cluster, has another id. A new store adds a topic."""
    with StateDirectory(str(tmp_path), "app") as directory:
        store = directory.acquire(TASK, "thread-1") / "store"
        assert directory.bind(TASK, {"a": "1"})
        store.touch()
        assert directory.bind(TASK, {"a": "1"})
        assert directory.bind(TASK, {"a": "1", "b": "2"})
        assert store.exists()
        assert not directory.bind(TASK, {"a": "1", "b": "3"})
        assert not store.exists()
        assert directory.stored_tasks() == []
        assert directory.bind(TASK, {"a": "1", "b": "3"})


def test_folders_of_tasks_that_moved_away_are_deleted_after_the_delay(tmp_path: Path) -> None:
    """Folders of running tasks stay."""
    with StateDirectory(str(tmp_path), "app") as directory:
        for task in (TASK, TaskId(0, 2)):
            (directory.acquire(task, "thread-1") / "store").touch()
        assert directory.stored_tasks() == [TASK, TaskId(0, 2)]
        directory.release(TASK)
        now_ms = (tmp_path / "app" / "0_1").stat().st_mtime_ns // 1_000_000
        assert directory.clean(now_ms + 99, 100) == []
        assert directory.clean(now_ms + 100, 100) == [TASK]
        assert directory.stored_tasks() == [TaskId(0, 2)]


def test_a_file_in_place_of_the_folder_is_a_clear_error(tmp_path: Path) -> None:
    """The error names the folder."""
    (tmp_path / "app").touch()
    with pytest.raises(StateDirectoryError, match="cannot be used"):
        StateDirectory(str(tmp_path), "app")


def test_the_error_names_the_process_that_has_the_folder(tmp_path: Path) -> None:
    """Its pid, for operators."""
    with (
        StateDirectory(str(tmp_path), "app"),
        pytest.raises(StateDirectoryError, match=f"in use by another process, pid {os.getpid()}"),
    ):
        StateDirectory(str(tmp_path), "app")


@pytest.mark.parametrize(("group_writes", "mode"), [(False, 0o700), (True, 0o770)])
def test_the_group_may_write_if_it_is_allowed_to(tmp_path: Path, group_writes: bool, mode: int) -> None:
    """allow.os.group.write.access, whatever the umask is."""
    with StateDirectory(str(tmp_path), "app", group_writes=group_writes) as directory:
        folders = directory.path, directory.acquire(TASK, "thread-1")
    assert [folder.stat().st_mode & 0o777 for folder in folders] == [mode, mode]
