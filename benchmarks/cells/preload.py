"""How a topic is filled before the cells of a group read it. Pure."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..constants import KAFKA
from .coordinators import transact_order, verify_committed

if TYPE_CHECKING:
    from ..harness import Harness


@dataclass(frozen=True)
class Preload(ABC):
    """`kafka_count` records of `size` bytes in Kafka's topic, `headrace_count` in headrace's."""

    size: int
    kafka_count: int
    headrace_count: int

    def count(self, system: str) -> int:
        """Records to send, without those of the producer's warm-up."""
        return self.kafka_count if system == KAFKA else self.headrace_count

    @abstractmethod
    def fill(self, harness: Harness, system: str, topic: str) -> int:
        """Send the records; how many are in the topic then. Errors: LostDataError, ChildError."""


class ProducePreload(Preload):
    """By each system's own producer."""

    def fill(self, harness: Harness, system: str, topic: str) -> int:
        servers, api = harness.system(system), "produce" if system == KAFKA else "send_many"
        order = {"loop": "produce", "api": api, "size": self.size, "count": self.count(system)}
        (report,) = harness.run_clients([order], servers, topic)
        harness.verify(servers, topic, report["expected"])
        return int(report["expected"]["count"])


@dataclass(frozen=True)
class TransactionPreload(Preload):
    """By transactions of `records` records, of which every `abort_every`-th is aborted."""

    records: int
    abort_every: int

    def fill(self, harness: Harness, system: str, topic: str) -> int:
        servers = harness.system(system)
        spec: dict[str, Any] = {"size": self.size, "count": self.count(system), "records": self.records,
                                "abort_every": self.abort_every}  # fmt: skip
        (report,) = harness.run_clients([transact_order(spec, topic)], servers, topic)
        verify_committed(harness, servers, topic, report["expected"])
        return int(report["expected"]["count"])


@dataclass(frozen=True)
class ToolPreload(Preload):
    """By ProducerPerformance with `acks`, so that both systems hold the same batches."""

    acks: str

    def fill(self, harness: Harness, system: str, topic: str) -> int:
        spec = {"size": self.size, "count": self.count(system), "acks": self.acks}
        report = harness.kafka_tools().produce(harness.system(system), topic, spec)
        return int(report["records"])
