"""The order in which Java iterates a HashSet of strings.

Kafka Streams prints sets of topics and stores in this order, and initializes stores in it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


def hash_code(text: str) -> int:
    """`String.hashCode`, as an unsigned number of 32 bits: over the UTF-16 code units of `text`."""
    result = 0
    units = text.encode("utf-16-be", "surrogatepass")
    for position in range(0, len(units), 2):
        result = (31 * result + (units[position] << 8 | units[position + 1])) & 0xFFFFFFFF
    return result


def grown(names: Iterable[str]) -> list[str]:
    """The order of a HashSet to which `names` were added one by one (HashMap: of its keys)."""
    unique = list(dict.fromkeys(names))
    capacity = 16
    while len(unique) > capacity * 3 // 4:
        capacity *= 2
    return _by_bucket(unique, capacity)


def copied(names: Iterable[str]) -> list[str]:
    """The order of `new HashSet<>(names)`, where `names` is a collection in this order."""
    unique = list(dict.fromkeys(names))
    wanted = max(int(len(unique) / 0.75) + 1, 16)
    return _by_bucket(unique, 1 << (wanted - 1).bit_length())


def of_bytes(keys: Iterable[bytes], capacity: int) -> list[bytes]:
    """The order of a HashSet of `Bytes` with that capacity, a power of 2."""
    return sorted(keys, key=lambda key: _bucket(_hash_code_of_bytes(key), capacity))


def _hash_code_of_bytes(data: bytes) -> int:
    result = 1
    for byte in data:
        result = (31 * result + (byte if byte < 128 else byte - 256)) & 0xFFFFFFFF
    return result


def _by_bucket(names: list[str], capacity: int) -> list[str]:
    return sorted(names, key=lambda name: _bucket(hash_code(name), capacity))


def _bucket(code: int, capacity: int) -> int:
    # Entries of one bucket stay in the order of insertion; a bucket with 8 or more is a tree, in hash order,
    # which no topology reaches.
    return (code ^ code >> 16) & (capacity - 1)
