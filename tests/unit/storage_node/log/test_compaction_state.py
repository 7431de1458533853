"""A log with offset gaps, as compaction leaves them: append, read, truncation, recovery, and the difference
from a log that has lost batches."""

import pytest
from fake_files import FakeFiles
from headrace.protocol.errors import CorruptMessageError, InvalidRecordError
from headrace.protocol.records.header import assigned_prefix, read_batch_header
from headrace.storage_node.log.log import Log
from headrace.storage_node.log.tail_cache import Tail, TailCache
from log_rig import FOLDER, NOW, append, batch, check_dense, keys_of, open_log, read_all

FIRST = f"{FOLDER}/{0:020d}.log"
MARK = f"{FOLDER}/offset-gaps"
KEYS = {"segment_bytes": 500, "index_interval_bytes": 100}


def at(offset: int, count: int = 1, *, epoch: int = 0, timestamp: int | None = None) -> bytes:
    """A stored batch with this base offset; its timestamp is NOW + offset by default."""
    data = batch(count, tag=str(offset), timestamp=NOW + offset if timestamp is None else timestamp)
    return assigned_prefix(offset, read_batch_header(data).batch_length, epoch) + data[17:]


def gappy(files: FakeFiles, *offsets: int, **keys: object) -> Log:
    """A follower's log with a batch of two records at each of these offsets."""
    log = open_log(files, **{**KEYS, **keys})
    for offset in offsets:
        log.append_as_follower(at(offset, 2))
    return log


def bases(log: Log, offset: int = 0) -> list[int]:
    return [read_batch_header(data).base_offset for data in read_all(log, offset=offset)]


OFFSETS = (3, 5, 20, 22, 40, 47, 90, 1000, 1002)


def test_follower_appends_batches_after_a_gap() -> None:
    """The leader's log was compacted; a batch below the log end offset is refused."""
    log = gappy(FakeFiles(), *OFFSETS)
    assert log.log_end_offset == 1004
    assert bases(log) == list(OFFSETS)
    for offset in (1003, 1002, 0):
        with pytest.raises(InvalidRecordError):
            log.append_as_follower(at(offset, 2))
    log.append_as_follower(at(1004))
    assert bases(log, 1002) == [1002, 1004]


@pytest.mark.parametrize("mode", ["clean", "killed", "none", "all", 3])
def test_gaps_survive_restart_and_power_loss(files: FakeFiles, mode: str | int) -> None:
    """The same batches, reads and lookups by time after each kind of end."""
    log = gappy(files, *OFFSETS)
    assert len(log.segments) >= 3
    if mode == "clean":
        log.close()
        again = open_log(files.restart(), was_clean=True, recovery_point=1004, **KEYS)
        assert again.recovery.faults == []
    elif mode == "killed":
        again = open_log(files.restart(), **KEYS)
        assert again.recovery.faults == []
    else:
        log.flush()
        again = open_log(files.power_loss(mode), recovery_point=0, **KEYS)
    assert bases(again) == list(OFFSETS)
    assert again.log_end_offset == 1004
    for offset in OFFSETS:
        assert again.reader.offset_for_timestamp(NOW + offset) == (offset, NOW + offset, 0)
    size = len(read_all(again, offset=22)[0])
    assert (again.reader.bytes_between(21, 47), again.reader.bytes_between(24, 40)) == (3 * size, 0)
    again.append_as_follower(at(2000))
    assert bases(again, 1003) == [1002, 2000]


def test_gap_mark_is_durable_before_the_first_gap() -> None:
    """A crash or power loss in each operation of the append leaves a readable log."""
    probe = FakeFiles()
    log = gappy(probe, 0)
    before = len(probe.operations)
    log.append_as_follower(at(5))
    log.flush()
    assert probe.exists(MARK)
    for crash_at in range(before, len(probe.operations)):
        files = FakeFiles()
        files.crash_at = crash_at
        log = gappy(files, 0)
        try:
            log.append_as_follower(at(5))
            log.flush()
        except BaseException:  # noqa: BLE001 - the fake's death is one
            pass
        for after in (files.restart(), files.power_loss("none"), files.power_loss("all")):
            again = open_log(after, **KEYS)
            assert bases(again) in ([], [0], [0, 5])
            assert again.recovery.faults == []


def test_gap_in_unmarked_log_is_damage(files: FakeFiles) -> None:
    """A damaged base offset in a log that was never compacted: recovery ends the log there, reads fail."""
    log = open_log(files, **KEYS)
    for number in range(2):
        append(log, batch(1, tag=str(number)))
    size = len(read_all(log)[0])
    files.flip_bit(FIRST, size + 7, 1)  # 1 becomes 3
    append(log, batch(3))
    for offset in (0, 1):
        with pytest.raises(CorruptMessageError):
            log.reader.read(offset, 1 << 20, upto_offset=5)
    again = open_log(files.restart(), **KEYS)
    assert (again.log_end_offset, len(again.recovery.faults)) == (1, 1)
    files.put(MARK, b"")
    assert open_log(files.restart(), **KEYS).log_end_offset == 4


@pytest.mark.parametrize("is_marked", [True, False])
def test_hole_between_segments_is_a_loss(files: FakeFiles, is_marked: bool) -> None:
    """Segments are dense also after compaction."""
    log = gappy(files, *(OFFSETS if is_marked else range(0, 24, 2)))
    first = log.segments[0]
    kept = bases(log)[:2]
    files.put(FIRST, files.content(FIRST)[: 2 * len(at(0, 2))])
    again = open_log(files.restart(), **KEYS)
    assert bases(again) == kept
    assert again.log_end_offset == kept[-1] + 2 < first.next_offset
    assert "the next starts at" in again.recovery.faults[0]


def test_hole_left_by_kafkas_cleaner_is_no_loss(files: FakeFiles) -> None:
    """Kafka's compacted segments may end before the next one starts; below the recovery point that is
    accepted."""
    log = gappy(files, *OFFSETS)
    second = log.segments[1].base_offset
    log.close()
    files.put(FIRST, files.content(FIRST)[: 2 * len(at(0, 2))])
    for was_clean, point in ((True, 1004), (False, 1004), (False, second)):
        again = open_log(files.restart(), was_clean=was_clean, recovery_point=point, **KEYS)
        kept = [base for base in OFFSETS if base in OFFSETS[:2] or base >= second]
        assert bases(again) == kept
        assert bases(again, 12) == kept[2:]
        assert (
            read_batch_header(again.reader.read_one_run(12, 1, upto_offset=1004).data).base_offset == kept[2]
        )


def test_truncation_into_a_gap() -> None:
    """The log ends after the last batch below the offset; new batches may fill the gap."""
    for offset in (4, 21, 30, 47, 48, 95, 999, 1003):
        files = FakeFiles()
        log = gappy(files, *OFFSETS)
        log.truncate_to(offset)
        kept = [base for base in OFFSETS if base + 2 <= offset]
        assert bases(log) == kept
        assert log.log_end_offset == (kept[-1] + 2 if kept else 0)
        log.append_as_follower(at(offset, epoch=1))
        assert bases(open_log(files.restart(), **KEYS)) == [*kept, offset]


def test_gap_beyond_31_bits_is_refused() -> None:
    """A relative offset has 31 bits; headrace's cleaner leaves no larger gap."""
    log = gappy(FakeFiles(), 0)
    with pytest.raises(InvalidRecordError):
        log.append_as_follower(at(2 + 2**31))
    log.append_as_follower(at(2**31))
    assert len(log.segments) == 2
    assert bases(log) == [0, 2**31]


def test_compacted_topic_needs_no_gap_mark(files: FakeFiles) -> None:
    """Logs taken over from Kafka are not marked."""
    log = gappy(files, 0, 10)
    log.close()
    files.remove(MARK)
    keys = {"was_clean": True, "recovery_point": 12}
    with pytest.raises(CorruptMessageError):
        bases(open_log(files.restart(), **keys, **KEYS))
    assert bases(open_log(files.restart(), **keys, **KEYS, cleanup_policy=("compact",))) == [0, 10]
    log = open_log(files.restart(), **keys, **KEYS, cleaner_offset=0)
    assert bases(log) == [0, 10]
    assert keys_of(read_all(log))[0] == (0, b"0:0")


def test_leader_appends_are_dense() -> None:
    """Only compaction leaves gaps."""
    log = open_log(FakeFiles(), **KEYS)
    for _ in range(10):
        append(log, batch(3))
    assert len(check_dense(log)) == 10
    assert not log.compaction.has_gaps


@pytest.mark.parametrize("suffix", ["memory", "files", "cold"])
def test_read_from_a_gap_starts_at_the_next_batch(files: FakeFiles, suffix: str) -> None:
    """From the tail cache, from the page cache and from the disk."""
    log = open_log(files, **KEYS)
    if suffix == "memory":
        log.reader.tail = Tail(TailCache(1 << 20, 1 << 20))
    for offset in OFFSETS:
        log.append_as_follower(at(offset, 2))
    for asked in range(1004):
        expected = next(base for base in OFFSETS if base + 2 > asked)
        if suffix == "cold":
            found = log.reader.read_one_run(asked, 1, upto_offset=1004)
            data = [found.data]
        else:
            cached = log.reader.read_cached(asked, 1, upto_offset=1004)
            assert cached is not None
            data = cached.data
            assert cached.next_offset == expected + 2
        assert read_batch_header(data[0]).base_offset == expected
    assert bases(log, 21) == [20, 22, 40, 47, 90, 1000, 1002]


def test_read_up_to_an_offset_in_a_gap() -> None:
    """A high watermark may be in a gap; the read needs no disk."""
    log = gappy(FakeFiles(), *OFFSETS)
    for limit in (23, 24, 30, 40, 41):
        found = log.reader.read(20, 1 << 20, upto_offset=limit)
        assert found.next_offset == (24 if limit > 23 else 22)
        cached = log.reader.read_cached(24, 1 << 20, upto_offset=limit)
        assert cached is not None
        assert (cached.data, cached.next_offset) == ([], 24)
