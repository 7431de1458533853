"""When a cluster is balanced without an operator. Pure.

Hysteresis: a balance begins when a goal is worse than the threshold in several rounds, and ends at the
tolerance of the planner, which is lower. It pauses while the cluster is unhealthy, and until it has been
healthy for a while: copies would compete with the replicas that catch up. The loop keeps no state that
matters: when it ends, or two of them run, nothing is wrong; a second one sees moves in progress and pauses.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from ...clients.admin.admin_types import Resource
from .execution import settle
from .planner import plan
from .requests import FAILURES, CarryOut, ReadConfig, ReadFacts, Report, Sleep

if TYPE_CHECKING:
    from .model import Limits, Plan, Spread
    from .requests import Pace, Steps

ENABLE = "balance.enable"
MOST_LEFT = 0.9  # of an imbalance, after a plan: one that improves less is no reason to begin


class Step(Enum):
    """What to do now."""

    REST = "rest"  # balanced enough
    WATCH = "watch"  # not balanced, but not for long
    PAUSE = "pause"  # unhealthy, or not healthy for long enough
    MOVE = "move"


@dataclass(frozen=True, slots=True)
class Thresholds:
    """`threshold`: the imbalance that begins a balance, as a share of the mean; `rounds`: in how many rounds
    in a row; `settle_s`: how long the cluster must have been healthy. Each round begins `interval_s` after
    the one before, and measures the traffic for `sample_s`."""

    threshold: float = 0.25
    rounds: int = 3
    settle_s: float = 120.0
    interval_s: float = 60.0
    sample_s: float = 0.0


class Watcher:
    """Decides round by round. Invariant: MOVE only while healthy for `settle_s`."""

    def __init__(self, thresholds: Thresholds) -> None:
        self._thresholds = thresholds
        self._bad_rounds = 0
        self._healthy_since: float | None = None
        self._is_moving = False

    def decide(self, problem: str | None, made: Plan, now_s: float) -> Step:
        """The step of this round. `made`: a plan at the planner's tolerance."""
        if problem is not None:
            self._healthy_since = None
            return Step.PAUSE
        if self._healthy_since is None:
            self._healthy_since = now_s
        self._bad_rounds = self._bad_rounds + 1 if self._is_due(made) else 0
        if not made.moves:
            self._is_moving = False
            return Step.REST
        if not self._is_moving and self._bad_rounds < self._thresholds.rounds:
            return Step.WATCH if self._bad_rounds else Step.REST
        if now_s - self._healthy_since < self._thresholds.settle_s:
            return Step.PAUSE
        self._is_moving = True
        return Step.MOVE

    def on_unknown(self) -> None:
        """A round in which the health of the cluster was not read."""
        self._healthy_since = None

    def on_carried_out(self) -> None:
        """A whole plan was carried out: the balance is complete, and the next one begins at the threshold.
        Without this, traffic that varies by more than the tolerance would move leaders for ever."""
        self._is_moving, self._bad_rounds = False, 0

    def _is_due(self, made: Plan) -> bool:
        """Whether a goal is worse than the threshold, and the plan improves it: a partition that is busier
        than a whole node must not make moves due for ever."""
        before, after = made.before, made.after
        if after.rack_misses < before.rack_misses:
            return True
        return any(
            _is_uneven(then, self._thresholds.threshold, least)
            and now.imbalance <= then.imbalance * MOST_LEFT
            for then, now, least in (
                (before.replicas, after.replicas, 2),
                (before.leaders, after.leaders, 2),
                (before.disk, after.disk, 0),
                (before.traffic, after.traffic, 0),
            )
        )


class Watch:
    """The loop: it balances whenever it is due, until it is interrupted."""

    def __init__(self, limits: Limits, thresholds: Thresholds, pace: Pace) -> None:
        self._limits, self._thresholds, self._pace = limits, thresholds, pace
        self._watcher = Watcher(thresholds)
        self._is_settled = False  # no throttles of an interrupted run are left

    def steps(self) -> Steps[None]:
        """Errors of requests are reported, and tried again in the next round."""
        last = ""
        while True:
            made: Plan | None = None
            try:
                state, made = yield from self._round()
            except FAILURES as error:
                state = f"paused: {error}"
                self._watcher.on_unknown()
            if state != last:
                yield Report(state)
                last = state
            if made is not None:
                try:
                    yield CarryOut(made)
                except FAILURES as error:
                    yield Report(f"not complete: {error}")
                else:
                    self._note_complete(made)
            yield Sleep(self._thresholds.interval_s)

    def _round(self) -> Steps[tuple[str, Plan | None]]:
        """The state of the cluster in words, and the plan if it is due."""
        if (yield ReadConfig(Resource.broker(), ENABLE)) == "false":
            self._watcher.on_unknown()
            return f"paused: {ENABLE} is false", None
        facts = yield ReadFacts(self._thresholds.sample_s)
        made = plan(facts.snapshot, self._limits)
        problem = facts.health.problem()
        if problem is not None:
            self._is_settled = False
        elif not self._is_settled:
            yield from settle(self._pace)
            self._is_settled = True
        step = self._watcher.decide(problem, made, self._pace.clock())
        count = len(made.moves)
        state = {
            Step.REST: "balanced",
            Step.WATCH: f"not balanced: {count} partitions would move",
            Step.PAUSE: f"paused: {problem or 'the cluster has not been healthy for long'}",
            Step.MOVE: f"moving {count} partitions",
        }[step]
        return state, made if step is Step.MOVE else None

    def _note_complete(self, made: Plan) -> None:
        limit = self._limits.max_moves
        if limit is None or len(made.moves) < limit:  # else the next plan has the rest
            self._watcher.on_carried_out()


def _is_uneven(spread: Spread, threshold: float, least: float) -> bool:
    """Whole replicas and leaders cannot be more even than one apart."""
    return spread.imbalance > threshold and spread.largest - spread.smallest >= least
