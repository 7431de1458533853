"""One segment: append, seal, load, recover, and untrusted index files."""

import pytest
from fake_files import FakeFiles
from headrace.protocol.records.header import assigned_prefix, read_batch_header
from headrace.storage_node.log.leader_epochs import LeaderEpochs
from headrace.storage_node.log.segment import Segment
from log_rig import NOW, batch, open_log

INTERVAL = 100
LOG, INDEX, TIMES = (f"/d/{0:020d}{suffix}" for suffix in (".log", ".index", ".timeindex"))


def written(files: FakeFiles, batches: int = 10) -> Segment:
    """A segment with that many batches of two records, a second apart, about 130 bytes each."""
    files.mkdir("/d")
    segment = Segment.create(files, "/d", 0, created_ms=NOW)
    for number in range(batches):
        data = batch(2, timestamp=NOW + 1_000 * number)
        header = read_batch_header(data)
        data = assigned_prefix(2 * number, header.batch_length, 0) + data[17:]
        segment.append([data], read_batch_header(data), 2 * number, 2 * number + 1, INTERVAL)
    return segment


def reopened(files: FakeFiles) -> Segment:
    return Segment(files, "/d", 0, files.open(LOG), NOW)


def test_sealed_segment_is_loaded(files: FakeFiles) -> None:
    """Indexes, end offset and largest timestamp, without reading the batches."""
    segment = written(files)
    segment.seal()
    again = reopened(files)
    assert again.load(INTERVAL, LeaderEpochs()) is None
    assert (again.next_offset, again.size_bytes) == (20, segment.size_bytes)
    assert again.offset_index.entries() == segment.offset_index.entries()
    assert again.time_index.entries() == segment.time_index.entries()
    assert (again.largest_timestamp_ms, again.first_timestamp_ms) == (NOW + 9_001, NOW + 1)
    sealed = reopened(files)
    assert sealed.load_sealed(INTERVAL, 20) is None
    assert sealed.largest_timestamp_ms == NOW + 9_001


def test_recovered_segment_equals_the_lost_one(files: FakeFiles) -> None:
    """The same indexes, from the batches alone."""
    segment = written(files)
    again = reopened(files)
    assert again.recover(INTERVAL) is None
    assert again.offset_index.entries() == segment.offset_index.entries()
    assert again.time_index.entries() == segment.time_index.entries()


def test_empty_segment_needs_no_index_files(files: FakeFiles) -> None:
    """It was just created, or closed before its first batch."""
    written(files, batches=0)
    again = reopened(files)
    assert again.load(INTERVAL, LeaderEpochs()) is None
    assert again.next_offset == 0


@pytest.mark.parametrize(
    ("path", "content", "why"),
    [
        (INDEX, b"", "empty"),
        (INDEX, b"\0" * 7, "multiple"),
        (INDEX, b"\0" * 16, "out of bounds"),
        (INDEX, b"\0\0\0\1" * 4 + b"\0\0\0\1\0\0\0\1", "does not rise"),
        (INDEX, b"\0\0\0\1\x7f\xff\xff\xff", "out of bounds"),
        (INDEX, b"\0\0\0\1\0\0\0\1" * 100_000, "for a log of"),
        (TIMES, b"", "empty"),
        (TIMES, b"\0" * 13, "multiple"),
        (TIMES, b"\xff" * 12, "out of bounds"),
        (TIMES, b"\0" * 12 * 100_000, "for a log of"),
    ],
)
def test_damaged_indexes_are_not_loaded(files: FakeFiles, path: str, content: bytes, why: str) -> None:
    """Torn, zeroed, damaged, or large enough to fill the memory."""
    written(files).seal()
    files.put(path, content)
    assert why in str(reopened(files).load(INTERVAL, LeaderEpochs()))
    assert why in str(reopened(files).load_sealed(INTERVAL, 20))
    files.remove(path)
    assert "missing" in str(reopened(files).load(INTERVAL, LeaderEpochs()))


def test_recovery_truncates_at_the_first_fault(files: FakeFiles) -> None:
    """A flipped bit in the fifth batch: four are kept."""
    segment = written(files)
    position = segment.position_of(8)
    files.flip_bit(LOG, position + 70, 3)
    again = reopened(files)
    assert "CRC" in str(again.recover(INTERVAL))
    assert (again.next_offset, again.size_bytes) == (8, position)
    again.cut()
    assert files.size(LOG) == position
    assert reopened(files).recover(INTERVAL) is None


def test_position_of_every_offset(files: FakeFiles) -> None:
    """From the newest batch starts, and from the index when those are released."""
    segment = written(files)
    positions = [segment.position_of(offset) for offset in range(20)]
    assert positions[::2] == positions[1::2]
    assert sorted(set(positions)) == positions[::2]
    assert segment.position_of(20) == segment.size_bytes
    segment.seal()
    segment.release_indexes()
    assert [segment.position_of(offset) for offset in range(20)] == positions


def test_remove_deletes_the_log_file_last(files: FakeFiles) -> None:
    """A crash leaves a segment without indexes, never indexes without a segment."""
    segment = written(files)
    segment.seal()
    before = len(files.operations)
    segment.remove()
    assert files.operations[before:] == [f"remove {TIMES}", f"remove {INDEX}", f"remove {LOG}"]
    assert files.listdir("/d") == []


@pytest.mark.parametrize("is_flushed_first", [True, False])
def test_recovery_point_waits_for_index_files_of_sealed_segment(
    files: FakeFiles, is_flushed_first: bool
) -> None:
    """With durability=fsync all batches are synced when the segment is sealed: the next flush must sync the
    new index files before the recovery point passes them."""
    log = open_log(files, index_interval_bytes=0)
    for number in range(5):
        log.append_as_leader(batch(timestamp=NOW + number), leader_epoch=0, wall_ms=NOW)
    if is_flushed_first:
        log.flush()
    log.roll(NOW)
    before = len(files.operations)
    log.flush()
    synced = [operation for operation in files.operations[before:] if operation.startswith("fdatasync")]
    assert any(operation.endswith(".index") for operation in synced)
    assert any(operation.endswith(".timeindex") for operation in synced)
    assert log.recovery_point == 5
    before = len(files.operations)
    log.flush()
    assert files.operations[before:] == [], "once is enough"


def test_segment_sealed_during_a_flush_is_flushed_again(files: FakeFiles) -> None:
    """That flush does not include the index files."""
    log = open_log(files, index_interval_bytes=0)
    log.append_as_leader(batch(3), leader_epoch=0, wall_ms=NOW)
    flush = log.start_flush()
    assert flush is not None
    log.roll(NOW)
    flush.sync()
    log.finish_flush(flush)
    before = len(files.operations)
    log.flush()
    assert any(".timeindex" in operation for operation in files.operations[before:])


def test_lookups_by_time_release_indexes() -> None:
    """Lookups in many segments must not leave all their indexes in memory."""
    log = open_log(FakeFiles(), segment_bytes=300, index_interval_bytes=0)
    for number in range(60):
        log.append_as_leader(batch(2, timestamp=NOW + 1_000 * number), leader_epoch=0, wall_ms=NOW)
    assert len(log.segments) > 15
    for number in range(60):
        hit = log.reader.offset_for_timestamp(NOW + 1_000 * number)
        assert hit is not None
        assert hit[0] == 2 * number
    loaded = [each for each in log.segments.sealed if each.can_look_up(each.base_offset)]
    assert len(loaded) <= 4
