"""Records of streams groups (KIP-1071) in `__consumer_offsets`. The value None is a tombstone.

The topology and its parts also travel in the messages of streams groups (messages/streams_groups.py). Source:
Kafka's coordinator schemas StreamsGroup*.json.
"""

from __future__ import annotations

from typing import NamedTuple


class KeyValue(NamedTuple):
    """A config of a topic, a client tag, or an assignment config."""

    key: str
    value: str


class Endpoint(NamedTuple):
    """`application.server` of an instance, for interactive queries."""

    host: str
    port: int  # unsigned 16 bits


# --- the topology -------------------------------------------------------------------------------------------


class TopicInfo(NamedTuple):
    """An internal topic. `partitions` 0: the coordinator computes the number; `replication_factor` 0 or
    -1: the cluster's default."""

    name: str
    partitions: int
    replication_factor: int
    topic_configs: tuple[KeyValue, ...] = ()


class CopartitionGroup(NamedTuple):
    """Source topics of a subtopology with equal numbers of partitions, as indices into its fields of the same
    names."""

    source_topics: tuple[int, ...] = ()
    source_topic_regex: tuple[int, ...] = ()
    repartition_source_topics: tuple[int, ...] = ()


class Subtopology(NamedTuple):
    """The topics of a subtopology; a task is a subtopology and a partition."""

    subtopology_id: str
    source_topics: tuple[str, ...] = ()
    source_topic_regex: tuple[str, ...] = ()
    state_changelog_topics: tuple[TopicInfo, ...] = ()
    repartition_sink_topics: tuple[str, ...] = ()
    repartition_source_topics: tuple[TopicInfo, ...] = ()
    copartition_groups: tuple[CopartitionGroup, ...] = ()


class TopologyNode(NamedTuple):
    """A node of the processing graph. `kind`: 1 source, 2 processor, 3 sink. `topics` of a source, or the one
    of a sink; without any, `chosen_by` is the pattern of the source, or the function that names the topic."""

    name: str
    kind: int
    topics: tuple[str, ...] = ()
    chosen_by: str = ""
    stores: tuple[str, ...] = ()
    successors: tuple[str, ...] = ()
    predecessors: tuple[str, ...] = ()


class SubtopologyGraph(NamedTuple):
    """The nodes of a subtopology, or of a global store, which has no tasks."""

    subtopology_id: str
    is_global: bool
    nodes: tuple[TopologyNode, ...]


class StreamsGroupTopologyDescriptionKey(NamedTuple):
    """The processing graph of a group, a record of headrace's own: Kafka leaves its place to a plug-in."""

    group: str


class TopologyDescription(NamedTuple):
    """The whole processing graph of an application (KIP-1331)."""

    subtopologies: tuple[SubtopologyGraph, ...]


class StreamsGroupTopologyKey(NamedTuple):
    """The topology of a group; key version 23."""

    group: str


class StreamsGroupTopologyValue(NamedTuple):
    """The topology with its epoch, which the application chooses."""

    epoch: int
    subtopologies: tuple[Subtopology, ...]


# --- group and members --------------------------------------------------------------------------------------


class StreamsGroupMetadataKey(NamedTuple):
    """A streams group; key version 17."""

    group: str


class StreamsGroupMetadataValue(NamedTuple):
    """`metadata_hash` of the required topics, 0 unknown: a change of it bumps the epoch.
    `validated_topology_epoch`: the topology whose topics exist with valid numbers of partitions, -1 none.
    `last_assignment_configs`: the configs of the last assignment."""

    epoch: int
    metadata_hash: int = 0
    validated_topology_epoch: int = -1
    last_assignment_configs: tuple[KeyValue, ...] | None = None


class StreamsGroupMemberMetadataKey(NamedTuple):
    """A member of a streams group; key version 19."""

    group: str
    member_id: str


class StreamsGroupMemberMetadataValue(NamedTuple):
    """The metadata that a member sent. `process_id`: the instance, which may have several members and one
    state directory."""

    instance_id: str | None
    rack_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    topology_epoch: int
    process_id: str
    user_endpoint: Endpoint | None = None
    client_tags: tuple[KeyValue, ...] = ()


# --- assignments --------------------------------------------------------------------------------------------


class TaskIds(NamedTuple):
    """Tasks of one subtopology, by partition. `epochs`: the member epoch at which each active task was
    assigned (KIP-1251); None in targets, in messages, and for standby and warm-up tasks."""

    subtopology_id: str
    partitions: tuple[int, ...]
    epochs: tuple[int, ...] | None = None


class StreamsGroupTargetAssignmentMetadataKey(NamedTuple):
    """The target assignment of a group; key version 20."""

    group: str


class StreamsGroupTargetAssignmentMetadataValue(NamedTuple):
    """The group epoch of the target assignment, and the wall time at which it was computed, 0 unknown."""

    assignment_epoch: int
    assignment_ms: int = 0


class StreamsGroupTargetAssignmentMemberKey(NamedTuple):
    """The target assignment of a member; key version 21."""

    group: str
    member_id: str


class StreamsGroupTargetAssignmentMemberValue(NamedTuple):
    """The target tasks of the member."""

    active: tuple[TaskIds, ...]
    standby: tuple[TaskIds, ...]
    warmup: tuple[TaskIds, ...]


class StreamsGroupCurrentMemberAssignmentKey(NamedTuple):
    """The current assignment of a member; key version 22."""

    group: str
    member_id: str


class StreamsGroupCurrentMemberAssignmentValue(NamedTuple):
    """The reconciliation state of the member. `state`: 1 stable, 2 unrevoked tasks, 3 unreleased tasks, 127
    unknown."""

    member_epoch: int
    previous_member_epoch: int
    state: int
    active: tuple[TaskIds, ...]
    standby: tuple[TaskIds, ...]
    warmup: tuple[TaskIds, ...]
    active_pending_revocation: tuple[TaskIds, ...]
    standby_pending_revocation: tuple[TaskIds, ...]
    warmup_pending_revocation: tuple[TaskIds, ...]


StreamsGroupKey = (
    StreamsGroupTopologyKey
    | StreamsGroupTopologyDescriptionKey
    | StreamsGroupMetadataKey
    | StreamsGroupMemberMetadataKey
    | StreamsGroupTargetAssignmentMetadataKey
    | StreamsGroupTargetAssignmentMemberKey
    | StreamsGroupCurrentMemberAssignmentKey
)
