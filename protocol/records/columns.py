"""Columns of many records: input and output of the codec without an object per record.

The layout is Apache Arrow's, so that tables are read and written without a copy, but Arrow is not required:
any contiguous object with the buffer protocol works. Integers are in native byte order. Source: Arrow
columnar format 1.4, variable-size binary, list and struct layouts.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Literal, NamedTuple

from .settings import INT32_MAX

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


class BinaryColumn(NamedTuple):
    """Bytes of many rows: value i is data[offsets[first+i] : offsets[first+i+1]].

    `offsets` is int32. Bit first+i of `validity`, lowest bit first, is set if the value is not null (offsets
    of nulls are ignored); without `validity` no value is null.
    """

    offsets: ReadableBuffer
    data: ReadableBuffer
    validity: ReadableBuffer | None = None
    first: int = 0


class HeaderColumn(NamedTuple):
    """Headers of many rows: those of row i are the pairs offsets[first+i] .. offsets[first+i+1].

    Pair n is keys[n] (UTF-8, never null) and values[n]; `offsets` is int32. A null row has no headers.
    """

    offsets: ReadableBuffer
    keys: BinaryColumn
    values: BinaryColumn
    validity: ReadableBuffer | None = None
    first: int = 0


class Columns(NamedTuple):
    """Input columns. `timestamps` is int64 in ms; None: the call's timestamp for all rows. A column that is
    None is null in every row, or without headers."""

    count: int  # type: ignore[assignment]  # hides tuple.count, which is not used
    values: BinaryColumn | None
    keys: BinaryColumn | None = None
    timestamps: ReadableBuffer | None = None
    headers: HeaderColumn | None = None


class DecodedColumns(NamedTuple):
    """Output columns with `count` rows in the order of reading; `first` is 0 everywhere.

    `partitions`, `timestamp_types` (0 create, 1 append) and `leader_epochs` are int32, `offsets` and
    `timestamps` (ms) int64. A column that was not selected is None. All buffers are read-only.
    """

    count: int  # type: ignore[assignment]  # hides tuple.count, which is not used
    keys: BinaryColumn | None
    values: BinaryColumn | None
    partitions: ReadableBuffer
    offsets: ReadableBuffer
    timestamps: ReadableBuffer
    timestamp_types: ReadableBuffer
    leader_epochs: ReadableBuffer
    headers: HeaderColumn | None


def check_count(count: int) -> None:
    """Errors: ValueError for a row count that does not fit in 32 bits."""
    if not 0 <= count <= INT32_MAX:
        raise ValueError(f"{count} rows")


def items(buffer: ReadableBuffer, code: Literal["B", "i", "q"]) -> memoryview:
    """The items of a contiguous buffer, by their `struct` code. Errors: ValueError if it is not
    contiguous."""
    view = memoryview(buffer)
    if not view.c_contiguous:
        raise ValueError("a column's buffer must be contiguous")
    size = struct.calcsize(code)
    return view.cast("B")[: view.nbytes // size * size].cast(code)


class Spans:
    """Offsets and validity of a column; rows are read one by one and never outside of the buffers.

    Errors: ValueError if the buffers have fewer than `count` rows.
    """

    def __init__(self, column: BinaryColumn | HeaderColumn, count: int) -> None:
        if column.first < 0:
            raise ValueError(f"a column starts at row {column.first}")
        self._first = column.first
        self._offsets = items(column.offsets, "i")
        self._validity = None if column.validity is None else items(column.validity, "B")
        self.available = max(0, len(self._offsets) - 1 - column.first)
        if self._validity is not None:
            self.available = min(self.available, max(0, len(self._validity) * 8 - column.first))
        if self.available < count:
            raise ValueError(f"a column of {count} rows has buffers for {self.available}")

    def span(self, row: int, end: int) -> slice | None:
        """The range of the row in the `end` items that the offsets refer to; None for null.

        Errors: ValueError for decreasing offsets or offsets out of range.
        """
        position = self._first + row
        if self._validity is not None and not self._validity[position >> 3] >> (position & 7) & 1:
            return None
        low, high = self._offsets[position], self._offsets[position + 1]
        if not 0 <= low <= high <= end:
            raise ValueError(f"offsets {low} and {high} of row {row}, with {end} behind them")
        return slice(low, high)


class BinaryValues(Spans):
    """The values of a binary column. Errors: ValueError as in Spans."""

    def __init__(self, column: BinaryColumn, count: int) -> None:
        super().__init__(column, count)
        self._data = items(column.data, "B")

    def value(self, row: int) -> bytes | None:
        """The value of one row below `available`. Errors: ValueError as in `span`."""
        span = self.span(row, len(self._data))
        return None if span is None else bytes(self._data[span])
