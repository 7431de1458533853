"""Splits a stream of bytes into records: a delimiter ends a record, another one ends its key. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

from ..protocol.errors import MessageTooLargeError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

# Bound: bytes buffered of an input without delimiter; no record can be larger.
MAX_RECORD_BYTES = 100 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class LineShape:
    """How records are split. `key` applies to all records; `max_count` None means no limit."""

    delimiter: bytes
    key_delimiter: bytes | None = None
    key: bytes | None = None
    is_empty_null: bool = False
    max_count: int | None = None


def split_records(
    chunks: Iterable[bytes | None], shape: LineShape
) -> Iterator[tuple[bytes | None, bytes | None]]:
    """Key and value of every record in the order of the stream, each as soon as it is complete.

    None among the chunks (the end of a file) and the end of the stream end a record. A line feed as delimiter
    also removes a carriage return before it. Errors: MessageTooLargeError.
    """
    for line in islice(_lines(chunks, shape.delimiter), shape.max_count):
        yield split_record(line, shape)


def split_record(line: bytes, shape: LineShape) -> tuple[bytes | None, bytes | None]:
    """Key and value of one record; a line without the key delimiter is a value."""
    key, value = shape.key, line
    if shape.key_delimiter is not None and shape.key_delimiter in line:
        key, _, value = line.partition(shape.key_delimiter)
    if shape.is_empty_null:
        return key or None, value or None
    return key, value


def _lines(chunks: Iterable[bytes | None], delimiter: bytes) -> Iterator[bytes]:
    buffer = bytearray()
    for chunk in chunks:
        if chunk is None:
            if buffer:
                yield _without_return(bytes(buffer), delimiter)
            buffer.clear()
            continue
        # a delimiter may start in the rest of the previous chunks
        at = max(0, len(buffer) - len(delimiter) + 1)
        buffer += chunk
        start = 0
        while (at := buffer.find(delimiter, at)) >= 0:
            yield _without_return(bytes(buffer[start:at]), delimiter)
            at = start = at + len(delimiter)
        del buffer[:start]
        if len(buffer) > MAX_RECORD_BYTES:
            raise MessageTooLargeError(
                f"a record has more than {MAX_RECORD_BYTES} bytes before its delimiter"
            )
    if buffer:
        yield _without_return(bytes(buffer), delimiter)


def _without_return(line: bytes, delimiter: bytes) -> bytes:
    return line[:-1] if delimiter == b"\n" and line.endswith(b"\r") else line
