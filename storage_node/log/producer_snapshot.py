"""Producer snapshots (`.snapshot` files): the producer state of a log at an offset.

Shape, big-endian: version i16 (1), CRC-32C u32 over the rest, count i32, then per producer 46 bytes: producer
id i64, epoch i16, last sequence i32, last offset i64, offset delta i32, timestamp i64, coordinator epoch i32,
first offset of the open transaction i64 (-1 none).
Source: Kafka ProducerStateManager.java, ProducerSnapshot.json.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from crc32c import crc32c

from .checkpoints import CorruptFileError

VERSION = 1
_HEAD = struct.Struct(">hIi")
_ENTRY = struct.Struct(">qhiqiqiq")
_CRC_END = 6


class ProducerState(NamedTuple):
    """One producer; offsets are inclusive, -1 is none."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp_ms: int
    coordinator_epoch: int
    transaction_first_offset: int


def parse_producer_snapshot(data: bytes) -> list[ProducerState]:
    """All producers in a snapshot. Errors: CorruptFileError."""
    if len(data) < _HEAD.size:
        raise CorruptFileError(f"{len(data)} bytes, a producer snapshot has {_HEAD.size} or more")
    version, crc, count = _HEAD.unpack_from(data)
    if version != VERSION:
        raise CorruptFileError(f"version {version}, only {VERSION} is known")
    actual = crc32c(memoryview(data)[_CRC_END:])
    if actual != crc:
        raise CorruptFileError(f"CRC is {actual:#010x}, the header says {crc:#010x}")
    if count < 0 or _HEAD.size + count * _ENTRY.size != len(data):
        raise CorruptFileError(f"says {count} producers in {len(data)} bytes")
    return [ProducerState._make(entry) for entry in _ENTRY.iter_unpack(data[_HEAD.size :])]


def format_producer_snapshot(producers: list[ProducerState]) -> bytes:
    """A snapshot of these producers."""
    rest = struct.pack(">i", len(producers)) + b"".join(_ENTRY.pack(*entry) for entry in producers)
    return struct.pack(">hI", VERSION, crc32c(rest)) + rest
