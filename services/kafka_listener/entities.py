"""Kafka's messages by kio: one layout for each api and version, decoded from bytes and encoded to them.

Handlers are independent of versions: they return a tree of plain values (mappings, sequences, ints, strings,
bytes) under the names of Kafka's schemas, and each version takes the fields that it has. Units: times are ms,
ids are 16 bytes. Pure, except for importing kio's modules, one for each version of each api, when they are
needed.
"""

from __future__ import annotations

import dataclasses
import datetime
import functools
import uuid
from typing import TYPE_CHECKING, Any, NamedTuple, get_args

from kio.index import load_request_schema, load_response_schema
from kio.schema.errors import ErrorCode
from kio.serial import entity_reader, entity_writer

from ...protocol.errors import InvalidRequestError
from .codes import substitutes
from .hot_layouts import HOT_LAYOUTS
from .hot_requests import HOT_REQUESTS, elements_of
from .skimming import MAX_ELEMENTS, Skimmed, kind_of, skim

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ...protocol.records.header import Buffer

MS = datetime.timedelta(milliseconds=1)
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_API_VERSIONS_KEY = 18
_NO_ID = bytes(16)
_NO_TAGS = b"\x00"


class Records:
    """Record batches of a response: kio counts them and does not copy them."""

    __slots__ = ("_size", "buffers")

    def __init__(self, buffers: Sequence[Buffer]) -> None:
        self.buffers = buffers
        self._size = sum(map(len, buffers))

    def __len__(self) -> int:
        return self._size


class Sink:
    """The target of kio's encoder; record batches stay the buffers that they are."""

    __slots__ = ("_small", "parts")

    def __init__(self) -> None:
        self.parts: list[Buffer] = []
        self._small: list[bytes] = []

    def write(self, piece: Any) -> None:
        """Append bytes or Records."""
        if type(piece) is Records:
            self._join()
            self.parts.extend(piece.buffers)
        else:
            self._small.append(piece)

    def framed(self) -> list[Buffer]:
        """The length and everything written: one frame."""
        if not self.parts:
            body = b"".join(self._small)
            return [len(body).to_bytes(4, "big") + body]
        self._join()
        head = sum(map(len, self.parts)).to_bytes(4, "big")
        first = self.parts[0]
        assert isinstance(first, bytes), "a frame begins with its header"
        self.parts[0] = head + first
        return self.parts

    def joined(self) -> bytes:
        """Everything written, which has no Records."""
        return b"".join(self._small)

    def _join(self) -> None:
        if self._small:
            self.parts.append(b"".join(self._small))
            self._small.clear()


class Layout(NamedTuple):
    """One version of one api."""

    request: Any
    read: Callable[[Buffer, int], tuple[Any, int]]
    write: Callable[[Sink, Mapping[str, Any]], None]
    is_flexible: bool  # reads the request's header and body
    has_tagged_header: bool  # reads the response's
    read_hot: Callable[[memoryview, int], Any] | None = None  # None: use kio

    def skim(self, frame: memoryview, offset: int, max_elements: int = MAX_ELEMENTS) -> Skimmed:
        """Check the body of a request, which begins at `offset`. Errors: InvalidRequestError."""
        hot = None if self.read_hot is None else self.read_hot(frame, offset)
        if hot is not None and (elements := elements_of(hot)) <= max_elements:
            return Skimmed(frame, len(frame), elements, hot)
        return skim(self.request, frame, offset, max_elements)

    def decode(self, skimmed: Skimmed, offset: int) -> Any:
        """The decoded body. Errors: InvalidRequestError."""
        if skimmed.body is not None:
            return skimmed.body
        try:
            body, _ = self.read(skimmed.frame, offset)
        except Exception as error:  # noqa: BLE001 -- kio has errors of its own for bad bytes, and Python's
            raise InvalidRequestError(f"invalid request: {error!r}"[:300]) from None
        return body

    def encode(self, correlation_id: int, answer: Mapping[str, Any]) -> list[Buffer]:
        """A response as a frame, in several buffers."""
        sink = Sink()
        sink.write(self._head(correlation_id))
        self.write(sink, answer)
        return sink.framed()

    def body(self, answer: Mapping[str, Any]) -> bytes:
        """An encoded response without its header and without records."""
        sink = Sink()
        self.write(sink, answer)
        return sink.joined()

    def framed(self, correlation_id: int, body: bytes) -> tuple[bytes, bytes]:
        """The frame of an encoded body."""
        head = self._head(correlation_id)
        return (len(head) + len(body)).to_bytes(4, "big") + head, body

    def _head(self, correlation_id: int) -> bytes:
        head = correlation_id.to_bytes(4, "big", signed=True)
        return head + _NO_TAGS if self.has_tagged_header else head


@functools.cache
def layout(api_key: int, version: int) -> Layout:
    """Errors: KeyError, and kio's errors for unknown apis and versions."""
    request: Any = load_request_schema(api_key, version)
    response: Any = load_response_schema(api_key, version)
    has_tagged_header = bool(response.__flexible__) and api_key != _API_VERSIONS_KEY
    return Layout(
        request,
        entity_reader(request),
        HOT_LAYOUTS[api_key](version) if api_key in HOT_LAYOUTS else kio_layout(response),
        bool(request.__flexible__),
        has_tagged_header,
        HOT_REQUESTS[api_key](version) if api_key in HOT_REQUESTS else None,
    )


def kio_layout(response: Any) -> Callable[[Sink, Mapping[str, Any]], None]:
    """Encodes responses by kio's schema."""
    write: Any = entity_writer(response)
    make = _maker(response)
    return lambda sink, answer: write(sink, make(answer))


def ms_of(duration: datetime.timedelta | int) -> int:
    """Converts kio's timedelta; hot_requests has ms."""
    return duration if isinstance(duration, int) else duration // MS


def id_of(value: uuid.UUID | bytes | None) -> bytes:
    """Converts kio's UUID, None for zeros; hot_requests has bytes."""
    if isinstance(value, bytes):
        return value
    return _NO_ID if value is None else value.bytes


# --- from plain values to what kio writes --------------------------------------------------------------


@functools.cache
def _maker(entity: Any) -> Callable[[Mapping[str, Any]], Any]:
    """Makes an entity from the fields that its version has."""
    steps = [(field.name, _converter(entity, field)) for field in dataclasses.fields(entity)]
    is_throttled = any(name == "throttle_time" for name, _ in steps)

    def make(values: Mapping[str, Any]) -> Any:
        taken = {
            name: values[name] if convert is None else convert(values[name])
            for name, convert in steps
            if name in values
        }
        if is_throttled and "throttle_time" not in taken:
            taken["throttle_time"] = 0 * MS
        return entity(**taken)

    return make


def _converter(entity: Any, field: Any) -> Callable[[Any], Any] | None:
    """Converts one field; None where kio takes the plain value."""
    kind, is_array = kind_of(field.type)
    one: Callable[[Any], Any] | None
    is_entity = dataclasses.is_dataclass(kind)
    kafka_type = field.metadata.get("kafka_type", "")
    if kafka_type == "error_code":
        instead = substitutes(entity.__api_key__, entity.__version__)
        return functools.partial(_to_code, instead) if instead else _known_code
    if kafka_type == "datetime_i64":
        return _to_time_or_none if type(None) in get_args(field.type) else _to_time
    one = _maker(kind) if is_entity else _PLAIN.get(kafka_type)
    if is_array:
        return functools.partial(_each, one)
    return functools.partial(_unless_none, one) if is_entity else one


def _each(convert: Callable[[Any], Any] | None, values: Any) -> Any:
    if values is None:
        return None
    return tuple(values) if convert is None else tuple([convert(value) for value in values])


def _unless_none(convert: Any, value: Any) -> Any:
    return None if value is None else convert(value)


def _to_code(instead: Mapping[int, int], code: int) -> ErrorCode:
    return _known_code(instead.get(code, code))


def _known_code(code: int) -> ErrorCode:
    return _CODES.get(code, ErrorCode.unknown_server_error)


def _to_time(ms: int) -> datetime.datetime:
    return _EPOCH + ms * MS


def _to_time_or_none(ms: int) -> datetime.datetime | None:
    return None if ms < 0 else _to_time(ms)


def _to_uuid(value: bytes) -> uuid.UUID | None:
    return None if value == _NO_ID or not value else uuid.UUID(bytes=bytes(value))


_CODES: dict[int, ErrorCode] = {int(code): code for code in ErrorCode}
_PLAIN: dict[str, Callable[[Any], Any]] = {
    "timedelta_i32": lambda ms: ms * MS,
    "timedelta_i64": lambda ms: ms * MS,
    "uuid": _to_uuid,
}
