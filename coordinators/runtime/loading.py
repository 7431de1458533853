"""Decodes the log of a coordinator for its shard. Pure; runs on a thread.

Source: Kafka CoordinatorLoaderImpl.java.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ...protocol.errors import CorruptMessageError, InvalidRecordError
from ...protocol.records.codec import active_codec
from ...protocol.records.control import EndTransaction, decode_control
from ...protocol.records.header import read_batch_header
from .ports import NO_PRODUCER, ProducerIdAndEpoch, Record

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from ...protocol.records.codec import RecordCodec, RecordLike
    from ...protocol.records.header import Buffer

    Decode = Callable[[bytes, bytes | None], tuple[Any, Any] | None]


class Replayed(NamedTuple):
    """One record of the log; without `record` a marker that ends the producer's transaction."""

    offset: int
    producer: ProducerIdAndEpoch
    record: Record | None
    is_commit: bool = False


class Digest(NamedTuple):
    """The decoded records of one read. `skipped`: records of unknown types, written by a newer version."""

    replayed: list[Replayed]
    skipped: int


def digest(data: Sequence[Buffer], decode: Decode) -> Digest:
    """Decode whole batches. Errors: CorruptMessageError, InvalidRecordError, each with the offset."""
    replayed: list[Replayed] = []
    skipped = 0
    codec = active_codec()
    for part in data:
        view = memoryview(part)
        position = 0
        while position < len(view):
            header = read_batch_header(view, position)
            batch = view[position : position + header.size_bytes]
            position += header.size_bytes
            producer = NO_PRODUCER
            if header.is_transactional:
                producer = ProducerIdAndEpoch(header.producer_id, header.producer_epoch)
            for found in _records(codec, batch, header.base_offset):
                if header.is_control:
                    control = decode_control(found.key, found.value)
                    if isinstance(control, EndTransaction):
                        replayed.append(Replayed(found.offset, producer, None, control.is_commit))
                    continue
                record = _decoded(decode, found.key, found.value, found.offset)
                if record is None:
                    skipped += 1
                else:
                    replayed.append(Replayed(found.offset, producer, record))
    return Digest(replayed, skipped)


def _records(codec: RecordCodec, batch: memoryview, offset: int) -> Sequence[RecordLike]:
    """Checks the CRC too: no client checks these bytes, and a cleanly closed log is not scanned at start."""
    try:
        return codec.decode(batch)
    except CorruptMessageError as error:
        raise CorruptMessageError(f"the batch at offset {offset} is corrupt: {error.detail}") from error


def _decoded(decode: Decode, key: bytes | None, value: bytes | None, offset: int) -> Record | None:
    if key is None:
        raise InvalidRecordError(f"the record at offset {offset} has no key")
    try:
        typed = decode(key, value)
    except Exception as error:  # a bug in a decoder must not end every node that leads the partition
        raise InvalidRecordError(f"the record at offset {offset} cannot be decoded: {error!r}") from error
    return None if typed is None else Record(*typed)
