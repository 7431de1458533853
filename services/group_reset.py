"""New offsets of a group: the rules of kafka-consumer-groups, and its CSV files. Pure."""

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
    """The rule for the new offset of a partition."""

    EARLIEST = "to-earliest"
    LATEST = "to-latest"
    CURRENT = "to-current"  # the committed offset, or the end
    OFFSET = "to-offset"
    SHIFT = "shift-by"
    TIME = "to-datetime"  # also for by-duration, converted to a time
    FILE = "from-file"


class Bounds(NamedTuple):
    """The state of a partition: log start and end, the committed offset of the group (None: none), and the
    first offset at or after the rule's time (-1: none)."""

    earliest: int
    latest: int
    committed: int | None
    by_time: int = NO_OFFSET


class Move(NamedTuple):
    """The committed offset of a partition before and after. `remark`: why the new offset differs from the
    rule's."""

    tp: TopicPartition
    old: int | None
    new: int
    remark: str = ""


def moved(rule: Rule, tp: TopicPartition, bounds: Bounds, number: int = 0) -> Move:
    """The move of one partition. `number`: the offset of OFFSET and FILE, the distance of SHIFT.

    Errors: ConfigError to shift a partition without committed offset.
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
            return Move(tp, old, bounds.latest, "no record from that time on: using the end")
        return Move(tp, old, bounds.by_time)
    if rule is Rule.SHIFT:
        if old is None:
            raise ConfigError(f"{tp} cannot be shifted: the group has no committed offset there")
        number += old
    new = min(max(number, bounds.earliest), bounds.latest)
    remark = "" if new == number else f"{number} is outside of {bounds.earliest}..{bounds.latest}"
    return Move(tp, old, new, remark)


def scope_of(text: str) -> tuple[str, tuple[int, ...]]:
    """A topic and its partitions, written `topic` (all) or `topic:0,1`. Errors: ConfigError."""
    topic, colon, numbers = text.partition(":")
    found = numbers.split(",") if colon else []
    if not topic or not all(number.isascii() and number.isdecimal() for number in found):
        raise ConfigError(f"{text!r} is not a topic, or partitions such as topic:0,1")
    return topic, tuple(dict.fromkeys(int(number) for number in found))


def time_of(text: str) -> int:
    """Milliseconds of an ISO 8601 date and time, UTC without a zone. Errors: ConfigError."""
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        raise ConfigError(f"{text!r} is not a time such as 2026-01-31T12:00:00.000") from None
    ms = round((when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp() * 1000)
    if ms < 0:
        raise ConfigError(f"{text!r} is before 1970")
    return ms


def offsets_of_csv(text: str, group_id: str) -> dict[TopicPartition, int]:
    """Lines of topic, partition, offset; or with the group id first, as in an export of several groups.
    Errors: ConfigError with the line."""
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
            raise ConfigError(f"line {number} repeats {tp}")
        found[tp] = value
    if not found:
        raise ConfigError(f"the file has no line for group {group_id!r}")
    return found


def csv_of(moves: Iterable[Move]) -> str:
    """The CSV that `offsets_of_csv` and kafka-consumer-groups read."""
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows((*move.tp, move.new) for move in moves)
    return out.getvalue()


def _number(text: str) -> int:
    value = int(text)
    if not 0 <= value < _MAX_NUMBER:
        raise ValueError(text)
    return value
