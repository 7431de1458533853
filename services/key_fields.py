"""Selects a field of text lines as key: the client of an access log, the program of a syslog. Pure."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

MAX_COLUMNS = 10  # a column further to the right is text, not a field
MAX_FIELD_BYTES = 256  # compared bytes of a field
MAX_KEY_BYTES = 128  # Bound: bytes of a key; a longer field is cut off
MIN_SHARE = 0.8  # the part of the lines that must have the field
MAX_DISTINCT_SHARE = 0.5  # a field that differs on most lines is an identifier or text

NO_KEY = b"(no key)"

_ADDRESS = re.compile(rb"\d{1,3}(\.\d{1,3}){3}|(?=.*::|(?:.*:){5})[0-9a-fA-F:.]+")  # a time has fewer colons
_NUMBER_OR_TIME = re.compile(rb"[\[({]?[-+]?\d[-+0-9:.,/TZ_]*[\])}]?[,;:]?|\[?\d{1,2}/[A-Za-z]{3}/\d{4}\S*")
_CALENDAR = re.compile(
    rb"(mon|tue|wed|thu|fri|sat|sun|jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*,?", re.I
)
_PROGRAM = re.compile(rb"([^\[\]\s:()]+)(?:\(\S*\))?(?:\[\d+\])?:")  # sshd[123]: and systemd:


@dataclass(frozen=True, slots=True)
class KeyField:
    """A field of a line, counted from 0; `separator` None means white space."""

    index: int
    separator: bytes | None = None

    def key_of(self, line: bytes) -> bytes:
        """The key of one line; `NO_KEY` if it lacks the field."""
        fields = line.split(self.separator, self.index + 1)
        if len(fields) <= self.index:
            return NO_KEY
        return _key_in(fields[self.index][:MAX_FIELD_BYTES])


def choose_key_field(sample: Sequence[bytes]) -> KeyField:
    """The first field that repeats and varies, except times and numbers; else the first field."""
    lines = [line for line in sample if line.strip()]
    separator = _separator(lines)
    rows = [line.split(separator, MAX_COLUMNS)[:MAX_COLUMNS] for line in lines]
    for index in range(max(map(len, rows), default=0)):
        column = [row[index] for row in rows if len(row) > index]
        if len(column) >= MIN_SHARE * len(rows) and _is_name(column):
            return KeyField(index, separator)
    return KeyField(0, separator)


def _is_name(column: Sequence[bytes]) -> bool:
    keys = [_normal(field) for field in column]
    odd = sum(1 for key in keys if not key or _is_time_or_number(key))
    if odd > (1 - MIN_SHARE) * len(keys):
        return False
    return 2 <= len(set(keys)) <= max(2, MAX_DISTINCT_SHARE * len(keys))


def _is_time_or_number(key: bytes) -> bool:
    if _ADDRESS.fullmatch(key):
        return False
    return bool(_NUMBER_OR_TIME.fullmatch(key) or _CALENDAR.fullmatch(key))


def _separator(lines: Sequence[bytes]) -> bytes | None:
    """Tab, comma or semicolon if nearly every line has at least two of them, else white space."""
    for candidate in (b"\t", b",", b";"):
        if lines and sum(line.count(candidate) >= 2 for line in lines) >= MIN_SHARE * len(lines):
            return candidate
    return None


@functools.lru_cache(4096)  # Bound: about 1.5 MB; fields repeat, so most lookups hit
def _key_in(field: bytes) -> bytes:
    return _normal(field)[:MAX_KEY_BYTES] or NO_KEY


def _normal(field: bytes) -> bytes:
    """The field without quotes, and a program's name without its process id."""
    field = field.strip().strip(b'"')
    program = _PROGRAM.fullmatch(field)
    return program[1] if program else field
