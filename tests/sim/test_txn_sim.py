"""Groups and transactions in simulation: planted bugs are found. That no law is broken without one,
test_cluster_sim.py shows, of whose seeds some have groups."""

from __future__ import annotations

import pytest
import txn_bugs
from test_cluster_sim import finds

pytestmark = pytest.mark.sim


@pytest.mark.parametrize("bug", txn_bugs.BUGS, ids=lambda bug: bug.__name__)
def test_a_planted_bug_is_found(bug, monkeypatch: pytest.MonkeyPatch) -> None:
    """One rule is broken: some seed shows it, as one of the laws that rest on the rule."""
    laws, plan, seeds = txn_bugs.BUGS[bug]
    bug(monkeypatch)
    assert finds(laws, plan, seeds, txn_bugs.FIRST.get(bug, 1)), f"{seeds} seeds have broken none of {laws}"
