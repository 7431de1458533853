"""One compaction: which records stay, and what must be on disk before any is removed."""

import pytest
from cleaner_rig import Kept, clean, cleaning, records
from fake_files import FakeFiles
from headrace.protocol.errors import CorruptMessageError
from headrace.protocol.records.codec import active_codec
from headrace.protocol.records.control import EndTransaction, encode_control
from headrace.protocol.records.header import assigned_prefix, read_batch_header
from headrace.storage_node.log import names
from headrace.storage_node.log.cleaner.work import CleaningAbortedError
from headrace.storage_node.log.log import Log
from headrace.storage_node.log.transaction_index import parse_transaction_index
from log_rig import FOLDER, NOW, open_log, read_all

KEYS = {"segment_bytes": 400, "index_interval_bytes": 0, "cleanup_policy": ("compact",)}
DAY = 86_400_000
PRODUCER = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0}


def put(log: Log, *pairs: tuple[bytes, bytes | None], timestamp: int = NOW, epoch: int = 0) -> None:
    """One batch with these records."""
    builder = active_codec().builder(max_bytes=1 << 20)
    for key, value in pairs:
        builder.append(timestamp, key, value)
    log.append_as_leader(builder.build(), leader_epoch=epoch, wall_ms=timestamp)


def store(log: Log, *pairs: tuple[bytes, bytes | None], epoch: int = 0, **settings: object) -> None:
    """One batch as a follower gets it, with whatever settings."""
    builder = active_codec().builder(max_bytes=1 << 20, **settings)  # type: ignore[arg-type]
    for key, value in pairs:
        builder.append(NOW, key, value)
    data = builder.build()
    prefix = assigned_prefix(log.log_end_offset, read_batch_header(data).batch_length, epoch)
    log.append_as_follower(prefix + data[17:])


def mark(log: Log, *, is_commit: bool, producer_id: int = 7, epoch: int = 0) -> None:
    """The end of a transaction."""
    key, value = encode_control(EndTransaction(is_commit, 0))
    facts = {"producer_id": producer_id, "producer_epoch": 0, "is_transactional": True, "is_control": True}
    store(log, (key, value), epoch=epoch, **facts)


def commit_and_roll(log: Log) -> None:
    log.high_watermark = log.log_end_offset
    log.roll(NOW)


def values(log: Log) -> dict[bytes | None, bytes | None]:
    return {record.key: record.value for record in records(log)}


def filled(files: FakeFiles, rounds: int = 6, keys: int = 4) -> Log:
    """Each key once per round, one batch per record; the last round lies in the active segment."""
    log = open_log(files, **KEYS)
    for number in range(rounds):
        if number == rounds - 1:
            commit_and_roll(log)
        for key in range(keys):
            put(log, (b"k%d" % key, b"v%d" % number))
    log.high_watermark = log.log_end_offset
    return log


def test_last_value_of_each_key_keeps_its_offset() -> None:
    """Each key is left once below the end of the pass, and the active segment is unchanged."""
    log = filled(FakeFiles())
    before, size = records(log), log.size_bytes
    job = clean(log)
    assert job.end_offset == log.compaction.cleaner_offset == 20
    assert records(log) == before[16:]
    assert log.size_bytes < size / 2
    assert job.stats.removed_records == 16
    assert (job.stats.read_bytes, job.stats.map_utilization > 0) == (job.stats.indexed_bytes, True)


def test_small_offset_map_needs_several_passes() -> None:
    """Each pass ends where the map is full; no key is lost."""
    log = filled(FakeFiles(), rounds=5, keys=30)
    wanted, passes = values(log), 0
    while (log.compaction.cleaner_offset or 0) < 120:
        clean(log, map_bytes=8 * 24)
        passes += 1
        assert values(log) == wanted
    assert passes > 10
    below = [record.key for record in records(log) if record.offset < (log.compaction.cleaner_offset or 0)]
    assert len(below) == len(set(below)) == 30


def test_newer_records_are_synced_before_older_ones_are_removed() -> None:
    """An unflushed log is compacted and the power fails after any swap: each key has its last value."""
    for mode in ("none", "all", 1, 2, 3):
        files = FakeFiles()
        log = filled(files, rounds=3)
        log.flush()
        end = log.log_end_offset
        for number in range(3, 7):
            for key in range(4):
                put(log, (b"k%d" % key, b"v%d" % number))
        commit_and_roll(log)
        job, groups = cleaning(log), 0
        job.index()
        while job.rewrite():
            job.install()
            log.delete_retired(job.settle())
            again = open_log(files.power_loss(mode), recovery_point=end, **KEYS)
            assert values(again) == {b"k%d" % key: b"v6" for key in range(4)}
            groups += 1
        assert groups > 1


@pytest.mark.parametrize("is_transactional", [False, True], ids=["records", "aborted"])
def test_compaction_keeps_start_of_each_leader_epoch(*, is_transactional: bool) -> None:
    """All records of an epoch and the first of the next are removed. A leader with a copy that knew fewer
    epochs would make a replica of the middle epoch truncate committed records, or keep uncommitted ones."""
    log = open_log(FakeFiles(), **KEYS | {"segment_bytes": 10_000})
    put(log, (b"stays", b"v"), (b"k", b"v0"))
    put(log, (b"k", b"v1"))
    if is_transactional:
        store(log, (b"k", b"v2"), epoch=3, is_transactional=True, **PRODUCER)
        mark(log, is_commit=False, epoch=4)
    else:
        put(log, (b"k", b"v2"), epoch=3)
        put(log, (b"k", b"v3"), epoch=4)
    for number in range(4, 8):
        put(log, (b"k", b"v%d" % number), epoch=6)
    commit_and_roll(log)
    put(log, (b"new", b"v"), epoch=6)
    for wall_ms in (NOW, NOW + 2 * DAY, NOW + 4 * DAY):  # what stays does so however often it is cleaned
        clean(log, wall_ms=wall_ms)
        copy = open_log(FakeFiles(), **KEYS | {"segment_bytes": 10_000})
        for data in read_all(log):
            copy.append_as_follower(data)
        assert [copy.end_offset_for_epoch(epoch) for epoch in range(7)] == [
            log.end_offset_for_epoch(epoch) for epoch in range(7)
        ]
    assert log.end_offset_for_epoch(3) == (3, 4)
    markers = 1 if is_transactional else 0
    assert sum(read_batch_header(data).record_count for data in read_all(log)) == 3 + markers


def test_compacted_segment_keeps_header_of_last_batch(files: FakeFiles) -> None:
    """Without it recovery would see a hole between segments, and end the log there."""
    log = filled(files)
    clean(log)
    for number in range(2):
        for key in range(4):
            put(log, (b"k%d" % key, b"w%d" % number))
        commit_and_roll(log)
    clean(log)
    found = records(log)
    headers = [read_batch_header(data) for data in read_all(log)]
    assert [header.base_offset for header in headers if header.record_count == 0]
    again = open_log(files.restart(), **KEYS)
    assert again.recovery.faults == []
    assert (records(again), again.log_end_offset) == (found, 32)
    for one, other in zip(again.segments, again.segments[1:], strict=False):
        assert one.next_offset == other.base_offset


def test_small_segments_are_merged() -> None:
    """The empty batches between them are removed."""
    log = filled(FakeFiles(), rounds=20)
    many = len(log.segments)
    clean(log)
    put(log, (b"other", b"1"))
    commit_and_roll(log)
    clean(log)
    assert len(log.segments) < many / 2
    assert sum(read_batch_header(data).record_count == 0 for data in read_all(log)) <= len(log.segments)


def test_uncleanable_offsets_do_not_change() -> None:
    """The active segment, uncommitted batches and batches younger than min.compaction.lag.ms stay as they
    are."""
    log = filled(FakeFiles(), rounds=8)
    log.high_watermark = 13
    last = next(segment for segment in log.segments if segment.next_offset > 13)
    before = [data for data in read_all(log) if read_batch_header(data).base_offset >= last.base_offset]
    job = clean(log)
    assert job.end_offset == last.base_offset
    assert read_all(log)[-len(before) :] == before
    log = open_log(FakeFiles(), **KEYS, min_compaction_lag_ms=100)
    for number in range(20):
        put(log, (b"k", b"%d" % number), timestamp=NOW + 10 * number)
    commit_and_roll(log)
    job = clean(log, wall_ms=NOW + 200)
    assert 0 < job.end_offset <= 11
    assert [record.offset for record in records(log)][-9:] == [*range(11, 20)]


def test_tombstones_stay_for_delete_retention_ms(files: FakeFiles) -> None:
    """The value is removed by the first compaction, the tombstone by one after the delete horizon."""
    log = open_log(files, **KEYS, delete_retention_ms=1_000)
    put(log, (b"a", b"1"))
    put(log, (b"a", None))
    put(log, (b"b", b"1"))
    commit_and_roll(log)
    clean(log, wall_ms=NOW)
    assert records(log) == [Kept(1, b"a", None), Kept(2, b"b", b"1")]
    for number, after_ms in enumerate((500, 999, 1_000)):
        put(log, (b"c%d" % number, b"1"))
        commit_and_roll(log)
        clean(log, wall_ms=NOW + after_ms)
        assert (b"a" in values(log)) is (after_ms < 1_000)


def test_aborted_compaction_leaves_no_file(files: FakeFiles) -> None:
    """It stops within one buffer; only older producer snapshots are removed, the newest one is enough."""
    log = filled(files, rounds=10)
    before, listed = read_all(log), files.listdir(FOLDER)
    job = cleaning(log, buffer_bytes=100)
    job.index()
    job.abort()
    with pytest.raises(CleaningAbortedError):
        job.rewrite()
    gone = {name for name in listed if name.endswith(names.SNAPSHOT)} - {f"{40 - 4:020d}.snapshot"}
    assert read_all(log) == before
    assert {*files.listdir(FOLDER)} == {*listed, names.OFFSET_GAPS} - gone
    job = cleaning(log)
    job.abort()
    with pytest.raises(CleaningAbortedError):
        job.index()


def test_damaged_batch_ends_compaction(files: FakeFiles) -> None:
    """The log does not change, and its partition is set aside."""
    log = filled(files)
    files.flip_bit(f"{FOLDER}/{0:020d}.log", 70, 0)
    with pytest.raises(CorruptMessageError):
        clean(log)
    assert not [name for name in files.listdir(FOLDER) if name.endswith((".cleaned", ".swap"))]


def test_truncated_segment_file_ends_compaction() -> None:
    """A file shorter than the segment is an error, not an endless loop."""
    for missing in (1, 40, 70):
        files = FakeFiles()
        log = filled(files)
        path = log.segments[0].path_of(names.LOG)
        files.put(path, files.content(path)[:-missing])
        with pytest.raises(CorruptMessageError):
            clean(log, buffer_bytes=100)


def test_full_disk_during_compaction(files: FakeFiles) -> None:
    """The copy does not fit: the dir goes offline without a DiskRoom, and recovery removes the copy."""
    log = filled(files)
    wanted = records(log)
    job = cleaning(log)
    job.index()
    files.capacity_bytes = files.used_bytes() + 50
    with pytest.raises(Exception, match="ENOSPC"):
        job.rewrite()
    assert log.is_offline
    assert records(open_log(files.restart(), **KEYS)) == wanted


# --- transactions ------------------------------------------------------------------------------------------


def aborted_log(files: FakeFiles) -> Log:
    """An aborted transaction of producer 7, a committed one of producer 8."""
    log = open_log(files, **KEYS, delete_retention_ms=1_000)
    put(log, (b"a", b"old"))
    store(log, (b"a", b"aborted"), is_transactional=True, **PRODUCER)
    store(log, (b"b", b"kept"), is_transactional=True, producer_id=8, producer_epoch=0, base_sequence=0)
    mark(log, is_commit=False)
    mark(log, is_commit=True, producer_id=8)
    return log


def test_aborted_data_is_removed_and_hides_no_older_value(files: FakeFiles) -> None:
    """The marker is removed when no data is left and the delete horizon has passed."""
    log = aborted_log(files)
    log.producers.states.expire(NOW)
    for number in range(5):
        put(log, (b"z%d" % number, b"1"))
    commit_and_roll(log)
    clean(log, wall_ms=NOW + 2 * DAY)
    found = {record.offset: record.value for record in records(log)}
    assert (found[0], found.get(1), found[2]) == (b"old", None, b"kept")
    assert {3, 4} <= found.keys(), "markers stay while there was data"
    index = f"{FOLDER}/{0:020d}.txnindex"
    assert [entry.producer_id for entry in parse_transaction_index(files.content(index))] == [7]
    for number, after in enumerate((2 * DAY + 10, 2 * DAY + 500, 2 * DAY + 1_010)):
        put(log, (b"y%d" % number, b"1"))
        commit_and_roll(log)
        clean(log, wall_ms=NOW + after)
        kept = {record.offset for record in records(log)}
        assert (3 in kept) is (after < 2 * DAY + 1_010)
    assert {2, 4} <= kept, "the committed one has its data still"
    assert not files.exists(index)
    assert all(segment.aborted is None for segment in log.segments)


def test_abort_marker_in_active_segment_counts_for_compaction() -> None:
    """The sealed segments are compacted already: the abort counts for them and for their transaction
    index."""
    log = open_log(FakeFiles(), **KEYS)
    put(log, (b"a", b"old"))
    store(log, (b"a", b"aborted"), is_transactional=True, **PRODUCER)
    commit_and_roll(log)
    mark(log, is_commit=False)
    log.high_watermark = log.log_end_offset
    clean(log)
    assert values(log)[b"a"] == b"old"
    assert log.reader.aborted_between(0, log.log_end_offset) == ((7, 1),)
    put(log, (b"z", b"1"))
    commit_and_roll(log)
    clean(log)
    assert values(log)[b"a"] == b"old"


def test_commit_after_abort_replaces_older_values() -> None:
    """The marker ends the aborted transaction for the offset map too."""
    log = open_log(FakeFiles(), **KEYS)
    put(log, (b"a", b"old"))
    store(log, (b"a", b"aborted"), is_transactional=True, **PRODUCER)
    mark(log, is_commit=False)
    store(log, (b"a", b"new"), is_transactional=True, **PRODUCER)
    mark(log, is_commit=True)
    commit_and_roll(log)
    clean(log)
    assert [record.value for record in records(log) if record.key == b"a"] == [b"new"]


def test_header_of_last_batch_of_each_producer_stays(files: FakeFiles) -> None:
    """It shows the last sequence; a producer expires after a day."""
    log = open_log(files, **KEYS)
    put(log, (b"a", b"0"))  # with it the leader epoch began
    store(log, (b"a", b"1"), **PRODUCER)
    store(log, (b"a", b"2"), producer_id=7, producer_epoch=0, base_sequence=1)
    for number in range(8):
        put(log, (b"a", b"%d" % number))
    commit_and_roll(log)
    clean(log)
    headers = [read_batch_header(data) for data in read_all(log)]
    assert [(h.base_offset, h.record_count, h.base_sequence) for h in headers if h.producer_id == 7] == [
        (2, 0, 1)
    ]
    put(log, (b"b", b"1"))
    commit_and_roll(log)
    log.producers.states.expire(NOW)
    clean(log, wall_ms=NOW + 2 * DAY)
    assert not [data for data in read_all(log) if read_batch_header(data).producer_id == 7]


def test_last_marker_of_producer_without_data_stays(files: FakeFiles) -> None:
    """With transaction version 2 the marker starts the next epoch: an older epoch must not be accepted
    again."""
    log = open_log(files, **KEYS, delete_retention_ms=0)
    put(log, (b"a", b"0"))  # with it the leader epoch began
    store(log, (b"a", b"1"), is_transactional=True, **PRODUCER)
    key, value = encode_control(EndTransaction(is_commit=True, coordinator_epoch=0))
    store(log, (key, value), producer_id=7, producer_epoch=1, is_transactional=True, is_control=True)
    for _ in range(3):
        put(log, (b"a", b"2"))
        commit_and_roll(log)
        clean(log, wall_ms=NOW + 2 * DAY)
    headers = [read_batch_header(data) for data in read_all(log)]
    assert [(h.base_offset, h.is_control, h.producer_epoch) for h in headers if h.producer_id == 7] == [
        (2, True, 1)
    ]
