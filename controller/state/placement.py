"""Chooses storage nodes for the replicas of new partitions. Pure.

Invariants of every placement: the replicas of a partition are on distinct nodes, and on as many racks as
possible; preferred leaders are spread evenly, with a difference of at most one between nodes (with the
topic's existing partitions). Nodes without a rack count as one rack. Fenced nodes are used only when there
are too few others, and never as preferred leaders. Source: the goals of Kafka's StripedReplicaPlacer.java
(KIP-36); the method here is greedy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ...protocol.errors import IneligibleReplicaError, InvalidReplicationFactorError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence, Set


class UsableNode(NamedTuple):
    """A storage node that may get replicas: registered and not shutting down."""

    node_id: int
    rack: str | None
    is_fenced: bool = False


def place(
    count: int,
    replication_factor: int,
    nodes: Sequence[UsableNode],
    start: int,
    existing: Sequence[Sequence[int]] = (),
) -> list[tuple[int, ...]]:
    """Replicas for each of `count` new partitions, preferred leader first.

    `start` rotates the first choice (seed it, so that small topics spread over the cluster); `existing` are
    the replicas of the partitions that the topic has already.
    Errors: InvalidReplicationFactorError if there are fewer usable nodes than replicas.
    """
    active = [node for node in nodes if not node.is_fenced]
    if replication_factor > len(nodes) or replication_factor < 1 or not active:
        raise InvalidReplicationFactorError(
            f"replication factor {replication_factor}, but {len(nodes)} storage nodes are usable, "
            f"{len(active)} of them active"
        )
    order = alternate_racks(active)
    turn = start % len(order)
    spare = alternate_racks([node for node in nodes if node.is_fenced])
    placer = _Placer(order[turn:] + order[:turn], spare, existing)
    return [placer.next_partition(replication_factor) for _ in range(count)]


def check_not_cordoned(cordoned: Set[int], node_ids: Iterable[int]) -> None:
    """Errors: IneligibleReplicaError if one of the nodes has no log dir that takes a new replica
    (KIP-1066)."""
    named = sorted(cordoned & {*node_ids})
    if named:
        raise IneligibleReplicaError(f"all log dirs of node {named[0]} are cordoned")


def alternate_racks(nodes: Sequence[UsableNode]) -> list[UsableNode]:
    """All nodes, taken from the racks in turn."""
    racks: dict[str | None, list[UsableNode]] = {}
    for node in sorted(nodes, key=lambda node: (node.rack is None, node.rack or "", node.node_id)):
        racks.setdefault(node.rack, []).append(node)
    longest = max((len(rack) for rack in racks.values()), default=0)
    return [rack[i] for i in range(longest) for rack in racks.values() if i < len(rack)]


class _Placer:
    """Counts leaders and replicas per node, and takes the node with the fewest."""

    def __init__(
        self, order: list[UsableNode], spare: list[UsableNode], existing: Sequence[Sequence[int]]
    ) -> None:
        self._ids = [node.node_id for node in order]
        self._spare = [node.node_id for node in spare]
        self._rack_of: Mapping[int, str | None] = {node.node_id: node.rack for node in order}
        self._leaders = dict.fromkeys(self._ids, 0)
        self._replicas = dict.fromkeys([*self._ids, *self._spare], 0)
        for replicas in existing:
            self._count(replicas)

    def next_partition(self, replication_factor: int) -> tuple[int, ...]:
        """The replicas of one more partition. Ties go to the node that is earlier in order."""
        leader = min(self._ids, key=lambda node_id: (self._leaders[node_id], self._replicas[node_id]))
        chosen = [leader]
        if replication_factor > 1:
            self._add_followers(chosen, min(replication_factor, len(self._ids)))
            missing = replication_factor - len(chosen)
            chosen += sorted(self._spare, key=self._replicas.__getitem__)[:missing]
        self._count(chosen)
        return tuple(chosen)

    def _add_followers(self, chosen: list[int], replication_factor: int) -> None:
        # Looked for from behind the leader on, so that not all leaders of a node have the same follower.
        behind = self._ids.index(chosen[0]) + 1
        around = self._ids[behind:] + self._ids[: behind - 1]
        racks_left = set(self._rack_of.values()) - {self._rack_of[chosen[0]]}
        while len(chosen) < replication_factor:
            free = [
                n for n in around if n not in chosen and (not racks_left or self._rack_of[n] in racks_left)
            ]
            follower = min(free, key=self._replicas.__getitem__)
            racks_left.discard(self._rack_of[follower])
            chosen.append(follower)

    def _count(self, replicas: Sequence[int]) -> None:
        if replicas[0] in self._leaders:
            self._leaders[replicas[0]] += 1
        for node_id in replicas:
            if node_id in self._replicas:
                self._replicas[node_id] += 1
