"""What a stream has planned: the offsets of its last micro-batches, to be stored before they run. Pure.

A batch that runs again, after a crash in the middle of it, has the same rows then.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from ...protocol.errors import ConfigError, CorruptMessageError
from .offsets import Position, position_from_json, position_to_json

if TYPE_CHECKING:
    from .ranges import Plan

PLANS_TOPIC = "__pipeline_plans"
# An engine runs the last batch again if it did not see its end, and with a checkpoint that was not flushed
# to disk the one before.
KEPT = 3
_FORM, _WITH_TOPICS_APART = 2, 1


class Planned(NamedTuple):
    """The exact offsets of a batch, of all partitions."""

    batch: int
    starts: Position
    ends: Position


class Plans(NamedTuple):
    """The last batches, in order, at least one: the first of all is -1, which ends where the stream
    begins."""

    batches: tuple[Planned, ...]

    @classmethod
    def beginning(cls, initial: Position) -> Plans:
        """Of a stream that has read nothing yet."""
        return cls((Planned(-1, initial, initial),))

    def of(self, batch: int) -> Planned | None:
        """What was planned for a batch: nothing, if its number was passed while nothing was new; None if it
        is a new one. Errors: ConfigError for one that is not known any more."""
        before: Planned | None = None
        for each in self.batches:
            if each.batch == batch:
                return each
            if before is not None and before.batch < batch < each.batch:
                return Planned(batch, before.ends, before.ends)
            before = each
        if batch < self.batches[0].batch:
            raise ConfigError(
                f"batch {batch} is asked for, and batch {self.batches[-1].batch} is planned already: this"
                " checkpoint is a copy of an earlier time. One without files in it begins anew"
            )
        return None

    @property
    def ends(self) -> Position:
        """Where the next batch starts."""
        return self.batches[-1].ends

    def and_then(self, batch: int, plan: Plan) -> Plans:
        """With the plan of a new batch."""
        return Plans((*self.batches, Planned(batch, plan.starts, plan.ends))[-KEPT:])


def within(ends: Position, most: Position | None) -> Position:
    """Ends that do not pass `most`, of the partitions that are in it and are still the same; None for no
    bound."""
    if most is None:
        return ends
    renewed = most.renewed(ends.topic_ids)
    both = {tp: min(end, most[tp]) for tp, end in ends.items() if tp in most and tp.topic not in renewed}
    return Position(both, ends.topic_ids)


def encoded(plans: Plans) -> bytes:
    """The value of a stream's record."""
    batches = [
        [each.batch, position_to_json(each.starts), position_to_json(each.ends)] for each in plans.batches
    ]
    return json.dumps({"form": _FORM, "batches": batches}, separators=(",", ":")).encode()


def decoded(value: bytes) -> Plans:
    """Out of a stream's record. Errors: CorruptMessageError."""
    try:
        facts: dict[str, Any] = json.loads(value)
        if facts["form"] not in (_FORM, _WITH_TOPICS_APART):
            raise CorruptMessageError(f"plans of form {facts['form']}: this version knows {_FORM}")
        known = facts["topics"] if facts["form"] == _WITH_TOPICS_APART else {}
        topics = {str(name): bytes.fromhex(found) for name, found in known.items()}
        batches = tuple(
            Planned(int(batch), _position(starts, topics), _position(ends, topics))
            for batch, starts, ends in facts["batches"]
        )
    except (ValueError, KeyError, TypeError, AttributeError, ConfigError) as error:
        raise CorruptMessageError(f"{value[:200]!r} are no plans of a stream: {error!r}") from error
    if not batches:
        raise CorruptMessageError(f"{value[:200]!r} are no plans of a stream: there is none")
    return Plans(batches)


def _position(text: str, topics: dict[str, bytes]) -> Position:
    found = position_from_json(text, "a plan")
    return Position(found, {**topics, **found.topic_ids})
