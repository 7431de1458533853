"""Skips valid stored batches. Equivalent to `_walking.pxi`.

A log reads hundreds of small batches at once; this checks them all in one call. It does not report errors: it
stops, and the caller checks the batch at that position.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from crc32c import crc32c

from .header import ATTRIBUTES_POSITION, HEADER_BYTES, LENGTH_END, MAGIC, MIN_BATCH_LENGTH

if TYPE_CHECKING:
    from .header import Buffer

# base offset, batch length, leader epoch, magic, CRC, attributes, last offset delta
_LOOKED_AT = struct.Struct(">qiibIhi")


def walk_sound(
    data: Buffer,
    at: int,
    end: int,
    base_offset: int,
    upto_offset: int,
    leader_epoch: int,
    *,
    check_crc: bool,
    is_dense: bool = True,
) -> tuple[int, int]:
    """See interfaces.RecordCodec.walk."""
    view = memoryview(data)
    if not 0 <= at <= end <= len(view):
        raise ValueError(f"bytes {at} to {end} of {len(view)}")
    while end - at >= HEADER_BYTES:
        found, length, epoch, magic, crc, _, last_delta = _LOOKED_AT.unpack_from(view, at)
        if (epoch, magic) != (leader_epoch, MAGIC) or last_delta < 0:
            break
        if found < base_offset or (is_dense and found > base_offset):
            break
        size, next_offset = LENGTH_END + length, found + last_delta + 1
        if length < MIN_BATCH_LENGTH or size > end - at or next_offset > upto_offset:
            break
        if check_crc and crc32c(view[at + ATTRIBUTES_POSITION : at + size]) != crc:
            break
        at, base_offset = at + size, next_offset
    return at, base_offset
