"""The partition of an internal topic for a group or transactional id. Pure.

Source: Kafka GroupCoordinatorService.partitionFor, TransactionStateManager.partitionFor, Utils.abs.
"""

from __future__ import annotations

import struct
from functools import lru_cache

_INT_BITS = 32


@lru_cache(maxsize=4_096)
def string_hash(text: str) -> int:
    """Java's String.hashCode: over UTF-16 units, signed 32 bits."""
    value = 0
    for (unit,) in struct.iter_unpack(">H", text.encode("utf-16-be", "surrogatepass")):
        value = (31 * value + unit) & 0xFFFF_FFFF
    return value - (1 << _INT_BITS) if value >> (_INT_BITS - 1) else value


def partition_of_id(key: str, partitions: int) -> int:
    """The partition of an id, out of `partitions`."""
    value = abs(string_hash(key))
    # Java's Utils.abs maps the smallest integer to 0
    return 0 if value >> (_INT_BITS - 1) else value % partitions
