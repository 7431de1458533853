"""Failure detection keeps its laws in simulation, and each law finds a planted bug."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest
from failure_detection import LONG, SHORT, DetectionSim, Plan
from headrace.controller.state.heartbeat_delays import HeartbeatDelays
from headrace.controller.state.sessions import Sessions
from headrace.storage_node.links import membership

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.sim

SEEDS = 12


@pytest.mark.parametrize("plan", [Plan(), SHORT, LONG], ids=["quiet", "short stalls", "long stalls"])
def test_laws_hold(plan: Plan) -> None:
    """No node is fenced for a short stall, none twice for equal stalls, and every dead node is fenced. The
    marks show that stalls and slow responses happened."""
    marks: Counter[str] = Counter()
    for seed in range(1, SEEDS + 1):
        try:
            marks += DetectionSim(seed, plan).run().marks
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error
    assert marks["died"] == 2 * SEEDS
    if plan is SHORT:
        assert marks["slow answers"] > SEEDS
        assert marks["controller stalls"] > SEEDS
    if plan is LONG:
        assert marks["stalls"] > SEEDS


def waits_for_answers(patch: pytest.MonkeyPatch) -> None:
    """The next heartbeat is sent after the response to the previous one, which waits for the disk."""
    patch.setattr(membership, "MAX_HEARTBEATS", 1)


def counts_its_own_stalls(patch: pytest.MonkeyPatch) -> None:
    """The controller's own stall counts as silence of the nodes."""
    patch.setattr(Sessions, "extend", lambda _self, _lost_ms: None)


def counts_the_registration(patch: pytest.MonkeyPatch) -> None:
    """The time from a registration to the first heartbeat, which depends on the disk, counts as delay."""
    patch.setattr(Sessions, "register", Sessions.touch)


def does_not_adapt(patch: pytest.MonkeyPatch) -> None:
    """Delayed heartbeats do not extend the session timeout."""
    patch.setattr(HeartbeatDelays, "record", lambda _self, _node_id, _delay_ms, _now_ms: None)


def forgets_fenced_node(patch: pytest.MonkeyPatch) -> None:
    """The delay that fenced a node does not extend its session timeout after it returns."""
    patch.setattr(Sessions, "expire", Sessions.forget)


def ignores_ended_connections(patch: pytest.MonkeyPatch) -> None:
    """A killed process keeps its session for as long as a stalled one."""
    patch.setattr(Sessions, "disconnected", lambda _self, _node_id, _now_ms: None)


BUGS: dict[Callable[[pytest.MonkeyPatch], None], tuple[str, Plan]] = {
    waits_for_answers: ("LiveNodeIsNotFenced", SHORT),
    counts_the_registration: ("SlowLogIsNoLateness", SHORT),
    counts_its_own_stalls: ("LiveNodeIsNotFenced", SHORT),
    does_not_adapt: ("LateNodeIsFencedOnce", LONG),
    forgets_fenced_node: ("LateNodeIsFencedOnce", LONG),
    ignores_ended_connections: ("DeadNodeIsFenced", LONG),
}


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.__name__)
def test_a_planted_bug_is_found(
    bug: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some seed breaks the law that depends on the broken rule."""
    law, plan = BUGS[bug]
    bug(monkeypatch)
    for seed in range(1, SEEDS + 1):
        try:
            DetectionSim(seed, plan).run()
        except AssertionError as error:
            if law in str(error):
                return
    pytest.fail(f"none of {SEEDS} seeds reports {law}")
