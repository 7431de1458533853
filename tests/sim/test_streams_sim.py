"""Streams groups in simulation: planted bugs are found. Runs without a bug are in test_cluster_sim.py, where
some seeds have streams groups."""

from __future__ import annotations

import pytest
import streams_bugs
from test_cluster_sim import finds

pytestmark = pytest.mark.sim


@pytest.mark.parametrize("bug", streams_bugs.BUGS, ids=lambda bug: bug.__name__)
def test_a_planted_bug_is_found(bug, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some seed breaks one of the laws that depend on the broken rule."""
    laws, plan, seeds = streams_bugs.BUGS[bug]
    bug(monkeypatch)
    assert finds(laws, plan, seeds, streams_bugs.FIRST.get(bug, 1)), (
        f"{seeds} seeds have broken none of {laws}"
    )
