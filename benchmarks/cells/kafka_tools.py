"""Cells of Apache Kafka's own performance tools, against either system's listener for Kafka clients. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..constants import OF_RATES, OF_SERVERS, PARTITIONS
from ..harness import LostDataError
from .cell import Cell
from .figures import in_sequence, with_rates
from .kafka_tool_commands import TIMEOUT_MS

if TYPE_CHECKING:
    from ..harness import Harness


class ToolProduceCell(Cell):
    """ProducerPerformance; the records are counted by the system's own client."""

    reports = OF_SERVERS | OF_RATES

    def run(self, harness: Harness) -> dict[str, Any]:
        system = harness.system(self.system)
        with harness.topic(self.system, PARTITIONS) as topic:
            with harness.profiled(system):
                report = harness.kafka_tools().produce(system, topic, self.spec)
            harness.verify(system, topic, {"count": self.spec["count"], "checksum": None})
        return with_rates(report)


class ToolConsumeCell(Cell):
    """ConsumerPerformance reads the preloaded topic `times` times.

    `stalls` in the report is 1 when one run got no records at all and was repeated.
    """

    reports = OF_SERVERS | OF_RATES

    def run(self, harness: Harness) -> dict[str, Any]:
        system, preloaded = harness.system(self.system), harness.preloaded(self.system)
        spec = {**self.spec, "count": preloaded.count}
        reports: list[dict[str, Any]] = []
        stalls = 0
        with harness.profiled(system):
            while len(reports) < self.spec["times"]:
                report = harness.kafka_tools().consume(system, preloaded.topic, spec)
                if not report["records"] and not stalls:
                    harness.say(f"  {self.name}: no records in {TIMEOUT_MS / 1000:.0f} s, repeating once")
                    stalls = 1
                elif report["records"] != preloaded.count:
                    raise LostDataError(f"{self.name}: of {preloaded.count} records, read {report['output']}")
                else:
                    reports.append(report)
        return {**with_rates(in_sequence(reports)), "stalls": stalls}
