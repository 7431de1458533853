"""The registry of `make bench-spark`: groups of cells in one warm process each, ratios, limits. Pure."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from headrace.benchmarks.constants import HEADRACE, KAFKA
from headrace.benchmarks.group import Comparison

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

RATE = "rows_per_s_core"
PARTITIONS = 4
SIZE = 100
READ_VALUE, READ_ALL, WRITE = "read value", "read all", "write"
LINES = {"35": "3.5", "4": "4"}
CONNECTOR_GOAL, RAY_GOAL = 1.5, 5.0
# peak memory for a topic with TIMES_LARGER times the rows, as a ratio to that of the smaller one
TIMES_LARGER, GROWTH_GOAL = 4, 1.15
MEMORY = {
    "worker_mb": "a Python worker", "python_mb": "all of Python", "jvm_mb": "JVM", "store_mb": "object store"
}  # fmt: skip


# the initial settings of both producers; faster than Kafka's defaults (16 KB, no linger)
PRODUCER = {"kafka.batch.size": "65536", "kafka.linger.ms": "5"}
# Settings of Kafka's connector; the fastest of a group is compared with headrace. Tasks of one process share
# a producer. When they are faster than the node, its buffer of 32 MB fills up; a call that waits for room
# makes it send incomplete batches, and small batches make everything slower.
_LARGE, _WIDE = {"kafka.batch.size": "262144"}, {"kafka.buffer.memory": str(256 << 20)}
CANDIDATES = (
    PRODUCER,
    {**PRODUCER, **_LARGE},
    {**PRODUCER, **_WIDE},
    {**PRODUCER, **_LARGE, **_WIDE},
    {**PRODUCER, "kafka.max.in.flight.requests.per.connection": "1"},
)


class Versions(NamedTuple):
    """Compatible versions: the connector, its token provider, Kafka's client, commons-pool."""

    scala: str
    connector: str
    token: str
    kafka: str
    pool: str


# By Spark version of the environment. Maven has no connector 4.3, and no token provider (unused here) after
# 4.0.0 for Scala 2.13.
VERSIONS = {
    "3.5": Versions("2.12", "3.5.7", "3.5.7", "3.4.1", "2.11.1"),
    "4": Versions("2.13", "4.2.0", "4.0.0", "3.9.2", "2.13.1"),
}


class Sizes(NamedTuple):
    """`rows` read and `written` per Spark core (a job takes tenths of a second for any number of rows).

    `memory_rows` of the smaller topic of the memory measurement; Ray has its own numbers: its store needs
    seconds to fill up, and `read_kafka` would take minutes for as many rows. `warm` rounds do not count. A
    cell is repeated until it took `least_s` in sum.
    """

    rows: int
    ray_rows: int
    written: int
    memory_rows: int
    ray_memory_rows: tuple[int, int]  # (headrace, Kafka); headrace's fill half of Ray's store
    pairs: int
    warm: int
    least_s: float
    tries: int  # of each candidate


# enough pairs to resolve ratios that vary by 10 to 20 %
FULL = Sizes(
    4_000_000, 1_000_000, 2_000_000, 1_000_000, (4_000_000, 250_000), pairs=11, warm=2, least_s=1.0, tries=3
)
QUICK = Sizes(
    1_000_000, 250_000, 300_000, 250_000, (250_000, 50_000), pairs=3, warm=1, least_s=0.0, tries=1
)  # fmt: skip


@dataclass(frozen=True)
class Limit:
    """A lower limit for the median of a cell's rows per second and core."""

    cell: str
    least: float
    title: str


@dataclass(frozen=True)
class Group:
    """Operations that one client process runs on `cores` cores, against both systems in turn."""

    id: str
    title: str
    line: str  # of Spark; "" for Ray Data
    cores: int
    operations: tuple[str, ...]
    comparisons: tuple[Comparison, ...]
    limits: tuple[Limit, ...] = ()

    @property
    def cells(self) -> list[str]:
        """Of both systems."""
        return [cell(operation, system) for operation in self.operations for system in (KAFKA, HEADRACE)]


def cell(operation: str, system: str) -> str:
    """The name of a cell in its group."""
    return f"{operation}, {system}"


def _against_connector(title: str, operation: str) -> Comparison:
    above, below = cell(operation, HEADRACE), cell(operation, KAFKA)
    return Comparison(above, below, RATE, CONNECTOR_GOAL, title=f"{title}: {operation}")


def _of_spark(line: str, cores: int) -> Group:
    title = f"Spark {LINES[line]}, {cores} core{'s' if cores > 1 else ''}"
    operations = (READ_VALUE, READ_ALL, WRITE)
    least, what = (3e6, "by `mapInArrow`") if line == "35" else (1e6, "by the data source")
    limits = (Limit(cell(READ_VALUE, HEADRACE), least, f"{title}: rows/s and core read {what}"),)
    return Group(
        f"spark{line}-{cores}",
        title,
        LINES[line],
        cores,
        operations,
        tuple(_against_connector(title, operation) for operation in operations),
        limits,
    )


_RAY = Group(
    "ray",
    "Ray Data, 2 cores",
    "",
    2,
    (READ_ALL,),
    (
        Comparison(
            cell(READ_ALL, HEADRACE),
            cell(READ_ALL, KAFKA),
            RATE,
            RAY_GOAL,
            title="Ray Data: read, against `read_kafka`",
        ),
    ),
)
GROUPS = (*(_of_spark(line, cores) for line in LINES for cores in (1, 2)), _RAY)


def fastest(rates: Sequence[Sequence[float]]) -> int:
    """The candidate with the highest median of its rates; the first of equals."""
    medians = [statistics.median(each) for each in rates]
    return medians.index(max(medians))


def as_text(producer: Mapping[str, str]) -> str:
    """A producer's settings in one line."""
    return ", ".join(f"{name.removeprefix('kafka.')}={value}" for name, value in producer.items())


def chosen(only: str) -> list[Group]:
    """Groups by comma-separated ids; all if there are none. Errors: KeyError."""
    names = {name.strip() for name in only.split(",") if name.strip()}
    unknown = names - {group.id for group in GROUPS}
    if unknown:
        known = ", ".join(group.id for group in GROUPS)
        raise KeyError(f"no group {', '.join(sorted(unknown))}; there are {known}")
    return [group for group in GROUPS if not names or group.id in names]
