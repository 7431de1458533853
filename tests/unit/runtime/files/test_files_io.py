"""The real file layer: system errors, short writes, close during a read."""

import errno
import os
import threading
from pathlib import Path

import pytest
from headrace.protocol.errors import KafkaStorageError
from headrace.runtime.files.file_layer import FileGoneError
from headrace.runtime.files.files_io import OsFiles


def test_errors_have_operation_path_and_errno(tmp_path: Path) -> None:
    """A disk error is not taken for a missing file."""
    (tmp_path / "a").write_text("x")
    with pytest.raises(KafkaStorageError, match=rf"mkdir {tmp_path}/a/b: .*ENOTDIR") as caught:
        OsFiles().mkdir(f"{tmp_path}/a/b")
    assert not isinstance(caught.value, FileGoneError)


def test_full_device_is_an_error(tmp_path: Path) -> None:
    """/dev/full accepts no byte."""
    file = OsFiles().open("/dev/full")
    with pytest.raises(KafkaStorageError, match=errno.errorcode[errno.ENOSPC]):
        file.pwrite(0, [b"x" * 100])
    file.close()


def test_memory_error_is_not_a_disk_failure(tmp_path: Path) -> None:
    """Cached bytes count as not cached, and the blocking read raises MemoryError."""
    file = OsFiles().open(f"{tmp_path}/a", create=True)
    file.pwrite(0, [b"x" * 100])
    for size in (1 << 48, 1 << 62):
        assert file.pread_cached(0, size) is None
        with pytest.raises(MemoryError):
            file.pread(0, size)
    assert file.pread_cached(0, 100) == b"x" * 100


def test_write_of_more_than_iov_max_buffers(tmp_path: Path) -> None:
    """The write continues where it stopped."""
    file = OsFiles().open(f"{tmp_path}/a", create=True)
    pieces = [number.to_bytes(2, "big") for number in range(3000)]
    file.pwrite(0, pieces)
    assert file.pread(0, 9000) == b"".join(pieces)
    file.close()


def test_close_during_reads_on_threads(tmp_path: Path) -> None:
    """Readers get the right bytes or FileGoneError, never the bytes of the file that reuses the
    descriptor."""
    files = OsFiles()
    wrong: list[bytes] = []

    def read(file: object) -> None:
        try:
            while True:
                data = file.pread(0, 1000)  # type: ignore[attr-defined]
                if data != b"r" * 1000:
                    wrong.append(data)
        except FileGoneError:
            return

    for number in range(20):
        file = files.open(f"{tmp_path}/right{number}", create=True)
        file.pwrite(0, [b"r" * 1000])
        reader = threading.Thread(target=read, args=(file,))
        reader.start()
        file.close()
        other = files.open(f"{tmp_path}/wrong{number}", create=True)
        other.pwrite(0, [b"w" * 1000])
        reader.join()
        other.close()
    assert wrong == []


def test_close_frees_the_descriptor(tmp_path: Path) -> None:
    """Closing many files leaves no open descriptor."""
    before = len(os.listdir("/proc/self/fd"))
    files = [OsFiles().open(f"{tmp_path}/{number}", create=True) for number in range(20)]
    for file in files:
        file.close()
    assert len(os.listdir("/proc/self/fd")) == before
