"""The registry of `make bench-streams`: workloads, systems, comparisons. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from headrace.benchmarks.group import Comparison

if TYPE_CHECKING:
    from collections.abc import Iterator

HEADRACE, JAVA, QUIX = "headrace", "Kafka Streams", "Quix Streams"
RATE, RECORDS_PER_CPU_S, SECONDS, PEAK_MB = "records_per_s", "records_per_cpu_s", "seconds", "peak_mb"
PARTITIONS = 4
GOALS = {JAVA: 1.0, QUIX: 3.0}
START_MS = 1_700_000_000_000
ROWS, TEN_TIMES = "rows", "ten times the rows"  # both of headrace
BY_COLUMN_GOAL, GROWTH_GOAL = 10.0, 1.15
BY_COLUMN_RECORDS = 32_000_000  # some seconds


class Input(NamedTuple):
    """A topic of records with text keys: `keys` distinct ones in a fixed random order, `value_bytes` 0 for a
    number of 8 bytes. The timestamps of two records differ by a millisecond."""

    records: int
    keys: int
    value_bytes: int = 0

    @property
    def topic(self) -> str:
        """It names what it holds: workloads share topics."""
        return f"in-{self.records}-{self.keys}-{self.value_bytes}"


class Sizes(NamedTuple):
    """`records` of an input; a run reads what it can in `run_s` of CPU time after the first commit."""

    records: int
    restored: int  # records of the changelog to restore, of RESTORED_BYTES
    grown: int  # keys of the larger state, of GROWN_BYTES
    run_s: float
    pairs: int
    warm: int  # rounds that do not count
    is_quick: bool = False


RESTORED_BYTES = 100
GROWN_BYTES = 500  # then a tenth of the keys fills the caches of the application and of RocksDB
FULL = Sizes(8_000_000, 8_000_000, 2_000_000, 10.0, pairs=5, warm=1)
QUICK = Sizes(3_000_000, 500_000, 1_000_000, 4.0, pairs=1, warm=1, is_quick=True)


@dataclass(frozen=True)
class Group:
    """One application in each of `systems`. `goal` 0: that of the system it is compared with. `grows`: the
    systems are sizes of the state, and their peak memory is compared. `least`: headrace has at least so many
    records in its topic, because it would read the others before it has committed a few times."""

    id: str
    title: str
    workload: str
    keys: int
    systems: tuple[str, ...] = (HEADRACE, JAVA, QUIX)
    guarantee: str = "at_least_once"
    commit_ms: int = 1000
    metric: str = RECORDS_PER_CPU_S
    goal: float = 0.0
    grows: bool = False
    least: int = 0

    @property
    def comparisons(self) -> tuple[Comparison, ...]:
        """headrace against each of the others, or the larger state against the smaller."""
        if self.grows:
            return (Comparison(TEN_TIMES, ROWS, PEAK_MB, GROWTH_GOAL, at_least=False, title=self.title),)
        at_least = self.metric != SECONDS
        title = self.title if at_least else f"{self.title}: seconds"
        return tuple(
            Comparison(
                HEADRACE,
                other,
                self.metric,
                self.goal or GOALS[other],
                at_least=at_least,
                title=f"{title}, against {other}",
            )
            for other in self.systems
            if other != HEADRACE
        )

    def system_of(self, cell: str) -> str:
        """The system that runs a cell."""
        return HEADRACE if self.grows else cell

    def input(self, sizes: Sizes, cell: str) -> Input:
        """The topic that a cell reads."""
        if self.grows:
            keys = sizes.grown if cell == TEN_TIMES else sizes.grown // 10
            return Input(keys, keys, GROWN_BYTES)
        if self.workload == "restore":
            return Input(sizes.restored, self.keys, RESTORED_BYTES)
        least = self.least if cell == HEADRACE else 0
        return Input(max(sizes.records, least), self.keys)

    def table(self) -> Input:
        """The table of a join: every key once."""
        return Input(self.keys, self.keys)


EXACTLY_ONCE = "exactly_once_v2"
FEW, MANY = 20_000, 2_000_000
GROUPS = (
    Group("filter-map", "filter and map", "filter-map", FEW),
    Group("count-few", "count by key, 20,000 keys", "count", FEW),
    Group("count-many", "count by key, 2 million keys", "count", MANY),
    Group("windowed-sum", "five-minute tumbling sum", "windowed-sum", FEW),
    Group("join", "stream-table join", "join", FEW),
    Group(
        "count-eos", "count by key, exactly_once_v2", "count", FEW, guarantee="exactly_once_v2", commit_ms=100
    ),
    Group(
        "named",
        "count, sum and maximum by key",
        "named",
        FEW,
        systems=(HEADRACE, JAVA),
        goal=BY_COLUMN_GOAL,
        least=BY_COLUMN_RECORDS,
    ),
    Group(
        "arrow",
        "filter and map, an Arrow section",
        "arrow",
        FEW,
        systems=(HEADRACE, JAVA),
        commit_ms=100,
        goal=BY_COLUMN_GOAL,
        least=BY_COLUMN_RECORDS,
    ),
    Group(
        "growth",
        "peak memory at ten times the rows of a table",
        "latest",
        0,
        systems=(ROWS, TEN_TIMES),
        metric=PEAK_MB,
        grows=True,
    ),
    Group("restore", "restore of a changelog", "restore", MANY, systems=(HEADRACE, JAVA), metric=SECONDS),
)


def rounds(systems: tuple[str, ...], sizes: Sizes) -> Iterator[tuple[int, str]]:
    """(pair, system) in the order of a group: A B C, C B A, ...; pairs below zero do not count."""
    for pair in range(-sizes.warm, sizes.pairs):
        for system in systems if pair % 2 == 0 else systems[::-1]:
            yield pair, system


class Sample(NamedTuple):
    """Records whose offsets are committed, at a time, and the CPU time of the application until then."""

    records: int
    at_s: float
    cpu_s: float


def rates(samples: list[Sample], total: int) -> dict[str, float]:
    """Of the records between the first and the last commit; the one of the end of the input does not count,
    because the application may have waited for it. Errors: ValueError for less than two commits."""
    found = [sample for sample in samples if 0 < sample.records < total]
    if len(found) < 2:
        raise ValueError(f"{len(found)} commits are not enough to measure a rate")
    first, last = found[0], found[-1]
    records = last.records - first.records
    cpu_s = last.cpu_s - first.cpu_s
    return {
        "records": records,
        "cpu_s": cpu_s,
        RATE: records / (last.at_s - first.at_s),
        RECORDS_PER_CPU_S: records / cpu_s,
    }
