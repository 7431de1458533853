"""Partition counts of internal topics, and the checks of topics that exist. Pure.

A repartition topic has as many partitions as the widest topic that the sub-topologies before it read, unless
the topology sets a number or a co-partitioned topic gives another; a changelog has one for each task.
Source: Kafka RepartitionTopics.java, CopartitionedTopicsEnforcer.java, ChangelogTopics.java.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ..errors import InternalTopicError, MissingSourceTopicError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ..topology.internal_topics import InternalTopic
    from ..topology.sub_topology import TopicsInfo


class PlannedTopic(NamedTuple):
    """An internal topic with its number of partitions."""

    topic: InternalTopic
    partitions: int


def plan_topics(
    infos: Mapping[int, TopicsInfo],
    copartition_groups: Sequence[frozenset[str]],
    existing: Mapping[str, int],
) -> list[PlannedTopic]:
    """All internal topics of the application, those that exist included. `existing`: partitions by topic.

    A sub-topology without tasks, because no topic matches its pattern yet, has no changelogs yet.
    Errors: MissingSourceTopicError; InternalTopicError if topics are not co-partitioned, no source decides a
    number, or an internal topic exists with another number.
    """
    repartition = {name: topic for info in infos.values() for name, topic in info.repartition_topics.items()}
    _check_sources(infos, repartition, existing)
    counts = _repartition_counts(infos, repartition, existing)
    for group in copartition_groups:
        _copartition(group, repartition, counts, existing)
    planned = [PlannedTopic(topic, counts[name]) for name, topic in sorted(repartition.items())]
    for info in infos.values():
        tasks = max((counts.get(name) or existing.get(name, 0) for name in info.source_topics), default=0)
        if tasks:
            planned += [PlannedTopic(topic, tasks) for topic in info.created_changelogs]
    for topic, partitions in planned:
        _check_existing(topic.name, partitions, existing)
    return planned


def _check_sources(
    infos: Mapping[int, TopicsInfo], repartition: Mapping[str, InternalTopic], existing: Mapping[str, int]
) -> None:
    sources = {name for info in infos.values() for name in info.source_topics}
    missing = sorted(name for name in sources if name not in repartition and name not in existing)
    if missing:
        verb = "topics {} do" if missing[1:] else "topic {} does"
        raise MissingSourceTopicError(
            f"source {verb.format(', '.join(missing))} not exist: create every source topic before the"
            " application starts"
        )


def _repartition_counts(
    infos: Mapping[int, TopicsInfo], repartition: Mapping[str, InternalTopic], existing: Mapping[str, int]
) -> dict[str, int]:
    """Numbers flow from source topics through sub-topologies to the topics that they write. A topic takes the
    largest number known so far, in the order of the sub-topologies, as in Java: both topics of a foreign-key
    join are written by a sub-topology that reads the other one."""
    counts = {name: topic.partitions for name, topic in repartition.items() if topic.partitions is not None}
    readers = [name for _, info in sorted(infos.items()) for name in sorted(info.repartition_topics)]
    open_topics = [name for name in dict.fromkeys(readers) if name not in counts]
    while open_topics:
        left = []
        for name in open_topics:
            above = [
                counts.get(source) if source in repartition else existing[source]
                for info in infos.values()
                if name in info.sink_topics
                for source in info.source_topics
            ]
            known = [count for count in above if count is not None]
            if known:
                counts[name] = max(known)
            else:
                left.append(name)
        if left == open_topics:
            raise InternalTopicError(
                f"no source topic decides the number of partitions of {', '.join(left)}: give repartition() a"
                " number of partitions"
            )
        open_topics = left
    return counts


def _copartition(
    group: frozenset[str],
    repartition: Mapping[str, InternalTopic],
    counts: dict[str, int],
    existing: Mapping[str, int],
) -> None:
    """Give the repartition topics of a group the number of the others."""
    fixed = {name: existing[name] for name in group if name not in repartition}
    if not fixed:
        fixed = {
            name: topic.partitions
            for name, topic in repartition.items()
            if name in group and topic.partitions is not None
        }
    if len(set(fixed.values())) > 1:
        raise InternalTopicError(
            "topics are not co-partitioned, but the topology joins them by key: "
            + ", ".join(f"{name} has {count} partitions" for name, count in sorted(fixed.items()))
        )
    wanted = next(iter(fixed.values()), 0) or max(counts[name] for name in group)
    for name in sorted(group & repartition.keys()):
        asked = repartition[name].partitions
        if asked is not None and asked != wanted:
            other = min(fixed)
            raise InternalTopicError(
                f"repartition topic {name} has {asked} partitions, but {other}, with which the topology joins"
                f" it, has {wanted}"
            )
        counts[name] = wanted


def _check_existing(name: str, partitions: int, existing: Mapping[str, int]) -> None:
    found = existing.get(name, partitions)
    if found != partitions:
        raise InternalTopicError(
            f"internal topic {name} exists with {found} partitions, the topology needs {partitions}: a source"
            " topic or the topology has changed; stop it and run `headrace stream reset`, or give"
            " it another application.id"
        )
