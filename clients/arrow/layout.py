"""The one Arrow layout of records, shared by clients and everything built on them: Spark's Kafka columns.

| column | type | |
| --- | --- | --- |
| key | binary | null for none |
| value | binary | null is a tombstone |
| topic | string | |
| partition | int32 | |
| offset | int64 | |
| timestamp | timestamp[us, UTC] | null for none; the log's own under LogAppendTime |
| timestampType | int32 | 0 the producer's, 1 the log's |
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
# What 64 bits of microseconds hold: the year 294,246. A record may say more; it is shown as this.
_MAX_MS = (2**63 - 1) // 1000


class Projection(NamedTuple):
    """Some columns of the layout, in the order they were asked for."""

    schema: Any  # pyarrow.Schema

    def has(self, name: str) -> bool:
        """Whether a column is wanted."""
        return name in self.schema.names


def projection(columns: Iterable[str] | None) -> Projection:
    """The columns named; None for all. Errors: TypeError, ValueError for no, unknown or doubled names."""
    if columns is None:
        return Projection(ARROW_SCHEMA)
    if isinstance(columns, (str, bytes)):
        raise TypeError(f"columns= takes a list of names, not {columns!r}")
    names = list(columns)
    known = ", ".join(ARROW_SCHEMA.names)
    if not names:
        raise ValueError(f"columns= names no column; there are {known}")
    for name in names:
        if name not in ARROW_SCHEMA.names:
            raise ValueError(f"there is no column {name!r}; there are {known}")
    if len(set(names)) < len(names):
        raise ValueError(f"columns= names a column twice: {names}")
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
    assert column is not None, "columns that are wanted are decoded"
    validity = None if column.validity is None else pa.py_buffer(column.validity)
    buffers = [validity, pa.py_buffer(column.offsets), pa.py_buffer(column.data)]
    return pa.Array.from_buffers(kind, count, buffers, offset=column.first)


def _topics(runs: Sequence[tuple[str, int]]) -> Any:
    """From buffers alone: pyarrow's first scalar, or array of Python objects, imports pandas where that is
    installed, and an event loop would stand still for some tenths of a second."""
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
    if edges["min"] is not None and edges["min"] < 0:  # -1: the record has none
        times = pc.if_else(pc.less(times, 0), pa.scalar(None, pa.int64()), times)
    if edges["max"] is not None and edges["max"] > _MAX_MS:
        times = pc.min_element_wise(times, pa.scalar(_MAX_MS, pa.int64()), skip_nulls=False)
    return times.cast(_MS).cast(_US)


def _headers(column: HeaderColumn | None, count: int) -> Any:
    assert column is not None, "columns that are wanted are decoded"
    pairs = memoryview(column.offsets).cast("B").cast("i")[column.first + count]
    keys = _binary(pa.string(), column.keys, pairs)
    values = _binary(pa.binary(), column.values, pairs)
    children = [pa.StructArray.from_arrays([keys, values], fields=list(HEADERS_TYPE.value_type))]
    validity = None if column.validity is None else pa.py_buffer(column.validity)
    buffers = [validity, pa.py_buffer(column.offsets)]
    return pa.Array.from_buffers(HEADERS_TYPE, count, buffers, offset=column.first, children=children)
