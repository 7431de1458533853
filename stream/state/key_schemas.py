"""How persistent window and session stores order their entries, and which bounds a read has.

By key: key, then time. By time, for windows that are emitted when they close: time, then key. A read takes
the entries between two bounds, half-open, and tests each. Source: WindowKeySchema, SessionKeySchema,
OrderedBytes, PrefixedWindowKeySchemas, PrefixedSessionKeySchemas.
"""

from __future__ import annotations

from struct import Struct
from typing import Protocol

from .formats import windows

_TIME = Struct(">q")
_TIME_AND_MAX_SEQNUM = Struct(">qi")
_TWO_TIMES = Struct(">qq")

Bounds = tuple[bytes | None, bytes | None]


class KeySchema(Protocol):
    """`from_time`, `to_time`: first and last window start; of sessions earliest end and latest start."""

    is_window: bool
    is_time_first: bool

    def segment_time(self, data: bytes) -> int:
        """The time that decides in which segment an entry is: window start, session end."""

    def segment_times(self, keys: list[bytes]) -> list[int]:
        """The `segment_time` of each key, in one call."""

    def is_inside(
        self, data: bytes, from_key: bytes | None, to_key: bytes | None, from_time: int, to_time: int
    ) -> bool: ...

    def key_bounds(self, key: bytes, from_time: int, to_time: int) -> Bounds:
        """For the entries of one key."""

    def range_bounds(
        self, from_key: bytes | None, to_key: bytes | None, from_time: int, to_time: int
    ) -> Bounds:
        """For the entries of a range of keys."""


def _upper(key: bytes, suffix: bytes) -> bytes:
    """Above all entries of keys up to `key`. Where a byte of the key is smaller than the first one of the
    time, the time of a shorter key may be larger."""
    first = suffix[0]
    if first:
        end = 1
        while end < len(key) and key[end] >= first:
            end += 1
        key = key[:end]
    return key + suffix + b"\0"


class WindowKeys:
    """Key, window start, sequence number."""

    is_window, is_time_first = True, False

    def key(self, key: bytes, start: int, seqnum: int = 0) -> bytes:
        return windows.window_key(key, start, seqnum)

    def split(self, data: bytes) -> tuple[bytes, int, int]:
        return windows.split_window_key(data)

    def segment_time(self, data: bytes) -> int:
        time: int = _TIME.unpack_from(data, len(data) - 12)[0]
        return time

    def segment_times(self, keys: list[bytes]) -> list[int]:
        time_of = _TIME.unpack_from
        return [time_of(data, len(data) - 12)[0] for data in keys]

    def is_inside(
        self, data: bytes, from_key: bytes | None, to_key: bytes | None, from_time: int, to_time: int
    ) -> bool:
        if not from_time <= _TIME.unpack_from(data, len(data) - 12)[0] <= to_time:
            return False
        key = data[:-12]
        return (from_key is None or key >= from_key) and (to_key is None or key <= to_key)

    def key_bounds(self, key: bytes, from_time: int, to_time: int) -> Bounds:
        upper = windows.window_key(key, to_time, windows.MAX_SEQNUM)
        return windows.window_key(key, max(0, from_time)), upper + b"\0"

    def range_bounds(
        self, from_key: bytes | None, to_key: bytes | None, from_time: int, to_time: int
    ) -> Bounds:
        suffix = _TIME_AND_MAX_SEQNUM.pack(to_time, windows.MAX_SEQNUM)
        lower = None if from_key is None else from_key + bytes(12)
        return lower, None if to_key is None else _upper(to_key, suffix)


class SessionKeys:
    """Key, session end, session start."""

    is_window, is_time_first = False, False

    def key(self, key: bytes, start: int, end: int) -> bytes:
        return windows.session_key(key, start, end)

    def split(self, data: bytes) -> tuple[bytes, int, int]:
        return windows.split_session_key(data)

    def segment_time(self, data: bytes) -> int:
        time: int = _TIME.unpack_from(data, len(data) - 16)[0]
        return time

    def segment_times(self, keys: list[bytes]) -> list[int]:
        time_of = _TIME.unpack_from
        return [time_of(data, len(data) - 16)[0] for data in keys]

    def is_inside(
        self, data: bytes, from_key: bytes | None, to_key: bytes | None, from_time: int, to_time: int
    ) -> bool:
        key, start, end = windows.split_session_key(data)
        if end < from_time or start > to_time:
            return False
        return (from_key is None or key >= from_key) and (to_key is None or key <= to_key)

    def key_bounds(self, key: bytes, from_time: int, to_time: int) -> Bounds:
        upper = windows.session_key(key, to_time, windows.MAX_TIME)
        return windows.session_key(key, 0, max(0, from_time)), upper + b"\0"

    def range_bounds(
        self, from_key: bytes | None, to_key: bytes | None, from_time: int, to_time: int
    ) -> Bounds:
        lower = None if from_key is None else from_key + bytes(16)
        suffix = _TWO_TIMES.pack(windows.MAX_TIME, to_time)
        return lower, None if to_key is None else _upper(to_key, suffix)


class TimeFirstWindowKeys:
    """Window start, key, sequence number."""

    is_window, is_time_first = True, True

    def key(self, key: bytes, start: int, seqnum: int = 0) -> bytes:
        return windows.time_first_key(key, start, seqnum)

    def split(self, data: bytes) -> tuple[bytes, int, int]:
        return windows.split_time_first_key(data)

    def segment_time(self, data: bytes) -> int:
        time: int = _TIME.unpack_from(data, 1)[0]
        return time

    def segment_times(self, keys: list[bytes]) -> list[int]:
        return [_TIME.unpack_from(data, 1)[0] for data in keys]

    def is_inside(
        self, data: bytes, from_key: bytes | None, to_key: bytes | None, from_time: int, to_time: int
    ) -> bool:
        if not from_time <= _TIME.unpack_from(data, 1)[0] <= to_time:
            return False
        key = data[9:-4]
        return (from_key is None or key >= from_key) and (to_key is None or key <= to_key)

    def key_bounds(self, key: bytes, from_time: int, to_time: int) -> Bounds:
        upper = windows.time_first_key(key, to_time, windows.MAX_SEQNUM)
        return windows.time_first_key(key, max(0, from_time)), upper + b"\0"

    def range_bounds(
        self, from_key: bytes | None, to_key: bytes | None, from_time: int, to_time: int
    ) -> Bounds:
        lower = windows.TIME_FIRST + _TIME.pack(max(0, from_time)) + (from_key or b"")
        if to_key is None:
            return lower, windows.KEY_FIRST
        return lower, windows.time_first_key(b"\xff" * len(to_key), to_time, windows.MAX_SEQNUM) + b"\0"


class TimeFirstSessionKeys:
    """Session end, session start, key."""

    is_window, is_time_first = False, True

    def key(self, key: bytes, start: int, end: int) -> bytes:
        return windows.time_first_session_key(key, start, end)

    def split(self, data: bytes) -> tuple[bytes, int, int]:
        return windows.split_time_first_session_key(data)

    def segment_time(self, data: bytes) -> int:
        time: int = _TIME.unpack_from(data, 1)[0]
        return time

    def segment_times(self, keys: list[bytes]) -> list[int]:
        return [_TIME.unpack_from(data, 1)[0] for data in keys]

    def is_inside(
        self, data: bytes, from_key: bytes | None, to_key: bytes | None, from_time: int, to_time: int
    ) -> bool:
        key, start, end = windows.split_time_first_session_key(data)
        if end < from_time or start > to_time:
            return False
        return (from_key is None or key >= from_key) and (to_key is None or key <= to_key)

    def key_bounds(self, key: bytes, from_time: int, to_time: int) -> Bounds:
        return _ends_from(from_time)

    def range_bounds(
        self, from_key: bytes | None, to_key: bytes | None, from_time: int, to_time: int
    ) -> Bounds:
        return _ends_from(from_time)


def _ends_from(earliest_end: int) -> Bounds:
    return windows.TIME_FIRST + _TIME.pack(max(0, earliest_end)), windows.KEY_FIRST
