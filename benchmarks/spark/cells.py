"""What `make bench-spark` measures: groups of cells over one warm process each, ratios, limits. Pure."""

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
# The most memory for a topic of so many times the rows, as a part of that for the smaller one.
TIMES_LARGER, GROWTH_GOAL = 4, 1.15
MEMORY = {
    "worker_mb": "a Python worker", "python_mb": "all of Python", "jvm_mb": "JVM", "store_mb": "object store"
}  # fmt: skip


# Both producers, for a start; faster than the defaults of Kafka's (16 KB, no wait).
PRODUCER = {"kafka.batch.size": "65536", "kafka.linger.ms": "5"}
# What Kafka's connector is tried with: the fastest of these in a group is what it is compared with. Tasks of
# one process share its producer. Where they are faster than the node takes it, its buffer of 32 MB fills up,
# whoever waits for room makes it send what there is, and small batches make all of it slower still.
_LARGE, _WIDE = {"kafka.batch.size": "262144"}, {"kafka.buffer.memory": str(256 << 20)}
CANDIDATES = (
    PRODUCER,
    {**PRODUCER, **_LARGE},
    {**PRODUCER, **_WIDE},
    {**PRODUCER, **_LARGE, **_WIDE},
    {**PRODUCER, "kafka.max.in.flight.requests.per.connection": "1"},
)


class Versions(NamedTuple):
    """What belongs together: the connector, its helper for tokens, Kafka's client, a pool of objects."""

    scala: str
    connector: str
    token: str
    kafka: str
    pool: str


# of Spark's line, as the environment has it. Maven has no connector of 4.3, and of its helper for tokens,
# which nothing here asks for one, no version after 4.0.0 for Scala 2.13.
VERSIONS = {
    "3.5": Versions("2.12", "3.5.7", "3.5.7", "3.4.1", "2.11.1"),
    "4": Versions("2.13", "4.2.0", "4.0.0", "3.9.2", "2.13.1"),
}


class Sizes(NamedTuple):
    """Rows of the topics that are read and of a write, for each of Spark's cores: a job costs tenths of a
    second whatever it reads. Rows of the smaller of two topics whose memory is looked at; Ray reads others
    of each system, for it takes seconds until its store is as full as it gets, and `read_kafka` would take
    minutes for as many. Pairs, and rounds that warm up. A cell is run again until that took `least_s`."""

    rows: int
    ray_rows: int
    written: int
    memory_rows: int
    ray_memory_rows: tuple[int, int]  # of headrace, of Kafka; headrace's fill the half of Ray's store
    pairs: int
    warm: int
    least_s: float
    tries: int  # of each candidate


# Pairs: so many that the interval of what is spread by a tenth or two stays within what resolves.
FULL = Sizes(
    4_000_000, 1_000_000, 2_000_000, 1_000_000, (4_000_000, 250_000), pairs=11, warm=2, least_s=1.0, tries=3
)
QUICK = Sizes(
    1_000_000, 250_000, 300_000, 250_000, (250_000, 50_000), pairs=3, warm=1, least_s=0.0, tries=1
)  # fmt: skip


@dataclass(frozen=True)
class Limit:
    """A goal that is a plain figure: the median of a cell's rows a second and core."""

    cell: str
    least: float
    title: str


@dataclass(frozen=True)
class Group:
    """Faces that one client process runs, on so many cores, against both systems in turn."""

    id: str
    title: str
    line: str  # of Spark; "" for Ray Data
    cores: int
    faces: tuple[str, ...]
    comparisons: tuple[Comparison, ...]
    limits: tuple[Limit, ...] = ()

    @property
    def cells(self) -> list[str]:
        """Of both systems."""
        return [cell(face, system) for face in self.faces for system in (KAFKA, HEADRACE)]


def cell(face: str, system: str) -> str:
    """The name of one in its group."""
    return f"{face}, {system}"


def _against_connector(title: str, face: str) -> Comparison:
    return Comparison(cell(face, HEADRACE), cell(face, KAFKA), RATE, CONNECTOR_GOAL, title=f"{title}: {face}")


def _of_spark(line: str, cores: int) -> Group:
    title = f"Spark {LINES[line]}, {cores} core{'s' if cores > 1 else ''}"
    faces = (READ_VALUE, READ_ALL, WRITE)
    least, what = (3e6, "by `mapInArrow`") if line == "35" else (1e6, "by the data source")
    limits = (Limit(cell(READ_VALUE, HEADRACE), least, f"{title}: rows/s and core read {what}"),)
    return Group(
        f"spark{line}-{cores}",
        title,
        LINES[line],
        cores,
        faces,
        tuple(_against_connector(title, face) for face in faces),
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
    """A producer's settings as one line."""
    return ", ".join(f"{name.removeprefix('kafka.')}={value}" for name, value in producer.items())


def chosen(only: str) -> list[Group]:
    """By names with commas between them, all without. Errors: KeyError."""
    names = {name.strip() for name in only.split(",") if name.strip()}
    unknown = names - {group.id for group in GROUPS}
    if unknown:
        known = ", ".join(group.id for group in GROUPS)
        raise KeyError(f"no group {', '.join(sorted(unknown))}; there are {known}")
    return [group for group in GROUPS if not names or group.id in names]
