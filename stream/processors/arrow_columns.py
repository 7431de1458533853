"""Keys and values as Arrow columns: from and to Python objects, and from and to the bytes of a serde.

Bytes, text and int64 are converted by column; other serdes value by value.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Any

from ...clients.arrow.layout import HEADERS_TYPE
from ...clients.arrow.library import pa, pc
from ...clients.serdes import bytes_, deserializer, int64, serializer, utf8
from ..errors import StreamsError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ...clients.records import Headers

MS: Any = pa.timestamp("ms", tz="UTC")
US: Any = pa.timestamp("us", tz="UTC")

Row = tuple[Any, Any, int, "Headers"]
"""Key, value, timestamp in ms, headers."""


def type_of(serde: Any) -> Any:
    """The Arrow type of a serde's values; None: that of the values of each batch."""
    return {id(bytes_): pa.binary(), id(utf8): pa.string(), id(int64): pa.int64()}.get(id(serde))


# Python objects


def timestamps_of(timestamps_ms: Sequence[int]) -> Any:
    """A column of timestamps."""
    return pa.array(timestamps_ms, pa.int64()).cast(MS).cast(US)


def headers_of(headers: Sequence[Headers]) -> Any:
    """A column of headers."""
    pairs = [[{"key": key, "value": value} for key, value in each] for each in headers]
    return pa.array(pairs, HEADERS_TYPE)


def checked(result: Any) -> Any:
    """What a function returned, as one RecordBatch; None without rows. Errors: StreamsError."""
    if result is None:
        return None
    if isinstance(result, pa.Table):
        result = result.combine_chunks()
        batches = result.to_batches()
        if not batches:
            return None
        (result,) = batches
    if not isinstance(result, pa.RecordBatch):
        raise StreamsError(
            "a function of an Arrow section must return a pyarrow.RecordBatch or Table, or None, not"
            f" {type(result).__name__}"
        )
    if "value" not in result.schema.names:
        names = ", ".join(result.schema.names) or "none"
        raise StreamsError(f"a batch of an Arrow section needs a column value; its columns: {names}")
    return result if result.num_rows else None


def column(batch: Any, name: str) -> Any:
    """A column; None if it is missing."""
    return batch.column(name) if name in batch.schema.names else None


def timestamps_ms(batch: Any, default_ms: int) -> Any:
    """The timestamps of a result as int64: those that are null or missing are `default_ms`."""
    found = column(batch, "timestamp")
    if found is None:
        return pa.repeat(pa.scalar(default_ms, pa.int64()), batch.num_rows)
    if pa.types.is_timestamp(found.type):
        found = found.cast(pa.timestamp("ms", tz=found.type.tz), safe=False)
    return pc.fill_null(found.cast(pa.int64()), default_ms)


def rows_of(batch: Any, default_ms: int) -> Iterator[Row]:
    """The rows of a result as Python objects."""
    keys = column(batch, "key")
    yield from zip(
        [None] * batch.num_rows if keys is None else keys.to_pylist(),
        batch.column("value").to_pylist(),
        timestamps_ms(batch, default_ms).to_pylist(),
        headers_from(batch),
        strict=True,
    )


def headers_from(batch: Any) -> Iterable[Headers]:
    """The headers of each row."""
    found = column(batch, "headers")
    if found is None or not pc.sum(pc.list_value_length(found)).as_py():
        return [()] * batch.num_rows  # of most topics: no object per row
    return [tuple((pair["key"], pair["value"]) for pair in each or ()) for each in found.to_pylist()]


# bytes


def decoded(data: Any, serde: Any, topic: str, field: str) -> Any:
    """A column of the values of a binary column. Errors: those of the serde."""
    if serde is bytes_:
        return data
    if serde is utf8:
        return data.cast(pa.string())
    if serde is int64:
        return _int64_of(data)
    loads = deserializer(serde, field)
    return pa.array([None if value is None else loads(topic, value, ()) for value in data.to_pylist()])


def encoded(values: Any, serde: Any, topic: str, field: str) -> Any:
    """A column of bytes, or of text, of the values of a column. Errors: those of the serde."""
    kind = values.type
    if serde is bytes_ and (pa.types.is_binary(kind) or pa.types.is_large_binary(kind)):
        return values
    if serde is utf8 and (pa.types.is_string(kind) or pa.types.is_large_string(kind)):
        return values
    if serde is int64 and pa.types.is_integer(kind):
        return _bytes_of_int64(values.cast(pa.int64()))
    dumps = serializer(serde, field)
    found = [None if value is None else dumps(topic, value, ()) for value in values.to_pylist()]
    return pa.array(found, pa.binary())


def _int64_of(data: Any) -> Any:
    """Java's longs, 8 bytes big-endian."""
    valid = data.is_valid()
    full = pc.fill_null(data, bytes(8)) if data.null_count else data
    edges = pc.min_max(pc.binary_length(full)).as_py()
    if len(full) and edges != {"min": 8, "max": 8}:
        raise ValueError(f"an int64 has 8 bytes, not {edges['max'] if edges['max'] != 8 else edges['min']}")
    _, offsets, bytes_buffer = full.buffers()
    first = memoryview(offsets).cast("i")[full.offset] if len(full) else 0
    numbers = array("q")
    if len(full):
        numbers.frombytes(memoryview(bytes_buffer)[first : first + 8 * len(full)])
        numbers.byteswap()
    found = pa.Array.from_buffers(pa.int64(), len(full), [None, pa.py_buffer(numbers)])
    return pc.if_else(valid, found, None) if data.null_count else found


def _bytes_of_int64(values: Any) -> Any:
    valid = values.is_valid()
    full = pc.fill_null(values, 0) if values.null_count else values
    numbers = array("q")
    if len(full):
        data = memoryview(full.buffers()[1])
        numbers.frombytes(data[8 * full.offset : 8 * (full.offset + len(full))])
        numbers.byteswap()
    kind = pa.binary(8)
    found = pa.Array.from_buffers(kind, len(full), [None, pa.py_buffer(numbers)])
    return pc.if_else(valid, found, pa.scalar(None, kind)) if values.null_count else found
