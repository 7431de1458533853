"""The client side of Kafka's protocol: kio encodes requests and decodes responses. Also used with Apache
Kafka."""

import dataclasses
import io
import struct
import uuid
from typing import Any

from headrace.services.kafka_listener.entities import MS, Layout
from headrace.services.kafka_listener.skimming import kind_of
from kio.index import load_request_schema, load_response_schema
from kio.serial import entity_reader, entity_writer


def request_frame(api_key: int, version: int, body: Any, correlation_id: int = 7, client: str = "c") -> bytes:
    """An encoded request without its length; `body` is an entity of kio."""
    return request_head(api_key, version, correlation_id, client) + written(body)


def request_head(api_key: int, version: int, correlation_id: int = 7, client: str = "c") -> bytes:
    """The header of a request."""
    name = client.encode()
    head = struct.pack(">hhih", api_key, version, correlation_id, len(name)) + name
    return head + (b"\0" if load_request_schema(api_key, version).__flexible__ else b"")


def framed(frame: bytes) -> bytes:
    """The frame with its length."""
    return struct.pack(">i", len(frame)) + frame


def written(entity: Any) -> bytes:
    """The entity as kio encodes it."""
    out = io.BytesIO()
    entity_writer(type(entity))(out, entity)
    return out.getvalue()


def answer_of(api_key: int, version: int, frame: bytes) -> tuple[int, Any]:
    """Correlation id and body of a response without its length. Asserts that all bytes are decoded."""
    body, behind = body_of(api_key, version, frame)
    assert not behind, f"{behind} bytes behind the answer"
    return struct.unpack(">i", frame[:4])[0], body


def body_of(api_key: int, version: int, frame: bytes) -> tuple[Any, int]:
    """The body of a response without its length, and the number of bytes after it."""
    schema: Any = load_response_schema(api_key, version)
    start = 5 if schema.__flexible__ and api_key != 18 else 4
    body, size = entity_reader(schema)(bytes(frame), start)
    return body, len(frame) - start - size


def decoded(shape: Layout, frame: memoryview, offset: int = 0) -> Any:
    """The body of a request as the listener decodes it. Errors: InvalidRequestError."""
    return shape.decode(shape.skim(frame, offset), offset)


def example(schema: Any, values: dict[str, Any] | None = None) -> Any:
    """An entity with a value in every field; `values` are set by field name, at any depth."""
    given = values or {}
    return schema(**{field.name: _value(field, given) for field in dataclasses.fields(schema)})


def example_request(api_key: int, version: int, **values: Any) -> Any:
    """A request entity of kio with a value in every field."""
    return example(load_request_schema(api_key, version), values)


_VALUES: dict[str, Any] = {
    "string": "text",
    "bytes": b"bytes",
    "records": b"records",
    "bool": True,
    "uuid": uuid.UUID(int=5),
    "timedelta_i32": 9 * MS,
    "timedelta_i64": 9 * MS,
    "float64": 1.5,
}


def _value(field: Any, given: dict[str, Any]) -> Any:
    kind, is_array = kind_of(field.type)
    if field.name in given and not dataclasses.is_dataclass(kind):
        one = given[field.name]
    elif dataclasses.is_dataclass(kind):
        one = example(kind, given)
    else:
        one = _VALUES.get(field.metadata.get("kafka_type", ""), 3)
    return (one,) if is_array else one
