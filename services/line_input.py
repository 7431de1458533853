"""A stream of bytes cut into records: a delimiter ends a record, another one ends its key. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

from ..protocol.errors import MessageTooLargeError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

# Bound: what is kept of an input that never ends its record; no record can be larger anyway.
MAX_RECORD_BYTES = 100 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class LineShape:
    """How records are cut out. `key` is for all of them; `max_count` None takes everything."""

    delimiter: bytes
    key_delimiter: bytes | None = None
    key: bytes | None = None
    is_empty_null: bool = False
    max_count: int | None = None


def split_records(
    chunks: Iterable[bytes | None], shape: LineShape
) -> Iterator[tuple[bytes | None, bytes | None]]:
    """(key, value) of every record in the order of the stream, each as soon as it is complete.

    A None among the chunks ends the record under way (the end of a file); so does the end of the stream.
    A line feed as delimiter takes a carriage return before it along. Errors: MessageTooLargeError.
    """
    for line in islice(_lines(chunks, shape.delimiter), shape.max_count):
        yield split_record(line, shape)


def split_record(line: bytes, shape: LineShape) -> tuple[bytes | None, bytes | None]:
    """Key and value of one record; a line without the key delimiter is all value."""
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
        # a delimiter may begin in what is left of the chunks before
        at = max(0, len(buffer) - len(delimiter) + 1)
        buffer += chunk
        start = 0
        while (at := buffer.find(delimiter, at)) >= 0:
            yield _without_return(bytes(buffer[start:at]), delimiter)
            at = start = at + len(delimiter)
        del buffer[:start]
        if len(buffer) > MAX_RECORD_BYTES:
            raise MessageTooLargeError(
                f"a record has more than {MAX_RECORD_BYTES} bytes without its delimiter"
            )
    if buffer:
        yield _without_return(bytes(buffer), delimiter)


def _without_return(line: bytes, delimiter: bytes) -> bytes:
    return line[:-1] if delimiter == b"\n" and line.endswith(b"\r") else line
