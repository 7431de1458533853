"""Balances and removals in a simulated cluster keep their laws, and each law finds a planted bug."""

from __future__ import annotations

import balance_bugs
import pytest
from cluster import SimCluster
from test_cluster_sim import finds

pytestmark = pytest.mark.sim


@pytest.mark.parametrize("plan", [balance_bugs.CALM, balance_bugs.ROUGH], ids=["calm", "rough"])
def test_commands_that_are_interrupted_and_killed_break_no_law(plan) -> None:
    """A seed in which plans are carried out, without other faults and with controllers that crash."""
    marks = SimCluster(2, plan).run().rules.marks
    expected = ("plan carried out", "moving", "left nothing", "balance complete")
    assert all(marks[mark] for mark in expected), marks


@pytest.mark.parametrize("bug", balance_bugs.BUGS, ids=lambda bug: bug.__name__)
def test_a_planted_bug_is_found(bug, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some seed breaks one of the laws that depend on the broken rule."""
    laws, plan, seeds = balance_bugs.BUGS[bug]
    bug(monkeypatch)
    assert finds(laws, plan, seeds, balance_bugs.FIRST.get(bug, 1)), (
        f"{seeds} seeds have broken none of {laws}"
    )
