"""Atomic replacement of small files."""

import pytest
from fake_files import Crash, FakeFiles
from headrace.runtime.files.file_layer import read_file, write_file_atomically


@pytest.mark.parametrize("mode", ["none", "all", *range(8)])
def test_atomic_write_survives_power_loss(mode: str | int) -> None:
    """The file has the old or the new content, and the new one once the call has returned."""
    for crash_at in range(20):
        files = FakeFiles()
        files.mkdir("/d")
        files.fsync_directory("/")
        write_file_atomically(files, "/d", "c", b"old" * 100)
        files.crash_at = len(files.operations) + crash_at
        files.tear_bytes = 70
        try:
            write_file_atomically(files, "/d", "c", b"new" * 200)
        except Crash:
            assert read_file(files.power_loss(mode), "/d/c") in (b"old" * 100, b"new" * 200)
        else:
            assert read_file(files.power_loss(mode), "/d/c") == b"new" * 200
            return
    pytest.fail("the write has more operations than were tried")
