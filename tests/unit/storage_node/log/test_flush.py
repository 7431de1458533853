"""A flush runs beside appends and reads on other threads."""

from __future__ import annotations

import threading
from pathlib import Path

from fake_files import FakeFiles
from headrace.protocol.errors import KafkaError
from headrace.protocol.records.header import read_batch_header
from headrace.runtime.files.files_io import OsFiles
from log_rig import FOLDER, NOW, append, batch, check_dense, open_log


def test_flush_syncs_folder_once() -> None:
    """Hundreds of logs are closed at a shutdown; nothing is lost with the power."""
    files = FakeFiles()
    log = open_log(files)
    append(log, batch(2))
    before = len(files.operations)
    log.close()
    assert files.operations[before:].count(f"fsync_directory {FOLDER}") == 1
    assert open_log(files.power_loss("none"), was_clean=True, recovery_point=2).log_end_offset == 2


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
