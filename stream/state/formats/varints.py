"""Zigzag varints, as Kafka writes lengths."""

from __future__ import annotations


def varint(number: int) -> bytes:
    """At most 5 bytes: `number` is an int32."""
    rest = (number << 1) ^ (number >> 31)
    out = bytearray()
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)


def varint_from(data: bytes, position: int = 0) -> tuple[int, int]:
    """The number and the position behind it. Errors: ValueError for more than 5 bytes or too few."""
    rest = 0
    for shift in range(0, 35, 7):
        if position >= len(data):
            break
        byte = data[position]
        position += 1
        rest |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (rest >> 1) ^ -(rest & 1), position
    raise ValueError("a length is not a varint")
