"""Murmur3, 128 bits, as Kafka Streams hashes left values of foreign-key joins."""

from __future__ import annotations

_MASK = 2**64 - 1
_C1, _C2 = 0x87C37B91114253D5, 0x4CF5AD432745937F
_SEED = 104_729


def _rotated(number: int, bits: int) -> int:
    return (number << bits | number >> (64 - bits)) & _MASK


def _mixed(number: int) -> int:
    number = (number ^ number >> 33) * 0xFF51AFD7ED558CCD & _MASK
    number = (number ^ number >> 33) * 0xC4CEB9FE1A85EC53 & _MASK
    return number ^ number >> 33


def hash128(data: bytes) -> bytes:
    """16 bytes: the two halves of the hash, big-endian."""
    h1 = h2 = _SEED
    tail = len(data) & ~15
    for at in range(0, tail, 16):
        k1 = int.from_bytes(data[at : at + 8], "little")
        k2 = int.from_bytes(data[at + 8 : at + 16], "little")
        h1 ^= _rotated(k1 * _C1 & _MASK, 31) * _C2 & _MASK
        h1 = ((_rotated(h1, 27) + h2) * 5 + 0x52DCE729) & _MASK
        h2 ^= _rotated(k2 * _C2 & _MASK, 33) * _C1 & _MASK
        h2 = ((_rotated(h2, 31) + h1) * 5 + 0x38495AB5) & _MASK
    k1 = int.from_bytes(data[tail : tail + 8], "little")
    k2 = int.from_bytes(data[tail + 8 :], "little")
    h2 ^= _rotated(k2 * _C2 & _MASK, 33) * _C1 & _MASK
    h1 ^= _rotated(k1 * _C1 & _MASK, 31) * _C2 & _MASK
    h1 ^= len(data)
    h2 ^= len(data)
    h1 = (h1 + h2) & _MASK
    h2 = (h2 + h1) & _MASK
    h1, h2 = _mixed(h1), _mixed(h2)
    h1 = (h1 + h2) & _MASK
    h2 = (h2 + h1) & _MASK
    return h1.to_bytes(8, "big") + h2.to_bytes(8, "big")
