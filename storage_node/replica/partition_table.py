"""The partitions of this node, and the metadata image that assigns them. Pure data and lookups.

Partitions are known by topic id, so a topic that was deleted and created again under its old name never meets
the old one's data (KAFKA-12257).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.errors import NotLeaderOrFollowerError, UnknownTopicIdError, UnknownTopicOrPartitionError
from ...protocol.metadata.image import MetadataImage
from ...protocol.model import NO_EPOCH, NO_NODE
from .image_lookup import registration_of
from .in_sync import NO_BROKER_EPOCH

if TYPE_CHECKING:
    from .partition import Partition, PartitionKey


class PartitionTable:
    """Handlers and replication look partitions up here; `ImageApplier` alone adds and removes them."""

    def __init__(self) -> None:
        self.node_id: int = NO_NODE
        self.broker_epoch = NO_BROKER_EPOCH  # of this process, once it is registered
        self.image = MetadataImage()
        self.is_caught_up = False  # the image has all records up to this process's registration
        self.partitions: dict[PartitionKey, Partition] = {}
        self.is_checkpointing = False  # checkpoints are being written on a thread: no log may be truncated

    def find(self, topic_id: bytes, index: int) -> Partition:
        """The local partition. Errors: UnknownTopicIdError, UnknownTopicOrPartitionError, or
        NotLeaderOrFollowerError when only other nodes have replicas of it."""
        partition = self.partitions.get((topic_id, index))
        if partition is not None:
            return partition
        name = self.image.topic_names.get(topic_id)
        if name is None:
            raise UnknownTopicIdError(f"no topic has the id {topic_id[:16].hex()}")
        if not 0 <= index < len(self.image.topics[name].partitions):
            raise UnknownTopicOrPartitionError(f"topic {name} has no partition {index}")
        raise NotLeaderOrFollowerError(f"node {self.node_id} has no replica of {name}-{index}")

    def leader_hint(self, topic_id: bytes, index: int) -> tuple[int, int]:
        """(leader, leader epoch) of a partition in the image; -1, -1 if it is not there."""
        registration = registration_of(self.image, topic_id, index)
        if registration is None:
            return NO_NODE, NO_EPOCH
        return registration.leader, registration.leader_epoch

    def is_alive(self, node_id: int) -> bool:
        """Whether the node is registered and not fenced."""
        broker = self.image.brokers.get(node_id)
        return broker is not None and not broker.is_fenced

    def is_eligible(self, node_id: int, broker_epoch: int) -> bool:
        """KIP-841, 903: whether the node may join an ISR: registered with this broker epoch, not fenced and
        not shutting down."""
        broker = self.image.brokers.get(node_id)
        return (
            broker is not None
            and broker.broker_epoch == broker_epoch
            and not broker.is_fenced
            and not broker.in_controlled_shutdown
        )
