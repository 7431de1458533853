"""Records of the metadata log. The log's order of them is the truth of the cluster; the image is derived.

Each is a MessagePack array whose first element names its kind. Source: Kafka's metadata schemas, with
the same names; fields that headrace does not need are left out.
"""

from __future__ import annotations

import msgspec

from ..model import ListenerEndpoint
from .quotas import Entity


class FormatRecord(msgspec.Struct, array_like=True, frozen=True, tag="Format"):
    """The first record of a cluster: its id, made by the first controller at its first start."""

    cluster_id: str


class RegisterBrokerRecord(msgspec.Struct, array_like=True, frozen=True, tag="RegisterBroker"):
    """A storage node registered, or a live one amended its registration (then the epoch stays).

    The broker epoch of a new registration is the offset of its record, and it starts fenced. Both facts
    are written out, so that a snapshot, where offsets are gone, keeps them.
    """

    node_id: int
    incarnation_id: bytes  # 16 bytes, new at every start of the node process
    host: str
    port: int
    rack: str | None
    log_dir_ids: tuple[bytes, ...]  # directory.id of each log dir
    broker_epoch: int
    is_fenced: bool = True
    in_controlled_shutdown: bool = False
    previous_epoch: int = -1  # under which its node ended in order before, as it says; -1: it did not
    listeners: tuple[ListenerEndpoint, ...] = ()  # for Kafka's clients
    offline_replicas: tuple[tuple[bytes, int], ...] = ()  # of a snapshot; see BrokerRegistrationChangeRecord


class UnregisterBrokerRecord(msgspec.Struct, array_like=True, frozen=True, tag="UnregisterBroker"):
    """The node was removed for good."""

    node_id: int
    broker_epoch: int


class FenceBrokerRecord(msgspec.Struct, array_like=True, frozen=True, tag="FenceBroker"):
    """The node may not lead: it stopped sending heartbeats, or is shutting down."""

    node_id: int
    broker_epoch: int


class UnfenceBrokerRecord(msgspec.Struct, array_like=True, frozen=True, tag="UnfenceBroker"):
    """The node has caught up with the metadata log and may lead."""

    node_id: int
    broker_epoch: int


class BrokerRegistrationChangeRecord(msgspec.Struct, array_like=True, frozen=True, tag="BrokerChange"):
    """Facts of a registration changed while its process runs. None leaves a field."""

    node_id: int
    broker_epoch: int
    in_controlled_shutdown: bool | None = None  # it leads nothing new and joins no ISR
    # Replicas in log dirs that failed: topic ids and partitions, sorted. A new process tells anew.
    offline_replicas: tuple[tuple[bytes, int], ...] | None = None


class NextNodeIdRecord(msgspec.Struct, array_like=True, frozen=True, tag="NextNodeId"):
    """Generated node ids below this one are taken; they start above reserved.broker.max.id."""

    next_node_id: int


class TopicRecord(msgspec.Struct, array_like=True, frozen=True, tag="Topic"):
    """A topic was created under a new id."""

    name: str
    topic_id: bytes


class RemoveTopicRecord(msgspec.Struct, array_like=True, frozen=True, tag="RemoveTopic"):
    """The topic, its partitions and its configs are gone."""

    topic_id: bytes


class PartitionRecord(msgspec.Struct, array_like=True, frozen=True, tag="Partition"):
    """A partition came to be."""

    topic_id: bytes
    partition: int
    replicas: tuple[int, ...]  # the first is the preferred leader
    isr: tuple[int, ...]  # sorted
    leader: int  # -1 none
    leader_epoch: int
    partition_epoch: int
    adding_replicas: tuple[int, ...] = ()  # of `replicas`: those that a reassignment brings
    removing_replicas: tuple[int, ...] = ()  # of `replicas`: those that it takes away when it completes
    elr: tuple[int, ...] = ()  # sorted; eligible leader replicas, KIP-966
    last_known_elr: tuple[int, ...] = ()  # the last leader, while ISR and leader are gone
    leader_recovery_state: int = 0  # 0 recovered, 1 recovering from an election that may have lost records


class PartitionChangeRecord(msgspec.Struct, array_like=True, frozen=True, tag="PartitionChange"):
    """A partition's leader, ISR or replicas changed. None leaves a field; each record raises the partition
    epoch, each one that names a leader (even the same) also the leader epoch."""

    topic_id: bytes
    partition: int
    leader: int | None = None
    isr: tuple[int, ...] | None = None
    replicas: tuple[int, ...] | None = None
    adding_replicas: tuple[int, ...] | None = None
    removing_replicas: tuple[int, ...] | None = None
    elr: tuple[int, ...] | None = None
    last_known_elr: tuple[int, ...] | None = None
    leader_recovery_state: int | None = None


class ConfigRecord(msgspec.Struct, array_like=True, frozen=True, tag="Config"):
    """One config of one resource; a value of None removes it."""

    resource_type: int  # Kafka's: 2 topic, 4 broker
    resource_name: str
    name: str
    value: str | None


class ProducerIdsRecord(msgspec.Struct, array_like=True, frozen=True, tag="ProducerIds"):
    """A node got the block of producer ids that ends before `next_producer_id`."""

    node_id: int
    broker_epoch: int
    next_producer_id: int


class ClientQuotaRecord(msgspec.Struct, array_like=True, frozen=True, tag="ClientQuota"):
    """One quota of one entity; a value of None removes it."""

    entity: Entity
    key: str
    value: float | None


class FeatureLevelRecord(msgspec.Struct, array_like=True, frozen=True, tag="FeatureLevel"):
    """A feature has this level from now on."""

    name: str
    level: int


class NoOpRecord(msgspec.Struct, array_like=True, frozen=True, tag="NoOp"):
    """Changes nothing; moves the log's end, so that a reader sees that it is current."""


MetadataRecord = (
    FormatRecord
    | RegisterBrokerRecord
    | UnregisterBrokerRecord
    | FenceBrokerRecord
    | UnfenceBrokerRecord
    | BrokerRegistrationChangeRecord
    | NextNodeIdRecord
    | TopicRecord
    | RemoveTopicRecord
    | PartitionRecord
    | PartitionChangeRecord
    | ConfigRecord
    | ProducerIdsRecord
    | NoOpRecord
    | ClientQuotaRecord
    | FeatureLevelRecord
)
