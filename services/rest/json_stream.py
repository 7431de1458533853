"""Divides a stream of concatenated JSON objects into documents, without decoding them. Pure."""

from __future__ import annotations

import re

from ..web.problems import Problem

# A whole string, a bracket, or the quote of a string whose end has not arrived.
_TOKEN = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[{}\[\]"]', re.DOTALL)
_IN_STRING = re.compile(rb'["\\]')
_NO_SPACE = re.compile(rb"[^ \t\r\n]")
_QUOTE, _BACKSLASH = ord('"'), ord("\\")
_OPEN, _CLOSE = frozenset(b"{["), frozenset(b"}]")


class JsonSplitter:
    """Takes bytes as they arrive; each document is returned once it is complete."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._buffer = bytearray()
        self._at = 0  # the next byte to look at
        self._depth = 0
        self._is_in_string = False

    def is_between(self) -> bool:
        """Whether no document is open."""
        return not self._depth and not self._is_in_string

    def rest(self) -> bytes:
        """The bytes behind the last document, which are not looked at any more. Only between documents."""
        assert self.is_between()
        rest = bytes(self._buffer)
        self._buffer.clear()
        self._at = 0
        return rest

    def feed(self, data: bytes, most: int | None = None) -> list[bytes]:
        """The documents that end in these bytes, or the first `most` of them. Errors: Problem 400 for text
        between documents, 413."""
        self._buffer += data
        documents: list[bytes] = []
        start = 0
        while self._at < len(self._buffer) and len(documents) != most:
            if self._is_in_string and not self._end_string():
                break
            end = self._scan()
            if end is None:
                continue
            documents.append(bytes(self._buffer[start:end]))
            start = end
        del self._buffer[:start]
        self._at -= start
        if len(self._buffer) > self._max_bytes or any(len(each) > self._max_bytes for each in documents):
            raise Problem(413, f"a record has more than {self._max_bytes} bytes: max.request.bytes", 41301)
        return documents

    def end(self) -> None:
        """Errors: Problem 400 if the stream ends within a document."""
        if _NO_SPACE.search(self._buffer):
            raise Problem(400, "the last record is cut short", 40001)

    def _scan(self) -> int | None:
        """The end of the open document; None if it is not there yet."""
        buffer, depth = self._buffer, self._depth
        if not depth:
            first = _NO_SPACE.search(buffer, self._at)
            if first is None:
                self._at = len(buffer)
                return None
            if buffer[first.start()] != ord("{"):
                raise Problem(400, "records are JSON objects, one after the other", 40001)
        for found in _TOKEN.finditer(buffer, self._at):
            begin = found.start()
            byte = buffer[begin]
            if byte == _QUOTE:
                if found.end() - begin > 1:
                    continue
                self._depth, self._at, self._is_in_string = depth, found.end(), True
                return None
            depth += 1 if byte in _OPEN else -1
            if depth <= 0:
                self._depth, self._at = 0, found.end()
                return found.end()
        self._depth, self._at = depth, len(buffer)
        return None

    def _end_string(self) -> bool:
        """Look for the end of a string that began before; False if it is not there yet."""
        while True:
            found = _IN_STRING.search(self._buffer, self._at)
            if found is None:
                self._at = len(self._buffer)
                return False
            if self._buffer[found.start()] == _QUOTE:
                self._at, self._is_in_string = found.end(), False
                return True
            if found.end() == len(self._buffer):  # what the backslash escapes has not arrived
                self._at = found.start()
                return False
            self._at = found.end() + 1
