"""Moves of replicas between the log dirs of each node. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .model import DirMove

if TYPE_CHECKING:
    from ...protocol.model import TopicPartition
    from .model import Limits, LogDirFacts, NodeFacts, Snapshot

MAX_STEPS = 1000  # Bound: moves of one node


def plan_dirs(snapshot: Snapshot, limits: Limits) -> tuple[DirMove, ...]:
    """Even out how full the log dirs of each node are, the largest difference first."""
    movable = {each.place for each in snapshot.partitions if each.is_movable}
    moves: list[DirMove] = []
    for node in sorted(snapshot.nodes, key=lambda node: node.node_id):
        is_ours = not limits.nodes or node.node_id in limits.nodes
        if is_ours and node.is_active and node.node_id not in limits.excluded | limits.evacuated:
            moves += _of_node(node, limits, movable)
    return tuple(moves)


def _of_node(node: NodeFacts, limits: Limits, movable: set[TopicPartition]) -> list[DirMove]:
    dirs = [each for each in node.log_dirs if each.total_bytes > 0]
    if len(dirs) < 2:
        return []
    sizes = {each.path: dict(each.replicas) for each in dirs}
    used = {path: sum(replicas.values()) for path, replicas in sizes.items()}
    free = {each.path: each.usable_bytes - each.total_bytes // 20 for each in dirs}
    mean = sum(used.values()) / sum(each.total_bytes for each in dirs)
    moves: list[DirMove] = []

    def ratio(each: LogDirFacts) -> float:
        return used[each.path] / each.total_bytes

    for _ in range(MAX_STEPS):
        source = max(dirs, key=lambda each: (ratio(each), each.path))
        target = min(
            (each for each in dirs if not each.is_cordoned),
            key=lambda each: (ratio(each), each.path),
            default=source,
        )
        if ratio(source) <= mean * (1 + limits.tolerance) or source is target:
            break
        excess = (ratio(source) - mean) * source.total_bytes
        wanted = min(excess, (mean - ratio(target)) * target.total_bytes)
        moved = {move.place for move in moves}
        fit = [
            (abs(size - wanted), place)
            for place, size in sizes[source.path].items()
            if 0 < size < 2 * wanted
            and size <= free[target.path]
            and place in movable
            and place not in moved
            and (limits.topics is None or place.topic in limits.topics)
        ]
        if not fit or (limits.max_moves is not None and len(moves) >= limits.max_moves):
            break
        _, place = min(fit)
        size = sizes[source.path].pop(place)
        sizes[target.path][place] = size
        used[source.path] -= size
        used[target.path] += size
        free[target.path] -= size
        moves.append(DirMove(place, node.node_id, source.path, target.path, size))
    return moves
