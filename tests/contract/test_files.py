"""The fake file layer behaves like the real one."""

import contextlib
import os
from pathlib import Path

import pytest
from fake_files import FakeFiles
from headrace.protocol.errors import KafkaStorageError
from headrace.runtime.files.file_layer import (
    FileGoneError,
    Files,
    NotCachedError,
    read_file,
    remove_tree,
    write_file_atomically,
)
from headrace.runtime.files.files_io import OsFiles
from headrace.storage_node.log.guarded_files import GuardedFiles, LogDirState


@pytest.fixture(params=["os", "fake", "guarded"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Files, str]:
    """A file layer and an empty folder."""
    if request.param == "os":
        return OsFiles(), str(tmp_path)
    fake = FakeFiles()
    fake.mkdir("/d")
    return (fake if request.param == "fake" else GuardedFiles(fake, LogDirState())), "/d"


def test_write_of_many_buffers(place: tuple[Files, str]) -> None:
    """The buffers are written as one run of bytes; reads stop at the end of the file."""
    files, folder = place
    file = files.open(f"{folder}/a", create=True)
    assert file.pwrite(0, [b"abc", bytearray(b"de"), memoryview(b"xfgx")[1:3]]) == 7
    assert file.pwrite(7, [b""]) == 0
    assert file.pread(0, 100) == b"abcdefg"
    assert file.pread(2, 3) == b"cde"
    assert file.pread(7, 10) == b""
    assert file.size() == files.size(f"{folder}/a") == 7
    file.close()


def test_write_of_more_than_iov_max_buffers(place: tuple[Files, str]) -> None:
    """The kernel accepts 1024 buffers per call."""
    files, folder = place
    file = files.open(f"{folder}/a", create=True)
    pieces = [bytes([number % 256]) * 3 for number in range(2500)]
    assert file.pwrite(0, pieces) == 7500
    assert file.pread(0, 8000) == b"".join(pieces)
    file.close()


def test_write_past_the_end_and_truncate_fill_with_zeros(place: tuple[Files, str]) -> None:
    """Holes read as zeros; truncate shrinks and grows; allocate only grows."""
    files, folder = place
    file = files.open(f"{folder}/a", create=True)
    file.pwrite(3, [b"x"])
    assert file.pread(0, 9) == b"\0\0\0x"
    file.truncate(1)
    file.truncate(3)
    assert file.pread(0, 9) == b"\0\0\0"
    file.allocate(8)
    assert file.size() == 8
    file.allocate(2)
    assert file.size() == 8
    file.fdatasync()
    file.close()


def test_missing_file_raises_file_gone(place: tuple[Files, str]) -> None:
    """FileGoneError is a KafkaStorageError that is not a disk failure."""
    files, folder = place
    for attempt in (
        lambda: files.open(f"{folder}/none"),
        lambda: files.size(f"{folder}/none"),
        lambda: files.remove(f"{folder}/none"),
        lambda: files.rename(f"{folder}/none", f"{folder}/b"),
        lambda: files.listdir(f"{folder}/none"),
        lambda: files.fsync_directory(f"{folder}/none"),
    ):
        with pytest.raises(FileGoneError):
            attempt()
    files.mkdir(f"{folder}/still-works")


def test_closed_file_raises_file_gone(place: tuple[Files, str]) -> None:
    """Every use after close; close is idempotent."""
    files, folder = place
    file = files.open(f"{folder}/a", create=True)
    file.close()
    file.close()
    with pytest.raises(FileGoneError):
        file.pread(0, 1)
    with pytest.raises(FileGoneError):
        file.pwrite(0, [b"x"])


def test_names_in_folders(place: tuple[Files, str]) -> None:
    """mkdir creates parents; listdir is sorted; rename replaces; rmdir needs an empty folder."""
    files, folder = place
    files.mkdir(f"{folder}/x/y")
    files.mkdir(f"{folder}/x/y")
    for name in ("b", "a"):
        files.open(f"{folder}/x/{name}", create=True).close()
    assert files.listdir(f"{folder}/x") == ["a", "b", "y"]
    assert files.is_directory(f"{folder}/x/y")
    assert not files.is_directory(f"{folder}/x/a")
    assert files.exists(f"{folder}/x/a")
    assert not files.exists(f"{folder}/x/c")
    files.rename(f"{folder}/x/a", f"{folder}/x/b")
    assert files.listdir(f"{folder}/x") == ["b", "y"]
    with pytest.raises(KafkaStorageError, match="NOTEMPTY"):
        files.rmdir(f"{folder}/x")


def test_open_file_survives_remove_and_rename(place: tuple[Files, str]) -> None:
    """So a segment can be deleted during a read."""
    files, folder = place
    files.mkdir(f"{folder}/x")
    file = files.open(f"{folder}/x/a", create=True)
    file.pwrite(0, [b"abc"])
    files.rename(f"{folder}/x", f"{folder}/y")
    assert file.pread(0, 3) == b"abc"
    remove_tree(files, f"{folder}/y")
    assert file.pread(0, 3) == b"abc"
    assert files.listdir(folder) == []
    file.close()


def test_lock_is_exclusive_until_released(place: tuple[Files, str]) -> None:
    """The second owner gets None until the release."""
    files, folder = place
    first = files.lock(f"{folder}/.lock")
    assert first is not None
    assert files.lock(f"{folder}/.lock") is None
    first.release()
    first.release()
    second = files.lock(f"{folder}/.lock")
    assert second is not None
    second.release()


def test_atomic_write_replaces_the_content(place: tuple[Files, str]) -> None:
    """By longer and shorter content; no temporary file stays."""
    files, folder = place
    for content in (b"long content", b"short", b""):
        write_file_atomically(files, folder, "c", content)
        assert read_file(files, f"{folder}/c") == content
    assert files.listdir(folder) == ["c"]


def reports_cached_pages(files: Files, folder: str) -> bool:
    """Whether this file system reports cached pages; a new page is cached."""
    file = files.open(f"{folder}/probe", create=True)
    file.pwrite(0, [b"x"])
    return file.pread_cached(0, 1) is not None


def test_cached_read_is_all_or_nothing(place: tuple[Files, str]) -> None:
    """New pages are cached; bytes past the end never are. Without support the result is always None."""
    files, folder = place
    is_supported = reports_cached_pages(files, folder)
    file = files.open(f"{folder}/a", create=True)
    content = bytes(range(256)) * 1000
    file.pwrite(0, [content])
    for position, size in ((0, 256_000), (0, 1), (1000, 100_000), (255_999, 1)):
        found = file.pread_cached(position, size)
        assert (found == content[position : position + size]) if is_supported else found is None
    assert file.pread_cached(255_999, 2) is None
    assert file.pread_cached(300_000, 1) is None
    file.close()
    with pytest.raises(FileGoneError):
        file.pread_cached(0, 1)


def test_result_of_cached_read_does_not_change(place: tuple[Files, str]) -> None:
    """Later reads and writes do not affect it, and it is read-only."""
    files, folder = place
    file = files.open(f"{folder}/a", create=True)
    file.pwrite(0, [b"a" * 200_000])
    if not reports_cached_pages(files, folder):
        assert file.pread_cached(0, 100_000) is None
        return
    first = file.pread_cached(0, 100_000)
    file.pwrite(0, [b"b" * 200_000])
    second = file.pread_cached(0, 100_000)
    assert first == b"a" * 100_000
    assert second == b"b" * 100_000
    assert memoryview(first).readonly


def test_dropped_pages_are_cold_until_they_are_read(place: tuple[Files, str]) -> None:
    """Only clean pages are dropped; advice about a closed file or an empty range is no error."""
    files, folder = place
    is_supported = reports_cached_pages(files, folder)
    file = files.open(f"{folder}/a", create=True)
    size = 1 << 20
    file.pwrite(0, [b"a" * size])
    file.fdatasync()
    file.drop_cached(0, size)
    assert file.pread_cached(0, size) is None
    assert file.pread(0, size) == b"a" * size
    assert (file.pread_cached(0, size) is not None) is is_supported
    file.drop_cached(0, size)
    file.will_need(0, size)
    file.will_need(size, 100)
    file.drop_cached(0, 0)
    assert file.pread(0, size) == b"a" * size
    file.close()
    file.will_need(0, 1)
    file.drop_cached(0, 1)


def test_create_in_missing_folder_is_a_disk_failure(place: tuple[Files, str]) -> None:
    """The log dir was unmounted or removed."""
    files, folder = place
    with pytest.raises(KafkaStorageError, match="the folder is missing") as caught:
        files.open(f"{folder}/none/a", create=True)
    assert not isinstance(caught.value, FileGoneError)


def test_space_of_a_file_system(place: tuple[Files, str]) -> None:
    """Usable bytes are a part of the total; a missing folder is an error."""
    files, folder = place
    space = files.space(folder)
    assert 0 < space.usable <= space.total
    with pytest.raises(FileGoneError):
        files.space(f"{folder}/none")


def test_lent_bytes_are_sent(place: tuple[Files, str]) -> None:
    """From any byte on, also after the file was closed or removed; nothing is lent past the end."""
    files, folder = place
    is_supported = reports_cached_pages(files, folder)
    file = files.open(f"{folder}/a", create=True)
    content = bytes(range(256)) * 40
    file.pwrite(0, [content])
    assert file.lend(10_000, 1000) is None
    lent = file.lend(1000, 5000)
    if not is_supported:
        assert lent is None
        return
    if lent is None:
        pytest.skip("this kernel cannot say what is cached")
    file.close()
    files.remove(f"{folder}/a")
    assert len(lent) == 5000
    reader, writer = os.pipe()
    sent = 0
    while sent < 5000:
        sent += lent.send(writer, sent)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        assert pipe.read() == content[1000:6000]
    room = bytearray(5001)
    assert lent.read_into(memoryview(room)[1:3001], 0) == 3000
    assert lent.read_into(memoryview(room)[3001:], 3000) == 2000
    assert room[1:] == content[1000:6000]
    with pytest.raises(FileGoneError):
        file.lend(0, 1)


def test_truncated_bytes_are_not_sent(place: tuple[Files, str]) -> None:
    """A send past the end of the file sends nothing."""
    files, folder = place
    file = files.open(f"{folder}/a", create=True)
    file.pwrite(0, [bytes(9000)])
    lent = file.lend(0, 9000)
    if lent is None:
        return
    file.truncate(5000)
    reader, writer = os.pipe()
    assert lent.send(writer, 4000) == 1000
    assert lent.send(writer, 5000) == 0
    assert lent.read_into(bytearray(9000), 4000) == 1000
    assert lent.read_into(bytearray(9000), 5000) == 0
    os.close(reader)
    os.close(writer)


def test_cold_pages_are_not_lent(place: tuple[Files, str]) -> None:
    """Dropped pages are not in the page cache."""
    files, folder = place
    file = files.open(f"{folder}/a", create=True)
    size = 1 << 20
    file.pwrite(0, [b"a" * size])
    file.fdatasync()
    file.drop_cached(0, size)
    assert file.lend(0, size) is None
    assert file.lend(size // 2, size // 4) is None


@pytest.mark.parametrize("is_sent", [True, False])
def test_evicted_lent_pages_are_read_again(place: tuple[Files, str], is_sent: bool) -> None:
    """`send` and `read_into` do not wait for them; after some attempts they are sent or read all the same."""
    files, folder = place
    file = files.open(f"{folder}/a", create=True)
    size = 1 << 20
    file.pwrite(0, [b"a" * size])
    file.fdatasync()
    lent = file.lend(0, size)
    if lent is None:
        return
    file.drop_cached(0, size)
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    room = bytearray(size)

    def take() -> bytes:
        if is_sent:
            return os.read(reader, lent.send(writer, 0))
        return bytes(room[: lent.read_into(room, 0)])

    with pytest.raises(NotCachedError):
        take()
    taken = b""
    for _ in range(10):
        with contextlib.suppress(NotCachedError):
            taken = take()
            break
    assert taken
    assert taken == b"a" * len(taken)
    os.close(reader)
    os.close(writer)
