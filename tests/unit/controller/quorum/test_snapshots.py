"""Snapshot files: round trip, layout, damage."""

import contextlib

import pytest
from headrace.controller.quorum.record_batches import decode_batches
from headrace.controller.quorum.snapshots import (
    RECORDS_PER_BATCH,
    SnapshotId,
    list_snapshots,
    read_snapshot,
    write_snapshot,
)
from headrace.protocol.errors import CorruptMessageError
from headrace.protocol.metadata.image import MetadataImage
from headrace.protocol.metadata.records import FormatRecord, PartitionRecord, TopicRecord
from headrace.protocol.metadata.replay import replay
from headrace.runtime.files.files_io import OsFiles

TOPIC = b"t" * 16
FILES = OsFiles()


def image_of_partitions(count: int) -> MetadataImage:
    """A cluster with one topic."""
    parts = [PartitionRecord(TOPIC, number, (1,), (1,), -1, 0, 0) for number in range(count)]
    return replay(MetadataImage(), 0, [FormatRecord("c"), TopicRecord("t", TOPIC), *parts])[0]


@pytest.mark.parametrize("count", [1, RECORDS_PER_BATCH * 2 + 5])
def test_round_trip(tmp_path, count) -> None:
    """With few records, and with more than one batch holds; the file name is Kafka's."""
    image = image_of_partitions(count)
    snapshot = write_snapshot(FILES, str(tmp_path), image, 3, 1234)
    assert snapshot == SnapshotId(image.offset + 1, 3)
    assert snapshot.file_name == f"{count + 2:020d}-0000000003.checkpoint"
    assert [path.name for path in tmp_path.iterdir()] == [snapshot.file_name]
    assert read_snapshot(FILES, str(tmp_path), snapshot)[0] == image


def test_snapshot_of_an_empty_image(tmp_path) -> None:
    """It has only header and footer."""
    snapshot = write_snapshot(FILES, str(tmp_path), MetadataImage(), 0, 0)
    assert read_snapshot(FILES, str(tmp_path), snapshot)[0] == MetadataImage()


def test_layout_is_kafkas(tmp_path) -> None:
    """A header control record (type 3), the records, a footer control record (type 4), dense offsets."""
    snapshot = write_snapshot(FILES, str(tmp_path), image_of_partitions(1), 3, 1234)
    header, body, footer = decode_batches((tmp_path / snapshot.file_name).read_bytes())
    assert header.control_keys == (b"\x00\x00\x00\x03",)
    assert footer.control_keys == (b"\x00\x00\x00\x04",)
    assert header.header.is_control
    assert footer.header.is_control
    assert [b.header.base_offset for b in (header, body, footer)] == [0, 1, 4]
    assert {b.header.leader_epoch for b in (header, body, footer)} == {3}


def test_list_snapshots_is_newest_first(tmp_path) -> None:
    """Segments, damaged and partly fetched snapshots in the same folder are ignored."""
    for name in (
        "00000000000000000005-0000000001.checkpoint",
        "00000000000000000105-0000000002.checkpoint",
        "00000000000000000105-0000000001.checkpoint",
        "00000000000000000200-0000000002.checkpoint.corrupt",
        "00000000000000000200-0000000002.checkpoint.tmp",
        "00000000000000000000.log",
        "x.checkpoint",
    ):
        (tmp_path / name).touch()
    assert list_snapshots(FILES, str(tmp_path)) == [SnapshotId(105, 2), SnapshotId(105, 1), SnapshotId(5, 1)]


def test_every_damage_is_detected(tmp_path) -> None:
    """A file that is truncated at any byte, or has any one byte changed, is invalid."""
    image = image_of_partitions(2)
    snapshot = write_snapshot(FILES, str(tmp_path), image, 3, 1234)
    path = tmp_path / snapshot.file_name
    whole = path.read_bytes()
    for position in range(len(whole)):
        path.write_bytes(whole[:position])
        with pytest.raises(CorruptMessageError):
            read_snapshot(FILES, str(tmp_path), snapshot)
        path.write_bytes(whole[:position] + bytes([whole[position] ^ 0x10]) + whole[position + 1 :])
        with contextlib.suppress(CorruptMessageError):
            assert read_snapshot(FILES, str(tmp_path), snapshot)[0] == image, "an epoch has no checksum"
    path.write_bytes(whole + whole)
    with pytest.raises(CorruptMessageError):
        read_snapshot(FILES, str(tmp_path), snapshot)
