"""Groups: coordinators, membership in both protocols, committed offsets, and admin requests.

Source: Kafka's message schemas. Requests are batched where Kafka's are.
"""

from __future__ import annotations

import msgspec

GROUP_KEY = 0  # FindCoordinator key types
TRANSACTION_KEY = 1


class FindCoordinatorRequest(msgspec.Struct, array_like=True, frozen=True):
    """Find the coordinators of groups (key type 0) or transactional ids (1). Creates the internal topic if it
    does not exist."""

    key_type: int
    keys: tuple[str, ...]


class Coordinator(msgspec.Struct, array_like=True, frozen=True):
    """The coordinator of one key; with an error code there is none at present."""

    error_code: int
    key: str
    node_id: int = -1
    host: str = ""
    port: int = -1
    error_detail: str = ""


class FindCoordinatorResponse(msgspec.Struct, array_like=True, frozen=True):
    """Results in the order of the keys."""

    coordinators: tuple[Coordinator, ...]


# --- the classic protocol ---------------------------------------------------------------------------------


class GroupProtocol(msgspec.Struct, array_like=True, frozen=True):
    """An assignor that a member supports, with its data (consumers: a Subscription)."""

    name: str
    metadata: bytes


class JoinGroupRequest(msgspec.Struct, array_like=True, frozen=True):
    """Join or rejoin. Without a member id, a dynamic member gets one with MEMBER_ID_REQUIRED. The response is
    sent when all members have joined or the rebalance timeout has passed."""

    group_id: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    member_id: str
    protocol_type: str
    protocols: tuple[GroupProtocol, ...]
    group_instance_id: str | None = None
    reason: str = ""
    client_id: str = ""
    client_host: str = ""
    requires_member_id: bool = True  # False: client versions before KIP-394


class JoinedMember(msgspec.Struct, array_like=True, frozen=True):
    """A member in the leader's JoinGroup response."""

    member_id: str
    group_instance_id: str | None
    metadata: bytes


class JoinGroupResponse(msgspec.Struct, array_like=True, frozen=True):
    """The new generation. The leader gets all members and assigns, unless `skip_assignment` (KIP-814)."""

    error_code: int
    generation_id: int = -1
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader: str = ""
    member_id: str = ""
    members: tuple[JoinedMember, ...] = ()
    skip_assignment: bool = False
    error_detail: str = ""


class MemberAssignment(msgspec.Struct, array_like=True, frozen=True):
    """The assignment of one member (consumers: an Assignment)."""

    member_id: str
    assignment: bytes


class SyncGroupRequest(msgspec.Struct, array_like=True, frozen=True):
    """Request for the member's assignment; the leader's request has the assignments of all members."""

    group_id: str
    generation_id: int
    member_id: str
    group_instance_id: str | None = None
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignments: tuple[MemberAssignment, ...] = ()


class SyncGroupResponse(msgspec.Struct, array_like=True, frozen=True):
    """The member's assignment."""

    error_code: int
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignment: bytes = b""
    error_detail: str = ""


class HeartbeatRequest(msgspec.Struct, array_like=True, frozen=True):
    """Renews the member's session."""

    group_id: str
    generation_id: int
    member_id: str
    group_instance_id: str | None = None


class HeartbeatResponse(msgspec.Struct, array_like=True, frozen=True):
    """REBALANCE_IN_PROGRESS: the member must rejoin."""

    error_code: int
    error_detail: str = ""


class LeavingMember(msgspec.Struct, array_like=True, frozen=True):
    """A member by id, or a static one by instance id with an empty member id."""

    member_id: str
    group_instance_id: str | None = None
    reason: str = ""


class LeaveGroupRequest(msgspec.Struct, array_like=True, frozen=True):
    """Members leave, or an admin removes them."""

    group_id: str
    members: tuple[LeavingMember, ...]


class LeftMember(msgspec.Struct, array_like=True, frozen=True):
    """The result for one member."""

    member_id: str
    group_instance_id: str | None
    error_code: int


class LeaveGroupResponse(msgspec.Struct, array_like=True, frozen=True):
    """Results in the order of the members; empty if the group has an error."""

    error_code: int
    members: tuple[LeftMember, ...] = ()
    error_detail: str = ""


# --- the consumer protocol (KIP-848) ------------------------------------------------------------------------


class TopicIdPartitions(msgspec.Struct, array_like=True, frozen=True):
    """Partitions of one topic, sorted."""

    topic_id: bytes
    partitions: tuple[int, ...]


class ConsumerGroupHeartbeatRequest(msgspec.Struct, array_like=True, frozen=True):
    """Join (epoch 0), heartbeat, or leave (-1; -2 for a temporary leave of a static member). None: unchanged.

    The member generates its own id, a UUID as text. `owned`: its current partitions. `reader`: principal and
    host of the client, for which an expression matches only topics that it may describe; set by the node that
    authorizes the request.
    """

    group_id: str
    member_id: str
    member_epoch: int
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    subscribed_topic_names: tuple[str, ...] | None = None
    subscribed_topic_regex: str | None = None
    server_assignor: str | None = None
    owned: tuple[TopicIdPartitions, ...] | None = None
    client_id: str = ""
    client_host: str = ""
    reader: tuple[str, str] | None = None


class ConsumerGroupHeartbeatResponse(msgspec.Struct, array_like=True, frozen=True):
    """`assignment` None: unchanged."""

    error_code: int
    member_id: str | None = None
    member_epoch: int = 0
    heartbeat_interval_ms: int = 0
    assignment: tuple[TopicIdPartitions, ...] | None = None
    error_detail: str = ""


class ConsumerGroupDescribeRequest(msgspec.Struct, array_like=True, frozen=True):
    """Describe consumer-protocol groups."""

    group_ids: tuple[str, ...]


class NamedPartitions(msgspec.Struct, array_like=True, frozen=True):
    """Partitions of one topic, sorted."""

    topic_id: bytes
    topic: str
    partitions: tuple[int, ...]


class ConsumerGroupMember(msgspec.Struct, array_like=True, frozen=True):
    """A member with its current and its target assignment. `member_type`: 0 classic, 1 consumer."""

    member_id: str
    instance_id: str | None
    rack_id: str | None
    member_epoch: int
    client_id: str
    client_host: str
    subscribed_topic_names: tuple[str, ...]
    subscribed_topic_regex: str | None
    assignment: tuple[NamedPartitions, ...]
    target_assignment: tuple[NamedPartitions, ...]
    member_type: int = 1


class DescribedConsumerGroup(msgspec.Struct, array_like=True, frozen=True):
    """`group_state`: Empty, Assigning, Reconciling, Stable; empty if the group does not exist."""

    error_code: int
    group_id: str
    group_state: str = ""
    group_epoch: int = 0
    assignment_epoch: int = 0
    assignor_name: str = ""
    members: tuple[ConsumerGroupMember, ...] = ()
    error_detail: str = ""


class ConsumerGroupDescribeResponse(msgspec.Struct, array_like=True, frozen=True):
    """Results in the order of the groups."""

    groups: tuple[DescribedConsumerGroup, ...]


# --- committed offsets ------------------------------------------------------------------------------------


class CommittedOffset(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """The next offset that the group reads of a partition, and the epoch of the record before it (-1
    unknown)."""

    topic: str
    partition: int
    offset: int
    leader_epoch: int = -1
    metadata: str = ""
    topic_id: bytes = bytes(16)  # if not zero, the topic must have this id


class OffsetCommitRequest(msgspec.Struct, array_like=True, frozen=True):
    """Generation (classic) or member epoch (consumer protocol) -1 with an empty member id: a commit without
    membership, which only an empty group allows."""

    group_id: str
    generation_id_or_member_epoch: int
    member_id: str
    offsets: tuple[CommittedOffset, ...]
    group_instance_id: str | None = None
    retention_time_ms: int = -1


class PartitionResult(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """The result for one partition; error code 0 is success."""

    topic: str
    partition: int
    error_code: int


class OffsetCommitResponse(msgspec.Struct, array_like=True, frozen=True):
    """Results in the order of the request's offsets."""

    results: tuple[PartitionResult, ...]


class TopicNamePartitions(msgspec.Struct, array_like=True, frozen=True):
    """Partitions of one topic, by topic name."""

    topic: str
    partitions: tuple[int, ...]


class OffsetFetchGroup(msgspec.Struct, array_like=True, frozen=True):
    """`topics` None: all committed offsets. A member id is validated."""

    group_id: str
    topics: tuple[TopicNamePartitions, ...] | None = None
    member_id: str | None = None
    member_epoch: int = -1


class OffsetFetchRequest(msgspec.Struct, array_like=True, frozen=True):
    """`require_stable`: UNSTABLE_OFFSET_COMMIT for offsets that are pending in a transaction (KIP-447)."""

    groups: tuple[OffsetFetchGroup, ...]
    require_stable: bool = False


class FetchedOffset(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """Offset -1: no offset is committed."""

    topic: str
    partition: int
    error_code: int
    offset: int = -1
    leader_epoch: int = -1
    metadata: str = ""


class OffsetsOfGroup(msgspec.Struct, array_like=True, frozen=True):
    """The committed offsets of one group."""

    error_code: int
    group_id: str
    offsets: tuple[FetchedOffset, ...] = ()
    error_detail: str = ""


class OffsetFetchResponse(msgspec.Struct, array_like=True, frozen=True):
    """Results in the order of the groups."""

    groups: tuple[OffsetsOfGroup, ...]


class OffsetDeleteRequest(msgspec.Struct, array_like=True, frozen=True):
    """Delete committed offsets of topics that no member is subscribed to."""

    group_id: str
    topics: tuple[TopicNamePartitions, ...]


class OffsetDeleteResponse(msgspec.Struct, array_like=True, frozen=True):
    """Without results if the group has an error."""

    error_code: int
    results: tuple[PartitionResult, ...] = ()
    error_detail: str = ""


# --- admins -----------------------------------------------------------------------------------------------


class ListGroupsRequest(msgspec.Struct, array_like=True, frozen=True):
    """The groups that the receiving node coordinates; empty filters match all, case-insensitive.

    States: Unknown, PreparingRebalance, CompletingRebalance, Stable, Dead, Empty, Assigning, Reconciling.
    Types: classic, consumer.
    """

    states: tuple[str, ...] = ()
    types: tuple[str, ...] = ()


class ListedGroup(msgspec.Struct, array_like=True, frozen=True):
    """A group with its protocol type, state and group type."""

    group_id: str
    protocol_type: str
    group_state: str
    group_type: str


class ListGroupsResponse(msgspec.Struct, array_like=True, frozen=True):
    """COORDINATOR_LOAD_IN_PROGRESS while some groups of the node are not loaded."""

    error_code: int
    groups: tuple[ListedGroup, ...] = ()
    error_detail: str = ""


class DescribeGroupsRequest(msgspec.Struct, array_like=True, frozen=True):
    """Describe classic groups."""

    group_ids: tuple[str, ...]


class DescribedMember(msgspec.Struct, array_like=True, frozen=True):
    """A member of a classic group."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    metadata: bytes
    assignment: bytes


class DescribedGroup(msgspec.Struct, array_like=True, frozen=True):
    """GROUP_ID_NOT_FOUND with state Dead: the group does not exist, or uses the consumer protocol."""

    error_code: int
    group_id: str
    group_state: str = ""
    protocol_type: str = ""
    protocol: str = ""
    members: tuple[DescribedMember, ...] = ()
    error_detail: str = ""


class DescribeGroupsResponse(msgspec.Struct, array_like=True, frozen=True):
    """Results in the order of the groups."""

    groups: tuple[DescribedGroup, ...]


class DeleteGroupsRequest(msgspec.Struct, array_like=True, frozen=True):
    """Delete groups without members, with their offsets."""

    group_ids: tuple[str, ...]


class DeletedGroup(msgspec.Struct, array_like=True, frozen=True):
    """The result for one group."""

    group_id: str
    error_code: int
    error_detail: str = ""


class DeleteGroupsResponse(msgspec.Struct, array_like=True, frozen=True):
    """Results in the order of the groups."""

    results: tuple[DeletedGroup, ...]
