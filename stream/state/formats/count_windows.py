"""Values of stores of count windows: the number of records of a key, and its windows that are not full.

8 bytes number; then for each window, the oldest first: 8 bytes timestamp, 4 bytes length of the aggregate
(-1: it has none), the aggregate. Numbers are big-endian.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Any, NamedTuple

from ....clients.serdes import Serde

if TYPE_CHECKING:
    from collections.abc import Sequence

_LONG = Struct(">q")
_HEAD = Struct(">qi")


class OpenWindows(NamedTuple):
    """The number of records so far; aggregate and timestamp of each window that is not full, oldest first."""

    number: int
    windows: Sequence[tuple[Any, int]]


def open_windows(serde: Serde[Any]) -> Serde[OpenWindows]:
    """`serde`: of the aggregates."""
    dumps, loads = serde.dumps, serde.loads

    def dump(value: OpenWindows) -> bytes:
        parts = [_LONG.pack(value.number)]
        for aggregate, timestamp in value.windows:
            data = None if aggregate is None else dumps(aggregate)
            parts.append(_HEAD.pack(timestamp, -1 if data is None else len(data)))
            parts.append(data or b"")
        return b"".join(parts)

    def load(data: bytes) -> OpenWindows:
        (number,) = _LONG.unpack_from(data)
        windows: list[tuple[Any, int]] = []
        position = 8
        while position < len(data):
            timestamp, size = _HEAD.unpack_from(data, position)
            position += 12
            aggregate = None if size < 0 else loads(data[position : position + size])
            windows.append((aggregate, timestamp))
            position += max(size, 0)
        return OpenWindows(number, windows)

    return Serde(f"open_windows({serde.name})", dump, load)
