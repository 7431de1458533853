"""Steps that even out disk usage and traffic without changing what earlier goals reached. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    from .draft import Draft

MAX_TRIED = 64  # Bound: replicas of the fuller node that are tried for one swap
MAX_PARTNERS = 16  # Bound: replicas of the emptier node that are tried with each of them
SMALLEST = 1 / 16  # of the wanted difference: a step that reduces it by less is not worth its copies


class _Swap(NamedTuple):
    """A replica or leadership that goes from the first node to the second, and one that comes back or -1."""

    cost: float
    going: int
    partner: int


def even_disks(draft: Draft) -> None:
    """Bring each node within the tolerance of the mean, by moves and swaps of replicas."""
    means = sum(draft.used[n] for n in draft.balanced), sum(draft.capacity[n] for n in draft.balanced)
    mean = means[0] / means[1] if means[1] else 0.0

    def wanted(source: int, target: int) -> float:
        excess = (draft.ratio(source) - mean) * draft.capacity[source]
        return min(excess, (mean - draft.ratio(target)) * draft.capacity[target])

    def step(source: int, target: int) -> bool:
        if target not in draft.targets:
            return False
        found = _disk_swap(draft, source, target, wanted(source, target))
        if found is None:
            return False
        draft.move(found.going, source, target, "disk")
        if found.partner >= 0:
            draft.move(found.partner, target, source, "disk")
        return True

    _even(draft, draft.ratio, mean, step)


def even_traffic(draft: Draft) -> None:
    """Bring each node within the tolerance of the mean, by moves of leadership only: nothing is copied."""
    mean = sum(draft.load[n] for n in draft.balanced) / max(len(draft.balanced), 1)

    def step(source: int, target: int) -> bool:
        wanted = min(draft.load[source] - mean, mean - draft.load[target])
        found = _leader_swap(draft, source, target, wanted)
        if found is None:
            return False
        draft.lead(found.going, target, "traffic")
        if found.partner >= 0:
            draft.lead(found.partner, source, "traffic")
        return True

    _even(draft, draft.load.__getitem__, mean, step)


def _even(draft: Draft, value: Callable[[int], float], mean: float, step: Callable[[int, int], bool]) -> None:
    """Repeat `step` from the fullest to the emptiest node while one is out of the tolerance."""
    high, low = mean * (1 + draft.limits.tolerance), mean * (1 - draft.limits.tolerance)
    stuck: set[tuple[int, int]] = set()
    left = 2 * len(draft.replicas)  # Bound: steps; each reduces a difference
    while left and mean > 0:
        left -= 1
        values = sorted((value(n), n) for n in draft.balanced)
        pair = next(
            (
                (source, target)
                for full, source in reversed(values)
                if full > mean
                for empty, target in values
                if empty < mean
                and (full > high or empty < low)
                and (source, target) not in stuck
                and draft.is_named(source, target)
            ),
            None,
        )
        if pair is None:
            return
        if not step(*pair):
            stuck.add(pair)


def _disk_swap(draft: Draft, source: int, target: int, wanted: float) -> _Swap | None:
    """The replicas whose exchange comes nearest to `wanted` bytes, with few copied bytes."""
    best: _Swap | None = None
    if draft.counts[source] > draft.counts[target]:
        for tried, index in enumerate(draft.sizes_near(source, wanted)):
            size = draft.partitions[index].size_bytes
            if _helps(size, wanted) and draft.is_open(index) and draft.can_move(index, source, target):
                best = _Swap(_cost(size, wanted, size), index, -1)
                break
            if tried >= MAX_TRIED:
                break
    entries = draft.by_size[source]
    stride = max(len(entries) // MAX_TRIED, 1)
    for size, index in entries[::-stride]:
        if size < wanted * SMALLEST:
            break
        if draft.is_open(index) and draft.can_move(index, source, target):
            found = _partner(draft, (index, source, target), size, wanted)
            if found is not None and (best is None or found < best):
                best = found
    return best


def _partner(draft: Draft, going: tuple[int, int, int], size: int, wanted: float) -> _Swap | None:
    index, source, target = going
    if source not in draft.targets:
        return None
    for tried, other in enumerate(draft.sizes_near(target, max(size - wanted, 0))):
        back = draft.partitions[other].size_bytes
        if (
            _helps(size - back, wanted)
            and draft.are_open(index, other)
            and draft.can_move(other, target, source)
        ):
            return _Swap(_cost(size - back, wanted, size + back), index, other)
        if tried >= MAX_PARTNERS:
            break
    return None


def _leader_swap(draft: Draft, source: int, target: int, wanted: float) -> _Swap | None:
    """The leaderships whose exchange comes nearest to `wanted`."""
    ours = _led(draft, source, target)
    back = _led(draft, target, source)
    found = []
    if draft.leads[source] > draft.leads[target]:
        found += [
            _Swap(_cost(weight, wanted, 0), index, -1)
            for weight, index in ours
            if _helps(weight, wanted) and draft.is_open(index)
        ]
    place = 0
    for weight, index in ours:  # from light to heavy: the partner that is nearest only gets heavier
        while place + 1 < len(back) and abs(weight - back[place + 1][0] - wanted) <= abs(
            weight - back[place][0] - wanted
        ):
            place += 1
        if back:
            other_weight, other = back[place]
            if _helps(weight - other_weight, wanted) and draft.are_open(index, other):
                found.append(_Swap(_cost(weight - other_weight, wanted, 0), index, other))
    return min(found, default=None)


def _led(draft: Draft, leader: int, follower: int) -> list[tuple[float, int]]:
    """Partitions that `leader` prefers to lead and `follower` has too, by the traffic that would move."""
    return sorted(
        (draft.leader_weight(index), index)
        for _, index in draft.by_size[leader]
        if draft.replicas[index][0] == leader and follower in draft.replicas[index]
    )


def _helps(difference: float, wanted: float) -> bool:
    """Whether a step brings both nodes nearer to the mean, and enough."""
    return wanted * SMALLEST <= difference < 2 * wanted


def _cost(difference: float, wanted: float, copied: float) -> float:
    return abs(difference - wanted) + copied / 20
