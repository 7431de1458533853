"""docs/BENCHMARKS.md from results.json: equal results give the same page. Pure."""

from __future__ import annotations

import statistics
from typing import Any

from ..cells.throughput import ProduceCell
from ..constants import (
    ACK_P50,
    ACK_P99,
    AUTHORIZED_US,
    CLEANED_MB,
    CLIENT_CPU_PER_GB,
    COLD_MB,
    COMMITS,
    CONNECTION_KB,
    CONNECTIONS,
    CPU_PER_GB,
    DELETED_SEGMENTS,
    DISK_MB,
    DUPLICATES,
    E2E_P50,
    E2E_P99,
    FAN_OUT_MB,
    FDS,
    GAP,
    HEADRACE,
    IN_SYNC,
    JOIN,
    KAFKA,
    LEAVE,
    LOAD_S,
    LOOK_UP_US,
    MAP_BYTES,
    MB,
    PARTITIONS,
    QUICK_SHARE,
    RATE,
    REJOIN,
    RSS_MB,
    STORED,
    TRANSACTIONS,
    VISIT_CPU,
    VISIT_P99,
)
from ..group import GOAL_PAIRS_FULL, GOAL_PAIRS_QUICK, MORE_PAIRS_FULL, MORE_PAIRS_QUICK, Group
from ..groups.coordinators import HEARTBEAT_MS, MEMBERS, SHARED_PARTITIONS
from ..groups.kafka_clients import IDLE, METER_MOST, PACE, TIMES, VISITORS
from ..groups.replicated import LOAD_AFTER_S
from ..groups.security import RULES, TLS_PACE
from ..plan import GROUPS
from .results import ABSENT, BESIDE, used
from .statistics import MET, MISSED, UNRESOLVED

VERDICTS = {
    MET: "met",
    MISSED: "**missed**",
    UNRESOLVED: "not resolved",
    ABSENT: "absent",
    BESIDE: "(beside)",
}
COLUMNS = (
    ("records/s", RATE, ",.0f"),
    ("MB/s", MB, ",.1f"),
    ("server CPU s/GB", CPU_PER_GB, ".2f"),
    ("client CPU s/GB", CLIENT_CPU_PER_GB, ".2f"),
    ("ack p50 ms", ACK_P50, ".2f"),
    ("ack p99 ms", ACK_P99, ".2f"),
    ("e2e p50 ms", E2E_P50, ".2f"),
    ("e2e p99 ms", E2E_P99, ".2f"),
    ("e2e p99.9 ms", "e2e_p99_9_ms", ".2f"),
    ("e2e max ms", "e2e_max_ms", ".2f"),
    ("fan-out MB/s", FAN_OUT_MB, ",.1f"),
    ("transactions/s", TRANSACTIONS, ",.0f"),
    ("commits/s", COMMITS, ",.0f"),
    ("commits written/s", STORED, ",.0f"),
    ("all joined ms", JOIN, ",.0f"),
    ("half left ms", LEAVE, ",.0f"),
    ("half joined ms", REJOIN, ",.0f"),
    ("connections/s", CONNECTIONS, ",.0f"),
    ("connection p99 ms", VISIT_P99, ",.1f"),
    ("server CPU ms/connection", VISIT_CPU, ".3f"),
    ("KB per idle connection", CONNECTION_KB, ",.1f"),
    ("offset map B/key", MAP_BYTES, ",.1f"),
    ("us more per authorized request", AUTHORIZED_US, ".2f"),
    ("us to look up a rule", LOOK_UP_US, ".2f"),
    ("s to load the rules", LOAD_S, ".2f"),
    ("longest without acks ms", GAP, ",.0f"),
    ("doubled records", DUPLICATES, ",.0f"),
    ("cold read MB/s", COLD_MB, ",.0f"),
    ("from the disk MB/s", DISK_MB, ",.0f"),
    ("cleaned MB/s", CLEANED_MB, ",.0f"),
    ("deleted segments", DELETED_SEGMENTS, ",.0f"),
    ("in sync", IN_SYNC, ".0f"),
    ("server RSS MB", RSS_MB, ",.0f"),
    ("server fds", FDS, ",.0f"),
)
_WITH_FDS, _WITH_FAN_OUT = ("W11",), ("W8",)
METRICS = {name: title for title, name, _ in COLUMNS}
GOAL_NOTES = """\
Rows marked (beside) show another variant next to the judged one. `send`, `send_many` and `send_arrow` are
judged against `produce` without a delivery callback, the faster one; reading of objects by
`for record in consumer`, as in the documentation; the share of the bare loop by produce requests of ready
batches; the cold reader at 10,000 records/s. The last column is for ratios that the machine limits: the share
of the MB/s that a bare ZeroMQ loop moves in messages of 64 KB on the same cores (producing: receive and
write; reading: receive only), and the ratio to Kafka that this loop itself would have."""
PARTITION_COLUMNS = (
    ("partitions", "partitions"),
    ("replicas", "replicas"),
    ("create s", "created_s"),
    ("nodes MB, empty", "empty_nodes_mb"),
    ("nodes MB", "nodes_mb"),
    ("controllers MB", "controllers_mb"),
    ("nodes CPU %", "nodes_cpu_percent"),
    ("controllers CPU %", "controllers_cpu_percent"),
    ("node fds", "fds"),
    ("leaders of the killed", "leaders"),
    ("all moved ms", "moved_ms"),
    ("in sync again s", "in_sync_again_s"),
)
PARTITIONS_NOTE = """\
One topic on three nodes and three controllers that share the servers' cores; a fresh cluster for each row,
no clients. Memory is resident and CPU is % of one core, the sum of three processes (Kafka: three JVMs of
1 GB heap that are both); idle for 5 s. Then SIGKILL of one node: ms until every partition that it led has
another leader, detection included; after its restart, seconds until all replicas are in sync. Polled every
50 ms.
"""


def page(results: dict[str, Any], method_template: str, profiles: str) -> str:
    """The whole page, with the texts of METHOD.md and PROFILES.md."""
    mode = results["mode"]
    parts = [
        "# Benchmarks: headrace beside Apache Kafka",
        "",
        "Written by `make bench` from [benchmarks/results.json](benchmarks/results.json);"
        f" measured {results['machine']['time']}, commit {results['machine']['commit']}.",
    ]
    if mode["is_quick"]:
        parts += [
            "",
            "**A QUICK run**: few pairs and short cells. Its intervals say little; run `make bench`.",
        ]
    parts += ["", "## Goals", "", *goal_table(results), "", "![ratios](benchmarks/ratios.svg)"]
    parts += ["", "## Machine", "", *machine_table(results["machine"])]
    parts += ["", "## Method", "", method(results, method_template)]
    parts += ["## Workloads", "", *[line for group in GROUPS for line in group_section(results, group)]]
    parts += ["## Latency", "", "![latency](benchmarks/latency.svg)", "", "## Start and rest", ""]
    parts += startup_lines(results["startup"])
    parts += ["", "## Many partitions", "", *partition_lines(results)]
    parts += ["", "## Not measured yet", ""]
    parts += [f"- {name}: {why}." for name, why in results["not_measured"].items()]
    parts += ["", profiles.strip()]
    return "\n".join(parts) + "\n"


def ratio_lines(results: dict[str, Any]) -> list[str]:
    """Every ratio in a line of text, for the terminal."""
    lines = []
    for row in results.get("limits", ()):
        value = f"{row['value']:g}" if "value" in row else row["why"]
        lines.append(f"{row['title']:<60} {value} {row['unit']}, at most {row['goal']:g}: {row['verdict']}")
    for row in results["comparisons"]:
        if "ratio" in row:
            doubt = "" if row["is_resolved"] else ", not resolved"
            state = f", goal {row['goal']:g}: {row['verdict']}" if row["goal"] is not None else doubt
            what = f"{row['group']:<15} {row['above']} / {row['below']}"
            lines.append(f"{what:<60} {row['metric']:<20} {row['ratio']:6.2f}  {interval(row)}{state}")
    return lines


def goal_table(results: dict[str, Any]) -> list[str]:
    """Every goal with its figure and verdict."""
    rows = [row for row in results["comparisons"] if row["goal"] is not None]
    judged = [row for row in rows if not row["is_beside"]]
    limits = [*results.get("limits", ()), *results["start_goals"]]
    states = [row["verdict"] for row in (*judged, *limits)]
    counts = ", ".join(f"{states.count(state)} {state}" for state in VERDICTS if states.count(state))
    lines = [
        f"{len(states)} goals: {counts}.",
        "",
        "| goal | against | ratio | 95 % interval | pairs | goal | verdict | of the bare ceiling |",
        "| --- | --- | ---: | --- | ---: | --- | --- | --- |",
    ]
    for row in rows:
        sign = "≥" if row["at_least"] else "≤"
        figures = (
            f"{row['ratio']:.2f} | {interval(row)} | {row['pairs']}"
            if "ratio" in row
            else f"- | {row['why']} | -"
        )
        goal, state = f"{sign} {row['goal']:g}", VERDICTS[row["verdict"]] + side(row)
        what = f"{row['title']} | `{row['below']}`"
        lines.append(f"| {what} | {figures} | {goal} | {state} | {ceiling(row)} |")
    for row in limits:
        value = f"{row['value']:g} {row['unit']}" if "value" in row else row["why"].replace("\n", " ")[:80]
        limit = f"< {row['goal']:g} {row['unit']}"
        lines.append(
            f"| {row['title']} | a limit | {value} | - | - | {limit} | {VERDICTS[row['verdict']]} | |"
        )
    return [*lines, "", GOAL_NOTES]


def side(row: dict[str, Any]) -> str:
    """For an unresolved ratio whose whole interval is on one side of the goal: which side."""
    if row["verdict"] != UNRESOLVED:
        return ""
    if row["low"] > row["goal"]:
        return " (all above the goal)" if row["at_least"] else " (all worse than the goal)"
    if row["high"] < row["goal"]:
        return " (all below the goal)" if row["at_least"] else " (all better than the goal)"
    return ""


def ceiling(row: dict[str, Any]) -> str:
    """The share of the bare loop's MB/s, and the ratio to Kafka that the bare loop would have."""
    if "of_ceiling" not in row:
        return ""
    return f"{row['of_ceiling']:.0%}; it allows {row['ceiling_ratio']:.1f}"


def interval(row: dict[str, Any]) -> str:
    """The 95 % interval as low .. high."""
    return f"{row['low']:.2f} .. {row['high']:.2f}"


def machine_table(machine: dict[str, Any]) -> list[str]:
    """Hardware, kernel and versions."""
    packages = ", ".join(f"{name} {version}" for name, version in machine["packages"].items() if version)
    rows = {
        "CPU": f"{machine['cpu']}, {machine['cores']} cores",
        "memory": f"{machine['memory_gib']} GiB, swap {machine['swap_gib']} GiB",
        "kernel": f"{machine['kernel']}, governor {machine['governor']}",
        "huge pages": machine["transparent_hugepages"],
        "Python, Java": f"{machine['python']}, {machine['java']}",
        "packages": packages,
        "load and steal": f"load before the run {machine.get('load_before', 0):.2f}, largest steal in a cell"
        f" {machine.get('largest_steal', 0):.1%}",
    }
    return ["| | |", "| --- | --- |", *[f"| {name} | {value} |" for name, value in rows.items()]]


def method(results: dict[str, Any], template: str) -> str:
    """METHOD.md with the figures of this run."""
    machine, before = results["machine"], results["preparation"]
    warm = before.get("kafka_warm_up")
    is_quick = results["mode"]["is_quick"]
    return template.format(
        nodes_warm=own_warm_up(before.get("kafka_nodes_warm_up"), "the three JVMs"),
        upkeep_warm=own_warm_up(before.get("kafka_upkeep_warm_up"), "its JVM"),
        members=MEMBERS, shared=SHARED_PARTITIONS, heartbeat=HEARTBEAT_MS,
        times=TIMES, rules=f"{RULES:,}", tls_pace=f"{TLS_PACE:,}",
        small=METER_MOST[100], large=METER_MOST[1000], idle=IDLE, visitors=VISITORS, pace=PACE,
        kafka_after=LOAD_AFTER_S[KAFKA], headrace_after=LOAD_AFTER_S[HEADRACE],
        kafka=machine["kafka"], partitions=PARTITIONS, warm=warm_up(warm), touched=before.get("touched_gib"),
        touch_s=before.get("touch_s"), server_cores=_listed(machine["server_cores"]),
        client_cores=_listed(machine["client_cores"]), counts=unequal(is_quick=is_quick),
        goal_pairs=GOAL_PAIRS_QUICK if is_quick else GOAL_PAIRS_FULL,
        more_pairs=MORE_PAIRS_QUICK if is_quick else MORE_PAIRS_FULL,
    )  # fmt: skip


def warm_up(warm: dict[str, Any] | None) -> str:
    """The windows of a JVM warm-up, and whether the last three agreed."""
    if warm is None:
        return "nothing"
    reached = "agreed" if warm["agreed"] else "did NOT agree"
    return (
        f"{len(warm['windows'])} windows of producing and reading both sizes, {warm['seconds']:.0f} s in sum"
        f" ({_listed(warm['windows'])} MB/s): the last three {reached} within 5 %, they lie within"
        f" {warm['spread']:.1%}"
    )


def own_warm_up(warm: dict[str, Any] | None, what: str) -> str:
    """A sentence about the warm-up of servers that only some groups use."""
    return f"Warm-up of {what}: {warm_up(warm)}." if warm else f"Without a warm-up of {what}."


def unequal(*, is_quick: bool) -> str:
    """The groups in which the systems move different numbers of records, with both numbers."""
    share, found = QUICK_SHARE if is_quick else 1, []
    for group in GROUPS:
        counts = {name: {group.preload.count(name) if group.preload else 0} for name in (HEADRACE, KAFKA)}
        for cell in group.cells:
            if isinstance(cell, ProduceCell) and cell.system in counts:
                counts[cell.system].add(int(cell.spec["count"] * share))
        ours, theirs = (max(counts[name]) for name in (HEADRACE, KAFKA))
        if group.has_goal and theirs and ours != theirs:
            found.append(f"{group.id} {ours / 1e6:g} M against {theirs / 1e6:g} M")
    return ", ".join(found)


def group_section(results: dict[str, Any], group: Group) -> list[str]:
    """Medians of each cell and the ratios; empty when the group did not run."""
    medians = {cell.name: medians_of(results["runs"], group.id, cell.name) for cell in group.cells}
    if not any(medians.values()):
        return []
    columns = [
        c for c in COLUMNS if any(c[1] in found for found in medians.values()) and is_shown(c[1], group)
    ]
    lines = [f"### {group.workload} `{group.id}`: {group.title}", ""]
    lines += ["| cell | " + " | ".join(title for title, _, _ in columns) + " |"]
    lines += ["| --- |" + " ---: |" * len(columns)]
    for cell in group.cells:
        found = medians[cell.name]
        if not found:
            lines.append(f"| {cell.system} `{cell.name}` | absent |" + " |" * (len(columns) - 1))
            continue
        texts = [format(found[name], form) if name in found else "" for _, name, form in columns]
        lines.append(f"| {cell.system} `{cell.name}` | " + " | ".join(texts) + " |")
    rows = [row for row in results["comparisons"] if row["group"] == group.id and "ratio" in row]
    if rows:
        lines += ["", "| ratio | of | median | 95 % interval |", "| --- | --- | ---: | --- |"]
    for row in rows:
        doubt = "" if row["is_resolved"] else " (not resolved)"
        what = f"`{row['above']}` / `{row['below']}`"
        lines.append(f"| {what} | {METRICS[row['metric']]} | {row['ratio']:.2f} | {interval(row)}{doubt} |")
    return [*lines, ""]


def is_shown(metric: str, group: Group) -> bool:
    """Descriptors and fan-out are shown only in the workloads that are about them."""
    if metric == FDS:
        return group.workload in _WITH_FDS
    if metric == FAN_OUT_MB:
        return group.workload in _WITH_FAN_OUT
    return not (group.workload == "BARE" and metric == RSS_MB)


def medians_of(runs: list[dict[str, Any]], group: str, cell: str) -> dict[str, float]:
    """The median over the pairs of each figure of a cell; empty when it did not run or is absent."""
    found = [run for run in used(runs, group, cell).values() if "absent" not in run]
    names = {name for run in found for _, name, _ in COLUMNS if run.get(name) is not None}
    return {
        name: statistics.median(run[name] for run in found if run.get(name) is not None) for name in names
    }


def startup_lines(startup: dict[str, Any]) -> list[str]:
    """Start-up times, and what an idle node uses."""
    lines = []
    if "local" in startup:
        local = startup["local"]
        lines.append(f"- `headrace.local()`, fresh processes: {_listed(local['seconds'])} s;"
                     f" with the import {_listed(local['with_import_s'])} s.")  # fmt: skip
    if "up" in startup:
        up = startup["up"]
        time = f"failed: {up['error']}" if "error" in up else f"{_listed(up['seconds'])} s"
        memory = (
            f"; largest node process {up['node_rss_mb']} MB (a Ray worker)" if up.get("node_rss_mb") else ""
        )
        lines.append(f"- `headrace up --nodes 3` with a Ray of its own, the whole command: {time}{memory}.")
    if "idle" in startup:
        idle = startup["idle"]
        lines.append(f"- An idle node: {idle['rss_mb']} MB, {idle['cpu_percent']} % of a core over 10 s,"
                     f" {idle['threads']} threads, {idle['fds']} descriptors.")  # fmt: skip
    return lines or ["Not measured in this run."]


def partition_lines(results: dict[str, Any]) -> list[str]:
    """The cost of partitions, a row for each system and count."""
    rows = results.get("partitions") or []
    if not rows:
        return ["Not measured in this run."]
    lines = [
        PARTITIONS_NOTE,
        "| " + " | ".join(["system", *(title for title, _ in PARTITION_COLUMNS)]) + " |",
    ]
    lines.append("| --- |" + " ---: |" * len(PARTITION_COLUMNS))
    for row in rows:
        texts = ["" if row.get(name) is None else f"{row[name]:,}" for _, name in PARTITION_COLUMNS]
        lines.append(f"| {row['system']} | " + " | ".join(texts) + " |")
    for row in rows:
        what = f"{row['system']}, {row['partitions']:,} partitions"
        if "error" in row:
            lines += ["", f"{what}: failed: {row['error']}."]
        if "with_three" in row:
            lines += ["", f"{what}: with three replicas: {row['with_three']}; with one instead."]
    return lines


def _listed(values: list[Any]) -> str:
    return ", ".join(map(str, values))
