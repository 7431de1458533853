"""The replica that a client should fetch from: an in-sync one in its own rack. Pure.

Source: Kafka RackAwareReplicaSelector.java, ReplicaManager.scala findPreferredReadReplica; KIP-392.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.model import NO_NODE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ...protocol.metadata.image import BrokerRegistration
    from .partition import Partition


def near_replica(
    partition: Partition, rack: str, offset: int, brokers: Mapping[int, BrokerRegistration]
) -> int:
    """The in-sync follower in `rack` with the largest end offset. -1 if the leader is in that rack, or no
    live in-sync follower there has `offset`."""
    in_sync = partition.in_sync
    leader = brokers.get(partition.node_id)
    if in_sync is None or leader is None or leader.rack == rack:
        return NO_NODE
    furthest = -1
    nearest: int = NO_NODE
    for node_id, progress in sorted(in_sync.followers.items()):
        broker = brokers.get(node_id)
        if (
            broker is not None
            and broker.rack == rack
            and not broker.is_fenced
            and not broker.in_controlled_shutdown
            and node_id in in_sync.committed  # a lagging one would delay the client
            and progress.log_start_offset <= offset <= progress.end_offset
            and progress.end_offset > furthest
        ):
            furthest, nearest = progress.end_offset, node_id
    return nearest
