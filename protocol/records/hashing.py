"""Hashes of keys, and rows sorted by partition: the readable twin of `_hashing.pxi`."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

from .columns import BinaryColumn, BinaryValues, check_count, items

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

_SEED = 0x9747B28C
_M = 0x5BD1E995
_MASK = 0xFFFFFFFF

# Bound: the starts of the partitions are a list, and no topic has more partitions than this.
MAX_PARTITIONS = 1 << 24


def murmur2(data: bytes) -> int:
    """The 32-bit murmur2 hash, unsigned. Source: Kafka Utils.murmur2."""
    if not isinstance(data, bytes):
        raise TypeError(f"what is hashed must be bytes, not {type(data).__name__}")
    length = len(data)
    h = _SEED ^ length
    whole = length & ~3
    for position in range(0, whole, 4):
        k = int.from_bytes(data[position : position + 4], "little") * _M & _MASK
        k = (k ^ k >> 24) * _M & _MASK
        h = h * _M & _MASK ^ k
    if length & 3:
        h = (h ^ int.from_bytes(data[whole:], "little")) * _M & _MASK
    h = (h ^ h >> 13) * _M & _MASK
    return h ^ h >> 15


def hash_column(column: BinaryColumn, count: int) -> bytes:
    """See codec.RecordCodec.hash_column."""
    check_count(count)
    values = BinaryValues(column, count)
    keys = (values.value(row) for row in range(count))
    return array("I", [0 if key is None else murmur2(key) for key in keys]).tobytes()


def partition_rows(partitions: ReadableBuffer, partition_count: int) -> tuple[bytes, list[int]]:
    """See codec.RecordCodec.partition_rows."""
    if not 0 <= partition_count <= MAX_PARTITIONS:
        raise ValueError(f"{partition_count} partitions")
    numbers = items(partitions, "i").tolist()
    if numbers and not -1 <= min(numbers) <= max(numbers) < partition_count:
        raise ValueError(f"partitions {min(numbers)} to {max(numbers)} of {partition_count}")
    places = [partition_count if number < 0 else number for number in numbers]
    starts = [0] * (partition_count + 2)
    for place in places:
        starts[place + 1] += 1
    for place in range(partition_count + 1):
        starts[place + 1] += starts[place]
    # sorted is stable: rows of one partition keep their order
    rows = sorted(range(len(places)), key=places.__getitem__)
    return array("i", rows).tobytes(), starts
