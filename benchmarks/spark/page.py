"""docs/BENCHMARKS_SPARK.md from spark.json: equal results give an equal page. Pure."""

from __future__ import annotations

import statistics
from typing import Any

from headrace.benchmarks.constants import HEADRACE, KAFKA
from headrace.benchmarks.report.page import VERDICTS, interval, side
from headrace.benchmarks.report.results import compare, used
from headrace.benchmarks.report.statistics import MET, MISSED, SPREAD, estimate, verdict
from headrace.benchmarks.report.stored_page import goal_line, stored_page

from .cells import (
    CANDIDATES,
    GROUPS,
    GROWTH_GOAL,
    MEMORY,
    PARTITIONS,
    PRODUCER,
    RATE,
    SIZE,
    TIMES_LARGER,
    VERSIONS,
    WRITE,
)

METHOD = """\
- One Apache Kafka {kafka} node and one headrace node with defaults, as in [BENCHMARKS.md](BENCHMARKS.md),
  on cores {servers}; clients on cores {clients}. Topics of {partitions} partitions, values of {size}
  random bytes, no keys, no compression, written in batches of 64 KB. The numbers of rows, pairs and
  warm-up rounds stand above the figures of each group. Spark reads and writes the same number for each
  core: a job takes tenths of a second for any number of rows, on two cores as on one.
- A client is one process with one Spark session (`local[1]` on one core, `local[2]` on two, a heap of
  fixed size, the Python workers on the same cores), or one Ray of two CPUs. It runs both systems' cells
  in turn: A B, B A, ... Both connectors are in the same session. A run that is shorter than the minimum
  is repeated, and the sum counts.
- "read value": the column `value` alone; "read all": the seven columns of Spark's Kafka source. Both into
  Spark's `noop` sink; rows and the lengths of the values are summed on the way (`observe`) and verified.
  Spark 3.5 reads headrace by `headrace.spark.read`, Spark 4 by `format("headrace")`, whose rows come from
  Python as Arrow batches; Kafka by `format("kafka")`. Ray Data: sums of each block in `map_batches`.
- "write": rows that Spark generates, at least once in both: `headrace.spark.write` and
  `format("headrace")` against `format("kafka")`. Both start with batch.size 65,536 and linger 5 ms, which
  is faster than Kafka's defaults, and headrace keeps these. After the warm-up rounds, Kafka's connector
  is tried with {candidates} settings of its producer ({tuned}).
  It writes with the fastest of them, which is named above the group's figures: tasks of a process share a
  producer; when they are faster than the node, its buffer of 32 MB is full, a call that waits for room
  makes it send incomplete batches, and small batches make everything slower. It reads with its defaults.
  Each run writes to a new topic, whose end offsets are verified.
- rows/s and core: rows divided by seconds and by the client's cores. rows/CPU s: divided by the CPU time
  of the client's processes, the JVM and the Python workers, without the servers.
- Ratios are medians of the pairs, rates of the runs, with the 95 % interval of a bootstrap; one that
  reaches further than {spread:.0%} from its median is not resolved.
- Kafka's connector: {connectors}, the newest versions in Maven; PySpark is the same for both systems.
- `ONLY=` measures some groups again; each names its time and commit.
- Limits: as in BENCHMARKS.md: one machine, its loopback and a virtual disk. Never compare figures of
  different machines.
"""


MEMORY_NOTES = """\
A topic is read four times, and then a topic of four times the rows: before all other work of a process,
because processes keep memory; headrace before Kafka. The peak memory of the largest Python worker, of all
Python processes, of the JVM, whose heap has its full size from the start, and of the referenced blocks in
Ray's object store. Mapped libraries do not count; memory that forked workers share is divided among them.
Spark reads as for "read value". Ray Data streams blocks through its store to the driver, which sums their
lengths and keeps none (`iter_batches`). Blocks that are read faster than the driver takes them wait in
the store, up to half of it, then the tasks wait. A driver that keeps up finds a random number of 3 to 10
blocks there, and more in a longer read; so after its first block this driver pauses until the store does
not grow any more, and then takes the rest. Both topics of headrace are larger than what the store holds
by then."""


def page(results: dict[str, Any]) -> str:
    """The whole page."""
    machine = results["machine"]
    connectors = ", ".join(f"{found.connector} for Spark {line}" for line, found in VERSIONS.items())
    method = METHOD.format(
        kafka=machine["kafka"], servers=_listed(machine["server_cores"]),
        clients=_listed(machine["client_cores"]),
        partitions=PARTITIONS, size=SIZE, spread=SPREAD, connectors=connectors,
        candidates=len(CANDIDATES), tuned=_tuned(),
    )  # fmt: skip
    measured = [group for group in GROUPS if group.id in results["groups"]]
    return stored_page(
        results,
        "Spark and Ray Data over headrace, beside Apache Kafka",
        "`make bench-spark` from [benchmarks/spark.json](benchmarks/spark.json)",
        {
            "Goals": table(results),
            "Figures": [line for group in measured for line in _figures(results, group)][:-1],
            "Memory": _memory(results),
        },
        method,
    )


def table(results: dict[str, Any]) -> list[str]:
    """Every goal with its figure and verdict."""
    lines = ["| goal | found | 95 % interval | goal | verdict |", "| --- | ---: | --- | --- | --- |"]
    for group in GROUPS:
        for limit in group.limits:
            runs = used(results["runs"], group.id, limit.cell).values()
            least = f"≥ {limit.least / 1e6:g} M"
            if not runs:
                lines.append(f"| {limit.title} | - | not measured | {least} | absent |")
                continue
            rate = estimate([run[RATE] / 1e6 for run in runs])
            judged = {**rate._asdict(), "goal": limit.least / 1e6, "at_least": True}
            judged["verdict"] = verdict(rate, judged["goal"], at_least=True)
            state = VERDICTS[judged["verdict"]] + side(judged)
            lines.append(f"| {limit.title} | {rate.median:.2f} M | {interval(judged)} | {least} | {state} |")
        for comparison in group.comparisons:
            row = compare(results["runs"], group, comparison)
            lines.append(goal_line(row))
        lines.append(_growth_line(results, group))
    return lines


def growth(results: dict[str, Any], group: str, system: str) -> dict[str, float]:
    """The ratio of the peaks for the larger and the smaller topic, by kind of memory, if measured."""
    rows = [row for row in results["memory"] if (row["group"], row["system"]) == (group, system)]
    if len(rows) != 2:
        return {}
    small, large = rows
    return {name: large[name] / small[name] for name in MEMORY if small.get(name)}


def _growth_line(results: dict[str, Any], group: Any) -> str:
    title = f"{group.title}: most memory for {TIMES_LARGER} times the rows"
    found = growth(results, group.id, HEADRACE)
    if not found:
        return f"| {title} | - | not measured | ≤ {GROWTH_GOAL:g} | absent |"
    worst = max(found, key=lambda name: found[name])
    state = VERDICTS[MET if found[worst] <= GROWTH_GOAL else MISSED]
    return f"| {title} | {found[worst]:.2f} | most of all: {MEMORY[worst]} | ≤ {GROWTH_GOAL:g} | {state} |"


def _figures(results: dict[str, Any], group: Any) -> list[str]:
    about = results["groups"][group.id]
    name = f"PySpark {about['spark']}" if "spark" in about else f"Ray {about['ray']}"
    lines = [
        f"### {group.title}",
        "",
        f"{name}; measured {about['time']}, commit {about['commit']}.",
        _measured_with(results, group, about),
        "",
        "| cell | rows/s and core | rows/CPU s |",
        "| --- | ---: | ---: |",
    ]
    for cell in group.cells:
        runs = list(used(results["runs"], group.id, cell).values())
        if runs:
            rate, by_cpu = (statistics.median(run[name] for run in runs) for name in (RATE, "rows_per_cpu_s"))
            lines.append(f"| {cell} | {rate:,.0f} | {by_cpu:,.0f} |")
    return [*lines, ""]


def _measured_with(results: dict[str, Any], group: Any, about: dict[str, Any]) -> str:
    """The parameters of a group, from its runs and facts."""
    runs = [run for run in results["runs"] if run["group"] == group.id]
    parts = []
    for what, is_write in (("read", False), ("written", True)):
        rows = {run["rows"] // run["rounds"] for run in runs if run["cell"].startswith(WRITE) is is_write}
        if rows:
            parts.append(f"{_listed([f'{each:,}' for each in sorted(rows)])} rows {what}")
    pairs = len({run["pair"] for run in runs})
    parts += [
        f"{pairs} pairs",
        f"rounds before them: {about['warm']}",
        f"a cell {about['least_s']:g} s at least",
    ]
    if "kafka_producer" in about:
        parts.append(f"Kafka's producer with {about['kafka_producer']}")
    if "heap" in about:
        parts.append(f"a heap of {about['heap']}")
    if "store_mb" in about:
        parts.append(
            f"a store of {about['store_mb']:.0f} MB, for memory blocks of {about['block_mb']:.0f} MB"
        )
    parts.append(f"memory: {about['memory']}")
    return f"With {', '.join(parts)}."


def _memory(results: dict[str, Any]) -> list[str]:
    parts = list(MEMORY.values())
    lines = [MEMORY_NOTES, "", *_header("group", "system", "rows", *(f"{part}, MB" for part in parts))]
    for row in results["memory"]:
        figures = " | ".join(f"{row[name]:,.0f}" if row[name] else "" for name in MEMORY)
        lines.append(f"| {row['group']} | {row['system']} | {row['rows']:,} | {figures} |")
    lines += ["", f"For {TIMES_LARGER} times the rows so many times the memory:", ""]
    lines += _header("group", "system", *parts)
    for group in GROUPS:
        for system in (HEADRACE, KAFKA):
            found = growth(results, group.id, system)
            if found:
                figures = " | ".join(f"{found[name]:.2f}" if name in found else "" for name in MEMORY)
                lines.append(f"| {group.id} | {system} | {figures} |")
    return lines


def _header(group: str, system: str, *figures: str) -> list[str]:
    return [f"| {' | '.join((group, system, *figures))} |", "| --- | --- |" + " ---: |" * len(figures)]


def _tuned() -> str:
    """The values that the tried settings differ in."""
    found: dict[str, list[str]] = {}
    for producer in CANDIDATES:
        for name, value in producer.items():
            values = found.setdefault(name.removeprefix("kafka."), [])
            if PRODUCER.get(name) != value and value not in values:
                values.append(value)
    return "; ".join(f"{name} {_listed(values)}" for name, values in found.items() if values)


def _listed(values: list[Any]) -> str:
    return ", ".join(map(str, values))
