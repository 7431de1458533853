"""Cells that produce or consume as fast as possible. Pure."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING, Any, cast

from ..constants import HEADRACE, IN_SYNC, KAFKA, OF_ACKS, OF_RATES, OF_SERVERS, PARTITIONS, RATE
from ..harness import LostDataError
from .cell import Cell
from .figures import total, with_rates

if TYPE_CHECKING:
    from ..harness import Cluster, Harness


class ProduceCell(Cell):
    """One producer sends `count` records by the API `api`; all of them are read back and compared."""

    reports = OF_SERVERS | OF_RATES | {IN_SYNC}

    def run(self, harness: Harness) -> dict[str, Any]:
        system = harness.system(self.system)
        with harness.topic(self.system, PARTITIONS) as topic:
            with harness.profiled(system):
                (sent,) = harness.run_clients([{**self.spec, "loop": "produce"}], system, topic, profile=True)
            if "absent" in sent:
                return sent
            if sent["failed"]:
                raise LostDataError(f"{sent['failed']} records failed in {self.name}")
            figures = with_rates(sent)
            if harness.nodes > 1:
                replicas = cast("Cluster", system).replicas_of(topic)
                figures[IN_SYNC] = min(partition.in_sync for partition in replicas)
            harness.verify(system, topic, sent["expected"])
        if self.system in (HEADRACE, KAFKA):
            harness.rates.produced(self.system, harness.nodes, self.spec, figures[RATE])
        return figures


class ConsumeCell(Cell):
    """`consumers` processes (default 1) share the partitions of the preloaded topic; API `api`."""

    reports = OF_SERVERS | OF_RATES

    def run(self, harness: Harness) -> dict[str, Any]:
        system, preloaded = harness.system(self.system), harness.preloaded(self.system)
        consumers = self.spec.get("consumers", 1)
        order = {**self.spec, "loop": "consume", "count": preloaded.count, "is_share": consumers > 1}
        orders = [{**order, "partitions": list(range(first, PARTITIONS, consumers))}
                  for first in range(consumers)]  # fmt: skip
        with harness.profiled(system):
            reports = harness.run_clients(orders, system, preloaded.topic, profile=True)
        if "absent" in reports[0]:
            return reports[0]
        read = total(reports)
        timed = preloaded.count - read["first"]
        if read["read"] != preloaded.count or read["bytes"] != timed * self.spec["size"]:
            raise LostDataError(f"{self.name} read {read['read']} records of {preloaded.count}: {read}")
        figures = with_rates(read)
        harness.rates.consumed(self.system, harness.nodes, self.spec, figures[RATE])
        return figures


class WindowCell(Cell):
    """`producers` processes with at most five records in flight each, for `seconds`."""

    reports = OF_SERVERS | OF_RATES | OF_ACKS

    def run(self, harness: Harness) -> dict[str, Any]:
        system = harness.system(self.system)
        orders = [{**self.spec, "loop": "window"}] * self.spec["producers"]
        with harness.topic(self.system, PARTITIONS) as topic, harness.profiled(system):
            reports = harness.run_clients(orders, system, topic, profile=True)
        figures = with_rates(total(reports))
        for name in ("p50", "p99", "max"):
            figures[f"ack_{name}_ms"] = statistics.median(report["ack"][name] for report in reports)
        return figures


class RawCell(Cell):
    """Produce requests of ready batches on a bare socket: what the node itself can take."""

    reports = OF_SERVERS | OF_RATES

    def run(self, harness: Harness) -> dict[str, Any]:
        system = harness.system(self.system)
        with harness.topic(self.system, PARTITIONS) as topic:
            with harness.profiled(system):
                (sent,) = harness.run_clients([{**self.spec, "loop": "raw"}], system, topic, profile=True)
            harness.verify(system, topic, {"count": sent["sent"], "checksum": None})
        return with_rates(sent)
