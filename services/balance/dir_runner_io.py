"""Moves replicas between the log dirs of their nodes, a few at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...clients.admin.admin_types import TopicPartitionReplica
from ...runtime.waiting_io import let_pass

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ...clients.sync.admin_io import Admin
    from .model import DirMove
    from .requests import Pace


def move_dirs(
    admin: Admin, moves: Sequence[DirMove], pace: Pace, advance: Callable[[int], None]
) -> dict[str, str]:
    """Carry out the moves; returns errors by replica. An interrupt or error cancels those in progress."""
    waiting = list(moves)
    active: dict[TopicPartitionReplica, DirMove] = {}
    failed: dict[str, str] = {}
    try:
        while waiting or active:
            batch = [waiting.pop(0) for _ in range(min(pace.max_concurrent - len(active), len(waiting)))]
            begun = {TopicPartitionReplica(*move.place, move.node_id): move for move in batch}
            if begun:
                active |= begun
                results = admin.alter_replica_log_dirs({each: move.after for each, move in begun.items()})
                for each, error in results.errors.items():
                    del active[each]
                    failed[_name(each)] = str(error)
            for each in _ended(admin, active):
                advance(active.pop(each).size_bytes)
            if active:
                let_pass(pace.poll_s)
    finally:
        if active:
            admin.alter_replica_log_dirs({each: move.before for each, move in active.items()})
    return failed


def _ended(admin: Admin, active: dict[TopicPartitionReplica, DirMove]) -> list[TopicPartitionReplica]:
    """The replicas that are in their new dir."""
    if not active:
        return []
    nodes = sorted({each.node_id for each in active})
    found = admin.describe_log_dirs(nodes, partitions={move.place for move in active.values()})
    there = {
        TopicPartitionReplica(replica.topic, replica.partition, node_id): info.path
        for node_id in nodes
        if node_id not in found.errors
        for info in found[node_id]
        for replica in info.replicas
        if not replica.is_future
    }
    return [each for each, move in active.items() if there.get(each) == move.after]


def _name(replica: TopicPartitionReplica) -> str:
    return f"{replica.topic}-{replica.partition} on node {replica.node_id}"
