"""`log dump` shows every kind of file, sound or damaged, and never raises."""

import json

import pytest
from fake_files import FakeFiles
from headrace.protocol.records.header import Compression
from headrace.storage_node.log.dump import DumpEntry, dump_file
from headrace.storage_node.log.log_manager import LogManager
from headrace.storage_node.log.producer_snapshot import ProducerState, format_producer_snapshot
from log_rig import FOLDER, NOW, TP, append, batch, config, open_log

LOG = f"{FOLDER}/00000000000000000000.log"
INDEX = LOG.replace(".log", ".index")
TIME_INDEX = LOG.replace(".log", ".timeindex")


@pytest.fixture
def disk() -> FakeFiles:
    """A closed log of four batches with an index entry for each but the first."""
    files = FakeFiles()
    log = open_log(files, index_interval_bytes=0)
    append(log, batch(2, tag="a"))
    append(log, batch(1, tag="b", timestamp=NOW + 5, compression=Compression.LZ4), epoch=3)
    marker = batch(1, is_control=True, is_transactional=True, producer_id=7, producer_epoch=1)
    log.append_as_leader(marker, leader_epoch=3, wall_ms=NOW, internal=True)
    append(log, batch(1, tag="d", timestamp=NOW + 9), epoch=3)
    log.close()
    return files


def dump(files: FakeFiles, path: str, **options: bool) -> list[DumpEntry]:
    entries = list(dump_file(files, path, **options))
    for entry in entries:
        assert "\n" not in entry.text()
        json.dumps(entry.to_mapping())
    return entries


def kinds(entries: list[DumpEntry]) -> list[str]:
    return [entry.kind for entry in entries]


def test_segment_with_records(disk: FakeFiles) -> None:
    """Batches with their records; control records show their type."""
    entries = dump(disk, LOG)
    assert kinds(entries) == [
        "batch",
        "record",
        "record",
        "batch",
        "record",
        "batch",
        "control_record",
        "batch",
        "record",
    ]
    first, record = entries[0], entries[1]
    assert first.position == 0
    assert (first.fields["base_offset"], first.fields["last_offset"], first.fields["record_count"]) == (
        0,
        1,
        2,
    )
    assert record.fields == {"offset": 0, "timestamp": NOW, "key": b"a:0", "value": b"v" * 10}
    assert record.text() == f'  record offset=0 timestamp={NOW} key="a:0" value="vvvvvvvvvv"'
    assert entries[3].fields["compression"] == "lz4"
    assert entries[3].fields["leader_epoch"] == 3
    assert kinds(dump(disk, LOG, has_records=False)) == ["batch"] * 4


def test_record_text_has_no_line_breaks() -> None:
    """Newlines, control characters, invalid UTF-8, null keys and headers are escaped."""
    from headrace.protocol.records.codec import active_codec

    builder = active_codec().builder(max_bytes=1000)
    builder.append(NOW, None, b"a\nb\x00\xff", [("h\n", b"\x1b[31m"), ("n", None)])
    files = FakeFiles()
    append(open_log(files), builder.build())
    record = dump(files, LOG)[1]
    assert 'key=null value="a\\nb\\u0000\\\\xff"' in record.text()
    assert record.to_mapping()["headers"] == [["h\n", "\x1b[31m"], ["n", None]]


def test_damaged_batch_is_reported_and_skipped(disk: FakeFiles) -> None:
    """A wrong CRC: the batches after it are still shown."""
    second = next(entry for entry in dump(disk, LOG) if entry.fields.get("base_offset") == 2)
    assert second.position is not None
    disk.flip_bit(LOG, second.position + 62, 0)
    entries = dump(disk, LOG)
    (fault,) = [entry for entry in entries if entry.is_fault]
    assert fault.position == second.position
    assert "CRC" in fault.text()
    assert entries[-1].fields["key"] == b"d:0"


@pytest.mark.parametrize("size", [1, 60, 61, 100])
def test_torn_tail_is_reported(disk: FakeFiles, size: int) -> None:
    """A header or a batch is cut short: the fault has the position and the bytes left."""
    content = disk.content(LOG)
    last = max(entry.position or 0 for entry in dump(disk, LOG) if entry.kind == "batch")
    disk.put(LOG, content[:last] + batch(3)[:size])
    entries = dump(disk, LOG)
    assert entries[-1].is_fault
    assert entries[-1].position == last
    assert f"{size} bytes from here on" in entries[-1].text()


def test_preallocated_zeros_are_not_damage(disk: FakeFiles) -> None:
    """A preallocated segment after a crash differs from garbage."""
    disk.put(LOG, disk.content(LOG) + bytes(500))
    assert "zeros" in dump(disk, LOG)[-1].text()


def test_gaps_and_falling_offsets(disk: FakeFiles) -> None:
    """A gap is left by compaction; a falling offset is damage."""
    content = disk.content(LOG)
    jumped = content + (50).to_bytes(8, "big") + batch(1)[8:]
    disk.put(LOG, jumped)
    assert [entry.fields for entry in dump(disk, LOG) if entry.kind == "gap"] == [
        {"from_offset": 5, "to_offset": 50}
    ]
    disk.put(LOG, jumped + (3).to_bytes(8, "big") + batch(1)[8:])
    assert "is below 51" in next(entry for entry in dump(disk, LOG) if entry.is_fault).text()


def test_verify_compares_indexes_with_log(disk: FakeFiles) -> None:
    """Sound indexes have no fault; each wrong entry is found with `verify`."""
    entries = dump(disk, INDEX, verify=True)
    assert kinds(entries) == ["offset_index"] * 3
    assert entries[0].fields["offset"] == 2
    assert entries[0].text().startswith("offset_index @0 offset=2 log_position=")
    times = dump(disk, TIME_INDEX, verify=True)
    assert [entry.fields for entry in times] == [
        {"timestamp": NOW + 5, "offset": 2},
        {"timestamp": NOW + 9, "offset": 4},
    ]
    for path, byte in ((INDEX, 3), (INDEX, 7), (TIME_INDEX, 7), (TIME_INDEX, 11)):
        disk.flip_bit(path, byte, 2)
        assert not [entry for entry in dump(disk, path) if entry.is_fault and "log" in entry.text()]
        assert [entry for entry in dump(disk, path, verify=True) if entry.is_fault]
        disk.flip_bit(path, byte, 2)


def test_preallocated_indexes_of_kafka(disk: FakeFiles) -> None:
    """Zeros at the end are not entries; a partial or falling entry is a fault."""
    disk.put(INDEX, disk.content(INDEX) + bytes(80))
    entries = dump(disk, INDEX, verify=True)
    assert kinds(entries) == ["offset_index"] * 3 + ["reserved"]
    assert entries[-1].fields == {"size_bytes": 80}
    disk.put(INDEX, disk.content(INDEX)[:24] + disk.content(INDEX)[:8] + b"xyz")
    faults = [entry.text() for entry in dump(disk, INDEX) if entry.is_fault]
    assert len(faults) == 2
    assert "does not rise" in faults[0]
    assert "3 bytes" in faults[1]


def test_index_with_damaged_or_missing_log(disk: FakeFiles) -> None:
    """`verify` reports damage; without the log there is nothing to compare with."""
    disk.put(LOG, disk.content(LOG)[:-1])
    assert dump(disk, INDEX, verify=True)[-1].is_fault
    disk.remove(LOG)
    assert kinds(dump(disk, INDEX, verify=True)) == ["offset_index"] * 3


def test_small_files_of_a_log_dir(files: FakeFiles) -> None:
    """Checkpoints, meta.properties, partition.metadata, epochs, marker, producer snapshot, transaction
    index."""
    manager = LogManager(files, ["/d"], defaults=config(), new_uuid=lambda: bytes(range(16)))
    manager.open_dirs()
    manager.dirs.set_identity("cluster", 1)
    append(manager.create(TP, bytes(16), config()), batch(1))
    manager.shutdown(broker_epoch=9)
    files.put(
        f"{FOLDER}/{5:020d}.snapshot", format_producer_snapshot([ProducerState(9, 1, 5, 100, 3, NOW, 0, -1)])
    )
    files.put(f"{FOLDER}/{5:020d}.txnindex", bytes(34) + b"cut")
    assert dump(files, "/d/recovery-point-offset-checkpoint")[0].fields == {
        "topic": "t",
        "partition": 0,
        "offset": 1,
    }
    assert dump(files, "/d/meta.properties")[0].fields["cluster.id"] == "cluster"
    assert dump(files, "/d/.kafka_cleanshutdown")[0].fields == {"version": 0, "brokerEpoch": 9}
    assert dump(files, f"{FOLDER}/leader-epoch-checkpoint")[0].fields == {"epoch": 0, "start_offset": 0}
    assert dump(files, f"{FOLDER}/partition.metadata")[0].fields == {"topic_id": "A" * 22}
    assert dump(files, f"{FOLDER}/{5:020d}.snapshot")[0].fields["producer_id"] == 9
    assert kinds(dump(files, f"{FOLDER}/{5:020d}.txnindex")) == ["aborted_transaction", "fault"]


def test_credentials_in_the_metadata_log_are_hidden() -> None:
    """The value of such a record is not shown; that of a rule is."""
    from headrace.protocol.metadata.records import RemoveUserScramCredentialRecord, UserScramCredentialRecord
    from headrace.protocol.records.codec import active_codec
    from headrace.protocol.security.scram import ScramMechanism, credential_from_password
    from headrace.protocol.transport.wire import encode

    mechanism = ScramMechanism.SCRAM_SHA_256
    credential = credential_from_password(mechanism, "secret", b"some salt")
    builder = active_codec().builder(max_bytes=1000)
    builder.append(NOW, None, encode(UserScramCredentialRecord("alice", credential)), [])
    builder.append(NOW, None, removal := encode(RemoveUserScramCredentialRecord("alice", mechanism)), [])
    files = FakeFiles()
    append(open_log(files), builder.build())
    values = [entry.fields["value"] for entry in dump(files, LOG) if entry.kind == "record"]
    assert values == [b"[hidden]", removal]


def test_snapshots_of_the_metadata_log_are_segments(files: FakeFiles) -> None:
    """They hold batches from offset 0 on, whatever their name."""
    for name in (f"{12:020d}-{3:010d}.checkpoint", "bootstrap.checkpoint"):
        files.put(f"/{name}", batch(2))
        assert kinds(dump(files, f"/{name}")) == ["batch", "record", "record"]


@pytest.mark.parametrize(
    "name",
    [
        "recovery-point-offset-checkpoint",
        "leader-epoch-checkpoint",
        "partition.metadata",
        "meta.properties",
        ".kafka_cleanshutdown",
        "quorum-state",
        f"{0:020d}.snapshot",
        f"{0:020d}.log",
        f"{0:020d}.log.deleted",
        f"{0:020d}.index",
        f"{0:020d}.timeindex",
        f"{0:020d}.txnindex",
        "notes.txt",
    ],
)
def test_garbage_under_any_name_is_a_fault(files: FakeFiles, name: str) -> None:
    """Random bytes, zeros and text give a fault, not an exception."""
    for content in (b"\xff\xfe garbage" * 11, b"[]", b"\x01"):
        files.put(f"/{name}", content)
        assert any(entry.is_fault for entry in dump(files, f"/{name}", verify=True))
