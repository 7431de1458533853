"""Control plane: topics, configs, registration, heartbeats, and the metadata log for its readers.

Clients send the admin requests to any storage node, which forwards them to the controller.
"""

from __future__ import annotations

import msgspec

from ..metadata.records import MetadataRecord


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


class DeleteTopicsRequest(msgspec.Struct, array_like=True, frozen=True):
    """By name."""

    names: tuple[str, ...]
    timeout_ms: int = 30_000


class DeleteTopicsResponse(msgspec.Struct, array_like=True, frozen=True):
    """Answers in the order of the request."""

    results: tuple[ItemError, ...]
    metadata_offset: int = -1


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


class CreatePartitionsResponse(msgspec.Struct, array_like=True, frozen=True):
    """Answers in the order of the request."""

    results: tuple[ItemError, ...]
    metadata_offset: int = -1


class ConfigResource(msgspec.Struct, array_like=True, frozen=True):
    """Kafka's resource types: 2 topic, 4 broker (name: the node id, or empty for the cluster default)."""

    resource_type: int
    name: str


class ConfigEntry(msgspec.Struct, array_like=True, frozen=True):
    """One effective config. `source`: 1 topic, 2 broker, 3 cluster default, 5 built-in default."""

    name: str
    value: str
    source: int
    is_default: bool
    doc: str = ""


class DescribeConfigsRequest(msgspec.Struct, array_like=True, frozen=True):
    """All configs of the named resources."""

    resources: tuple[ConfigResource, ...]


class DescribedConfigs(msgspec.Struct, array_like=True, frozen=True):
    """The configs of one resource."""

    resource: ConfigResource
    error_code: int = 0
    error_detail: str = ""
    entries: tuple[ConfigEntry, ...] = ()


class DescribeConfigsResponse(msgspec.Struct, array_like=True, frozen=True):
    """Answers in the order of the request."""

    results: tuple[DescribedConfigs, ...]


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
    the controller's."""

    node_id: int
    cluster_id: str
    incarnation_id: bytes
    host: str
    port: int
    rack: str | None = None
    log_dir_ids: tuple[bytes, ...] = ()


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
    """`metadata_offset` is the last metadata record the node has applied."""

    node_id: int
    broker_epoch: int
    metadata_offset: int
    want_fence: bool = False
    want_shutdown: bool = False


class BrokerHeartbeatResponse(msgspec.Struct, array_like=True, frozen=True):
    """`should_shutdown` answers `want_shutdown` once nothing depends on the node."""

    error_code: int
    error_detail: str = ""
    is_fenced: bool = True
    should_shutdown: bool = False


class UnregisterBrokerRequest(msgspec.Struct, array_like=True, frozen=True):
    """Remove a fenced node for good."""

    node_id: int


class UnregisterBrokerResponse(msgspec.Struct, array_like=True, frozen=True):
    """Done, or why not."""

    error_code: int
    error_detail: str = ""


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
