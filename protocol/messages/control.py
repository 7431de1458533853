"""Control plane: topics, configs, registration, heartbeats, and the metadata log for its readers.

Clients send the admin requests to any storage node, which forwards them to the controller.
"""

from __future__ import annotations

import msgspec

from ..metadata.records import MetadataRecord
from ..model import ListenerEndpoint


class ItemError(msgspec.Struct, array_like=True, frozen=True):
    """The outcome for one named item of a plural request; code 0 is success."""

    name: str
    error_code: int = 0
    error_detail: str = ""


class ReplicaAssignment(msgspec.Struct, array_like=True, frozen=True):
    """The replicas of one partition, preferred leader first."""

    partition: int
    replicas: tuple[int, ...]


class NewTopicSpec(msgspec.Struct, array_like=True, frozen=True):
    """-1 for partitions or replication factor takes the cluster's default."""

    name: str
    num_partitions: int = -1
    replication_factor: int = -1
    assignments: tuple[ReplicaAssignment, ...] = ()
    configs: dict[str, str] = {}


class CreateTopicsRequest(msgspec.Struct, array_like=True, frozen=True):
    """With `validate_only` nothing is created."""

    topics: tuple[NewTopicSpec, ...]
    timeout_ms: int = 30_000
    validate_only: bool = False
    user: str = ""  # who asks, as the node that passes it on knows; nobody's quota without a name
    client_id: str = ""
    is_lenient: bool = False  # above its quota it is made to wait, not refused


class CreatedTopic(msgspec.Struct, array_like=True, frozen=True):
    """The outcome for one topic."""

    name: str
    error_code: int = 0
    error_detail: str = ""
    topic_id: bytes = b""
    num_partitions: int = -1
    replication_factor: int = -1


class CreateTopicsResponse(msgspec.Struct, array_like=True, frozen=True):
    """Answers in the order of the request. `metadata_offset` contains the topics that were created."""

    topics: tuple[CreatedTopic, ...]
    metadata_offset: int = -1
    throttle_ms: int = 0  # for which who asked is to wait, by its quota


class DeleteTopicsRequest(msgspec.Struct, array_like=True, frozen=True):
    """By name."""

    names: tuple[str, ...]
    timeout_ms: int = 30_000
    user: str = ""  # who asks, as the node that passes it on knows; nobody's quota without a name
    client_id: str = ""
    is_lenient: bool = False  # above its quota it is made to wait, not refused


class DeleteTopicsResponse(msgspec.Struct, array_like=True, frozen=True):
    """Answers in the order of the request."""

    results: tuple[ItemError, ...]
    metadata_offset: int = -1
    throttle_ms: int = 0  # for which who asked is to wait, by its quota


class PartitionGrowth(msgspec.Struct, array_like=True, frozen=True):
    """Grow a topic to `total_count` partitions; `assignments` are for the new ones only."""

    name: str
    total_count: int
    assignments: tuple[ReplicaAssignment, ...] = ()


class CreatePartitionsRequest(msgspec.Struct, array_like=True, frozen=True):
    """Partitions only grow."""

    topics: tuple[PartitionGrowth, ...]
    timeout_ms: int = 30_000
    validate_only: bool = False
    user: str = ""  # who asks, as the node that passes it on knows; nobody's quota without a name
    client_id: str = ""
    is_lenient: bool = False  # above its quota it is made to wait, not refused


class CreatePartitionsResponse(msgspec.Struct, array_like=True, frozen=True):
    """Answers in the order of the request."""

    results: tuple[ItemError, ...]
    metadata_offset: int = -1
    throttle_ms: int = 0  # for which who asked is to wait, by its quota


class ConfigResource(msgspec.Struct, array_like=True, frozen=True):
    """Kafka's resource types: 2 topic, 4 broker (name: the node id, or empty for the cluster default)."""

    resource_type: int
    name: str


class ConfigSynonym(msgspec.Struct, array_like=True, frozen=True):
    """One level that says something of a config, under the name that it has there; null hides a sensitive
    value."""

    name: str
    value: str | None
    source: int


class ConfigEntry(msgspec.Struct, array_like=True, frozen=True):
    """One effective config. `source`: 1 topic, 2 one broker, 3 all brokers, 4 the file of the server that
    answers, 5 built-in default, 6 logger. `is_default`: not set at this very resource. Null hides a sensitive
    value. `synonyms`: every level that says something, the one that holds first. `config_type` is Kafka's: 1
    boolean, 2 text, 5 whole number, 6 number, 7 list, 9 password."""

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
    """Answers in the order of the request, as of `metadata_offset`."""

    results: tuple[DescribedConfigs, ...]
    metadata_offset: int = -1


class ListConfigResourcesRequest(msgspec.Struct, array_like=True, frozen=True):
    """The resources that can have configs; no types asks for all types.

    `is_configured_only`: only resources with dynamic configs of their own, the cluster-wide defaults and
    unregistered nodes included.
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
    """The changes of one resource; all of them or none."""

    resource: ConfigResource
    changes: tuple[ConfigChange, ...]


class IncrementalAlterConfigsRequest(msgspec.Struct, array_like=True, frozen=True):
    """Each resource succeeds or fails on its own."""

    resources: tuple[AlterConfigs, ...]
    validate_only: bool = False


class IncrementalAlterConfigsResponse(msgspec.Struct, array_like=True, frozen=True):
    """Answers in the order of the request; the item name is the resource's."""

    results: tuple[ItemError, ...]
    metadata_offset: int = -1


class BrokerRegistrationRequest(msgspec.Struct, array_like=True, frozen=True):
    """A storage node asks to join. `node_id` -1 asks for a generated one; an empty `cluster_id` adopts
    the controller's. `previous_broker_epoch` is the epoch under which the node ended in order, losing no
    record that it had; -1 says that it may have lost some. `lost_replicas` are the (topic, partition) whose
    logs lost something all the same, because they were cut or removed while the node was down: by name,
    because the id of the topic is lost with the log. Kafka's clients reach the node at its `listeners`."""

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


class BrokerRegistrationResponse(msgspec.Struct, array_like=True, frozen=True):
    """`broker_epoch` goes into every heartbeat; a later registration makes it stale."""

    error_code: int
    error_detail: str = ""
    node_id: int = -1
    broker_epoch: int = -1
    cluster_id: str = ""
    heartbeat_interval_ms: int = 0
    session_timeout_ms: int = 0


class BrokerHeartbeatRequest(msgspec.Struct, array_like=True, frozen=True):
    """`metadata_offset` is the last metadata record the node has applied. `offline_replicas` are the
    (topic id, partition) that the node holds but cannot serve, because their log dir failed, `full_replicas`
    those that it serves but cannot append to, because their disk is full. Cordoned dirs get no new
    replicas."""

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
    """`should_shutdown` answers `want_shutdown` once the node leads nothing and the others know it.
    `metadata_offset` is the last record that was decided when the node was heard, -1 unknown: a node that has
    it led until then what it leads by it."""

    error_code: int
    error_detail: str = ""
    is_fenced: bool = True
    should_shutdown: bool = False
    metadata_offset: int = -1


class UnregisterBrokerRequest(msgspec.Struct, array_like=True, frozen=True):
    """Remove a fenced node for good."""

    node_id: int


class UnregisterBrokerResponse(msgspec.Struct, array_like=True, frozen=True):
    """Done, or why not."""

    error_code: int
    error_detail: str = ""


class DrainNodeRequest(msgspec.Struct, array_like=True, frozen=True):
    """Move leadership and ISR membership off a node that goes on running; `is_drained` false takes it
    back."""

    node_id: int
    is_drained: bool = True


class DrainNodeResponse(msgspec.Struct, array_like=True, frozen=True):
    """`leaders_left`: partitions that the node still leads, because no other replica may lead them now.
    `below_min_isr`: partitions of the node whose ISR is now too small for acks=all, and their first
    topics."""

    error_code: int
    error_detail: str = ""
    leaders_left: int = 0
    metadata_offset: int = -1
    below_min_isr: int = 0
    topics_below_min_isr: tuple[str, ...] = ()


class AlterPartitionItem(msgspec.Struct, array_like=True, frozen=True):
    """The ISR that a leader proposes, each member as (node id, broker epoch); broker epoch -1 is not
    checked."""

    topic_id: bytes
    partition: int
    leader_epoch: int
    partition_epoch: int
    isr: tuple[tuple[int, int], ...]
    leader_recovery_state: int = 0


class AlterPartitionRequest(msgspec.Struct, array_like=True, frozen=True):
    """A leader's changes of ISRs. Each partition succeeds or fails on its own."""

    node_id: int
    broker_epoch: int
    partitions: tuple[AlterPartitionItem, ...]


class AlteredPartition(msgspec.Struct, array_like=True, frozen=True):
    """The partition as it is now, with or without an error; -1 and empty if there is no such partition."""

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
    """Answers in the order of the request; an error of the whole request leaves them out."""

    error_code: int
    error_detail: str = ""
    partitions: tuple[AlteredPartition, ...] = ()


class TopicPartitions(msgspec.Struct, array_like=True, frozen=True):
    """Some partitions of one topic."""

    topic: str
    partitions: tuple[int, ...]


class PartitionError(msgspec.Struct, array_like=True, frozen=True):
    """The outcome for one partition of a plural request; code 0 is success."""

    topic: str
    partition: int
    error_code: int = 0
    error_detail: str = ""


class ElectLeadersRequest(msgspec.Struct, array_like=True, frozen=True):
    """Elect now. `election_type`: 0 preferred, 1 unclean. Null for the topics asks for every partition."""

    election_type: int
    topics: tuple[TopicPartitions, ...] | None
    timeout_ms: int = 60_000


class ElectLeadersResponse(msgspec.Struct, array_like=True, frozen=True):
    """Answers in the order of the request; if every partition was asked for, those that needed no election
    are left out."""

    error_code: int
    error_detail: str = ""
    results: tuple[PartitionError, ...] = ()
    metadata_offset: int = -1


class ReassignablePartition(msgspec.Struct, array_like=True, frozen=True):
    """The replicas that the partition shall have, preferred leader first; null cancels what is under way."""

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
    """Answers in the order of the request."""

    error_code: int
    error_detail: str = ""
    results: tuple[PartitionError, ...] = ()
    metadata_offset: int = -1


class ListPartitionReassignmentsRequest(msgspec.Struct, array_like=True, frozen=True):
    """What is under way of these partitions, or (null) of all."""

    topics: tuple[TopicPartitions, ...] | None = None
    timeout_ms: int = 60_000


class OngoingReassignment(msgspec.Struct, array_like=True, frozen=True):
    """A partition on its way: `replicas` are all that hold it, the target first."""

    topic: str
    partition: int
    replicas: tuple[int, ...]
    adding_replicas: tuple[int, ...]
    removing_replicas: tuple[int, ...]
    isr: tuple[int, ...]


class ListPartitionReassignmentsResponse(msgspec.Struct, array_like=True, frozen=True):
    """Sorted by topic and partition; what is not under way is left out."""

    error_code: int
    error_detail: str = ""
    ongoing: tuple[OngoingReassignment, ...] = ()


class FetchMetadataRequest(msgspec.Struct, array_like=True, frozen=True):
    """Long poll for metadata records after `offset` (the last one applied, -1 for none)."""

    node_id: int
    offset: int
    max_wait_ms: int


class FetchMetadataResponse(msgspec.Struct, array_like=True, frozen=True):
    """Records `base_offset`.. in log order. A snapshot replaces everything known: its records make the
    image at `end_offset` - 1."""

    error_code: int
    error_detail: str = ""
    is_snapshot: bool = False
    base_offset: int = -1
    end_offset: int = -1
    records: tuple[MetadataRecord, ...] = ()
