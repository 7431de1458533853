"""A log start offset is in the checkpoint before it takes effect."""

import pytest
from fake_files import FakeFiles
from headrace.protocol.errors import OffsetOutOfRangeError
from headrace.storage_node.log import names
from headrace.storage_node.log.checkpoints import parse_offsets
from headrace.storage_node.log.log import Log
from log_rig import NOW, TP, append, batch, filled, keys_of, manager_of, open_log, read_all


def stored(files: FakeFiles) -> int | None:
    """The start offset in the checkpoint after a power loss."""
    path = f"/d/{names.LOG_START_OFFSETS}"
    left = files.power_loss("none")
    return parse_offsets(left.content(path)).get(TP) if left.exists(path) else None


def test_pending_start_takes_effect_when_written(files: FakeFiles) -> None:
    """Readers see the old start offset until then."""
    manager = filled(files)
    log = manager.logs[TP]
    assert log.request_start_offset(3)
    assert not log.request_start_offset(3)
    assert not log.request_start_offset(2)
    assert log.log_start_offset == 0
    (task,) = manager.checkpoints.tasks(only_starts=True)
    assert (task.pending_starts, task.is_written) == ([(log, 3)], False)
    task.run()
    assert task.is_written
    assert stored(files) == 3
    assert log.log_start_offset == 0, "its owner moves it"
    log.advance_log_start_offset(3)
    assert manager.checkpoints.tasks(only_starts=True) == []
    with pytest.raises(OffsetOutOfRangeError):
        log.request_start_offset(6)


def test_checkpoint_has_the_start_of_dropped_segments(files: FakeFiles) -> None:
    """Until the flush has ended, their files could come back."""
    manager = filled(files)
    log = manager.logs[TP]
    log.advance_log_start_offset(3)
    log.drop_segments_below(3)
    manager.checkpoint()
    assert stored(files) == 3
    log.flush()
    manager.checkpoint()
    assert stored(files) == 3


def test_restarted_log_keeps_its_start_after_power_loss(files: FakeFiles) -> None:
    """The names of all its segments may be lost."""
    manager = filled(files)
    manager.logs[TP].truncate_fully_and_start_at(9)
    again = manager_of(files.power_loss("none")).logs[TP]
    assert (again.log_start_offset, again.log_end_offset) == (9, 9)


def test_failed_checkpoint_moves_no_start_offset(files: FakeFiles) -> None:
    """The disk is offline; the content of the checkpoint is unknown."""
    manager = filled(files)
    manager.logs[TP].request_start_offset(3)
    (task,) = manager.checkpoints.tasks(only_starts=True)
    files.fail("rename", names.LOG_START_OFFSETS)
    task.run()
    assert not task.is_written
    assert list(manager.dirs.offline) == ["/d"]


def test_pending_start_survives_a_truncation_above_it(log: Log) -> None:
    """It is never above the log end offset."""
    for _ in range(6):
        append(log, batch())
    log.request_start_offset(4)
    log.truncate_to(5)
    assert (log.log_start_offset, log.start.pending_offset) == (0, 4)
    log.truncate_to(2)
    assert (log.log_start_offset, log.start.pending_offset) == (0, 2)
    log.truncate_fully_and_start_at(9)
    assert (log.log_start_offset, log.start.pending_offset) == (9, 9)


def test_log_may_start_inside_its_first_batch(files: FakeFiles) -> None:
    """Records were deleted up to the middle of a batch: a follower that starts there appends the whole
    batch."""
    leader = open_log(FakeFiles())
    append(leader, batch(3, tag="a"))
    append(leader, batch(4, tag="b"))
    first, second = read_all(leader)
    manager = manager_of(files)
    log = manager.create(TP, bytes(16), manager.defaults, is_new=True)
    log.truncate_fully_and_start_at(5)
    assert log.start.is_inside(second, log.log_end_offset)
    assert not log.start.is_inside(first, log.log_end_offset)
    damaged = bytearray(second)
    damaged[-1] ^= 1
    assert not log.start.is_inside(bytes(damaged), log.log_end_offset)
    assert not log.start.is_inside(second[:-1], log.log_end_offset)
    log.truncate_fully_and_start_at(3, log.log_start_offset)
    assert (log.log_start_offset, log.log_end_offset) == (5, 3)
    assert stored(files) == 5, "a crash now does not bring back what was deleted"
    log.append_as_follower(second)
    assert not log.start.is_inside(second, log.log_end_offset)
    assert (log.log_start_offset, log.log_end_offset) == (5, 7)
    assert keys_of(read_all(log))[2:] == [(5, b"b:2"), (6, b"b:3")]
    with pytest.raises(OffsetOutOfRangeError):
        log.reader.read(4, 100, upto_offset=7)
    again = manager_of(files.restart()).logs[TP]
    assert (again.log_start_offset, again.log_end_offset) == (5, 7)


def test_start_inside_a_batch_is_checkpointed_before_the_segment(files: FakeFiles, log: Log) -> None:
    """And again after it, with the other effects of a truncation."""
    log.truncate_fully_and_start_at(5)
    written: list[tuple[int, bool]] = []
    log.on_truncate = lambda cut: written.append(
        (cut.start.pending_offset, files.exists(f"{cut.folder.path}/00000000000000000003.log"))
    )
    log.truncate_fully_and_start_at(3, log.log_start_offset)
    assert written == [(5, False), (5, True)]


def test_retention_requests_a_start_and_rolls_an_expired_log() -> None:
    """Only committed batches expire; a repeated request changes nothing."""
    log = open_log(FakeFiles(), segment_bytes=300, retention_ms=1_000)
    for number in range(4):
        append(log, batch(size=200, timestamp=NOW + number))
    assert len(log.segments) == 4
    assert not log.expire(NOW + 2_000)
    log.high_watermark = 3
    assert log.expire(NOW + 2_000)
    assert not log.expire(NOW + 2_000)
    assert (log.start.pending_offset, log.log_start_offset, len(log.segments)) == (3, 0, 4)
    log.high_watermark = 4
    assert log.expire(NOW + 2_000)
    assert not log.expire(NOW + 2_000)
    assert (log.start.pending_offset, log.log_start_offset, len(log.segments)) == (4, 0, 5)
    log.advance_log_start_offset(4)
    assert log.drop_segments_below(4) == 4
    assert append(log, batch()) == 4
