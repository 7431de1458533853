"""Where the offsets of a group go: the rules of kafka-consumer-groups, and its CSV files. Pure."""

from __future__ import annotations

import csv
import io
from datetime import UTC, datetime
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from ..protocol.errors import ConfigError
from ..protocol.model import NO_OFFSET, TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterable

MAX_FILE_BYTES = 64 << 20  # Bound: of a CSV; some million partitions
_MAX_NUMBER = 2**63


class Rule(Enum):
    """How the new offset of a partition is found."""

    EARLIEST = "to-earliest"
    LATEST = "to-latest"
    CURRENT = "to-current"  # what is committed, or the end
    OFFSET = "to-offset"
    SHIFT = "shift-by"
    TIME = "to-datetime"  # by-duration as well, once it is known since when
    FILE = "from-file"


class Bounds(NamedTuple):
    """A partition as it is: where its records start and end, what the group has committed (None: nothing),
    and the first offset that the rule's time finds (-1: nothing is that new)."""

    earliest: int
    latest: int
    committed: int | None
    by_time: int = NO_OFFSET


class Move(NamedTuple):
    """The commit of a partition before and after. `remark`: why it is not what the rule says."""

    tp: TopicPartition
    old: int | None
    new: int
    remark: str = ""


def moved(rule: Rule, tp: TopicPartition, bounds: Bounds, number: int = 0) -> Move:
    """`number` is the offset of OFFSET and FILE, the distance of SHIFT.

    Errors: ConfigError to shift what is not committed.
    """
    old = bounds.committed
    if rule is Rule.EARLIEST:
        return Move(tp, old, bounds.earliest)
    if rule is Rule.LATEST:
        return Move(tp, old, bounds.latest)
    if rule is Rule.CURRENT:
        return Move(tp, old, bounds.latest if old is None else old)
    if rule is Rule.TIME:
        if bounds.by_time == NO_OFFSET:
            return Move(tp, old, bounds.latest, "no record is that new: the end")
        return Move(tp, old, bounds.by_time)
    if rule is Rule.SHIFT:
        if old is None:
            raise ConfigError(f"{tp} cannot be shifted: the group has committed nothing there")
        number += old
    new = min(max(number, bounds.earliest), bounds.latest)
    remark = "" if new == number else f"{number} lies outside {bounds.earliest}..{bounds.latest}"
    return Move(tp, old, new, remark)


def scope_of(text: str) -> tuple[str, tuple[int, ...]]:
    """A topic and its partitions, written `topic` (all) or `topic:0,1`. Errors: ConfigError."""
    topic, colon, numbers = text.partition(":")
    found = numbers.split(",") if colon else []
    if not topic or not all(number.isascii() and number.isdecimal() for number in found):
        raise ConfigError(f"{text!r} is neither a topic nor like topic:0,1")
    return topic, tuple(dict.fromkeys(int(number) for number in found))


def time_of(text: str) -> int:
    """Milliseconds of an ISO 8601 date and time, UTC if it names no zone. Errors: ConfigError."""
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        raise ConfigError(f"{text!r} is no time such as 2026-01-31T12:00:00.000") from None
    ms = round((when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp() * 1000)
    if ms < 0:
        raise ConfigError(f"{text!r} is before 1970")
    return ms


def offsets_of_csv(text: str, group_id: str) -> dict[TopicPartition, int]:
    """Lines of topic, partition, offset; or of the group's id before them, as an export of several groups
    has. Errors: ConfigError with the line."""
    found: dict[TopicPartition, int] = {}
    for number, line in enumerate(csv.reader(io.StringIO(text, newline="")), 1):
        fields = [field.strip() for field in line]
        if not any(fields):
            continue
        if len(fields) == 4 and fields.pop(0) != group_id:
            continue
        try:
            topic, partition, offset = fields
            tp, value = TopicPartition(topic, _number(partition)), _number(offset)
        except ValueError:
            raise ConfigError(f"line {number} is not topic,partition,offset: {line!r:.100}") from None
        if tp in found:
            raise ConfigError(f"line {number} names {tp} again")
        found[tp] = value
    if not found:
        raise ConfigError(f"there is no line for group {group_id!r}")
    return found


def csv_of(moves: Iterable[Move]) -> str:
    """What `offsets_of_csv` reads, and kafka-consumer-groups."""
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows((*move.tp, move.new) for move in moves)
    return out.getvalue()


def _number(text: str) -> int:
    value = int(text)
    if not 0 <= value < _MAX_NUMBER:
        raise ValueError(text)
    return value
