"""ConsumerGroupDescribe: descriptions of consumer-protocol groups."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.errors import GroupIdNotFoundError
from ...protocol.messages.groups import (
    ConsumerGroupDescribeResponse,
    ConsumerGroupMember,
    DescribedConsumerGroup,
    NamedPartitions,
)
from .consumer_draft import ConsumerDraft
from .consumer_group import ConsumerGroup

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ...protocol.messages.groups import ConsumerGroupDescribeRequest
    from .assignors.model import Partitions
    from .consumer_member import Member
    from .group import Group
    from .topic_index import TopicIndex

CLASSIC_MEMBER, CONSUMER_MEMBER = 0, 1


def describe_groups(
    body: ConsumerGroupDescribeRequest,
    groups: Mapping[str, Group],
    topics: TopicIndex,
    assignor_names: Sequence[str],
) -> ConsumerGroupDescribeResponse:
    """Descriptions in the order of the request; a classic group is GROUP_ID_NOT_FOUND."""
    return ConsumerGroupDescribeResponse(
        tuple(
            _describe(group_id, groups.get(group_id), topics, assignor_names) for group_id in body.group_ids
        )
    )


def _describe(
    group_id: str, group: Group | None, topics: TopicIndex, assignor_names: Sequence[str]
) -> DescribedConsumerGroup:
    if not isinstance(group, ConsumerGroup):
        detail = f"consumer group {group_id!r} does not exist"
        return DescribedConsumerGroup(GroupIdNotFoundError.code, group_id, error_detail=detail)
    return DescribedConsumerGroup(
        0,
        group_id,
        group.state_name,
        group.epoch,
        group.assignment_epoch,
        ConsumerDraft(group, topics).assignor_name(assignor_names),
        tuple(_member(group, member, topics) for _, member in sorted(group.members.items())),
    )


def _member(group: ConsumerGroup, member: Member, topics: TopicIndex) -> ConsumerGroupMember:
    metadata = member.metadata
    return ConsumerGroupMember(
        member.member_id,
        metadata.instance_id,
        metadata.rack_id,
        member.epoch,
        metadata.client_id,
        metadata.client_host,
        metadata.subscribed_topic_names,
        metadata.subscribed_topic_regex,
        _named(member.assigned, topics),
        _named(group.targets.get(member.member_id, {}), topics),
        CONSUMER_MEMBER if member.classic is None else CLASSIC_MEMBER,
    )


def _named(partitions: Partitions, topics: TopicIndex) -> tuple[NamedPartitions, ...]:
    """Partitions by topic name, without topics that no longer exist."""
    named = ((topics.name_of(topic), topic, each) for topic, each in partitions.items())
    return tuple(
        sorted(
            (NamedPartitions(topic, name, each) for name, topic, each in named if name is not None),
            key=_by_name,
        )
    )


def _by_name(partitions: NamedPartitions) -> str:
    return partitions.topic
