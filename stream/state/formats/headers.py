"""Values with the headers of their records, as stores of KIP-1271 keep them.

Shape: size of the headers, the headers, then timestamp and value, or the aggregate of a session. Headers:
their number, then for each the length and the bytes of name and value; length -1 is null. Without headers the
size is 0 and nothing follows. Numbers are zigzag varints. Source: HeadersSerializer, KIP-1271.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ....clients.serdes import Serde
from ...records import AggregationWithHeaders, ValueAndTimestamp, ValueTimestampHeaders
from .timestamped import pack_long, timestamp_of
from .varints import varint, varint_from

if TYPE_CHECKING:
    from ....clients.records import Headers


NO_HEADERS = b"\0"


def headers_bytes(headers: Headers) -> bytes:
    """The headers with their size before them."""
    if not headers:
        return NO_HEADERS
    parts = [varint(len(headers))]
    for name, value in headers:
        name_bytes = name.encode()
        parts += (
            varint(len(name_bytes)),
            name_bytes,
            varint(-1 if value is None else len(value)),
            value or b"",
        )
    data = b"".join(parts)
    return varint(len(data)) + data


def headers_from(data: bytes) -> tuple[Headers, int]:
    """The headers and the position behind them. Errors: ValueError if they are cut off."""
    end = headers_size(data)
    size, position = varint_from(data, 0)
    if size == 0:
        return (), end
    count, position = varint_from(data, position)
    found: list[tuple[str, bytes | None]] = []
    for _ in range(count):
        length, position = varint_from(data, position)
        name, position = data[position : position + length].decode(), position + length
        length, position = varint_from(data, position)
        found.append((name, None if length < 0 else data[position : position + length]))
        position += max(length, 0)
    return tuple(found), end


def headers_size(data: bytes) -> int:
    """The position behind the headers. Errors: ValueError if they are cut off."""
    size, position = varint_from(data, 0)
    if size < 0 or position + size > len(data):
        raise ValueError(f"stored headers of {size} bytes do not fit into {len(data)} bytes")
    return position + size


def value_timestamp_headers(serde: Serde[Any]) -> Serde[ValueTimestampHeaders[Any]]:
    """`serde` for the values."""

    def dump(value: ValueTimestampHeaders[Any]) -> bytes:
        return headers_bytes(value.headers) + pack_long(value.timestamp) + serde.dumps(value.value)

    def load(data: bytes) -> ValueTimestampHeaders[Any]:
        headers, position = headers_from(data)
        rest = data[position:]
        return ValueTimestampHeaders(serde.loads(rest[8:]), timestamp_of(rest), headers)

    return Serde(f"value_timestamp_headers({serde.name})", dump, load)


def aggregation_with_headers(serde: Serde[Any]) -> Serde[AggregationWithHeaders[Any]]:
    """`serde` for the aggregates."""

    def dump(value: AggregationWithHeaders[Any]) -> bytes:
        return headers_bytes(value.headers) + serde.dumps(value.aggregation)

    def load(data: bytes) -> AggregationWithHeaders[Any]:
        headers, position = headers_from(data)
        return AggregationWithHeaders(serde.loads(data[position:]), headers)

    return Serde(f"aggregation_with_headers({serde.name})", dump, load)


# Operators read and write values without headers: what they write has none, as in Kafka Streams.


def timestamped_in_headers(serde: Serde[Any]) -> Serde[ValueAndTimestamp[Any]]:
    """Values and timestamps of a store with headers."""

    def dump(value: ValueAndTimestamp[Any]) -> bytes:
        return NO_HEADERS + pack_long(value[1]) + serde.dumps(value[0])

    def load(data: bytes) -> ValueAndTimestamp[Any]:
        rest = data[headers_size(data) :]
        return ValueAndTimestamp(serde.loads(rest[8:]), timestamp_of(rest))

    return Serde(f"timestamped_in_headers({serde.name})", dump, load)


def aggregation_in_headers(serde: Serde[Any]) -> Serde[Any]:
    """Aggregates of a session store with headers."""
    return Serde(
        f"aggregation_in_headers({serde.name})",
        lambda value: NO_HEADERS + serde.dumps(value),
        lambda data: serde.loads(data[headers_size(data) :]),
    )
