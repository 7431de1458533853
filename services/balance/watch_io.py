"""`headrace balance --watch`: a loop beside the cluster, through the admin client alone.

It holds no state that matters: when it ends, or two of them run, nothing is wrong; a second one sees moves in
progress and pauses.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from ...clients.admin.admin_types import Resource
from ...protocol.errors import HeadraceError
from ...runtime.waiting_io import let_pass
from .facts_io import facts_of
from .planner import plan
from .watching import Step, Watcher

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...clients.sync.admin_io import Admin
    from .model import Limits, Plan
    from .watching import Thresholds

ENABLE = "balance.enable"


def watch(
    admin: Admin,
    limits: Limits,
    thresholds: Thresholds,
    *,
    interval_s: float,
    sample_s: float,
    move: Callable[[Plan], object],
    report: Callable[[str], None],
) -> None:
    """Balance whenever it is due, until interrupted. Errors of the cluster are reported, and tried again."""
    watcher, last = Watcher(thresholds), ""
    while True:
        try:
            state, made = _round(admin, limits, watcher, sample_s)
        except HeadraceError as error:
            state, made = f"paused: {error}", None
        if state != last:
            report(state)
            last = state
        if made is not None:
            try:
                move(made)
            except HeadraceError as error:
                report(f"not complete: {error}")
        let_pass(interval_s)


def _is_enabled(admin: Admin) -> bool:
    """The cluster-wide value of balance.enable."""
    cluster = Resource.broker()
    found = admin.describe_configs(cluster)[cluster].get(ENABLE)
    return found is None or found.value != "false"


def _round(admin: Admin, limits: Limits, watcher: Watcher, sample_s: float) -> tuple[str, Plan | None]:
    """The state of the cluster in words, and the plan if it is due."""
    if not _is_enabled(admin):
        return f"paused: {ENABLE} is false", None
    facts = facts_of(admin, sample_s)
    made = plan(facts.snapshot, limits)
    problem = facts.health.problem()
    step = watcher.decide(problem, made.before, bool(made.moves), time.monotonic())
    count = len(made.moves)
    state = {
        Step.REST: "balanced",
        Step.WATCH: f"not balanced: {count} partitions would move",
        Step.PAUSE: f"paused: {problem or 'the cluster has not been healthy for long'}",
        Step.MOVE: f"moving {count} partitions",
    }[step]
    return state, made if step is Step.MOVE else None
