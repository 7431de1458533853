"""Plans which replicas and leaders move. Pure and deterministic.

The goals are worked on in their order; a step for one goal never worsens an earlier one: moves between racks
keep the rack spread, moves for disk usage keep the replica counts (as swaps, where a single move would not),
moves of leadership copy nothing and keep the counts of leaders. Each step takes from the node that has most
and gives to the one that has least. It must reduce the difference, so a plan ends; a pair of nodes between
which nothing may move is not tried again.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from .dirs import plan_dirs
from .draft import Draft
from .model import Limits, Plan
from .swaps import even_disks, even_traffic

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...protocol.model import TopicPartition
    from .model import Snapshot

EVACUATION = "evacuate"


def plan(snapshot: Snapshot, limits: Limits | None = None, *, with_dirs: bool = False) -> Plan:
    """The moves that balance the cluster within `limits`; with `with_dirs` also those between log dirs."""
    limits = Limits() if limits is None else limits
    draft = Draft(snapshot, limits)
    before = draft.imbalance()
    stuck = _evacuate(draft)
    for goal in limits.goals:
        _STEPS[goal](draft)
    dir_moves = plan_dirs(snapshot, limits) if with_dirs and "disk" in limits.goals else ()
    return Plan(draft.moves(), before, draft.imbalance(), dir_moves, stuck)


def _evacuate(draft: Draft) -> dict[TopicPartition, str]:
    """Move everything off the evacuated nodes, the largest replicas first; what cannot move, and why."""
    stuck: dict[TopicPartition, str] = {}
    for source in sorted(draft.limits.evacuated & draft.nodes.keys()):
        held = [i for i, replicas in enumerate(draft.replicas) if source in replicas]
        for index in sorted(held, key=lambda i: (-draft.partitions[i].size_bytes, i)):
            facts = draft.partitions[index]
            target = _refuge(draft, index, source)
            if not facts.is_copyable:
                stuck[facts.place] = "it has no leader, or is being reassigned"
            elif target is None:
                stuck[facts.place] = _why_stuck(draft, index)
            elif draft.is_open(index):
                draft.move(index, source, target, EVACUATION)
    return stuck


def _refuge(draft: Draft, index: int, source: int) -> int | None:
    """The best node for a replica that must leave: first by racks, then by replicas and disk."""
    fit = [n for n in draft.targets if n not in draft.replicas[index] and draft.has_room(index, n)]
    return min(
        fit,
        key=lambda n: (-draft.rack_gain(index, source, n), draft.counts[n], draft.ratio(n), n),
        default=None,
    )


def _why_stuck(draft: Draft, index: int) -> str:
    others = [n for n in draft.targets if n not in draft.replicas[index]]
    if others:
        return f"no free disk space on nodes {', '.join(map(str, others))}"
    count = len(draft.replicas[index])
    return f"{count} replicas need {count} nodes, {len(draft.targets)} would remain"


def _spread_racks(draft: Draft) -> None:
    """Give each partition a replica in as many racks as it can have."""
    for index in range(len(draft.replicas)):
        while draft.is_open(index) and draft.rack_misses(index):
            found = _rack_move(draft, index)
            if found is None:
                break
            draft.move(index, *found, "rack")


def _rack_move(draft: Draft, index: int) -> tuple[int, int] | None:
    """From a rack with several replicas of the partition to one without: from the node with most replicas to
    the one with least."""
    racks = [draft.racks[n] for n in draft.replicas[index]]
    surplus = [
        n for n in draft.replicas[index] if racks.count(draft.racks[n]) > 1 and n in draft.balanced_set
    ]
    best: tuple[float, float, int, int] | None = None
    for source in sorted(surplus, key=lambda n: (-draft.counts[n], n)):
        for rack, targets in draft.targets_in.items():
            if rack in racks:
                continue
            for target in targets:
                difference = draft.counts[target] - draft.counts[source]
                if best is not None and difference > best[0]:
                    continue
                rank = (difference, draft.ratio(target), target, source)
                if (
                    (best is None or rank < best)
                    and draft.is_named(source, target)
                    and draft.can_move(index, source, target)
                ):
                    best = rank
    return None if best is None else (best[3], best[2])


def _even_replicas(draft: Draft) -> None:
    """Bring the numbers of replicas within one of each other."""
    stuck: set[tuple[int, int]] = set()
    while True:
        pair = _pair(draft, stuck)
        if pair is None:
            return
        source, target = pair
        index = _replica_for(draft, source, target)
        if index is None:
            stuck.add(pair)
        else:
            draft.move(index, source, target, "replicas")


def _pair(draft: Draft, stuck: set[tuple[int, int]]) -> tuple[int, int] | None:
    """The node with most and the one with least replicas between which one may move."""
    counts = draft.counts
    targets = sorted(draft.targets, key=lambda n: (counts[n], draft.ratio(n), n))
    for source in sorted(draft.balanced, key=lambda n: (-counts[n], -draft.ratio(n), n)):
        for target in targets:
            if counts[source] - counts[target] < 2:
                break
            if (source, target) not in stuck and draft.is_named(source, target):
                return source, target
    return None


def _replica_for(draft: Draft, source: int, target: int) -> int | None:
    """The replica whose move evens the disks best."""
    mean = sum(draft.used[n] for n in draft.balanced) / sum(draft.capacity[n] for n in draft.balanced)
    excess = (draft.ratio(source) - mean) * draft.capacity[source]
    deficit = (mean - draft.ratio(target)) * draft.capacity[target]
    wanted = max(min(excess, deficit), 0)
    fit = (i for i in draft.sizes_near(source, wanted) if draft.can_move(i, source, target))
    return next((i for i in fit if draft.is_open(i)), None)


def _even_leaders(draft: Draft) -> None:
    """Bring the numbers of preferred leaders within one of each other, along chains of partitions where no
    partition has replicas on both nodes."""
    led = _Led(draft)
    while True:
        fewest = min((draft.leads[n] for n in draft.balanced), default=0)
        order = sorted(
            (n for n in draft.balanced if draft.leads[n] - fewest >= 2), key=lambda n: (-draft.leads[n], n)
        )
        path = next((found for n in order if (found := _chain(draft, led, n)) is not None), None)
        if path is None:
            return
        for index, node_id in path:
            led.move(index, draft.replicas[index][0], node_id)
            draft.lead(index, node_id, "leaders")


class _Led:
    """Partitions by preferred leader and by another of its replicas, in order."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self.between: dict[int, dict[int, dict[int, None]]] = {n: {} for n in draft.nodes}
        for index in range(len(draft.replicas)):
            if draft.is_ours(index):
                self._put(index)

    def move(self, index: int, before: int, after: int) -> None:
        """Follow a change of the preferred leader, which the draft has not made yet."""
        for other in self._draft.replicas[index]:
            if other != before:
                del self.between[before][other][index]
                new = before if other == after else other
                self.between[after].setdefault(new, {})[index] = None

    def _put(self, index: int) -> None:
        first, *others = self._draft.replicas[index]
        for other in others:
            if first in self.between:
                self.between[first].setdefault(other, {})[index] = None


def _chain(draft: Draft, led: _Led, source: int) -> list[tuple[int, int]] | None:
    """Changes of leaders that take one leadership from `source` and give it to a node with at least two
    fewer; each is a partition and its new leader."""
    goal, fit = draft.leads[source] - 2, frozenset(draft.balanced)
    came: dict[int, tuple[int, int]] = {source: (-1, source)}
    waiting = deque([source])
    while waiting:
        node_id = waiting.popleft()
        if draft.leads[node_id] <= goal and node_id != source:
            path = []
            while node_id != source:
                index, before = came[node_id]
                path.append((index, node_id))
                node_id = before
            return path if draft.are_open(*(index for index, _ in path)) else None
        for other, indices in sorted(led.between[node_id].items()):
            if other in fit and other not in came and draft.is_named(node_id, other):
                opened = next((i for i in indices if draft.is_open(i)), None)
                if opened is not None:
                    came[other] = (opened, node_id)
                    waiting.append(other)
    return None


_STEPS: dict[str, Callable[[Draft], None]] = {
    "rack": _spread_racks,
    "replicas": _even_replicas,
    "disk": even_disks,
    "leaders": _even_leaders,
    "traffic": even_traffic,
}
