"""Planted bugs of balances and removals: each breaks one rule, and the simulation must find it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from cluster import Plan
from headrace.services.balance import execution, planner, removal
from headrace.services.balance import requests as q
from headrace.services.balance.draft import Draft
from headrace.services.balance.execution import Execution
from headrace.services.balance.removal import Removal
from network import Weather

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest

CALM = Plan(
    nodes=4,
    partitions=5,
    replication=2,
    min_isr=1,
    fault_ms=12_000,
    balances=True,
    weather=Weather(is_ordered=True),
    readers=False,
    is_brisk=True,
)
ROUGH = replace(CALM, controllers=3, faults=("controller_crash", "pause"), fault_gap_ms=1_500)


def _nothing(*_: Any) -> Any:
    """Steps that do nothing."""
    return iter(())


def keeps_throttles(patch: pytest.MonkeyPatch) -> None:
    """A run that ends does not remove its throttles."""
    patch.setattr(execution, "clear_throttles", _nothing)


def keeps_moves_after_an_interrupt(patch: pytest.MonkeyPatch) -> None:
    """Ctrl-C removes the throttles, and leaves the moves in progress."""

    def cancel(self: Execution, places: list[Any], _why: str) -> Any:
        for place in places:
            del self._active[place]
        return iter(())

    patch.setattr(Execution, "_cancel", cancel)


def does_not_settle(patch: pytest.MonkeyPatch) -> None:
    """A run begins while the moves of a killed one are in progress."""
    for module in (execution, removal):
        patch.setattr(module, "settle", _nothing)
    import sim_balancer

    patch.setattr(sim_balancer, "settle", _nothing)


def moves_all_at_once(patch: pytest.MonkeyPatch) -> None:
    """--max-concurrent is ignored."""
    make = Execution.__init__

    def init(self: Execution, moves: Any, pace: q.Pace, *rest: Any, **facts: Any) -> None:
        make(self, moves, replace(pace, max_concurrent=100), *rest, **facts)

    patch.setattr(Execution, "__init__", init)


def drops_a_replica(patch: pytest.MonkeyPatch) -> None:
    """A move of a partition with several replicas removes one."""
    moves = Draft.moves

    def shorter(self: Draft) -> Any:
        return tuple(replace(move, after=move.after[:-1] or move.after) for move in moves(self))

    patch.setattr(Draft, "moves", shorter)


def ignores_racks(patch: pytest.MonkeyPatch) -> None:
    """A move may put two replicas into one rack."""
    make = Draft.__init__

    def init(self: Draft, snapshot: Any, limits: Any) -> None:
        nodes = tuple(replace(node, rack=None) for node in snapshot.nodes)
        make(self, replace(snapshot, nodes=nodes), limits)

    patch.setattr(Draft, "__init__", init)


def never_sees_the_end_of_a_move(patch: pytest.MonkeyPatch) -> None:
    """Each completed move counts as not yet known to the node that was asked."""
    patch.setattr(Execution, "_conclude", _nothing)


def moves_back_and_forth(patch: pytest.MonkeyPatch) -> None:
    """A plan for an even cluster moves a leader again."""
    make = planner.plan

    def restless(snapshot: Any, limits: Any = None, **facts: Any) -> Any:
        made = make(snapshot, limits, **facts)
        first = next((each for each in snapshot.partitions if len(each.replicas) > 1), None)
        if made.moves or first is None:
            return made
        turned = (*first.replicas[1:], first.replicas[0])
        from headrace.services.balance.model import Move

        return replace(made, moves=(Move(first.place, first.replicas, turned, 0, "leaders"),))

    import balance_laws
    import sim_balancer

    for module in (balance_laws, sim_balancer):
        patch.setattr(module, "plan", restless)


def stops_a_node_that_has_replicas(patch: pytest.MonkeyPatch) -> None:
    """A removal counts only the first plan: replicas that could not move then stay on the node."""
    patch.setattr(Removal, "_move_all", _nothing)


# bug -> (the laws of which one must be broken, the plan, the number of seeds to try)
BUGS: dict[Callable[[pytest.MonkeyPatch], None], tuple[tuple[str, ...], Plan, int]] = {
    keeps_throttles: (("NothingLeft",), CALM, 5),
    keeps_moves_after_an_interrupt: (("NothingLeft",), CALM, 10),
    does_not_settle: (("MovesBounded", "NothingLeft"), CALM, 20),
    moves_all_at_once: (("MovesBounded",), CALM, 5),
    drops_a_replica: (("ReplicationFactor",), CALM, 5),
    ignores_racks: (("RackSpread",), CALM, 10),
    never_sees_the_end_of_a_move: (("RunEnds",), replace(CALM, patience_ms=15_000), 3),
    moves_back_and_forth: (("Converged",), CALM, 2),
    stops_a_node_that_has_replicas: (("EmptiedNode",), CALM, 10),
}
# The seed that finds the bug soonest, if it is not seed 1: it is tried first.
FIRST: dict[Callable[[pytest.MonkeyPatch], None], int] = {
    keeps_moves_after_an_interrupt: 2,
    does_not_settle: 3,
}
