"""Checks before kio decodes a request that every count and length lies within its frame. Pure.

kio allocates memory for as many elements as an array announces; where the system has less, the process ends.
So each request is walked over first, by the same schemas, with a step for each run of fixed-size fields, and
without copies. The bounds are Kafka's since 4.4, or tighter.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import TYPE_CHECKING, Any, NamedTuple, get_args

from ...protocol.errors import InvalidRequestError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ...protocol.records.header import Buffer

    # (frame, offset, budget) -> the offset behind the value
    Walk = Callable[[memoryview, int, "Budget"], int]

# Bound: walking over them takes 20 ms. Five for each partition that a request may name by default.
MAX_ELEMENTS = 100_000
MAX_TAGS = 10_000
# The longest string in the encoding that is not compact; Kafka allows no longer ones.
MAX_TEXT_BYTES = 2**15 - 1
MAX_BYTES = 2**31 - 1
_NULL = "null where there is none, or a negative length"

_FIXED = {
    "bool": 1,
    "int8": 1,
    "uint8": 1,
    "int16": 2,
    "uint16": 2,
    "error_code": 2,
    "int32": 4,
    "uint32": 4,
    "timedelta_i32": 4,
    "int64": 8,
    "uint64": 8,
    "float64": 8,
    "timedelta_i64": 8,
    "datetime_i64": 8,
    "uuid": 16,
}


class Patch(NamedTuple):
    """The tagged fields from `start` to `end` of a frame, and those of them that are known."""

    start: int
    end: int
    known: bytes


class Budget:
    """Elements and tagged fields that a frame may still announce, and the unknown tagged fields found."""

    __slots__ = ("allowed", "elements", "patches", "tags")

    def __init__(self, max_elements: int) -> None:
        self.allowed = self.elements = max_elements
        self.tags = MAX_TAGS
        self.patches: list[Patch] = []


class Skimmed(NamedTuple):
    """A valid body: the number of elements of all its arrays, and its end. `frame` is without unknown tagged
    fields, which kio refuses."""

    frame: memoryview
    end: int
    elements: int
    body: Any = None  # decoded already, by hot_requests


def skim(schema: Any, frame: memoryview, offset: int, max_elements: int = MAX_ELEMENTS) -> Skimmed:
    """Walk over the body that begins at `offset`. Errors: InvalidRequestError if it exceeds the frame or the
    bounds."""
    budget = Budget(min(max_elements, MAX_ELEMENTS))
    end = _entity(schema)(frame, offset, budget)
    known = memoryview(_patched(frame, 0, len(frame), budget.patches)) if budget.patches else frame
    return Skimmed(known, end, budget.allowed - budget.elements)


def kind_of(declared: Any) -> tuple[Any, bool]:
    """The type of a field's value, without None, and whether it is an array."""
    if getattr(declared, "__origin__", None) is tuple:
        return kind_of(get_args(declared)[0])[0], True
    inner = [kind for kind in get_args(declared) if kind is not type(None)]
    if inner and not isinstance(declared, type):
        return kind_of(inner[0])
    return declared, False


@functools.cache
def _entity(schema: Any) -> Walk:
    """The walk over an entity: its fields in order, then its tagged fields."""
    steps: list[Walk] = []
    fixed = 0
    tagged: dict[int, Walk] = {}
    for field in dataclasses.fields(schema):
        tag = field.metadata.get("tag")
        size, walk = _field(field, is_flexible=schema.__flexible__, is_tagged=tag is not None)
        if tag is not None:
            tagged[tag] = walk or _skip(size)
        elif walk is None:
            fixed += size
        else:
            if fixed:
                steps.append(_skip(fixed))
                fixed = 0
            steps.append(walk)
    if fixed:
        steps.append(_skip(fixed))
    if schema.__flexible__:
        steps.append(_tags(tagged))
    return steps[0] if len(steps) == 1 else _sequence(tuple(steps))


def _field(field: Any, *, is_flexible: bool, is_tagged: bool) -> tuple[int, Walk | None]:
    """The size of a field, or the walk over it."""
    kind, is_array = kind_of(field.type)
    is_nullable = type(None) in get_args(field.type)
    # kio accepts null where Kafka has no null.
    least = -1 if is_nullable else 0
    if dataclasses.is_dataclass(kind):
        one = _entity(kind)  # type: ignore[arg-type]  # types can be hashed
        if is_array:
            return 0, _array(one, 0, least, is_flexible=is_flexible)
        return 0, _nullable(one) if is_nullable and not is_tagged else one
    name = field.metadata["kafka_type"]
    size = _FIXED.get(name, 0)
    length_bytes = 4 if name in ("bytes", "records") else 2
    walk = None if size else _text(length_bytes, 0 if is_array else least, is_flexible=is_flexible)
    if is_array:
        return 0, _array(walk, size, least, is_flexible=is_flexible)
    return size, walk


def _sequence(steps: tuple[Walk, ...]) -> Walk:
    def walk(frame: memoryview, offset: int, budget: Budget) -> int:
        for step in steps:
            offset = step(frame, offset, budget)
        return offset

    return walk


def _skip(size: int) -> Walk:
    def walk(frame: memoryview, offset: int, _budget: Budget) -> int:
        return _within(frame, offset + size)

    return walk


def _text(length_bytes: int, least: int, *, is_flexible: bool) -> Walk:
    """A string (of 2 length bytes, or compact) or bytes; length -1 is null."""
    most = MAX_TEXT_BYTES if length_bytes == 2 else MAX_BYTES

    def compact(frame: memoryview, offset: int, _budget: Budget) -> int:
        length, offset = varint(frame, offset)
        if length - 1 < least:
            raise InvalidRequestError(_NULL)
        if length - 1 > most:
            raise InvalidRequestError(f"string of {length - 1} bytes")
        return _within(frame, offset + max(length - 1, 0))

    def plain(frame: memoryview, offset: int, _budget: Budget) -> int:
        end = _within(frame, offset + length_bytes)
        length = int.from_bytes(frame[offset:end], "big", signed=True)
        if length < least:
            raise InvalidRequestError(_NULL)
        return _within(frame, end + max(length, 0))

    return compact if is_flexible else plain


def _array(one: Walk | None, size: int, least: int, *, is_flexible: bool) -> Walk:
    """Elements of a fixed `size`, or each walked over by `one`."""

    def walk(frame: memoryview, offset: int, budget: Budget) -> int:
        if is_flexible:
            count, offset = varint(frame, offset)
            count -= 1
        else:
            end = _within(frame, offset + 4)
            count, offset = int.from_bytes(frame[offset:end], "big", signed=True), end
        if count <= 0:
            if count < least:
                raise InvalidRequestError(_NULL)
            return offset
        budget.elements -= count
        if budget.elements < 0:
            raise InvalidRequestError(f"arrays of more than {budget.allowed} elements")
        if one is None:
            return _within(frame, offset + count * size)
        for _ in range(count):
            offset = one(frame, offset, budget)
        return offset

    return walk


def _nullable(one: Walk) -> Walk:
    """An entity behind a byte that says whether it is null (KIP-893)."""

    def walk(frame: memoryview, offset: int, budget: Budget) -> int:
        end = _within(frame, offset + 1)
        return one(frame, end, budget) if frame[offset] < 0x80 else end

    return walk


def _tags(known: dict[int, Walk]) -> Walk:
    """Tagged fields: known ones are walked over, too, since kio decodes them."""

    def walk(frame: memoryview, offset: int, budget: Budget) -> int:
        if offset < len(frame) and not frame[offset]:
            return offset + 1
        start = offset
        count, offset = varint(frame, offset)
        budget.tags -= count
        if budget.tags < 0:
            raise InvalidRequestError(f"more than {MAX_TAGS} tagged fields")
        outside = len(budget.patches)
        kept: list[tuple[int, bytes]] = []
        for _ in range(count):
            tag, offset = varint(frame, offset)
            size, offset = varint(frame, offset)
            end = _within(frame, offset + size)
            one = known.get(tag)
            if one is not None:
                if one(frame, offset, budget) > end:
                    raise InvalidRequestError(f"tagged field {tag} is longer than its size")
                kept.append((tag, _patched(frame, offset, end, budget.patches[outside:])))
            offset = end
        if len(kept) < count or len(budget.patches) > outside:
            del budget.patches[outside:]
            fields = [unsigned(tag) + unsigned(len(data)) + data for tag, data in kept]
            budget.patches.append(Patch(start, offset, unsigned(len(kept)) + b"".join(fields)))
        return offset

    return walk


def _patched(frame: memoryview, start: int, end: int, patches: Sequence[Patch]) -> bytes:
    """A piece of a frame with its patches applied."""
    parts: list[Buffer] = []
    for patch in patches:
        if start <= patch.start < end:
            parts += (frame[start : patch.start], patch.known)
            start = patch.end
    return b"".join((*parts, frame[start:end]))


def unsigned(value: int) -> bytes:
    """Encodes an unsigned varint."""
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def no_tags(frame: memoryview, offset: int) -> int:
    """The end of tagged fields that are all unknown. Errors: InvalidRequestError."""
    if offset < len(frame) and not frame[offset]:
        return offset + 1
    return _UNKNOWN_TAGS(frame, offset, Budget(0))


def varint(frame: memoryview, offset: int) -> tuple[int, int]:
    """An unsigned varint of up to five bytes, and its end. Errors: InvalidRequestError."""
    value = 0
    for shift in range(0, 35, 7):
        if offset >= len(frame):
            break
        byte = frame[offset]
        offset += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, offset
    raise InvalidRequestError("invalid varint, or one that exceeds its frame")


def _within(frame: memoryview, offset: int) -> int:
    if offset > len(frame):
        raise InvalidRequestError("the request is longer than its frame")
    return offset


_UNKNOWN_TAGS = _tags({})
