"""docs/BENCHMARKS_STREAMS.md from streams.json: equal results give an equal page. Pure."""

from __future__ import annotations

import statistics
from typing import Any

from headrace.benchmarks.report.page import VERDICTS, interval
from headrace.benchmarks.report.results import compare, used
from headrace.benchmarks.report.statistics import SPREAD
from headrace.benchmarks.report.stored_page import goal_line, stored_page

from . import operations
from .cells import (
    BY_COLUMN_RECORDS,
    FULL,
    GROUPS,
    GROWN_BYTES,
    PARTITIONS,
    PEAK_MB,
    RATE,
    RECORDS_PER_CPU_S,
    SECONDS,
)
from .operations import OPERATIONS, judged
from .registry import ALL

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
  aggregator and a serde of 24 bytes, and with the functions of "filter and map". The topic of headrace has
  {by_column:,} records there: it would read the others before it has committed a few times.
- Memory: the last value of 500 bytes of each key is kept, of {grown:,} keys and of a tenth, and the largest
  resident size of the process is compared.
- Kafka Streams runs in one JVM per group (`-Xms1G -Xmx1G`), with {warm} run before that does not count;
  Python processes start for each run.
- Runs are interleaved: A B C, C B A, ... A ratio is the median of the ratios of the pairs, with the 95 %
  interval of a bootstrap; one that reaches further than {spread:.0%} from its median is not resolved.
- Queries: a worker on one core counts records by {query_keys:,} keys, more than its caches hold; the process
  that asks shares the other cores with the broker. Single gets come from {askers} threads, whose calls share
  requests; one at a time: every {pace:g} ms. The rate is that per CPU second of the worker, its query server
  included. A run with less than 90 % of the queries counts as not measured.
- Snapshots: {snapshot_keys:,} keys with values of {grown_bytes} bytes; the changelog has 1 % more records
  than the snapshot, which are read behind it. Snapshots are in a folder of the same disk.
- Moves: {tasks} tasks, one standby each, timeouts are the defaults, no cache; each partition gets a record
  every {round:g} ms, and each gives a record of output, whose timestamp is that of its append. The pause of a
  task: from the last record of the instance that ends to the first one of the other. Closed: both systems
  leave their group. Killed: SIGKILL. A run has its median and its longest pause.
- Workers: processes of one application. The first one has the client core, the next ones all cores in turn,
  so that on two cores the second worker competes with the broker: records per CPU second of all workers is
  what a worker costs the others, records/s what this machine gives.
- `ONLY=` measures some groups again; each names its time and commit. Never compare figures of different
  machines.
"""


def page(results: dict[str, Any]) -> str:
    """The whole page."""
    machine = results["machine"]
    warm = max((about["sizes"]["warm"] for about in results["groups"].values()), default=0)
    method = METHOD.format(
        kafka=machine["kafka"], servers=", ".join(map(str, machine["server_cores"])),
        partitions=PARTITIONS, warm=warm, spread=SPREAD, grown=FULL.grown, grown_bytes=GROWN_BYTES,
        by_column=BY_COLUMN_RECORDS,
        query_keys=operations.QUERY_KEYS, askers=operations.ASKERS, pace=operations.PACE_S * 1000,
        snapshot_keys=operations.SNAPSHOT_KEYS, tasks=operations.TASKS, round=operations.ROUND_S * 1000,
    )  # fmt: skip
    return stored_page(
        results,
        "headrace.stream beside Kafka Streams and Quix Streams",
        "`make bench-streams` from [benchmarks/streams.json](benchmarks/streams.json)",
        {"Goals": table(results), "Figures": [*figures(results), "", *operation_figures(results)]},
        method,
    )


def table(results: dict[str, Any]) -> list[str]:
    """Every goal with its ratio and verdict."""
    lines = ["| goal | ratio | 95 % interval | goal | verdict |", "| --- | ---: | --- | --- | --- |"]
    for group in ALL:
        for comparison in group.comparisons:
            if comparison.goal is None:
                continue
            row = compare(results["runs"], group, comparison)  # type: ignore[arg-type]
            lines.append(goal_line(row))
    for operation in OPERATIONS:
        for limit in operation.limits:
            row = judged(results["runs"], operation, limit)
            found = (
                f"{row['value']:.2f} {limit.unit} | {row['low']:.2f} to {row['high']:.2f}"
                if "value" in row
                else f"- | {row['why']}"
            )
            state = VERDICTS[row["verdict"]]
            lines.append(f"| {limit.title} | {found} | ≤ {limit.goal:g} {limit.unit} | {state} |")
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


def operation_figures(results: dict[str, Any]) -> list[str]:
    """Medians of each cell of the groups of operations.py, without columns that no cell has; then ratios
    without a goal."""
    rows: list[tuple[str, list[str]]] = []
    for group in OPERATIONS:
        for cell in group.systems:
            runs = list(used(results["runs"], group.id, cell).values())
            if runs:
                rows.append((f"| {group.title} | {cell} |", _medians(runs)))
    if not rows:
        return []
    kept = [place for place in range(len(operations.COLUMNS)) if any(cells[place] for _, cells in rows)]
    titles = [operations.COLUMNS[place][0] for place in kept]
    lines = [f"| group | cell | {' | '.join(titles)} |", f"| --- | --- |{' ---: |' * len(kept)}"]
    lines += [f"{head} {' | '.join(cells[place] for place in kept)} |" for head, cells in rows]
    return [*lines, "", *_shares(results)]


def _medians(runs: list[dict[str, Any]]) -> list[str]:
    found = []
    for _, name, form in operations.COLUMNS:
        values = [run[name] for run in runs if name in run]
        found.append(format(statistics.median(values), form) if values else "")
    return found


def _shares(results: dict[str, Any]) -> list[str]:
    lines = []
    for group in OPERATIONS:
        for comparison in group.comparisons:
            row = compare(results["runs"], group, comparison)  # type: ignore[arg-type]
            if comparison.goal is None and "ratio" in row:
                lines.append(f"- {comparison.title}: {row['ratio']:.2f} ({interval(row)})")
    return lines
