"""Raw requests and responses of any API and version as plain values.

The schemas come from `kio`, which is generated from Kafka's message files. Fields that a version does not
have are left out; missing fields have their default, zero or an empty value.
"""

import dataclasses
import datetime
import enum
import itertools
import socket
import struct
import types
import typing
import uuid
from typing import Any, Self

from kafka_wire import body_of, framed, request_frame
from kio.index import load_request_schema
from kio.schema.index import api_key_map
from kio.static.primitive import TZAware, i32Timedelta, i64Timedelta

KEYS = {name: key for key, name in api_key_map.items()}
TIMEOUT_S = 20.0
CLIENT_ID = "raw"
_EPOCH = datetime.datetime.fromtimestamp(0, datetime.UTC)
_NOTHING = (
    (bool, False),
    (int, 0),
    (float, 0.0),
    (str, ""),
    (bytes, b""),
    (datetime.timedelta, datetime.timedelta(0)),
    (datetime.datetime, _EPOCH),
    (uuid.UUID, uuid.UUID(int=0)),
)


class Closed(Exception):
    """The server closed the connection without a response."""


def versions_of(api: str) -> list[int]:
    """The versions of an API that kio knows."""
    from kio.schema.index import schema_name_map

    return sorted(schema_name_map[api])


def frame(
    api: str, version: int, fields: dict[str, Any], correlation: int = 1, client_id: str = CLIENT_ID
) -> bytes:
    """An encoded request after its size."""
    body = _entity(load_request_schema(KEYS[api], version), fields)
    return framed(request_frame(KEYS[api], version, body, correlation, client_id))


def parsed(api: str, version: int, answer: bytes) -> dict[str, Any]:
    """The body of a response, without its size, as dicts, lists, numbers and strings."""
    body, behind = body_of(KEYS[api], version, answer)
    return ({"bytes behind the answer": behind} if behind else {}) | _plain(body)


class Wire:
    """One connection with one request in flight."""

    def __init__(self, bootstrap: str, timeout_s: float = TIMEOUT_S) -> None:
        host, port = bootstrap.rsplit(":", 1)
        self.client_id = CLIENT_ID
        self._socket = socket.create_connection((host, int(port)), timeout_s)
        self._numbers = itertools.count(1)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def ask(self, api: str, version: int, **fields: Any) -> dict[str, Any]:
        """Errors: Closed, TimeoutError."""
        self._socket.sendall(frame(api, version, fields, next(self._numbers), self.client_id))
        return parsed(api, version, self.answer())

    def authenticate(self, token: str) -> None:
        """By OAUTHBEARER. Errors: Closed."""
        self.ask("sasl_handshake", 1, mechanism="OAUTHBEARER")
        data = f"n,,\1auth=Bearer {token}\1\1".encode()
        if self.ask("sasl_authenticate", 1, auth_bytes=data)["error_code"] != "none":
            raise Closed

    def send(self, data: bytes) -> None:
        """Raw bytes."""
        self._socket.sendall(data)

    def answer(self) -> bytes:
        """One response without its size. Errors: Closed, TimeoutError."""
        return self._exactly(struct.unpack(">i", self._exactly(4))[0])

    def _exactly(self, size: int) -> bytes:
        found = bytearray()
        while len(found) < size:
            try:
                more = self._socket.recv(size - len(found))
            except ConnectionResetError:
                more = b""
            if not more:
                raise Closed
            found += more
        return bytes(found)


def _entity(made: Any, fields: dict[str, Any]) -> Any:
    values = {}
    for field in dataclasses.fields(made):
        if field.name in fields:
            values[field.name] = _value(field.type, fields[field.name])
        elif field.default is dataclasses.MISSING:
            values[field.name] = _nothing(field.type)
    return made(**values)


def _value(kind: Any, value: Any) -> Any:
    """The value of a field of this type, from a plain value."""
    kind = _not_none(kind)
    if value is None:
        made = None
    elif typing.get_origin(kind) is tuple:
        made = tuple(_value(typing.get_args(kind)[0], each) for each in value)
    elif dataclasses.is_dataclass(kind):
        made = _entity(kind, value)
    elif kind in (i32Timedelta, i64Timedelta):
        made = datetime.timedelta(milliseconds=value)
    elif kind is TZAware:
        made = _EPOCH + datetime.timedelta(milliseconds=value)
    else:
        made = uuid.UUID(value) if kind is uuid.UUID and isinstance(value, str) else value
    return made


def _nothing(kind: Any) -> Any:
    """The empty value of a field of this type: null if it is nullable."""
    if isinstance(kind, types.UnionType):
        return None
    if dataclasses.is_dataclass(kind):
        return _entity(kind, {})
    if typing.get_origin(kind) is tuple:
        return ()
    return next(nothing for base, nothing in _NOTHING if issubclass(kind, base))


def _not_none(kind: Any) -> Any:
    if isinstance(kind, types.UnionType):
        (kind,) = (each for each in typing.get_args(kind) if each is not types.NoneType)
    return kind


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value):
        return {field.name: _plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, tuple):
        return [_plain(each) for each in value]
    if isinstance(value, datetime.timedelta):
        return round(value.total_seconds() * 1000)
    if isinstance(value, datetime.datetime):
        return round((value - _EPOCH).total_seconds() * 1000)
    return value.name if isinstance(value, enum.Enum) else value
