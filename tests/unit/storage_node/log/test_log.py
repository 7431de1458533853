"""The log of one partition: append, read, roll, flush, truncate, close."""

import pytest
from fake_files import FakeFiles
from headrace.protocol.errors import CorruptMessageError, InvalidRecordError, KafkaStorageError
from headrace.protocol.records.codec import active_codec
from headrace.protocol.records.header import read_batch_header
from headrace.runtime.files.file_layer import FileGoneError
from headrace.storage_node.log.log import Log
from headrace.storage_node.log.roll_rules import jitter_ms
from log_rig import FOLDER, NOW, TP, append, batch, check_dense, config, keys_of, open_log, read_all


def test_append_assigns_dense_offsets_and_keeps_bytes(log: Log) -> None:
    """Only base offset and leader epoch change; the bytes from the CRC on are those of the producer."""
    sent = [batch(3, tag="a"), batch(1, tag="b"), batch(2, tag="c")]
    infos = [log.append_as_leader(data, leader_epoch=4, wall_ms=NOW) for data in sent]
    assert [(info.base_offset, info.last_offset, info.log_append_time_ms) for info in infos] == [
        (0, 2, -1),
        (3, 3, -1),
        (4, 5, -1),
    ]
    found = read_all(log)
    assert [data[17:] for data in found] == [data[17:] for data in sent]
    assert {read_batch_header(data).leader_epoch for data in found} == {4}
    assert keys_of(found) == [(0, b"a:0"), (1, b"a:1"), (2, b"a:2"), (3, b"b:0"), (4, b"c:0"), (5, b"c:1")]
    assert (log.log_end_offset, log.size_bytes, log.epochs.latest_epoch) == (6, sum(map(len, sent)), 4)


def test_append_is_one_write(files: FakeFiles, log: Log) -> None:
    """The hot path has one disk operation."""
    files.operations.clear()
    append(log, batch(5))
    append(log, memoryview(batch(5)))
    assert files.operations == [f"pwrite {FOLDER}/00000000000000000000.log"] * 2


def test_log_append_time_restamps_the_batch() -> None:
    """Attributes, max timestamp and CRC are rewritten; records then have the append time."""
    log = open_log(FakeFiles(), message_timestamp_type="LogAppendTime")
    info = log.append_as_leader(batch(2, timestamp=5), leader_epoch=0, wall_ms=NOW + 9)
    assert info.log_append_time_ms == NOW + 9
    (data,) = read_all(log)
    active_codec().check(data)
    assert [(record.timestamp, record.timestamp_type) for record in active_codec().decode(data)] == [
        (NOW + 9, 1)
    ] * 2
    assert log.reader.offset_for_timestamp(NOW + 9) == (0, NOW + 9, 0)


def test_wrong_max_timestamp_is_corrected() -> None:
    """The time index would skip the batch otherwise; Kafka's broker rewrites the field as well."""
    builder = active_codec().builder(max_bytes=1000)
    builder.append(NOW + 5, b"k", b"v")
    data = bytearray(builder.build())
    data[35:43] = NOW.to_bytes(8, "big")
    data[17:21] = _crc(data).to_bytes(4, "big")
    log = open_log(FakeFiles())
    append(log, bytes(data))
    assert read_batch_header(check_dense(log)[0]).max_timestamp == NOW + 5
    assert log.reader.offset_for_timestamp(NOW + 5) == (0, NOW + 5, 0)


def _crc(data: bytearray) -> int:
    from crc32c import crc32c

    return crc32c(memoryview(data)[21:])


@pytest.mark.parametrize(
    "keys",
    [
        {"segment_bytes": 400},
        {"segment_index_bytes": 36, "index_interval_bytes": 0, "step": 0},
        {"segment_index_bytes": 36, "index_interval_bytes": 0},
        {"segment_ms": 3},
    ],
    ids=["by size", "by full offset index", "by full time index", "by time"],
)
def test_active_segment_rolls(keys: dict[str, int]) -> None:
    """By each limit; offsets continue, and everything is read back."""
    step = keys.get("step", 1)
    log = open_log(FakeFiles(), **{name: value for name, value in keys.items() if name != "step"})
    for number in range(12):
        append(log, batch(1, tag=str(number), timestamp=NOW + number * step))
    assert 2 <= len(log.segments) < 12
    assert len(check_dense(log)) == 12


def test_segment_rolls_before_relative_offsets_overflow(log: Log) -> None:
    """A relative offset has 31 bits."""
    log.truncate_fully_and_start_at(0)
    append(log, batch(1))
    log.segments.active.next_offset = 2**31 - 1
    append(log, batch(1))
    assert len(log.segments) == 1
    append(log, batch(1))
    assert len(log.segments) == 2
    assert log.log_end_offset == 2**31 + 1


def test_segment_jitter_spreads_rolls() -> None:
    """A segment rolls up to segment.jitter.ms earlier, and equally after a restart."""
    log = open_log(FakeFiles(), segment_ms=1000, segment_jitter_ms=900)
    append(log, batch(1, timestamp=NOW))
    jitter = jitter_ms(log.segments.active, log.config, TP)
    assert 0 < jitter < 900
    append(log, batch(1, timestamp=NOW + 1000 - jitter))
    assert len(log.segments) == 1
    append(log, batch(1, timestamp=NOW + 1001 - jitter))
    assert len(log.segments) == 2


def test_roll_of_empty_segment_does_nothing(files: FakeFiles, log: Log) -> None:
    """Two rolls in a row must not use one file name."""
    log.roll(NOW)
    append(log, batch(1))
    log.roll(NOW)
    log.roll(NOW)
    assert len(log.segments) == 2
    assert [name for name in files.listdir(FOLDER) if name.endswith(".index")] == [
        "00000000000000000000.index"
    ]


def test_preallocated_segment_is_truncated_when_sealed(files: FakeFiles) -> None:
    """The zeros are not served; recovery removes them after a crash."""
    log = open_log(files, preallocate=True, segment_bytes=2000)
    append(log, batch(1, tag="a"))
    log.roll(NOW)
    append(log, batch(1, tag="b"))
    assert files.size(f"{FOLDER}/00000000000000000001.log") == 2000
    assert files.size(f"{FOLDER}/00000000000000000000.log") < 200
    killed = open_log(files.restart())
    assert keys_of(check_dense(killed)) == [(0, b"a:0"), (1, b"b:0")]
    log.close()
    assert files.size(f"{FOLDER}/00000000000000000001.log") < 200


@pytest.mark.parametrize("is_flushed", [True, False])
def test_clean_close_needs_no_recovery(files: FakeFiles, is_flushed: bool) -> None:
    """Indexes and epochs are on disk, so the next start reads no batch, even after a power loss."""
    log = open_log(files, index_interval_bytes=100)
    for number in range(20):
        append(log, batch(1, tag=str(number)), epoch=number // 10)
    if is_flushed:
        log.flush()
    log.close()
    log.close()
    again = open_log(files.power_loss("none"), was_clean=True, recovery_point=20, index_interval_bytes=100)
    assert (again.recovery.faults, again.recovery.scanned_bytes) == ([], 0)
    assert (again.log_end_offset, again.recovery_point, again.epochs.latest_epoch) == (20, 20, 1)
    assert len(check_dense(again)) == 20
    append(again, batch(1), epoch=1)
    assert len(check_dense(again)) == 21


@pytest.mark.parametrize("operation", ["pwrite", "fdatasync", "fsync_directory", "rename"])
def test_disk_error_refuses_later_appends(files: FakeFiles, operation: str, log: Log) -> None:
    """EIO once during append or flush; every later append and flush fails, though the disk would work."""
    append(log, batch(1))
    log.assign_leader_epoch(1)
    files.fail(operation)
    with pytest.raises(KafkaStorageError, match="EIO"):
        _append_and_flush(log)
    assert log.is_offline
    end_offset = log.log_end_offset
    for attempt in (lambda: append(log, batch(1)), lambda: log.reader.read(0, 100, upto_offset=1), log.flush):
        with pytest.raises(KafkaStorageError):
            attempt()
    assert log.log_end_offset == end_offset
    assert log.recovery_point == 0
    log.close()


def _append_and_flush(log: Log) -> None:
    append(log, batch(1))
    log.roll(NOW)
    log.flush()


def test_full_disk_refuses_appends_until_restart_with_room() -> None:
    """ENOSPC tears a write, which is not acknowledged; acknowledged batches are there after a restart."""
    files = FakeFiles(capacity_bytes=1000)
    log = open_log(files)
    with pytest.raises(KafkaStorageError, match="ENOSPC"):
        _fill(log)
    acked = log.log_end_offset
    after = files.restart()
    after.capacity_bytes = None
    again = open_log(after)
    assert again.log_end_offset == acked > 0
    assert again.recovery.truncated_bytes > 0
    append(again, batch(1))
    assert len(check_dense(again)) == acked + 1


def _fill(log: Log) -> None:
    for _ in range(100):
        append(log, batch(1))


def test_truncation_to_log_end_removes_empty_epoch(files: FakeFiles, log: Log) -> None:
    """It may contradict the leader's history, and the follower would truncate for ever (KAFKA-10706)."""
    append(log, batch(2), epoch=3)
    log.assign_leader_epoch(5)
    log.truncate_to(log.log_end_offset)
    assert (log.log_end_offset, log.epochs.latest_epoch) == (2, 3)
    log.flush()
    assert open_log(files.restart()).epochs.latest_epoch == 3


def test_truncation_to_a_batch_over_segments() -> None:
    """Everything from the batch with the offset on is removed, in the files too; appends continue there."""
    for offset in range(25):
        files = FakeFiles()
        log = open_log(files, segment_bytes=500, index_interval_bytes=100)
        for number in range(10):
            append(log, batch(2, tag=str(number)), epoch=number)
        log.flush()
        log.high_watermark = 20
        log.truncate_to(offset)
        end = min(offset - offset % 2, 20)
        assert (log.log_end_offset, log.recovery_point, log.high_watermark) == (end, end, end)
        assert log.epochs.latest_epoch == end // 2 - 1
        assert len(check_dense(log)) == end // 2
        append(log, batch(1, tag="new"), epoch=20)
        expected = check_dense(log)
        log.close()
        assert check_dense(open_log(files.restart(), was_clean=True, recovery_point=0)) == expected


def test_log_restarts_at_an_offset(files: FakeFiles, log: Log) -> None:
    """A follower too far behind restarts at the leader's log start offset."""
    append(log, batch(3))
    log.truncate_fully_and_start_at(100)
    assert (log.log_start_offset, log.log_end_offset, log.size_bytes) == (100, 100, 0)
    assert append(log, batch(1)) == 100
    assert keys_of(check_dense(open_log(files.restart()))) == [(100, b":0")]


def test_delete_segments_below_an_offset(files: FakeFiles) -> None:
    """Only whole segments below the offset, never the active one."""
    log = open_log(files, segment_bytes=300)
    for number in range(9):
        append(log, batch(1, tag=str(number)), epoch=number)
    second_base = log.segments._bases[1]
    assert log.delete_segments_below(second_base - 1) == 0
    assert log.delete_segments_below(second_base) == 1
    assert log.log_start_offset == second_base
    assert log.end_offset_for_epoch(0) == (0, second_base)
    log.delete_segments_below(10**6)
    assert len(log.segments) == 1
    assert check_dense(open_log(files.restart())) == check_dense(log)


def test_restarted_log_reuses_no_name_of_a_dropped_segment(files: FakeFiles) -> None:
    """Segments were dropped, and the next leader's log starts below them."""
    log = open_log(files, segment_bytes=300)
    for number in range(9):
        append(log, batch(1, tag=str(number)))
    log.drop_segments_below(10**6)
    log.truncate_fully_and_start_at(0)
    append(log, batch(1))
    log.flush()
    assert keys_of(check_dense(open_log(files.restart()))) == [(0, b":0")]


def test_follower_append() -> None:
    """Offsets and epochs do not change; a gap or a damaged batch is refused."""
    leader, follower = open_log(FakeFiles()), open_log(FakeFiles())
    for number in range(4):
        append(leader, batch(2, tag=str(number)), epoch=number)
    data = b"".join(bytes(piece) for piece in leader.reader.read(0, 10**6, upto_offset=8).data)
    follower.append_as_follower(data)
    assert read_all(follower) == read_all(leader)
    assert follower.end_offset_for_epoch(2) == leader.end_offset_for_epoch(2) == (2, 6)
    with pytest.raises(InvalidRecordError):
        follower.append_as_follower(data)
    damaged = bytearray(append_more(leader))
    with pytest.raises(CorruptMessageError):
        follower.append_as_follower(damaged[:-1])
    damaged[70] ^= 1
    with pytest.raises(CorruptMessageError):
        follower.append_as_follower(damaged)
    assert follower.log_end_offset == 8


def append_more(log: Log) -> bytes:
    append(log, batch(1), epoch=9)
    return bytes(log.reader.read(8, 10**6, upto_offset=9).data[0])


def test_deleted_log_leaves_no_file(files: FakeFiles, log: Log) -> None:
    """A reader meets a missing file, which is not a disk failure."""
    append(log, batch(1))
    log.delete()
    assert not files.exists(FOLDER)
    with pytest.raises(FileGoneError):
        log.reader.read(0, 100, upto_offset=1)
    assert not log.is_offline


def test_reconfigure_applies_from_the_next_append(log: Log) -> None:
    """The new limits hold for the next batch."""
    append(log, batch(1))
    log.reconfigure(config(segment_bytes=100))
    append(log, batch(1))
    assert len(log.segments) == 2
