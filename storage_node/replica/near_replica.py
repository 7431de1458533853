"""Which replica a client should fetch from: one in its own rack, if one is in sync there. Pure.

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
    """The follower in `rack` that is furthest along, or -1: the leader is in that rack itself, or no
    follower there is in sync, up, and holds the log around `offset`."""
    in_sync = partition.in_sync
    leader = brokers.get(partition.node_id)
    if in_sync is None or leader is None or leader.rack == rack:
        return NO_NODE
    furthest = -1
    found: int = NO_NODE
    for node_id, progress in sorted(in_sync.followers.items()):
        broker = brokers.get(node_id)
        if (
            broker is not None
            and broker.rack == rack
            and not broker.is_fenced
            and not broker.in_controlled_shutdown
            and node_id in in_sync.committed  # one that lags would hold the client back
            and progress.log_start_offset <= offset <= progress.end_offset
            and progress.end_offset > furthest
        ):
            furthest, found = progress.end_offset, node_id
    return found
