"""The Arrow layout of records, shared by clients and all integrations: Spark's Kafka columns.

| column | type | |
| --- | --- | --- |
| key | binary | null for none |
| value | binary | null is a tombstone |
| topic | string | |
| partition | int32 | |
| offset | int64 | |
| timestamp | timestamp[us, UTC] | null for none; the log's own under LogAppendTime |
| timestampType | int32 | 0 CreateTime, 1 LogAppendTime |
| headers | list<struct<key: string, value: binary>> | empty for none |
"""

from __future__ import annotations

from array import array
from itertools import accumulate
from typing import TYPE_CHECKING, Any, NamedTuple

from .library import pa, pc

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ...protocol.records.codec import BinaryColumn, DecodedColumns, HeaderColumn

HEADERS_TYPE: Any = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
ARROW_SCHEMA: Any = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", tz="UTC")),
        ("timestampType", pa.int32()),
        ("headers", HEADERS_TYPE),
    ]
)
_MS: Any = pa.timestamp("ms", tz="UTC")
_US: Any = pa.timestamp("us", tz="UTC")
# The range of 64-bit microseconds: the year 294,246. Later timestamps are clamped.
_MAX_MS = (2**63 - 1) // 1000


class Projection(NamedTuple):
    """The selected columns of the layout, in the requested order."""

    schema: Any  # pyarrow.Schema

    def has(self, name: str) -> bool:
        """Whether a column is selected."""
        return name in self.schema.names


def projection(columns: Iterable[str] | None) -> Projection:
    """The named columns; None for all. Errors: TypeError; ValueError for empty, unknown or duplicate
    names."""
    if columns is None:
        return Projection(ARROW_SCHEMA)
    if isinstance(columns, (str, bytes)):
        raise TypeError(f"columns= must be a list of names, not {columns!r}")
    names = list(columns)
    known = ", ".join(ARROW_SCHEMA.names)
    if not names:
        raise ValueError(f"columns= is empty; the columns are {known}")
    for name in names:
        if name not in ARROW_SCHEMA.names:
            raise ValueError(f"unknown column {name!r}; the columns are {known}")
    if len(set(names)) < len(names):
        raise ValueError(f"columns= has duplicates: {names}")
    return Projection(pa.schema([ARROW_SCHEMA.field(name) for name in names]))


def to_record_batch(wanted: Projection, decoded: DecodedColumns, topics: Sequence[tuple[str, int]]) -> Any:
    """A pyarrow.RecordBatch over the buffers of `decoded`. `topics` are runs of (name, rows) in row order."""
    count = decoded.count
    makers = {
        "key": lambda: _binary(pa.binary(), decoded.keys, count),
        "value": lambda: _binary(pa.binary(), decoded.values, count),
        "topic": lambda: _topics(topics),
        "partition": lambda: _plain(pa.int32(), decoded.partitions, count),
        "offset": lambda: _plain(pa.int64(), decoded.offsets, count),
        "timestamp": lambda: _timestamps(_plain(pa.int64(), decoded.timestamps, count)),
        "timestampType": lambda: _plain(pa.int32(), decoded.timestamp_types, count),
        "headers": lambda: _headers(decoded.headers, count),
    }
    return pa.RecordBatch.from_arrays([makers[name]() for name in wanted.schema.names], schema=wanted.schema)


def _plain(kind: Any, data: Any, count: int) -> Any:
    return pa.Array.from_buffers(kind, count, [None, pa.py_buffer(data)])


def _binary(kind: Any, column: BinaryColumn | None, count: int) -> Any:
    assert column is not None, "selected columns are decoded"
    validity = None if column.validity is None else pa.py_buffer(column.validity)
    buffers = [validity, pa.py_buffer(column.offsets), pa.py_buffer(column.data)]
    return pa.Array.from_buffers(kind, count, buffers, offset=column.first)


def _topics(runs: Sequence[tuple[str, int]]) -> Any:
    """Built from buffers: pyarrow's first scalar, or array of Python objects, imports pandas if installed,
    which would block an event loop for tenths of a second."""
    names = [name.encode() for name, _ in runs]
    ends = array("i", accumulate(map(len, names), initial=0))
    words = pa.Array.from_buffers(
        pa.string(), len(names), [None, pa.py_buffer(ends), pa.py_buffer(b"".join(names))]
    )
    numbers = array("i")
    for number, (_, count) in enumerate(runs):
        numbers.extend(array("i", [number]) * count)
    return words.take(_plain(pa.int32(), numbers, len(numbers)))


def _timestamps(times: Any) -> Any:
    edges = pc.min_max(times).as_py()
    if edges["min"] is not None and edges["min"] < 0:  # -1: the record has no timestamp
        times = pc.if_else(pc.less(times, 0), pa.scalar(None, pa.int64()), times)
    if edges["max"] is not None and edges["max"] > _MAX_MS:
        times = pc.min_element_wise(times, pa.scalar(_MAX_MS, pa.int64()), skip_nulls=False)
    return times.cast(_MS).cast(_US)


def _headers(column: HeaderColumn | None, count: int) -> Any:
    assert column is not None, "selected columns are decoded"
    pairs = memoryview(column.offsets).cast("B").cast("i")[column.first + count]
    keys = _binary(pa.string(), column.keys, pairs)
    values = _binary(pa.binary(), column.values, pairs)
    children = [pa.StructArray.from_arrays([keys, values], fields=list(HEADERS_TYPE.value_type))]
    validity = None if column.validity is None else pa.py_buffer(column.validity)
    buffers = [validity, pa.py_buffer(column.offsets)]
    return pa.Array.from_buffers(HEADERS_TYPE, count, buffers, offset=column.first, children=children)
