"""Serdes in both directions and in every accepted form."""

import uuid
from typing import Any

import pytest
from headrace.clients import serdes
from headrace.protocol.errors import SerializationError


@pytest.mark.parametrize(
    ("serde", "value", "data"),
    [
        (serdes.bytes_, b"\x00\xff", b"\x00\xff"),
        (serdes.utf8, "grün", "grün".encode()),
        (serdes.int64, -2, b"\xff" * 7 + b"\xfe"),  # Kafka's LongSerializer
        (serdes.uuid, uuid.UUID(int=1), b"00000000-0000-0000-0000-000000000001"),  # Kafka's UUIDSerializer
        (serdes.json, {"a": [1, None, "x"]}, b'{"a":[1,null,"x"]}'),
        (
            serdes.msgpack,
            {1: b"x", "y": [1.5]},
            b"\x82\x01\xc4\x01x\xa1y\x91\xcb?\xf8\x00\x00\x00\x00\x00\x00",
        ),
    ],
)
def test_built_in_serdes_round_trip(serde: Any, value: Any, data: bytes) -> None:
    """The bytes are fixed: other clients read them."""
    assert serdes.serializer(serde, "value")("t", value, ()) == data
    assert serdes.deserializer(serde, "value")("t", data, ()) == value


@pytest.mark.parametrize(
    ("serde", "value"),
    [(serdes.utf8, 5), (serdes.int64, 2**63), (serdes.int64, "x"), (serdes.bytes_, "text"),
     (serdes.json, {1j}), (serdes.msgpack, object())],
)  # fmt: skip
def test_serialization_errors_have_one_class(serde: Any, value: Any) -> None:
    """SerializationError with topic and field, whatever the library raises."""
    with pytest.raises(SerializationError, match="cannot serialize the key for 'orders'"):
        serdes.serializer(serde, "key")("orders", value, ())


@pytest.mark.parametrize(
    ("serde", "data"),
    [(serdes.utf8, b"\xff"), (serdes.int64, b"1234567"), (serdes.uuid, b"nope"), (serdes.json, b"{"),
     (serdes.msgpack, b"\x92\x01"), (serdes.msgpack, b"\xc1"), (serdes.msgpack, b"\x01\x01")],
)  # fmt: skip
def test_deserialization_errors_have_one_class(serde: Any, data: bytes) -> None:
    """Invalid bytes are the fault of another producer."""
    with pytest.raises(SerializationError, match="cannot deserialize the value for 'orders'"):
        serdes.deserializer(serde, "value")("orders", data, ())


@pytest.mark.parametrize("column", [[b"\xff" * 7 + b"\xfe", bytes(8)], [None, bytes(8)], []])
def test_a_column_is_read_as_its_fields(column: list[bytes | None]) -> None:
    """Numbers in one step, unless one is null."""
    each = [None if data is None else serdes.int64.loads(data) for data in column]
    assert serdes.loads_column(serdes.int64, column) == each


@pytest.mark.parametrize("column", [[bytes(7), bytes(9)], [bytes(8), b""], [bytes(16)]])
def test_a_column_with_a_bad_field_is_an_error(column: list[bytes | None]) -> None:
    """Also where the bytes of all fields together are those of that many numbers."""
    with pytest.raises(ValueError, match="8 bytes"):
        serdes.loads_column(serdes.int64, column)


def test_a_callable_is_a_serde() -> None:
    """`key=str.encode` and `value=json.loads` are what people write."""
    assert serdes.serializer(str.encode, "key")("t", "x", ()) == b"x"
    assert serdes.deserializer(bytes.decode, "key")("t", b"x", ()) == "x"
    assert serdes.serializer(lambda value: bytearray(value), "key")("t", b"x", ()) == b"x"


def test_context_serde_gets_topic_field_and_headers() -> None:
    """A schema registry serde needs them."""
    seen: list[serdes.SerdeContext] = []

    class Spy:
        def serialize(self, value: str, context: serdes.SerdeContext) -> bytes:
            seen.append(context)
            return value.encode()

        def deserialize(self, data: bytes, context: serdes.SerdeContext) -> str:
            seen.append(context)
            raise ValueError(data)

    headers = (("id", b"7"),)
    assert serdes.serializer(Spy(), "value")("t", "x", headers) == b"x"
    with pytest.raises(SerializationError):
        serdes.deserializer(Spy(), "key")("t", b"x", headers)
    assert seen == [serdes.SerdeContext("t", "value", headers), serdes.SerdeContext("t", "key", headers)]


def test_null_never_reaches_a_serde() -> None:
    """A tombstone is null with any serde."""
    for serde in (serdes.json, serdes.utf8, lambda value: b"called"):
        assert serdes.serializer(serde, "value")("t", None, ()) is None


def test_serializer_must_return_bytes() -> None:
    """Text of a callable would have an unknown encoding."""
    with pytest.raises(SerializationError, match="returned str, not bytes"):
        serdes.serializer(str, "value")("t", 1, ())


def test_invalid_serde_is_an_error_at_construction() -> None:
    """`value="json"` is a likely mistake."""
    with pytest.raises(TypeError, match="value= must be a serde"):
        serdes.serializer("json", "value")
    with pytest.raises(TypeError, match="value= must be a serde"):
        serdes.deserializer("json", "value")
