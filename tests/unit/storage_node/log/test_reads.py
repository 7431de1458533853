"""Reads never return damaged bytes, whatever bit of the disk flips."""

import pytest
from fake_files import FakeFiles
from headrace.protocol.errors import CorruptMessageError
from headrace.storage_node.log.log import Log
from log_rig import FOLDER, append, batch, keys_of, open_log, read_all, split

LOG_FILE = f"{FOLDER}/00000000000000000000.log"
BATCHES = 4


def closed_log() -> tuple[FakeFiles, list[bytes]]:
    """A disk after a clean shutdown, and the batches on it."""
    files = FakeFiles()
    log = open_log(files, index_interval_bytes=100)
    for number in range(BATCHES):
        append(log, batch(2, tag=str(number), size=30), epoch=number // 2)
    batches = read_all(log)
    log.close()
    return files, batches


def reopened(files: FakeFiles) -> Log:
    return open_log(files, was_clean=True, recovery_point=2 * BATCHES, index_interval_bytes=100)


def found_from(log: Log, offset: int) -> list[bytes] | None:
    try:
        return split(
            b"".join(map(bytes, log.reader.read(offset, 10**6, upto_offset=log.log_end_offset).data))
        )
    except CorruptMessageError:
        return None


@pytest.mark.parametrize("bit", range(8))
def test_batch_with_flipped_bit_is_never_served(bit: int) -> None:
    """Scenario 27. Each bit of the second batch, header fields outside the CRC included: from every offset a
    read returns the right batches or an error."""
    disk, batches = closed_log()
    start = len(batches[0])
    for byte in range(start, start + len(batches[1])):
        files = disk.restart()
        files.flip_bit(LOG_FILE, byte, bit)
        log = reopened(files)
        for offset in range(0, 2 * BATCHES, 2):
            found = found_from(log, offset) if offset <= log.log_end_offset else None
            if found is not None:
                assert found == batches[offset // 2 : offset // 2 + len(found)], f"byte {byte}, from {offset}"
                assert batches[1] not in found, f"byte {byte}: a damaged batch was served"


@pytest.mark.parametrize("bit", [0, 6])
def test_flipped_bit_is_noticed_in_open_log(files: FakeFiles, bit: int, log: Log) -> None:
    """Scenario 27 without a restart: the newest batches are found without the index."""
    for number in range(BATCHES):
        append(log, batch(2, tag=str(number)))
    batches = read_all(log)
    start = len(batches[0])
    for byte in range(start, start + len(batches[1])):
        files.flip_bit(LOG_FILE, byte, bit)
        with pytest.raises(CorruptMessageError):
            read_all(log, offset=2)
        with pytest.raises(CorruptMessageError):
            read_all(log)
        assert len(read_all(log, offset=4)) == 2, "intact batches are still served"
        files.flip_bit(LOG_FILE, byte, bit)
    assert read_all(log) == batches


def test_recovery_truncates_at_flipped_bit() -> None:
    """Only the leader epoch has no checksum, and it never changes a record."""
    disk, batches = closed_log()
    start = len(batches[0])
    for byte in range(start, start + len(batches[1])):
        files = disk.restart()
        files.flip_bit(LOG_FILE, byte, 3)
        found = read_all(open_log(files, index_interval_bytes=100))
        if 12 <= byte - start < 16:
            assert keys_of(found) == keys_of(batches)[: len(keys_of(found))]
        else:
            assert found == batches[:1]


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_damaged_index_misleads_no_read(suffix: str) -> None:
    """Each bit of an index file: it is rebuilt, or its entries are checked against the batches."""
    disk, batches = closed_log()
    path = LOG_FILE.replace(".log", suffix)
    for byte in range(len(disk.content(path))):
        for bit in range(8):
            files = disk.restart()
            files.flip_bit(path, byte, bit)
            log = reopened(files)
            for offset in range(2 * BATCHES):
                assert read_all(log, offset=offset) == batches[offset // 2 :]


def test_read_window_keeps_first_batches_when_it_moves() -> None:
    """Far from an index entry, the window has to move while batches are being collected."""
    log = open_log(FakeFiles(), index_interval_bytes=10**6)
    for number in range(100):
        append(log, batch(1, tag=str(number), size=1000))
    batches = read_all(log)
    log.roll(0)
    for segment in log.segments:
        if segment.is_sealed:
            segment.release_indexes()
    for offset in range(0, 100, 7):
        for max_bytes in (500, 5000, 20_000, 60_000):
            found = split(b"".join(map(bytes, log.reader.read(offset, max_bytes, upto_offset=100).data)))
            assert found == batches[offset : offset + len(found)]
            following = batches[offset + len(found) : offset + len(found) + 1]
            assert found
            assert not following or sum(map(len, [*found, *following])) > max_bytes


def test_truncated_sealed_segment_is_noticed(files: FakeFiles) -> None:
    """Below the recovery point: its offsets are missing, not skipped."""
    log = open_log(files, segment_bytes=400)
    for number in range(8):
        append(log, batch(1, tag=str(number)))
    log.close()
    size = files.size(LOG_FILE)
    file = files.open(LOG_FILE)
    file.truncate(size - len(read_batch(files)))
    log = open_log(files, was_clean=True, recovery_point=8, segment_bytes=400)
    with pytest.raises(CorruptMessageError):
        read_all(log)


def read_batch(files: FakeFiles) -> bytes:
    return split(files.content(LOG_FILE))[-1]
