"""Cells that measure latency: open loop at a fixed rate, and one record in flight. Pure."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from ..constants import (
    CLEANED_MB,
    COLD_MB,
    CONNECTIONS,
    DELETED_SEGMENTS,
    DISK_MB,
    FAN_OUT_MB,
    FDS,
    KAFKA,
    OF_LATENCY,
    OF_RATES,
    OF_SERVERS,
    PARTITIONS,
    RSS_MB,
    THREADS,
    VISIT_CPU,
    VISIT_P99,
)
from ..harness import LostDataError
from . import connections, upkeep
from .cell import Cell
from .figures import BYTES_PER_MB, with_rates, worst

if TYPE_CHECKING:
    from ..harness import Harness, Report

EXTRA_TIMEOUT_S = 15  # a reader waits this long after the last record was due


class OpenLoopCell(Cell):
    """A producer at a fixed `rate`, or at a `share` of what the slower system reached, and `readers`.

    In parallel, as `spec` says: a `cold` reader of the preloaded topic, `upkeep` (the cleaner and retention
    at work), `connections` of other clients.
    """

    reports = OF_SERVERS | OF_RATES | OF_LATENCY | {
        FAN_OUT_MB, COLD_MB, DISK_MB, CLEANED_MB, DELETED_SEGMENTS, CONNECTIONS, VISIT_P99, VISIT_CPU
    }  # fmt: skip

    def run(self, harness: Harness) -> dict[str, Any]:
        system, spec = harness.system(self.system), dict(self.spec)
        if "rate" not in spec:
            spec["rate"] = harness.rates.share(harness.nodes, spec)
        timed = int(spec["rate"] * (spec["warm_s"] + spec["seconds"])) - int(spec["rate"] * spec["warm_s"])
        timeout_s = spec["warm_s"] + spec["seconds"] + EXTRA_TIMEOUT_S
        # by name, so that each report is found again; readers first, the producer last
        orders = {f"reader {number}": {**spec, "loop": "follow", "timed": timed, "timeout_s": timeout_s}
                  for number in range(spec.get("readers", 1))}  # fmt: skip
        with contextlib.ExitStack() as stack:
            topic = stack.enter_context(harness.topic(self.system, spec["partition_count"]))
            if spec.get("cold"):
                orders["cold"] = self._cold_reader(harness)
            if "upkeep" in spec:
                orders["upkeep"] = stack.enter_context(upkeep.order(harness, self.system, spec))
            if "connections" in spec:
                orders["connections"] = stack.enter_context(connections.order(harness, self.system, spec))
            orders["producer"] = {**spec, "loop": "openloop"}
            with harness.profiled(system):
                found = harness.run_clients(list(orders.values()), system, topic, profile=True)
            reports = dict(zip(orders, found, strict=True))
            visits: dict[str, float] = {}
            if "connections" in spec:
                visits = connections.figures(system, orders["connections"], reports["connections"])
            usage = harness.usage(system.node_pids)
        readers = [report for name, report in reports.items() if name.startswith("reader")]
        figures = with_rates(reports["producer"]) | visits | self._read_figures(readers, timed)
        figures |= {RSS_MB: usage.rss / BYTES_PER_MB, FDS: usage.fds, THREADS: usage.threads}
        figures["rate"] = spec["rate"]
        if spec.get("cold"):
            figures[COLD_MB] = reports["cold"]["bytes"] / reports["cold"]["seconds"] / BYTES_PER_MB
        if "upkeep" in spec:
            cold_bytes = reports["cold"]["bytes"]
            figures |= upkeep.figures(self.name, reports["upkeep"], spec["seconds"], cold_bytes)
        return figures

    def _cold_reader(self, harness: Harness) -> dict[str, Any]:
        preloaded, folder = harness.preloaded(self.system), harness.node_dir(self.system)
        harness.drop_page_cache(self.system, preloaded.topic)
        return {"loop": "reread", "api": "consume" if self.system == KAFKA else "poll",
                "partitions": list(range(PARTITIONS)), "count": preloaded.count,
                "folder": str(folder), "topic": preloaded.topic,
                "seconds": self.spec["seconds"] + self.spec["warm_s"]}  # fmt: skip

    def _read_figures(self, reports: list[Report], timed: int) -> dict[str, Any]:
        for report in reports:
            if report["arrived"] != timed:
                raise LostDataError(f"{self.name}: {report['arrived']} of {timed} records arrived")
        span_s = max(report["span_s"] for report in reports)
        size = sum(report["bytes"] for report in reports)
        return {
            **{f"e2e_{name}_ms": value for name, value in worst(reports).items()},
            "curve": reports[0]["e2e"]["curve"],
            FAN_OUT_MB: size / span_s / BYTES_PER_MB if span_s else 0.0,
        }


class PingCell(Cell):
    """One record in flight: sent, acknowledged and read before the next one is sent."""

    reports = OF_SERVERS | OF_LATENCY | {"records_per_s"}

    def run(self, harness: Harness) -> dict[str, Any]:
        system = harness.system(self.system)
        with harness.topic(self.system, self.spec["partition_count"]) as topic, harness.profiled(system):
            (report,) = harness.run_clients([{**self.spec, "loop": "ping"}], system, topic, profile=True)
        return {**with_rates(report), "curve": report["e2e"]["curve"]}
