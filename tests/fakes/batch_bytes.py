"""Record batches encoded by hand, valid or with invalid fields that no builder writes."""

import struct

from crc32c import crc32c

_COVERED = struct.Struct(">hiqqqhii")


def varint(value: int) -> bytes:
    """`value` as a zigzag varint, computed with arithmetic instead of shifts."""
    rest = value * 2 if value >= 0 else -value * 2 - 1
    out = []
    while rest >= 128:
        out.append(rest % 128 + 128)
        rest //= 128
    return bytes([*out, rest])


def nullable(data: bytes | None) -> bytes:
    """A nullable field: the length (-1 for None) and the bytes."""
    return varint(-1) if data is None else varint(len(data)) + data


def record(
    delta: int = 0,
    timestamp_delta: int = 0,
    key: bytes | None = b"k",
    value: bytes | None = b"v",
    headers: bytes = b"\x00",
    *,
    length: int | None = None,
    tail: bytes = b"",
) -> bytes:
    """One record; `headers` are raw bytes with their count, `length` may be wrong; `tail` follows the
    headers."""
    body = (
        b"\x00" + varint(timestamp_delta) + varint(delta) + nullable(key) + nullable(value) + headers + tail
    )
    return varint(len(body) if length is None else length) + body


def batch(
    payload: bytes,
    count: int = 1,
    *,
    last_delta: int | None = None,
    attributes: int = 0,
    base_offset: int = 0,
    leader_epoch: int = -1,
    magic: int = 2,
    base_timestamp: int = 1000,
    max_timestamp: int = 1000,
    producer: tuple[int, int, int] = (-1, -1, -1),
    length: int | None = None,
    crc: int | None = None,
) -> bytes:
    """A whole batch, with the right length and CRC by default."""
    last_delta = count - 1 if last_delta is None else last_delta
    covered = _COVERED.pack(attributes, last_delta, base_timestamp, max_timestamp, *producer, count) + payload
    length = len(covered) + 9 if length is None else length
    crc = crc32c(covered) if crc is None else crc
    return struct.pack(">qiibI", base_offset, length, leader_epoch, magic, crc) + covered


def sealed(data: bytes) -> bytes:
    """`data` with a corrected batch length and CRC, so that damage gets past these two checks."""
    covered = bytes(data[21:])
    length = struct.pack(">i", len(data) - 12)
    return bytes(data[:8]) + length + bytes(data[12:17]) + struct.pack(">I", crc32c(covered)) + covered
