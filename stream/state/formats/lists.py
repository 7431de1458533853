"""Lists of values of one key, as ListSerializer writes byte arrays: 1, count, then each with its length."""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

_HEAD = Struct(">bi")
_INT = Struct(">i")
_VARIABLE_SIZE = 1


def list_bytes(values: Sequence[bytes | None]) -> bytes:
    """The list with length -1 for None."""
    parts = [_HEAD.pack(_VARIABLE_SIZE, len(values))]
    for value in values:
        parts.append(_INT.pack(-1 if value is None else len(value)))
        parts.append(value or b"")
    return b"".join(parts)


def list_from(data: bytes) -> list[bytes | None]:
    """Errors: ValueError for a list of constant-size elements, which is not written here."""
    strategy, count = _HEAD.unpack_from(data)
    if strategy != _VARIABLE_SIZE:
        raise ValueError(f"a list of byte arrays has serialization strategy 1, not {strategy}")
    values: list[bytes | None] = []
    position = 5
    for _ in range(count):
        (size,) = _INT.unpack_from(data, position)
        position += 4
        values.append(None if size < 0 else data[position : position + size])
        position += max(size, 0)
    return values


def appended(data: bytes | None, value: bytes) -> bytes:
    """The list of `data` with `value` behind its last element."""
    if data is None:
        return list_bytes([value])
    count: int = _HEAD.unpack_from(data)[1]
    return _HEAD.pack(_VARIABLE_SIZE, count + 1) + data[5:] + _INT.pack(len(value)) + value
