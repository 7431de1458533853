"""Failure detection holds its laws in simulation, and each law notices a broken rule."""

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
    """No node is fenced that is only a little late, none twice for stalls of one length, and every dead one
    is fenced; what should have happened did."""
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
    """The next heartbeat goes out after the answer to the one before, which waits for the disk."""
    patch.setattr(membership, "MAX_HEARTBEATS", 1)


def counts_its_own_stalls(patch: pytest.MonkeyPatch) -> None:
    """Time in which the controller stood still is silence of the nodes."""
    patch.setattr(Sessions, "extend", lambda _self, _lost_ms: None)


def counts_the_registration(patch: pytest.MonkeyPatch) -> None:
    """The wait for the first heartbeat after the registration, as long as the disk takes, is lateness."""
    patch.setattr(Sessions, "register", Sessions.touch)


def does_not_adapt(patch: pytest.MonkeyPatch) -> None:
    """Late heartbeats change no timeout."""
    patch.setattr(HeartbeatDelays, "record", lambda _self, _node_id, _delay_ms, _now_ms: None)


def forgets_who_it_fenced(patch: pytest.MonkeyPatch) -> None:
    """The lateness that fenced a node does not count when it is back."""
    patch.setattr(Sessions, "expire", Sessions.forget)


def ignores_ended_connections(patch: pytest.MonkeyPatch) -> None:
    """A killed process is waited for as long as a late one."""
    patch.setattr(Sessions, "disconnected", lambda _self, _node_id, _now_ms: None)


BUGS: dict[Callable[[pytest.MonkeyPatch], None], tuple[str, Plan]] = {
    waits_for_answers: ("LiveNodeIsNotFenced", SHORT),
    counts_the_registration: ("SlowLogIsNoLateness", SHORT),
    counts_its_own_stalls: ("LiveNodeIsNotFenced", SHORT),
    does_not_adapt: ("LateNodeIsFencedOnce", LONG),
    forgets_who_it_fenced: ("LateNodeIsFencedOnce", LONG),
    ignores_ended_connections: ("DeadNodeIsFenced", LONG),
}


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.__name__)
def test_a_planted_bug_is_found(
    bug: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One rule is broken: some seed shows it, as the law that rests on the rule."""
    law, plan = BUGS[bug]
    bug(monkeypatch)
    for seed in range(1, SEEDS + 1):
        try:
            DetectionSim(seed, plan).run()
        except AssertionError as error:
            if law in str(error):
                return
    pytest.fail(f"{SEEDS} seeds have not noticed that {law}")
