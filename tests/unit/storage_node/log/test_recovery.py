"""Opening a partition's folder in any state."""

import pytest
from fake_files import FakeFiles
from headrace.protocol.errors import KafkaStorageError
from headrace.storage_node.log.log import Log
from log_rig import FOLDER, NOW, append, batch, check_dense, keys_of, open_log, read_all

FIRST = f"{FOLDER}/00000000000000000000"
KEYS = {"segment_bytes": 400, "index_interval_bytes": 100}
COUNT = 12


def closed_disk() -> tuple[FakeFiles, list[bytes]]:
    """At least three segments, closed cleanly, and the batches on them."""
    files = FakeFiles()
    log = open_log(files, **KEYS)
    for number in range(COUNT):
        append(log, batch(1, tag=str(number), timestamp=NOW + number), epoch=number // 4)
    batches = read_all(log)
    assert len(log.segments) >= 3
    log.close()
    return files, batches


def test_tail_torn_at_every_byte(files: FakeFiles, log: Log) -> None:
    """Scenario 26: the log is truncated to the last whole batch."""
    for number in range(4):
        append(log, batch(2, tag=str(number)))
    batches = read_all(log)
    whole = files.content(f"{FIRST}.log")
    ends = [sum(map(len, batches[: number + 1])) for number in range(4)]
    for size in range(ends[1], ends[3] + 1):
        torn = files.restart()
        file = torn.open(f"{FIRST}.log")
        file.truncate(size)
        again = open_log(torn)
        kept = sum(1 for end in ends if end <= size)
        assert read_all(again) == batches[:kept]
        assert (again.log_end_offset, again.recovery.truncated_bytes) == (2 * kept, size - ends[kept - 1])
        append(again, batch(1, tag="new"))
        assert len(check_dense(again)) == kept + 1
        assert torn.content(f"{FIRST}.log")[: ends[kept - 1]] == whole[: ends[kept - 1]]


@pytest.mark.parametrize("was_clean", [True, False])
@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
@pytest.mark.parametrize("damage", ["missing", "empty", "odd", "zeros", "random", "longer"])
def test_damaged_index_files_are_rebuilt(damage: str, suffix: str, was_clean: bool) -> None:
    """Scenario 31. Missing, empty, truncated, zeroed, random, too long: reads and lookups by time are right,
    and the files are whole again."""
    files, batches = closed_disk()
    sound = {
        name: files.content(f"{FOLDER}/{name}") for name in files.listdir(FOLDER) if name.endswith(suffix)
    }
    for name, content in sound.items():
        path = f"{FOLDER}/{name}"
        if damage == "missing":
            files.remove(path)
        else:
            files.put(path, _damaged(damage, content))
    log = open_log(files, was_clean=was_clean, recovery_point=COUNT, **KEYS)
    assert check_dense(log) == batches
    for number in range(COUNT):
        assert log.reader.offset_for_timestamp(NOW + number) == (number, NOW + number, number // 4)
    log.close()
    again = {
        name: files.content(f"{FOLDER}/{name}") for name in files.listdir(FOLDER) if name.endswith(suffix)
    }
    if damage != "random":  # random bytes may look like entries; then reads check them, as above
        assert again == sound


def _damaged(damage: str, content: bytes) -> bytes:
    return {
        "empty": b"",
        "odd": content[:-3],
        "zeros": bytes(len(content)),
        "random": bytes(byte ^ 0xA5 for byte in content),
        "longer": content + b"\xff" * len(content),
    }[damage]


@pytest.mark.parametrize("content", [None, b"", b"garbage", b"0\n5\n", b"\0" * 40], ids=str)
@pytest.mark.parametrize("was_clean", [True, False])
def test_damaged_epoch_checkpoint_is_rebuilt(content: bytes | None, was_clean: bool) -> None:
    """Scenario 31: from the batches."""
    files, batches = closed_disk()
    path = f"{FOLDER}/leader-epoch-checkpoint"
    if content is None:
        files.remove(path)
    else:
        files.put(path, content)
    log = open_log(files, was_clean=was_clean, recovery_point=COUNT, **KEYS)
    assert [log.end_offset_for_epoch(epoch) for epoch in range(4)] == [(0, 4), (1, 8), (2, 12), (-1, -1)]
    assert check_dense(log) == batches


def test_hole_between_segments_ends_the_log() -> None:
    """Batches after the hole would be phantoms."""
    files, batches = closed_disk()
    path = f"{FIRST}.log"
    first = files.content(path)
    files.put(path, first[: len(batches[0])])
    log = open_log(files, **KEYS)
    assert read_all(log) == batches[:1]
    assert log.recovery.removed_segments >= 2
    assert len([name for name in files.listdir(FOLDER) if name.endswith(".log")]) == 1


def test_empty_segment_in_the_middle() -> None:
    """A roll created the file without filling it (KAFKA-13603); it has no indexes."""
    files, batches = closed_disk()
    files.put(f"{FOLDER}/{COUNT:020d}.log", b"")
    for was_clean in (True, False):
        log = open_log(files.restart(), was_clean=was_clean, recovery_point=COUNT, **KEYS)
        assert check_dense(log) == batches
        assert append(log, batch(1)) == COUNT


def test_files_of_interrupted_work_are_removed() -> None:
    """Temporary files, deleted and half-compacted segments, indexes without a log."""
    files, batches = closed_disk()
    for name in (
        "leader-epoch-checkpoint.tmp",
        f"{0:020d}.log.deleted",
        f"{0:020d}.log.cleaned",
        f"{99:020d}.index",
        f"{99:020d}.txnindex",
    ):
        files.put(f"{FOLDER}/{name}", b"x")
    files.put(f"{FOLDER}/notes.txt", b"another program's")
    log = open_log(files, was_clean=True, recovery_point=COUNT, **KEYS)
    assert check_dense(log) == batches
    left = files.listdir(FOLDER)
    assert not [name for name in left if name.endswith((".tmp", ".deleted", ".cleaned")) or "99" in name]
    assert "notes.txt" in left


def test_damaged_swap_file_fails_the_recovery() -> None:
    """It has the only copy of records: the log is not served, and the file stays."""
    files, _ = closed_disk()
    files.put(f"{FIRST}.log.swap", b"x")
    files.put(f"{FIRST}.log.deleted", b"y")
    with pytest.raises(KafkaStorageError, match="compaction"):
        open_log(files)
    assert files.exists(f"{FIRST}.log.deleted")


def test_log_that_ends_below_its_start_restarts_there() -> None:
    """Records were deleted up to the start offset; their offsets must not be assigned again."""
    files, _ = closed_disk()
    log = open_log(files, log_start_offset=50)
    assert (log.log_start_offset, log.log_end_offset, len(log.segments)) == (50, 50, 1)
    assert append(log, batch(1)) == 50
    assert keys_of(check_dense(open_log(files.restart(), log_start_offset=50))) == [(50, b":0")]


def test_missing_flushed_records_are_reported() -> None:
    """A disk lost flushed records: the log continues with the rest, and reports it."""
    files, batches = closed_disk()
    for was_clean in (True, False):
        log = open_log(files.restart(), was_clean=was_clean, recovery_point=COUNT + 5, **KEYS)
        assert check_dense(log) == batches
        assert log.recovery_point == COUNT
        assert f"flushed up to {COUNT + 5}" in log.recovery.faults[0]


def test_segments_below_the_recovery_point_are_not_read() -> None:
    """Damaged batches in them stay and fail their own reads."""
    files, batches = closed_disk()
    files.flip_bit(f"{FIRST}.log", 70, 0)
    log = open_log(files, recovery_point=COUNT, **KEYS)
    assert log.recovery.faults == []
    assert log.log_end_offset == COUNT
    assert read_all(log, offset=COUNT - 2) == batches[-2:]


def test_rebuilt_index_below_recovery_point_keeps_damaged_batch() -> None:
    """A missing index has the segment read; the batches around the damage must stay."""
    files, batches = closed_disk()
    size = files.size(f"{FIRST}.log")
    files.flip_bit(f"{FIRST}.log", len(batches[0]) + 70, 0)
    files.remove(f"{FIRST}.index")
    log = open_log(files, recovery_point=COUNT, was_clean=True, **KEYS)
    assert files.size(f"{FIRST}.log") == size
    assert len(log.recovery.faults) == 2
    assert log.reader.read(0, 1, upto_offset=COUNT).next_offset == 1
    assert read_all(log, offset=COUNT - 2) == batches[-2:]


def test_rebuilt_index_equals_the_lost_one() -> None:
    """Append and recovery add entries by the same rule."""
    files, _ = closed_disk()
    names = [name for name in files.listdir(FOLDER) if name.endswith("index")]
    sound = {name: files.content(f"{FOLDER}/{name}") for name in names}
    assert any(sound.values())
    for name in names:
        files.remove(f"{FOLDER}/{name}")
    open_log(files, **KEYS).close()
    assert {name: files.content(f"{FOLDER}/{name}") for name in names} == sound


def test_stale_index_files_are_not_trusted() -> None:
    """Index files of an earlier clean shutdown are on disk; then an append, a flush, and a roll whose new
    index files are not flushed when the process dies; the next process starts, and the power fails. The old
    files must not pass for the new ones."""
    files = FakeFiles()
    log = open_log(files)
    append(log, batch(1, timestamp=NOW))
    log.close()
    log = open_log(files, was_clean=True, recovery_point=1)
    append(log, batch(1, timestamp=NOW + 1))
    log.flush()
    log.roll(NOW)
    files = files.restart()
    killed = open_log(files, recovery_point=2)
    for after in (killed, open_log(files.power_loss("none"), recovery_point=2)):
        assert after.reader.offset_for_timestamp(NOW + 1) == (1, NOW + 1, 0)
        assert after.reader.max_timestamp_offset() == (1, NOW + 1, 0)
