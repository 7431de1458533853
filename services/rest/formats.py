"""Keys and values of records in JSON documents: embedded JSON, text, and base64. Pure."""

from __future__ import annotations

import base64
import binascii
from typing import Any

import msgspec

from ..web.problems import Problem

NULL = msgspec.Raw(b"null")
JSON, STRING, BINARY, AUTO, MASKED = "JSON", "STRING", "BINARY", "AUTO", "MASKED"
OF_REGISTRY = ("AVRO", "JSONSCHEMA", "PROTOBUF")
SHOWN = (AUTO, JSON, STRING, BINARY)
_decoder = msgspec.json.Decoder()
_text_decoder = msgspec.json.Decoder(str)


def embedded() -> Any:
    """A field for an embedded value; null if it is missing."""
    return msgspec.field(default_factory=lambda: NULL)


def json_bytes(raw: msgspec.Raw) -> bytes | None:
    """The bytes of an embedded JSON value without white space between its tokens; None for null."""
    text = bytes(raw)
    if text == b"null":
        return None
    return msgspec.json.format(text, indent=-1)


def binary_bytes(raw: msgspec.Raw) -> bytes | None:
    """The bytes of a value in base64; None for null. Errors: ValueError."""
    text = bytes(raw)
    if text == b"null":
        return None
    return from_base64(_text(raw, "base64 text"))


def string_bytes(raw: msgspec.Raw) -> bytes | None:
    """The UTF-8 bytes of a text; None for null. Errors: ValueError."""
    return None if bytes(raw) == b"null" else _text(raw, "text").encode()


def from_base64(text: str) -> bytes:
    """Decoded base64. Errors: ValueError."""
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise ValueError(f"not base64: {error}") from None


def no_registry(what: str) -> Problem:
    """The response for a format that needs a schema registry."""
    return Problem(
        501, f"{what} needs a schema registry, which this cluster does not have: use json or binary"
    )


class ShownData(msgspec.Struct):
    """A key or value that was read. `data` is any JSON for JSON, text for STRING, base64 for BINARY; it is
    missing (null) for MASKED, and if the value is larger than the event of a tail may be."""

    type: str
    data: Any
    size: int


def shown(value: bytes | None, wanted: str = AUTO) -> ShownData | None:
    """A key or value as `wanted`, or as it can be: JSON and STRING fall back to what the bytes allow."""
    if value is None:
        return None
    if wanted in (AUTO, JSON):
        try:
            _decoder.decode(value)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            pass
        else:
            return ShownData(JSON, msgspec.Raw(value), len(value))
    if wanted != BINARY:
        try:
            return ShownData(STRING, value.decode(), len(value))
        except UnicodeDecodeError:
            pass
    return ShownData(BINARY, base64.b64encode(value).decode(), len(value))


def _text(raw: msgspec.Raw, what: str) -> str:
    try:
        return _text_decoder.decode(raw)
    except msgspec.DecodeError:
        raise ValueError(f"it must be {what}") from None
