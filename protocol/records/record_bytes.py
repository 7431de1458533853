"""Parses and validates the bytes of records one by one, for `batch.py` and `cleaning.py`."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ..errors import InvalidRecordError
from .header import LOG_APPEND_TIME_BIT, BatchHeader, Buffer
from .record import Record
from .settings import INT64_MAX, INT64_MIN, MIN_HEADER_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .interfaces import Header


class Located(NamedTuple):
    """A record and its position in the decompressed records of its batch."""

    record: Record
    start: int  # position of its length
    body: int  # after the length: the attributes, one byte, then the timestamp delta
    rest: int  # after the timestamp delta
    end: int


def varint(value: int) -> bytes:
    """`value`, up to 64 bits with sign, as a zigzag varint."""
    rest = value << 1 if value >= 0 else (-value << 1) - 1
    out = bytearray()
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)


class _Reader:
    """A position in the bytes of the records that never exceeds `end`."""

    __slots__ = ("data", "end", "position")

    def __init__(self, data: memoryview) -> None:
        self.data, self.position, self.end = data, 0, len(data)

    def varint(self, bits: int = 32) -> int:
        """The next zigzag varint. Errors: InvalidRecordError if it is cut short or wider than `bits`."""
        raw = shift = 0
        while True:
            if self.position >= self.end or shift >= bits:
                raise InvalidRecordError(f"a varint is cut short or longer than {bits} bits")
            byte = self.data[self.position]
            self.position += 1
            raw |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
        if raw >> bits:
            raise InvalidRecordError(f"a varint is longer than {bits} bits")
        return raw >> 1 if not raw & 1 else -(raw >> 1) - 1

    def take(self, length: int) -> bytes:
        """The next `length` bytes. Errors: InvalidRecordError if fewer are left."""
        if not 0 <= length <= self.end - self.position:
            raise InvalidRecordError(f"a length of {length} with {self.end - self.position} bytes left")
        start = self.position
        self.position += length
        return bytes(self.data[start : self.position])

    def nullable(self) -> bytes | None:
        """The next length and its bytes; any negative length is null, as in Kafka."""
        length = self.varint()
        return None if length < 0 else self.take(length)

    def headers(self) -> tuple[Header, ...]:
        count = self.varint()
        if count < 0 or count * MIN_HEADER_BYTES > self.end - self.position:
            raise InvalidRecordError(f"{count} headers in {self.end - self.position} bytes")
        return tuple((self._header_key(), self.nullable()) for _ in range(count))

    def _header_key(self) -> str:
        try:
            return str(self.take(self.varint()), "utf-8")
        except UnicodeDecodeError as error:
            raise InvalidRecordError("a header key is not UTF-8") from error


def walk_records(
    header: BatchHeader, payload: Buffer, *, topic: str = "", partition: int = -1, is_dense: bool = False
) -> Iterator[Record]:
    """The records of an opened batch, one at a time.

    Errors: InvalidRecordError at the first invalid record.
    """
    for found in locate_records(header, payload, topic=topic, partition=partition, is_dense=is_dense):
        yield found.record


def locate_records(
    header: BatchHeader, payload: Buffer, *, topic: str = "", partition: int = -1, is_dense: bool = False
) -> Iterator[Located]:
    """`walk_records` with the position of each record."""
    reader = _Reader(memoryview(payload))
    payload_end = reader.end
    last_delta = -1
    has_append_time = bool(header.attributes & LOG_APPEND_TIME_BIT)
    for index in range(header.record_count):
        start = reader.position
        length = reader.varint()
        if not 0 <= length <= payload_end - reader.position:
            raise InvalidRecordError(f"a record of {length} bytes, {payload_end - reader.position} left")
        body = reader.position
        reader.end = body + length
        reader.take(1)  # attributes: none is in use
        timestamp = header.base_timestamp + reader.varint(64)
        rest = reader.position
        if has_append_time:
            timestamp = header.max_timestamp
        delta = reader.varint()
        _check_delta(delta, last_delta, header, index if is_dense else None)
        last_delta = delta
        if not INT64_MIN <= timestamp <= INT64_MAX:
            raise InvalidRecordError(f"timestamp {timestamp} does not fit in 64 bits")
        key, value, headers = reader.nullable(), reader.nullable(), reader.headers()
        if reader.position != reader.end:
            raise InvalidRecordError(f"{reader.end - reader.position} bytes after the last header")
        reader.end = payload_end
        record = Record(
            topic,
            partition,
            header.base_offset + delta,
            timestamp,
            int(has_append_time),
            key,
            value,
            headers,
            header.leader_epoch,
        )
        yield Located(record, start, body, rest, reader.position)
    if reader.position != payload_end:
        raise InvalidRecordError(f"{payload_end - reader.position} bytes after the last record")


def _check_delta(delta: int, last_delta: int, header: BatchHeader, expected: int | None) -> None:
    if expected is not None and delta != expected:
        raise InvalidRecordError(f"offset delta {delta} where {expected} was due")
    if not last_delta < delta <= header.last_offset_delta:
        raise InvalidRecordError(f"offset delta {delta} after {last_delta} of {header.last_offset_delta}")
    if header.base_offset + delta > INT64_MAX:
        raise InvalidRecordError(f"offset {header.base_offset + delta} does not fit in 64 bits")
