"""Shards of a training: the rows of each worker, epoch after epoch, and its unread rest. Pure.

A shard is a part of all offsets of a plan, divided evenly. The rest of an epoch is a list of ranges, so that
another number of workers can continue exactly there.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...protocol.errors import ConfigError
from ...protocol.model import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ..pipeline.ranges import OffsetRange
    from ..pipeline.source_options import ReadOptions

_FORM = 1
Ranges = tuple["OffsetRange", ...]


@dataclass(frozen=True, slots=True)
class Shards:
    """A bounded plan that all workers of a training share. Small, and can be pickled: created on the driver
    by `sharded`, and passed to the workers."""

    ranges: Ranges
    options: ReadOptions

    @property
    def mark(self) -> int:
        """A hash that identifies the plan."""
        facts = [(*each.tp, each.start, each.end, each.topic_id) for each in self.ranges]
        return zlib.crc32(repr(facts).encode())

    def of(self, shard: int, count: int) -> Ranges:
        """The ranges of one of `count` shards."""
        return cut(self.ranges, shard, count)


@dataclass(frozen=True, slots=True)
class Place:
    """The position of one of `count` shards: the `rests` of started epochs, in order, followed by whole
    epochs from `next_epoch` on."""

    shard: int
    count: int
    rests: tuple[tuple[int, Ranges], ...]
    next_epoch: int

    def state(self, mark: int) -> dict[str, Any]:
        """JSON-able state."""
        rests = [
            [epoch, [[*each.tp, each.start, each.end] for each in ranges]] for epoch, ranges in self.rests
        ]
        return {
            "form": _FORM,
            "plan": mark,
            "shard": self.shard,
            "shards": self.count,
            "rests": rests,
            "next_epoch": self.next_epoch,
        }


def first_place(shard: int, count: int) -> Place:
    """The position before the first epoch. Errors: ConfigError."""
    if not 0 <= shard < count:
        raise ConfigError(f"shard {shard} of {count} does not exist")
    return Place(shard, count, (), 0)


def spread(place: Place, number: int, workers: int) -> Place:
    """The part of one of several workers of a position."""
    rests = tuple((epoch, cut(ranges, number, workers)) for epoch, ranges in place.rests)
    return Place(place.shard * workers + number, place.count * workers, rests, place.next_epoch)


def cut(ranges: Sequence[OffsetRange], shard: int, count: int) -> Ranges:
    """One of `count` parts of all offsets, in order; sizes differ by at most one."""
    total = sum(each.size for each in ranges)
    first, last = total * shard // count, total * (shard + 1) // count
    found, before = [], 0
    for each in ranges:
        start, end = max(first - before, 0), min(last - before, each.size)
        if start < end:
            found.append(each._replace(start=each.start + start, end=each.start + end))
        before += each.size
    return tuple(found)


def own_place(plan: Shards, state: Mapping[str, Any], shard: int, count: int) -> Place:
    """The position of a shard from its own state. Errors: ConfigError, as `place_from`."""
    found = _place(plan, state)
    if (found.shard, found.count) != (shard, count):
        raise ConfigError(
            f"the state belongs to shard {found.shard} of {found.count}, not {shard} of {count}: give a list"
            " of"
            " the states of all shards"
        )
    return found


def place_from(plan: Shards, states: Iterable[Mapping[str, Any]], shard: int, count: int) -> Place:
    """The position of a shard from the `states` of all shards of a training, of any number: their rests of an
    epoch are divided again. With the same number each shard keeps its own.

    Errors: ConfigError for invalid states, those of another plan, or missing shards.
    """
    first_place(shard, count)
    places = sorted((_place(plan, each) for each in states), key=lambda each: each.shard)
    before = places[0].count if places else 1
    if [each.shard for each in places] != list(range(before)) or any(each.count != before for each in places):
        have = [f"{each.shard} of {each.count}" for each in places]
        raise ConfigError(
            f"the states of all shards of one training are needed, once each, not those of {have}"
        )
    if before == count:
        return places[shard]
    next_epoch = max(each.next_epoch for each in places)
    epochs = {epoch for each in places for epoch, _ in each.rests}
    epochs |= {epoch for each in places for epoch in range(each.next_epoch, next_epoch)}
    rests = []
    for epoch in sorted(epochs):
        left = [some for each in places for some in _left(plan, each, epoch)]
        rests.append((epoch, cut(left, shard, count)))
    return Place(shard, count, tuple(rests), next_epoch)


def _left(plan: Shards, place: Place, epoch: int) -> Ranges:
    if epoch >= place.next_epoch:
        return plan.of(place.shard, place.count)
    return next((ranges for number, ranges in place.rests if number == epoch), ())


def _place(plan: Shards, state: Mapping[str, Any]) -> Place:
    by_tp: dict[TopicPartition, OffsetRange] = {each.tp: each for each in plan.ranges}
    _check(plan, state)
    try:
        rests = tuple(
            (
                int(epoch),
                tuple(
                    by_tp[TopicPartition(topic, partition)]._replace(start=int(start), end=int(end))
                    for topic, partition, start, end in ranges
                ),
            )
            for epoch, ranges in state["rests"]
        )
        return Place(int(state["shard"]), int(state["shards"]), rests, int(state["next_epoch"]))
    except (KeyError, TypeError, ValueError) as error:
        raise ConfigError(f"{str(state)[:200]} is not the state of a shard: {error!r}") from error


def _check(plan: Shards, state: Any) -> None:
    if not isinstance(state, Mapping) or state.get("form") != _FORM:
        raise ConfigError(f"{str(state)[:200]} is not the state of a shard in format {_FORM}")
    if state.get("plan") != plan.mark:
        raise ConfigError("the state belongs to another plan, with other topics or offsets")
