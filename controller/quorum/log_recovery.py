"""Reads the metadata log at start: the newest valid snapshot, and the batches after it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.errors import CorruptMessageError, InvalidRecordError, KafkaStorageError
from ...protocol.model import TopicPartition
from ...protocol.records.header import read_batch_header
from ...runtime.files.file_layer import read_file
from ...storage_node.log import names
from ...storage_node.log.checkpoints import CorruptFileError, parse_offsets
from .record_batches import decode_batches

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ...protocol.metadata.image import MetadataImage
    from ...runtime.files.file_layer import Files
    from ...storage_node.log.log import Log
    from .record_batches import StoredBatch

METADATA_PARTITION = TopicPartition(names.METADATA_TOPIC, 0)
READ_BYTES = 4 * 1024 * 1024


def check_not_damaged(stored: Log, image: MetadataImage, durable_offset: int) -> None:
    """Errors: KafkaStorageError if the log ends before the durable end, or begins after the snapshot."""
    readable_offset = max(stored.log_end_offset, image.offset + 1)
    if readable_offset < durable_offset:
        raise KafkaStorageError(
            f"{stored.folder.path} is damaged: metadata up to offset {durable_offset} was durable, but only "
            f"up to {readable_offset} can be read; restore it, or accept the loss by removing "
            f"{names.RECOVERY_POINTS}"
        )
    if stored.log_end_offset > image.offset + 1 and stored.log_start_offset > image.offset + 1:
        raise KafkaStorageError(
            f"metadata from offset {image.offset + 1} to {stored.log_start_offset} is neither in a valid "
            f"snapshot nor in the log"
        )


def read_checkpoint(files: Files, directory: str) -> int:
    """The durable end at the last checkpoint; 0 if unknown."""
    path = f"{directory}/{names.RECOVERY_POINTS}"
    if not files.exists(path):
        return 0
    try:
        return max(0, parse_offsets(read_file(files, path)).get(METADATA_PARTITION, 0))
    except CorruptFileError:
        return 0


def batches_from(stored: Log, offset: int, end_offset: int) -> Iterator[StoredBatch]:
    """The batches from the one with `offset` on, below `end_offset`. Errors: KafkaStorageError."""
    for buffer in _buffers_from(stored, offset, end_offset):
        yield from _decoded(buffer)


def control_batches_from(stored: Log, offset: int) -> Iterator[StoredBatch]:
    """The control batches from `offset` on; other batches are not decoded."""
    for buffer in _buffers_from(stored, offset, stored.log_end_offset):
        position = 0
        while position < len(buffer):
            header = read_batch_header(buffer, position)
            end = position + header.size_bytes
            if header.is_control:
                yield from _decoded(buffer[position:end])
            position = end


def _decoded(batches: memoryview) -> Iterator[StoredBatch]:
    try:
        yield from decode_batches(batches)
    except (CorruptMessageError, InvalidRecordError) as error:
        raise KafkaStorageError(f"the metadata log is unreadable: {error}") from error


def _buffers_from(stored: Log, offset: int, end_offset: int) -> Iterator[memoryview]:
    while offset < end_offset:
        try:
            chunk = stored.reader.read(offset, READ_BYTES, upto_offset=end_offset)
        except CorruptMessageError as error:
            raise KafkaStorageError(f"the metadata log is unreadable: {error}") from error
        for data in chunk.data:
            yield memoryview(data)
        if chunk.next_offset <= offset:
            raise KafkaStorageError(
                f"the metadata log has no record at offset {offset}, but ends at {end_offset}"
            )
        offset = chunk.next_offset
