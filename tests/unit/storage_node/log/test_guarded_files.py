"""After the first disk error nothing is read or written any more (KAFKA-10778)."""

import errno

import pytest
from fake_files import FakeFiles
from headrace.protocol.errors import KafkaStorageError
from headrace.runtime.files.file_layer import FileGoneError
from headrace.storage_node.log.guarded_files import GuardedFiles, LogDirState, guarded


@pytest.mark.parametrize("operation", ["pwrite", "pread", "fdatasync", "truncate", "size", "allocate"])
def test_one_disk_error_refuses_all_operations(operation: str) -> None:
    """EIO once, in any operation; the disk would work again."""
    reasons: list[str] = []
    fake = FakeFiles()
    files = GuardedFiles(fake, LogDirState(reasons.append))
    file = files.open("/a", create=True)
    fake.fail(operation)
    with pytest.raises(KafkaStorageError, match="EIO"):
        use(file, operation)
    before = list(fake.operations)
    for other in ("pwrite", "pread", "fdatasync", "truncate", "size", "allocate"):
        with pytest.raises(KafkaStorageError, match="offline"):
            use(file, other)
    with pytest.raises(KafkaStorageError, match="offline"):
        files.open("/b", create=True)
    assert fake.operations == before
    assert len(reasons) == 1
    assert "EIO" in reasons[0]
    file.close()


def use(file: object, operation: str) -> None:
    arguments = {"pwrite": (0, [b"x"]), "pread": (0, 1), "truncate": (0,), "allocate": (1,)}
    getattr(file, operation)(*arguments.get(operation, ()))


def test_missing_file_is_not_a_disk_failure() -> None:
    """Readers of deleted logs meet missing files; the dir stays online."""
    files = GuardedFiles(FakeFiles(), LogDirState())
    with pytest.raises(FileGoneError):
        files.open("/none")
    files.dir_state.check()


def test_full_disk_without_disk_room_blows_the_fuse() -> None:
    """ENOSPC leaves a torn write; see test_full_disk.py for dirs with a DiskRoom."""
    files = GuardedFiles(FakeFiles(capacity_bytes=3), LogDirState())
    file = files.open("/a", create=True)
    with pytest.raises(KafkaStorageError, match=errno.errorcode[errno.ENOSPC]):
        file.pwrite(0, [b"four"])
    assert files.dir_state.failure is not None


def test_files_are_guarded_once() -> None:
    """A dir has one state, shared by all users of its files."""
    files = guarded(FakeFiles())
    assert guarded(files) is files
