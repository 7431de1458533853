"""docs/BENCHMARKS_STREAMS.md from streams.json: equal results give an equal page. Pure."""

from __future__ import annotations

import statistics
from typing import Any

from headrace.benchmarks.report.page import VERDICTS, interval, machine_table, side
from headrace.benchmarks.report.results import compare, used
from headrace.benchmarks.report.statistics import SPREAD

from .cells import FULL, GROUPS, PARTITIONS, PEAK_MB, RATE, RECORDS_PER_CPU_S, SECONDS

METHOD = """\
- One Apache Kafka {kafka} node for Kafka Streams and Quix Streams, one headrace node for
  `headrace.stream`, on cores {servers}. The application is one process on one core, with one thread that
  runs tasks, and stores on the disk. Topics have {partitions} partitions; keys are texts of 13 bytes, values
  numbers of 8 bytes.
- Applications: the same operators in `benchmarks/streams/StreamsBench.java`, `headrace_side.py` and
  `quix_side.py`. All settings are defaults, except commits every second (exactly once and the Arrow section:
  every 100 ms) and `linger.ms` 100 for Quix, which is the default of the two others.
- A run is timed from the first commit of its group to the last one, by the committed offsets that a second
  process asks for: start, assignment and the end of the input do not count. Records per CPU second: divided
  by the CPU time of the application's process meanwhile, all threads included. It is judged, because one
  core has one CPU second per second, and because it depends less on what else the machine does.
- Restore: the changelog is filled by a producer, then the application is started without files; the time
  is that until it runs.
- Named aggregates and the Arrow section read records by column; Kafka Streams does the same work with an
  aggregator and a serde of 24 bytes, and with the functions of "filter and map".
- Memory: the last value of 500 bytes of each key is kept, of {grown:,} keys and of a tenth, and the largest
  resident size of the process is compared.
- Kafka Streams runs in one JVM per group (`-Xms1G -Xmx1G`), with {warm} run before that does not count;
  Python processes start for each run.
- Runs are interleaved: A B C, C B A, ... A ratio is the median of the ratios of the pairs, with the 95 %
  interval of a bootstrap; one that reaches further than {spread:.0%} from its median is not resolved.
- `ONLY=` measures some groups again; each names its time and commit. Never compare figures of different
  machines.
"""


def page(results: dict[str, Any]) -> str:
    """The whole page."""
    machine = results["machine"]
    loads = [about["load_before"] for about in results["groups"].values()]
    warm = max((about["sizes"]["warm"] for about in results["groups"].values()), default=0)
    method = METHOD.format(
        kafka=machine["kafka"], servers=", ".join(map(str, machine["server_cores"])),
        partitions=PARTITIONS, warm=warm, spread=SPREAD, grown=FULL.grown,
    )  # fmt: skip
    parts = [
        "# Benchmarks: headrace.stream beside Kafka Streams and Quix Streams",
        "",
        "Written by `make bench-streams` from [benchmarks/streams.json](benchmarks/streams.json).",
        "",
        "## Goals",
        "",
        *table(results),
        "",
        "## Figures",
        "",
        *figures(results),
        "",
        "## Machine",
        "",
        *machine_table({**machine, "load_before": max(loads, default=0.0)}),
        "",
        "## Method",
        "",
        method,
    ]
    return "\n".join(parts)


def table(results: dict[str, Any]) -> list[str]:
    """Every goal with its ratio and verdict."""
    lines = ["| goal | ratio | 95 % interval | goal | verdict |", "| --- | ---: | --- | --- | --- |"]
    for group in GROUPS:
        for comparison in group.comparisons:
            row = compare(results["runs"], group, comparison)  # type: ignore[arg-type]
            found = f"{row['ratio']:.2f} | {interval(row)}" if "ratio" in row else f"- | {row['why']}"
            state = VERDICTS[row["verdict"]] + side(row)
            sign = "≥" if comparison.at_least else "≤"
            lines.append(f"| {row['title']} | {found} | {sign} {row['goal']:g} | {state} |")
    return lines


def figures(results: dict[str, Any]) -> list[str]:
    """Medians of each cell."""
    lines = [
        "| application | system | records/CPU s | records/s | seconds | peak MB | measured |",
        "| --- | --- | ---: | ---: | ---: | ---: | --- |",
    ]
    for group in GROUPS:
        about = results["groups"].get(group.id)
        for system in group.systems if about else ():
            runs = list(used(results["runs"], group.id, system).values())
            if not runs:
                continue
            cells = []
            for name in (RECORDS_PER_CPU_S, RATE, SECONDS, PEAK_MB):
                values = [run[name] for run in runs if name in run]
                cells.append(f"{statistics.median(values):,.0f}" if values else "")
            measured = f"{about['time']}, {about['commit']}"
            lines.append(f"| {group.title} | {system} | {' | '.join(cells)} | {measured} |")
    return lines
