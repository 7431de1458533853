"""Encodes rows as columns by hand, sliced and with garbage in unused bytes, and decodes columns."""

import struct
from array import array
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from headrace.protocol.records.columns import BinaryColumn, Columns, DecodedColumns, HeaderColumn

Pairs = "Sequence[tuple[str, bytes | None]]"

# Columns of three rows that no Arrow writer makes.
BACKWARDS = BinaryColumn(array("i", [0, 1, 0, 1]), b"a")
BEYOND = BinaryColumn(array("i", [0, 1, 2, 2]), b"a")
NEGATIVE = BinaryColumn(array("i", [0, 1, -1, -1]), b"a")
SHORT_OFFSETS = BinaryColumn(array("i", [0, 0, 0]), b"")
SHORT_BITS = BinaryColumn(array("i", [0] * 20), b"", b"\xff", 6)


def validity(is_there: Sequence[bool], first: int = 0) -> bytes:
    """A bitmap, lowest bit first, with every other bit before `first` set."""
    bits = [number % 2 == 0 for number in range(first)] + list(is_there)
    out = bytearray(len(bits) // 8 + 1)
    for number, bit in enumerate(bits):
        out[number // 8] |= bit << number % 8
    return bytes(out)


def binary_column(values: Sequence[bytes | None], first: int = 0) -> BinaryColumn:
    """`first` rows of garbage, then the values; nulls have bytes in the data, as Arrow allows."""
    rows: list[bytes | None] = [b"rubbish"] * first + list(values)
    offsets = [0]
    for row in rows:
        offsets.append(offsets[-1] + len(b"null" if row is None else row))
    data = b"".join(b"null" if row is None else row for row in rows)
    bits = validity([value is not None for value in values], first) if None in values or first % 2 else None
    return BinaryColumn(array("i", offsets), data, bits, first)


def header_column(rows: Sequence[Any], first: int = 0) -> HeaderColumn:
    """Headers per row, None for a null list; the pairs are sliced too."""
    offsets = [0]
    for row in [[]] * first + list(rows):
        offsets.append(offsets[-1] + len(row or ()))
    pairs = [pair for row in rows for pair in row or ()]
    return HeaderColumn(
        array("i", offsets),
        binary_column([key.encode() for key, _ in pairs], first),
        binary_column([value for _, value in pairs], 2 * first),
        validity([row is not None for row in rows], first) if None in rows else None,
        first,
    )


def columns(rows: Sequence[tuple[int, Any, Any, Any]], first: int = 0) -> Columns:
    """Columns of (timestamp, key, value, headers) rows."""
    return Columns(
        len(rows),
        binary_column([row[2] for row in rows], first),
        binary_column([row[1] for row in rows], first + 3),
        array("q", [row[0] for row in rows]),
        header_column([row[3] for row in rows], first),
    )


def _integers(code: str, buffer: Any, count: int) -> list[int]:
    data = bytes(buffer)
    assert len(data) == count * struct.calcsize(code), "as many items as rows"
    return list(struct.unpack(f"={count}{code}", data))


def values_of(column: BinaryColumn, count: int) -> list[bytes | None]:
    """The values of a decoded column, which starts at row 0 and ends with its buffers."""
    offsets, data = _integers("i", column.offsets, count + 1), bytes(column.data)
    assert column.first == offsets[0] == 0
    assert offsets[-1] == len(data)
    bits = bytes([255]) * (count // 8 + 1) if column.validity is None else bytes(column.validity)
    spans = [data[low:high] for low, high in pairwise(offsets)]
    return [span if bits[row // 8] >> row % 8 & 1 else None for row, span in enumerate(spans)]


def rows_of(decoded: DecodedColumns) -> list[tuple[Any, ...]]:
    """(partition, offset, timestamp, type, leader epoch, key, value, headers); "-" if not requested."""
    count = decoded.count
    absent = ["-"] * count
    headers: list[Any] = absent
    if decoded.headers is not None:
        ends = _integers("i", decoded.headers.offsets, count + 1)
        assert decoded.headers.validity is None
        assert ends[0] == 0
        names = values_of(decoded.headers.keys, ends[-1])
        values = values_of(decoded.headers.values, ends[-1])
        pairs = [(str(name, "utf-8"), value) for name, value in zip(names, values, strict=True)]  # type: ignore[arg-type]
        headers = [tuple(pairs[low:high]) for low, high in pairwise(ends)]
    return list(
        zip(
            _integers("i", decoded.partitions, count),
            _integers("q", decoded.offsets, count),
            _integers("q", decoded.timestamps, count),
            _integers("i", decoded.timestamp_types, count),
            _integers("i", decoded.leader_epochs, count),
            absent if decoded.keys is None else values_of(decoded.keys, count),
            absent if decoded.values is None else values_of(decoded.values, count),
            headers,
            strict=True,
        )
    )
