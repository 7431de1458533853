"""The topics of a topology in the cluster: numbers of partitions, and the internal topics to create. Pure.

1. All source topics that are not internal must exist.
2. A repartition topic has the number of partitions that the topology fixes, else the largest number of the
   sources of a subtopology that writes to it.
3. The topics of a copartition group get equal numbers: that of the external topics, else that of the fixed
   repartition topics, else the largest one.
4. A changelog topic has as many partitions as its subtopology has tasks.
5. Internal topics that exist must have these numbers.

Source: Kafka InternalTopicManager.java, RepartitionTopics.java, CopartitionedTopicsEnforcer.java,
ChangelogTopics.java.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from ...protocol.errors import StreamsInvalidTopologyError
from ...protocol.messages.streams_groups import StatusCode
from .topology import copartition_groups, internal_topics_of, is_stateful, sources_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ...protocol.records.streams_group_records import (
        StreamsGroupTopologyValue,
        Subtopology,
        TopicInfo,
    )

MAX_NAMED = 10  # topics in a status

PartitionCountOf = Callable[[str], int | None]  # of a topic in the cluster; None: it does not exist


class Problem(NamedTuple):
    """Why no tasks can be assigned; one of the statuses about topics."""

    code: StatusCode
    detail: str


class SubtopologyTasks(NamedTuple):
    """The tasks of a subtopology: its partitions from 0 to `task_count` - 1."""

    task_count: int
    is_stateful: bool


class ConfiguredTopology(NamedTuple):
    """A topology with the topics of the cluster. Without `tasks`: source topics are missing or incorrectly
    partitioned. `missing`: internal topics to create, with their numbers of partitions."""

    epoch: int
    tasks: Mapping[str, SubtopologyTasks] | None
    partition_counts: Mapping[str, int]  # of internal topics
    missing: tuple[TopicInfo, ...]
    problem: Problem | None

    @property
    def is_ready(self) -> bool:
        """Whether tasks can be assigned."""
        return self.problem is None


class _IncorrectPartitionsError(Exception):
    """Internal: topics have other numbers of partitions than the topology needs."""


def configure(topology: StreamsGroupTopologyValue, count_of: PartitionCountOf) -> ConfiguredTopology:
    """`topology` without expressions (source_patterns.py). Errors: StreamsInvalidTopologyError if the number
    of partitions of a repartition topic depends on itself."""
    missing_sources = sorted(
        {name for each in topology.subtopologies for name in each.source_topics if count_of(name) is None}
        - {topic.name for each in topology.subtopologies for topic in each.repartition_source_topics}
    )
    if missing_sources:
        detail = f"Source topics {named(missing_sources)} are missing."
        return _failed(topology, Problem(StatusCode.MISSING_SOURCE_TOPICS, detail))
    try:
        counts = _partition_counts(topology, count_of)
        missing = _missing_topics(topology, counts, count_of)
    except _IncorrectPartitionsError as error:
        return _failed(topology, Problem(StatusCode.INCORRECTLY_PARTITIONED_TOPICS, str(error)))
    problem = None
    if missing:
        detail = f"Internal topics are missing: {named([topic.name for topic in missing])}"
        problem = Problem(StatusCode.MISSING_INTERNAL_TOPICS, detail)
    tasks = {
        each.subtopology_id: SubtopologyTasks(_task_count(each, counts, count_of), is_stateful(each))
        for each in topology.subtopologies
    }
    return ConfiguredTopology(topology.epoch, tasks, counts, missing, problem)


def _failed(topology: StreamsGroupTopologyValue, problem: Problem) -> ConfiguredTopology:
    return ConfiguredTopology(topology.epoch, None, {}, (), problem)


def named(names: Sequence[str]) -> str:
    """The first names of a status."""
    left = len(names) - MAX_NAMED
    return ", ".join(names[:MAX_NAMED]) + (f" and {left} more" if left > 0 else "")


# --- numbers of partitions ----------------------------------------------------------------------------------


def _partition_counts(topology: StreamsGroupTopologyValue, count_of: PartitionCountOf) -> dict[str, int]:
    """The number of partitions of each internal topic."""
    counts = _repartition_counts(topology, count_of)
    fixed = {
        topic.name: topic.partitions
        for each in topology.subtopologies
        for topic in each.repartition_source_topics
        if topic.partitions
    }
    for each in topology.subtopologies:
        for group in copartition_groups(each):
            counts |= _copartitioned(group, counts, fixed, count_of)
    for each in topology.subtopologies:
        sources = frozenset(sources_of(each))
        count = _task_count(each, counts, count_of)
        counts |= {topic.name: count for topic in each.state_changelog_topics if topic.name not in sources}
    return counts


def _task_count(subtopology: Subtopology, counts: Mapping[str, int], count_of: PartitionCountOf) -> int:
    found = (counts.get(name) or count_of(name) for name in sources_of(subtopology))
    return max((count for count in found if count is not None), default=0)  # no topic matches an expression


def _repartition_counts(topology: StreamsGroupTopologyValue, count_of: PartitionCountOf) -> dict[str, int]:
    """Fixed numbers, then those that follow from known ones, until none is left. In a loop of repartition
    topics, the known sources alone count."""
    topics = [topic for each in topology.subtopologies for topic in each.repartition_source_topics]
    counts = {topic.name: topic.partitions for topic in topics if topic.partitions}
    sources: dict[str, set[str]] = {topic.name: set() for topic in topics if topic.name not in counts}
    for each in topology.subtopologies:
        for name in each.repartition_sink_topics:
            if name in sources:
                sources[name].update(sources_of(each))
    while sources:
        known = {name: some - sources.keys() for name, some in sources.items()}
        complete = {name: some for name, some in known.items() if some == sources[name]}
        found = {
            name: max(counts.get(source) or count_of(source) or 0 for source in some)
            for name, some in (complete or known).items()
            if some
        }
        if not found:
            raise StreamsInvalidTopologyError(
                f"the numbers of partitions of repartition topics {named(sorted(sources))} cannot be"
                " computed: no subtopology writes to them, or they depend on each other only"
            )
        counts |= found
        sources = {name: some for name, some in sources.items() if name not in found}
    return counts


def _copartitioned(
    group: frozenset[str],
    counts: Mapping[str, int],
    fixed: Mapping[str, int],
    count_of: PartitionCountOf,
) -> dict[str, int]:
    """The number of partitions of the repartition topics of a copartition group."""
    internal = {name: counts[name] for name in group if name in counts}
    external = {name: count for name in group - internal.keys() if (count := count_of(name)) is not None}
    enforced = external or {name: count for name, count in internal.items() if name in fixed}
    if len(set(enforced.values())) > 1:
        raise _IncorrectPartitionsError(
            f"Following topics do not have the same number of partitions: [{_with_counts(enforced)}]"
        )
    count = max((enforced or internal).values(), default=0)
    for name in internal:
        if fixed.get(name, count) != count:
            raise _IncorrectPartitionsError(
                f"Number of partitions [{fixed[name]}] of repartition topic [{name}] doesn't match number of"
                f" partitions [{count}] of the source topic."
            )
    return dict.fromkeys(internal, count)


def _with_counts(counts: Mapping[str, int]) -> str:
    return "{" + ", ".join(f"{name}={count}" for name, count in sorted(counts.items())[:MAX_NAMED]) + "}"


def _missing_topics(
    topology: StreamsGroupTopologyValue, counts: Mapping[str, int], count_of: PartitionCountOf
) -> tuple[TopicInfo, ...]:
    missing: dict[str, TopicInfo] = {}
    for topic in _internal_topics(topology.subtopologies):
        expected, found = counts.get(topic.name), count_of(topic.name)
        if not expected:
            continue  # a changelog that is also a source topic, or no topic matches an expression yet
        if found is None:
            missing[topic.name] = topic._replace(partitions=expected)
        elif found != expected:
            raise _IncorrectPartitionsError(
                f"Existing topic {topic.name} has different number of partitions: expected {expected}, found"
                f" {found}"
            )
    return tuple(missing[name] for name in sorted(missing))


def _internal_topics(subtopologies: Iterable[Subtopology]) -> Iterable[TopicInfo]:
    return (topic for each in subtopologies for topic in internal_topics_of(each))
