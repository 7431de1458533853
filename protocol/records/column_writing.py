"""Appends rows of columns to a batch. Equivalent to `_columns_writing.pxi`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .columns import BinaryValues, Columns, HeaderColumn, Spans, check_count, items
from .settings import INT64_MAX

if TYPE_CHECKING:
    from collections.abc import Sequence

    from _typeshed import ReadableBuffer

    from .interfaces import BatchBuilder, Header


class _HeaderRows(Spans):
    """The headers of each row."""

    def __init__(self, column: HeaderColumn, count: int) -> None:
        super().__init__(column, count)
        self._keys, self._values = BinaryValues(column.keys, 0), BinaryValues(column.values, 0)
        self._pairs = min(self._keys.available, self._values.available)

    def headers(self, row: int) -> list[Header]:
        """Errors: ValueError for invalid offsets, a key that is null or not UTF-8."""
        span = self.span(row, self._pairs)
        return [] if span is None else [self._pair(n) for n in range(span.start, span.stop)]

    def _pair(self, number: int) -> Header:
        key = self._keys.value(number)
        if key is None:
            raise ValueError("a header key is null")
        return key.decode(), self._values.value(number)


class _Table:
    """Validated columns of `count` rows, read row by row."""

    def __init__(self, columns: Columns, timestamp_ms: int) -> None:
        count = columns.count
        check_count(count)
        self._keys = None if columns.keys is None else BinaryValues(columns.keys, count)
        self._values = None if columns.values is None else BinaryValues(columns.values, count)
        self._headers = None if columns.headers is None else _HeaderRows(columns.headers, count)
        self._timestamps = None if columns.timestamps is None else items(columns.timestamps, "q")
        self._timestamp_ms = timestamp_ms
        if self._timestamps is None:
            check_timestamp(timestamp_ms)
        elif len(self._timestamps) < count:
            raise ValueError(f"{len(self._timestamps)} timestamps for {count} rows")

    def row(self, row: int) -> tuple[int, bytes | None, bytes | None, Sequence[Header]]:
        """The arguments of `append`."""
        return (
            self._timestamp_ms if self._timestamps is None else self._timestamps[row],
            None if self._keys is None else self._keys.value(row),
            None if self._values is None else self._values.value(row),
            () if self._headers is None else self._headers.headers(row),
        )


def check_timestamp(timestamp_ms: int) -> None:
    """Errors: ValueError for an invalid record timestamp."""
    if not -1 <= timestamp_ms <= INT64_MAX:
        raise ValueError(f"a timestamp is -1 or at least 0 and fits in 64 bits, not {timestamp_ms}")


def append_columns(
    builder: BatchBuilder,
    columns: Columns,
    timestamp_ms: int,
    rows: ReadableBuffer | None,
    start: int,
    end: int,
    stop_bytes: int,
) -> int:
    """See interfaces.BatchBuilder.append_columns."""
    table = _Table(columns, timestamp_ms)
    numbers = range(columns.count) if rows is None else items(rows, "i")
    if not 0 <= start <= end <= len(numbers):
        raise ValueError(f"rows {start} to {end} of {len(numbers)}")
    for position in range(start, end):
        row = numbers[position]
        if not 0 <= row < columns.count:
            raise ValueError(f"row {row} of {columns.count}")
        if builder.append(*table.row(row)) < 0:
            return position
        if builder.size_bytes > stop_bytes:
            return position + 1
    return end


def append_values(
    builder: BatchBuilder, timestamp_ms: int, values: Sequence[bytes | None], start: int, stop_bytes: int
) -> int:
    """See interfaces.BatchBuilder.append_values."""
    check_timestamp(timestamp_ms)
    if not 0 <= start <= len(values):
        raise ValueError(f"values from {start} of {len(values)}")
    for position in range(start, len(values)):
        if builder.append(timestamp_ms, None, values[position]) < 0:
            return position
        if builder.size_bytes > stop_bytes:
            return position + 1
    return len(values)
