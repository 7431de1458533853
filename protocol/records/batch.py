"""The readable codec of record batches: the truth that the compiled twin is measured against.

One record, as it stands in a batch behind the header of `header.py`; every length and delta is a zigzag
varint (7 bits per byte, low bits first):

    length            varint   bytes after this field
    attributes        i8       unused, 0
    timestamp delta   varlong  ms, to the base timestamp of the batch
    offset delta      varint   to the base offset of the batch
    key               varint length, -1 for null, then bytes
    value             likewise
    header count      varint
    headers           key (varint length, UTF-8, never null), value (varint length, -1 for null, bytes)

Source: Kafka DefaultRecord.java; KIP-82, KIP-98.
"""

from __future__ import annotations

import operator
import struct
from typing import TYPE_CHECKING

from crc32c import crc32c

from ..errors import InvalidRecordError
from ..model import NO_TIMESTAMP
from .column_reading import PythonColumnSink
from .column_writing import append_columns, append_values, check_timestamp
from .compression import compress
from .hashing import hash_column, murmur2, partition_rows
from .header import (
    ATTRIBUTES_POSITION,
    HEADER_BYTES,
    LENGTH_END,
    LOG_APPEND_TIME_BIT,
    BatchHeader,
    Buffer,
    Compression,
    TimestampType,
    assigned_prefix,
)
from .opening import MAX_DECOMPRESSED_BYTES, BatchFacts, open_batch
from .record import Record
from .settings import (
    INT32_MAX,
    INT64_MAX,
    INT64_MIN,
    MAX_HEADER_OVERHEAD_BYTES,
    MAX_RECORD_OVERHEAD_BYTES,
    MIN_HEADER_BYTES,
    BatchSettings,
    check_settings,
)
from .walking import walk_sound

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from _typeshed import ReadableBuffer

    from .codec import BatchBuilder, ColumnSink, Header, RecordLike
    from .columns import BinaryColumn, Columns

# crc (4) then what the CRC covers of the header: attributes .. record count
_COVERED_HEADER = struct.Struct(">hiqqqhii")
_CRC = struct.Struct(">I")
assert ATTRIBUTES_POSITION + _COVERED_HEADER.size == HEADER_BYTES


# --- writing ------------------------------------------------------------------------------------------


def _varint(value: int) -> bytes:
    """`value`, up to 64 bits with sign, as a zigzag varint."""
    rest = value << 1 if value >= 0 else (-value << 1) - 1
    out = bytearray()
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)


def _nullable(name: str, data: bytes | None) -> bytes:
    if data is None:
        return b"\x01"  # the varint of -1
    if not isinstance(data, bytes):
        raise TypeError(f"{name} must be bytes or None, not {type(data).__name__}")
    return _varint(len(data)) + data


def _encoded_header(header: object) -> bytes:
    if not isinstance(header, tuple) or len(header) != 2:
        raise TypeError("a header must be a (str, bytes or None) tuple")
    key, value = header
    if not isinstance(key, str):
        raise TypeError(f"a header key must be str, not {type(key).__name__}")
    encoded = key.encode()
    return _varint(len(encoded)) + encoded + _nullable("a header value", value)


class PythonBatchBuilder:
    """A batch under construction; see codec.BatchBuilder."""

    def __init__(self, settings: BatchSettings) -> None:
        self._settings = settings
        self._records = bytearray()
        self._base_timestamp = settings.delete_horizon_ms
        self._max_timestamp = -1
        self._is_built = False
        self.count = 0

    @property
    def size_bytes(self) -> int:
        return HEADER_BYTES + len(self._records)

    def append(
        self,
        timestamp_ms: int,
        key: bytes | None,
        value: bytes | None,
        headers: Sequence[Header] = (),
    ) -> int:
        timestamp_ms = operator.index(timestamp_ms)
        encoded_headers = [_encoded_header(header) for header in tuple(headers)]
        if self._is_built:
            raise ValueError("the batch is already built")
        check_timestamp(timestamp_ms)
        base = timestamp_ms if self._base_timestamp is None else self._base_timestamp
        if timestamp_ms - base > INT64_MAX:
            raise ValueError(f"timestamp {timestamp_ms} is too far from the batch's {base}")
        body = b"".join(
            (
                b"\x00",
                _varint(timestamp_ms - base),
                _varint(self.count),
                _nullable("a key", key),
                _nullable("a value", value),
                _varint(len(encoded_headers)),
                *encoded_headers,
            )
        )
        if not self._has_room(len(body)):
            return -1
        self._records += _varint(len(body)) + body
        self._base_timestamp = base
        self._max_timestamp = max(self._max_timestamp, timestamp_ms)
        self.count += 1
        return self.count - 1

    def append_columns(
        self,
        columns: Columns,
        timestamp_ms: int,
        rows: ReadableBuffer | None,
        start: int,
        end: int,
        stop_bytes: int,
    ) -> int:
        if self._is_built:
            raise ValueError("the batch is already built")
        return append_columns(self, columns, timestamp_ms, rows, start, end, stop_bytes)

    def append_values(
        self, timestamp_ms: int, values: Sequence[bytes | None], start: int, stop_bytes: int
    ) -> int:
        if self._is_built:
            raise ValueError("the batch is already built")
        return append_values(self, timestamp_ms, values, start, stop_bytes)

    def _has_room(self, body_bytes: int) -> bool:
        """Whether a record with that body may come in. Errors: ValueError if no batch could hold it."""
        if body_bytes > INT32_MAX:
            raise ValueError(f"a record of {body_bytes} bytes does not fit in a batch")
        size_bytes = self.size_bytes + len(_varint(body_bytes)) + body_bytes
        if self.count and size_bytes > self._settings.max_bytes:
            return False
        if size_bytes > INT32_MAX:
            raise ValueError(f"a record of {body_bytes} bytes does not fit in a batch")
        return True

    def build(self) -> bytes:
        if not self.count or self._base_timestamp is None:
            raise ValueError("a batch needs at least one record")
        self._is_built = True
        settings = self._settings
        payload = compress(settings.compression, self._records, settings.level)
        covered = _COVERED_HEADER.pack(
            settings.attributes,
            self.count - 1,
            self._base_timestamp,
            self._max_timestamp,
            settings.producer_id,
            settings.producer_epoch,
            settings.base_sequence,
            self.count,
        )
        crc = crc32c(payload, crc32c(covered))
        prefix = assigned_prefix(0, HEADER_BYTES - LENGTH_END + len(payload), -1)
        return b"".join((prefix, _CRC.pack(crc), covered, payload))

    def finish(self) -> Buffer:
        return self.build()


# --- reading ------------------------------------------------------------------------------------------


class _Reader:
    """A position in the bytes of the records that never passes `end`."""

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
        """The next `length` bytes. Errors: InvalidRecordError if they are not there."""
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


def _walk(
    header: BatchHeader, payload: Buffer, *, topic: str, partition: int, is_dense: bool
) -> Iterator[Record]:
    """The records of an opened batch, one at a time."""
    reader = _Reader(memoryview(payload))
    payload_end = reader.end
    last_delta = -1
    has_append_time = bool(header.attributes & LOG_APPEND_TIME_BIT)
    for index in range(header.record_count):
        length = reader.varint()
        if not 0 <= length <= payload_end - reader.position:
            raise InvalidRecordError(f"a record of {length} bytes, {payload_end - reader.position} left")
        reader.end = reader.position + length
        reader.take(1)  # attributes: none is in use
        timestamp = header.base_timestamp + reader.varint(64)
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
        yield Record(
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
    if reader.position != payload_end:
        raise InvalidRecordError(f"{payload_end - reader.position} bytes after the last record")


def _check_delta(delta: int, last_delta: int, header: BatchHeader, expected: int | None) -> None:
    if expected is not None and delta != expected:
        raise InvalidRecordError(f"offset delta {delta} where {expected} was due")
    if not last_delta < delta <= header.last_offset_delta:
        raise InvalidRecordError(f"offset delta {delta} after {last_delta} of {header.last_offset_delta}")
    if header.base_offset + delta > INT64_MAX:
        raise InvalidRecordError(f"offset {header.base_offset + delta} does not fit in 64 bits")


# --- the face -----------------------------------------------------------------------------------------


class PythonCodec:
    """The readable codec; see codec.RecordCodec."""

    name = "python"

    def builder(
        self,
        *,
        max_bytes: int,
        compression: Compression = Compression.NONE,
        level: int | None = None,
        timestamp_type: TimestampType = TimestampType.CREATE_TIME,
        producer_id: int = -1,
        producer_epoch: int = -1,
        base_sequence: int = -1,
        is_transactional: bool = False,
        is_control: bool = False,
        delete_horizon_ms: int | None = None,
    ) -> BatchBuilder:
        return PythonBatchBuilder(
            check_settings(
                max_bytes=max_bytes,
                compression=compression,
                level=level,
                timestamp_type=timestamp_type,
                producer_id=producer_id,
                producer_epoch=producer_epoch,
                base_sequence=base_sequence,
                is_transactional=is_transactional,
                is_control=is_control,
                delete_horizon_ms=delete_horizon_ms,
            )
        )

    def record_bytes_bound(
        self, key: bytes | None, value: bytes | None, headers: Sequence[Header] = ()
    ) -> int:
        size_bytes = MAX_RECORD_OVERHEAD_BYTES + len(key or b"") + len(value or b"")
        for name, data in headers:
            size_bytes += MAX_HEADER_OVERHEAD_BYTES + len(name.encode()) + len(data or b"")
        return size_bytes

    def decode(
        self,
        batch: Buffer,
        *,
        topic: str = "",
        partition: int = -1,
        check_crc: bool = True,
        max_decompressed_bytes: int = MAX_DECOMPRESSED_BYTES,
    ) -> list[RecordLike]:
        header, payload = open_batch(
            batch, check_crc=check_crc, is_dense=False, max_decompressed_bytes=max_decompressed_bytes
        )
        return [*_walk(header, payload, topic=topic, partition=partition, is_dense=False)]

    def inspect(
        self,
        batch: Buffer,
        *,
        is_dense: bool = True,
        max_decompressed_bytes: int = MAX_DECOMPRESSED_BYTES,
    ) -> BatchFacts:
        header, payload = open_batch(
            batch, check_crc=True, is_dense=is_dense, max_decompressed_bytes=max_decompressed_bytes
        )
        lowest = highest = None
        for record in _walk(header, payload, topic="", partition=-1, is_dense=is_dense):
            lowest = record.timestamp if lowest is None else min(lowest, record.timestamp)
            highest = record.timestamp if highest is None else max(highest, record.timestamp)
        if lowest is None or highest is None:
            return BatchFacts(header, NO_TIMESTAMP, NO_TIMESTAMP)
        return BatchFacts(header, lowest, highest)

    def walk(
        self,
        data: Buffer,
        at: int,
        end: int,
        base_offset: int,
        upto_offset: int,
        leader_epoch: int,
        *,
        check_crc: bool = True,
        is_dense: bool = True,
    ) -> tuple[int, int]:
        return walk_sound(
            data, at, end, base_offset, upto_offset, leader_epoch, check_crc=check_crc, is_dense=is_dense
        )

    def check(
        self,
        batch: Buffer,
        *,
        is_dense: bool = True,
        max_decompressed_bytes: int = MAX_DECOMPRESSED_BYTES,
    ) -> BatchHeader:
        return self.inspect(batch, is_dense=is_dense, max_decompressed_bytes=max_decompressed_bytes).header

    def columns(
        self,
        *,
        keys: bool = True,
        values: bool = True,
        headers: bool = True,
        max_column_bytes: int = INT32_MAX,
    ) -> ColumnSink:
        return PythonColumnSink(
            self, keys=keys, values=values, headers=headers, max_column_bytes=max_column_bytes
        )

    def murmur2(self, data: bytes) -> int:
        return murmur2(data)

    def hash_column(self, column: BinaryColumn, count: int) -> bytes:
        return hash_column(column, count)

    def partition_rows(self, partitions: ReadableBuffer, partition_count: int) -> tuple[bytes, list[int]]:
        return partition_rows(partitions, partition_count)
