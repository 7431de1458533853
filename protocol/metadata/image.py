"""The cluster at one offset of the metadata log: an immutable image, and the delta from the image before it.

Invariant: the image is a pure function of the records up to `offset`; readers that applied the same records
have equal images.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..model import FeatureRange, ListenerEndpoint
    from ..security.acls import AclBinding
    from ..security.scram import ScramCredential, ScramMechanism
    from ..security.tokens import DelegationToken
    from .namespaces import Namespace
    from .quotas import Entity

TOPIC_RESOURCE = 2
BROKER_RESOURCE = 4
BROKER_LOGGER_RESOURCE = 8
CLIENT_METRICS_RESOURCE = 16
GROUP_RESOURCE = 32
RESOURCE_TYPES = (
    TOPIC_RESOURCE,
    BROKER_RESOURCE,
    BROKER_LOGGER_RESOURCE,
    CLIENT_METRICS_RESOURCE,
    GROUP_RESOURCE,
)
CLUSTER_DEFAULT = (BROKER_RESOURCE, "")  # the broker resource with an empty name: defaults of all nodes

RECOVERED = 0  # leader_recovery_state: the leader has every acknowledged record
RECOVERING = 1  # elected uncleanly, and the leader has not completed its recovery yet


@dataclass(frozen=True, slots=True)
class BrokerRegistration:
    """The registration of a storage node."""

    node_id: int
    broker_epoch: int
    incarnation_id: bytes
    host: str
    port: int
    rack: str | None
    log_dir_ids: tuple[bytes, ...]
    is_fenced: bool
    in_controlled_shutdown: bool = False
    previous_epoch: int = -1  # epoch of a clean shutdown before this registration, until the node is unfenced
    listeners: tuple[ListenerEndpoint, ...] = ()  # for Kafka clients
    offline_replicas: tuple[tuple[bytes, int], ...] = ()  # on failed log dirs: topic ids and partitions
    features: tuple[FeatureRange, ...] = ()  # levels that the node supports


@dataclass(frozen=True, slots=True)
class PartitionRegistration:
    """One partition: replicas, ISR, leader, and the epochs of leader and partition.

    The ISR is empty only while the partition has no leader. Then a member of the ELR, which has every
    acknowledged record, may become leader; without an ELR, `last_known_elr` has the last leader.
    """

    replicas: tuple[int, ...]  # the first is the preferred leader
    isr: tuple[int, ...]  # sorted
    leader: int
    leader_epoch: int
    partition_epoch: int
    adding_replicas: tuple[int, ...] = ()
    removing_replicas: tuple[int, ...] = ()
    elr: tuple[int, ...] = ()  # sorted, disjoint from the ISR
    last_known_elr: tuple[int, ...] = ()
    leader_recovery_state: int = RECOVERED


@dataclass(frozen=True, slots=True)
class TopicImage:
    """One topic; partitions are numbered 0..n-1 without gaps."""

    name: str
    topic_id: bytes
    partitions: tuple[PartitionRegistration, ...]


@dataclass(frozen=True, slots=True)
class MetadataImage:
    """The cluster metadata up to and including `offset` (-1: no record)."""

    offset: int = -1
    cluster_id: str = ""
    next_node_id: int = 0  # 0: no id was generated yet
    brokers: Mapping[int, BrokerRegistration] = field(default_factory=dict)
    topics: Mapping[str, TopicImage] = field(default_factory=dict)
    topic_names: Mapping[bytes, str] = field(default_factory=dict)  # by topic id
    configs: Mapping[tuple[int, str], Mapping[str, str]] = field(default_factory=dict)
    next_producer_id: int = 0  # lower ids are allocated
    client_quotas: Mapping[Entity, Mapping[str, float]] = field(default_factory=dict)
    features: Mapping[str, int] = field(default_factory=dict)  # levels that were set explicitly
    acls: Mapping[AclBinding, None] = field(default_factory=dict)  # a set
    # By user and mechanism. Not in the repr: it may be logged.
    scram_credentials: Mapping[tuple[str, ScramMechanism], ScramCredential] = field(
        default_factory=dict, repr=False
    )
    delegation_tokens: Mapping[str, DelegationToken] = field(default_factory=dict, repr=False)  # by id
    roles: Mapping[str, None] = field(default_factory=dict)  # a set of names
    role_members: Mapping[tuple[str, str], None] = field(default_factory=dict)  # a set of (role, principal)
    namespaces: Mapping[str, Namespace] = field(default_factory=dict)  # by prefix


@dataclass(frozen=True, slots=True)
class MetadataDelta:
    """The keys that a run of records changed; the new values are in the new image."""

    brokers: frozenset[int] = frozenset()
    topics_created: tuple[bytes, ...] = ()  # topic ids, in log order
    topics_removed: tuple[TopicImage, ...] = ()  # their last images
    # (topic id, partition) created or changed, without duplicates
    partitions: tuple[tuple[bytes, int], ...] = ()
    configs: tuple[tuple[int, str], ...] = ()  # resources whose configs changed
    acls: tuple[AclBinding, ...] = ()  # created or deleted, without duplicates
    role_members: tuple[tuple[str, str], ...] = ()  # became members or are members no more, as `acls`


def configured(image: MetadataImage, topic: str, name: str) -> str | None:
    """The value of a topic's config `name`: the topic's own, else the cluster-wide default, else None (the
    built-in default applies)."""
    own = image.configs.get((TOPIC_RESOURCE, topic), {})
    return own.get(name, image.configs.get(CLUSTER_DEFAULT, {}).get(name))
