"""Replacing several segments by one: a crash or power loss in any operation leaves either the old segments or
the new one."""

import pytest
from fake_files import Crash, FakeFiles
from headrace.protocol.records.header import read_batch_header
from headrace.storage_node.log import names
from headrace.storage_node.log.cleaner.swap import settle, stage
from headrace.storage_node.log.log import Log
from headrace.storage_node.log.segment import Segment
from headrace.storage_node.log.tail_cache import Tail, TailCache
from log_rig import FOLDER, NOW, append, batch, open_log, read_all

KEYS = {"segment_bytes": 200, "index_interval_bytes": 0}
COUNT = 12


def full_log(files: FakeFiles) -> Log:
    log = open_log(files, **KEYS)
    for number in range(COUNT):
        append(log, batch(1, tag=f"{number:x}", timestamp=NOW + number))
    log.flush()
    assert len(log.segments) >= 5
    return log


def cleaned(log: Log, old: list[Segment], *, has_transactions: bool) -> Segment:
    """A segment with every third of the batches of `old`, and the last, written as a cleaner does."""
    files, base = log.folder.files, old[0].base_offset
    file = files.open(f"{FOLDER}/{base:020d}.log{names.CLEANED}", create=True)
    file.truncate(0)
    new = Segment(files, FOLDER, base, file, NOW)
    new.ending = names.CLEANED
    end = old[-1].next_offset
    for data in read_all(log, offset=base):
        header = read_batch_header(data)
        if header.next_offset <= end and (header.base_offset % 3 == 0 or header.next_offset == end):
            new.append([data], header, header.base_offset, header.last_offset, 0)
    if has_transactions:
        files.open(new.path_of(names.TXN_INDEX), create=True).close()
    new.seal()
    for suffix in names.SEGMENT_SUFFIXES:
        if files.exists(new.path_of(suffix)):
            files.open(new.path_of(suffix)).fdatasync()
    return new


def swap(log: Log, first: int, count: int, *, has_transactions: bool = False) -> None:
    old = log.segments[first : first + count]
    if has_transactions:
        log.folder.files.open(old[0].path_of(names.TXN_INDEX), create=True).pwrite(0, [bytes(34)])
    log.compaction.mark_gaps()
    new = cleaned(log, old, has_transactions=has_transactions)
    stage(log.folder.files, new)
    log.replace_segments(old, new)
    settle(log.folder.files, old, new)
    log.delete_retired(old)


def bases(log: Log) -> list[int]:
    return [read_batch_header(data).base_offset for data in read_all(log)]


def check_files(files: FakeFiles, log: Log) -> None:
    """No file but those of the segments, each with its indexes, which are those of its batches."""
    found = {parsed for name in files.listdir(FOLDER) if (parsed := names.parse_segment_name(name))}
    logs = {base for base, suffix in found if suffix == names.LOG}
    assert logs == {segment.base_offset for segment in log.segments}
    assert {base for base, _ in found} == logs
    assert not [name for name in files.listdir(FOLDER) if name.endswith((".swap", ".cleaned", ".deleted"))]
    for segment in log.segments.sealed:
        fresh = Segment(
            log.folder.files,
            FOLDER,
            segment.base_offset,
            log.folder.files.open(segment.path_of(names.LOG)),
            NOW,
        )
        assert fresh.recover(0, has_gaps=True) is None
        assert fresh.offset_index.entries() == segment.offset_index.entries()
        assert fresh.next_offset == segment.next_offset


@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize("has_transactions", [True, False])
def test_uninterrupted_swap(files: FakeFiles, first: int, has_transactions: bool) -> None:
    """The log reads the same after every restart, and no other file is left."""
    log = full_log(files)
    swap(log, first, 3, has_transactions=has_transactions)
    kept = bases(log)
    assert len(kept) < COUNT
    check_files(files, log)
    again = open_log(files.restart(), recovery_point=COUNT, **KEYS)
    assert bases(again) == kept
    assert again.recovery.faults == []
    log.close()
    again = open_log(files.restart(), was_clean=True, recovery_point=COUNT, **KEYS)
    assert bases(again) == kept
    assert again.recovery.faults == []


@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize("mode", ["killed", "none", 1])
def test_crash_in_every_operation_leaves_old_or_new_segments(mode: str | int, first: int) -> None:
    """So does a crash in each operation of the recovery that follows."""
    probe = FakeFiles()
    log = full_log(probe)
    before, everything = len(probe.operations), bases(log)
    swap(log, first, 3, has_transactions=True)
    after, kept = len(probe.operations), bases(log)
    seen = set()
    for crash_at in range(before, after):
        files = FakeFiles()
        files.crash_at = crash_at
        log = full_log(files)
        with pytest.raises(Crash):
            swap(log, first, 3, has_transactions=True)
        found = files.restart() if mode == "killed" else files.power_loss(mode)
        for second in range(crash_at % 2, 10**6, 2):  # which is the same but for one crash, one operation on
            again = found.restart()
            again.crash_at = second
            try:
                open_log(again, recovery_point=COUNT, **KEYS)
            except Crash:
                pass
            else:
                break
            check(again.restart(), everything, kept)
            check(again.power_loss(mode if mode != "killed" else 7), everything, kept)
        seen.add(check(found, everything, kept))
    assert seen == {"old", "new"}


def check(files: FakeFiles, everything: list[int], kept: list[int]) -> str:
    log = open_log(files, recovery_point=COUNT, **KEYS)
    found = bases(log)
    assert found in (everything, kept)
    assert log.log_end_offset == COUNT
    check_files(files, log)
    for asked in range(COUNT):
        assert log.reader.offset_for_timestamp(NOW + asked) == next(
            ((base, NOW + base, 0) for base in found if base >= asked), None
        )
    index = f"{log.segments[0].path_of(names.TXN_INDEX)}"
    if found == kept and files.exists(index):
        assert files.content(index) == b"", "the index of another segment"
    return "old" if found == everything else "new"


def test_half_renamed_swap_of_kafka_is_undone(files: FakeFiles) -> None:
    """Kafka renames the `.log` before the indexes: while a `.cleaned` file is left, the old segments are
    valid."""
    log = full_log(files)
    everything, old = bases(log), log.segments[1:3]
    new = cleaned(log, old, has_transactions=False)
    path = new.path_of(names.LOG)
    files.rename(path, path.replace(names.CLEANED, names.SWAP))
    again = open_log(files.restart(), recovery_point=COUNT, **KEYS)
    assert bases(again) == everything


def test_read_of_replaced_segment_finishes(files: FakeFiles) -> None:
    """A read on another thread continues while the files are renamed; the index is loaded under its new
    name."""
    log = full_log(files)
    everything, old = read_all(log), log.segments[:3]
    log.compaction.mark_gaps()
    new = cleaned(log, old, has_transactions=False)
    stage(log.folder.files, new)
    log.replace_segments(old, new)
    settle(log.folder.files, old, new)
    for segment in old:
        segment.release_indexes()
        first = everything[segment.base_offset]
        assert segment.position_of(segment.base_offset) == 0
        assert segment.file.pread(0, len(first)) == first
    assert bases(log)[0] == 0
    log.delete_retired(old)
    assert bases(log)[-1] == COUNT - 1


def test_swap_evicts_compacted_batches_from_tail_cache(files: FakeFiles) -> None:
    """Otherwise readers would see removed records until a restart."""
    log = open_log(files, **KEYS)
    log.reader.tail = Tail(TailCache(1 << 20, 1 << 20))
    for number in range(COUNT):
        append(log, batch(1, tag=f"{number:x}"))
    end = log.segments[2].next_offset
    swap(log, 0, 3)
    found = log.reader.read_cached(1, 1, upto_offset=COUNT)
    assert found is not None
    assert read_batch_header(found.data[0]).base_offset == 3
    assert found.run is not None
    at_end = log.reader.read_cached(end, 1, upto_offset=COUNT)
    assert at_end is not None
    assert at_end.run is None
