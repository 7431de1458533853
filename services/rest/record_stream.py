"""Decodes a stream of concatenated JSON objects into records, many at once. Pure."""

from __future__ import annotations

import re
from typing import Generic, TypeVar

import msgspec

from ..web.calls_io import decoded
from ..web.problems import Problem
from .json_stream import JsonSplitter

T = TypeVar("T")
# Where an object may end and the next one begin, unless it is text within a string.
_BOUNDARY = re.compile(rb"\}[ \t\r\n]*(?=\{)")
_SPACE = b" \t\r\n"


class RecordStream(Generic[T]):
    """Takes bytes as they arrive; each record is returned once it is complete.

    msgspec decodes whole objects that follow each other in one call. An object that spans parts of the body,
    and parts with one that is malformed, go through `JsonSplitter`, one object at a time.
    """

    def __init__(self, kind: type[T], max_bytes: int) -> None:
        self._kind, self._max_bytes = kind, max_bytes
        self._decoder = msgspec.json.Decoder(kind)
        self._splitter = JsonSplitter(max_bytes)

    def feed(self, data: bytes) -> list[T | Problem]:
        """The records that end in these bytes; a Problem in place of one that is malformed. Errors: Problem
        400 for text between objects, 413."""
        found: list[T | Problem] = []
        if not self._splitter.is_between():
            found += self._divided(data, most=1)
            if not self._splitter.is_between():
                return found
            data = self._splitter.rest()
        if len(data) <= self._max_bytes:
            if data.rstrip(_SPACE).endswith(b"}") and (records := self._at_once(data)) is not None:
                return [*found, *records]
            *_, last = 0, *(boundary.end() for boundary in _BOUNDARY.finditer(data))
            if last and (records := self._at_once(data[:last])) is not None:
                return [*found, *records, *self._divided(data[last:])]
        return found + self._divided(data)

    def end(self) -> None:
        """Errors: Problem 400 if the stream ends within an object."""
        self._splitter.end()

    def _at_once(self, data: bytes) -> list[T] | None:
        """The records of whole objects; None if they are not, or one does not fit."""
        try:
            str(data, "utf-8")  # embedded values are taken as they are
            return self._decoder.decode_lines(data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return None

    def _divided(self, data: bytes, most: int | None = None) -> list[T | Problem]:
        return [self._decoded(document) for document in self._splitter.feed(data, most)]

    def _decoded(self, document: bytes) -> T | Problem:
        try:
            return decoded(document, self._kind)
        except Problem as problem:
            return problem
