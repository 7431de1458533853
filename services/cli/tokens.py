"""Format tokens of kcat: the output of `headrace consume` for one record.

%t topic, %p partition, %o offset, %T timestamp in ms, %k key, %K its length, %s value, %S its length, %R the
value's length as 4 big-endian bytes, %h headers, %% a percent sign; \\n \\t \\r \\0 \\\\ and \\xHH. A null
has length -1.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ...clients.records import Headers, Record

    AnyRecord = Record[bytes, bytes]

_PIECE = re.compile(r"%(.)|\\x([0-9a-fA-F]{2})|\\(.)|%\Z|\\\Z", re.DOTALL)
_ESCAPES = {"n": b"\n", "t": b"\t", "r": b"\r", "0": b"\0", "\\": b"\\"}

_ESCAPE = re.compile(rb"\\(x[0-9a-fA-F]{2}|[ntr0\\])")

Piece = Callable[["AnyRecord"], bytes]


class RecordFormat:
    """A compiled format; call `render` for each record."""

    def __init__(self, text: str, null: bytes = b"") -> None:
        """`null` replaces a null key or value. Errors: ValueError for an unknown token."""
        self._tokens = _tokens(null)
        self._pieces = self._compile(text)

    def render(self, record: AnyRecord) -> bytes:
        """The bytes to print, without an added newline."""
        return b"".join([piece if isinstance(piece, bytes) else piece(record) for piece in self._pieces])

    def _compile(self, text: str) -> list[bytes | Piece]:
        pieces: list[bytes | Piece] = []
        position = 0
        for match in _PIECE.finditer(text):
            pieces.append(text[position : match.start()].encode())
            pieces.append(self._piece(match))
            position = match.end()
        pieces.append(text[position:].encode())
        return [piece for piece in pieces if piece != b""]

    def _piece(self, match: re.Match[str]) -> bytes | Piece:
        token, hexadecimal, escape = match.groups()
        if hexadecimal is not None:
            return bytes.fromhex(hexadecimal)
        if escape is not None and escape in _ESCAPES:
            return _ESCAPES[escape]
        if match[0] == "%%":
            return b"%"
        if token is not None and token in self._tokens:
            return self._tokens[token]
        known = " ".join(f"%{name}" for name in self._tokens)
        raise ValueError(f"unknown format token {match[0]!r}; use {known} %% \\n \\t \\r \\0 \\\\ \\xHH")


def _tokens(null: bytes) -> dict[str, Piece]:
    return {
        "t": lambda record: record.topic.encode(),
        "p": lambda record: b"%d" % record.partition,
        "o": lambda record: b"%d" % record.offset,
        "T": lambda record: b"%d" % record.timestamp,
        "k": lambda record: null if record.key is None else record.key,
        "K": lambda record: b"%d" % _length(record.key),
        "s": lambda record: null if record.value is None else record.value,
        "S": lambda record: b"%d" % _length(record.value),
        "R": lambda record: struct.pack(">i", _length(record.value)),
        "h": lambda record: headers_text(record.headers, null),
    }


def headers_text(headers: Headers, null: bytes = b"") -> bytes:
    """name=value pairs separated by commas, in order."""
    pairs = [name.encode() + b"=" + (null if value is None else value) for name, value in headers]
    return b",".join(pairs)


def default_format(key_delimiter: bytes | None) -> str:
    """One line with the value, after the key and `key_delimiter` if given."""
    if key_delimiter is None:
        return "%s\\n"
    return "%k" + "".join(f"\\x{byte:02x}" for byte in key_delimiter) + "%s\\n"


def unescaped(text: str) -> bytes:
    r"""The bytes of a typed delimiter: \n \t \r \0 \\ and \xHH are escapes, the rest is UTF-8."""
    return _ESCAPE.sub(_escape, text.encode())


def _escape(match: re.Match[bytes]) -> bytes:
    name = match[1].decode()
    return bytes.fromhex(name[1:]) if name[0] == "x" else _ESCAPES[name]


def _length(data: bytes | None) -> int:
    return -1 if data is None else len(data)
