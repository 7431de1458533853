"""Keys of window and session stores and of windowed topics.

Window stores and their changelogs: key, window start (8 bytes), sequence number (4). Windowed topics: key and
start. Sessions, everywhere: key, end (8), start (8). Stores ordered by time put a prefix byte and the times
before the key. Numbers are big-endian. Source: WindowKeySchema, SessionKeySchema, PrefixedWindowKeySchemas,
PrefixedSessionKeySchemas.
"""

from __future__ import annotations

from dataclasses import dataclass
from struct import Struct
from typing import Any, TypeVar

from ....clients.serdes import Serde
from ...records import Window, Windowed

K = TypeVar("K")

MAX_TIME = 2**63 - 1
MAX_SEQNUM = 2**31 - 1
TIME_FIRST, KEY_FIRST = b"\x00", b"\x01"

_START_AND_SEQNUM = Struct(">qi")
_TWO_TIMES = Struct(">qq")
_LONG = Struct(">q")
_SEQNUM = Struct(">i")


@dataclass(frozen=True, slots=True)
class WindowedSerde(Serde[Windowed[K]]):
    """The bytes of a key by `inner`, followed by `times_bytes` bytes of times."""

    inner: Serde[K]
    times_bytes: int


def window_of(start: int, size_ms: int) -> Window:
    """The time window of `size_ms` from `start`; its end is at most the largest timestamp."""
    return Window(start, min(start + size_ms, MAX_TIME))


def window_key(key: bytes, start: int, seqnum: int = 0) -> bytes:
    """The key of a window store and of its changelog."""
    return key + _START_AND_SEQNUM.pack(start, seqnum)


def split_window_key(data: bytes) -> tuple[bytes, int, int]:
    """Key, window start, sequence number."""
    start, seqnum = _START_AND_SEQNUM.unpack_from(data, len(data) - 12)
    return data[:-12], start, seqnum


def session_key(key: bytes, start: int, end: int) -> bytes:
    """The key of a session: in the store, its changelog and in topics."""
    return key + _TWO_TIMES.pack(end, start)


def split_session_key(data: bytes) -> tuple[bytes, int, int]:
    """Key, session start, session end."""
    end, start = _TWO_TIMES.unpack_from(data, len(data) - 16)
    return data[:-16], start, end


def time_windowed(serde: Serde[K], size_ms: int) -> WindowedSerde[K]:
    """Windowed keys of topics; the end of a window is not on the wire."""
    dumps, loads = serde.dumps, serde.loads

    def dump(windowed: Windowed[K]) -> bytes:
        return dumps(windowed.key) + _LONG.pack(windowed.window.start)

    def load(data: bytes) -> Any:
        if not data:
            return None
        (start,) = _LONG.unpack_from(data, len(data) - 8)
        return Windowed(loads(data[:-8]), window_of(start, size_ms))

    return WindowedSerde(f"time_windowed({serde.name})", dump, load, serde, _LONG.size)


def changelog_windowed(serde: Serde[K], size_ms: int) -> Serde[Windowed[K]]:
    """Windowed keys of the changelog of a window store; written with sequence number 0."""
    dumps, loads = serde.dumps, serde.loads

    def dump(windowed: Windowed[K]) -> bytes:
        return window_key(dumps(windowed.key), windowed.window.start)

    def load(data: bytes) -> Any:
        if not data:
            return None
        key, start, _ = split_window_key(data)
        return Windowed(loads(key), window_of(start, size_ms))

    return Serde(f"changelog_windowed({serde.name})", dump, load)


def session_windowed(serde: Serde[K]) -> WindowedSerde[K]:
    """Session keys of topics and changelogs."""
    dumps, loads = serde.dumps, serde.loads

    def dump(windowed: Windowed[K]) -> bytes:
        return session_key(dumps(windowed.key), windowed.window.start, windowed.window.end)

    def load(data: bytes) -> Any:
        if not data:
            return None
        key, start, end = split_session_key(data)
        return Windowed(loads(key), Window(start, end))

    return WindowedSerde(f"session_windowed({serde.name})", dump, load, serde, _TWO_TIMES.size)


def time_first_key(key: bytes, start: int, seqnum: int = 0) -> bytes:
    """A window key of a store that is ordered by time."""
    return TIME_FIRST + _LONG.pack(start) + key + _SEQNUM.pack(seqnum)


def split_time_first_key(data: bytes) -> tuple[bytes, int, int]:
    """Key, window start, sequence number."""
    return data[9:-4], _LONG.unpack_from(data, 1)[0], _SEQNUM.unpack_from(data, len(data) - 4)[0]


def key_first_key(key: bytes, start: int, seqnum: int = 0) -> bytes:
    """A window key of the index by key of a store that is ordered by time."""
    return KEY_FIRST + window_key(key, start, seqnum)


def time_first_session_key(key: bytes, start: int, end: int) -> bytes:
    """A session key of a store that is ordered by time."""
    return TIME_FIRST + _TWO_TIMES.pack(end, start) + key


def split_time_first_session_key(data: bytes) -> tuple[bytes, int, int]:
    """Key, session start, session end."""
    end, start = _TWO_TIMES.unpack_from(data, 1)
    return data[17:], start, end


def key_first_session_key(key: bytes, start: int, end: int) -> bytes:
    """A session key of the index by key of a store that is ordered by time."""
    return KEY_FIRST + session_key(key, start, end)


def next_key(key: bytes) -> bytes | None:
    """The smallest key above all keys that start with `key`; None if there is none."""
    stripped = key.rstrip(b"\xff")
    return stripped[:-1] + bytes((stripped[-1] + 1,)) if stripped else None
