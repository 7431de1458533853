"""Hashes of keys, and rows sorted by partition. Equivalent to `_hashing.pxi` and the hash in
`_offset_map.pxi`."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

from .columns import BinaryColumn, BinaryValues, check_count, items

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

_SEED = 0x9747B28C
_M = 0x5BD1E995
_MASK = 0xFFFFFFFF
_MASK_64 = 0xFFFFFFFFFFFFFFFF
HASH_KEY_BYTES = 16

# Bound: the partition starts are a list, and no topic has more partitions.
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
    """See interfaces.RecordCodec.hash_column."""
    check_count(count)
    values = BinaryValues(column, count)
    keys = (values.value(row) for row in range(count))
    return array("I", [0 if key is None else murmur2(key) for key in keys]).tobytes()


def partition_rows(partitions: ReadableBuffer, partition_count: int) -> tuple[bytes, list[int]]:
    """See interfaces.RecordCodec.partition_rows."""
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


def check_hash_key(hash_key: bytes) -> bytes:
    """The key of `siphash128`. Errors: ValueError for another length."""
    if len(hash_key) != HASH_KEY_BYTES:
        raise ValueError(f"the key of the hash has {HASH_KEY_BYTES} bytes, not {len(hash_key)}")
    return hash_key


def siphash128(hash_key: bytes, data: bytes) -> tuple[int, int]:
    """SipHash-2-4 with 128 bits of output under a 16-byte key: the first and second 64 bits, little-endian.

    Source: Aumasson and Bernstein, SipHash: a fast short-input PRF (2012), and their reference code.
    """
    k0, k1 = int.from_bytes(hash_key[:8], "little"), int.from_bytes(hash_key[8:], "little")
    state = (
        k0 ^ 0x736F6D6570736575,
        k1 ^ 0x646F72616E646F6D ^ 0xEE,
        k0 ^ 0x6C7967656E657261,
        k1 ^ 0x7465646279746573,
    )
    whole = len(data) & ~7
    words = [int.from_bytes(data[at : at + 8], "little") for at in range(0, whole, 8)]
    words.append((len(data) & 0xFF) << 56 | int.from_bytes(data[whole:], "little"))
    for word in words:
        v0, v1, v2, v3 = state
        v0, v1, v2, v3 = _sip_rounds((v0, v1, v2, v3 ^ word), 2)
        state = v0 ^ word, v1, v2, v3
    v0, v1, v2, v3 = state
    v0, v1, v2, v3 = _sip_rounds((v0, v1, v2 ^ 0xEE, v3), 4)
    low = v0 ^ v1 ^ v2 ^ v3
    v0, v1, v2, v3 = _sip_rounds((v0, v1 ^ 0xDD, v2, v3), 4)
    return low, v0 ^ v1 ^ v2 ^ v3


def _sip_rounds(state: tuple[int, int, int, int], count: int) -> tuple[int, int, int, int]:
    v0, v1, v2, v3 = state
    for _ in range(count):
        v0 = v0 + v1 & _MASK_64
        v1 = _rotated(v1, 13) ^ v0
        v0 = _rotated(v0, 32)
        v2 = v2 + v3 & _MASK_64
        v3 = _rotated(v3, 16) ^ v2
        v0 = v0 + v3 & _MASK_64
        v3 = _rotated(v3, 21) ^ v0
        v2 = v2 + v1 & _MASK_64
        v1 = _rotated(v1, 17) ^ v2
        v2 = _rotated(v2, 32)
    return v0, v1, v2, v3


def _rotated(word: int, bits: int) -> int:
    return (word << bits | word >> 64 - bits) & _MASK_64
