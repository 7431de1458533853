"""The last five batches of a producer are known after every start, although a snapshot has one."""

from collections.abc import Callable

import pytest
from fake_files import FakeFiles
from headrace.protocol.errors import KafkaStorageError, OutOfOrderSequenceNumberError
from headrace.storage_node.log.log import Log
from headrace.storage_node.log.producer_recall import REACHES_BYTES
from log_rig import FOLDER, NOW, append, batch, open_log
from producer_oracle import check_producers, end, idempotent, transactional, verified

SEGMENT_BYTES = [1 << 20, 300]


def ended_in_order(fill: Callable[[Log], object], **keys: int) -> tuple[FakeFiles, Log]:
    """A log that was filled, closed, and opened again from the snapshot at its end; its disk."""
    files = FakeFiles()
    keys = {"segment_bytes": 1 << 20, "index_interval_bytes": 60, **keys}
    log = open_log(files, **keys)
    fill(log)
    log.close()
    found = files.restart()
    again = open_log(found, was_clean=True, recovery_point=log.log_end_offset, **keys)
    again.high_watermark = again.log_end_offset
    return found, again


def is_out_of_order(log: Log, data: bytes) -> bool:
    before = log.log_end_offset
    with pytest.raises(OutOfOrderSequenceNumberError):
        append(log, data)
    return log.log_end_offset == before


def seven_of_two(log: Log) -> None:
    """Two producers in turn."""
    for number in range(7):
        append(log, idempotent(9, 2 * number, 2))
        append(log, idempotent(8, number))


@pytest.mark.parametrize("segment_bytes", SEGMENT_BYTES)
def test_last_five_batches_are_known_after_clean_shutdown(segment_bytes: int) -> None:
    """The responses to all of them were lost: each is answered with its first offset."""
    _, log = ended_in_order(seven_of_two, segment_bytes=segment_bytes)
    end_offset = log.log_end_offset
    for number in range(2, 7):
        info = log.append_as_leader(idempotent(9, 2 * number, 2), leader_epoch=3, wall_ms=NOW)
        assert info == (3 * number, 3 * number + 1, -1, True)
        assert append(log, idempotent(8, number)) == 3 * number + 2
    assert is_out_of_order(log, idempotent(9, 2, 2))
    assert is_out_of_order(log, idempotent(8, 8))
    assert log.log_end_offset == end_offset
    check_producers(log)


def test_last_five_batches_are_known_after_crash(files: FakeFiles, log: Log) -> None:
    """The snapshot is that of the last roll, and the batches after it are replayed."""
    for number in range(4):
        append(log, idempotent(9, number))
    log.roll()
    append(log, idempotent(9, 4))
    log.flush()
    again = open_log(files.restart(), recovery_point=log.recovery_point)
    assert [append(again, idempotent(9, number)) for number in range(5)] == list(range(5))


def test_only_batches_of_the_newest_epoch_are_recalled() -> None:
    """Whatever sequences earlier epochs had."""

    def fill(log: Log) -> None:
        for number in range(3):
            append(log, idempotent(9, 5 + number))
        for number in range(2):
            append(log, idempotent(9, number, epoch=1))

    _, log = ended_in_order(fill)
    assert is_out_of_order(log, idempotent(9, 6, epoch=1))
    assert append(log, idempotent(9, 0, epoch=1)) == 3
    check_producers(log)


def test_recall_in_an_open_transaction() -> None:
    """Markers, and batches of other producers, in between do not count."""

    def fill(log: Log) -> None:
        verified(log, transactional(9, 0))
        end(log, 9, epoch=1)
        verified(log, transactional(9, 0, epoch=1))
        verified(log, transactional(8, 0))
        end(log, 8, epoch=1)
        append(log, transactional(9, 1, epoch=1))

    _, log = ended_in_order(fill)
    assert append(log, transactional(9, 0, epoch=1)) == 2
    check_producers(log)


def test_recall_reads_once_and_only_if_out_of_order() -> None:
    """A producer that continues its sequence costs no read; one that sends garbage costs one."""
    files, log = ended_in_order(seven_of_two)
    assert is_out_of_order(log, idempotent(9, 99))
    files.fail("pread", ".log")
    assert is_out_of_order(log, idempotent(9, 98))
    append(log, idempotent(8, 7))
    with pytest.raises(KafkaStorageError):
        append(log, idempotent(8, 9))


def test_recall_is_bounded() -> None:
    """A batch that is too far back is out of order, as before."""
    first_reach, reach = REACHES_BYTES

    def fill(log: Log) -> None:
        append(log, idempotent(9, 0))
        for _ in range(8):
            append(log, batch(1, size=reach // 8))
        append(log, idempotent(9, 1))
        append(log, batch(1, size=2 * first_reach))
        append(log, idempotent(9, 2))

    _, log = ended_in_order(fill, segment_bytes=1 << 24, max_message_bytes=1 << 21)
    assert append(log, idempotent(9, 1)) == 9
    assert is_out_of_order(log, idempotent(9, 0))


def test_damaged_batch_during_recall() -> None:
    """Earlier batches are not known; the append continues, and the fault is reported."""

    def fill(log: Log) -> None:
        for number in range(3):
            append(log, idempotent(9, number))

    files, log = ended_in_order(fill)
    path = f"{FOLDER}/{0:020d}.log"
    files.put(path, bytes(40) + files.content(path)[40:])
    assert is_out_of_order(log, idempotent(9, 0))
    assert append(log, idempotent(9, 3)) == 3
    assert any("are not known" in fault for fault in log.recovery.faults)
