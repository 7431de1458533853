"""Opening a partition's folder in whatever state it was left."""

from __future__ import annotations

import pytest
from fake_files import FakeFiles
from headrace.protocol.errors import KafkaStorageError
from log_rig import FOLDER, NOW, append, batch, check_dense, keys_of, open_log, read_all

FIRST = f"{FOLDER}/00000000000000000000"
KEYS = {"segment_bytes": 400, "index_interval_bytes": 100}
COUNT = 12


def closed_disk() -> tuple[FakeFiles, list[bytes]]:
    """Three segments or more, closed in order; and the batches on them."""
    files = FakeFiles()
    log = open_log(files, **KEYS)
    for number in range(COUNT):
        append(log, batch(1, tag=str(number), timestamp=NOW + number), epoch=number // 4)
    batches = read_all(log)
    assert len(log.segments) >= 3
    log.close()
    return files, batches


def test_the_last_two_batches_torn_at_every_byte() -> None:
    """Scenario 26: a torn tail is cut back to the last whole batch, at whichever byte it ends."""
    files = FakeFiles()
    log = open_log(files)
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
def test_index_files_in_any_state_are_rebuilt(damage: str, suffix: str, was_clean: bool) -> None:
    """Scenario 31. Missing, empty, cut, zeroed, random, overlong: reads and time lookups are right, files
    whole again."""
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
def test_a_missing_or_damaged_epoch_file_is_rebuilt(content: bytes | None, was_clean: bool) -> None:
    """Scenario 31: the batches know their epochs."""
    files, batches = closed_disk()
    path = f"{FOLDER}/leader-epoch-checkpoint"
    if content is None:
        files.remove(path)
    else:
        files.put(path, content)
    log = open_log(files, was_clean=was_clean, recovery_point=COUNT, **KEYS)
    assert [log.end_offset_for_epoch(epoch) for epoch in range(4)] == [(0, 4), (1, 8), (2, 12), (-1, -1)]
    assert check_dense(log) == batches


def test_a_hole_between_segments_ends_the_log() -> None:
    """A segment whose tail was lost is the last one: what lies behind the hole would be a phantom."""
    files, batches = closed_disk()
    path = f"{FIRST}.log"
    first = files.content(path)
    files.put(path, first[: len(batches[0])])
    log = open_log(files, **KEYS)
    assert read_all(log) == batches[:1]
    assert log.recovery.removed_segments >= 2
    assert len([name for name in files.listdir(FOLDER) if name.endswith(".log")]) == 1


def test_an_empty_segment_in_the_middle_is_no_end_of_the_world() -> None:
    """A roll whose file was made but not filled (KAFKA-13603): empty, without indexes."""
    files, batches = closed_disk()
    files.put(f"{FOLDER}/{COUNT:020d}.log", b"")
    for was_clean in (True, False):
        log = open_log(files.restart(), was_clean=was_clean, recovery_point=COUNT, **KEYS)
        assert check_dense(log) == batches
        assert append(log, batch(1)) == COUNT


def test_what_interrupted_work_left_is_removed() -> None:
    """Temporary files, deleted and half-cleaned segments, indexes without a log."""
    files, batches = closed_disk()
    for name in (
        "leader-epoch-checkpoint.tmp",
        f"{0:020d}.log.deleted",
        f"{0:020d}.log.cleaned",
        f"{99:020d}.index",
        f"{99:020d}.txnindex",
    ):
        files.put(f"{FOLDER}/{name}", b"x")
    files.put(f"{FOLDER}/notes.txt", b"somebody's")
    log = open_log(files, was_clean=True, recovery_point=COUNT, **KEYS)
    assert check_dense(log) == batches
    left = files.listdir(FOLDER)
    assert not [name for name in left if name.endswith((".tmp", ".deleted", ".cleaned")) or "99" in name]
    assert "notes.txt" in left


def test_an_unfinished_compaction_is_refused_and_left_alone() -> None:
    """Its swap files hold the only copy of records: better not to serve than to lose them."""
    files, _ = closed_disk()
    files.put(f"{FIRST}.log.swap", b"x")
    files.put(f"{FIRST}.log.deleted", b"y")
    with pytest.raises(KafkaStorageError, match="compaction"):
        open_log(files)
    assert files.exists(f"{FIRST}.log.deleted")


def test_a_log_that_ends_below_its_start_offset_starts_over_there() -> None:
    """Records were deleted up to the start offset; their offsets must not be given out again."""
    files, _ = closed_disk()
    log = open_log(files, log_start_offset=50)
    assert (log.log_start_offset, log.log_end_offset, len(log.segments)) == (50, 50, 1)
    assert append(log, batch(1)) == 50
    assert keys_of(check_dense(open_log(files.restart(), log_start_offset=50))) == [(50, b":0")]


def test_missing_flushed_records_are_reported() -> None:
    """A disk that lost what it acknowledged: the log goes on with what is there, and says so."""
    files, batches = closed_disk()
    for was_clean in (True, False):
        log = open_log(files.restart(), was_clean=was_clean, recovery_point=COUNT + 5, **KEYS)
        assert check_dense(log) == batches
        assert log.recovery_point == COUNT
        assert f"flushed up to {COUNT + 5}" in log.recovery.faults[0]


def test_segments_below_the_recovery_point_are_not_read() -> None:
    """Damage there was acknowledged and flushed: it stays, fails its own reads, and costs nothing else."""
    files, batches = closed_disk()
    files.flip_bit(f"{FIRST}.log", 70, 0)
    log = open_log(files, recovery_point=COUNT, **KEYS)
    assert log.recovery.faults == []
    assert log.log_end_offset == COUNT
    assert read_all(log, offset=COUNT - 2) == batches[-2:]


def test_damage_below_the_recovery_point_survives_a_rebuild_of_the_index() -> None:
    """A missing index has the segment read; the damaged batch must not take its neighbours along."""
    files, batches = closed_disk()
    size = files.size(f"{FIRST}.log")
    files.flip_bit(f"{FIRST}.log", len(batches[0]) + 70, 0)
    files.remove(f"{FIRST}.index")
    log = open_log(files, recovery_point=COUNT, was_clean=True, **KEYS)
    assert files.size(f"{FIRST}.log") == size
    assert len(log.recovery.faults) == 2
    assert log.reader.read(0, 1, upto_offset=COUNT).next_offset == 1
    assert read_all(log, offset=COUNT - 2) == batches[-2:]


def test_a_rebuilt_index_equals_the_lost_one() -> None:
    """Append and recovery place their entries by the same rule."""
    files, _ = closed_disk()
    names = [name for name in files.listdir(FOLDER) if name.endswith("index")]
    sound = {name: files.content(f"{FOLDER}/{name}") for name in names}
    assert any(sound.values())
    for name in names:
        files.remove(f"{FOLDER}/{name}")
    open_log(files, **KEYS).close()
    assert {name: files.content(f"{FOLDER}/{name}") for name in names} == sound


def test_indexes_sealed_after_the_flush_are_not_believed() -> None:
    """Index files of an earlier clean end are on the disk; then an append, a flush, and a roll whose new
    index files are not flushed when the process dies; the next process starts, and the power fails. The old
    ones must not pass for the new."""
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
