"""The values that are sent, equal in both systems and all processes. Pure."""

from __future__ import annotations

import zlib
from functools import cache
from typing import NamedTuple

from headrace.services.bench.payloads import Payload

WARM_RECORDS = 2_000  # sent before the clock starts: connections, metadata, first batches


class Expected(NamedTuple):
    """What a reader must find: the number of records, and the sum of the CRC-32 of their values."""

    count: int
    checksum: int


@cache
def pool(size: int, *, is_json: bool = False) -> tuple[bytes, ...]:
    """Distinct values of exactly `size` bytes: random bytes, or rows of JSON that compress about 4:1."""
    return tuple(Payload(kind="text" if is_json else "random", size=size, seed=size).values())


def expected(values: tuple[bytes, ...], count: int) -> Expected:
    """For a warm-up and `count` records, whose values are `values` in turn."""
    return Expected(count + WARM_RECORDS, checksum_of(values, count) + checksum_of(values, WARM_RECORDS))


def checksum_of(values: tuple[bytes, ...], count: int) -> int:
    """The sum of the CRC-32 of `count` values, taken in turn."""
    rounds, rest = divmod(count, len(values))
    return rounds * sum(map(zlib.crc32, values)) + sum(map(zlib.crc32, values[:rest]))
