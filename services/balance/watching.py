"""When a cluster is balanced without an operator. Pure.

Hysteresis: a balance begins when a goal is worse than the threshold in several rounds, and ends at the
tolerance of the planner, which is lower. It pauses while the cluster is unhealthy, and until it has been
healthy for a while: copies would compete with the replicas that catch up.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .model import Imbalance, Spread


class Step(Enum):
    """What to do now."""

    REST = "rest"  # balanced enough
    WATCH = "watch"  # not balanced, but not for long
    PAUSE = "pause"  # unhealthy, or not healthy for long enough
    MOVE = "move"


@dataclass(frozen=True, slots=True)
class Thresholds:
    """`threshold`: the imbalance that begins a balance, as a share of the mean; `rounds`: in how many rounds
    in a row; `settle_s`: how long the cluster must have been healthy."""

    threshold: float = 0.25
    rounds: int = 3
    settle_s: float = 120.0


class Watcher:
    """Decides round by round. Invariant: MOVE only while healthy for `settle_s`."""

    def __init__(self, thresholds: Thresholds) -> None:
        self._thresholds = thresholds
        self._bad_rounds = 0
        self._healthy_since: float | None = None
        self._is_moving = False

    def decide(self, problem: str | None, imbalance: Imbalance, has_moves: bool, now_s: float) -> Step:
        """The step of this round. `has_moves`: a plan exists at the planner's tolerance."""
        if problem is not None:
            self._healthy_since = None
            return Step.PAUSE
        if self._healthy_since is None:
            self._healthy_since = now_s
        self._bad_rounds = self._bad_rounds + 1 if self._is_bad(imbalance) else 0
        if not has_moves:
            self._is_moving = False
            return Step.REST
        is_due = self._is_moving or self._bad_rounds >= self._thresholds.rounds
        if not is_due:
            return Step.WATCH if self._bad_rounds else Step.REST
        if now_s - self._healthy_since < self._thresholds.settle_s:
            return Step.PAUSE
        self._is_moving = True
        return Step.MOVE

    def _is_bad(self, found: Imbalance) -> bool:
        return bool(found.rack_misses) or any(
            _is_uneven(spread, self._thresholds.threshold, least)
            for spread, least in (
                (found.replicas, 2),
                (found.leaders, 2),
                (found.disk, 0),
                (found.traffic, 0),
            )
        )


def _is_uneven(spread: Spread, threshold: float, least: float) -> bool:
    """Whole replicas and leaders cannot be more even than one apart."""
    return spread.imbalance > threshold and spread.largest - spread.smallest >= least
