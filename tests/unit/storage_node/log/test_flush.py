"""A flush runs beside appends and reads on other threads."""

import threading
from pathlib import Path

from fake_files import FakeFiles
from headrace.protocol.errors import KafkaError
from headrace.protocol.records.header import read_batch_header
from headrace.runtime.files.files_io import OsFiles
from headrace.storage_node.log.log import Log
from log_rig import NOW, append, batch, check_dense, keys_of, open_log


def test_reads_and_flushes_on_threads_during_appends_and_rolls(tmp_path: Path) -> None:
    """Readers see whole batches below their end offset, in order, through rolls and released indexes
    (KAFKA-9835); flushes finish."""
    log = open_log(OsFiles(), f"{tmp_path}/t-0", segment_bytes=3000, index_interval_bytes=300)
    wrong: list[str] = []
    is_done = threading.Event()

    def follow() -> None:
        offset = 0
        while not (is_done.is_set() and offset >= log.log_end_offset):
            upto = log.log_end_offset
            if upto == offset:
                is_done.wait(0.001)  # leaves the interpreter to the owner
            try:
                found = log.reader.read(min(offset, upto), 5000, upto_offset=upto)
            except KafkaError as error:
                wrong.append(repr(error))
                return
            for data in found.data:
                at = 0
                while at < len(data):
                    header = read_batch_header(data, at)
                    if header.base_offset != offset or header.next_offset > upto:
                        wrong.append(f"{header.base_offset} at {offset}, up to {upto}")
                    offset, at = header.next_offset, at + header.size_bytes

    readers = [threading.Thread(target=follow) for _ in range(2)]
    for reader in readers:
        reader.start()
    for number in range(200):
        append(log, batch(2, tag=str(number), size=number % 90))
        if number % 50 == 0:
            flush = log.start_flush()
            assert flush is not None
            syncer = threading.Thread(target=flush.sync)
            syncer.start()
            append(log, batch(1))
            log.roll(NOW)
            syncer.join()
            log.finish_flush(flush)
    is_done.set()
    for reader in readers:
        reader.join()
    assert wrong == []
    log.flush()
    assert log.recovery_point == log.log_end_offset == 404
    assert len(check_dense(log)) == 204
    log.close()


def test_flushed_batches_survive_power_loss(files: FakeFiles) -> None:
    """Batches below the recovery point stay; those above it may be lost."""
    log = open_log(files, segment_bytes=300)
    for number in range(5):
        append(log, batch(1, tag=str(number)))
    assert log.recovery_point == 0
    log.flush()
    assert log.recovery_point == 5
    append(log, batch(1, tag="lost"))
    found = keys_of(check_dense(open_log(files.power_loss("none"))))
    assert found == [(number, f"{number}:0".encode()) for number in range(5)]


def test_flush_excludes_later_appends(files: FakeFiles, log: Log) -> None:
    """A flush covers the batches at its start; only one runs at a time."""
    append(log, batch(1))
    flush = log.start_flush()
    assert flush is not None
    assert log.start_flush() is None
    flush.sync()
    append(log, batch(1))
    log.roll(NOW)
    append(log, batch(1))
    log.finish_flush(flush)
    assert log.recovery_point == 1
    again = log.start_flush()
    assert again is not None
    again.sync()
    log.finish_flush(again)
    assert log.recovery_point == 3
    assert log.start_flush() is None
    assert open_log(files.power_loss("none")).log_end_offset == 3


def test_open_log_is_flushed_after_recovery(files: FakeFiles, log: Log) -> None:
    """After a kill the page cache has everything; what readers then see must not be lost with the power."""
    append(log, batch(1))
    killed = files.restart()
    assert open_log(killed).recovery_point == 1
    assert open_log(killed.power_loss("none")).log_end_offset == 1


def test_flush_retires_dropped_segments(files: FakeFiles) -> None:
    """Oldest first, on the flush's thread; a crash before or during it leaves a dense log."""
    log = open_log(files, segment_bytes=300)
    for number in range(24):
        append(log, batch(1, tag=str(number)))
    bases = [segment.base_offset for segment in log.segments]
    assert log.drop_segments_below(bases[4], 2) == 2
    assert log.drop_segments_below(bases[4]) == 2
    assert log.log_start_offset == log.segments.first_base_offset == bases[4]
    kept = keys_of(check_dense(log))
    again = open_log(files.restart(), segment_bytes=300, log_start_offset=bases[4])
    assert keys_of(check_dense(again)) == kept
    flush = log.start_flush()
    assert flush is not None
    flush.dropped.pop(0).remove()
    again = open_log(files.restart(), segment_bytes=300)
    assert check_dense(again)
    assert again.segments.first_base_offset == bases[1]
    flush.sync()
    log.finish_flush(flush)
    again = open_log(files.power_loss("all"), segment_bytes=300)
    assert again.segments.first_base_offset == bases[4]
    assert keys_of(check_dense(again)) == kept
