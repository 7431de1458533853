"""Files that Apache Kafka 4.1.0 wrote: we read each, and write the same bytes for the same content.

`kafka_log_dir` is the data folder of a broker that took 12 records of an idempotent producer, an aborted and
a committed transaction (index.interval.bytes=200), and was stopped cleanly. `kafka_log_dir.txt` is what our
dump says of it.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from fake_files import FakeFiles
from headrace.protocol.model import TopicPartition
from headrace.storage_node.log import checkpoints
from headrace.storage_node.log.dump import dump_file
from headrace.storage_node.log.dump_folders import dump_path
from headrace.storage_node.log.log_manager import LogManager
from headrace.storage_node.log.producer_snapshot import format_producer_snapshot, parse_producer_snapshot
from log_rig import NOW, config, read_all

HERE = Path(__file__).parent
KAFKA = HERE / "kafka_log_dir"
GOLDEN = TopicPartition("golden", 0)


@pytest.fixture
def disk() -> FakeFiles:
    """Kafka's folder as /d."""
    files = FakeFiles()
    for path in sorted(KAFKA.rglob("*")):
        name = f"/d/{path.relative_to(KAFKA)}"
        if path.is_dir():
            files.mkdir(name)
        else:
            files.mkdir(name.rpartition("/")[0])
            files.put(name, path.read_bytes())
    return files


def loaded(files: FakeFiles) -> LogManager:
    manager = LogManager(files, ["/d"], defaults=config(index_interval_bytes=200), new_uuid=lambda: bytes(16))
    manager.open_dirs()
    manager.load(NOW)
    return manager


def test_the_dump_of_kafkas_files(disk: FakeFiles) -> None:
    """Every file of every kind, verified, without a fault, word for word."""
    lines = []
    for path in sorted(KAFKA.rglob("*")):
        if path.is_file():
            name = str(path.relative_to(KAFKA))
            lines.append(f"== {name}")
            lines += [entry.text() for entry in dump_file(disk, f"/d/{name}", verify=True)]
    printed = "\n".join(lines) + "\n"
    assert "fault" not in printed
    assert printed == (HERE / "kafka_log_dir.txt").read_text()


def test_the_files_of_kafka_agree_with_each_other(disk: FakeFiles) -> None:
    """Segments, indexes, epochs, transactions, snapshots and checkpoints of a whole log dir."""
    faults = [entry.text() for _, entry in dump_path(disk, "/d", verify=True) if entry.is_fault]
    assert [text for text in faults if "has no folder" not in text] == []
    assert all("__" in text for text in faults), "the folders of internal topics are not in this repository"


def test_clean_kafka_log_dir_is_opened_unchanged(disk: FakeFiles) -> None:
    """Identity, topic id, offsets, epochs, producer snapshots; nothing is scanned or repaired."""
    manager = loaded(disk)
    assert manager.dirs.identity.node_id == 1
    log = manager.logs[GOLDEN]
    assert (log.recovery.faults, log.recovery.scanned_bytes) == ([], 0)
    assert (log.log_start_offset, log.log_end_offset, log.high_watermark, log.recovery_point) == (
        0,
        16,
        16,
        16,
    )
    assert checkpoints.uuid_text(log.topic_id) == "FD7n7bCwR-K5jNTQm-lJyQ"
    assert (log.epochs.latest_epoch, log.end_offset_for_epoch(0)) == (0, (0, 16))
    assert [name[:20] for name in disk.listdir("/d/golden-0") if name.endswith(".snapshot")] == [
        f"{offset:020d}" for offset in (13, 16)
    ]
    assert format_producer_snapshot(log.producers.states.to_snapshot()) == disk.content(
        f"/d/golden-0/{16:020d}.snapshot"
    )
    assert log.reader.aborted_between(0, 16) == log.reader.aborted_between(12, 13) == ((1, 12),)
    assert log.reader.aborted_between(0, 12) == log.reader.aborted_between(14, 16) == ()
    assert log.reader.offset_for_timestamp(1_700_000_005_001) == (6, 1_700_000_006_000, 0)
    assert b"".join(read_all(log)) == b"".join(
        (KAFKA / "golden-0" / f"{base:020d}.log").read_bytes() for base in (0, 13)
    )


def test_indexes_rebuilt_from_kafkas_segments_are_kafkas(disk: FakeFiles) -> None:
    """The same entries at the same places, byte for byte."""
    disk.remove("/d/.kafka_cleanshutdown")
    for suffix in (".index", ".timeindex"):
        for base in (0, 13):
            disk.remove(f"/d/golden-0/{base:020d}{suffix}")
    manager = loaded(disk)
    manager.shutdown()
    for suffix in (".index", ".timeindex"):
        for base in (0, 13):
            name = f"golden-0/{base:020d}{suffix}"
            assert disk.content(f"/d/{name}") == (KAFKA / name).read_bytes(), name


def test_producers_found_in_kafkas_batches_are_kafkas(disk: FakeFiles) -> None:
    """After a crash without any snapshot or transaction index: the same bytes again."""
    disk.remove("/d/.kafka_cleanshutdown")
    for name in (f"{13:020d}.snapshot", f"{16:020d}.snapshot", f"{13:020d}.txnindex"):
        disk.remove(f"/d/golden-0/{name}")
    manager = loaded(disk)
    manager.shutdown()
    for name in (f"{16:020d}.snapshot", f"{13:020d}.txnindex"):
        assert disk.content(f"/d/golden-0/{name}") == (KAFKA / "golden-0" / name).read_bytes(), name


def test_a_shutdown_writes_kafkas_side_files_again(disk: FakeFiles) -> None:
    """Load and shut down: every small file that both write is the same as before."""
    manager = loaded(disk)
    epoch = manager.dirs[0].clean_broker_epoch
    # the other folders are not part of the fixture
    manager.loader.forget_missing(lambda name: name == GOLDEN)
    manager.shutdown(broker_epoch=epoch)
    for name in (
        ".kafka_cleanshutdown",
        "golden-0/leader-epoch-checkpoint",
        "golden-0/partition.metadata",
        "meta.properties",
        "log-start-offset-checkpoint",
    ):
        assert disk.content(f"/d/{name}") == (KAFKA / name).read_bytes(), name
    for name in ("recovery-point-offset-checkpoint", "replication-offset-checkpoint"):
        mine = checkpoints.parse_offsets(disk.content(f"/d/{name}"))
        theirs = checkpoints.parse_offsets((KAFKA / name).read_bytes())
        assert mine == {GOLDEN: theirs[GOLDEN]}


def test_small_files_are_written_in_kafkas_bytes() -> None:
    """Parse and format are each other's inverse on what Kafka wrote."""
    golden = KAFKA / "golden-0"
    epochs = (golden / "leader-epoch-checkpoint").read_bytes()
    assert checkpoints.format_epochs(tuple(checkpoints.parse_epochs(epochs))) == epochs
    metadata = (golden / "partition.metadata").read_bytes()
    assert checkpoints.format_partition_metadata(checkpoints.parse_partition_metadata(metadata)) == metadata
    marker = (KAFKA / ".kafka_cleanshutdown").read_bytes()
    assert checkpoints.format_clean_shutdown(checkpoints.parse_clean_shutdown(marker)) == marker
    snapshot = (golden / f"{16:020d}.snapshot").read_bytes()
    assert format_producer_snapshot(parse_producer_snapshot(snapshot)) == snapshot
