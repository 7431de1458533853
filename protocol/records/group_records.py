"""Records of `__consumer_offsets`, the state of group coordinators. The value None is a tombstone.

Source: Kafka's coordinator schemas (OffsetCommitKey.json, GroupMetadataValue.json, ConsumerGroup*.json).
"""

from __future__ import annotations

from typing import NamedTuple


class OffsetCommitKey(NamedTuple):
    """A committed offset; key version 1."""

    group: str
    topic: str
    partition: int


class OffsetCommitValue(NamedTuple):
    """`expire_ms` -1: the group's retention applies. `topic_id` of zeros: unknown."""

    offset: int
    leader_epoch: int
    metadata: str
    commit_ms: int
    expire_ms: int = -1
    topic_id: bytes = bytes(16)


class GroupMetadataKey(NamedTuple):
    """A classic group; key version 2."""

    group: str


class GroupMember(NamedTuple):
    """A member of a classic group as of its last complete rebalance."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    subscription: bytes
    assignment: bytes


class GroupMetadataValue(NamedTuple):
    """The last complete generation of a classic group."""

    protocol_type: str
    generation: int
    protocol: str | None
    leader: str | None
    current_state_ms: int
    members: tuple[GroupMember, ...]


class ConsumerGroupMetadataKey(NamedTuple):
    """A consumer-protocol group; key version 3."""

    group: str


class ConsumerGroupMetadataValue(NamedTuple):
    """`metadata_hash` of the subscribed topics, 0 unknown: a change of it bumps the epoch."""

    epoch: int
    metadata_hash: int = 0


class ConsumerGroupMemberMetadataKey(NamedTuple):
    """A member of a consumer-protocol group; key version 5."""

    group: str
    member_id: str


class ClassicProtocol(NamedTuple):
    """An assignor that a member supports, with its data."""

    name: str
    metadata: bytes


class ClassicMemberMetadata(NamedTuple):
    """Additional metadata of a member that uses the classic protocol."""

    session_timeout_ms: int
    supported_protocols: tuple[ClassicProtocol, ...]


class ConsumerGroupMemberMetadataValue(NamedTuple):
    """The subscription and other metadata that a member sent."""

    instance_id: str | None
    rack_id: str | None
    client_id: str
    client_host: str
    subscribed_topic_names: tuple[str, ...]
    subscribed_topic_regex: str | None
    rebalance_timeout_ms: int
    server_assignor: str | None
    classic: ClassicMemberMetadata | None = None


class ConsumerGroupTargetAssignmentMetadataKey(NamedTuple):
    """The target assignment of a group; key version 6."""

    group: str


class ConsumerGroupTargetAssignmentMetadataValue(NamedTuple):
    """The group epoch of the target assignment, and the wall time at which it was computed, 0 unknown."""

    assignment_epoch: int
    assignment_ms: int = 0


class ConsumerGroupTargetAssignmentMemberKey(NamedTuple):
    """The target assignment of a member; key version 7."""

    group: str
    member_id: str


class AssignedTopic(NamedTuple):
    """Partitions of one topic, sorted. `epochs`: the member epoch at which each was assigned (KIP-1251); None
    in targets and in records of older versions."""

    topic_id: bytes
    partitions: tuple[int, ...]
    epochs: tuple[int, ...] | None = None


class ConsumerGroupTargetAssignmentMemberValue(NamedTuple):
    """The target partitions of the member."""

    topics: tuple[AssignedTopic, ...]


class ConsumerGroupCurrentMemberAssignmentKey(NamedTuple):
    """The current assignment of a member; key version 8."""

    group: str
    member_id: str


class ConsumerGroupCurrentMemberAssignmentValue(NamedTuple):
    """The reconciliation state of the member. `state`: 0 stable, 1 unrevoked partitions, 2 unreleased
    partitions, 127 unknown."""

    member_epoch: int
    previous_member_epoch: int
    state: int
    assigned: tuple[AssignedTopic, ...]
    pending_revocation: tuple[AssignedTopic, ...]


class ConsumerGroupRegularExpressionKey(NamedTuple):
    """A subscription expression of a group; key version 16."""

    group: str
    regular_expression: str


class ConsumerGroupRegularExpressionValue(NamedTuple):
    """The topics that matched the expression at metadata offset `version`."""

    topics: tuple[str, ...]
    version: int
    timestamp_ms: int
