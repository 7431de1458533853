"""The metadata of committed offsets: partition time and the numbers that processors keep. Bytes are Java's.

Shape: base64 of version (1 byte, 2), partition time (8), and unless there are no numbers their count (4),
then for each the length of its name (4), the name and the number (8). Source: TopicPartitionMetadata,
ProcessorMetadata.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from struct import Struct, error
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

_HEAD = Struct(">bq")
_INT = Struct(">i")
_LONG = Struct(">q")
_VERSION = 2
UNKNOWN = -1


def encode(partition_time: int, numbers: Mapping[str, int]) -> str:
    """The metadata as text."""
    parts = [_HEAD.pack(_VERSION, partition_time)]
    if numbers:
        parts.append(_INT.pack(len(numbers)))
        for name, number in numbers.items():
            data = name.encode()
            parts += (_INT.pack(len(data)), data, _LONG.pack(number))
    return b64encode(b"".join(parts)).decode()


def decode(text: str) -> tuple[int, dict[str, int]]:
    """Partition time and numbers. Metadata that is not understood counts as none."""
    try:
        data = b64decode(text, validate=True)
        version, partition_time = _HEAD.unpack_from(data)
        if version not in (1, _VERSION):
            return UNKNOWN, {}
        numbers: dict[str, int] = {}
        position = _HEAD.size
        if version == _VERSION and len(data) > position:
            (count,) = _INT.unpack_from(data, position)
            position += 4
            for _ in range(count):
                (size,) = _INT.unpack_from(data, position)
                name = data[position + 4 : position + 4 + size].decode()
                position += 4 + size
                (numbers[name],) = _LONG.unpack_from(data, position)
                position += 8
    except (ValueError, error):
        return UNKNOWN, {}
    return partition_time, numbers
