"""The remembered port: a convenience that must never stop a start."""

from __future__ import annotations

import pytest
from fake_files import FakeFiles
from headrace.storage_node.log.listener_memory import FILE_NAME, remember_port, remembered_port


def files() -> FakeFiles:
    """A disk with the folder."""
    made = FakeFiles()
    made.mkdir("/m")
    made.fsync_directory("/")
    return made


def test_there_and_back() -> None:
    """Unknown at first; the newest is remembered; the same one is not written again."""
    disk = files()
    assert remembered_port(disk, "/m") == 0
    remember_port(disk, "/m", 1234)
    remember_port(disk, "/m", 5678)
    count = len(disk.operations)
    remember_port(disk, "/m", 5678)
    assert remembered_port(disk.power_loss("none"), "/m") == 5678
    assert len(disk.operations) == count


@pytest.mark.parametrize("content", [b"", b"port", b"-1", b"65536", b"9" * 5_000, b"\xff\xfe", b"1 2"])
def test_rot_is_no_port(content) -> None:
    """A damaged file means any free port."""
    disk = files()
    disk.put(f"/m/{FILE_NAME}", content)
    assert remembered_port(disk, "/m") == 0


def test_an_unreadable_file_is_no_port() -> None:
    """The disk fails on it; the log will tell about the disk."""
    disk = files()
    disk.put(f"/m/{FILE_NAME}", b"1234")
    disk.fail("pread", FILE_NAME)
    assert remembered_port(disk, "/m") == 0


def test_a_missing_directory_is_no_port() -> None:
    """The first start, or a disk that is away."""
    assert remembered_port(FakeFiles(), "/away") == 0
