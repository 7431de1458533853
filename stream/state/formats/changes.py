"""Changes of a table in a repartition topic. The last byte is the encoding. Source: ChangedSerializer.

0: old value. 1: new value. 2: length of the new value (zigzag varint), new value, old value. 3, 4 and 5: the
same, with `is_latest` before the encoding; they are read, not written.
"""

from __future__ import annotations

from typing import TypeVar

from ....clients.serdes import Serde
from ...records import Change

V = TypeVar("V")


def _varint(number: int) -> bytes:
    rest = number << 1
    out = bytearray()
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)


def _varint_from(data: bytes) -> tuple[int, int]:
    """The number and the position behind it."""
    rest = shift = 0
    for position, byte in enumerate(data):
        rest |= (byte & 0x7F) << shift
        if byte < 0x80:
            return rest >> 1, position + 1
        shift += 7
        if shift > 28:
            break
    raise ValueError("the length of the new value is not a varint")


def changed(serde: Serde[V], splits_updates: bool = False) -> Serde[Change]:
    """`splits_updates`: for an upgrade from before 3.5, which cannot read encoding 2.

    Errors: ValueError for a change without any value, for one with both while `splits_updates`, and for an
    unknown encoding.
    """
    dumps, loads = serde.dumps, serde.loads

    def dump(change: Change) -> bytes:
        new, old = change.new, change.old
        if new is None:
            if old is None:
                raise ValueError("a change in a repartition topic needs an old or a new value")
            return dumps(old) + b"\x00"
        if old is None:
            return dumps(new) + b"\x01"
        if splits_updates:
            raise ValueError(f"upgrade.from needs old and new values in changes of their own: {change}")
        data = dumps(new)
        return _varint(len(data)) + data + dumps(old) + b"\x02"

    def load(data: bytes) -> Change:
        encoding, end, is_latest = data[-1], len(data) - 1, True
        if encoding > 5:
            raise ValueError(f"unknown encoding {encoding} of a change in a repartition topic")
        if encoding > 2:
            end -= 1
            if data[end] > 1:
                raise ValueError(f"is_latest of a change must be 0 or 1, not {data[end]}")
            encoding, is_latest = encoding - 3, data[end] == 1
        if encoding == 0:
            return Change(None, loads(data[:end]), is_latest)
        if encoding == 1:
            return Change(loads(data[:end]), None, is_latest)
        size, start = _varint_from(data)
        middle = start + size
        return Change(loads(data[start:middle]), loads(data[middle:end]), is_latest)

    return Serde(f"changed({serde.name})", dump, load)
