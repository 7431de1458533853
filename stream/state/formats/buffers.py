"""Changelog records of time-ordered buffers (suppress, stream-table join with grace).

Value: record context, prior value, old value, new value, buffer time (8 bytes). A value is its length (4
bytes) and its bytes; length -1 is null, and -2 for the old value: the same as the prior value. Suppress
writes the header `v` = 3; records of older versions are read. Source: BufferValue, ProcessorRecordContext,
TimeOrderedKeyValueBufferChangelogDeserializationHelper.
"""

from __future__ import annotations

from struct import Struct, error
from typing import TYPE_CHECKING, NamedTuple

from ...records import RecordContext

if TYPE_CHECKING:
    from ....clients.records import Headers

CHANGELOG_HEADERS: Headers = (("v", b"\x03"),)

_INT = Struct(">i")
_LONG = Struct(">q")
_TIMES = Struct(">qq")
_NULL = _INT.pack(-1)
_AS_PRIOR = _INT.pack(-2)


class BufferValue(NamedTuple):
    """A buffered change. `prior` is the value of the table before the first buffered change of the key."""

    prior: bytes | None
    old: bytes | None
    new: bytes | None
    context: RecordContext


def _sized(data: bytes | None) -> bytes:
    return _NULL if data is None else _INT.pack(len(data)) + data


def _sized_from(data: bytes, position: int) -> tuple[bytes | None, int]:
    (size,) = _INT.unpack_from(data, position)
    position += 4
    if size == -1:
        return None, position
    if size < 0 or position + size > len(data):
        raise ValueError(f"a value of {size} bytes at {position} does not fit into {len(data)} bytes")
    return data[position : position + size], position + size


def record_context_bytes(context: RecordContext) -> bytes:
    """Timestamp, offset, topic, partition, headers."""
    parts = [_TIMES.pack(context.timestamp, context.offset), _sized(context.topic.encode())]
    parts.append(_INT.pack(context.partition) + _INT.pack(len(context.headers)))
    for name, value in context.headers:
        parts.append(_sized(name.encode()) + _sized(value))
    return b"".join(parts)


def record_context_from(data: bytes, position: int = 0) -> tuple[RecordContext, int]:
    """The context and the position behind it."""
    timestamp, offset = _TIMES.unpack_from(data, position)
    topic, position = _sized_from(data, position + 16)
    (partition,), (count,) = _INT.unpack_from(data, position), _INT.unpack_from(data, position + 4)
    position += 8
    headers = []
    for _ in range(count):  # -1 in records of old versions: none
        name, position = _sized_from(data, position)
        value, position = _sized_from(data, position)
        headers.append(((name or b"").decode(), value))
    return RecordContext(timestamp, offset, (topic or b"").decode(), partition, tuple(headers)), position


def record_context_size(context: RecordContext) -> int:
    """Kafka's estimate of the memory of a context, which limits of buffers and caches count."""
    size = 20 + len(context.topic)
    for name, value in context.headers:
        size += len(name) + len(value or b"")
    return size


def buffer_value_size(value: BufferValue) -> int:
    """Kafka's estimate of the memory of a buffered change."""
    prior, old, new, context = value
    size = len(prior or b"") + len(new or b"") + record_context_size(context)
    return size if old is None or old == prior else size + len(old)


def buffer_value_bytes(value: BufferValue) -> bytes:
    """The value without its buffer time."""
    prior, old, new, context = value
    old_bytes = _AS_PRIOR if old is not None and old == prior else _sized(old)
    return record_context_bytes(context) + _sized(prior) + old_bytes + _sized(new)


def buffer_value_from(data: bytes) -> tuple[BufferValue, int]:
    """The value and the position behind it."""
    context, position = record_context_from(data)
    prior, position = _sized_from(data, position)
    if data[position : position + 4] == _AS_PRIOR:
        old, position = prior, position + 4
    else:
        old, position = _sized_from(data, position)
    new, position = _sized_from(data, position)
    return BufferValue(prior, old, new, context), position


def changelog_bytes(value: BufferValue, time: int) -> bytes:
    """The value of a changelog record."""
    return buffer_value_bytes(value) + _LONG.pack(time)


def _old_and_new(data: bytes) -> tuple[bytes | None, bytes | None, int]:
    old, position = _sized_from(data, 0)
    new, position = _sized_from(data, position)
    return old, new, position


def changelog_from(
    data: bytes, headers: Headers, context: RecordContext, buffered_prior: bytes | None
) -> tuple[int, BufferValue]:
    """Buffer time and value of a changelog record of suppress, of any version.

    `context` is that of the changelog record itself, which version 0 needs; `buffered_prior` is the prior
    value of a change of the key that is in the buffer already, for versions 0 and 1.
    Errors: ValueError for an unknown version and for bytes that are not of the version.
    """
    version = next((value for name, value in reversed(headers) if name == "v"), b"\x00")
    try:
        if version == b"\x03":
            return _version_3(data)
        if version == b"\x02":
            try:
                return _version_2(data)
            except (ValueError, error):  # Kafka 2.4.0 wrote version 3 with this header
                return _version_3(data)
        if version in (b"\x00", b"\x01"):
            (time,) = _LONG.unpack_from(data)
            rest: bytes | None = data[8:]
            if version == b"\x01":
                context, position = record_context_from(data, 8)
                rest, _ = _sized_from(data, position)
            old, new, _ = _old_and_new(rest or b"")
            return time, BufferValue(old if buffered_prior is None else buffered_prior, old, new, context)
    except error as cause:
        raise ValueError(f"a suppress changelog record of version {version!r} is cut off: {cause}") from cause
    raise ValueError(f"unknown version {version!r} of a suppress changelog record")


def _version_2(data: bytes) -> tuple[int, BufferValue]:
    context, position = record_context_from(data)
    change, position = _sized_from(data, position)
    old, new, _ = _old_and_new(change or b"")
    prior, position = _sized_from(data, position)
    return _LONG.unpack_from(data, position)[0], BufferValue(prior, old, new, context)


def _version_3(data: bytes) -> tuple[int, BufferValue]:
    value, position = buffer_value_from(data)
    return _LONG.unpack_from(data, position)[0], value
