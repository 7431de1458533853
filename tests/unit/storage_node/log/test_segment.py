"""One segment: append, seal, load, recover, and the index files that must not be believed too easily."""

from __future__ import annotations

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


def test_what_is_sealed_is_loaded_as_it_was() -> None:
    """Indexes, end and largest timestamp, without reading the batches."""
    files = FakeFiles()
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


def test_a_recovered_segment_equals_the_one_that_was_lost() -> None:
    """The same indexes from the batches alone."""
    files = FakeFiles()
    segment = written(files)
    again = reopened(files)
    assert again.recover(INTERVAL) is None
    assert again.offset_index.entries() == segment.offset_index.entries()
    assert again.time_index.entries() == segment.time_index.entries()


def test_an_empty_segment_needs_no_index_files() -> None:
    """It was just made, or closed before its first batch: nothing is at fault."""
    files = FakeFiles()
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
def test_indexes_that_cannot_be_right_are_not_taken(path: str, content: bytes, why: str) -> None:
    """Torn, zeroed, rotten, or so large that reading them would fill the memory."""
    files = FakeFiles()
    written(files).seal()
    files.put(path, content)
    assert why in str(reopened(files).load(INTERVAL, LeaderEpochs()))
    assert why in str(reopened(files).load_sealed(INTERVAL, 20))
    files.remove(path)
    assert "missing" in str(reopened(files).load(INTERVAL, LeaderEpochs()))


def test_recovery_stops_at_the_first_fault_and_cut_removes_the_rest() -> None:
    """A flipped bit in the fifth batch: four are kept."""
    files = FakeFiles()
    segment = written(files)
    position = segment.position_of(8)
    files.flip_bit(LOG, position + 70, 3)
    again = reopened(files)
    assert "CRC" in str(again.recover(INTERVAL))
    assert (again.next_offset, again.size_bytes) == (8, position)
    again.cut()
    assert files.size(LOG) == position
    assert reopened(files).recover(INTERVAL) is None


def test_every_offset_is_found_where_it_lies() -> None:
    """By the tail in memory, and by the index once that is given back."""
    files = FakeFiles()
    segment = written(files)
    positions = [segment.position_of(offset) for offset in range(20)]
    assert positions[::2] == positions[1::2]
    assert sorted(set(positions)) == positions[::2]
    assert segment.position_of(20) == segment.size_bytes
    segment.seal()
    segment.release_indexes()
    assert [segment.position_of(offset) for offset in range(20)] == positions


def test_removing_takes_the_log_last() -> None:
    """A crash in between leaves a segment without indexes, never indexes without a segment."""
    files = FakeFiles()
    segment = written(files)
    segment.seal()
    before = len(files.operations)
    segment.remove()
    assert files.operations[before:] == [f"remove {TIMES}", f"remove {INDEX}", f"remove {LOG}"]
    assert files.listdir("/d") == []


@pytest.mark.parametrize("is_flushed_first", [True, False])
def test_the_recovery_point_waits_for_the_index_files_of_a_sealed_segment(is_flushed_first: bool) -> None:
    """All batches are synced already when the segment is sealed, as always with durability=fsync: the next
    flush must still bring the new index files to the disk before it moves the recovery point over them."""
    files = FakeFiles()
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


def test_a_segment_sealed_while_it_is_flushed_is_flushed_again() -> None:
    """The flush under way knows nothing of the index files."""
    files = FakeFiles()
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


def test_searches_by_time_give_the_indexes_back() -> None:
    """A client that asks for a time in each of many segments must not leave all their indexes in memory."""
    log = open_log(FakeFiles(), segment_bytes=300, index_interval_bytes=0)
    for number in range(60):
        log.append_as_leader(batch(2, timestamp=NOW + 1_000 * number), leader_epoch=0, wall_ms=NOW)
    assert len(log.segments) > 15
    for number in range(60):
        hit = log.reader.offset_for_timestamp(NOW + 1_000 * number)
        assert hit is not None
        assert hit[0] == 2 * number
    loaded = [segment for segment in log.segments if segment.is_sealed and segment._time_index is not None]
    assert len(loaded) <= 4
