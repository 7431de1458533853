"""Bytes of records as text for a page: formats, their detection, and visible control characters. Pure.

A decoder never fails: bytes that are not of the requested format are shown as hex, with a note. The result
has no control or bidirectional character of the record, so neither a terminal nor a browser interprets one.
"""

from __future__ import annotations

import json
import math
import struct
import unicodedata
from dataclasses import dataclass
from typing import Any

import msgpack
import msgspec

FORMATS = ("auto", "utf-8", "json", "msgpack", "int32", "int64", "float64", "uuid", "hex")
PREVIEW_CHARACTERS = 2_000  # Bound: of one value in a table
DETAIL_CHARACTERS = 100_000  # Bound: of one value on its own page
STRUCTURED_BYTES = 1 << 20  # Bound: larger values are not parsed to detect their format
_MOST_DEPTH = 100
_CONTROLS_SHOWN = {"\n": "\n", "\t": "\t"}
_ABSENT = object()


@dataclass(frozen=True, slots=True)
class Shown:
    """A key or value for a page. `size` is that of the bytes, -1 for null. `parsed` is the structure of JSON
    and MessagePack, and the number or text of other formats: the expressions of a search read it."""

    format: str
    text: str
    size: int
    is_truncated: bool = False
    note: str = ""
    parsed: Any = None

    @property
    def is_null(self) -> bool:
        return self.size < 0


NULL = Shown("null", "", -1)


@dataclass(frozen=True, slots=True)
class Decoded:
    """The format of some bytes and the value that they hold."""

    format: str
    value: Any
    note: str = ""


def decode(data: bytes | None, wanted: str = "auto") -> Decoded:
    """The value of the bytes in the format, or in the detected one. Errors: none; `note` has the reason of
    hex."""
    if data is None:
        return Decoded("null", None)
    if wanted == "auto":
        return _detected(data)
    found = _ABSENT if wanted == "hex" else _parse(data, wanted)
    if found is _ABSENT:
        return Decoded("hex", data, "" if wanted == "hex" else f"not {wanted}")
    return Decoded(wanted, found)


def shown(decoded: Decoded, size: int, limit: int = PREVIEW_CHARACTERS, *, indent: bool = False) -> Shown:
    """A decoded value as text of at most `limit` characters."""
    if size < 0:
        return NULL
    value = decoded.value
    if decoded.format == "hex":
        text = hex_text(value, limit)
        return Shown("hex", text, size, len(text) < 2 * len(value), decoded.note, _hex_of(value))
    if decoded.format in ("json", "msgpack"):
        raw = json.dumps(_jsonable(value), ensure_ascii=False, indent=2 if indent else None)
    else:
        raw = str(value)
    text = visible(raw[: limit + 1])[:limit]
    return Shown(decoded.format, text, size, len(raw) > limit, decoded.note, value)


def visible(text: str) -> str:
    """The text with control characters, bidirectional controls and lone surrogates as escapes."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(character if _is_plain(character) else _escape(character) for character in text)


def hex_text(data: bytes, limit: int = PREVIEW_CHARACTERS) -> str:
    """Hexadecimal digits of the first bytes."""
    return data[: limit // 2].hex()


def hex_rows(data: bytes, limit: int = 4_096) -> list[tuple[str, str, str]]:
    """Rows of a hex view: the offset, 16 bytes, and their ASCII characters."""
    rows = []
    for start in range(0, min(len(data), limit), 16):
        piece = data[start : start + 16]
        letters = "".join(chr(byte) if 32 <= byte < 127 else "·" for byte in piece)
        rows.append((f"{start:08x}", piece.hex(" "), letters))
    return rows


def _detected(data: bytes) -> Decoded:
    if not data:
        return Decoded("utf-8", "")
    if data[0] in b'{["' and len(data) <= STRUCTURED_BYTES:
        value = _parse(data, "json")
        if value is not _ABSENT:
            return Decoded("json", value)
    text = _parse(data, "utf-8")
    if text is not _ABSENT and _is_readable(text):
        return Decoded("utf-8", text)
    if (0x80 <= data[0] <= 0x9F or 0xDC <= data[0] <= 0xDF) and len(data) <= STRUCTURED_BYTES:
        value = _parse(data, "msgpack")
        if value is not _ABSENT:
            return Decoded("msgpack", value)
    return _binary(data)


def _binary(data: bytes) -> Decoded:
    if len(data) in (4, 8):
        return Decoded(f"int{len(data) * 8}", int.from_bytes(data, "big", signed=True))
    if data[0] == 0 and len(data) > 5:
        number = int.from_bytes(data[1:5], "big")
        return Decoded("hex", data, f"may be Avro or Protobuf of schema id {number}")
    return Decoded("hex", data)


def _parse(data: bytes, wanted: str) -> Any:
    try:
        value = _PARSERS[wanted](data)
    except (
        ValueError,
        TypeError,
        RecursionError,
        struct.error,
        msgpack.UnpackException,
        msgspec.MsgspecError,
    ):
        return _ABSENT
    return _ABSENT if wanted in ("json", "msgpack") and _depth(value) > _MOST_DEPTH else value


def _sized(size: int, data: bytes) -> bytes:
    if len(data) != size:
        raise ValueError(f"{size} bytes are expected")
    return data


def _uuid_text(data: bytes) -> str:
    digits = _sized(16, data).hex()
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


_PARSERS: dict[str, Any] = {
    "utf-8": lambda data: data.decode("utf-8"),
    "json": msgspec.json.decode,
    "msgpack": lambda data: msgpack.unpackb(
        data, strict_map_key=False, timestamp=0, unicode_errors="replace"
    ),
    "int32": lambda data: int.from_bytes(_sized(4, data), "big", signed=True),
    "int64": lambda data: int.from_bytes(_sized(8, data), "big", signed=True),
    "float64": lambda data: struct.unpack(">d", data)[0],
    "uuid": _uuid_text,
}


def _depth(value: Any) -> int:
    """The nesting of lists and maps, up to the bound."""
    level, depth = [value], 0
    while level and depth <= _MOST_DEPTH:
        inner: list[Any] = []
        for each in level:
            if isinstance(each, dict):
                inner.extend(each.values())
            elif isinstance(each, (list, tuple)):
                inner.extend(each)
        if not inner and not any(isinstance(each, (dict, list, tuple)) for each in level):
            break
        level, depth = inner, depth + 1
    return depth


def _jsonable(value: Any) -> Any:
    """MessagePack has bytes, extensions and keys of any type; JSON does not."""
    if isinstance(value, dict):
        return {
            key if isinstance(key, str) else str(_jsonable(key)): _jsonable(each)
            for key, each in value.items()
        }
    if isinstance(value, (list, tuple)):
        return [_jsonable(each) for each in value]
    if isinstance(value, bytes):
        return "0x" + value.hex()
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value if value is None or isinstance(value, (str, int, float, bool)) else str(value)


def _hex_of(data: bytes) -> str:
    return data[:STRUCTURED_BYTES].hex()


def _is_readable(text: str) -> bool:
    """Whether almost all of the first characters are printable."""
    start = text[:1_000]
    bad = sum(1 for character in start if not _is_plain(character))
    return bad * 10 <= len(start)


def _is_plain(character: str) -> bool:
    if character in _CONTROLS_SHOWN:
        return True
    return unicodedata.category(character) not in ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")


def _escape(character: str) -> str:
    code = ord(character)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
