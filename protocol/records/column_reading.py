"""Collects records of many batches by column. Equivalent to `_columns_reading.pxi`."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

from .columns import BinaryColumn, DecodedColumns, HeaderColumn
from .header import Buffer, read_batch_header
from .opening import MAX_DECOMPRESSED_BYTES
from .settings import INT32_MAX

if TYPE_CHECKING:
    from .interfaces import RecordCodec, RecordLike


class _Growing:
    """A binary column under construction."""

    def __init__(self) -> None:
        self._offsets, self._data, self._validity = array("i", [0]), bytearray(), bytearray()
        self._has_null = False

    @property
    def size_bytes(self) -> int:
        return len(self._data)

    @property
    def count(self) -> int:
        return len(self._offsets) - 1

    def add(self, value: bytes | None) -> None:
        if self.count % 8 == 0:
            self._validity.append(0)
        self._validity[-1] |= (value is not None) << self.count % 8
        self._has_null |= value is None
        self._data += value or b""
        self._offsets.append(len(self._data))

    def finish(self) -> BinaryColumn:
        validity = bytes(self._validity) if self._has_null else None
        return BinaryColumn(self._offsets.tobytes(), bytes(self._data), validity)


class PythonColumnSink:
    """See interfaces.ColumnSink."""

    def __init__(
        self, codec: RecordCodec, *, keys: bool, values: bool, headers: bool, max_column_bytes: int
    ) -> None:
        if not 1 <= max_column_bytes <= INT32_MAX:
            raise ValueError(f"max_column_bytes must be between 1 and {INT32_MAX}, not {max_column_bytes}")
        self.count = 0
        self._codec, self._max_column_bytes, self._is_finished = codec, max_column_bytes, False
        self._keys = _Growing() if keys else None
        self._values = _Growing() if values else None
        self._header_offsets = array("i", [0]) if headers else None
        self._header_keys, self._header_values = _Growing(), _Growing()
        self._partitions, self._timestamp_types, self._leader_epochs = array("i"), array("i"), array("i")
        self._offsets, self._timestamps = array("q"), array("q")

    def append(
        self,
        batch: Buffer,
        *,
        partition: int,
        from_offset: int = 0,
        max_rows: int,
        check_crc: bool = True,
        max_decompressed_bytes: int = MAX_DECOMPRESSED_BYTES,
    ) -> tuple[int, int]:
        if self._is_finished:
            raise ValueError("the columns are already finished")
        if max_rows < 0 or not -INT32_MAX <= partition <= INT32_MAX:
            raise ValueError(f"max_rows {max_rows}, partition {partition}")
        records = self._codec.decode(
            batch,
            partition=partition,
            check_crc=check_crc,
            max_decompressed_bytes=max_decompressed_bytes,
        )
        wanted = [record for record in records if record.offset >= from_offset]
        for taken, record in enumerate(wanted):
            if taken == max_rows or not self._has_room(record):
                return taken, record.offset
            self._add(record)
        return len(wanted), read_batch_header(batch).next_offset

    def _has_room(self, record: RecordLike) -> bool:
        if not self.count:
            return True
        needs: list[tuple[_Growing, int]] = []
        if self._keys is not None:
            needs.append((self._keys, len(record.key or b"")))
        if self._values is not None:
            needs.append((self._values, len(record.value or b"")))
        if self._header_offsets is not None:
            needs.append((self._header_keys, sum(len(key.encode()) for key, _ in record.headers)))
            needs.append((self._header_values, sum(len(value or b"") for _, value in record.headers)))
        limit = self._max_column_bytes
        return all(not needed or column.size_bytes + needed <= limit for column, needed in needs)

    def _add(self, record: RecordLike) -> None:
        if self._keys is not None:
            self._keys.add(record.key)
        if self._values is not None:
            self._values.add(record.value)
        if self._header_offsets is not None:
            for key, value in record.headers:
                self._header_keys.add(key.encode())
                self._header_values.add(value)
            self._header_offsets.append(self._header_keys.count)
        self._partitions.append(record.partition)
        self._offsets.append(record.offset)
        self._timestamps.append(record.timestamp)
        self._timestamp_types.append(record.timestamp_type)
        self._leader_epochs.append(record.leader_epoch)
        self.count += 1

    def finish(self) -> DecodedColumns:
        if self._is_finished:
            raise ValueError("the columns are already finished")
        self._is_finished = True
        count, self.count = self.count, 0
        headers = None
        if self._header_offsets is not None:
            pairs = self._header_keys.finish(), self._header_values.finish()
            headers = HeaderColumn(self._header_offsets.tobytes(), *pairs)
        return DecodedColumns(
            count,
            None if self._keys is None else self._keys.finish(),
            None if self._values is None else self._values.finish(),
            self._partitions.tobytes(),
            self._offsets.tobytes(),
            self._timestamps.tobytes(),
            self._timestamp_types.tobytes(),
            self._leader_epochs.tobytes(),
            headers,
        )
