"""Waits for moves of replicas: between nodes, and between the log dirs of a node."""

from __future__ import annotations

import contextlib
import math
from typing import TYPE_CHECKING

from ...protocol.errors import HeadraceError
from ...runtime.waiting_io import until
from .output import note
from .progress import BYTES, progress_bar

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from ...clients.admin.admin_types import LogDirInfo, TopicPartitionReplica
    from ...clients.sync.admin_io import Admin
    from ...protocol.model import TopicPartition

POLL_S = 0.5


def await_reassignments(admin: Admin, places: Collection[TopicPartition]) -> None:
    """Return once none of the partitions is being reassigned. Errors: those of the client."""

    def are_done() -> bool:
        left = admin.list_partition_reassignments(places)
        bar.reach(len(places) - len(left))
        return not left

    with _interruptible(), progress_bar("reassigning", len(places), "partitions") as bar:
        until(are_done, math.inf, POLL_S)


def await_dir_moves(admin: Admin, moves: Mapping[TopicPartitionReplica, str]) -> None:
    """Return once each replica is in the log dir that it moves to. Errors: HeadraceError if a move ended
    before; those of the client."""
    nodes = sorted({each.node_id for each in moves})
    copying: set[TopicPartitionReplica] = set()

    def are_done() -> bool:
        results = admin.describe_log_dirs(nodes)
        total, copied, left = 0, 0, []
        for each, target in moves.items():
            places = _places_of(each, results[each.node_id])
            path, size_bytes = places.get(False, ("", 0))
            total += size_bytes
            if path == target:
                copied += size_bytes
                continue
            left.append(each)
            if True in places:
                copying.add(each)
                copied += min(places[True][1], size_bytes)
            elif each in copying:
                raise HeadraceError(f"the move of {each.topic}-{each.partition} to {target} was cancelled")
        bar.reach(copied, total)
        return not left

    with _interruptible(), progress_bar("moving", None, BYTES) as bar:
        until(are_done, math.inf, POLL_S)


def _places_of(replica: TopicPartitionReplica, dirs: Iterable[LogDirInfo]) -> dict[bool, tuple[str, int]]:
    """Log dir and size of the replica, and (True) of the copy that will replace it."""
    return {
        each.is_future: (info.path, each.size_bytes)
        for info in dirs
        for each in info.replicas
        if (each.topic, each.partition) == (replica.topic, replica.partition)
    }


@contextlib.contextmanager
def _interruptible() -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        note("the moves continue without this command; the same command with --wait waits again")
        raise
