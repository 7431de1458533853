"""What a group of cells is: its measurements, the comparisons drawn from them, how often it runs. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

HEADRACE, KAFKA, BARE = "headrace", "kafka", "bare"
PARTITIONS = 6
QUICK_SHARE = 0.5
GOAL_PAIRS_FULL, GOAL_PAIRS_QUICK = 5, 3
MORE_PAIRS_FULL, MORE_PAIRS_QUICK = 2, 1
# After these seconds no group without a goal is begun, nor another pair of one; the goals get what stays
# of an hour, or ten minutes.
BUDGET_FULL_S, BUDGET_QUICK_S = 3540.0, 540.0
GOAL_MORE_S = 30.0

# the cells of the group `bare-64k` that are ceilings
RECEIVE_AND_WRITE, RECEIVE = "receive and write", "receive"
RATE, MB, CPU_PER_GB = "records_per_s", "mb_per_s", "server_cpu_s_per_gb"
E2E_P50, E2E_P99, ACK_P50, ACK_P99 = "e2e_p50_ms", "e2e_p99_ms", "ack_p50_ms", "ack_p99_ms"
GAP = "gap_ms"
CLEANED_MB, DELETED_SEGMENTS = "cleaned_mb_per_s", "deleted_segments"
MAP_BYTES = "map_bytes_per_key"
CONNECTIONS, CONNECTION_KB, VISIT_CPU = "connections_per_s", "kb_per_connection", "cpu_ms_per_visit"


@dataclass(frozen=True)
class Cell:
    """One measurement: a way to run it (`kind`), a system, and what the client process is told."""

    name: str
    system: str
    kind: str
    spec: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Comparison:
    """The ratio above/below of one metric; with a `goal` it is a row of the goal table.

    `is_beside`: the row is shown with its goal beside the one that is judged, and gets no verdict.
    `ceiling`: the cell of the group `bare-64k` whose MB/s no `above` can pass.
    """

    above: str
    below: str
    metric: str
    goal: float | None = None
    at_least: bool = True
    title: str = ""
    is_beside: bool = False
    ceiling: str = ""


class Servers(NamedTuple):
    """What runs of each system: how many nodes, with which settings beyond those of all groups."""

    nodes: int
    settings: tuple[tuple[str, str], ...] = ()
    kafka_settings: tuple[tuple[str, str], ...] = ()

    @property
    def is_lasting(self) -> bool:
        """Whether they run as long as the session; others come and go with the groups that need them."""
        return self.nodes <= 1 and not self.settings and not self.kafka_settings


@dataclass(frozen=True)
class Group:
    """Cells that are compared with each other. `preload` fills a topic per system for them to read."""

    id: str
    title: str
    cells: tuple[Cell, ...]
    comparisons: tuple[Comparison, ...] = ()
    preload: dict[str, Any] | None = None
    in_quick: bool = True
    is_pinned: bool = True
    # of the cluster that runs it; with three of them all have their replicas on all three, with 0 no server
    # runs
    nodes: int = 1
    # of both systems' servers, where they are not those of all groups
    settings: tuple[tuple[str, str], ...] = ()
    # more of them that only Kafka knows
    kafka_settings: tuple[tuple[str, str], ...] = ()
    # so many times Kafka's cells run before they count, headrace's once, instead of the JVM's general warm-up
    warm_rounds: int = 0
    # of full and QUICK, where they are not those of all groups (with a goal: 5 and 3, without: 3 and 1)
    pairs: tuple[int, int] | None = None

    @property
    def workload(self) -> str:
        """W1, W2, ..."""
        return self.id.partition("-")[0].upper()

    @property
    def servers(self) -> Servers:
        """Groups of the same servers share them."""
        return Servers(self.nodes, self.settings, self.kafka_settings)

    @property
    def has_goal(self) -> bool:
        """Whether a row of the goal table comes from it."""
        return any(one.goal is not None for one in self.comparisons)

    def pair_count(self, *, is_quick: bool) -> int:
        """How many pairs a run of this mode takes."""
        goal, more = (GOAL_PAIRS_QUICK, MORE_PAIRS_QUICK) if is_quick else (GOAL_PAIRS_FULL, MORE_PAIRS_FULL)
        full, quick = self.pairs or (None, None)
        return (quick if is_quick else full) or (goal if self.has_goal else more)

    def cell(self, name: str) -> Cell:
        """By name. Errors: KeyError."""
        for cell in self.cells:
            if cell.name == name:
                return cell
        raise KeyError(name)
