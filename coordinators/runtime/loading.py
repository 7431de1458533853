"""From the bytes of a coordinator's log to what its shard replays. Pure; runs on a thread.

Source: Kafka CoordinatorLoaderImpl.java.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ...protocol.errors import CorruptMessageError, InvalidRecordError
from ...protocol.records.codec import active_codec
from ...protocol.records.control import EndTransaction, decode_control
from ...protocol.records.header import read_batch_header
from .ports import NO_STAMP, Record, Stamp

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from ...protocol.records.codec import RecordCodec, RecordLike
    from ...protocol.records.header import Buffer

    Decode = Callable[[bytes, bytes | None], tuple[Any, Any] | None]


class Replayed(NamedTuple):
    """One record of the log; without a `record` the marker that ends the stamp's transaction."""

    offset: int
    stamp: Stamp
    record: Record | None
    is_commit: bool = False


class Digest(NamedTuple):
    """What a piece of the log says. `skipped` records are of types that are not known here: a newer node
    wrote them."""

    replayed: list[Replayed]
    skipped: int


def digest(data: Sequence[Buffer], decode: Decode) -> Digest:
    """Whole batches, decoded. Errors: CorruptMessageError, InvalidRecordError, each naming the offset."""
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
            stamp = NO_STAMP
            if header.is_transactional:
                stamp = Stamp(header.producer_id, header.producer_epoch)
            for found in _records(codec, batch, header.base_offset):
                if header.is_control:
                    control = decode_control(found.key, found.value)
                    if isinstance(control, EndTransaction):
                        replayed.append(Replayed(found.offset, stamp, None, control.is_commit))
                    continue
                record = _decoded(decode, found.key, found.value, found.offset)
                if record is None:
                    skipped += 1
                else:
                    replayed.append(Replayed(found.offset, stamp, record))
    return Digest(replayed, skipped)


def _records(codec: RecordCodec, batch: memoryview, offset: int) -> Sequence[RecordLike]:
    """With its CRC: no client that would check it sees these bytes, and what was closed in order was not
    scanned at the start."""
    try:
        return codec.decode(batch)
    except CorruptMessageError as error:
        raise CorruptMessageError(f"the batch at offset {offset}: {error.detail}") from error


def _decoded(decode: Decode, key: bytes | None, value: bytes | None, offset: int) -> Record | None:
    if key is None:
        raise InvalidRecordError(f"the record at offset {offset} has no key")
    try:
        typed = decode(key, value)
    except Exception as error:  # a bug there must not end every node that leads the partition
        raise InvalidRecordError(f"the record at offset {offset}: {error!r}") from error
    return None if typed is None else Record(*typed)
