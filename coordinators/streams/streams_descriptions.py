"""StreamsGroupDescribe: descriptions of streams groups. Source: Kafka StreamsGroup.java asDescribedGroup,
ConfiguredTopology.java."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.errors import GroupIdNotFoundError, KafkaError
from ...protocol.messages.streams_groups import (
    DescribedStreamsGroup,
    DescribedSubtopology,
    DescribedTopology,
    StreamsGroupDescribeResponse,
    StreamsGroupMember,
    TaskAssignment,
)
from .streams_group import StreamsGroup
from .tasks import NO_TASKS, by_role

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ...protocol.messages.streams_groups import StreamsGroupDescribeRequest
    from ...protocol.records.streams_group_records import Subtopology, TopicInfo
    from .streams_member import Member
    from .streams_members import StreamsMembers
    from .tasks import Tasks


def describe_groups(
    body: StreamsGroupDescribeRequest, members: StreamsMembers
) -> StreamsGroupDescribeResponse:
    """Descriptions in the order of the request; a group of another type is GROUP_ID_NOT_FOUND."""
    has_graph = body.include_topology_description
    return StreamsGroupDescribeResponse(
        tuple(_describe(group_id, members, has_graph=has_graph) for group_id in body.group_ids)
    )


def _describe(group_id: str, members: StreamsMembers, *, has_graph: bool) -> DescribedStreamsGroup:
    group = members.groups.get(group_id)
    if not isinstance(group, StreamsGroup):
        detail = f"streams group {group_id!r} does not exist"
        return DescribedStreamsGroup(GroupIdNotFoundError.code, group_id, error_detail=detail)
    return DescribedStreamsGroup(
        0,
        group_id,
        group.state_name,
        group.epoch,
        group.assignment_epoch,
        _topology(group, members),
        tuple(_member(group, member) for _, member in sorted(group.members.items())),
        topology_description=group.description if has_graph else None,
    )


def _topology(group: StreamsGroup, members: StreamsMembers) -> DescribedTopology | None:
    if group.topology is None:
        return None
    try:
        current = members.current_topology(group.group_id, group.topology)
    except KafkaError:
        return DescribedTopology(group.topology.epoch, None)
    if current.configured.tasks is None:
        return DescribedTopology(group.topology.epoch, None)
    counts = current.configured.partition_counts
    found = sorted(current.resolved.subtopologies, key=_by_id)
    return DescribedTopology(group.topology.epoch, tuple(_subtopology(each, counts) for each in found))


def _by_id(subtopology: Subtopology) -> str:
    return subtopology.subtopology_id


def _subtopology(subtopology: Subtopology, counts: Mapping[str, int]) -> DescribedSubtopology:
    def sized(topics: Iterable[TopicInfo]) -> tuple[TopicInfo, ...]:
        return tuple(
            topic._replace(partitions=counts.get(topic.name, topic.partitions))
            for topic in sorted(topics, key=lambda each: each.name)
        )

    return DescribedSubtopology(
        subtopology.subtopology_id,
        tuple(sorted(subtopology.source_topics)),
        tuple(sorted(subtopology.repartition_sink_topics)),
        sized(subtopology.state_changelog_topics),
        sized(subtopology.repartition_source_topics),
    )


def _member(group: StreamsGroup, member: Member) -> StreamsGroupMember:
    metadata = member.metadata
    return StreamsGroupMember(
        member.member_id,
        member.epoch,
        metadata.instance_id,
        metadata.rack_id,
        metadata.client_id,
        metadata.client_host,
        metadata.topology_epoch,
        metadata.process_id,
        metadata.user_endpoint,
        metadata.client_tags,
        _assignment(member.assigned),
        _assignment(group.targets.get(member.member_id, NO_TASKS)),
    )


def _assignment(tasks: Tasks) -> TaskAssignment:
    return TaskAssignment(*by_role(tasks))
