"""Records of stream-stream joins that wait for a match: keys with their side of the join, and values.

Source: TimestampedKeyAndJoinSideSerializer, LeftOrRightValueSerializer.
"""

from __future__ import annotations

from struct import Struct
from typing import Any, Generic, NamedTuple, TypeVar

from ....clients.serdes import Serde

K = TypeVar("K")

_TIMESTAMP_AND_SIDE = Struct(">qb")


class TimestampedKeyAndJoinSide(NamedTuple, Generic[K]):
    """A record that waits for a match. `timestamp` in ms."""

    is_left: bool
    key: K
    timestamp: int


class LeftOrRightValue(NamedTuple):
    """The value of a record that waits for a match; the other side is None."""

    left: Any
    right: Any


def timestamped_key_and_join_side(serde: Serde[K]) -> Serde[TimestampedKeyAndJoinSide[K]]:
    """Timestamp (8 bytes), 1 for the left side or 0, key."""
    dumps, loads = serde.dumps, serde.loads

    def dump(value: TimestampedKeyAndJoinSide[K]) -> bytes:
        return _TIMESTAMP_AND_SIDE.pack(value.timestamp, value.is_left) + dumps(value.key)

    def load(data: bytes) -> TimestampedKeyAndJoinSide[K]:
        timestamp, side = _TIMESTAMP_AND_SIDE.unpack_from(data)
        return TimestampedKeyAndJoinSide(side == 1, loads(data[9:]), timestamp)

    return Serde(f"timestamped_key_and_join_side({serde.name})", dump, load)


def left_or_right_value(left: Serde[Any], right: Serde[Any]) -> Serde[LeftOrRightValue]:
    """1 for a left value or 0, then the value."""
    dump_left, load_left, dump_right, load_right = left.dumps, left.loads, right.dumps, right.loads

    def dump(value: LeftOrRightValue) -> bytes:
        if value.left is not None:
            return b"\x01" + dump_left(value.left)
        return b"\x00" + dump_right(value.right)

    def load(data: bytes) -> LeftOrRightValue:
        if data[0] == 1:
            return LeftOrRightValue(load_left(data[1:]), None)
        return LeftOrRightValue(None, load_right(data[1:]))

    return Serde(f"left_or_right({left.name}, {right.name})", dump, load)
