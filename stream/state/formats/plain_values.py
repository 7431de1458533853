"""Values of any plain type in MessagePack: what is read equals what was written, also in its type.

MessagePack's own types: None, bool, int (64 bits), float, str, bytes, list, dict. Others are extensions: 1 a
longer int, 2 Decimal (both as text), 3 tuple (an array), 4 set (an array), 5 datetime, 6 date (both in ISO
format), 7 UUID (16 bytes), 8 timedelta (an array of days, seconds, microseconds).
"""

from __future__ import annotations

from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any
from uuid import UUID

import msgpack

if TYPE_CHECKING:
    from collections.abc import Callable

_TEXT_OF: dict[type, tuple[int, Callable[[Any], str]]] = {
    int: (1, str),
    Decimal: (2, str),
    datetime: (5, datetime.isoformat),
    date: (6, date.isoformat),
}
_FROM_TEXT: dict[int, Callable[[str], Any]] = {
    1: int,
    2: Decimal,
    5: datetime.fromisoformat,
    6: date.fromisoformat,
}
_TUPLE, _SET, _UUID, _TIMEDELTA = 3, 4, 7, 8

# A packer for each value takes three times the time. Shared by all threads: without a function for other
# types it runs no Python code, so that no other call comes between. It is empty again after an error.
_pack: Callable[[Any], bytes] = msgpack.Packer(strict_types=True).pack


def dumps(value: Any) -> bytes:
    """Errors: TypeError for a value of another type."""
    try:
        return _pack(value)
    except (TypeError, OverflowError):  # an extension, or a value that cannot be kept
        data: bytes = msgpack.packb(value, default=_extension, strict_types=True)
        return data


def loads(data: bytes) -> Any:
    """The value."""
    return msgpack.unpackb(data, ext_hook=_from_extension, strict_map_key=False)


def _extension(value: Any) -> Any:
    kind = type(value)
    if kind in _TEXT_OF:
        code, text = _TEXT_OF[kind]
        return msgpack.ExtType(code, text(value).encode())
    if kind is tuple:
        return msgpack.ExtType(_TUPLE, dumps(list(value)))
    if kind in (set, frozenset):
        return msgpack.ExtType(_SET, dumps(sorted(value, key=repr)))
    if kind is UUID:
        return msgpack.ExtType(_UUID, value.bytes)
    if kind is timedelta:
        return msgpack.ExtType(_TIMEDELTA, dumps([value.days, value.seconds, value.microseconds]))
    base: Any
    for base in (dict, str, bytes, float):
        if isinstance(value, base):
            return base(value)
    raise TypeError(
        f"a value of type {kind.__name__} cannot be kept: plain types, lists, dicts, tuples, sets, Decimal,"
        " datetime, timedelta and UUID can"
    )


def _from_extension(code: int, data: bytes) -> Any:
    if code in _FROM_TEXT:
        return _FROM_TEXT[code](data.decode())
    if code == _UUID:
        return UUID(bytes=data)
    parts = loads(data)
    if code == _TUPLE:
        return tuple(parts)
    if code == _SET:
        return set(parts)
    if code == _TIMEDELTA:
        return timedelta(*parts)
    raise ValueError(f"extension {code} is not known")
