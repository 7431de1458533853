"""The snapshot files of one metadata log."""

import pytest
from fake_files import FakeFiles
from headrace.controller.quorum.snapshot_store import SNAPSHOTS_KEPT, SnapshotStore
from headrace.controller.quorum.snapshots import NO_VOTERS, SnapshotId
from headrace.protocol.errors import CorruptMessageError, PositionOutOfRangeError, SnapshotNotFoundError
from headrace.protocol.metadata.image import MetadataImage
from metadata_rig import DIRECTORY, NOW
from quorum_rig import formatted, voters

BOOTSTRAP = SnapshotId(0, 0)


def recovered(files: FakeFiles) -> SnapshotStore:
    store = SnapshotStore(files, DIRECTORY)
    store.recover()
    store.check()
    return store


def test_recover_reads_the_newest_valid_snapshot() -> None:
    """A damaged snapshot is renamed and reported, and the previous one is loaded."""
    files = formatted(1)
    newer = recovered(files).write(MetadataImage(offset=4), 1, NOW, voters(1, 2))
    store = SnapshotStore(files, DIRECTORY)
    assert store.recover() == (MetadataImage(offset=4), voters(1, 2))
    assert store.ids == [newer, BOOTSTRAP]
    files.flip_bit(f"{DIRECTORY}/{newer.file_name}", 70, 1)
    store = SnapshotStore(files, DIRECTORY)
    assert store.recover() == (MetadataImage(), voters(1))
    assert (store.ids, len(store.damaged)) == ([BOOTSTRAP], 1)
    assert f"{newer.file_name}.corrupt" in files.listdir(DIRECTORY)


def test_only_the_newest_snapshots_are_kept() -> None:
    """An older one than the newest is not added."""
    files = formatted(1)
    store = recovered(files)
    for offset in range(1, 5):
        assert store.add(store.write(MetadataImage(offset=offset), 1, NOW, NO_VOTERS))
        store.delete_old()
    assert [snapshot.end_offset for snapshot in store.ids] == [5, 4]
    assert not store.add(SnapshotId(4, 0))
    assert store.has_all_kept
    assert len([name for name in files.listdir(DIRECTORY) if name.endswith(".checkpoint")]) == SNAPSHOTS_KEPT


def test_chunk_at_any_position_of_the_snapshot() -> None:
    """From any position within the snapshot; others raise."""
    files = formatted(1)
    store = recovered(files)
    size, data = store.chunk(BOOTSTRAP, 10, 20)
    content = files.content(f"{DIRECTORY}/{BOOTSTRAP.file_name}")
    assert (size, data) == (len(content), content[10:30])
    for position in (-1, size):
        with pytest.raises(PositionOutOfRangeError):
            store.chunk(BOOTSTRAP, position, 20)
    with pytest.raises(SnapshotNotFoundError):
        store.chunk(SnapshotId(5, 0), 0, 20)


def test_partly_fetched_snapshot_is_deleted_at_start() -> None:
    """The process died during the fetch."""
    files = formatted(1)
    recovered(files).receive(SnapshotId(9, 1), 0, b"half")
    assert [name for name in files.listdir(DIRECTORY) if name.endswith(".part")]
    after = files.restart()
    recovered(after)
    assert not [name for name in after.listdir(DIRECTORY) if name.endswith(".part")]


def test_damaged_fetched_snapshot_is_deleted() -> None:
    """The snapshots before it stay."""
    files = formatted(1)
    store = recovered(files)
    store.receive(SnapshotId(9, 1), 0, b"garbage")
    with pytest.raises(CorruptMessageError):
        store.install(SnapshotId(9, 1))
    assert store.damaged_downloads == 1
    assert store.ids == [BOOTSTRAP]
    assert not [name for name in files.listdir(DIRECTORY) if name.endswith(".part")]
