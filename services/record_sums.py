"""Order-independent sums of records, to compare the records sent and read.

The sum is over 64-bit digests of key and value, modulo 2**64. A lost, added or changed record changes it
(except for one chance in 2**64); unlike with XOR, a duplicate record changes it too.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

_MASK = 2**64 - 1


@dataclass(slots=True)
class RecordSum:
    """Count, bytes and checksum of a set of records."""

    count: int = 0
    size_bytes: int = 0
    checksum: int = 0

    def add(self, key: bytes | None, value: bytes | None) -> None:
        # the lengths distinguish (b"ab", b"c") from (b"a", b"bc"), and null from empty
        head = b"%d,%d," % (-1 if key is None else len(key), -1 if value is None else len(value))
        digest = hashlib.blake2b(head + (key or b"") + (value or b""), digest_size=8).digest()
        self.count += 1
        self.size_bytes += len(key or b"") + len(value or b"")
        self.checksum = (self.checksum + int.from_bytes(digest, "big")) & _MASK

    def __add__(self, other: RecordSum) -> RecordSum:
        return RecordSum(
            self.count + other.count,
            self.size_bytes + other.size_bytes,
            (self.checksum + other.checksum) & _MASK,
        )

    def __str__(self) -> str:
        return f"{self.count} records, checksum {self.checksum:016x}"
