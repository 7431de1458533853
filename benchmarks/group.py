"""A group: cells that run interleaved, the comparisons drawn from them, and how often they run. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from .cells.cell import Cell
    from .cells.preload import Preload

GOAL_PAIRS_FULL, GOAL_PAIRS_QUICK = 5, 3
MORE_PAIRS_FULL, MORE_PAIRS_QUICK = 2, 1
# After these seconds no group without a goal and no further pair of one starts; groups with a goal have
# the rest of an hour, or of ten minutes.
BUDGET_FULL_S, BUDGET_QUICK_S = 3540.0, 540.0
GOAL_MORE_S = 30.0

# the cells of the group `bare-64k` that are ceilings
RECEIVE_AND_WRITE, RECEIVE = "receive and write", "receive"


@dataclass(frozen=True)
class Comparison:
    """The ratio above/below of one metric; with a `goal` it is a row of the goal table.

    `is_beside`: the row is shown next to the judged one and gets no verdict. `ceiling`: the cell of the
    group `bare-64k` whose MB/s no `above` can exceed.
    """

    above: str
    below: str
    metric: str
    goal: float | None = None
    at_least: bool = True
    title: str = ""
    is_beside: bool = False
    ceiling: str = ""


class Limit(NamedTuple):
    """A goal that is no ratio: the median of a cell's metric must be below `at_most`."""

    cell: str
    metric: str
    at_most: float
    unit: str
    title: str


class Servers(NamedTuple):
    """The servers of each system: how many nodes, and their settings other than the common ones."""

    nodes: int
    settings: tuple[tuple[str, str], ...] = ()
    kafka_settings: tuple[tuple[str, str], ...] = ()
    has_tls: bool = False  # listeners with TLS beside the others
    has_curve: bool = False  # one more headrace, whose native clients use CURVE

    @property
    def is_lasting(self) -> bool:
        """Whether they run for the whole session; others run only for the groups that need them."""
        return self == Servers(min(self.nodes, 1))


@dataclass(frozen=True)
class Group:
    """Cells that are compared with each other. `preload` fills a topic per system that they read."""

    id: str
    title: str
    cells: tuple[Cell, ...]
    comparisons: tuple[Comparison, ...] = ()
    preload: Preload | None = None
    in_quick: bool = True
    is_pinned: bool = True
    nodes: int = 1  # of each system: 1, 3 with three replicas of everything, or 0 without servers
    settings: tuple[tuple[str, str], ...] = ()  # of both systems' servers, in addition to the common ones
    kafka_settings: tuple[tuple[str, str], ...] = ()  # the same, of keys that only Kafka has
    has_tls: bool = False  # see `Servers`
    has_curve: bool = False
    limits: tuple[Limit, ...] = ()
    # instead of the general JVM warm-up: rounds of Kafka's cells, and one of headrace's, that do not count
    warm_rounds: int = 0
    pairs: tuple[int, int] | None = None  # (full, QUICK), if not the numbers above

    @property
    def workload(self) -> str:
        """W1, W2, ..."""
        return self.id.partition("-")[0].upper()

    @property
    def servers(self) -> Servers:
        """Consecutive groups with equal servers share them."""
        return Servers(self.nodes, self.settings, self.kafka_settings, self.has_tls, self.has_curve)

    @property
    def has_goal(self) -> bool:
        """Whether a row of the goal table comes from it."""
        return bool(self.limits) or any(one.goal is not None for one in self.comparisons)

    def pair_count(self, *, is_quick: bool) -> int:
        """How many pairs the mode runs."""
        goal, more = (GOAL_PAIRS_QUICK, MORE_PAIRS_QUICK) if is_quick else (GOAL_PAIRS_FULL, MORE_PAIRS_FULL)
        full, quick = self.pairs or (None, None)
        return (quick if is_quick else full) or (goal if self.has_goal else more)

    def order(self, pair: int) -> tuple[Cell, ...]:
        """The cells in the order of a pair: forwards, backwards, forwards, ... (A B, B A, A B)."""
        return self.cells if pair % 2 == 0 else self.cells[::-1]

    def cell(self, name: str) -> Cell:
        """Errors: KeyError."""
        for cell in self.cells:
            if cell.name == name:
                return cell
        raise KeyError(name)
