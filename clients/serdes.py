"""Serialization of keys and values.

A serde has `dumps` and `loads`. A callable is accepted where only one direction is needed. A serde that
depends on the topic or the headers implements `ContextSerde`. None is never passed to a serde: it is null on
the wire (a tombstone, as a value).
"""

from __future__ import annotations

import uuid as _uuid
from collections.abc import Callable
from dataclasses import dataclass
from math import isfinite
from struct import Struct, unpack
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, TypeVar, runtime_checkable

import msgpack as _msgpack
import msgspec

from ..protocol.errors import SerializationError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .records import Headers

T = TypeVar("T")

_LONG = Struct(">q")
_LEAST_LONG, _MOST_LONG = -(2**63), 2**63 - 1

Dumps = Callable[[Any], bytes]
Loads = Callable[[bytes], Any]


class SerdeContext(NamedTuple):
    """The topic and headers of the record; `field` is "key" or "value"."""

    topic: str
    field: str
    headers: Headers


@dataclass(frozen=True, slots=True)
class Serde(Generic[T]):
    """A serializer and deserializer of one format."""

    name: str
    dumps: Callable[[T], bytes]
    loads: Callable[[bytes], T]


@runtime_checkable
class ContextSerde(Protocol[T]):
    """A serde that depends on the topic or the headers."""

    def serialize(self, value: T, context: SerdeContext) -> bytes:
        """The bytes of `value`."""

    def deserialize(self, data: bytes, context: SerdeContext) -> T:
        """The value of `data`."""


Serializer = Serde[T] | ContextSerde[T] | Callable[[T], bytes]
Deserializer = Serde[T] | ContextSerde[T] | Callable[[bytes], T]


def _same(data: bytes) -> bytes:
    return data


def _to_bytes(data: Any) -> bytes:
    if isinstance(data, bytes):
        return data
    if isinstance(data, (bytearray, memoryview)):
        return bytes(data)
    raise TypeError(
        f"expected bytes, not {type(data).__name__}; pass key= or value= a serde, such as utf8 or json"
    )


def _long_from(data: bytes) -> int:
    if len(data) != 8:
        raise ValueError(f"an int64 has 8 bytes, not {len(data)}")
    number: int = _LONG.unpack(data)[0]
    return number


def _long_to(value: int) -> bytes:
    if type(value) is int and _LEAST_LONG <= value <= _MOST_LONG:
        return _LONG.pack(value)
    return value.to_bytes(8, "big", signed=True)  # raises what names the mistake


def _uuid_to(value: _uuid.UUID) -> bytes:
    return str(value).encode()


def _uuid_from(data: bytes) -> _uuid.UUID:
    return _uuid.UUID(data.decode())


def _msgpack_from(data: bytes) -> Any:
    return _msgpack.unpackb(data, strict_map_key=False)


def _json_dumps(value: Any) -> bytes:
    data = msgspec.json.encode(value)
    # msgspec writes NaN and infinities as null: only then they are searched for.
    if b"null" in data:
        _refuse_non_finite(msgspec.to_builtins(value))
    return data


def _refuse_non_finite(value: Any) -> None:
    """Errors: ValueError for NaN and infinities, also inside lists and dicts."""
    todo = [value]
    while todo:
        each = todo.pop()
        if isinstance(each, float) and not isfinite(each):
            raise ValueError(f"JSON has no {each!r}: send None, or a text, in its place")
        if isinstance(each, dict):
            todo += each.values()
        elif isinstance(each, (list, tuple, set, frozenset)):
            todo += each


bytes_: Serde[bytes] = Serde("bytes_", _to_bytes, _same)
utf8: Serde[str] = Serde("utf8", str.encode, bytes.decode)
# 8 bytes big-endian, as Kafka's LongSerializer; text form as Kafka's UUIDSerializer
int64: Serde[int] = Serde("int64", _long_to, _long_from)
uuid: Serde[_uuid.UUID] = Serde("uuid", _uuid_to, _uuid_from)
json: Serde[Any] = Serde("json", _json_dumps, msgspec.json.decode)
msgpack: Serde[Any] = Serde("msgpack", _msgpack.packb, _msgpack_from)

# Exceptions of user code and serde libraries for invalid data. SerializationError wraps them.
BAD_DATA = (
    ArithmeticError, AssertionError, AttributeError, LookupError, RuntimeError, TypeError, ValueError,
    msgspec.MsgspecError, _msgpack.UnpackException,
)  # fmt: skip


def loads_column(serde: Serde[T], column: Sequence[bytes | None]) -> list[T | None]:
    """`loads` of each; None stays None. Errors: those of `loads`."""
    if serde is int64 and _all_have(column, _LONG.size):
        numbers: list[Any] = [*unpack(f">{len(column)}q", b"".join(column))]  # type: ignore[arg-type]  # no None
        return numbers
    loads = serde.loads
    return [None if data is None else loads(data) for data in column]


def _all_have(column: Sequence[bytes | None], size: int) -> bool:
    """Whether each has `size` bytes; None has none."""
    for data in column:  # noqa: SIM110  # a generator would take longer than the loop
        if data is None or len(data) != size:
            return False
    return True


def is_plain_bytes(serde: Any) -> bool:
    """True for `bytes_`, which needs no call per record."""
    return serde is bytes_


def serializer(serde: Any, field: str) -> Callable[[str, Any, Headers], bytes | None]:
    """`(topic, value, headers) -> bytes` for any form of serde; None stays None.

    The result raises SerializationError with topic, field and cause. Errors: TypeError for an invalid serde.
    """
    if isinstance(serde, Serde):
        dumps = serde.dumps
    elif isinstance(serde, ContextSerde):
        return _contextual_serializer(serde, field)
    elif callable(serde):
        dumps = serde
    else:
        raise TypeError(f"{field}= must be a serde or a callable, not {serde!r}")

    def serialize(topic: str, value: Any, _headers: Headers) -> bytes | None:
        if value is None:
            return None
        try:
            data = dumps(value)
        except BAD_DATA as error:
            raise _cannot("serialize", topic, field, error) from error
        return _checked_bytes(data, topic, field)

    return serialize


def _contextual_serializer(
    serde: ContextSerde[Any], field: str
) -> Callable[[str, Any, Headers], bytes | None]:
    def serialize(topic: str, value: Any, headers: Headers) -> bytes | None:
        if value is None:
            return None
        try:
            data = serde.serialize(value, SerdeContext(topic, field, headers))
        except BAD_DATA as error:
            raise _cannot("serialize", topic, field, error) from error
        return _checked_bytes(data, topic, field)

    return serialize


def deserializer(serde: Any, field: str) -> Callable[[str, bytes, Headers], Any]:
    """`(topic, data, headers) -> value` for data that is not null. The result raises SerializationError."""
    if isinstance(serde, Serde):
        loads = serde.loads
    elif isinstance(serde, ContextSerde):

        def deserialize_in_context(topic: str, data: bytes, headers: Headers) -> Any:
            try:
                return serde.deserialize(data, SerdeContext(topic, field, headers))
            except BAD_DATA as error:
                raise _cannot("deserialize", topic, field, error) from error

        return deserialize_in_context
    elif callable(serde):
        loads = serde
    else:
        raise TypeError(f"{field}= must be a serde or a callable, not {serde!r}")

    def deserialize(topic: str, data: bytes, _headers: Headers) -> Any:
        try:
            return loads(data)
        except BAD_DATA as error:
            raise _cannot("deserialize", topic, field, error) from error

    return deserialize


def _checked_bytes(data: Any, topic: str, field: str) -> bytes | None:
    if data is None or isinstance(data, bytes):
        return data
    if isinstance(data, (bytearray, memoryview)):
        return bytes(data)
    text = f"the {field} serializer for {topic!r} returned {type(data).__name__}, not bytes"
    raise SerializationError(text, topic, field)


def _cannot(what: str, topic: str, field: str, error: BaseException) -> SerializationError:
    if isinstance(error, SerializationError):
        return error
    text = f"cannot {what} the {field} for {topic!r}: {type(error).__name__}: {error}"
    return SerializationError(text, topic, field)
