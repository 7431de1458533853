"""Dumps of partition folders and log dirs: no fault in a sound one, and every contradiction found."""

import struct
from collections.abc import Callable

import pytest
from fake_files import FakeFiles
from headrace.protocol.model import TopicPartition
from headrace.storage_node.log.checkpoints import format_epochs, format_offsets
from headrace.storage_node.log.dump_folders import dump_path
from headrace.storage_node.log.leader_epochs import EpochEntry
from headrace.storage_node.log.log_manager import LogManager
from headrace.storage_node.log.producer_snapshot import ProducerState, format_producer_snapshot
from log_rig import NOW, append, batch, config

SECOND = "00000000000000000004"  # base offset of the second segment
FOLDER = "/d/t-0"


def a_dir() -> FakeFiles:
    """Two partitions, one with three segments, two epochs, a snapshot and an aborted transaction."""
    files = FakeFiles()
    manager = LogManager(files, ["/d"], defaults=config(), new_uuid=lambda: bytes(16))
    manager.open_dirs()
    manager.dirs.set_identity("c", 1)
    log = manager.create(TopicPartition("t", 0), bytes(range(16)), config(index_interval_bytes=0))
    for number in range(6):
        append(log, batch(2, timestamp=NOW + number), epoch=number // 3)
        if number % 2:
            log.roll(NOW)
    append(manager.create(TopicPartition("u", 1), bytes(16), config()), batch(1))
    log.high_watermark = 12
    log.advance_log_start_offset(1)
    manager.shutdown()
    producer = ProducerState(7, 0, 3, 7, 1, NOW, 0, -1)
    files.put(f"{FOLDER}/00000000000000000008.snapshot", format_producer_snapshot([producer]))
    files.put(f"{FOLDER}/{SECOND}.txnindex", struct.pack(">hqqqq", 0, 7, 4, 5, 6))
    files.put("/d/.lock", b"")
    files.put("/d/notes.txt", b"another program's")
    return files


def faults(files: FakeFiles, path: str = "/d", *, verify: bool = True) -> list[str]:
    return [
        f"{file}: {entry.text()}" for file, entry in dump_path(files, path, verify=verify) if entry.is_fault
    ]


def test_sound_dir_has_no_faults() -> None:
    """Every known file is shown, others are skipped."""
    files = a_dir()
    assert faults(files) == []
    shown = {path for path, _ in dump_path(files, "/d")}
    assert f"{FOLDER}/{SECOND}.log" in shown
    assert "/d/recovery-point-offset-checkpoint" in shown
    assert "/d/notes.txt" not in shown
    assert {path for path, _ in dump_path(files, f"{FOLDER}/{SECOND}.log")} == {f"{FOLDER}/{SECOND}.log"}
    assert all(path.startswith(FOLDER) for path, _ in dump_path(files, FOLDER))


def cut_first_segment_short(files: FakeFiles) -> None:
    files.put(f"{FOLDER}/00000000000000000000.log", files.content(f"{FOLDER}/{SECOND}.log"))


def lie(name: str, content: bytes) -> Callable[[FakeFiles], None]:
    return lambda files: files.put(name, content)


def remove(name: str) -> Callable[[FakeFiles], None]:
    return lambda files: files.remove(name)


EARLY = ProducerState(7, 0, 3, 9, 1, NOW, 0, -1)
LIES: dict[str, tuple[Callable[[FakeFiles], None], str]] = {
    "segments that overlap": (cut_first_segment_short, "the previous segment ends at 8"),
    "an index that is missing": (remove(f"{FOLDER}/{SECOND}.index"), "is missing"),
    "an index that lies": (lie(f"{FOLDER}/{SECOND}.index", struct.pack(">ii", 3, 5)), "no batch starts at 5"),
    "an index that falls": (
        lie(f"{FOLDER}/{SECOND}.index", struct.pack(">iiii", 3, 80, 1, 90)),
        "does not rise",
    ),
    "a time index that lies": (
        lie(f"{FOLDER}/{SECOND}.timeindex", struct.pack(">qi", NOW + 50, 3)),
        "the largest timestamp",
    ),
    "epochs that never were": (
        lie(f"{FOLDER}/leader-epoch-checkpoint", format_epochs((EpochEntry(0, 0),))),
        "has epoch 1, not 0",
    ),
    "an epoch behind the end": (
        lie(
            f"{FOLDER}/leader-epoch-checkpoint",
            format_epochs((EpochEntry(0, 0), EpochEntry(1, 6), EpochEntry(2, 99))),
        ),
        "epoch 2 starts at 99",
    ),
    "a snapshot behind the end": (
        lie(f"{FOLDER}/00000000000000000099.snapshot", format_producer_snapshot([])),
        "a snapshot at 99",
    ),
    "a snapshot with later producer state": (
        lie(f"{FOLDER}/00000000000000000008.snapshot", format_producer_snapshot([EARLY])),
        "producer 7 has records",
    ),
    "a snapshot with a wrong checksum": (
        lie(f"{FOLDER}/00000000000000000008.snapshot", b"\x00\x01" + bytes(8)),
        "CRC",
    ),
    "a transaction of another segment": (
        lie(f"{FOLDER}/{SECOND}.txnindex", struct.pack(">hqqqq", 0, 7, 9, 10, 11)),
        "does not end in this segment",
    ),
    "transactions that fall": (
        lie(f"{FOLDER}/{SECOND}.txnindex", struct.pack(">hqqqq", 0, 7, 4, 5, 6) * 2),
        "entry 1 does not rise",
    ),
    "a transaction index alone": (lie(f"{FOLDER}/00000000000000000099.txnindex", b""), "has no segment"),
    "a recovery point behind the end": (
        lie("/d/recovery-point-offset-checkpoint", format_offsets({TopicPartition("t", 0): 13})),
        "ends at 12",
    ),
    "a watermark without a folder": (
        lie("/d/replication-offset-checkpoint", format_offsets({TopicPartition("gone", 3): 1})),
        "has no folder",
    ),
    "a start before the first segment": (
        lambda files: (
            [
                files.remove(f"{FOLDER}/00000000000000000000{suffix}")
                for suffix in (".log", ".index", ".timeindex")
            ],
            None,
        )[1],
        "its first segment starts at 4",
    ),
    "a checkpoint that is none": (lie("/d/log-start-offset-checkpoint", b"x"), "fault"),
}


@pytest.mark.parametrize("name", LIES)
def test_contradictions_are_found(name: str) -> None:
    """Only with `verify`, where a single file does not show them."""
    change, text = LIES[name]
    files = a_dir()
    change(files)
    found = faults(files)
    assert any(text in each for each in found), found


def test_flipped_bit_of_a_batch_is_found() -> None:
    """The CRC of each batch is checked, with and without records."""
    files = a_dir()
    files.flip_bit(f"{FOLDER}/{SECOND}.log", 70, 3)
    for has_records in (True, False):
        entries = dump_path(files, "/d", has_records=has_records)
        assert [entry.text() for _, entry in entries if entry.is_fault]
