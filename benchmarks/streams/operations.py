"""The groups of `make bench-streams` about the operation of an application: queries, recovery, moves of
tasks, and more workers. Pure.

Unlike the groups of cells.py they run several processes, and some of their goals are limits of one cell.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from headrace.benchmarks.group import Comparison
from headrace.benchmarks.report.results import ABSENT, used
from headrace.benchmarks.report.statistics import MET, MISSED, UNRESOLVED, estimate

from .cells import HEADRACE, JAVA, RATE, RECORDS_PER_CPU_S, SECONDS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from .cells import Sizes

P50, P99, P999 = "p50_ms", "p99_ms", "p999_ms"
ASKED, ASKER_CPU = "queries_per_s", "asker_cpu_percent"
PAUSE, LONGEST, MOVED = "pause_ms", "longest_pause_ms", "moved_tasks"
CPU = "cpu_s"
COLUMNS = (
    ("records/CPU s", RECORDS_PER_CPU_S, ",.0f"),
    ("records/s", RATE, ",.0f"),
    ("queries/s", ASKED, ",.0f"),
    ("p50 ms", P50, ",.2f"),
    ("p99 ms", P99, ",.2f"),
    ("p99.9 ms", P999, ",.2f"),
    ("pause ms", PAUSE, ",.0f"),
    ("longest ms", LONGEST, ",.0f"),
    ("moved tasks", MOVED, ",.0f"),
    ("seconds", SECONDS, ",.2f"),
    ("CPU s", CPU, ",.2f"),
)


class Limit(NamedTuple):
    """The goal that a metric of one cell is at most `goal`."""

    cell: str
    metric: str
    goal: float
    title: str
    unit: str = "ms"


@dataclass(frozen=True)
class Operation:
    """`systems`: its cells, in the order of a pair. `workload`: its module. `pairs`: at most so many."""

    id: str
    title: str
    workload: str
    systems: tuple[str, ...]
    comparisons: tuple[Comparison, ...] = ()
    limits: tuple[Limit, ...] = ()
    pairs: int = 3

    def pair_count(self, sizes: Sizes) -> int:
        """How many pairs run."""
        return min(self.pairs, sizes.pairs)


class QueryCell(NamedTuple):
    """What is asked of a worker that counts. `keys` of a call: 0: nothing is asked; 1: single gets."""

    is_in_memory: bool
    keys: int
    is_latency: bool = False


DISK, MEMORY = "stores on the disk", "stores in memory"
NOTHING, SINGLE, MANY, ALONE = "no queries", "single gets", "get_many of 100", "one at a time"
QUERIES_PER_S = 10_000
ASKERS = 8  # threads
PACE_S = 0.002
QUERY_KEYS = 200_000  # more than the caches of the worker hold
QUERY_CELLS: Mapping[str, QueryCell] = {
    f"{what}, {where}": QueryCell(where == MEMORY, keys, what == ALONE)
    for where in (DISK, MEMORY)
    for what, keys in ((NOTHING, 0), (SINGLE, 1), (MANY, 100), (ALONE, 1))
}
QUERIES = Operation(
    "queries",
    "count by key, asked by another process",
    "queries",
    tuple(QUERY_CELLS),
    tuple(
        Comparison(
            f"{what}, {where}",
            f"{NOTHING}, {where}",
            RECORDS_PER_CPU_S,
            0.8,
            title=f"rate of a worker with {QUERIES_PER_S:,} queries/s, {what}, {where}, to that without",
        )
        for where in (DISK, MEMORY)
        for what in (SINGLE, MANY)
    ),
    tuple(
        Limit(
            f"{ALONE}, {where}",
            P99,
            5.0,
            f"a point query to another worker that counts, {where}: p99",
        )
        for where in (DISK, MEMORY)
    ),
)

SNAPSHOT_KEYS, QUICK_SNAPSHOT_KEYS = 2_000_000, 200_000  # of 500 bytes: 1 GB
CHANGELOG, SNAPSHOT = "changelog", "snapshot"
SNAPSHOTS = Operation(
    "snapshots",
    "recovery of a lost state",
    "snapshots",
    (CHANGELOG, SNAPSHOT),
    (
        Comparison(
            CHANGELOG,
            SNAPSHOT,
            SECONDS,
            5.0,
            title="recovery of a state: seconds from its changelog to seconds from a snapshot",
        ),
    ),
)

CLOSED, KILLED = "closed", "killed"
TASKS = 20
ROUND_S = 0.02  # between two records of a partition


def move(system: str, how: str) -> str:
    """The cell of a move of tasks."""
    return f"{system}, one of two {how}"


MOVES: Mapping[str, tuple[str, str]] = {
    move(system, how): (system, how) for how in (CLOSED, KILLED) for system in (HEADRACE, JAVA)
}
MOVED_TASKS = Operation(
    "moves",
    f"{TASKS} tasks with warm standbys",
    "moves",
    tuple(MOVES),
    tuple(
        Comparison(
            move(HEADRACE, how),
            move(JAVA, how),
            PAUSE,
            0.2,
            at_least=False,
            title=f"pause of moved tasks, one of two instances {how}, against {JAVA}",
        )
        for how in (CLOSED, KILLED)
    ),
    pairs=2,
)

WORKERS = (1, 2, 4)


def workers(count: int) -> str:
    """The cell of a number of workers."""
    return f"{count} worker{'' if count == 1 else 's'}"


SCALE_OUT = Operation(
    "workers",
    "count by key by several workers",
    "workers",
    tuple(map(workers, WORKERS)),
    tuple(
        Comparison(workers(count), workers(1), metric, title=title)
        for count in WORKERS[1:]
        for metric, title in (
            (RATE, f"records/s of {count} workers to those of one"),
            (RECORDS_PER_CPU_S, f"records/CPU s of {count} workers to those of one"),
        )
    ),
)
OPERATIONS = (QUERIES, SNAPSHOTS, MOVED_TASKS, SCALE_OUT)


def judged(runs: Iterable[dict[str, Any]], group: Operation, limit: Limit) -> dict[str, Any]:
    """The median of a metric over the runs, its 95 % interval, and the verdict: the whole interval is on one
    side of the limit, or it is not resolved."""
    found = [run[limit.metric] for run in used(runs, group.id, limit.cell).values() if limit.metric in run]
    row: dict[str, Any] = {"title": limit.title, "goal": limit.goal, "unit": limit.unit}
    if not found:
        return {**row, "verdict": ABSENT, "why": "not measured in this run"}
    each = estimate(found)
    state = MET if each.high <= limit.goal else MISSED if each.low > limit.goal else UNRESOLVED
    return {**row, "value": each.median, "low": each.low, "high": each.high, "verdict": state}


class Output(NamedTuple):
    """A record of the output of a task: the instance that wrote it, and the time in ms of its append."""

    partition: int
    instance: str
    at_ms: int


def pauses(outputs: Iterable[Output], gone: str, successor: str) -> dict[int, int]:
    """The ms from the last record of `gone` to the first one of `successor`, by partition that has moved.
    Errors: ValueError for a partition that only `gone` has written."""
    last: dict[int, int] = {}
    first: dict[int, int] = {}
    for partition, instance, at_ms in outputs:
        if instance == gone:
            last[partition] = at_ms
            first.pop(partition, None)
        elif instance == successor and partition in last:
            first.setdefault(partition, at_ms)
    silent = sorted(last.keys() - first.keys())
    if silent:
        raise ValueError(f"partitions {silent} are silent since {gone} is gone")
    return {partition: max(first[partition] - last[partition], 0) for partition in last}


def percentiles(taken_ms: Sequence[float]) -> dict[str, float]:
    """p50, p99 and, of a thousand values and more, p99.9. Errors: ValueError for less than a hundred."""
    if len(taken_ms) < 100:
        raise ValueError(f"{len(taken_ms)} queries are not enough for percentiles")
    found = sorted(taken_ms)
    shares = {P50: 0.5, P99: 0.99, **({P999: 0.999} if len(found) >= 1000 else {})}
    return {name: found[int(share * len(found))] for name, share in shares.items()}
