"""The values that are sent: one generator for both systems. Pure and the same in each process."""

from __future__ import annotations

import json
import random
import zlib
from functools import cache
from typing import NamedTuple

POOL_BYTES = 8 << 20  # distinct values stay within the processor's caches' reach, the same for both
POOL_MOST = 10_000
POOL_LEAST = 16
WARM_RECORDS = 2_000  # sent before the clock starts: connections, metadata, first batches


class Expected(NamedTuple):
    """What a reader must find: how many records, and the sum of their values' CRC-32."""

    count: int
    checksum: int


def pool_size(size: int) -> int:
    """How many distinct values of `size` bytes there are."""
    return max(POOL_LEAST, min(POOL_MOST, POOL_BYTES // size))


@cache
def pool(size: int, *, is_json: bool = False) -> tuple[bytes, ...]:
    """Distinct values of exactly `size` bytes: random bytes, or rows of JSON that compress about 4:1."""
    generator = random.Random(size)
    if not is_json:
        return tuple(generator.randbytes(size) for _ in range(pool_size(size)))
    return tuple(_row(generator, number, size) for number in range(pool_size(size)))


def expected(values: tuple[bytes, ...], count: int) -> Expected:
    """What sending `values` in turn, `count` records in all after the warm-up, adds up to."""
    return Expected(count + WARM_RECORDS, checksum_of(values, count) + checksum_of(values, WARM_RECORDS))


def checksum_of(values: tuple[bytes, ...], count: int) -> int:
    """The sum of the CRC-32 of `count` values, taken in turn."""
    rounds, rest = divmod(count, len(values))
    return rounds * sum(map(zlib.crc32, values)) + sum(map(zlib.crc32, values[:rest]))


def _row(generator: random.Random, number: int, size: int) -> bytes:
    row = b""
    while len(row) < size:
        row += json.dumps(
            {
                "id": number,
                "user": generator.randrange(10**6),
                "path": f"/api/v1/items/{generator.randrange(5000)}",
                "message": f"request handled in {generator.randrange(1000)} ms",
                "status": generator.choice([200, 200, 200, 304, 404, 500]),
            }
        ).encode()
    return row[:size]
