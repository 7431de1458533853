"""Fields of Kafka's message schemas: numbers, strings, arrays and structures by version.

A schema lists the fields of a structure with their versions. Lengths are fixed-width in older versions; in
*flexible* ones they are unsigned varints of the length + 1, 0 for null, and every structure ends with tagged
fields: their count, then for each its tag, size and bytes. Readers ignore unknown tags; writers omit tagged
fields with default values. Source: Kafka's message generator (README of its clients' message schemas);
KIP-482.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

from ..errors import InvalidRecordError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

T = TypeVar("T")

INT8, INT16, UINT16, INT32, INT64 = (struct.Struct(code) for code in (">b", ">h", ">H", ">i", ">q"))
UUID_BYTES = 16
_NO_MORE = 2**15 - 1  # the highest possible version


class FieldReader:
    """A position in bytes that never exceeds their end. `what` is named in errors."""

    __slots__ = ("_data", "_end", "_position", "_what")

    def __init__(self, data: bytes, what: str) -> None:
        self._data, self._position, self._what = data, 0, what
        self._end = len(data)

    @property
    def left(self) -> int:
        return self._end - self._position

    def error(self, text: str) -> InvalidRecordError:
        """The error for invalid bytes."""
        return InvalidRecordError(f"{self._what}: {text}")

    def take(self, length: int) -> bytes:
        """The next bytes. Errors: InvalidRecordError if fewer are left, also of the methods below."""
        start = self._position
        end = start + length
        if not start <= end <= self._end:
            raise self.error(f"a length of {length} with {self.left} bytes left")
        self._position = end
        return self._data[start:end]

    def number(self, shape: struct.Struct) -> int:
        start = self._position
        end = start + shape.size
        if end > self._end:
            raise self.error(f"a number of {shape.size} bytes with {self.left} bytes left")
        self._position = end
        value: int = shape.unpack_from(self._data, start)[0]
        return value

    def number_ahead(self, shape: struct.Struct) -> int:
        """The next number, without consuming it."""
        value = self.number(shape)
        self._position -= shape.size
        return value

    def unsigned_varint(self) -> int:
        """The next varint of up to 35 bits."""
        value = shift = 0
        while shift < 35:
            if self._position == self._end:
                raise self.error("a varint is cut short")
            byte = self._data[self._position]
            self._position += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7
        raise self.error("a varint is too long")

    def text(self, length: int) -> str:
        """The next string of `length` bytes."""
        try:
            return str(self.take(length), "utf-8")
        except UnicodeDecodeError as error:
            raise self.error("a string is not UTF-8") from error

    def items(self, count: int, item: Callable[[], T]) -> tuple[T, ...]:
        """`count` items, each of at least one byte, which bounds the work."""
        if not 0 <= count <= self.left:
            raise self.error(f"{count} items in {self.left} bytes")
        return tuple(item() for _ in range(count))

    def tags(self) -> Iterable[tuple[int, bytes]]:
        for _ in range(self.unsigned_varint()):
            tag = self.unsigned_varint()
            yield tag, self.take(self.unsigned_varint())

    def skip_tags(self) -> None:
        for _ in self.tags():
            pass

    def inside(self, data: bytes) -> FieldReader:
        """A reader of `data` with the same error text."""
        return FieldReader(data, self._what)

    def end(self) -> None:
        """Errors: InvalidRecordError if bytes are left."""
        if self.left:
            raise self.error(f"{self.left} bytes too many")


def unsigned_varint(value: int) -> bytes:
    """`value` as an unsigned varint (7 bits per byte, low bits first)."""
    if value <= 0x7F:
        return value.to_bytes(1, "big")
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


class Form(NamedTuple):
    """The version of a structure to read or write."""

    version: int
    flexible: bool


class FieldType(Protocol):
    """The serialization of a field."""

    def read(self, reader: FieldReader, form: Form) -> Any:
        """The next value. Errors: InvalidRecordError."""

    def write(self, value: Any, form: Form) -> bytes:
        """The bytes of a value. Errors: ValueError or struct.error if it does not fit."""


@dataclass(frozen=True, slots=True)
class Number:
    """A big-endian integer of fixed width."""

    shape: struct.Struct

    def read(self, reader: FieldReader, _form: Form) -> int:
        return reader.number(self.shape)

    def write(self, value: int, _form: Form) -> bytes:
        return self.shape.pack(value)


class Uuid:
    """A UUID of 16 bytes."""

    def read(self, reader: FieldReader, _form: Form) -> bytes:
        return reader.take(UUID_BYTES)

    def write(self, value: bytes, _form: Form) -> bytes:
        if len(value) != UUID_BYTES:
            raise ValueError(f"an id has {UUID_BYTES} bytes, not {len(value)}")
        return value


@dataclass(frozen=True, slots=True)
class _Measured:
    """A field with a length prefix: fixed-width, or in flexible versions a varint of the length + 1."""

    length_shape: struct.Struct
    nullable: bool = False

    def length(self, reader: FieldReader, form: Form) -> int | None:
        length = reader.unsigned_varint() - 1 if form.flexible else reader.number(self.length_shape)
        if length == -1 and self.nullable:
            return None
        if length < 0:
            raise reader.error(f"a length of {length}")
        return length

    def head(self, length: int | None, form: Form) -> bytes:
        if length is None:
            if not self.nullable:
                raise ValueError("a field that cannot be null is null")
            length = -1
        return unsigned_varint(length + 1) if form.flexible else self.length_shape.pack(length)


@dataclass(frozen=True, slots=True)
class Text(_Measured):
    """A UTF-8 string."""

    length_shape: struct.Struct = INT16

    def read(self, reader: FieldReader, form: Form) -> str | None:
        length = self.length(reader, form)
        return None if length is None else reader.text(length)

    def write(self, value: str | None, form: Form) -> bytes:
        encoded = b"" if value is None else value.encode()
        return self.head(None if value is None else len(encoded), form) + encoded


@dataclass(frozen=True, slots=True)
class Octets(_Measured):
    """Opaque bytes."""

    length_shape: struct.Struct = INT32

    def read(self, reader: FieldReader, form: Form) -> bytes | None:
        length = self.length(reader, form)
        return None if length is None else reader.take(length)

    def write(self, value: bytes | None, form: Form) -> bytes:
        return self.head(None if value is None else len(value), form) + (value or b"")


@dataclass(frozen=True, slots=True)
class Array(_Measured):
    """A tuple of items of one type."""

    length_shape: struct.Struct = INT32
    of: FieldType = Number(INT32)

    def read(self, reader: FieldReader, form: Form) -> tuple[Any, ...] | None:
        count = self.length(reader, form)
        return None if count is None else reader.items(count, lambda: self.of.read(reader, form))

    def write(self, value: tuple[Any, ...] | None, form: Form) -> bytes:
        head = self.head(None if value is None else len(value), form)
        return head + b"".join([self.of.write(item, form) for item in value or ()])


@dataclass(frozen=True, slots=True)
class Perhaps:
    """A nullable structure, with a prefix byte 1, or -1 for null."""

    of: FieldType

    def read(self, reader: FieldReader, form: Form) -> Any:
        return None if reader.number(INT8) < 0 else self.of.read(reader, form)

    def write(self, value: Any, form: Form) -> bytes:
        return INT8.pack(-1) if value is None else INT8.pack(1) + self.of.write(value, form)


class Field(NamedTuple):
    """A field of a structure. In versions outside of `since` to `until` it has the `default`."""

    name: str
    type: FieldType
    default: Any = None
    since: int = 0
    until: int = _NO_MORE
    tag: int | None = None  # tag of a tagged field, in flexible versions only


class Structure:
    """Fields in the order of writing; `make` is a named tuple with the same names.

    `finish` adjusts the value that was read, for implicit semantics of older versions.
    """

    def __init__(self, make: Any, *fields: Field, finish: Callable[[Any], Any] | None = None) -> None:
        self._make, self._finish = make, finish
        self._places: dict[str, int] = {name: place for place, name in enumerate(make._fields)}
        self._defaults = [None] * len(self._places)
        for field in fields:
            self._defaults[self._places[field.name]] = field.default
        self._fields = [field for field in fields if field.tag is None]
        self._tagged = {field.tag: field for field in fields if field.tag is not None}

    def read(self, reader: FieldReader, form: Form) -> Any:
        values, places = self._defaults.copy(), self._places
        for field in self._fields:
            if field.since <= form.version <= field.until:
                values[places[field.name]] = field.type.read(reader, form)
        if form.flexible:
            for tag, data in reader.tags():
                known = self._tagged.get(tag)
                if known is not None:
                    part = reader.inside(data)
                    values[places[known.name]] = known.type.read(part, form)
                    part.end()
        made = self._make(*values)
        return made if self._finish is None else self._finish(made)

    def write(self, value: Any, form: Form) -> bytes:
        """Fields that the version does not have are omitted."""
        places = self._places
        parts = [
            field.type.write(value[places[field.name]], form)
            for field in self._fields
            if field.since <= form.version <= field.until
        ]
        if form.flexible:
            parts.append(self._written_tags(value, form))
        return b"".join(parts)

    def _written_tags(self, value: Any, form: Form) -> bytes:
        said = [
            (tag, field.type.write(value[self._places[field.name]], form))
            for tag, field in sorted(self._tagged.items())
            if value[self._places[field.name]] != field.default
        ]
        parts = [unsigned_varint(tag) + unsigned_varint(len(data)) + data for tag, data in said]
        return unsigned_varint(len(said)) + b"".join(parts)
