"""The topology that the members of a streams group send: its topics, and its validation. Pure.

Source: Kafka StreamsTopology.java, GroupCoordinatorService.java throwIfInvalidTopology.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

from ...protocol.errors import InvalidRequestError, StreamsInvalidTopologyError
from ...protocol.model import topic_name_fault
from ...runtime.config import MAX_INT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ...protocol.records.streams_group_records import StreamsGroupTopologyValue, Subtopology, TopicInfo

MAX_TOPICS = 10_000  # Bound: of a topology, with every mention
MAX_REPLICATION_FACTOR = 32_767


def sources_of(subtopology: Subtopology) -> Iterator[str]:
    """The topics that it reads: external ones and repartition topics."""
    return chain(subtopology.source_topics, (each.name for each in subtopology.repartition_source_topics))


def internal_topics_of(subtopology: Subtopology) -> Iterator[TopicInfo]:
    """The internal topics that it declares: repartition and changelog topics."""
    return chain(subtopology.repartition_source_topics, subtopology.state_changelog_topics)


def required_topics(topology: StreamsGroupTopologyValue) -> frozenset[str]:
    """All topics that its tasks read or restore from."""
    return frozenset(
        name
        for each in topology.subtopologies
        for name in chain(sources_of(each), (topic.name for topic in each.state_changelog_topics))
    )


def source_subtopologies(topology: StreamsGroupTopologyValue | None) -> dict[str, str]:
    """The subtopology of each source topic that the topology names."""
    if topology is None:
        return {}
    return {name: each.subtopology_id for each in topology.subtopologies for name in sources_of(each)}


def is_stateful(subtopology: Subtopology) -> bool:
    """Whether its tasks have state that is restored from changelogs."""
    return bool(subtopology.state_changelog_topics)


def copartition_groups(subtopology: Subtopology) -> Iterator[frozenset[str]]:
    """The names of topics that must have equal numbers of partitions."""
    for group in subtopology.copartition_groups:
        external = (subtopology.source_topics[index] for index in group.source_topics)
        internal = (subtopology.repartition_source_topics[index] for index in group.repartition_source_topics)
        yield frozenset(chain(external, (topic.name for topic in internal)))


def check_topology(topology: StreamsGroupTopologyValue) -> None:
    """All but its regular expressions (source_patterns.py). Errors: InvalidRequestError for too many topics;
    StreamsInvalidTopologyError."""
    if topology.epoch < 0:
        raise StreamsInvalidTopologyError(f"the topology epoch {topology.epoch} is negative")
    if not topology.subtopologies:
        raise StreamsInvalidTopologyError("the topology has no subtopologies")
    ids = [each.subtopology_id for each in topology.subtopologies]
    if len(set(ids)) < len(ids) or "" in ids:
        raise StreamsInvalidTopologyError("subtopology ids are empty or not unique")
    if sum(map(_mentions, topology.subtopologies)) > MAX_TOPICS:
        raise InvalidRequestError(f"the topology names more than {MAX_TOPICS} topics")
    sources: dict[str, str] = {}
    for each in topology.subtopologies:
        _check_subtopology(each)
        for name in sources_of(each):
            if sources.setdefault(name, each.subtopology_id) != each.subtopology_id:
                raise StreamsInvalidTopologyError(f"two subtopologies read from topic {name!r}")


def _mentions(subtopology: Subtopology) -> int:
    return (
        len(subtopology.source_topics)
        + len(subtopology.source_topic_regex)
        + len(subtopology.repartition_sink_topics)
        + len(subtopology.repartition_source_topics)
        + len(subtopology.state_changelog_topics)
        + sum(
            len(group.source_topics) + len(group.source_topic_regex) + len(group.repartition_source_topics)
            for group in subtopology.copartition_groups
        )
    )


def _check_subtopology(subtopology: Subtopology) -> None:
    where = f"subtopology {subtopology.subtopology_id!r}"
    if next(sources_of(subtopology), None) is None and not subtopology.source_topic_regex:
        raise StreamsInvalidTopologyError(f"{where} has no source topics")
    for name in (*sources_of(subtopology), *subtopology.repartition_sink_topics):
        _check_name(name, where)
    for topic in internal_topics_of(subtopology):
        _check_name(topic.name, where)
        has_replication = -1 <= topic.replication_factor <= MAX_REPLICATION_FACTOR
        if not 0 <= topic.partitions <= MAX_INT or not has_replication:
            raise StreamsInvalidTopologyError(
                f"{where}: internal topic {topic.name!r} has {topic.partitions} partitions and replication"
                f" factor {topic.replication_factor}"
            )
    for group in subtopology.copartition_groups:
        sizes = (
            (group.source_topics, len(subtopology.source_topics)),
            (group.source_topic_regex, len(subtopology.source_topic_regex)),
            (group.repartition_source_topics, len(subtopology.repartition_source_topics)),
        )
        if any(not 0 <= index < size for indices, size in sizes for index in indices):
            raise StreamsInvalidTopologyError(f"{where}: a copartition group has an index out of bounds")


def _check_name(name: str, where: str) -> None:
    fault = topic_name_fault(name)
    if fault is not None:
        raise StreamsInvalidTopologyError(f"{where}: topic name {name[:300]!r}: {fault}")


def keeps_tasks(known: StreamsGroupTopologyValue, sent: StreamsGroupTopologyValue) -> bool:
    """Whether members with either topology have the same tasks, with the same inputs, so that they can share
    them while an application is upgraded."""
    return _inputs(known) == _inputs(sent)


def _inputs(topology: StreamsGroupTopologyValue) -> dict[str, tuple[frozenset[str], ...]]:
    return {
        each.subtopology_id: (
            frozenset(each.source_topics),
            frozenset(each.source_topic_regex),
            frozenset(topic.name for topic in each.repartition_source_topics),
        )
        for each in topology.subtopologies
    }
