"""Metadata records in record batches, as in the metadata log and in snapshots. Pure.

Shape: a record's value is the MessagePack array of one `MetadataRecord`, its key is null. A batch of the log
has exactly one decision, uncompressed, so that a decision is stored as a whole or not at all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import msgspec

from ...protocol.errors import CorruptMessageError
from ...protocol.metadata.records import MetadataRecord, NoOpRecord
from ...protocol.records.codec import active_codec
from ...protocol.records.control import ControlType, VoterSet, control_type, decode_control
from ...protocol.records.header import CRC_POSITION, BatchHeader, Buffer, assigned_prefix, read_batch_header
from ...runtime.config import MIB

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

# Bound: the largest decision fences a node that leads all partitions: 150,000 (the upper bound of
# max.partitions) records of about 45 bytes are 7 MB. Users' requests have lower limits.
MAX_BATCH_BYTES = 64 * MIB

_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(MetadataRecord)


class StoredBatch(NamedTuple):
    """A decoded batch."""

    header: BatchHeader
    records: tuple[MetadataRecord, ...]  # empty for a control batch
    control_keys: tuple[bytes, ...]  # of a control batch
    control_values: tuple[bytes, ...] = ()

    @property
    def to_apply(self) -> tuple[MetadataRecord, ...]:
        """The records to apply: for control records NoOpRecords, which only advance the image's offset."""
        return self.records or (NoOpRecord(),) * (self.header.last_offset_delta + 1)

    @property
    def voters(self) -> VoterSet | None:
        """The voter set in a control batch. Errors: InvalidRecordError."""
        for key, value in zip(self.control_keys, self.control_values, strict=True):
            if control_type(key) is ControlType.KRAFT_VOTERS:
                record = decode_control(key, value)
                assert isinstance(record, VoterSet)
                return record
        return None


def encode_batch(
    records: Sequence[MetadataRecord], timestamp_ms: int, max_bytes: int = MAX_BATCH_BYTES
) -> bytes:
    """One batch of all `records`, with base offset 0 and leader epoch -1.

    Errors: ValueError if it would be larger than `max_bytes`.
    """
    builder = active_codec().builder(max_bytes=max_bytes)
    for record in records:
        if builder.append(timestamp_ms, None, _encoder.encode(record)) < 0:
            raise ValueError(f"{len(records)} records of one decision need more than {max_bytes} bytes")
    return builder.build()


def encode_control_batch(key: bytes, value: bytes, timestamp_ms: int) -> bytes:
    """One control batch of one record."""
    builder = active_codec().builder(max_bytes=MAX_BATCH_BYTES, is_control=True)
    builder.append(timestamp_ms, key, value)
    return builder.build()


def addressed(batch: bytes, base_offset: int, leader_epoch: int) -> bytes:
    """The batch with its base offset and leader epoch."""
    length = read_batch_header(batch).batch_length
    return assigned_prefix(base_offset, length, leader_epoch) + batch[CRC_POSITION:]


def decode_batches(data: Buffer) -> Iterator[StoredBatch]:
    """The batches that fill `data` exactly.

    Errors: CorruptMessageError, InvalidRecordError, also for a value that is no metadata record.
    """
    view = memoryview(data)
    position = 0
    while position < len(view):
        header = read_batch_header(view, position)
        end = position + header.size_bytes
        if end > len(view):
            raise CorruptMessageError(f"a batch of {header.size_bytes} bytes has only {len(view) - position}")
        yield _decoded(header, view[position:end])
        position = end


def _decoded(header: BatchHeader, batch: memoryview) -> StoredBatch:
    stored = active_codec().decode(batch)
    if header.is_control:
        controls = list(stored)
        keys = tuple(record.key or b"" for record in controls)
        return StoredBatch(header, (), keys, tuple(record.value or b"" for record in controls))
    try:
        records = tuple(_decoder.decode(record.value or b"") for record in stored)
    except msgspec.MsgspecError as error:
        raise CorruptMessageError(
            f"batch at offset {header.base_offset} has a record that this version of headrace does not know:"
            f" {error}"
        ) from error
    return StoredBatch(header, records, ())
