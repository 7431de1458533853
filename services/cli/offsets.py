"""The offset notation of kcat, for the start and stop of `headrace consume`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

Kind = Literal["beginning", "end", "absolute", "tail", "from_time", "until_time"]

NOTATION = "beginning, end, N (absolute), -N (the last N), s@MS (from a time), e@MS (until a time)"
_NAMES: dict[str, Kind] = {"beginning": "beginning", "earliest": "beginning", "end": "end", "latest": "end"}
MAX_OFFSET = 2**63 - 1


@dataclass(frozen=True, slots=True)
class OffsetSpec:
    """One bound of a read. `number` is an offset, a number of records, or milliseconds, depending on
    `kind`."""

    kind: Kind
    number: int = 0


@dataclass(frozen=True, slots=True)
class ReadRange:
    """The start, and the time at which to stop (exclusive), if given."""

    start: OffsetSpec
    until_ms: int | None = None


def parse_offset(text: str) -> OffsetSpec:
    """One offset in kcat's notation. Errors: ValueError with the notation."""
    if text in _NAMES:
        return OffsetSpec(_NAMES[text])
    if text == "stored":
        raise ValueError("'stored' needs a consumer group, and `consume` has none: use beginning, end or N")
    if match := re.fullmatch(r"([se])@([0-9]{1,19})", text):
        kind: Kind = "from_time" if match[1] == "s" else "until_time"
        return OffsetSpec(kind, _bounded(match[2], text))
    if match := re.fullmatch(r"-([0-9]{1,19})", text):
        return OffsetSpec("tail", _bounded(match[1], text))
    if re.fullmatch(r"[0-9]{1,19}", text):
        return OffsetSpec("absolute", _bounded(text, text))
    raise ValueError(f"{text!r} is not an offset: {NOTATION}")


def read_range(texts: tuple[str, ...], default: str = "beginning") -> ReadRange:
    """The range of one or two `-o` values: a start, an end time, or both.

    Errors: ValueError for two starts or two end times.
    """
    start: OffsetSpec | None = None
    until_ms: int | None = None
    for spec in map(parse_offset, texts):
        if spec.kind == "until_time":
            if until_ms is not None:
                raise ValueError("more than one end time (e@MS) was given")
            until_ms = spec.number
        else:
            if start is not None:
                raise ValueError("more than one start offset was given")
            start = spec
    return ReadRange(start or parse_offset(default), until_ms)


def start_offset(spec: OffsetSpec, beginning: int, end: int, by_time: int | None) -> int:
    """The start offset, within [beginning, end]; `by_time`: the offset found for the time, or None."""
    if spec.kind == "beginning":
        return beginning
    if spec.kind == "end":
        return end
    if spec.kind == "tail":
        return max(beginning, end - spec.number)
    if spec.kind == "from_time":
        return end if by_time is None else by_time
    return min(max(spec.number, beginning), end)


def _bounded(digits: str, text: str) -> int:
    number = int(digits)
    if number > MAX_OFFSET:
        raise ValueError(f"{text!r} is larger than any offset")
    return number
