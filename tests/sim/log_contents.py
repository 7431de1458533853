"""The bytes, batches and values in the logs of simulated nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from headrace.protocol.errors import CorruptMessageError
from headrace.protocol.records.codec import active_codec
from headrace.protocol.records.header import read_batch_header

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.storage_node.log.log import Log


class Stored(NamedTuple):
    """The identity of a batch: equal batches have equal fields."""

    base_offset: int
    next_offset: int
    epoch: int
    crc: int
    producer_id: int
    producer_epoch: int
    last_sequence: int  # below 0 without a producer id


def buffers(log: Log, offset: int, end_offset: int) -> Iterator[Any]:
    """The bytes of a log between two offsets, as buffers of whole batches."""
    while offset < end_offset:
        try:
            read = log.reader.read(offset, 1 << 20, upto_offset=end_offset)
        except CorruptMessageError as error:
            raise AssertionError(f"LogReadable: {error}") from error
        yield from read.data
        assert read.next_offset > offset, f"LogReadable: no whole batch from {offset} to {end_offset}"
        offset = read.next_offset


def stored(log: Log, offset: int, end_offset: int) -> Iterator[Stored]:
    """The batches of a log between two offsets."""
    for buffer in buffers(log, offset, end_offset):
        position = 0
        while position < len(buffer):
            header = read_batch_header(buffer, position)
            yield Stored(
                header.base_offset,
                header.next_offset,
                header.leader_epoch,
                header.crc,
                header.producer_id,
                header.producer_epoch,
                header.base_sequence + header.last_offset_delta if header.base_sequence >= 0 else -1,
            )
            position += header.size_bytes


def split(data: Any) -> Iterator[memoryview]:
    """The batches of a buffer."""
    view = memoryview(data)
    while len(view):
        size = read_batch_header(view).size_bytes
        yield view[:size]
        view = view[size:]


def values_of(data: Any) -> dict[int, bytes]:
    return {
        record.offset: (record.value or b"").rstrip(b" ")
        for batch in split(data)
        for record in active_codec().decode(batch)
    }


def value_at(log: Log, offset: int) -> bytes | None:
    return values_of(next(buffers(log, offset, log.log_end_offset))).get(offset)
