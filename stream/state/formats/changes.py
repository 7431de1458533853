"""Changes of a table in a repartition topic. The last byte is the encoding. Source: ChangedSerializer.

0: old value. 1: new value. 2: length of the new value (zigzag varint), new value, old value. 3, 4 and 5: the
same, with `is_latest` before the encoding; they are read, not written.
"""

from __future__ import annotations

from typing import TypeVar

from ....clients.serdes import Serde
from ...records import Change
from .varints import varint, varint_from

V = TypeVar("V")


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
        return varint(len(data)) + data + dumps(old) + b"\x02"

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
        size, start = varint_from(data)
        middle = start + size
        return Change(loads(data[start:middle]), loads(data[middle:end]), is_latest)

    return Serde(f"changed({serde.name})", dump, load)
