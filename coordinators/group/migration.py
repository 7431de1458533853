"""Conversion of a live group between the classic and the consumer protocol. Pure.

Upgrade, when a consumer-protocol member joins a classic group of consumers: current assignments also become
targets, the generation becomes the epoch, and classic members continue with the classic protocol
(classic_consumers.py). Downgrade, when the last consumer-protocol member leaves: the reverse, and all members
have to rejoin. Source: Kafka GroupMetadataManager.java convertToConsumerGroup, convertToClassicGroup.
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
    from .topic_index import TopicIndex

UPGRADES = ("upgrade", "bidirectional")
DOWNGRADES = ("downgrade", "bidirectional")


# --- upgrade ------------------------------------------------------------------------------------------------


def check_upgrade(group: ClassicGroup, config: CoordinatorConfig) -> None:
    """Errors: GroupIdNotFoundError, as for consumer-protocol members a classic group does not exist."""
    fault = None
    if config.group_consumer_migration_policy not in UPGRADES:
        fault = "group.consumer.migration.policy does not allow an upgrade"
    elif not group.reads_topics:
        fault = f"its protocol type is {group.protocol_type!r}, not 'consumer'"
    elif group.member_count > config.group_consumer_max_size:
        fault = f"its {group.member_count} members exceed group.consumer.max.size"
    if fault is not None:
        raise _cannot_change(group, fault)


def upgrade(draft: ConsumerDraft, group: ClassicGroup, topics: TopicIndex) -> None:
    """Write the classic group into the empty group of `draft`. Errors: GroupIdNotFoundError."""
    new = draft.group
    epoch = group.generation
    members = _upgraded_members(group, topics)
    for member in members:
        draft.write(new.member_metadata_record(member.member_id, member.metadata))
    draft.write(new.group_metadata_record(epoch, topics.hash_of(draft.group.all_topics())))
    for member in members:
        draft.write(new.target_record(member.member_id, member.assigned))
    draft.write(new.target_epoch_record(epoch))
    for member in members:
        draft.write(new.current_record(member.member_id, member))


def _upgraded_members(group: ClassicGroup, topics: TopicIndex) -> list[Member]:
    """Members with their partitions: those of the assignment and those that the member owned when it joined.
    A cooperative member keeps reading the latter during a rebalance that cleared its assignment; partitions
    it has revoked since are missing from its next JoinGroup. If two members claim a partition, the assigned
    one keeps it, else the first."""
    metadata = {each.member_id: _read(group, each) for each in group.members.values()}
    given: set[tuple[bytes, int]] = set()
    assigned: dict[str, set[tuple[bytes, int]]] = {member_id: set() for member_id in metadata}
    claims = [(member_id, it.assigned) for member_id, it in metadata.items()]
    claims += [(member_id, it.owned) for member_id, it in metadata.items()]
    for member_id, claimed in claims:
        mine = set(each_partition(partitions_by_id(claimed, topics))) - given
        assigned[member_id] |= mine
        given |= mine
    epoch = group.generation
    return [
        Member(member_id, it.metadata, epoch, epoch, assigned=_grouped(assigned[member_id]))
        for member_id, it in metadata.items()
    ]


class _Read(NamedTuple):
    """The decoded subscription and assignment of a classic member."""

    metadata: ConsumerGroupMemberMetadataValue
    assigned: tuple[TopicPartition, ...]
    owned: tuple[TopicPartition, ...]


def _read(group: ClassicGroup, member: ClassicMember) -> _Read:
    try:
        subscription = decode_subscription(member.metadata(group.protocol or member.protocols[0].name))
        assignment = decode_assignment(member.assignment)
    except InvalidRequestError as error:
        raise _cannot_change(
            group, f"the subscription of member {member.member_id!r} cannot be decoded: {error}"
        ) from error
    if assignment.user_data:
        raise _cannot_change(group, "its assignor stores user data in the assignment, which would be lost")
    return _Read(_upgraded_metadata(member, subscription), assignment.partitions, subscription.owned)


def _grouped(places: set[tuple[bytes, int]]) -> Partitions:
    found: dict[bytes, list[int]] = {}
    for topic, partition in sorted(places):
        found.setdefault(topic, []).append(partition)
    return {topic: tuple(each) for topic, each in found.items()}


def _upgraded_metadata(member: ClassicMember, subscription: Subscription) -> ConsumerGroupMemberMetadataValue:
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
    return GroupIdNotFoundError(
        f"group {group.group_id!r} cannot be upgraded to the consumer protocol: {why}"
    )


def partitions_by_id(partitions: Iterable[TopicPartition], topics: TopicIndex) -> Partitions:
    """Partitions of existing topics by topic id."""
    found: dict[bytes, set[int]] = {}
    for topic, partition in partitions:
        topic_id = topics.id_of(topic)
        if topic_id is not None:
            found.setdefault(topic_id, set()).add(partition)
    return {topic_id: tuple(sorted(each)) for topic_id, each in found.items()}


# --- downgrade ---------------------------------------------------------------------------------------------


def can_downgrade(group: ConsumerGroup, leaving: Sequence[str], config: CoordinatorConfig) -> bool:
    """Whether all remaining members use the classic protocol, and group.max.size and the migration policy
    allow a classic group."""
    staying = [member for member in group.members.values() if member.member_id not in leaving]
    return (
        0 < len(staying) <= config.group_max_size
        and all(member.classic is not None for member in staying)
        and config.group_consumer_migration_policy in DOWNGRADES
    )


def downgrade(group: ConsumerGroup, leaving: Sequence[str], topics: TopicIndex, wall_ms: int) -> list[Record]:
    """Records that make it a classic group without `leaving`, at the generation of its epoch. The group has
    no leader: after a load all members have to rejoin."""
    staying = [member for _, member in sorted(group.members.items()) if member.member_id not in leaving]
    protocol = common_protocol(staying)
    members = tuple(_downgraded(member, protocol, topics) for member in staying)
    value = GroupMetadataValue(PROTOCOL_TYPE, group.epoch, protocol, None, wall_ms, members)
    return [*group.tombstones(), Record(GroupMetadataKey(group.group_id), value)]


def common_protocol(members: Sequence[Member]) -> str:
    """The first assignor of the first member that all these classic members support."""
    names = [[name for name, _ in member.classic.supported_protocols] for member in members if member.classic]
    shared = set(names[0]).intersection(*names)
    return next((name for name in names[0] if name in shared), names[0][0])


def _downgraded(member: Member, protocol: str, topics: TopicIndex) -> GroupMember:
    assert member.classic is not None
    return GroupMember(
        member.member_id,
        member.instance_id,
        member.metadata.client_id,
        member.metadata.client_host,
        member.metadata.rebalance_timeout_ms,
        member.classic.session_timeout_ms,
        dict(member.classic.supported_protocols).get(protocol, b""),
        assignment_bytes(member, topics),
    )


def assignment_bytes(member: Member, topics: TopicIndex) -> bytes:
    """The member's assignment, in the version of its subscription."""
    version = min(_subscription_version(member), MAX_VERSION)
    named = ((topics.name_of(topic), partition) for topic, partition in each_partition(member.assigned))
    partitions = tuple(TopicPartition(name, partition) for name, partition in named if name is not None)
    return encode_assignment(Assignment(version, partitions))


def _subscription_version(member: Member) -> int:
    """The version of the first subscription that can be decoded. Custom assignors may send any bytes, and a
    downgrade may have no client to return an error to."""
    assert member.classic is not None
    for _, metadata in member.classic.supported_protocols:
        try:
            return decode_subscription(metadata).version
        except InvalidRequestError:
            continue
    return 0
