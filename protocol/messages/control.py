"""Control plane: topics, configs, registration, heartbeats, and the metadata log for nodes.

Clients send admin requests to any storage node, which forwards them to the active controller.
"""

from __future__ import annotations

import msgspec

from ..metadata.records import MetadataRecord
from ..model import FeatureRange, ListenerEndpoint


class ItemError(msgspec.Struct, array_like=True, frozen=True):
    """The result for one named item of a batched request; code 0 is success."""

    name: str
    error_code: int = 0
    error_detail: str = ""


class ReplicaAssignment(msgspec.Struct, array_like=True, frozen=True):
    """The replicas of one partition, preferred leader first."""

    partition: int
    replicas: tuple[int, ...]


class NewTopicSpec(msgspec.Struct, array_like=True, frozen=True):
    """A topic to create. -1 partitions or replication factor: the cluster's default."""

    name: str
    num_partitions: int = -1
    replication_factor: int = -1
    assignments: tuple[ReplicaAssignment, ...] = ()
    configs: dict[str, str] = {}


class CreateTopicsRequest(msgspec.Struct, array_like=True, frozen=True):
    """Create topics; with `validate_only`, only check the request."""

    topics: tuple[NewTopicSpec, ...]
    timeout_ms: int = 30_000
    validate_only: bool = False
    user: str = ""  # the user, set by the forwarding node for quotas; empty: no quota applies
    client_id: str = ""
    is_lenient: bool = False  # an exceeded quota delays the client instead of failing the request


class CreatedTopic(msgspec.Struct, array_like=True, frozen=True):
    """The result for one topic."""

    name: str
    error_code: int = 0
    error_detail: str = ""
    topic_id: bytes = b""
    num_partitions: int = -1
    replication_factor: int = -1


class CreateTopicsResponse(msgspec.Struct, array_like=True, frozen=True):
    """Results in the order of the request. The topics are in the metadata at `metadata_offset`."""

    topics: tuple[CreatedTopic, ...]
    metadata_offset: int = -1
    throttle_ms: int = 0  # the client must wait this long, by its quota


class DeleteTopicsRequest(msgspec.Struct, array_like=True, frozen=True):
    """Delete topics by name."""

    names: tuple[str, ...]
    timeout_ms: int = 30_000
    user: str = ""  # the user, set by the forwarding node for quotas; empty: no quota applies
    client_id: str = ""
    is_lenient: bool = False  # an exceeded quota delays the client instead of failing the request


class DeleteTopicsResponse(msgspec.Struct, array_like=True, frozen=True):
    """Results in the order of the request."""

    results: tuple[ItemError, ...]
    metadata_offset: int = -1
    throttle_ms: int = 0  # the client must wait this long, by its quota


class PartitionGrowth(msgspec.Struct, array_like=True, frozen=True):
    """Increase a topic to `total_count` partitions; `assignments` are those of the new partitions."""

    name: str
    total_count: int
    assignments: tuple[ReplicaAssignment, ...] = ()


class CreatePartitionsRequest(msgspec.Struct, array_like=True, frozen=True):
    """Add partitions to topics; the count can only increase."""

    topics: tuple[PartitionGrowth, ...]
    timeout_ms: int = 30_000
    validate_only: bool = False
    user: str = ""  # the user, set by the forwarding node for quotas; empty: no quota applies
    client_id: str = ""
    is_lenient: bool = False  # an exceeded quota delays the client instead of failing the request


class CreatePartitionsResponse(msgspec.Struct, array_like=True, frozen=True):
    """Results in the order of the request."""

    results: tuple[ItemError, ...]
    metadata_offset: int = -1
    throttle_ms: int = 0  # the client must wait this long, by its quota


class ConfigResource(msgspec.Struct, array_like=True, frozen=True):
    """Kafka's resource types: 2 topic, 4 broker (name: the node id, or empty for the cluster-wide
    default)."""

    resource_type: int
    name: str


class ConfigSynonym(msgspec.Struct, array_like=True, frozen=True):
    """One level with a value of a config, under its name at that level; null hides a sensitive value."""

    name: str
    value: str | None
    source: int


class ConfigEntry(msgspec.Struct, array_like=True, frozen=True):
    """One effective config. `source`: 1 topic, 2 one broker, 3 all brokers, 4 start configuration of the
    responding server, 5 default, 6 logger. `is_default`: not set on this resource itself. Null hides a
    sensitive value. `synonyms`: all levels with a value, in order of precedence. `config_type` is Kafka's: 1
    boolean, 2 string, 5 long, 6 double, 7 list, 9 password."""

    name: str
    value: str | None
    source: int
    is_default: bool
    doc: str = ""
    is_read_only: bool = False
    is_sensitive: bool = False
    config_type: int = 0
    synonyms: tuple[ConfigSynonym, ...] = ()


class DescribeConfigsRequest(msgspec.Struct, array_like=True, frozen=True):
    """All configs of the named resources."""

    resources: tuple[ConfigResource, ...]
    include_synonyms: bool = False
    include_documentation: bool = False


class DescribedConfigs(msgspec.Struct, array_like=True, frozen=True):
    """The configs of one resource."""

    resource: ConfigResource
    error_code: int = 0
    error_detail: str = ""
    entries: tuple[ConfigEntry, ...] = ()


class DescribeConfigsResponse(msgspec.Struct, array_like=True, frozen=True):
    """Results in the order of the request, as of `metadata_offset`."""

    results: tuple[DescribedConfigs, ...]
    metadata_offset: int = -1


class ListConfigResourcesRequest(msgspec.Struct, array_like=True, frozen=True):
    """List resources that can have configs; empty `resource_types` means all types.

    `is_configured_only`: only resources with dynamic configs, including the cluster-wide defaults and
    unregistered nodes.
    """

    resource_types: tuple[int, ...] = ()
    is_configured_only: bool = False


class ListConfigResourcesResponse(msgspec.Struct, array_like=True, frozen=True):
    """Sorted by type and name."""

    error_code: int
    error_detail: str = ""
    resources: tuple[ConfigResource, ...] = ()


class ConfigChange(msgspec.Struct, array_like=True, frozen=True):
    """`operation`: 0 set, 1 delete, 2 append, 3 subtract (the last two for lists)."""

    name: str
    operation: int
    value: str = ""


class AlterConfigs(msgspec.Struct, array_like=True, frozen=True):
    """Changes of one resource, which are made together or not at all."""

    resource: ConfigResource
    changes: tuple[ConfigChange, ...]


class IncrementalAlterConfigsRequest(msgspec.Struct, array_like=True, frozen=True):
    """Change configs; each resource succeeds or fails on its own."""

    resources: tuple[AlterConfigs, ...]
    validate_only: bool = False


class IncrementalAlterConfigsResponse(msgspec.Struct, array_like=True, frozen=True):
    """Results in the order of the request; the item name is the resource's name."""

    results: tuple[ItemError, ...]
    metadata_offset: int = -1


class BrokerRegistrationRequest(msgspec.Struct, array_like=True, frozen=True):
    """Register a storage node. `node_id` -1 requests a generated id; an empty `cluster_id` adopts the
    controller's. `previous_broker_epoch`: the epoch of the node's last clean shutdown, -1 after an unclean
    one, when it may have lost records. `lost_replicas`: (topic, partition) of logs that were truncated or
    removed after a clean shutdown; by name, because the topic id is lost with the log. `listeners`: endpoints
    for Kafka clients. `features`: the levels of each feature that the node supports."""

    node_id: int
    cluster_id: str
    incarnation_id: bytes
    host: str
    port: int
    rack: str | None = None
    log_dir_ids: tuple[bytes, ...] = ()
    previous_broker_epoch: int = -1
    lost_replicas: tuple[tuple[str, int], ...] = ()
    listeners: tuple[ListenerEndpoint, ...] = ()
    features: tuple[FeatureRange, ...] = ()


class BrokerRegistrationResponse(msgspec.Struct, array_like=True, frozen=True):
    """`broker_epoch` is part of every heartbeat; a later registration makes it stale."""

    error_code: int
    error_detail: str = ""
    node_id: int = -1
    broker_epoch: int = -1
    cluster_id: str = ""
    heartbeat_interval_ms: int = 0
    session_timeout_ms: int = 0


class BrokerHeartbeatRequest(msgspec.Struct, array_like=True, frozen=True):
    """`metadata_offset`: the last applied metadata record. `offline_replicas`: (topic id, partition) on
    failed log dirs; `full_replicas`: those that serve reads but reject appends, because their disk is full.
    Cordoned log dirs get no new replicas."""

    node_id: int
    broker_epoch: int
    metadata_offset: int
    want_fence: bool = False
    want_shutdown: bool = False
    offline_log_dirs: tuple[bytes, ...] = ()
    offline_replicas: tuple[tuple[bytes, int], ...] = ()
    full_replicas: tuple[tuple[bytes, int], ...] = ()
    cordoned_log_dirs: tuple[bytes, ...] = ()


class BrokerHeartbeatResponse(msgspec.Struct, array_like=True, frozen=True):
    """`should_shutdown` answers `want_shutdown` once the node leads no partition and other nodes know it.
    `metadata_offset`: the last decided record when the controller received the heartbeat, -1 unknown; until
    it has applied this record, the node leads its partitions by the metadata before it."""

    error_code: int
    error_detail: str = ""
    is_fenced: bool = True
    should_shutdown: bool = False
    metadata_offset: int = -1


class UnregisterBrokerRequest(msgspec.Struct, array_like=True, frozen=True):
    """Remove a fenced node permanently."""

    node_id: int


class UnregisterBrokerResponse(msgspec.Struct, array_like=True, frozen=True):
    """The result of the removal; error code 0 is success."""

    error_code: int
    error_detail: str = ""


class DrainNodeRequest(msgspec.Struct, array_like=True, frozen=True):
    """Move leaderships and ISR memberships off a running node; `is_drained` false ends the drain."""

    node_id: int
    is_drained: bool = True


class DrainNodeResponse(msgspec.Struct, array_like=True, frozen=True):
    """`leaders_left`: partitions that the node still leads, because no other replica is eligible.
    `below_min_isr`: partitions of the node below min.insync.replicas, and the first of their topics."""

    error_code: int
    error_detail: str = ""
    leaders_left: int = 0
    metadata_offset: int = -1
    below_min_isr: int = 0
    topics_below_min_isr: tuple[str, ...] = ()


class AlterPartitionItem(msgspec.Struct, array_like=True, frozen=True):
    """The ISR that a leader proposes, as (node id, broker epoch); broker epoch -1 is not checked."""

    topic_id: bytes
    partition: int
    leader_epoch: int
    partition_epoch: int
    isr: tuple[tuple[int, int], ...]
    leader_recovery_state: int = 0


class AlterPartitionRequest(msgspec.Struct, array_like=True, frozen=True):
    """ISR changes by a leader. Each partition succeeds or fails on its own."""

    node_id: int
    broker_epoch: int
    partitions: tuple[AlterPartitionItem, ...]


class AlteredPartition(msgspec.Struct, array_like=True, frozen=True):
    """The current state of the partition, with or without an error; -1 and empty if it does not exist."""

    topic_id: bytes
    partition: int
    error_code: int = 0
    error_detail: str = ""
    leader: int = -1
    leader_epoch: int = -1
    isr: tuple[int, ...] = ()
    partition_epoch: int = -1
    leader_recovery_state: int = 0


class AlterPartitionResponse(msgspec.Struct, array_like=True, frozen=True):
    """Results in the order of the request; empty if the whole request failed."""

    error_code: int
    error_detail: str = ""
    partitions: tuple[AlteredPartition, ...] = ()


class TopicPartitions(msgspec.Struct, array_like=True, frozen=True):
    """Some partitions of one topic."""

    topic: str
    partitions: tuple[int, ...]


class PartitionError(msgspec.Struct, array_like=True, frozen=True):
    """The result for one partition of a batched request; code 0 is success."""

    topic: str
    partition: int
    error_code: int = 0
    error_detail: str = ""


class ElectLeadersRequest(msgspec.Struct, array_like=True, frozen=True):
    """Elect leaders. `election_type`: 0 preferred, 1 unclean. `topics` null: every partition. `node_id`: with
    an unclean election of given partitions, elect this replica and no other one; -1: any."""

    election_type: int
    topics: tuple[TopicPartitions, ...] | None
    timeout_ms: int = 60_000
    node_id: int = -1


class ElectLeadersResponse(msgspec.Struct, array_like=True, frozen=True):
    """Results in the order of the request; for every partition, those without a needed election are
    omitted."""

    error_code: int
    error_detail: str = ""
    results: tuple[PartitionError, ...] = ()
    metadata_offset: int = -1


class ReassignablePartition(msgspec.Struct, array_like=True, frozen=True):
    """The target replicas, preferred leader first; null cancels the reassignment."""

    partition: int
    replicas: tuple[int, ...] | None


class ReassignableTopic(msgspec.Struct, array_like=True, frozen=True):
    """Partitions of one topic to reassign."""

    name: str
    partitions: tuple[ReassignablePartition, ...]


class AlterPartitionReassignmentsRequest(msgspec.Struct, array_like=True, frozen=True):
    """Start, replace or cancel reassignments. Each partition succeeds or fails on its own."""

    topics: tuple[ReassignableTopic, ...]
    timeout_ms: int = 60_000
    allow_replication_factor_change: bool = True


class AlterPartitionReassignmentsResponse(msgspec.Struct, array_like=True, frozen=True):
    """Results in the order of the request."""

    error_code: int
    error_detail: str = ""
    results: tuple[PartitionError, ...] = ()
    metadata_offset: int = -1


class ListPartitionReassignmentsRequest(msgspec.Struct, array_like=True, frozen=True):
    """List reassignments in progress, of these partitions or (null) of all."""

    topics: tuple[TopicPartitions, ...] | None = None
    timeout_ms: int = 60_000


class OngoingReassignment(msgspec.Struct, array_like=True, frozen=True):
    """A reassignment in progress: `replicas` has all current replicas, the target ones first."""

    topic: str
    partition: int
    replicas: tuple[int, ...]
    adding_replicas: tuple[int, ...]
    removing_replicas: tuple[int, ...]
    isr: tuple[int, ...]


class ListPartitionReassignmentsResponse(msgspec.Struct, array_like=True, frozen=True):
    """Sorted by topic and partition; partitions without a reassignment are omitted."""

    error_code: int
    error_detail: str = ""
    ongoing: tuple[OngoingReassignment, ...] = ()


class FetchMetadataRequest(msgspec.Struct, array_like=True, frozen=True):
    """Long poll for metadata records after `offset` (the last applied one, -1 for none)."""

    node_id: int
    offset: int
    max_wait_ms: int


class FetchMetadataResponse(msgspec.Struct, array_like=True, frozen=True):
    """Records from `base_offset` on, in log order. A snapshot replaces the whole image: its records are the
    image at `end_offset` - 1."""

    error_code: int
    error_detail: str = ""
    is_snapshot: bool = False
    base_offset: int = -1
    end_offset: int = -1
    records: tuple[MetadataRecord, ...] = ()
