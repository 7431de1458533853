"""docs/BENCHMARKS_SPARK.md out of spark.json. Pure: the same results give the same page."""

from __future__ import annotations

import statistics
from typing import Any

from headrace.benchmarks.page import VERDICTS, interval, machine_table, side
from headrace.benchmarks.results import compare, used
from headrace.benchmarks.statistics import MET, MISSED

from .cells import FULL, GROUPS, RATE, SIZE, VERSIONS

METHOD = """\
- One Apache Kafka {kafka} node and one headrace node with defaults, as in [BENCHMARKS.md](BENCHMARKS.md),
  on cores {servers}; clients on cores {clients}. Topics of {partitions} partitions, values of {size} random
  bytes, no keys, no compression, written in batches of 64 KB; {rows:,} rows are read by Spark,
  {ray_rows:,} by Ray Data, {written:,} are written.
- A client is one process with one Spark session (`local[1]` on one core, `local[2]` on two, a heap of 1 GB,
  the Python workers on the same cores), or one Ray of two CPUs. It runs both systems' cells in turn: A B,
  B A, ..., {pairs} pairs after rounds that do not count. Both connectors are in the same session.
- "read value": the column `value` alone; "read all": the seven columns of Spark's Kafka source. Both into
  Spark's `noop` sink; the rows are counted and the lengths of the values added up on the way (`observe`), and
  have to be right. Spark 3.5 reads headrace by `headrace.spark.read`, Spark 4 by `format("headrace")`, whose
  rows come from Python as Arrow batches; Kafka by `format("kafka")`. Ray Data: sums of each block in
  `map_batches`.
- "write": rows that Spark makes, at least once in both: `headrace.spark.write` and `format("headrace")`
  against `format("kafka")`, its producer with batch.size 65,536 and linger 5 ms, which is faster than its
  defaults; it reads with its defaults. The topic is a new one each time; its end offsets are looked at.
- rows/s and core: rows by seconds, by the cores that the client has. rows/CPU s: by the CPU time of the
  client's processes, the JVM and the Python workers; the servers' is not in it.
- Ratios are medians of the pairs with the 95 % interval of a bootstrap; one that reaches further than 15 %
  from its median resolves nothing.
- Kafka's connector: {connectors}, the newest that Maven has; PySpark is the same for both systems.
- A part is measured anew by `ONLY=`; each tells when and of which commit.
- Limits: as in BENCHMARKS.md: one machine, its loopback and a virtual disk. Never compare figures of
  different machines.
"""


def page(results: dict[str, Any]) -> str:
    """The whole page."""
    sizes = FULL
    machine = results["machine"]
    connectors = ", ".join(f"{found.connector} for Spark {line}" for line, found in VERSIONS.items())
    method = METHOD.format(
        kafka="4.1.0", servers=_listed(machine["server_cores"]), clients=_listed(machine["client_cores"]),
        partitions=4, size=SIZE, rows=sizes.rows, ray_rows=sizes.ray_rows, written=sizes.written,
        pairs=sizes.pairs, connectors=connectors,
    )  # fmt: skip
    parts = [
        "# Benchmarks: Spark and Ray Data over headrace, beside Apache Kafka",
        "",
        "Written by `make bench-spark` from [benchmarks/spark.json](benchmarks/spark.json).",
        "",
        "## Goals",
        "",
        *table(results),
        "",
        "## Figures",
        "",
        *(line for group in GROUPS if group.id in results["groups"] for line in _figures(results, group)),
        "## Memory",
        "",
        *_memory(results),
        "",
        "## Machine",
        "",
        *machine_table({**machine, "load_before": _most_load(results)}),
        "",
        "## Method",
        "",
        method,
    ]
    return "\n".join(parts)


def table(results: dict[str, Any]) -> list[str]:
    """Every goal with its figure and verdict; none is left out."""
    lines = [
        "| goal | found | 95 % interval | goal | verdict |",
        "| --- | ---: | --- | --- | --- |",
    ]
    for group in GROUPS:
        for limit in group.limits:
            runs = used(results["runs"], group.id, limit.cell).values()
            least = f"≥ {limit.least / 1e6:g} M"
            if not runs:
                lines.append(f"| {limit.title} | - | not measured | {least} | absent |")
                continue
            rates = [run[RATE] for run in runs]
            middle = statistics.median(rates)
            state = VERDICTS[MET if middle >= limit.least else MISSED]
            spread = f"{min(rates) / 1e6:.2f} .. {max(rates) / 1e6:.2f} (all)"
            lines.append(f"| {limit.title} | {middle / 1e6:.2f} M | {spread} | {least} | {state} |")
        for comparison in group.comparisons:
            row = compare(results["runs"], group, comparison)
            figures = f"{row['ratio']:.2f} | {interval(row)}" if "ratio" in row else f"- | {row['why']}"
            state = VERDICTS[row["verdict"]] + side(row)
            lines.append(f"| {row['title']} | {figures} | ≥ {row['goal']:g} | {state} |")
    return lines


def _figures(results: dict[str, Any], group: Any) -> list[str]:
    about = results["groups"][group.id]
    name = f"PySpark {about['spark']}" if "spark" in about else f"Ray {about['ray']}"
    lines = [
        f"### {group.title}",
        "",
        f"{name}; measured {about['time']}, commit {about['commit']}.",
        "",
        "| cell | rows/s and core | rows/CPU s | Python MB | JVM MB |",
        "| --- | ---: | ---: | ---: | ---: |",
    ]
    for cell in group.cells:
        runs = list(used(results["runs"], group.id, cell).values())
        if runs:
            middle = {
                name: statistics.median(run[name] for run in runs)
                for name in (RATE, "rows_per_cpu_s", "python_mb", "jvm_mb")
            }
            lines.append(
                f"| {cell} | {middle[RATE]:,.0f} | {middle['rows_per_cpu_s']:,.0f} |"
                f" {middle['python_mb']:,.0f} | {middle['jvm_mb']:,.0f} |"
            )
    return [*lines, ""]


def _memory(results: dict[str, Any]) -> list[str]:
    lines = [
        "The most that one Python process and the JVM have resident while a topic is read, and then one of",
        "four times the rows; before anything else, for a process keeps what it once had. What is shared",
        "(libraries, Ray's object store) is left out. The JVM's heap grows up to 1 GB with whatever runs.",
        "",
        "| group | system | rows | Python MB | JVM MB |",
        "| --- | --- | ---: | ---: | ---: |",
    ]
    for row in results["memory"]:
        lines.append(
            f"| {row['group']} | {row['system']} | {row['rows_read']:,} | {row['python_mb']:,.0f} |"
            f" {row['jvm_mb']:,.0f} |"
        )
    return lines


def _most_load(results: dict[str, Any]) -> float:
    return max((about["load_before"] for about in results["groups"].values()), default=0.0)


def _listed(values: list[Any]) -> str:
    return ", ".join(map(str, values))
