"""docs/BENCHMARKS.md out of results.json. Pure: the same results give the same page."""

from __future__ import annotations

import statistics
from typing import Any

from .cells import GROUPS
from .coordinated import (
    COMMITS,
    HEARTBEAT_MS,
    JOIN,
    LEAVE,
    MEMBERS,
    REJOIN,
    SHARED_PARTITIONS,
    STORED,
    TRANSACTIONS,
)
from .group import (
    CLEANED_MB,
    CONNECTION_KB,
    CONNECTIONS,
    DELETED_SEGMENTS,
    GAP,
    GOAL_PAIRS_FULL,
    GOAL_PAIRS_QUICK,
    HEADRACE,
    KAFKA,
    MAP_BYTES,
    MORE_PAIRS_FULL,
    MORE_PAIRS_QUICK,
    PARTITIONS,
    QUICK_SHARE,
    VISIT_CPU,
    Group,
)
from .kafka_clients import IDLE, METER_MOST, PACE, TIMES, VISITORS
from .replicated import LOAD_AFTER_S
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
    ("records/s", "records_per_s", ",.0f"),
    ("MB/s", "mb_per_s", ",.1f"),
    ("server CPU s/GB", "server_cpu_s_per_gb", ".2f"),
    ("client CPU s/GB", "client_cpu_s_per_gb", ".2f"),
    ("ack p50 ms", "ack_p50_ms", ".2f"),
    ("ack p99 ms", "ack_p99_ms", ".2f"),
    ("e2e p50 ms", "e2e_p50_ms", ".2f"),
    ("e2e p99 ms", "e2e_p99_ms", ".2f"),
    ("e2e p99.9 ms", "e2e_p99_9_ms", ".2f"),
    ("e2e max ms", "e2e_max_ms", ".2f"),
    ("fan-out MB/s", "fan_out_mb_per_s", ",.1f"),
    ("transactions/s", TRANSACTIONS, ",.0f"),
    ("commits/s", COMMITS, ",.0f"),
    ("commits written/s", STORED, ",.0f"),
    ("all joined ms", JOIN, ",.0f"),
    ("half left ms", LEAVE, ",.0f"),
    ("half joined ms", REJOIN, ",.0f"),
    ("connections/s", CONNECTIONS, ",.0f"),
    ("connection p99 ms", "visit_p99_ms", ",.1f"),
    ("server CPU ms/connection", VISIT_CPU, ".3f"),
    ("KB per idle connection", CONNECTION_KB, ",.1f"),
    ("offset map B/key", MAP_BYTES, ",.1f"),
    ("longest without acks ms", GAP, ",.0f"),
    ("doubled records", "doubled", ",.0f"),
    ("cold read MB/s", "cold_mb_per_s", ",.0f"),
    ("from the disk MB/s", "disk_mb_per_s", ",.0f"),
    ("cleaned MB/s", CLEANED_MB, ",.0f"),
    ("deleted segments", DELETED_SEGMENTS, ",.0f"),
    ("in sync", "in_sync", ".0f"),
    ("server RSS MB", "rss_mb", ",.0f"),
    ("server fds", "fds", ",.0f"),
)
_WITH_FDS, _WITH_FAN_OUT = ("W11",), ("W8",)
METRICS = {name: title for title, name, _ in COLUMNS}
GOAL_NOTES = """\
Rows marked (beside) show another variant next to the one that is judged: `send` and its kin are judged
against `produce` without a delivery callback, the faster one; reading objects by `for record in consumer`,
as the documentation shows it; produce requests of ready batches for the share of the bare loop; the cold
reader at 10,000 records/s. The last column is for ratios that the machine bounds: the share of the MB/s
that a bare ZeroMQ loop moves in messages of 64 KB on the same cores (producing: receive and write; reading:
receive only), and the ratio to Kafka that this loop itself would have."""
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
no clients. Memory is resident and CPU is % of one core, of three processes together (Kafka: three JVMs of
1 GB heap that hold both); idle for 5 s. Then SIGKILL of one node: ms until every partition that it led has
another leader, detection included; it is started again: seconds until all replicas are in sync. Asked every
50 ms.
"""
METHOD = """\
- Two systems on one machine: one Apache Kafka {kafka} KRaft node (JVM `-Xms1G -Xmx1G`, G1, Kafka's own
  flags) and one headrace storage node, alone in its process, with its controller in another one. All
  settings of both are defaults, but that Kafka deletes the files of deleted topics at once, and that the
  coordinators' topics have one replica.
- Only one of them is under load at a time. The other one stays up and idles: a JVM that is stopped is
  cold again.
- Servers are pinned to cores {server_cores}, client processes to cores {client_cores}; one group runs
  unpinned.
- Clients are processes of their own, Python on both sides, with loops of one shape: confluent-kafka for
  Kafka, headrace for headrace. {partitions} partitions, acks=1, batch.size 65,536, linger 5 ms, no
  compression, idempotence off, where the cell does not say otherwise. confluent-kafka's queues are deep
  (1 M records, 1 GB to send, 256 MB to read; a pause of 1 ms, not 1 s, when the latter is full) and it
  checks checksums, as headrace does by default. headrace's buffer is its default (32 MiB).
- 10,000 distinct random values (8,388 of 1 KB) are sent in turn; the same for both. Readers touch every
  value.
- Every record that a produce cell sent is read back by a client and counted, and the CRC-32 of all values
  is added up; reading cells count records and bytes, latency cells the records that arrived. A run that
  lost or doubled anything fails, and no page is written.
- Producing is timed from the first `send` after 2,000 records that made the connections and looked the topic
  up, until the last record is acknowledged; reading from the first record that arrives to the last one. No
  import, connection, look-up or first fetch is inside the clock of either system.
- headrace's cells move more records where one lasted less than half a second otherwise: {counts}. Rates are
  compared.
- Latency is that of an open loop: a record's time starts when it was meant to be sent, in the producer's
  process, and ends when it is in the hands of the reader, another process (e2e), or acknowledged (ack).
  It includes linger. Acknowledgements are timed in a callback, which runs in a thread beside the sender in
  both clients; readers wait in `poll` and take what is there.
- The cleaner's cells start no server: one closed log, made once and copied for each time, is compacted by a
  process of its own, by one thread. Kafka's is its class `Cleaner`, driven by a small program in a JVM with
  a server's flags that has cleaned two copies before; headrace's is pinned to one core. MB/s is the size of
  the log over the time of both passes, the sync of what is left included; all keys fit in the map.
- Upkeep (w10-upkeep): one node of each with `log.retention.check.interval.ms` 1000 and
  `log.cleaner.backoff.ms` 100. Beside the live producer a cold reader begins the loaded topic again and
  again, each time dropped from the page cache before; one thread compacts a topic of 100,000 keys of 1 KB of
  which a segment rolls four times a second, so that a cleaning finds the next one due; and retention holds a
  topic that grows by 4 MB/s in segments of 1 MiB at 2 MiB. The folders of both show what became of their
  segments, and the kernel tells what the servers had the disk read: a cell in which nothing was cleaned,
  deleted or read from the disk while it was measured fails, and no page is written. {upkeep_warm}
- Transactions (w12): one producer sends them one after another, all records of one to one partition, the
  next for each; "spread": to all six in turn. A transaction's time, told as ack, is from its begin until its
  commit is confirmed. Readers of committed records count all records after each cell and add up the CRC-32 of
  their values: what is in no committed transaction must not be there, and all else must. w12-read reads a
  topic of transactions of 1,000 records; every tenth was aborted once its records were stored.
- Commits (w13-commits): members of groups of their own commit offsets of one partition: "sync" waits for
  each, "async" has 1,000 under way, "four" are four processes that wait for each. What counts are confirmed
  calls, and the group must have the last offset at the end; the records that the coordinator wrote meanwhile
  are counted in its log: where each call waits there must be exactly as many. headrace's client merges what
  is under way at a time, so "async" writes few. Kafka's coordinator holds its writes back for 5 ms by default
  (group.coordinator.append.linger.ms), headrace's has no such wait: "at once" is Kafka without it.
- Rebalances (w13-classic, w13-new): {members} consumers in four processes, connected before, share {shared}
  partitions that are empty; range assignor by the classic protocol, the coordinator's default by the new one.
  The time runs from the order to join or leave until the last callback told its member of its part of the
  final shares: each partition with exactly one member, none with two more than another. They stay so until
  the next change, for longer than two heartbeats are apart. All join at once, every second one leaves, those
  join again; mean of three such rounds. Members hear of a change by their heartbeats, so both systems have
  them every {heartbeat} ms, group.initial.rebalance.delay.ms 0, and Kafka no wait before it writes;
  w13-defaults has the defaults of both: 3 s for the first rebalance, heartbeats every 3 s (classic) and 5 s
  (new), of which half an interval is left when half of the members leave or join. That is most of what is
  seen there.
- The cells of w12 and w13 warm their JVM by themselves: they run before they count.
- Kafka's own clients (w18): one client with the same settings against Apache Kafka and against headrace's
  listener for such clients, which every node of headrace has here. `ProducerPerformance` and
  `ConsumerPerformance` run in one JVM (`-Xms512M -Xmx512M`) that stays warm, and three times before they
  count: acks=all, idempotent, batch.size 65,536, linger 5 ms, 1,000 distinct values from a file. The time is
  the tool's; of the consumer without that of joining its group, which is of the new protocol
  (group.protocol=consumer: a classic one waits 3 s for its first members). It reads a topic {times} times,
  whose batches `ProducerPerformance` made in both systems; a reading to which nothing came for half a minute
  is told ("stalls" in the results) and made again, once. The rows of confluent-kafka (queues as above,
  acks=all, a callback for each record) tell the rate of the open loop, half of what the slower system reached
  through this client, but no more than the clients bear on their cores: {small:,} records/s of 100 B, and
  {large:,} of 1 KB. What was produced is read back through each system's own client, and counted.
- Connections (w18-connections): beside a producer and a reader at 10,000 records/s of 1 KB through
  confluent-kafka. Idle ones ({idle:,}) have asked ApiVersions and Metadata, and must answer at the end.
  Visitors ({visitors}) connect, ask both, produce or fetch one record in turn, and disconnect: {pace:,} times
  a second, all together ("paced"), or each again at once ("churn"). They are bare sockets in one process,
  each visitor with an address of its own of 127.0.0.0/8; every answer has to be as long as the right one, and
  what they produced must be in the topic. Kafka serves in threads on both cores, headrace's node in one.
- Memory of a connection (w18-memory): of fresh servers. Of headrace's node it is what is resident; of Kafka
  what lives on the JVM's heap once all garbage was collected, which leaves out what it has elsewhere.
- Durability class A: both acknowledge what is in the page cache.
- Cells run interleaved: A B, B A, A B, ...; each ratio is the median of the ratios of the pairs, with the
  95 % interval of a bootstrap. An interval that reaches further than 15 % from its median resolves
  nothing. A verdict compares the median with the goal.
- Before: {touched} GiB of memory touched in {touch_s} s by a file that was written and deleted, because a
  page costs up to ten times as much the first time. JVM warm-up: records one by one for three seconds, then
  {warm}. headrace: one window of the same load.
- Groups with a goal run first, with {goal_pairs} pairs; the others have {more_pairs}, if not said
  otherwise, and fewer when time is short.
- Topics are deleted after the cells that use them; a cell writes less than 2 GB, which stays below the
  kernel's write-back limits.
- A cell during which the hypervisor kept more than 2 % of the CPU time is repeated, at most twice. Load
  before each cell, steal and everything else measured: [results.json](benchmarks/results.json). The load
  average is recorded only: the cell before leaves it high.
- CPU is user and system time of the server's processes: node and controller of headrace, and the one JVM
  that holds both of Kafka. Its clock ticks every 10 ms. Resident memory is that of the node and of the JVM.
- Three nodes (R3, failover): three Kafka JVMs of that kind, each broker and controller, and three storage
  nodes of headrace with three controllers in processes of their own. All servers
  of a system share the same cores as above: this compares what three replicas cost, not how nodes scale.
  Topics have three replicas and min.insync.replicas 2, producers acks=all, without idempotence, and a cell
  starts with all replicas in sync; "in sync" is the fewest of any partition when the last record was
  acknowledged. {nodes_warm}
  Both clusters are started for these groups and stopped after them; meanwhile the single nodes idle. CPU is
  that of all processes, memory that of the three nodes together.
- Fail-over: 1 KB records at a fixed rate, in turn to each of {partitions} partitions; after two seconds
  SIGKILL of the node that leads the first one (of Kafka: of a leader that is not the active controller too,
  whose loss costs more). What counts is the longest time between two acknowledgements of one of its
  partitions, the worst of them. Load goes on after it for {kafka_after:.0f} s (Kafka) and
  {headrace_after:.0f} s (headrace). Session timeouts are the defaults, 9 s and 1.5 s. The killed process is
  started again over its files; when all replicas are in sync everything is read back: one acknowledged
  record lost, and no page is written. Doubled records, which a producer without idempotence may make, are
  told.
- Limits: client and server share one machine and its loopback, the disk is virtual (fsync costs next to
  nothing), and windows last seconds, not a minute. Never compare figures of different machines.
"""


def page(results: dict[str, Any], profiles: str) -> str:
    """The whole page."""
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
    parts += ["", "## Method", "", method(results)]
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
    for row in results["comparisons"]:
        if "ratio" in row:
            doubt = "" if row["is_resolved"] else ", not resolved"
            state = f", goal {row['goal']:g}: {row['verdict']}" if row["goal"] is not None else doubt
            what = f"{row['group']:<15} {row['above']} / {row['below']}"
            lines.append(f"{what:<60} {row['metric']:<20} {row['ratio']:6.2f}  {interval(row)}{state}")
    return lines


def goal_table(results: dict[str, Any]) -> list[str]:
    """Every goal with its figure and verdict; none is left out."""
    rows = [row for row in results["comparisons"] if row["goal"] is not None]
    judged = [row for row in rows if not row["is_beside"]]
    states = [row["verdict"] for row in (*judged, *results["start_goals"])]
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
    for row in results["start_goals"]:
        value = f"{row['value']:g} {row['unit']}" if "value" in row else row["why"].replace("\n", " ")[:80]
        limit = f"< {row['goal']:g} {row['unit']}"
        lines.append(
            f"| {row['title']} | a limit | {value} | - | - | {limit} | {VERDICTS[row['verdict']]} | |"
        )
    return [*lines, "", GOAL_NOTES]


def side(row: dict[str, Any]) -> str:
    """For an unresolved ratio: on which side of the goal its whole interval lies, if on one."""
    if row["verdict"] != UNRESOLVED:
        return ""
    if row["low"] > row["goal"]:
        return " (all above the goal)" if row["at_least"] else " (all worse than the goal)"
    if row["high"] < row["goal"]:
        return " (all below the goal)" if row["at_least"] else " (all better than the goal)"
    return ""


def ceiling(row: dict[str, Any]) -> str:
    """The share of the bare loop's MB/s that is reached, and the ratio that the bare loop would reach."""
    if "of_ceiling" not in row:
        return ""
    return f"{row['of_ceiling']:.0%}; it allows {row['ceiling_ratio']:.1f}"


def interval(row: dict[str, Any]) -> str:
    """low .. high."""
    return f"{row['low']:.2f} .. {row['high']:.2f}"


def machine_table(machine: dict[str, Any]) -> list[str]:
    """What it ran on."""
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


def method(results: dict[str, Any]) -> str:
    """How it was measured, with the figures of this run."""
    machine, before = results["machine"], results["preparation"]
    warm = before.get("kafka_warm_up")
    is_quick = results["mode"]["is_quick"]
    return METHOD.format(
        nodes_warm=own_warm_up(before.get("kafka_nodes_warm_up"), "the three JVMs"),
        upkeep_warm=own_warm_up(before.get("kafka_upkeep_warm_up"), "its JVM"),
        members=MEMBERS, shared=SHARED_PARTITIONS, heartbeat=HEARTBEAT_MS,
        times=TIMES, small=METER_MOST[100], large=METER_MOST[1000], idle=IDLE, visitors=VISITORS, pace=PACE,
        kafka_after=LOAD_AFTER_S[KAFKA], headrace_after=LOAD_AFTER_S[HEADRACE],
        kafka=machine["kafka"], partitions=PARTITIONS, warm=warm_up(warm), touched=before.get("touched_gib"),
        touch_s=before.get("touch_s"), server_cores=_listed(machine["server_cores"]),
        client_cores=_listed(machine["client_cores"]), counts=unequal(is_quick=is_quick),
        goal_pairs=GOAL_PAIRS_QUICK if is_quick else GOAL_PAIRS_FULL,
        more_pairs=MORE_PAIRS_QUICK if is_quick else MORE_PAIRS_FULL,
    )  # fmt: skip


def warm_up(warm: dict[str, Any] | None) -> str:
    """What was run and what was reached."""
    if warm is None:
        return "nothing"
    reached = "agreed" if warm["agreed"] else "did NOT agree"
    return (
        f"{len(warm['windows'])} windows of producing and reading both sizes, {warm['seconds']:.0f} s in all"
        f" ({_listed(warm['windows'])} MB/s): the last three {reached} within 5 %, they lay within"
        f" {warm['spread']:.1%}"
    )


def own_warm_up(warm: dict[str, Any] | None, what: str) -> str:
    """A sentence of what was run on servers that only some groups have."""
    return f"Warm-up of {what}: {warm_up(warm)}." if warm else f"Without a warm-up of {what}."


def unequal(*, is_quick: bool) -> str:
    """The groups whose cells differ in how many records they move, with both numbers."""
    share, found = QUICK_SHARE if is_quick else 1, []
    for group in GROUPS:
        loaded = group.preload or {}
        loads = loaded.get("count", 0)
        counts = {HEADRACE: {loaded.get("more", loads)}, KAFKA: {loads}}
        for cell in group.cells:
            if cell.kind == "produce":
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
    """Some figures are recorded everywhere and shown where they are the point."""
    if metric == "fds":
        return group.workload in _WITH_FDS
    if metric == "fan_out_mb_per_s":
        return group.workload in _WITH_FAN_OUT
    return not (group.workload == "BARE" and metric == "rss_mb")


def medians_of(runs: list[dict[str, Any]], group: str, cell: str) -> dict[str, float]:
    """The median over the pairs of each figure of a cell; empty when it did not run or is absent."""
    found = [run for run in used(runs, group, cell).values() if "absent" not in run]
    names = {name for run in found for _, name, _ in COLUMNS if run.get(name) is not None}
    return {
        name: statistics.median(run[name] for run in found if run.get(name) is not None) for name in names
    }


def startup_lines(startup: dict[str, Any]) -> list[str]:
    """What was measured of start and rest."""
    lines = []
    if "local" in startup:
        local = startup["local"]
        lines.append(f"- `headrace.local()`, fresh processes: {_listed(local['seconds'])} s;"
                     f" with the import {_listed(local['with_import_s'])} s.")  # fmt: skip
    if "up" in startup:
        up = startup["up"]
        told = f"failed: {up['error']}" if "error" in up else f"{_listed(up['seconds'])} s"
        memory = (
            f"; largest node process {up['node_rss_mb']} MB (a Ray worker)" if up.get("node_rss_mb") else ""
        )
        lines.append(f"- `headrace up --nodes 3` with a Ray of its own, the whole command: {told}{memory}.")
    if "idle" in startup:
        idle = startup["idle"]
        lines.append(f"- An idle node: {idle['rss_mb']} MB, {idle['cpu_percent']} % of a core over 10 s,"
                     f" {idle['threads']} threads, {idle['fds']} descriptors.")  # fmt: skip
    return lines or ["Not measured in this run."]


def partition_lines(results: dict[str, Any]) -> list[str]:
    """What partitions cost, a row for each system and count."""
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
