"""Arrow arrays as columns of the codec, without copies where the layout allows it. Pure.

Slices, 64-bit offsets, fixed sizes, dictionaries and maps are converted to plain binary. A piece whose column
would exceed 2 GB raises TooWide: the caller halves it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from ...protocol.records.columns import BinaryColumn, HeaderColumn
from .library import pa, pc

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_COLUMN_BYTES = 2**31 - 1


class TooWide(Exception):
    """The values of a column do not fit 32-bit offsets."""


def to_binary(column: Any) -> Any:
    """The values as an array of type binary. Errors: TooWide."""
    types, kind = pa.types, column.type
    if types.is_dictionary(kind):
        words = column.dictionary
        longest = 0 if not len(words) else pc.max(pc.binary_length(words)).as_py() or 0
        if len(column) * longest > MAX_COLUMN_BYTES:
            raise TooWide
        return to_binary(column.dictionary_decode())
    if types.is_large_binary(kind) or types.is_large_string(kind):
        column = _narrow(column)
    elif types.is_fixed_size_binary(kind) and len(column) * kind.byte_width > MAX_COLUMN_BYTES:
        raise TooWide
    return column.cast(pa.binary())


def binary_column(column: Any) -> BinaryColumn | None:
    """The buffers of an array of type binary or string; None if all values are null."""
    if column.null_count == len(column):
        return None
    validity, offsets, data = column.buffers()
    if not column.null_count:
        validity = None
    return BinaryColumn(offsets, b"" if data is None else data, validity, column.offset)


def lengths(column: Any) -> Any:
    """Bytes per row as int64, null as 0."""
    return pc.fill_null(pc.binary_length(column), 0).cast(pa.int64())


class Headers(NamedTuple):
    """The headers of some rows, and the bytes of each row's names and values."""

    column: HeaderColumn
    row_bytes: Callable[[int], Any]  # overhead per header -> int64 array


def header_column(column: Any) -> Headers | None:
    """The headers of a list of structs or a map; None if no row has headers. Errors: TooWide."""
    types, count = pa.types, len(column)
    if types.is_null(column.type) or not count:
        return None
    width = 8 if types.is_large_list(column.type) else 4
    starts = _offsets(column, width)
    first, last = starts[0].as_py(), starts[count].as_py()
    if first == last:
        return None
    if types.is_map(column.type):
        names, values = column.keys, column.items
    else:
        pairs = column.values
        names, values = pairs.field("key"), pairs.field("value")
    # only the values of these rows; their offsets start at 0
    names = to_binary(names.slice(first, last - first))
    values = to_binary(values.slice(first, last - first))
    starts = pc.subtract(starts, first).cast(pa.int32())
    validity = _bitmap(column) if column.null_count else None
    all_null = BinaryColumn(bytes(4 * (last - first + 1)), b"", bytes((last - first + 7) // 8))
    found = HeaderColumn(
        starts.buffers()[1], binary_column(names) or all_null, binary_column(values) or all_null, validity
    )

    def row_bytes(per_header: int) -> Any:
        each = pc.add(pc.add(lengths(names), lengths(values)), per_header)
        sums = pa.concat_arrays([pa.array([0], pa.int64()), pc.cumulative_sum(each)])
        ends = pc.take(sums, starts)
        return pc.subtract(ends.slice(1), ends.slice(0, count))

    return Headers(found, row_bytes)


def int32s(column: Any) -> Any:
    """Integers as int32, clamped to its range."""
    if pa.types.is_uint64(column.type):
        column = pc.min_element_wise(column, pa.scalar(2**31 - 1, pa.uint64()), skip_nulls=False)
    column = column.cast(pa.int64())
    column = pc.min_element_wise(column, pa.scalar(2**31 - 1, pa.int64()), skip_nulls=False)
    return pc.max_element_wise(column, pa.scalar(-(2**31), pa.int64()), skip_nulls=False).cast(pa.int32())


def milliseconds(column: Any, now_ms: int) -> Any:
    """Timestamps as int64 in ms, nulls as `now_ms`; values beyond 64 bits become negative."""
    if pa.types.is_timestamp(column.type):
        column = _ms_of(column.cast(pa.int64()), column.type.unit)
    elif pa.types.is_uint64(column.type):
        is_far = pc.greater(column, pa.scalar(2**63 - 1, pa.uint64()))
        column = pc.if_else(is_far, pa.scalar(None, pa.uint64()), column).cast(pa.int64())
        column = pc.if_else(is_far, pa.scalar(-1, pa.int64()), column)
    return pc.fill_null(column.cast(pa.int64()), now_ms)


def buffer_of(column: Any, width: int) -> Any:
    """The value buffer of a fixed-width array without nulls, `width` bytes per value."""
    return column.buffers()[1].slice(column.offset * width, len(column) * width)


def _ms_of(times: Any, unit: str) -> Any:
    """int64 of any unit as ms; values before 1970 or out of range become -1."""
    is_bad = pc.less(times, 0)
    if unit == "s":
        is_bad = pc.or_(is_bad, pc.greater(times, (2**63 - 1) // 1000))
    times = pc.if_else(is_bad, pa.scalar(-1, pa.int64()), times)
    if unit == "ms":
        return times
    per_ms = 1000 if unit == "us" else 1_000_000
    scaled = pc.multiply(times, 1000) if unit == "s" else pc.divide(times, per_ms)  # rounds towards 0
    return pc.if_else(is_bad, times, scaled)


def _offsets(column: Any, width: int) -> Any:
    kind = pa.int64() if width == 8 else pa.int32()
    buffer = column.buffers()[1]
    return pa.Array.from_buffers(kind, len(column) + 1, [None, buffer], offset=column.offset)


def _bitmap(column: Any) -> Any:
    """The validity bits, starting at bit 0 of the buffer."""
    return pa.concat_arrays([pc.is_valid(column), pa.array([], pa.bool_())]).buffers()[1]


def _narrow(column: Any) -> Any:
    """An array with 32-bit offsets; offsets of a slice far inside a long buffer are moved to its start."""
    if not len(column):
        return column
    starts = _offsets(column, 8)
    first, last = starts[0].as_py(), starts[len(column)].as_py()
    if last - first > MAX_COLUMN_BYTES:
        raise TooWide
    if last <= MAX_COLUMN_BYTES:
        return column
    return pa.concat_arrays([column, pa.array([], column.type)])
