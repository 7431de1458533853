"""Streams groups (KIP-1071) in the admin client: frozen values, and their making from responses. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from ...protocol.model import TopicPartition
from .group_types import GroupDescription, GroupMemberDescription, GroupState, GroupType

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ...protocol.messages import streams_groups as m
    from ...protocol.records.streams_group_records import TaskIds, TopologyDescription

PROTOCOL_TYPE = "streams"


class TaskId(NamedTuple):
    """A task: a subtopology and a partition."""

    subtopology_id: str
    partition: int

    def __str__(self) -> str:
        return f"{self.subtopology_id}_{self.partition}"


@dataclass(frozen=True, slots=True)
class StreamsTasks:
    """The tasks of a member by role, sorted."""

    active: tuple[TaskId, ...] = ()
    standby: tuple[TaskId, ...] = ()
    warmup: tuple[TaskId, ...] = ()


@dataclass(frozen=True, slots=True)
class StreamsSubtopology:
    """The topics of a subtopology; internal topics with their numbers of partitions."""

    subtopology_id: str
    source_topics: tuple[str, ...]
    repartition_sink_topics: tuple[str, ...]
    repartition_source_topics: dict[str, int]
    state_changelog_topics: dict[str, int]


@dataclass(frozen=True, slots=True)
class StreamsMemberDescription:
    """A member: a stream thread of the process `process_id`. `endpoint` is `application.server`, None without
    one."""

    member_id: str
    member_epoch: int
    client_id: str
    host: str
    rack_id: str | None
    process_id: str
    topology_epoch: int
    endpoint: tuple[str, int] | None
    client_tags: dict[str, str]
    tasks: StreamsTasks
    target: StreamsTasks


@dataclass(frozen=True, slots=True)
class StreamsGroupDescription:
    """One streams group. `subtopologies` is None while source topics are missing or incorrectly partitioned;
    `coordinator` is a node id; `topology_description` is the processing graph, if it was asked for and a
    member has sent it."""

    group_id: str
    state: GroupState
    coordinator: int
    group_epoch: int
    assignment_epoch: int
    topology_epoch: int
    subtopologies: tuple[StreamsSubtopology, ...] | None
    members: tuple[StreamsMemberDescription, ...]
    topology_description: TopologyDescription | None = None


def streams_group(group: m.DescribedStreamsGroup, node_id: int) -> StreamsGroupDescription:
    """The description in a response of the coordinator `node_id`."""
    topology = group.topology
    found = None if topology is None else topology.subtopologies
    return StreamsGroupDescription(
        group.group_id,
        GroupState(group.group_state),
        node_id,
        group.group_epoch,
        group.assignment_epoch,
        -1 if topology is None else topology.epoch,
        None if found is None else tuple(map(_subtopology, found)),
        tuple(map(_member, group.members)),
        group.topology_description,
    )


def _subtopology(subtopology: m.DescribedSubtopology) -> StreamsSubtopology:
    return StreamsSubtopology(
        subtopology.subtopology_id,
        subtopology.source_topics,
        subtopology.repartition_sink_topics,
        {topic.name: topic.partitions for topic in subtopology.repartition_source_topics},
        {topic.name: topic.partitions for topic in subtopology.state_changelog_topics},
    )


def _member(member: m.StreamsGroupMember) -> StreamsMemberDescription:
    endpoint = member.user_endpoint
    return StreamsMemberDescription(
        member.member_id,
        member.member_epoch,
        member.client_id,
        member.client_host,
        member.rack_id,
        member.process_id,
        member.topology_epoch,
        None if endpoint is None else (endpoint.host, endpoint.port),
        {tag.key: tag.value for tag in member.client_tags},
        _tasks(member.assignment),
        _tasks(member.target_assignment),
    )


def _tasks(assignment: m.TaskAssignment) -> StreamsTasks:
    return StreamsTasks(
        *(_task_ids(tasks) for tasks in (assignment.active, assignment.standby, assignment.warmup))
    )


def _task_ids(tasks: Iterable[TaskIds]) -> tuple[TaskId, ...]:
    return tuple(TaskId(each.subtopology_id, number) for each in tasks for number in each.partitions)


def as_group(group: StreamsGroupDescription) -> GroupDescription:
    """The form that all types of groups have: a member has the source partitions of its active tasks."""
    sources = {
        each.subtopology_id: (*each.source_topics, *each.repartition_source_topics)
        for each in group.subtopologies or ()
    }

    def partitions(tasks: StreamsTasks) -> tuple[TopicPartition, ...]:
        return tuple(
            sorted(
                TopicPartition(topic, task.partition)
                for task in tasks.active
                for topic in sources.get(task.subtopology_id, ())
            )
        )

    return GroupDescription(
        group.group_id,
        GroupType.STREAMS,
        group.state,
        PROTOCOL_TYPE,
        "",
        group.coordinator,
        tuple(
            GroupMemberDescription(
                member.member_id,
                None,
                member.client_id,
                member.host,
                partitions(member.tasks),
                partitions(member.target),
                member.member_epoch,
                member.rack_id,
            )
            for member in group.members
        ),
        group.group_epoch,
        group.assignment_epoch,
    )
