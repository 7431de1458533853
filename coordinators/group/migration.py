"""A group that changes its protocol while its members live. Pure.

Up, when a member of the new protocol joins a classic group of consumers: what the members have becomes their
target too, the generation becomes the epoch, and its members go on with the classic
protocol (classic_consumers.py). Down, when the last member of the new protocol is gone: the other way round,
and all are to join again. Source: Kafka GroupMetadataManager.java convertToConsumerGroup,
convertToClassicGroup.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ...protocol.consumer_protocol import (
    MAX_VERSION,
    PROTOCOL_TYPE,
    Assignment,
    decode_assignment,
    decode_subscription,
    encode_assignment,
)
from ...protocol.errors import GroupIdNotFoundError, InvalidRequestError
from ...protocol.model import TopicPartition
from ...protocol.records.group_records import (
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupMemberMetadataValue,
    GroupMember,
    GroupMetadataKey,
    GroupMetadataValue,
)
from ..runtime.ports import Record
from .consumer_member import Member, each_partition

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ...protocol.consumer_protocol import Subscription
    from ...storage_node.configs.coordinator_config import CoordinatorConfig
    from .assignors.model import Partitions
    from .classic_group import ClassicGroup
    from .classic_member import ClassicMember
    from .consumer_draft import ConsumerDraft
    from .consumer_group import ConsumerGroup
    from .topic_facts import TopicFacts

UPGRADES = ("upgrade", "bidirectional")
DOWNGRADES = ("downgrade", "bidirectional")


# --- up ----------------------------------------------------------------------------------------------------


def check_upgrade(group: ClassicGroup, config: CoordinatorConfig) -> None:
    """Errors: GroupIdNotFoundError, as the group is not there for members of the new protocol."""
    fault = None
    if config.group_consumer_migration_policy not in UPGRADES:
        fault = "group.consumer.migration.policy does not allow it"
    elif not group.reads_topics:
        fault = f"its members are no consumers but {group.protocol_type!r}"
    elif group.member_count > config.group_consumer_max_size:
        fault = f"its {group.member_count} members are more than group.consumer.max.size"
    if fault is not None:
        raise _cannot_change(group, fault)


def upgrade(draft: ConsumerDraft, group: ClassicGroup, topics: TopicFacts) -> None:
    """Write the classic group into the empty one of `draft`. Errors: GroupIdNotFoundError."""
    new = draft.group
    epoch = group.generation
    members = _upgraded_members(group, topics)
    for member in members:
        draft.write(new.told_record(member.member_id, member.told))
    draft.write(new.metadata_record(epoch, topics.hash_of(draft.group.all_topics())))
    for member in members:
        draft.write(new.target_record(member.member_id, member.assigned))
    draft.write(new.target_epoch_record(epoch))
    for member in members:
        draft.write(new.current_record(member.member_id, member))


def _upgraded_members(group: ClassicGroup, topics: TopicFacts) -> list[Member]:
    """With what they have: by their assignment, and by what they said that they own when they joined. A
    cooperative member goes on reading that in a rebalance in which its assignment is forgotten; what it has
    given back since it will say when it joins again. Of two that claim a partition, whatever a custom
    assignor has done, the one that was assigned it keeps it, else the first."""
    told = {each.member_id: _read(group, each) for each in group.members.values()}
    given: set[tuple[bytes, int]] = set()
    assigned: dict[str, set[tuple[bytes, int]]] = {member_id: set() for member_id in told}
    claims = [(member_id, it.assigned) for member_id, it in told.items()]
    claims += [(member_id, it.owned) for member_id, it in told.items()]
    for member_id, claimed in claims:
        mine = set(each_partition(partitions_by_id(claimed, topics))) - given
        assigned[member_id] |= mine
        given |= mine
    epoch = group.generation
    return [
        Member(member_id, it.told, epoch, epoch, assigned=_grouped(assigned[member_id]))
        for member_id, it in told.items()
    ]


class _Read(NamedTuple):
    """What the bytes of a classic member say."""

    told: ConsumerGroupMemberMetadataValue
    assigned: tuple[TopicPartition, ...]
    owned: tuple[TopicPartition, ...]


def _read(group: ClassicGroup, member: ClassicMember) -> _Read:
    try:
        subscription = decode_subscription(member.metadata(group.protocol or member.protocols[0].name))
        assignment = decode_assignment(member.assignment)
    except InvalidRequestError as error:
        raise _cannot_change(group, f"what {member.member_id!r} told cannot be read: {error}") from error
    if assignment.user_data:
        raise _cannot_change(group, "its assignor keeps data of its own, which would be lost")
    return _Read(_upgraded_told(member, subscription), assignment.partitions, subscription.owned)


def _grouped(places: set[tuple[bytes, int]]) -> Partitions:
    found: dict[bytes, list[int]] = {}
    for topic, partition in sorted(places):
        found.setdefault(topic, []).append(partition)
    return {topic: tuple(each) for topic, each in found.items()}


def _upgraded_told(member: ClassicMember, subscription: Subscription) -> ConsumerGroupMemberMetadataValue:
    protocols = tuple(ClassicProtocol(each.name, each.metadata) for each in member.protocols)
    return ConsumerGroupMemberMetadataValue(
        member.group_instance_id,
        subscription.rack_id,
        member.client_id,
        member.client_host,
        tuple(sorted(set(subscription.topics))),
        None,
        member.rebalance_timeout_ms,
        None,
        ClassicMemberMetadata(member.session_timeout_ms, protocols),
    )


def _cannot_change(group: ClassicGroup, why: str) -> GroupIdNotFoundError:
    return GroupIdNotFoundError(f"group {group.group_id!r} cannot change to the new protocol: {why}")


def partitions_by_id(partitions: Iterable[TopicPartition], topics: TopicFacts) -> Partitions:
    """Of topics that exist."""
    found: dict[bytes, set[int]] = {}
    for topic, partition in partitions:
        topic_id = topics.id_of(topic)
        if topic_id is not None:
            found.setdefault(topic_id, set()).add(partition)
    return {topic_id: tuple(sorted(each)) for topic_id, each in found.items()}


# --- down --------------------------------------------------------------------------------------------------


def can_downgrade(group: ConsumerGroup, leaving: Sequence[str], config: CoordinatorConfig) -> bool:
    """Do all that stay speak the classic protocol, and may they be a classic group?"""
    staying = [member for member in group.members.values() if member.member_id not in leaving]
    return (
        0 < len(staying) <= config.group_max_size
        and all(member.classic is not None for member in staying)
        and config.group_consumer_migration_policy in DOWNGRADES
    )


def downgrade(group: ConsumerGroup, leaving: Sequence[str], topics: TopicFacts, wall_ms: int) -> list[Record]:
    """Records that make it a classic group without `leaving`, at the generation of its epoch. Nobody leads:
    whoever loads this has all members join again."""
    staying = [member for _, member in sorted(group.members.items()) if member.member_id not in leaving]
    protocol = common_protocol(staying)
    members = tuple(_downgraded(member, protocol, topics) for member in staying)
    value = GroupMetadataValue(PROTOCOL_TYPE, group.epoch, protocol, None, wall_ms, members)
    return [*group.tombstones(), Record(GroupMetadataKey(group.group_id), value)]


def common_protocol(members: Sequence[Member]) -> str:
    """The first assignor of the first of these classic members that all of them have."""
    names = [[name for name, _ in member.classic.supported_protocols] for member in members if member.classic]
    shared = set(names[0]).intersection(*names)
    return next((name for name in names[0] if name in shared), names[0][0])


def _downgraded(member: Member, protocol: str, topics: TopicFacts) -> GroupMember:
    assert member.classic is not None
    return GroupMember(
        member.member_id,
        member.instance_id,
        member.told.client_id,
        member.told.client_host,
        member.told.rebalance_timeout_ms,
        member.classic.session_timeout_ms,
        dict(member.classic.supported_protocols).get(protocol, b""),
        assignment_bytes(member, topics),
    )


def assignment_bytes(member: Member, topics: TopicFacts) -> bytes:
    """What a classic member has, in the version of its subscription."""
    version = min(_subscription_version(member), MAX_VERSION)
    named = ((topics.name_of(topic), partition) for topic, partition in each_partition(member.assigned))
    partitions = tuple(TopicPartition(name, partition) for name, partition in named if name is not None)
    return encode_assignment(Assignment(version, partitions))


def _subscription_version(member: Member) -> int:
    """Of its first assignor whose data can be read. What an assignor of the user's own tells may be anything,
    and a group changes also when nobody asks, so that nobody could be told of an error."""
    assert member.classic is not None
    for _, metadata in member.classic.supported_protocols:
        try:
            return decode_subscription(metadata).version
        except InvalidRequestError:
            continue
    return 0
