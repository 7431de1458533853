"""Stream tasks in simulation: seeds without a bug are clean and replay, and planted bugs are found."""

from __future__ import annotations

import pytest
import task_bugs
from seeds import run_one
from sim_tasks import SimTasks

pytestmark = pytest.mark.sim
CLEAN = range(1, 7)


@pytest.mark.parametrize("seed", CLEAN)
def test_laws_hold(seed: int) -> None:
    SimTasks(seed).run()


def test_a_seed_replays() -> None:
    """Two runs have the same events."""
    first, second = SimTasks(2).run(), SimTasks(2).run()
    assert first.world.trace_hash == second.world.trace_hash
    assert first.sent == second.counted


@pytest.mark.parametrize("bug", task_bugs.BUGS, ids=lambda bug: bug.__name__)
def test_a_planted_bug_is_found(bug, monkeypatch: pytest.MonkeyPatch) -> None:
    """The seed that shows it soonest is tried first, then others."""
    laws, seed = task_bugs.BUGS[bug]
    bug(monkeypatch)
    for each in (seed, *range(seed + 1, seed + 20)):
        fault = run_one("streams", each).fault
        if fault:
            assert any(f"AssertionError: {law}:" in fault for law in laws), fault
            return
    pytest.fail(f"no seed from {seed} on has broken one of {laws}")
