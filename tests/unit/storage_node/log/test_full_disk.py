"""A full disk: no partial write stays, the dir stays online, and appends continue when there is room."""

import errno
from collections.abc import Callable

import pytest
from fake_files import FakeFiles
from headrace.protocol.errors import KafkaStorageError
from headrace.runtime.files.file_layer import DiskFullError, write_file_atomically
from headrace.storage_node.log.disk_room import DiskRoom
from headrace.storage_node.log.guarded_files import GuardedFiles, LogDirState
from headrace.storage_node.log.log import Log
from log_rig import FOLDER, append, batch, config, open_log, read_all

SEGMENT_BYTES = 300
BATCHES = [batch(1 + number % 2, tag=str(number), size=20 + number) for number in range(9)]


def disk(fake: FakeFiles, reserve_bytes: int = 0) -> GuardedFiles:
    """The files of one log dir."""
    fake.mkdir(FOLDER)
    for folder in ("/", "/d"):
        fake.fsync_directory(folder)
    return GuardedFiles(fake, LogDirState(), DiskRoom(fake, "/d", reserve_bytes))


def opened(files: GuardedFiles) -> Log:
    return open_log(files, segment_bytes=SEGMENT_BYTES)


def steps(log: Log) -> list[Callable[[], object]]:
    """What a log does in its life, each as often as it takes: it rolls on the way, and changes epochs."""
    todo: list[Callable[[], object]] = []
    for number, data in enumerate(BATCHES):
        todo.append(lambda data=data, number=number: append(log, data, epoch=number // 3))  # type: ignore[misc]
        todo.append(log.flush)
    return todo


def refused(log: Log, step: Callable[[], object]) -> int:
    """Do a step, again when it was refused for want of room; how often that was."""
    room = log.folder.files.room
    assert room is not None
    for times in range(3):
        try:
            step()
        except DiskFullError:
            assert room.full is not None
            with pytest.raises(DiskFullError, match=r"the disk of /d is full: \d+ bytes free"):
                append(log, BATCHES[0])
            assert room.look()
        else:
            return times
    raise AssertionError("refused for ever")


def asked(operation: str) -> int:
    """How often the steps do this."""
    fake = FakeFiles()
    log = opened(disk(fake))
    for step in steps(log):
        step()
    assert len(log.segments) > 3
    return sum(entry.startswith(f"{operation} ") for entry in fake.operations)


@pytest.mark.parametrize("operation", ["pwrite", "create", "rename", "truncate", "allocate"])
def test_each_operation_is_refused_once_on_full_disk(operation: str) -> None:
    """Scenarios 25 and 29: append, roll, index, epoch file. Each write fails once with a clear error; in the
    end the log equals one on a large disk, after a restart as after a crash."""
    for number in range(asked(operation)):
        fake = FakeFiles()
        log = opened(disk(fake))
        fake.fail(operation, "", errno.ENOSPC, number)
        times = sum(refused(log, step) for step in steps(log))
        found = read_all(log)
        assert [bytes(each)[61:] for each in found] == [each[61:] for each in BATCHES]
        assert read_all(open_log(fake.restart(), segment_bytes=SEGMENT_BYTES)) == found
        assert read_all(open_log(fake.power_loss("none"), segment_bytes=SEGMENT_BYTES)) == found
        fake.clear_faults()  # those of the last numbers had come before: opening the log does some of each
        log.close()
        clean = open_log(fake.restart(), segment_bytes=SEGMENT_BYTES, was_clean=True)
        assert read_all(clean) == found
        assert not clean.recovery.faults
        assert times <= 1


@pytest.mark.parametrize("operation", ["fdatasync", "fsync_directory"])
def test_failed_sync_on_full_disk_takes_dir_offline(operation: str) -> None:
    """The dirty pages may be lost, whatever the reason: there is no retry."""
    fake = FakeFiles()
    log = opened(disk(fake))
    append(log, BATCHES[0])
    fake.fail(operation, "", errno.ENOSPC)
    with pytest.raises(KafkaStorageError, match="ENOSPC") as found:
        log.flush()
    assert not isinstance(found.value, DiskFullError)
    assert log.is_offline


def test_torn_batch_is_truncated() -> None:
    """The disk accepts a part of the batch, of each size: none of it stays, and the next batch is written
    there."""
    first, second = BATCHES[:2]
    for room in range(len(second)):
        fake = FakeFiles()
        files = disk(fake)
        log = open_log(files)
        append(log, first)
        fake.capacity_bytes = fake.used_bytes() + room
        with pytest.raises(DiskFullError, match="No space"):
            append(log, second)
        path = log.segments.active.file.path
        assert len(fake.content(path)) == len(first)
        assert log.log_end_offset == 1
        fake.capacity_bytes = None
        assert files.room is not None
        assert files.room.look()
        assert append(log, second) == 1
        log.flush()
        assert len(read_all(open_log(fake.power_loss("none")))) == 2


def test_failed_preallocation_leaves_no_segment() -> None:
    """A clean start would take an empty segment for the end of the previous one."""
    fake = FakeFiles()
    files = disk(fake)
    log = open_log(files, segment_bytes=SEGMENT_BYTES)
    for data in BATCHES[:3]:
        append(log, data)
    log.reconfigure(config(preallocate=True, segment_bytes=SEGMENT_BYTES))
    names, segments = fake.listdir(FOLDER), len(log.segments)
    fake.capacity_bytes = fake.used_bytes() + 150
    with pytest.raises(DiskFullError):
        log.roll()
    assert [name for name in fake.listdir(FOLDER) if name.endswith(".log")] == [
        name for name in names if name.endswith(".log")
    ]
    assert len(log.segments) == segments
    fake.capacity_bytes = None
    assert files.room is not None
    assert files.room.look()
    append(log, BATCHES[3])
    log.roll()
    assert len(log.segments) == segments + 1
    log.close()
    assert len(read_all(open_log(fake.restart(), was_clean=True))) == 4


def test_small_files_use_the_reserve() -> None:
    """Records are refused, a checkpoint is written; appends wait until the reserve is allocated again."""
    fake = FakeFiles()
    files = disk(fake, reserve_bytes=1_000)
    assert files.room is not None
    files.room.take_reserve()
    log = open_log(files)
    append(log, BATCHES[0])
    fake.capacity_bytes = fake.used_bytes()
    with pytest.raises(DiskFullError):
        append(log, BATCHES[1])
    write_file_atomically(files, "/d", "checkpoint", b"x" * 600)
    assert fake.content("/d/checkpoint") == b"x" * 600
    with pytest.raises(DiskFullError):
        write_file_atomically(files, "/d", "another", b"x" * 600)
    fake.capacity_bytes += 500
    assert not files.room.look(), "there is room, but not for the reserve"
    with pytest.raises(DiskFullError):
        append(log, BATCHES[1])
    assert not fake.content("/d/.reserve"), "the space taken for the reserve is returned"
    fake.capacity_bytes += 2_000
    assert files.room.look()
    assert append(log, BATCHES[1]) == 1
    assert files.dir_state.failure is None


def test_start_on_full_disk_refuses_records() -> None:
    """The reserve cannot be allocated: logs are read, appends wait for room."""
    fake = FakeFiles(capacity_bytes=100)
    files = disk(fake, reserve_bytes=1_000)
    assert files.room is not None
    files.room.take_reserve()
    log = open_log(files)
    with pytest.raises(DiskFullError, match="the disk of /d is full: 100 bytes free"):
        append(log, BATCHES[0])
    fake.capacity_bytes = None
    assert files.room.look()
    assert append(log, BATCHES[0]) == 0


def test_full_disk_without_disk_room_is_a_failure() -> None:
    """As for the metadata log: a controller must not lead without being able to write."""
    fake = FakeFiles()
    fake.mkdir("/d")
    files = GuardedFiles(fake, LogDirState())
    log = open_log(files)
    fake.capacity_bytes = fake.used_bytes() + 3
    with pytest.raises(KafkaStorageError, match="ENOSPC"):
        append(log, BATCHES[0])
    assert log.is_offline
