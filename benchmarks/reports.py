"""From what client processes report to the figures of a cell. Pure."""

from __future__ import annotations

from typing import Any

from .coordinated import COMMITS, JOIN, LEAVE, REJOIN, STORED, TRANSACTIONS
from .group import CLEANED_MB, CONNECTION_KB, CONNECTIONS, DELETED_SEGMENTS, RATE

MB, GB = 1e6, 1e9
# what the terminal is told of a cell, first of all
_TOLD = ((RATE, "rec/s"), (TRANSACTIONS, "transactions/s"), (COMMITS, "commits/s"), (STORED, "written/s"),
         (JOIN, "ms to join"), (LEAVE, "ms to leave"), (REJOIN, "ms to join again"),
         (CONNECTIONS, "connections/s"), (CONNECTION_KB, "KB/connection"))  # fmt: skip


def with_rates(report: dict[str, Any]) -> dict[str, Any]:
    """A client's report with the metrics that are compared."""
    seconds, size = report["seconds"], report.get("bytes", 0)
    found = {name: value for name, value in report.items() if name not in ("ack", "e2e", "expected")}
    found["records_per_s"] = report["records"] / seconds
    if size:
        found |= {"mb_per_s": size / seconds / MB, "server_cpu_s_per_gb": report["server_cpu_s"] / size * GB}
        found["client_cpu_s_per_gb"] = report["client_cpu_s"] / size * GB
    for kind in ("ack", "e2e"):
        if kind in report:
            found |= {f"{kind}_{name}_ms": value for name, value in report[kind].items() if name != "curve"}
    return found


def total(reports: list[dict[str, Any]]) -> dict[str, Any]:
    """Several clients at once as one: sums, but the longest time, and the server's CPU as seen in it."""
    sums = ("records", "bytes", "client_cpu_s", "first", "read")
    found = {name: sum(report[name] for report in reports) for name in sums if name in reports[0]}
    return found | {name: max(report[name] for report in reports) for name in ("seconds", "server_cpu_s")}


def in_turn(reports: list[dict[str, Any]]) -> dict[str, Any]:
    """Runs one after another as one: sums."""
    names = ("records", "bytes", "seconds", "server_cpu_s", "client_cpu_s")
    return {name: sum(report[name] for report in reports) for name in names}


def worst(reports: list[dict[str, Any]]) -> dict[str, float]:
    """The largest of each percentile over some readers."""
    names = ("p50", "p90", "p99", "p99_9", "max", "mean")
    return {name: max(report["e2e"][name] for report in reports) for name in names}


def describe(found: dict[str, Any]) -> str:
    """One line for the terminal."""
    if "absent" in found:
        return f"absent: {found['absent']}"
    parts = [f"{found[name]:>12,.0f} {unit}" for name, unit in _TOLD if name in found]
    if "mb_per_s" in found:
        parts.append(f"{found['mb_per_s']:8.1f} MB/s  server {found['server_cpu_s_per_gb']:.2f} CPU s/GB")
    for kind in ("ack", "e2e"):
        if f"{kind}_p99_ms" in found:
            parts.append(f"{kind} p50 {found[f'{kind}_p50_ms']:.2f} p99 {found[f'{kind}_p99_ms']:.2f} ms")
    if "gap_ms" in found:
        parts.append(f"no acknowledgements for {found['gap_ms']:,.0f} ms, {found['doubled']} doubled")
    if "cold_mb_per_s" in found:
        parts.append(f"cold {found['cold_mb_per_s']:.0f} MB/s")
    if CLEANED_MB in found:
        parts.append(f"cleaned {found[CLEANED_MB]:.0f} MB/s, {found[DELETED_SEGMENTS]} segments deleted")
    return "  ".join(parts)
