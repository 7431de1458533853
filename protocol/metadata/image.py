"""The cluster at one offset of the metadata log: an immutable image, and the delta that led to it.

Invariant: the image is a pure function of the records up to `offset`; two readers that applied the same
records hold equal images.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..model import ListenerEndpoint
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
CLUSTER_DEFAULT = (BROKER_RESOURCE, "")  # the broker resource without a name holds for all nodes

RECOVERED = 0  # leader_recovery_state: the leader has every record that was acknowledged
RECOVERING = 1  # it was elected although it may miss some, and has not yet said that it leads on


@dataclass(frozen=True, slots=True)
class BrokerRegistration:
    """One storage node as the controller knows it."""

    node_id: int
    broker_epoch: int
    incarnation_id: bytes
    host: str
    port: int
    rack: str | None
    log_dir_ids: tuple[bytes, ...]
    is_fenced: bool
    in_controlled_shutdown: bool = False
    previous_epoch: int = -1  # a process before ended in order under it, and this one was never unfenced
    listeners: tuple[ListenerEndpoint, ...] = ()  # for Kafka's clients
    offline_replicas: tuple[tuple[bytes, int], ...] = ()  # in log dirs that failed: topic ids and partitions


@dataclass(frozen=True, slots=True)
class PartitionRegistration:
    """One partition: who holds it, who leads it, and the versions of both facts.

    The ISR is empty only while nobody leads; then a member of the ELR, which has every record that was
    acknowledged, may lead next, and if there is none, the last leader is remembered in `last_known_elr`.
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
    """Everything the metadata log says up to and including `offset` (-1: nothing yet)."""

    offset: int = -1
    cluster_id: str = ""
    next_node_id: int = 0  # 0: no id was generated yet
    brokers: Mapping[int, BrokerRegistration] = field(default_factory=dict)
    topics: Mapping[str, TopicImage] = field(default_factory=dict)
    topic_names: Mapping[bytes, str] = field(default_factory=dict)  # by topic id
    configs: Mapping[tuple[int, str], Mapping[str, str]] = field(default_factory=dict)
    next_producer_id: int = 0  # those below are taken
    client_quotas: Mapping[Entity, Mapping[str, float]] = field(default_factory=dict)
    features: Mapping[str, int] = field(default_factory=dict)  # levels that somebody has set


@dataclass(frozen=True, slots=True)
class MetadataDelta:
    """What a run of records changed, by key; look the new facts up in the new image."""

    brokers: frozenset[int] = frozenset()
    topics_created: tuple[bytes, ...] = ()  # topic ids, in log order
    topics_removed: tuple[TopicImage, ...] = ()  # as they were
    partitions: tuple[tuple[bytes, int], ...] = ()  # (topic id, partition) created or changed, each once
    configs: tuple[tuple[int, str], ...] = ()  # resources whose configs changed


def configured(image: MetadataImage, topic: str, name: str) -> str | None:
    """The text of a topic's config `name`: the topic's own, else the whole cluster's, else None (the built-in
    default holds)."""
    own = image.configs.get((TOPIC_RESOURCE, topic), {})
    return own.get(name, image.configs.get(CLUSTER_DEFAULT, {}).get(name))
