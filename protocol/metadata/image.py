"""The cluster at one offset of the metadata log: an immutable image, and the delta that led to it.

Invariant: the image is a pure function of the records up to `offset`; two readers that applied the same
records hold equal images.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

TOPIC_RESOURCE = 2
BROKER_RESOURCE = 4


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


@dataclass(frozen=True, slots=True)
class PartitionRegistration:
    """One partition: who holds it, who leads it, and the versions of both facts."""

    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int
    leader_epoch: int
    partition_epoch: int


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


@dataclass(frozen=True, slots=True)
class MetadataDelta:
    """What a run of records changed, by key; look the new facts up in the new image."""

    brokers: frozenset[int] = frozenset()
    topics_created: tuple[bytes, ...] = ()  # topic ids, in log order
    topics_removed: tuple[TopicImage, ...] = ()  # as they were
    partitions: tuple[tuple[bytes, int], ...] = ()  # (topic id, partition) created or changed, each once
    configs: tuple[tuple[int, str], ...] = ()  # resources whose configs changed
