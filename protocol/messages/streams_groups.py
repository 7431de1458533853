"""Streams groups (KIP-1071): heartbeats of members and their descriptions.

The parts of a topology and the tasks are those of the records (records/streams_group_records.py). Source:
Kafka's message schemas.
"""

from __future__ import annotations

from enum import Enum

import msgspec

from ..records.streams_group_records import (
    Endpoint,
    KeyValue,
    StreamsGroupTopologyValue,
    TaskIds,
    TopicInfo,
    TopologyDescription,
)


class StatusCode(Enum):
    """Conditions of a group that a heartbeat response reports."""

    STALE_TOPOLOGY = 0
    MISSING_SOURCE_TOPICS = 1
    INCORRECTLY_PARTITIONED_TOPICS = 2
    MISSING_INTERNAL_TOPICS = 3
    SHUTDOWN_APPLICATION = 4
    ASSIGNMENT_DELAYED = 5


class TaskOffset(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """The sum of the changelog offsets of a task."""

    subtopology_id: str
    partition: int
    offset: int


class StreamsGroupHeartbeatRequest(msgspec.Struct, array_like=True, frozen=True):
    """Join (epoch 0, with the topology), heartbeat, or leave (-1). None: unchanged.

    The member generates its own id. `active`, `standby`, `warmup`: its current tasks, all or none of them.
    `endpoint_information_epoch`: that of the last endpoint information that the member has.
    `topology_description`: the whole processing graph, which a joining member may send (KIP-1331). `client`:
    principal and host of the client, whose rights to create internal topics, and to describe topics that an
    expression matches, the coordinator checks; set by the node that authorizes the request.
    """

    group_id: str
    member_id: str
    member_epoch: int
    endpoint_information_epoch: int = -1
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    topology: StreamsGroupTopologyValue | None = None
    active: tuple[TaskIds, ...] | None = None
    standby: tuple[TaskIds, ...] | None = None
    warmup: tuple[TaskIds, ...] | None = None
    process_id: str | None = None
    user_endpoint: Endpoint | None = None
    client_tags: tuple[KeyValue, ...] | None = None
    task_offsets: tuple[TaskOffset, ...] | None = None
    task_end_offsets: tuple[TaskOffset, ...] | None = None
    shutdown_application: bool = False
    client_id: str = ""
    client_host: str = ""
    topology_description: TopologyDescription | None = None
    client: tuple[str, str] | None = None


class Status(msgspec.Struct, array_like=True, frozen=True):
    """A condition of the group; `status_code` is a StatusCode."""

    status_code: int
    status_detail: str


class TopicPartitions(msgspec.Struct, array_like=True, frozen=True):
    """Partitions of one topic, sorted."""

    topic: str
    partitions: tuple[int, ...]


class EndpointToPartitions(msgspec.Struct, array_like=True, frozen=True):
    """The source partitions of the active and of the standby tasks of one member with an endpoint."""

    user_endpoint: Endpoint
    active_partitions: tuple[TopicPartitions, ...]
    standby_partitions: tuple[TopicPartitions, ...]


class StreamsGroupHeartbeatResponse(msgspec.Struct, array_like=True, frozen=True):
    """`active`, `standby`, `warmup` None: unchanged. `partitions_by_user_endpoint` None: unchanged."""

    error_code: int
    member_id: str = ""
    member_epoch: int = 0
    heartbeat_interval_ms: int = 0
    acceptable_recovery_lag: int = 0
    task_offset_interval_ms: int = 0
    status: tuple[Status, ...] = ()
    active: tuple[TaskIds, ...] | None = None
    standby: tuple[TaskIds, ...] | None = None
    warmup: tuple[TaskIds, ...] | None = None
    endpoint_information_epoch: int = 0
    partitions_by_user_endpoint: tuple[EndpointToPartitions, ...] | None = None
    error_detail: str = ""


class StreamsGroupDescribeRequest(msgspec.Struct, array_like=True, frozen=True):
    """Describe streams groups; with the processing graphs that their members sent, if that is asked for."""

    group_ids: tuple[str, ...]
    include_topology_description: bool = False


class DescribedSubtopology(msgspec.Struct, array_like=True, frozen=True):
    """A subtopology; the internal topics have their computed numbers of partitions."""

    subtopology_id: str
    source_topics: tuple[str, ...]
    repartition_sink_topics: tuple[str, ...]
    state_changelog_topics: tuple[TopicInfo, ...]
    repartition_source_topics: tuple[TopicInfo, ...]


class DescribedTopology(msgspec.Struct, array_like=True, frozen=True):
    """`subtopologies` None: source topics are missing or incorrectly partitioned."""

    epoch: int
    subtopologies: tuple[DescribedSubtopology, ...] | None


class TaskAssignment(msgspec.Struct, array_like=True, frozen=True):
    """The tasks of one member."""

    active: tuple[TaskIds, ...] = ()
    standby: tuple[TaskIds, ...] = ()
    warmup: tuple[TaskIds, ...] = ()


class StreamsGroupMember(msgspec.Struct, array_like=True, frozen=True):
    """A member with its current and its target tasks."""

    member_id: str
    member_epoch: int
    instance_id: str | None
    rack_id: str | None
    client_id: str
    client_host: str
    topology_epoch: int
    process_id: str
    user_endpoint: Endpoint | None
    client_tags: tuple[KeyValue, ...]
    assignment: TaskAssignment
    target_assignment: TaskAssignment


class DescribedStreamsGroup(msgspec.Struct, array_like=True, frozen=True):
    """`group_state`: Empty, NotReady, Assigning, Reconciling, Stable; empty if the group does not exist."""

    error_code: int
    group_id: str
    group_state: str = ""
    group_epoch: int = 0
    assignment_epoch: int = 0
    topology: DescribedTopology | None = None
    members: tuple[StreamsGroupMember, ...] = ()
    error_detail: str = ""
    topology_description: TopologyDescription | None = None


class StreamsGroupDescribeResponse(msgspec.Struct, array_like=True, frozen=True):
    """Results in the order of the groups."""

    groups: tuple[DescribedStreamsGroup, ...]
