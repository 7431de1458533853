"""What a node reports of its previous shutdown, and of logs that were truncated, removed or replaced
since."""

from collections.abc import Callable
from itertools import count

import pytest
from fake_files import Crash, FakeFiles
from headrace.protocol.model import TopicPartition
from headrace.storage_node.log.log import Log
from headrace.storage_node.log.log_manager import LogManager
from headrace.storage_node.log.losses import MAX_LOST, PreviousEnd, previous_end
from log_rig import NOW, TP, append, batch, config, open_log

ID = bytes(range(16))
OTHER = TopicPartition("u", 3)
EMPTY = TopicPartition("empty", 0)
SEGMENT = 500  # bytes: a few batches


def loaded(files: FakeFiles, *dirs: str) -> LogManager:
    """A manager over these dirs, "/a" unless said, with its logs."""
    numbers = count(1)
    manager = LogManager(
        files, dirs or ("/a",), defaults=config(), new_uuid=lambda: next(numbers).to_bytes(16, "big")
    )
    manager.open_dirs()
    manager.load(NOW)
    return manager


def ended_in_order(*dirs: str) -> FakeFiles:
    """A disk with three logs after a clean shutdown, one with several segments and one empty."""
    files = FakeFiles()
    manager = loaded(files, *dirs)
    for name in (TP, OTHER, EMPTY):
        manager.create(name, ID, config(segment_bytes=SEGMENT))
    for _ in range(20):
        append(manager.logs[TP], batch(1), epoch=2)
    append(manager.logs[OTHER], batch(3))
    assert len(manager.logs[TP].segments) > 3
    manager.shutdown(broker_epoch=5)
    return files.restart()


def segments(files: FakeFiles, name: TopicPartition) -> list[str]:
    return [f"/a/{name}/{each}" for each in files.listdir(f"/a/{name}") if each.endswith(".log")]


def remove_folder(files: FakeFiles, name: TopicPartition) -> None:
    for each in files.listdir(f"/a/{name}"):
        files.remove(f"/a/{name}/{each}")
    files.rmdir(f"/a/{name}")


def cut_the_last(files: FakeFiles) -> None:
    path = next(each for each in reversed(segments(files, TP)) if files.content(each))
    files.put(path, files.content(path)[:-1])


def empty_it(files: FakeFiles) -> None:
    for each in files.listdir(f"/a/{TP}"):
        if each != "partition.metadata":
            files.remove(f"/a/{TP}/{each}")


def put_older_checkpoint(files: FakeFiles) -> None:
    """The folder is a copy from elsewhere, with more in it than there was."""
    path = "/a/recovery-point-offset-checkpoint"
    files.put(path, files.content(path).replace(b"t 0 20", b"t 0 19"))


def cut_a_middle_one(files: FakeFiles) -> None:
    """Its index is for more than is left."""
    path = segments(files, TP)[1]
    files.put(path, files.content(path)[:100])
    files.remove(path.replace(".log", ".index"))


def test_clean_shutdown_without_losses() -> None:
    """The epoch of that process; also after a later process that was never registered."""
    files = ended_in_order()
    assert loaded(files).loader.previous_end == PreviousEnd(5)
    files = ended_in_order()
    loaded(files).shutdown(broker_epoch=-1)
    assert loaded(files.restart()).loader.previous_end == PreviousEnd(5)


@pytest.mark.parametrize(
    "harm",
    [
        cut_the_last,
        empty_it,
        put_older_checkpoint,
        cut_a_middle_one,
        lambda files: remove_folder(files, TP),
        lambda files: files.rename(f"/a/{TP}", f"/a/{TP}.old"),
        lambda files: files.remove(segments(files, TP)[0]),
        lambda files: files.remove(segments(files, TP)[-1]),
    ],
    ids=["cut", "emptied", "longer", "cut inside", "removed", "moved away", "first segment", "last segment"],
)
def test_changed_log_is_a_loss(harm: Callable[[FakeFiles], None]) -> None:
    """It was changed while no process ran: only this log is reported. A clean shutdown before it was reported
    has no epoch, because it would hide the loss."""
    files = ended_in_order()
    harm(files)
    manager = loaded(files)
    assert manager.loader.previous_end == PreviousEnd(5, (TP,))
    manager.shutdown(broker_epoch=-1)
    assert loaded(files.restart()).loader.previous_end.broker_epoch == -1


def test_missing_empty_log_is_no_loss() -> None:
    """Its folder is missing, and is created again."""
    files = ended_in_order()
    remove_folder(files, EMPTY)
    assert loaded(files).loader.previous_end == PreviousEnd(5)


def test_folder_without_checkpoint_entry_is_a_loss() -> None:
    """An operator has put it there, or its entry is missing."""
    files = ended_in_order()
    path = "/a/recovery-point-offset-checkpoint"
    content = files.content(path).replace(b"\n3\n", b"\n2\n").replace(b"u 3 3\n", b"")
    files.put(path, content)
    assert loaded(files).loader.previous_end == PreviousEnd(5, (OTHER,))


def test_deleted_records_are_no_loss() -> None:
    """DeleteRecords has moved the start offset, and segments were deleted."""
    files = ended_in_order()
    manager = loaded(files)
    log = manager.logs[TP]
    log.advance_log_start_offset(11)
    log.delete_segments_below(11)
    assert 0 < log.segments.first_base_offset < 11
    manager.shutdown(broker_epoch=6)
    manager = loaded(files.restart())
    assert manager.loader.previous_end == PreviousEnd(6)
    assert manager.logs[TP].log_start_offset == 11


def test_crash_during_deletion_is_no_loss() -> None:
    """The process dies in each operation of the flush that retires segments: the epochs were written
    before."""

    def deleting(files: FakeFiles) -> Log:
        log = open_log(files, segment_bytes=SEGMENT)
        for _ in range(20):
            append(log, batch(1), epoch=2)
        log.flush()
        log.drop_segments_below(log.log_end_offset)
        return log

    probe = FakeFiles()
    log = deleting(probe)
    begin = len(probe.operations)
    log.flush()
    assert any(each.startswith("remove") for each in probe.operations[begin:])
    for crash_at in range(begin, len(probe.operations)):
        files = FakeFiles()
        log = deleting(files)
        files.crash_at = crash_at
        with pytest.raises(Crash):
            log.flush()
        assert not open_log(files.restart(), segment_bytes=SEGMENT).recovery.has_loss


def test_crash_leaves_no_epoch() -> None:
    """Without the marker, losses cannot be seen."""
    files = ended_in_order()
    loaded(files).abandon()
    files = files.restart()
    cut_the_last(files)
    assert loaded(files).loader.previous_end == PreviousEnd()


def test_all_dirs_must_agree_on_the_epoch() -> None:
    """One of two dirs was replaced by an empty one, or fails."""
    files = ended_in_order("/a", "/b")
    assert loaded(files, "/a", "/b").loader.previous_end == PreviousEnd(5)
    files = ended_in_order("/a", "/b")
    assert loaded(files, "/a", "/c").loader.previous_end.broker_epoch == -1
    files = ended_in_order("/a", "/b")
    files.fail("pread", "/b/recovery-point")
    assert loaded(files, "/a", "/b").loader.previous_end.broker_epoch == -1


def test_too_many_losses_count_as_unclean() -> None:
    """A registration has a bound: then all logs count as lost."""
    dirs = loaded(ended_in_order()).dirs
    lost = [TopicPartition("t", number) for number in range(MAX_LOST + 1)]
    assert previous_end(dirs, lost[1:]) == PreviousEnd(5, tuple(lost[1:]))
    assert previous_end(dirs, lost) == PreviousEnd()
