"""Plans of `headrace balance` over random clusters."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from headrace.protocol.model import TopicPartition
from headrace.services.balance.model import (
    GOALS,
    Imbalance,
    Limits,
    NodeFacts,
    PartitionFacts,
    Plan,
    Snapshot,
)
from headrace.services.balance.planner import plan
from hypothesis import given, settings
from hypothesis import strategies as st

GIB = 1 << 30


@st.composite
def clusters(draw: Callable[..., object], *, has_racks: bool = True, sizes: bool = True) -> Snapshot:
    """Up to nine nodes, some of them inactive or cordoned, with up to forty partitions."""
    count = draw(st.integers(2, 9))
    racks = draw(st.integers(0, 4)) if has_racks else 0
    states = draw(st.lists(st.sampled_from("aaaafc"), min_size=count, max_size=count))
    nodes = tuple(
        NodeFacts(
            number,
            f"rack-{number % racks}" if racks else None,
            is_active=state != "f",
            is_cordoned=state == "c",
            capacity_bytes=100 * GIB,
            free_bytes=draw(st.sampled_from([0, 10 * GIB, 90 * GIB])) if sizes else 90 * GIB,
        )
        for number, state in enumerate(states, 1)
    )
    factor = draw(st.integers(1, min(count, 3)))
    partitions = []
    for number in range(draw(st.integers(1, 40))):
        replicas = tuple(draw(st.permutations(range(1, count + 1)))[:factor])
        size = draw(st.integers(0, 5 * GIB)) if sizes else GIB
        rates = draw(st.tuples(st.floats(0, 1e6), st.floats(0, 1e6))) if sizes else (1.0, 1.0)
        is_movable = draw(st.integers(0, 9)) > 0
        partitions.append(
            PartitionFacts(
                TopicPartition(f"t{number % 3}", number),
                replicas,
                replicas[0],
                size,
                *rates,
                is_movable=is_movable or not sizes,
            )
        )
    return Snapshot(nodes, tuple(partitions))


def applied(snapshot: Snapshot, made: Plan) -> Snapshot:
    """The cluster after the moves."""
    after = {move.place: move.after for move in made.moves}
    return replace(
        snapshot,
        partitions=tuple(
            replace(each, replicas=after.get(each.place, each.replicas)) for each in snapshot.partitions
        ),
    )


def racks_of(snapshot: Snapshot, replicas: tuple[int, ...]) -> int:
    rack = {node.node_id: node.rack or "" for node in snapshot.nodes}
    return len({rack[n] for n in replicas})


@given(clusters(), st.none() | st.integers(0, 10), st.sets(st.integers(1, 9), max_size=2))
@settings(max_examples=250, deadline=None)
def test_laws_of_every_plan(snapshot: Snapshot, limit: int | None, excluded: set[int]) -> None:
    """A move keeps the number of replicas and the racks, gives only to nodes that may get something, takes
    only from active ones, leaves immovable partitions alone, and no goal gets worse but for one that is
    later in the order."""
    limits = Limits(max_moves=limit, excluded=frozenset(excluded))
    made = plan(snapshot, limits)
    facts = {each.place: each for each in snapshot.partitions}
    nodes = {node.node_id: node for node in snapshot.nodes}
    assert limit is None or len(made.moves) <= limit
    for move in made.moves:
        assert facts[move.place].is_movable
        assert len(set(move.after)) == len(move.after) == len(move.before)
        assert racks_of(snapshot, move.after) >= racks_of(snapshot, move.before)
        for node_id in move.added:
            assert nodes[node_id].is_active
            assert not nodes[node_id].is_cordoned
            assert node_id not in excluded
        assert all(nodes[n].is_active and n not in excluded for n in move.removed)
    for node in snapshot.nodes:
        got = sum(move.size_bytes for move in made.moves if node.node_id in move.added)
        assert got == 0 or node.free_bytes - got >= node.capacity_bytes * 0.05
    assert made.after.rack_misses <= made.before.rack_misses
    if made.after.rack_misses == made.before.rack_misses:
        assert made.after.replicas.largest <= made.before.replicas.largest
    assert made == plan(snapshot, limits)


def measures(state: Imbalance) -> dict[str, float]:
    """By goal how far the cluster is from it."""
    spreads = {goal: getattr(state, goal).imbalance for goal in GOALS if goal != "rack"}
    return {"rack": state.rack_misses, **spreads}


@given(clusters(), st.sampled_from(GOALS))
@settings(max_examples=200, deadline=None)
def test_a_goal_and_those_before_it_do_not_get_worse(snapshot: Snapshot, goal: str) -> None:
    """A plan for one goal brings the cluster no farther from it, and from no goal that comes before it."""
    made = plan(snapshot, Limits(goals=(goal,)))
    before, after = measures(made.before), measures(made.after)
    for each in GOALS[: GOALS.index(goal) + 1]:
        assert after[each] <= before[each] + 1e-9, each


@given(clusters(), st.none() | st.integers(0, 10))
@settings(max_examples=100, deadline=None)
def test_the_cost_and_the_result_are_those_of_the_moves(snapshot: Snapshot, limit: int | None) -> None:
    """The shown bytes are the sizes of all replicas that are added, and the shown state is that after the
    moves."""
    made = plan(snapshot, Limits(max_moves=limit))
    after = applied(snapshot, made)
    copied = sum(
        new.size_bytes * len({*new.replicas} - {*old.replicas})
        for old, new in zip(snapshot.partitions, after.partitions, strict=True)
    )
    assert made.copied_bytes == copied
    again = measures(plan(after, Limits(goals=())).before)
    assert again == pytest.approx(measures(made.after), abs=1e-6)


@given(clusters(), st.integers(1, 9))
@settings(max_examples=150, deadline=None)
def test_an_evacuated_node_keeps_only_what_the_plan_names(snapshot: Snapshot, leaving: int) -> None:
    """Every replica of the node moves, or the plan says why it cannot; nothing else moves."""
    made = plan(snapshot, Limits(evacuated=frozenset({leaving}), goals=()))
    for each in applied(snapshot, made).partitions:
        assert (leaving in each.replicas) == (each.place in made.stuck)
    assert all(move.removed == (leaving,) for move in made.moves)


@given(clusters())
@settings(max_examples=100, deadline=None)
def test_repeated_plans_come_to_an_end(snapshot: Snapshot) -> None:
    """The plan after a plan is smaller; after a few, nothing moves any more."""
    for _ in range(6):
        made = plan(snapshot)
        if not made.moves:
            return
        snapshot = applied(snapshot, made)
    raise AssertionError(f"still moving: {made.moves}")


@given(clusters(has_racks=False, sizes=False))
@settings(max_examples=150, deadline=None)
def test_equal_partitions_move_as_little_as_possible(snapshot: Snapshot) -> None:
    """Without racks and with one size, the replicas end within one of each other, and no more are copied than
    the fullest nodes have too many and the emptiest too few."""
    nodes = tuple(replace(node, is_active=True, is_cordoned=False) for node in snapshot.nodes)
    snapshot = replace(snapshot, nodes=nodes)
    made = plan(snapshot, Limits(goals=("rack", "replicas", "leaders")))
    counts = {node.node_id: 0 for node in nodes}
    for each in snapshot.partitions:
        for node_id in each.replicas:
            counts[node_id] += 1
    low, rest = divmod(sum(counts.values()), len(counts))
    order = sorted(counts.values(), reverse=True)
    fewest = sum(max(0, count - low - (place < rest)) for place, count in enumerate(order))
    assert sum(len(move.added) for move in made.moves) == fewest
    assert made.after.replicas.largest - made.after.replicas.smallest <= 1
    assert made.after.leaders.imbalance <= made.before.leaders.imbalance or fewest
