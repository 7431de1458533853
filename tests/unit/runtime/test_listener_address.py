"""The stored listener port: a preference that never prevents a start."""

import pytest
from fake_files import FakeFiles
from headrace.runtime.listener_address import FILE_NAME, store_port, stored_port


def files() -> FakeFiles:
    """A disk with the folder."""
    made = FakeFiles()
    made.mkdir("/m")
    made.fsync_directory("/")
    return made


def test_port_round_trip() -> None:
    """Unknown at first, then the newest; an unchanged port is not written again."""
    disk = files()
    assert stored_port(disk, "/m") == 0
    store_port(disk, "/m", 1234)
    store_port(disk, "/m", 5678)
    count = len(disk.operations)
    store_port(disk, "/m", 5678)
    assert stored_port(disk.power_loss("none"), "/m") == 5678
    assert len(disk.operations) == count


@pytest.mark.parametrize("content", [b"", b"port", b"-1", b"65536", b"9" * 5_000, b"\xff\xfe", b"1 2"])
def test_damaged_file_is_no_port(content) -> None:
    """Then any free port is used."""
    disk = files()
    disk.put(f"/m/{FILE_NAME}", content)
    assert stored_port(disk, "/m") == 0


def test_unreadable_file_is_no_port() -> None:
    """The log manager handles the disk error."""
    disk = files()
    disk.put(f"/m/{FILE_NAME}", b"1234")
    disk.fail("pread", FILE_NAME)
    assert stored_port(disk, "/m") == 0


def test_missing_directory_is_no_port() -> None:
    """At the first start, or if the disk is not mounted."""
    assert stored_port(FakeFiles(), "/away") == 0
