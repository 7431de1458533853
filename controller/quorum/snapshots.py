"""Snapshots of the metadata: one file with the state up to an offset.

Shape: `<end offset, 20 digits>-<epoch, 10 digits>.checkpoint`, with record batches from offset 0 on: a
SNAPSHOT_HEADER control record, the voters if known (KRAFT_VERSION and KRAFT_VOTERS control records), the
records of the image, a SNAPSHOT_FOOTER control record. A file without footer, or with any damage, is invalid.
A file is complete when it is renamed to its name. The snapshot at offset 0 has the voters that a new quorum
begins with. Source: Kafka Snapshots.java, RecordsSnapshotWriter.java (KIP-630), BootstrapMetadata (KIP-853).
"""

from __future__ import annotations

import re
import struct
from typing import TYPE_CHECKING, NamedTuple

from ...protocol.errors import CorruptMessageError, InvalidRecordError, UnsupportedCompressionTypeError
from ...protocol.metadata.replay import image_of, image_records
from ...protocol.records.control import QuorumVersion, VoterSet, encode_control
from ...runtime.files.file_layer import Files, read_file, write_file_atomically
from .record_batches import StoredBatch, addressed, decode_batches, encode_batch, encode_control_batch

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ...protocol.metadata.image import MetadataImage

SUFFIX = ".checkpoint"
CORRUPT_SUFFIX = ".corrupt"
PART_SUFFIX = ".part"  # of a snapshot that is being fetched
QUORUM_VERSION = 1  # the log has the voters (KIP-853)
RECORDS_PER_BATCH = 2000

NO_VOTERS = VoterSet(())

_NAME = re.compile(r"(?P<end>[0-9]{20})-(?P<epoch>[0-9]{10})\.checkpoint\Z")
_KEY = struct.Struct(">hh")  # version, type of the control record
_HEADER_KEY = _KEY.pack(0, 3)
_FOOTER_KEY = _KEY.pack(0, 4)
_HEADER_VALUE = struct.Struct(">hqb")  # version, timestamp of the last record, no tagged fields
_FOOTER_VALUE = struct.Struct(">hb")
_DAMAGE = (CorruptMessageError, InvalidRecordError, UnsupportedCompressionTypeError, ValueError)


class SnapshotId(NamedTuple):
    """Identifies a snapshot; newer ones sort after older ones."""

    end_offset: int  # exclusive
    epoch: int  # controller epoch of the last record in it

    @property
    def file_name(self) -> str:
        """The name of the snapshot's file."""
        return f"{self.end_offset:020d}-{self.epoch:010d}{SUFFIX}"


def list_snapshots(files: Files, directory: str) -> list[SnapshotId]:
    """Snapshots by file name, newest first, valid or not."""
    matches = (_NAME.match(name) for name in files.listdir(directory))
    return sorted((SnapshotId(int(m["end"]), int(m["epoch"])) for m in matches if m), reverse=True)


def write_snapshot(
    files: Files,
    directory: str,
    image: MetadataImage,
    epoch: int,
    timestamp_ms: int,
    voters: VoterSet = NO_VOTERS,
) -> SnapshotId:
    """Write image and voters to a file, durable on return. Errors: KafkaStorageError."""
    snapshot = SnapshotId(image.offset + 1, epoch)
    content = b"".join(_batches(image, epoch, timestamp_ms, voters))
    write_file_atomically(files, directory, snapshot.file_name, content)
    return snapshot


def read_snapshot(
    files: Files, directory: str, snapshot: SnapshotId, suffix: str = ""
) -> tuple[MetadataImage, VoterSet]:
    """Image and voters, from a file with this suffix. Errors: CorruptMessageError, KafkaStorageError."""
    data = read_file(files, f"{directory}/{snapshot.file_name}{suffix}")
    try:
        batches = list(decode_batches(data))
        _check_frame(batches)
        records = (record for batch in batches[1:-1] for record in batch.records)
        voters = [each for batch in batches if (each := batch.voters) is not None]
        return image_of(records, snapshot.end_offset - 1), voters[-1] if voters else NO_VOTERS
    except _DAMAGE as error:
        raise CorruptMessageError(f"snapshot {snapshot.file_name}: {error}") from error


def _batches(image: MetadataImage, epoch: int, timestamp_ms: int, voters: VoterSet) -> Iterator[bytes]:
    offset = 0
    yield addressed(
        _control(_HEADER_KEY, _HEADER_VALUE.pack(0, timestamp_ms, 0), timestamp_ms), offset, epoch
    )
    records = image_records(image)
    offset = 1
    for control in (QuorumVersion(QUORUM_VERSION), voters) if voters.voters else ():
        yield addressed(_control(*encode_control(control), timestamp_ms), offset, epoch)
        offset += 1
    for start in range(0, len(records), RECORDS_PER_BATCH):
        part = records[start : start + RECORDS_PER_BATCH]
        yield addressed(encode_batch(part, timestamp_ms), offset, epoch)
        offset += len(part)
    yield addressed(_control(_FOOTER_KEY, _FOOTER_VALUE.pack(0, 0), timestamp_ms), offset, epoch)


def _control(key: bytes, value: bytes, timestamp_ms: int) -> bytes:
    return encode_control_batch(key, value, timestamp_ms)


def _check_frame(batches: list[StoredBatch]) -> None:
    if len(batches) < 2 or batches[0].control_keys != (_HEADER_KEY,):
        raise CorruptMessageError("it does not begin with a header")
    if batches[-1].control_keys != (_FOOTER_KEY,):
        raise CorruptMessageError("it does not end with a footer")
    offset = 0
    # The voters, two batches, follow the header.
    voters_at = (1, 2) if len(batches) > 3 and batches[1].header.is_control else ()
    for index, batch in enumerate(batches):
        is_frame = index in (0, *voters_at, len(batches) - 1)
        if batch.header.base_offset != offset or batch.header.is_control != is_frame:
            raise CorruptMessageError(f"batch {index} does not belong at offset {offset}")
        offset = batch.header.next_offset
