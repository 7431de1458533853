"""From the reports of client processes to the figures of a cell. Pure."""

from __future__ import annotations

from typing import Any

from ..constants import (
    CLEANED_MB,
    CLIENT_CPU_PER_GB,
    COLD_MB,
    COMMITS,
    CONNECTION_KB,
    CONNECTIONS,
    CPU_PER_GB,
    DELETED_SEGMENTS,
    DUPLICATES,
    GAP,
    JOIN,
    LEAVE,
    MB,
    RATE,
    REJOIN,
    STORED,
    TRANSACTIONS,
)

BYTES_PER_MB, BYTES_PER_GB = 1e6, 1e9
# what the terminal shows of a cell, in this order
_SHOWN = ((RATE, "rec/s"), (TRANSACTIONS, "transactions/s"), (COMMITS, "commits/s"), (STORED, "written/s"),
          (JOIN, "ms to join"), (LEAVE, "ms to leave"), (REJOIN, "ms to rejoin"),
          (CONNECTIONS, "connections/s"), (CONNECTION_KB, "KB/connection"))  # fmt: skip


def with_rates(report: dict[str, Any]) -> dict[str, Any]:
    """The figures of a client's report: rates, CPU seconds per GB, latencies by percentile."""
    seconds, size = report["seconds"], report.get("bytes", 0)
    figures = {name: value for name, value in report.items() if name not in ("ack", "e2e", "expected")}
    figures[RATE] = report["records"] / seconds
    if size:
        figures |= {
            MB: size / seconds / BYTES_PER_MB,
            CPU_PER_GB: report["server_cpu_s"] / size * BYTES_PER_GB,
        }
        figures[CLIENT_CPU_PER_GB] = report["client_cpu_s"] / size * BYTES_PER_GB
    for kind in ("ack", "e2e"):
        if kind in report:
            figures |= {f"{kind}_{name}_ms": value for name, value in report[kind].items() if name != "curve"}
    return figures


def total(reports: list[dict[str, Any]]) -> dict[str, Any]:
    """Parallel clients as one: sums, the longest time, and the most of the server's CPU time."""
    summed = ("records", "bytes", "client_cpu_s", "first", "read")
    found = {name: sum(report[name] for report in reports) for name in summed if name in reports[0]}
    return found | {name: max(report[name] for report in reports) for name in ("seconds", "server_cpu_s")}


def in_sequence(reports: list[dict[str, Any]]) -> dict[str, Any]:
    """Consecutive runs as one: sums."""
    names = ("records", "bytes", "seconds", "server_cpu_s", "client_cpu_s")
    return {name: sum(report[name] for report in reports) for name in names}


def worst(reports: list[dict[str, Any]]) -> dict[str, float]:
    """The largest of each percentile over some readers."""
    names = ("p50", "p90", "p99", "p99_9", "max", "mean")
    return {name: max(report["e2e"][name] for report in reports) for name in names}


def describe(figures: dict[str, Any]) -> str:
    """One line for the terminal."""
    if "absent" in figures:
        return f"absent: {figures['absent']}"
    parts = [f"{figures[name]:>12,.0f} {unit}" for name, unit in _SHOWN if name in figures]
    if MB in figures:
        parts.append(f"{figures[MB]:8.1f} MB/s  server {figures[CPU_PER_GB]:.2f} CPU s/GB")
    for kind in ("ack", "e2e"):
        if f"{kind}_p99_ms" in figures:
            parts.append(f"{kind} p50 {figures[f'{kind}_p50_ms']:.2f} p99 {figures[f'{kind}_p99_ms']:.2f} ms")
    if GAP in figures:
        parts.append(f"no acknowledgements for {figures[GAP]:,.0f} ms, {figures[DUPLICATES]} duplicates")
    if COLD_MB in figures:
        parts.append(f"cold {figures[COLD_MB]:.0f} MB/s")
    if CLEANED_MB in figures:
        parts.append(f"cleaned {figures[CLEANED_MB]:.0f} MB/s, {figures[DELETED_SEGMENTS]} segments deleted")
    return "  ".join(parts)
