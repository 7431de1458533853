"""JSON documents of version 3, with the names of Confluent's REST proxy. Pure."""

from __future__ import annotations

from typing import Generic, TypeVar

import msgspec

T = TypeVar("T")


class Metadata(msgspec.Struct, rename={"link": "self"}):
    """The address and the name of a resource."""

    link: str
    resource_name: str


class ListMetadata(msgspec.Struct, rename={"link": "self"}):
    """The address of a list; lists have one page."""

    link: str
    next: str | None = None


class Page(msgspec.Struct, Generic[T]):
    """A list with all resources."""

    kind: str
    metadata: ListMetadata
    data: list[T]


class Related(msgspec.Struct):
    """The address of something that belongs to the resource."""

    related: str


class Cluster(msgspec.Struct, kw_only=True):
    """The cluster, and where its parts are."""

    kind: str = "KafkaCluster"
    metadata: Metadata
    cluster_id: str
    controller: Related | None
    acls: Related
    brokers: Related
    broker_configs: Related
    consumer_groups: Related
    topics: Related
    partition_reassignments: Related


class Broker(msgspec.Struct, kw_only=True):
    """A storage node, and where its configs and replicas are."""

    kind: str = "KafkaBroker"
    metadata: Metadata
    cluster_id: str
    broker_id: int
    host: str | None
    port: int | None
    rack: str | None
    configs: Related
    partition_replicas: Related


class Topic(msgspec.Struct, kw_only=True):
    """A topic, and where its partitions and configs are."""

    kind: str = "KafkaTopic"
    metadata: Metadata
    cluster_id: str
    topic_name: str
    is_internal: bool
    replication_factor: int
    partitions_count: int
    partitions: Related
    configs: Related
    partition_reassignments: Related


class Partition(msgspec.Struct, kw_only=True):
    """A partition; `leader` is null while there is none."""

    kind: str = "KafkaPartition"
    metadata: Metadata
    cluster_id: str
    topic_name: str
    partition_id: int
    leader: Related | None
    replicas: Related
    reassignment: Related


class Replica(msgspec.Struct, kw_only=True):
    """The replica of a partition on a broker."""

    kind: str = "KafkaReplica"
    metadata: Metadata
    cluster_id: str
    topic_name: str
    partition_id: int
    broker_id: int
    is_leader: bool
    is_in_sync: bool
    broker: Related


class Reassignment(msgspec.Struct, kw_only=True):
    """A reassignment that goes on."""

    kind: str = "KafkaReassignment"
    metadata: Metadata
    cluster_id: str
    topic_name: str
    partition_id: int
    adding_replicas: list[int]
    removing_replicas: list[int]
    replicas: Related


class Synonym(msgspec.Struct):
    """A value of a config at one level."""

    name: str
    value: str | None
    source: str


class _Config(msgspec.Struct, kw_only=True):
    """A config value; `value` is null if it is sensitive."""

    kind: str
    metadata: Metadata
    cluster_id: str
    name: str
    value: str | None
    is_default: bool
    is_read_only: bool
    is_sensitive: bool
    source: str
    synonyms: list[Synonym]


class TopicConfig(_Config, kw_only=True):
    """A config value of a topic."""

    kind: str = "KafkaTopicConfig"
    topic_name: str


class BrokerConfig(_Config, kw_only=True):
    """A config value of a broker."""

    kind: str = "KafkaBrokerConfig"
    broker_id: int


class ClusterConfig(_Config, kw_only=True):
    """A dynamic default of all brokers."""

    kind: str = "KafkaClusterConfig"
    config_type: str = "BROKER"


class Acl(msgspec.Struct, kw_only=True):
    """A rule of authorization."""

    kind: str = "KafkaAcl"
    metadata: Metadata
    cluster_id: str
    resource_type: str
    resource_name: str
    pattern_type: str
    principal: str
    host: str
    operation: str
    permission: str


class DeletedAcls(msgspec.Struct):
    """The rules that were deleted."""

    data: list[Acl]


class ConsumerGroup(msgspec.Struct, kw_only=True):
    """A group, of any type; `type` is an addition to Confluent's fields."""

    kind: str = "KafkaConsumerGroup"
    metadata: Metadata
    cluster_id: str
    consumer_group_id: str
    is_simple: bool
    partition_assignor: str
    state: str
    type: str
    coordinator: Related | None
    consumers: Related
    lag_summary: Related


class Consumer(msgspec.Struct, kw_only=True):
    """A member of a group."""

    kind: str = "KafkaConsumer"
    metadata: Metadata
    cluster_id: str
    consumer_group_id: str
    consumer_id: str
    instance_id: str | None
    client_id: str
    assignments: Related


class Assignment(msgspec.Struct, kw_only=True):
    """A partition that is assigned to a member of a group."""

    kind: str = "KafkaConsumerAssignment"
    metadata: Metadata
    cluster_id: str
    consumer_group_id: str
    consumer_id: str
    topic_name: str
    partition_id: int
    partition: Related
    lag: Related


class Lag(msgspec.Struct, kw_only=True):
    """The lag of a group in one partition: `lag` counts records that a consumer would still receive, which
    are fewer than the offsets after compaction and transactions. The consumer is empty if the partition is
    assigned to none. `lag_seconds`, the age of the first of them, is an addition to Confluent's fields."""

    kind: str = "KafkaConsumerLag"
    metadata: Metadata
    cluster_id: str
    consumer_group_id: str
    topic_name: str
    partition_id: int
    consumer_id: str
    instance_id: str | None
    client_id: str
    current_offset: int
    log_end_offset: int
    lag: int
    lag_seconds: float | None


class LagSummary(msgspec.Struct, kw_only=True):
    """The largest and the total lag of a group."""

    kind: str = "KafkaConsumerGroupLagSummary"
    metadata: Metadata
    cluster_id: str
    consumer_group_id: str
    max_lag_consumer_id: str
    max_lag_instance_id: str | None
    max_lag_client_id: str
    max_lag_topic_name: str
    max_lag_partition_id: int
    max_lag: int
    total_lag: int
    max_lag_consumer: Related | None
    max_lag_partition: Related


# --- requests ------------------------------------------------------------------------------------------


class NewConfig(msgspec.Struct):
    """A config of a new topic."""

    name: str
    value: str | None = None


class CreateTopic(msgspec.Struct):
    """A topic to create; counts, or `replicas_assignments` with the replicas of each partition."""

    topic_name: str
    partitions_count: int | None = None
    replication_factor: int | None = None
    replicas_assignments: dict[str, list[int]] | list[dict[str, list[int]]] | None = None
    configs: list[NewConfig] = []
    validate_only: bool = False


class PartitionCount(msgspec.Struct):
    """The new number of partitions of a topic."""

    partitions_count: int


class ConfigValue(msgspec.Struct):
    """A config value to set."""

    value: str | None


class ConfigChange(msgspec.Struct):
    """A change of a config: SET, DELETE (its default applies again), or of a list APPEND, SUBTRACT."""

    name: str
    value: str | None = None
    operation: str | None = None


class ConfigChanges(msgspec.Struct):
    """Changes that are made together, or not at all."""

    data: list[ConfigChange]
    validate_only: bool = False


class NewAcl(msgspec.Struct):
    """A rule to create."""

    resource_type: str
    resource_name: str
    pattern_type: str
    principal: str
    host: str
    operation: str
    permission: str


class NewAcls(msgspec.Struct):
    """Rules to create."""

    data: list[NewAcl]


# --- records -------------------------------------------------------------------------------------------


class RecordHeader(msgspec.Struct, gc=False):
    """A header; the value in base64."""

    name: str
    value: str | None = None


class ProducedData(msgspec.Struct, omit_defaults=True, gc=False):
    """Type and size of a produced key or value."""

    type: str
    size: int


class ProducedRecord(msgspec.Struct, omit_defaults=True, gc=False):
    """The outcome of one record: 200 with its offset, or an error."""

    error_code: int
    cluster_id: str = ""
    topic_name: str = ""
    partition_id: int | None = None
    offset: int | None = None
    timestamp: str | None = None
    key: ProducedData | None = None
    value: ProducedData | None = None
    message: str = ""


class BatchSuccess(msgspec.Struct, kw_only=True, omit_defaults=True, gc=False):
    """A record of a batch that was produced."""

    id: str
    cluster_id: str
    topic_name: str
    partition_id: int
    offset: int
    timestamp: str | None = None
    key: ProducedData | None = None
    value: ProducedData | None = None


class BatchFailure(msgspec.Struct):
    """A record of a batch that was not produced."""

    id: str
    error_code: int
    message: str


class BatchOutcome(msgspec.Struct):
    """The outcome of each record of a batch."""

    successes: list[BatchSuccess]
    failures: list[BatchFailure]
