"""Records of `__consumer_offsets`: what group coordinators remember. The value None is a tombstone.

Source: Kafka's coordinator schemas (OffsetCommitKey.json, GroupMetadataValue.json, ConsumerGroup*.json).
"""

from __future__ import annotations

from typing import NamedTuple


class OffsetCommitKey(NamedTuple):
    """Key version 1."""

    group: str
    topic: str
    partition: int


class OffsetCommitValue(NamedTuple):
    """`expire_ms` -1: when the group's retention says so. `topic_id` of zeros: unknown."""

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
    """A group of the new protocol; key version 3."""

    group: str


class ConsumerGroupMetadataValue(NamedTuple):
    """`metadata_hash` of what the members read, 0 unknown: it moves the epoch when it changes."""

    epoch: int
    metadata_hash: int = 0


class ConsumerGroupMemberMetadataKey(NamedTuple):
    """Key version 5."""

    group: str
    member_id: str


class ClassicProtocol(NamedTuple):
    """An assignor that a member can use, and what it told it."""

    name: str
    metadata: bytes


class ClassicMemberMetadata(NamedTuple):
    """What a member that speaks the classic protocol adds."""

    session_timeout_ms: int
    supported_protocols: tuple[ClassicProtocol, ...]


class ConsumerGroupMemberMetadataValue(NamedTuple):
    """What a member told of itself."""

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
    """Key version 6."""

    group: str


class ConsumerGroupTargetAssignmentMetadataValue(NamedTuple):
    """The group epoch that the target assignment is for."""

    assignment_epoch: int


class ConsumerGroupTargetAssignmentMemberKey(NamedTuple):
    """Key version 7."""

    group: str
    member_id: str


class AssignedTopic(NamedTuple):
    """Partitions of one topic, sorted. `epochs`: since which member epoch the member has had each (KIP-1251);
    None in targets and in what older versions wrote."""

    topic_id: bytes
    partitions: tuple[int, ...]
    epochs: tuple[int, ...] | None = None


class ConsumerGroupTargetAssignmentMemberValue(NamedTuple):
    """What the member shall have."""

    topics: tuple[AssignedTopic, ...]


class ConsumerGroupCurrentMemberAssignmentKey(NamedTuple):
    """Key version 8."""

    group: str
    member_id: str


class ConsumerGroupCurrentMemberAssignmentValue(NamedTuple):
    """Where the member is on its way. `state`: 0 stable, 1 unrevoked partitions, 2 unreleased partitions,
    127 unknown."""

    member_epoch: int
    previous_member_epoch: int
    state: int
    assigned: tuple[AssignedTopic, ...]
    pending_revocation: tuple[AssignedTopic, ...]


class ConsumerGroupRegularExpressionKey(NamedTuple):
    """Key version 16."""

    group: str
    regular_expression: str


class ConsumerGroupRegularExpressionValue(NamedTuple):
    """The topics that the expression matched at `version` of the metadata."""

    topics: tuple[str, ...]
    version: int
    timestamp_ms: int
