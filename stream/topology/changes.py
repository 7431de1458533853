"""What differs between the topology of a running application and another one under the same id, and what that
means for its tasks, stores and records. Pure.

Only topics are compared: they are what the group coordinator knows, also of members in Java. What an operator
computes, and with which serdes, is not visible in them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping

    from ...clients.admin.streams_groups import StreamsGroupDescription
    from .built import BuiltTopology

_GENERATED = re.compile(r"(?P<kind>[A-Z][A-Z0-9-]*-)\d{10}")
_CHANGELOG, _REPARTITION = "-changelog", "-repartition"


class Effect(IntEnum):
    """The way from one topology to another, by cost."""

    SAME = 0
    ROLLING = 1
    """Instances are replaced one by one: each task has the same inputs and stores that both versions know."""
    STOP = 2
    """All instances stop before the first one of the new version starts: tasks have other inputs."""
    LOSS = 3
    """Stores begin empty, or records are not processed."""


class SubTopologyTopics(NamedTuple):
    """The topics of a sub-topology. `repartition` and `changelogs` with their numbers of partitions, None
    where the coordinator computes it. `sinks`: repartition topics that it writes."""

    sources: frozenset[str]
    repartition: Mapping[str, int | None]
    sinks: frozenset[str]
    changelogs: Mapping[str, int | None]


@dataclass(frozen=True, slots=True)
class Change:
    """One difference. `text` says what happens, and how to avoid it where it does harm."""

    effect: Effect
    text: str


@dataclass(frozen=True, slots=True)
class TopologyChanges:
    """All differences, those that do the most harm first."""

    changes: tuple[Change, ...]

    @property
    def effect(self) -> Effect:
        return max((each.effect for each in self.changes), default=Effect.SAME)

    def lines(self, least: Effect = Effect.SAME) -> list[str]:
        """A line for each change with at least this effect."""
        return [f"{each.effect.name.lower()}: {each.text}" for each in self.changes if each.effect >= least]


def topics_of_group(
    group: StreamsGroupDescription, existing: Container[str] | None
) -> dict[str, SubTopologyTopics]:
    """The topics of the topology that a group has now. Internal topics that are not `existing`, because the
    application was reset, count as none; None: all exist."""

    def left(counts: Mapping[str, int]) -> dict[str, int | None]:
        return {name: count for name, count in counts.items() if existing is None or name in existing}

    return {
        each.subtopology_id: SubTopologyTopics(
            frozenset(each.source_topics),
            left(each.repartition_source_topics),
            frozenset(each.repartition_sink_topics),
            left(each.state_changelog_topics),
        )
        for each in group.subtopologies or ()
    }


def topics_of_topology(built: BuiltTopology) -> dict[str, SubTopologyTopics]:
    """The topics of a topology of this program."""
    internal = {
        name for number in built.sub_topology_ids for name in built.topics_of(number).repartition_topics
    }
    found = {}
    for number in built.sub_topology_ids:
        info = built.topics_of(number)
        repartition = {name: topic.partitions for name, topic in info.repartition_topics.items()}
        found[str(number)] = SubTopologyTopics(
            info.source_topics.difference(repartition),
            repartition,
            info.sink_topics.intersection(internal),
            {name: topic.partitions for name, topic in info.changelog_topics.items()},
        )
    return found


def compare(
    application_id: str, running: Mapping[str, SubTopologyTopics], other: Mapping[str, SubTopologyTopics]
) -> TopologyChanges:
    """What changes if `other` takes the place of the `running` one."""
    found = [
        *_moved(running, other),
        *_inputs(running, other),
        *_stores(application_id, running, other),
        *_repartition(application_id, running, other),
    ]
    return TopologyChanges(tuple(sorted(dict.fromkeys(found), key=lambda each: (-each.effect, each.text))))


# --- sub-topologies and their inputs ----------------------------------------------------------------------


def _moved(
    running: Mapping[str, SubTopologyTopics], other: Mapping[str, SubTopologyTopics]
) -> Iterable[Change]:
    """Sub-topologies that came, went, or have another number."""
    numbers = {_inputs_of(each): number for number, each in other.items()}
    for number, before in running.items():
        now = numbers.get(_inputs_of(before))
        if now is not None and now != number:
            text = f"sub-topology {number} is now sub-topology {now}: its tasks have other ids"
            yield Change(Effect.STOP, text)
        elif now is None and number not in other:
            text = f"sub-topology {number} is gone: {_names(_inputs_of(before))} are not read any more"
            yield Change(Effect.STOP, text)
    before_inputs = {_inputs_of(each) for each in running.values()}
    for number, after in other.items():
        if number not in running and _inputs_of(after) not in before_inputs:
            text = f"sub-topology {number} is new: it reads {_names(_inputs_of(after))}"
            yield Change(Effect.STOP, text)


def _inputs(
    running: Mapping[str, SubTopologyTopics], other: Mapping[str, SubTopologyTopics]
) -> Iterable[Change]:
    """Inputs of sub-topologies that have the same number, and are not others with that number."""
    both = {_inputs_of(each) for each in running.values()} & {_inputs_of(each) for each in other.values()}
    for number in running.keys() & other.keys():
        before, after = _inputs_of(running[number]), _inputs_of(other[number])
        if before == after or before in both or after in both:
            continue
        for topic in sorted(before - after):
            yield Change(Effect.STOP, f"sub-topology {number} does not read {topic} any more")
        for topic in sorted(after - before):
            yield Change(Effect.STOP, f"sub-topology {number} also reads {topic}")


def _inputs_of(each: SubTopologyTopics) -> frozenset[str]:
    return each.sources.union(each.repartition)


# --- stores and repartition topics ------------------------------------------------------------------------


def _stores(
    application_id: str, running: Mapping[str, SubTopologyTopics], other: Mapping[str, SubTopologyTopics]
) -> Iterable[Change]:
    before = _owners((number, each.changelogs) for number, each in running.items())
    after = _owners((number, each.changelogs) for number, each in other.items())
    gone, fresh = before.keys() - after.keys(), after.keys() - before.keys()
    renamed = _renamed(application_id, gone, fresh, _CHANGELOG)
    for old, new in renamed.items():
        names = [_short(application_id, each, _CHANGELOG) for each in (old, new)]
        yield Change(
            Effect.LOSS,
            f"store {names[0]} is now {names[1]} and begins empty: an operator before it came or went, and"
            " generated names are numbered; give it a name (store=, name=), the old one to keep its contents",
        )
    for topic in sorted(gone - renamed.keys()):
        store = _short(application_id, topic, _CHANGELOG)
        text = f"store {store} is gone, with its contents; its changelog {topic} stays"
        yield Change(Effect.ROLLING, text)
    for topic in sorted(fresh - set(renamed.values())):
        yield Change(
            Effect.ROLLING, f"store {_short(application_id, topic, _CHANGELOG)} is new and begins empty"
        )
    for topic in sorted(before.keys() & after.keys()):
        yield from _moved_store(application_id, topic, running, other, before[topic], after[topic])


def _moved_store(
    application_id: str,
    topic: str,
    running: Mapping[str, SubTopologyTopics],
    other: Mapping[str, SubTopologyTopics],
    old: str,
    new: str,
) -> Iterable[Change]:
    if old != new and _inputs_of(running[old]) != _inputs_of(other[new]):
        text = f"store {_short(application_id, topic, _CHANGELOG)} moves from sub-topology {old} to {new}"
        yield Change(Effect.STOP, text)


def _repartition(
    application_id: str, running: Mapping[str, SubTopologyTopics], other: Mapping[str, SubTopologyTopics]
) -> Iterable[Change]:
    before = {name: count for each in running.values() for name, count in each.repartition.items()}
    after = {name: count for each in other.values() for name, count in each.repartition.items()}
    gone, fresh = before.keys() - after.keys(), after.keys() - before.keys()
    renamed = _renamed(application_id, gone, fresh, _REPARTITION)
    for old, new in renamed.items():
        yield Change(
            Effect.LOSS,
            f"repartition topic {old} is now {new}: its records that are not processed yet are lost; give the"
            " operator a name (name=), the old one to keep them",
        )
    for topic in sorted(gone - renamed.keys()):
        yield Change(
            Effect.LOSS,
            f"repartition topic {topic} is gone: its records that are not processed yet are lost; a lag of 0"
            " when the application stops avoids that",
        )
    for topic in sorted(fresh - set(renamed.values())):
        yield Change(Effect.STOP, f"repartition topic {topic} is new")
    for topic in sorted(before.keys() & after.keys()):
        old_count, new_count = before[topic], after[topic]
        if None not in (old_count, new_count) and old_count != new_count:
            yield Change(
                Effect.LOSS,
                f"repartition topic {topic} has {old_count} partitions, and {new_count} in the program: keys"
                " would move to other tasks than their stores",
            )


def _owners(topics: Iterable[tuple[str, Iterable[str]]]) -> dict[str, str]:
    """By topic its sub-topology."""
    return {topic: number for number, some in topics for topic in some}


def _renamed(application_id: str, gone: Iterable[str], fresh: Iterable[str], suffix: str) -> dict[str, str]:
    """Generated names that only have another number: from old to new, of each kind in the order of
    numbers."""
    by_kind: dict[str, list[str]] = {}
    for topic in sorted(fresh):
        kind = _kind(_short(application_id, topic, suffix))
        if kind is not None:
            by_kind.setdefault(kind, []).append(topic)
    found = {}
    for topic in sorted(gone):
        kind = _kind(_short(application_id, topic, suffix))
        if kind is not None and by_kind.get(kind):
            found[topic] = by_kind[kind].pop(0)
    return found


def _kind(name: str) -> str | None:
    found = _GENERATED.match(name)
    return None if found is None else found["kind"]


def _short(application_id: str, topic: str, suffix: str) -> str:
    return topic.removeprefix(f"{application_id}-").removesuffix(suffix)


def _names(topics: Iterable[str]) -> str:
    return ", ".join(sorted(topics)) or "nothing"
