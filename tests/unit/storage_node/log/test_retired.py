"""Files of retired segments stay for file.delete.delay.ms, and are then removed."""

import errno

from fake_files import FakeFiles
from log_rig import TP, append, batch, check_dense, detach, filled, keys_of, manager_of, split

FOLDER = "/d/t-0"


def logs_in(files: FakeFiles, ending: str = "") -> list[int]:
    """Base offsets of the .log files with this ending."""
    return [int(name[:20]) for name in files.listdir(FOLDER) if name.endswith(f".log{ending}")]


def test_flush_renames_files_and_delay_removes_them(files: FakeFiles) -> None:
    """The index files and the producer snapshot too; a removal is returned once."""
    manager = filled(files, file_delete_delay_ms=1_000)
    log = manager.logs[TP]
    log.advance_log_start_offset(2)
    assert log.drop_segments_below(2) == 2
    assert logs_in(files) == [0, 1, 2, 3, 4]
    log.flush()
    assert (logs_in(files), logs_in(files, ".deleted")) == ([2, 3, 4], [0, 1])
    assert sum(name.endswith(".deleted") for name in files.listdir(FOLDER)) == 7
    assert manager.retired.due(10_000) == []
    assert manager.retired.due(10_999) == []
    (removal,) = manager.retired.due(11_000)
    assert manager.retired.due(12_000) == []
    removal.run()
    assert not [name for name in files.listdir(FOLDER) if name.endswith(".deleted")]
    assert keys_of(check_dense(log))[0] == (2, b"2:0")


def test_read_of_retired_segment_finishes(files: FakeFiles) -> None:
    """Its file is open until it is removed."""
    manager = filled(files)
    log = manager.logs[TP]
    segment = log.segments.holding(1)
    log.advance_log_start_offset(3)
    log.drop_segments_below(3)
    log.flush()
    data = split(segment.file.pread(0, segment.file.size()))
    assert keys_of(data) == [(1, b"1:0")]
    assert segment.offset_index.lookup(1).position == 0, "its index is found under the new name"


def test_truncated_segments_are_retired_too(files: FakeFiles) -> None:
    """Large files are not removed on the owner's thread; a segment may get an old name again."""
    manager = filled(files, file_delete_delay_ms=0)
    log = manager.logs[TP]
    log.truncate_to(3)
    assert (logs_in(files), logs_in(files, ".deleted")) == ([0, 1, 2], [3, 4])
    append(log, batch(tag="new", size=200))
    log.truncate_fully_and_start_at(3)
    assert (logs_in(files), logs_in(files, ".deleted")) == ([3], [0, 1, 2, 3, 4])
    assert len(manager.retired) == 6
    for removal in manager.retired.due(0):
        removal.run()
    assert files.listdir(FOLDER).count("00000000000000000003.log") == 1
    assert logs_in(files, ".deleted") == []
    append(log, batch(tag="last"))
    assert keys_of(check_dense(log)) == [(3, b"last:0")]


def test_next_start_removes_retired_files() -> None:
    """After a crash and after a shutdown."""
    for is_clean in (False, True):
        files = FakeFiles()
        manager = filled(files)
        log = manager.logs[TP]
        log.advance_log_start_offset(2)
        log.drop_segments_below(2)
        log.flush()
        if is_clean:
            manager.shutdown()
        files = files.restart()
        again = manager_of(files).logs[TP]
        assert (again.log_start_offset, logs_in(files), logs_in(files, ".deleted")) == (2, [2, 3, 4], [])
        assert again.recovery.faults == []


def test_removal_is_bounded() -> None:
    """Queued work is not delayed by hundreds of large files."""
    manager = filled(FakeFiles(), file_delete_delay_ms=0)
    log = manager.logs[TP]
    manager.retired.add(log, list(log.segments) * 7)
    assert [len(removal.segments) for removal in manager.retired.due(0)] == [16, 16, 3]


def test_removal_in_a_deleted_folder(files: FakeFiles) -> None:
    """The topic was deleted: no file is left, and the disk has not failed."""
    manager = filled(files, file_delete_delay_ms=0)
    manager.logs[TP].truncate_fully_and_start_at(9)
    (removal,) = manager.retired.due(0)
    detach(manager, TP).delete()
    removal.run()
    assert manager.dirs.offline == {}


def test_disk_failure_during_removal_takes_dir_offline(files: FakeFiles) -> None:
    """The removal does not raise."""
    manager = filled(files, file_delete_delay_ms=0)
    manager.logs[TP].truncate_fully_and_start_at(9)
    files.fail("remove", ".deleted", errno.EIO)
    for removal in manager.retired.due(0):
        removal.run()
    assert list(manager.dirs.offline) == ["/d"]
