"""What a stream has planned: the offsets of its last micro-batches, to be stored before they run. Pure.

A batch that runs again, after a crash in the middle of it, has the same rows then.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from ...protocol.errors import ConfigError, CorruptMessageError, DataLossError
from .offsets import Offsets, offsets_from_json, offsets_to_json

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ...protocol.model import TopicPartition
    from .ranges import Plan

PLANS_TOPIC = "__pipeline_plans"
# An engine runs the last batch again if it did not see its end, and with a checkpoint that was not flushed
# to disk the one before.
KEPT = 3
_FORM = 1


class Planned(NamedTuple):
    """The exact offsets of a batch, of all partitions."""

    batch: int
    starts: Offsets
    ends: Offsets


class Plans(NamedTuple):
    """The last batches, in order, at least one: the first of all is -1, which ends where the stream begins.
    `topics` are the ids of those that were read."""

    batches: tuple[Planned, ...]
    topics: dict[str, bytes]

    @classmethod
    def beginning(cls, initial: Offsets) -> Plans:
        """Of a stream that has read nothing yet."""
        return cls((Planned(-1, initial, initial),), {})

    def of(self, batch: int) -> Planned | None:
        """What was planned for a batch; None if it is a new one. Errors: ConfigError for one that is not the
        next and not known any more."""
        for each in self.batches:
            if each.batch == batch:
                return each
        if batch < self.batches[-1].batch:
            raise ConfigError(
                f"batch {batch} is asked for, and batch {self.batches[-1].batch} is planned already: this"
                " checkpoint is a copy of an earlier time. One without files in it begins anew"
            )
        return None

    @property
    def ends(self) -> Offsets:
        """Where the next batch starts."""
        return self.batches[-1].ends

    def recreated(self, plan: Plan) -> list[str]:
        """The topics of a plan that are not those that were read before under their names."""
        known = self.topics
        return sorted(name for name, found in plan.topic_ids.items() if known.get(name, found) != found)

    def check_same_topics(self, plan: Plan) -> None:
        """Errors: DataLossError for a topic that was created again since."""
        names = self.recreated(plan)
        if names:
            raise DataLossError(
                f"topic {', '.join(names)} was created again since batch {self.batches[-1].batch}; what the"
                " old one had is lost. With failOnDataLoss=false it goes on at the new one's first record"
            )

    def and_then(self, batch: int, plan: Plan) -> Plans:
        """With the plan of a new batch."""
        new = Planned(batch, plan.starts, plan.ends)
        return Plans((*self.batches, new)[-KEPT:], {**self.topics, **plan.topic_ids})


def within(ends: Offsets, most: Mapping[TopicPartition, int] | None) -> Offsets:
    """Ends that do not pass `most`, of the partitions that are in it; None for no bound."""
    if most is None:
        return ends
    return {tp: min(end, most[tp]) for tp, end in ends.items() if tp in most}


def encoded(plans: Plans) -> bytes:
    """The value of a stream's record."""
    batches = [
        [each.batch, offsets_to_json(each.starts), offsets_to_json(each.ends)] for each in plans.batches
    ]
    topics = {name: found.hex() for name, found in sorted(plans.topics.items())}
    return json.dumps({"form": _FORM, "batches": batches, "topics": topics}, separators=(",", ":")).encode()


def decoded(value: bytes) -> Plans:
    """Out of a stream's record. Errors: CorruptMessageError."""
    try:
        facts: dict[str, Any] = json.loads(value)
        if facts["form"] != _FORM:
            raise CorruptMessageError(f"plans of form {facts['form']}: this version knows {_FORM}")
        batches = tuple(
            Planned(int(batch), _offsets(starts), _offsets(ends)) for batch, starts, ends in facts["batches"]
        )
        topics = {str(name): bytes.fromhex(found) for name, found in facts["topics"].items()}
    except (ValueError, KeyError, TypeError, AttributeError, ConfigError) as error:
        raise CorruptMessageError(f"{value[:200]!r} are no plans of a stream: {error!r}") from error
    if not batches:
        raise CorruptMessageError(f"{value[:200]!r} are no plans of a stream: there is none")
    return Plans(batches, topics)


def _offsets(text: str) -> Offsets:
    return {} if text == "{}" else offsets_from_json(text, low=0)
