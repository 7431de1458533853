"""The Python codec of record batches: the reference for the compiled one.

One record, in the records after the batch header (`header.py`); every length and delta is a zigzag varint (7
bits per byte, low bits first):

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
from typing import TYPE_CHECKING

from ..model import NO_TIMESTAMP
from .cleaning import clean_batch, empty_batch
from .column_reading import PythonColumnSink
from .column_writing import append_columns, append_values, check_timestamp
from .compression import compress
from .hashing import check_hash_key, hash_column, murmur2, partition_rows
from .header import HEADER_BYTES, MAGIC, BatchHeader, Buffer, Compression, TimestampType, sealed_batch
from .interfaces import LOAD_FACTOR
from .offset_map import PythonOffsetMap
from .opening import MAX_DECOMPRESSED_BYTES, BatchFacts, open_batch
from .record_bytes import varint, walk_records
from .settings import (
    INT32_MAX,
    INT64_MAX,
    MAX_HEADER_OVERHEAD_BYTES,
    MAX_RECORD_OVERHEAD_BYTES,
    BatchSettings,
    check_settings,
    stamped,
)
from .walking import walk_sound

if TYPE_CHECKING:
    from collections.abc import Sequence

    from _typeshed import ReadableBuffer

    from .columns import BinaryColumn, Columns
    from .interfaces import BatchBuilder, Cleaned, ColumnSink, Header, OffsetMap, RecordLike


# --- writing ------------------------------------------------------------------------------------------


def _nullable(name: str, data: bytes | None) -> bytes:
    if data is None:
        return b"\x01"  # the varint of -1
    if not isinstance(data, bytes):
        raise TypeError(f"{name} must be bytes or None, not {type(data).__name__}")
    return varint(len(data)) + data


def _encoded_header(header: object) -> bytes:
    if not isinstance(header, tuple) or len(header) != 2:
        raise TypeError("a header must be a (str, bytes or None) tuple")
    key, value = header
    if not isinstance(key, str):
        raise TypeError(f"a header key must be str, not {type(key).__name__}")
    encoded = key.encode()
    return varint(len(encoded)) + encoded + _nullable("a header value", value)


class PythonBatchBuilder:
    """See interfaces.BatchBuilder."""

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
                varint(timestamp_ms - base),
                varint(self.count),
                _nullable("a key", key),
                _nullable("a value", value),
                varint(len(encoded_headers)),
                *encoded_headers,
            )
        )
        if not self._has_room(len(body)):
            return -1
        self._records += varint(len(body)) + body
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
        """Whether a record with this body fits. Errors: ValueError if it exceeds the maximum size of any
        batch."""
        if body_bytes > INT32_MAX:
            raise ValueError(f"a record of {body_bytes} bytes does not fit in a batch")
        size_bytes = self.size_bytes + len(varint(body_bytes)) + body_bytes
        if self.count and size_bytes > self._settings.max_bytes:
            return False
        if size_bytes > INT32_MAX:
            raise ValueError(f"a record of {body_bytes} bytes does not fit in a batch")
        return True

    def stamp(
        self, producer_id: int, producer_epoch: int, base_sequence: int, is_transactional: bool
    ) -> None:
        if self._is_built:
            raise ValueError("the batch is already built")
        self._settings = stamped(self._settings, producer_id, producer_epoch, base_sequence, is_transactional)

    def build(self) -> bytes:
        if not self.count or self._base_timestamp is None:
            raise ValueError("a batch needs at least one record")
        self._is_built = True
        settings = self._settings
        payload = compress(settings.compression, self._records, settings.level)
        header = BatchHeader(
            base_offset=0,
            batch_length=0,
            leader_epoch=-1,
            magic=MAGIC,
            crc=0,
            attributes=settings.attributes,
            last_offset_delta=self.count - 1,
            base_timestamp=self._base_timestamp,
            max_timestamp=self._max_timestamp,
            producer_id=settings.producer_id,
            producer_epoch=settings.producer_epoch,
            base_sequence=settings.base_sequence,
            record_count=self.count,
        )
        return sealed_batch(header, payload)

    def finish(self) -> Buffer:
        return self.build()


# --- codec --------------------------------------------------------------------------------------------------


class PythonCodec:
    """The Python codec; see interfaces.RecordCodec. `hash_key`: the secret key of offset maps' hashes."""

    name = "python"

    def __init__(self, hash_key: bytes) -> None:
        self._hash_key = check_hash_key(hash_key)

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
        return [*walk_records(header, payload, topic=topic, partition=partition, is_dense=False)]

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
        first_null_key = -1
        records = walk_records(header, payload, topic="", partition=-1, is_dense=is_dense)
        for index, record in enumerate(records):
            if record.key is None and first_null_key < 0:
                first_null_key = index
            lowest = record.timestamp if lowest is None else min(lowest, record.timestamp)
            highest = record.timestamp if highest is None else max(highest, record.timestamp)
        if lowest is None or highest is None:
            return BatchFacts(header, NO_TIMESTAMP, NO_TIMESTAMP)
        return BatchFacts(header, lowest, highest, first_null_key)

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

    def offset_map(self, memory_bytes: int, *, load_factor: float = LOAD_FACTOR) -> OffsetMap:
        return PythonOffsetMap(memory_bytes, load_factor, self._hash_key)

    def clean_batch(
        self,
        batch: Buffer,
        offset_map: OffsetMap,
        *,
        now_ms: int,
        delete_retention_ms: int,
        is_horizon_due: bool = False,
        check_crc: bool = True,
        max_decompressed_bytes: int = MAX_DECOMPRESSED_BYTES,
    ) -> Cleaned:
        return clean_batch(
            batch,
            offset_map,
            now_ms=now_ms,
            delete_retention_ms=delete_retention_ms,
            is_horizon_due=is_horizon_due,
            check_crc=check_crc,
            max_decompressed_bytes=max_decompressed_bytes,
        )

    def empty_batch(self, header: BatchHeader) -> bytes:
        return empty_batch(header)
