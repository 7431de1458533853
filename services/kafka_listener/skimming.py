"""Whether a request is what it says, before kio reads it: every count and length lies within the frame. Pure.

kio takes memory for as many elements as an array announces; where the system has not so much, the process
ends. So nothing reaches it that was not walked over here: by the same schemas, a step for each run of fields
of fixed size, and never a copy. The bounds are those that Kafka has had since 4.4, or tighter.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import TYPE_CHECKING, Any, NamedTuple, get_args

from ...protocol.errors import InvalidRequestError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ...protocol.records.header import Buffer

    # from frame, offset and what may still be announced to the offset behind it
    Walk = Callable[[memoryview, int, "Budget"], int]

# Bound: whatever memory there is; walking over them takes 20 ms. It is five for each partition that a request
# may name by default.
MAX_ELEMENTS = 100_000
MAX_TAGS = 10_000
# As long as a text can be where it is not compact; Kafka allows no longer ones.
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
    """Tags from `start` to `end` of a frame, and those of them that are known."""

    start: int
    end: int
    known: bytes


class Budget:
    """Elements and tags that a frame may still announce; and where there are tags that nobody knows."""

    __slots__ = ("allowed", "elements", "patches", "tags")

    def __init__(self, max_elements: int) -> None:
        self.allowed = self.elements = max_elements
        self.tags = MAX_TAGS
        self.patches: list[Patch] = []


class Skimmed(NamedTuple):
    """A body that is what it says: how many `elements` all of its arrays have, and where it ends. `frame` is
    without those tagged fields that nobody knows, which kio refuses."""

    frame: memoryview
    end: int
    elements: int
    body: Any = None  # what was made of it already


def skim(schema: Any, frame: memoryview, offset: int, max_elements: int = MAX_ELEMENTS) -> Skimmed:
    """Walk over the body that begins at `offset`. Errors: InvalidRequestError if it does not fit in the frame
    or announces more than is allowed."""
    budget = Budget(min(max_elements, MAX_ELEMENTS))
    end = _entity(schema)(frame, offset, budget)
    known = memoryview(_patched(frame, 0, len(frame), budget.patches)) if budget.patches else frame
    return Skimmed(known, end, budget.allowed - budget.elements)


def kind_of(declared: Any) -> tuple[Any, bool]:
    """Of a field: the type of one value, None beside it left out; and whether there is an array of them."""
    if getattr(declared, "__origin__", None) is tuple:
        return kind_of(get_args(declared)[0])[0], True
    inner = [kind for kind in get_args(declared) if kind is not type(None)]
    if inner and not isinstance(declared, type):
        return kind_of(inner[0])
    return declared, False


@functools.cache
def _entity(schema: Any) -> Walk:
    """The walk over an entity: its fields in order, then its tags."""
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
    # Less than the least: kio takes null where Kafka has none.
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
    """Text (behind 2 bytes, if it is not compact) or bytes, behind their length, which is -1 for null."""
    most = MAX_TEXT_BYTES if length_bytes == 2 else MAX_BYTES

    def compact(frame: memoryview, offset: int, _budget: Budget) -> int:
        length, offset = varint(frame, offset)
        if length - 1 < least:
            raise InvalidRequestError(_NULL)
        if length - 1 > most:
            raise InvalidRequestError(f"a text of {length - 1} bytes")
        return _within(frame, offset + max(length - 1, 0))

    def plain(frame: memoryview, offset: int, _budget: Budget) -> int:
        end = _within(frame, offset + length_bytes)
        length = int.from_bytes(frame[offset:end], "big", signed=True)
        if length < least:
            raise InvalidRequestError(_NULL)
        return _within(frame, end + max(length, 0))

    return compact if is_flexible else plain


def _array(one: Walk | None, size: int, least: int, *, is_flexible: bool) -> Walk:
    """Elements of a fixed `size`, or each behind `one`."""

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
    """An entity behind a byte that says whether it is there (KIP-893)."""

    def walk(frame: memoryview, offset: int, budget: Budget) -> int:
        end = _within(frame, offset + 1)
        return one(frame, end, budget) if frame[offset] < 0x80 else end

    return walk


def _tags(known: dict[int, Walk]) -> Walk:
    """Tagged fields: those that are known are walked over, too, since kio reads them."""

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
                    raise InvalidRequestError(f"tagged field {tag} is longer than it says")
                kept.append((tag, _patched(frame, offset, end, budget.patches[outside:])))
            offset = end
        if len(kept) < count or len(budget.patches) > outside:
            del budget.patches[outside:]
            fields = [unsigned(tag) + unsigned(len(data)) + data for tag, data in kept]
            budget.patches.append(Patch(start, offset, unsigned(len(kept)) + b"".join(fields)))
        return offset

    return walk


def _patched(frame: memoryview, start: int, end: int, patches: Sequence[Patch]) -> bytes:
    """A piece of a frame, with the patches that lie in it."""
    parts: list[Buffer] = []
    for patch in patches:
        if start <= patch.start < end:
            parts += (frame[start : patch.start], patch.known)
            start = patch.end
    return b"".join((*parts, frame[start:end]))


def unsigned(value: int) -> bytes:
    """What `varint` reads."""
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def no_tags(frame: memoryview, offset: int) -> int:
    """Where tagged fields end that nobody knows. Errors: InvalidRequestError."""
    if offset < len(frame) and not frame[offset]:
        return offset + 1
    return _UNKNOWN_TAGS(frame, offset, Budget(0))


def varint(frame: memoryview, offset: int) -> tuple[int, int]:
    """A number of up to five bytes, and where it ends. Errors: InvalidRequestError."""
    value = 0
    for shift in range(0, 35, 7):
        if offset >= len(frame):
            break
        byte = frame[offset]
        offset += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, offset
    raise InvalidRequestError("a number of more than five bytes, or one that ends behind its frame")


def _within(frame: memoryview, offset: int) -> int:
    if offset > len(frame):
        raise InvalidRequestError("a request that ends behind its frame")
    return offset


_UNKNOWN_TAGS = _tags({})
