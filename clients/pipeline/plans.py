"""Planned micro-batches of a stream: the offsets of its last batches, stored before they run. Pure.

A batch that runs again after a crash then has the same rows.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from ...protocol.errors import ConfigError, CorruptMessageError
from .offsets import Position, position_from_json, position_to_json

if TYPE_CHECKING:
    from .ranges import Plan

PLANS_TOPIC = "__pipeline_plans"
# An engine runs the last batch again if it did not see its end, and with a checkpoint that was not flushed to
# disk, the one before.
KEPT = 3
_FORM, _WITH_TOPICS_APART = 2, 1


class Planned(NamedTuple):
    """The exact offsets of a batch, for all partitions."""

    batch: int
    starts: Position
    ends: Position


class Plans(NamedTuple):
    """The last batches, in order, at least one: the very first is -1, which ends where the stream starts."""

    batches: tuple[Planned, ...]

    @classmethod
    def beginning(cls, initial: Position) -> Plans:
        """The plans of a stream that has read no records."""
        return cls((Planned(-1, initial, initial),))

    def of(self, batch: int) -> Planned | None:
        """The plan of a batch: an empty one if its number was skipped while there were no new records; None
        if it is new. Errors: ConfigError for a batch that is no longer stored."""
        before: Planned | None = None
        for each in self.batches:
            if each.batch == batch:
                return each
            if before is not None and before.batch < batch < each.batch:
                return Planned(batch, before.ends, before.ends)
            before = each
        if batch < self.batches[0].batch:
            raise ConfigError(
                f"batch {batch} was requested, but batch {self.batches[-1].batch} is already planned: this"
                " checkpoint is an old copy. An empty one starts a new stream"
            )
        return None

    @property
    def ends(self) -> Position:
        """The start of the next batch."""
        return self.batches[-1].ends

    def and_then(self, batch: int, plan: Plan) -> Plans:
        """Adds the plan of a new batch."""
        return Plans((*self.batches, Planned(batch, plan.starts, plan.ends))[-KEPT:])


def within(ends: Position, most: Position | None) -> Position:
    """`ends` limited to `most`, for partitions in it whose topics are unchanged; None for no limit."""
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
    """The plans of a stream's record. Errors: CorruptMessageError."""
    try:
        facts: dict[str, Any] = json.loads(value)
        if facts["form"] not in (_FORM, _WITH_TOPICS_APART):
            raise CorruptMessageError(f"the plans have format {facts['form']}, this version reads {_FORM}")
        known = facts["topics"] if facts["form"] == _WITH_TOPICS_APART else {}
        topics = {str(name): bytes.fromhex(found) for name, found in known.items()}
        batches = tuple(
            Planned(int(batch), _position(starts, topics), _position(ends, topics))
            for batch, starts, ends in facts["batches"]
        )
    except (ValueError, KeyError, TypeError, AttributeError, ConfigError) as error:
        raise CorruptMessageError(f"{value[:200]!r} is not the plans of a stream: {error!r}") from error
    if not batches:
        raise CorruptMessageError(f"{value[:200]!r} is not the plans of a stream: it is empty")
    return Plans(batches)


def _position(text: str, topics: dict[str, bytes]) -> Position:
    found = position_from_json(text, "a plan")
    return Position(found, {**topics, **found.topic_ids})
