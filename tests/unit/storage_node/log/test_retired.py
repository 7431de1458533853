"""Files of segments that have left their log stay for a while, under other names, and then go."""

from __future__ import annotations

import errno

from fake_files import FakeFiles
from headrace.storage_node.log import retired
from log_rig import TP, append, batch, check_dense, filled, keys_of, manager_of, split

FOLDER = "/d/t-0"


def logs_in(files: FakeFiles, ending: str = "") -> list[int]:
    """Base offsets of the .log files with this ending."""
    return [int(name[:20]) for name in files.listdir(FOLDER) if name.endswith(f".log{ending}")]


def test_files_lose_their_names_with_a_flush_and_go_after_the_delay() -> None:
    """The index files and the snapshot of producers too; what is due is handed out once."""
    files = FakeFiles()
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


def test_a_reader_of_a_segment_that_goes_ends_normally() -> None:
    """Its file is open until it is removed: the bytes are those of the log."""
    files = FakeFiles()
    manager = filled(files)
    log = manager.logs[TP]
    segment = log.segments.holding(1)
    log.advance_log_start_offset(3)
    log.drop_segments_below(3)
    log.flush()
    data = split(segment.file.pread(0, segment.file.size()))
    assert keys_of(data) == [(1, b"1:0")]
    assert segment.offset_index.lookup(1).position == 0, "its index is found under the new name"


def test_cut_logs_give_their_segments_away_in_the_same_way() -> None:
    """Big files are not removed where everybody waits; a segment may come back under an old name."""
    files = FakeFiles()
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


def test_what_is_left_at_the_end_goes_at_the_next_start() -> None:
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


def test_a_removal_takes_few_files_at_a_time(monkeypatch) -> None:
    """Bound: what waits behind it is not delayed by hundreds of large files."""
    monkeypatch.setattr(retired, "_SEGMENTS_PER_REMOVAL", 2)
    manager = filled(FakeFiles(), file_delete_delay_ms=0)
    log = manager.logs[TP]
    log.truncate_fully_and_start_at(9)
    assert [len(removal.segments) for removal in manager.retired.due(0)] == [2, 2, 1]


def test_a_folder_that_goes_meanwhile_takes_them_along() -> None:
    """The topic was deleted: nothing is left to be removed, and no disk is to blame."""
    files = FakeFiles()
    manager = filled(files, file_delete_delay_ms=0)
    manager.logs[TP].truncate_fully_and_start_at(9)
    (removal,) = manager.retired.due(0)
    manager.delete(TP)
    removal.run()
    assert manager.dirs.offline == {}


def test_a_disk_that_fails_at_it_goes_offline() -> None:
    """The error stays with the removal; the log dir is told."""
    files = FakeFiles()
    manager = filled(files, file_delete_delay_ms=0)
    manager.logs[TP].truncate_fully_and_start_at(9)
    files.fail("remove", ".deleted", errno.EIO)
    for removal in manager.retired.due(0):
        removal.run()
    assert list(manager.dirs.offline) == ["/d"]
