"""The draft of a plan: current replicas, and their sums per node, changed move by move. Pure.

Invariants, kept by `can_move` and `can_lead`: the number of replicas of a partition never changes; they are
on distinct nodes; a partition is never on fewer racks than before, unless it leaves an evacuated node; a node
that may not get replicas gets none; a move never takes the last reserve of free disk space.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from typing import TYPE_CHECKING

from .model import Imbalance, Move, Spread

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from .model import Limits, PartitionFacts, Snapshot

RESERVE = 0.05  # of a node's disks: a move must not take it


class Draft:
    """Partitions by index. Only its methods change it."""

    def __init__(self, snapshot: Snapshot, limits: Limits) -> None:
        self.partitions = tuple(sorted(snapshot.partitions, key=lambda each: each.place))
        self.limits = limits
        self.nodes = {node.node_id: node for node in sorted(snapshot.nodes, key=lambda node: node.node_id)}
        fixed = limits.excluded
        active = [n for n, node in self.nodes.items() if node.is_active and n not in fixed]
        # The nodes over which everything is spread, and of them those that may get something.
        self.balanced = tuple(n for n in active if n not in limits.evacuated)
        self.targets = tuple(n for n in self.balanced if not self.nodes[n].is_cordoned)
        self.racks = {n: node.rack or "" for n, node in self.nodes.items()}
        self.rack_count = len({self.racks[n] for n in self.balanced})
        self.targets_in: dict[str, list[int]] = {}  # by rack
        for node_id in self.targets:
            self.targets_in.setdefault(self.racks[node_id], []).append(node_id)
        self.replicas = [list(each.replicas) for each in self.partitions]
        self.goal_of: dict[int, str] = {}
        self.counts = dict.fromkeys(self.nodes, 0)
        self.used = dict.fromkeys(self.nodes, 0)
        self.leads = dict.fromkeys(self.nodes, 0)
        self.load = dict.fromkeys(self.nodes, 0.0)
        self.added = dict.fromkeys(self.nodes, 0)
        # Movable replicas of each node as (size, index), sorted.
        self.by_size: dict[int, list[tuple[int, int]]] = {n: [] for n in self.nodes}
        self.capacity = self._capacities()
        self.balanced_set, self._target_set = frozenset(self.balanced), frozenset(self.targets)
        self._changed = set[int]()
        self._is_ours = [self._may_change(each) for each in self.partitions]
        for index, replicas in enumerate(self.replicas):
            for position, node_id in enumerate(replicas):
                self._account(index, node_id, 1, is_first=position == 0)

    def _may_change(self, partition: PartitionFacts) -> bool:
        topics = self.limits.topics
        is_leaving = not self.limits.evacuated.isdisjoint(partition.replicas)
        is_fit = partition.is_copyable if is_leaving else partition.is_movable
        return is_fit and (topics is None or partition.place.topic in topics)

    def _capacities(self) -> dict[int, float]:
        """The size of each node's disks; all equal if one is unknown."""
        known = {n: float(node.capacity_bytes) for n, node in self.nodes.items()}
        return known if all(known[n] > 0 for n in self.balanced) else dict.fromkeys(known, 1.0)

    # --- what is allowed ---------------------------------------------------------------------------------

    def is_ours(self, index: int) -> bool:
        """Whether the plan may change the partition, but for the limit on moves."""
        return self._is_ours[index]

    def is_open(self, index: int) -> bool:
        """Whether the plan may change the partition: the limit on moves counts each once."""
        limit = self.limits.max_moves
        return self._is_ours[index] and (
            limit is None or index in self._changed or len(self._changed) < limit
        )

    def are_open(self, *indices: int) -> bool:
        """As `is_open`, for all together."""
        limit, new = self.limits.max_moves, len(set(indices) - self._changed)
        is_fit = all(self._is_ours[index] for index in indices)
        return is_fit and (limit is None or len(self._changed) + new <= limit)

    def is_named(self, first: int, second: int) -> bool:
        """Whether moves between these nodes are wanted."""
        wanted = self.limits.nodes
        return not wanted or first in wanted or second in wanted

    def can_move(self, index: int, source: int, target: int) -> bool:
        """Whether the replica may move without breaking an invariant."""
        replicas, racks = self.replicas[index], self.racks
        if target in replicas or target not in self._target_set:
            return False
        rack, other = racks[source], racks[target]
        if rack != other:  # as `rack_gain`, without a list: most candidates end here
            is_kept = False
            is_new = True
            for node_id in replicas:
                if node_id != source:
                    is_kept |= racks[node_id] == rack
                    is_new &= racks[node_id] != other
            if not is_kept and not is_new:
                return False
        if self.limits.nodes and source not in self.partitions[index].replicas:
            return False  # moved before: from its first to its last node it would be another move
        return self.has_room(index, target)

    def has_room(self, index: int, target: int) -> bool:
        """Whether the disks of the node keep their reserve with one more replica."""
        node = self.nodes[target]
        if node.free_bytes < 0 or target in self.partitions[index].replicas:
            return True
        size = self.partitions[index].size_bytes
        left = node.free_bytes - self.added[target] - size
        return left >= node.capacity_bytes * RESERVE or size == 0

    def rack_gain(self, index: int, source: int, target: int) -> int:
        """By how many racks the partition is spread wider after the move: -1, 0 or 1."""
        rack, other = self.racks[source], self.racks[target]
        if rack == other:
            return 0
        others = [self.racks[n] for n in self.replicas[index] if n != source]
        return (other not in others) - (rack not in others)

    def rack_misses(self, index: int) -> int:
        """The racks that the partition could use in addition."""
        replicas = self.replicas[index]
        return max(min(len(replicas), self.rack_count) - len({self.racks[n] for n in replicas}), 0)

    # --- changes -----------------------------------------------------------------------------------------

    def move(self, index: int, source: int, target: int, goal: str) -> None:
        """Replace a replica; a leader's place in the order goes with it."""
        replicas = self.replicas[index]
        position = replicas.index(source)
        self._account(index, source, -1, is_first=position == 0)
        replicas[position] = target
        self._account(index, target, 1, is_first=position == 0)
        self._note(index, goal)

    def lead(self, index: int, node_id: int, goal: str) -> None:
        """Make a replica the preferred leader; the former one follows it."""
        replicas = self.replicas[index]
        before = replicas[0]
        self._lead(index, before, -1)
        replicas.remove(node_id)
        replicas.insert(0, node_id)
        self._lead(index, node_id, 1)
        self._note(index, goal)

    def leader_weight(self, index: int) -> float:
        """The traffic that goes with the leadership: reads, and copies for the followers."""
        facts = self.partitions[index]
        return facts.out_rate + facts.in_rate * (len(facts.replicas) - 1)

    def sizes_near(self, node_id: int, size: float) -> Iterable[int]:
        """Movable replicas of the node by index, those of the nearest size first."""
        entries = self.by_size[node_id]
        high = bisect_left(entries, (int(size), -1))
        low = high - 1
        while low >= 0 or high < len(entries):
            is_low = high >= len(entries) or (low >= 0 and size - entries[low][0] <= entries[high][0] - size)
            yield entries[low if is_low else high][1]
            low, high = (low - 1, high) if is_low else (low, high + 1)

    def _note(self, index: int, goal: str) -> None:
        if tuple(self.replicas[index]) == self.partitions[index].replicas:
            self._changed.discard(index)
            self.goal_of.pop(index, None)
        else:
            self._changed.add(index)
            self.goal_of.setdefault(index, goal)

    def _account(self, index: int, node_id: int, sign: int, *, is_first: bool) -> None:
        facts = self.partitions[index]
        if node_id not in self.nodes:
            return
        self.counts[node_id] += sign
        self.used[node_id] += sign * facts.size_bytes
        self.load[node_id] += sign * facts.in_rate
        if node_id not in facts.replicas:
            self.added[node_id] += sign * facts.size_bytes
        if self._is_ours[index]:
            entries, entry = self.by_size[node_id], (facts.size_bytes, index)
            if sign > 0:
                insort(entries, entry)
            else:
                del entries[bisect_left(entries, entry)]
        if is_first:
            self._lead(index, node_id, sign)

    def _lead(self, index: int, node_id: int, sign: int) -> None:
        if node_id in self.nodes:
            self.leads[node_id] += sign
            self.load[node_id] += sign * self.leader_weight(index)

    # --- results -----------------------------------------------------------------------------------------

    def ratio(self, node_id: int) -> float:
        """How full the node is, as a share of its disks; bytes if their sizes are unknown."""
        return self.used[node_id] / self.capacity[node_id]

    def imbalance(self) -> Imbalance:
        """The state of the draft."""
        misses = sum(self.rack_misses(index) for index in range(len(self.replicas)))
        return Imbalance(
            misses,
            self._spread([self.counts[n] for n in self.balanced]),
            self._spread([self.ratio(n) for n in self.balanced]),
            self._spread([self.leads[n] for n in self.balanced]),
            self._spread([self.load[n] for n in self.balanced]),
        )

    def moves(self) -> tuple[Move, ...]:
        """The differences to the snapshot, copies first, by partition."""
        found = [
            Move(facts.place, facts.replicas, after, facts.size_bytes, self.goal_of[index])
            for index, facts in enumerate(self.partitions)
            if (after := tuple(self.replicas[index])) != facts.replicas
        ]
        return tuple(sorted(found, key=lambda move: (not move.added, move.place)))

    @staticmethod
    def _spread(values: Sequence[float]) -> Spread:
        if not values:
            return Spread(0, 0, 0)
        return Spread(min(values), sum(values) / len(values), max(values))
