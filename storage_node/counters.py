"""Counters of the node core: plain numbers on the hot path, read when metrics are gathered."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING

from ..runtime.telemetry.histogram import Histogram

if TYPE_CHECKING:
    from collections.abc import Collection


@dataclass(slots=True)
class TopicTraffic:
    """Totals of one topic on this node, since its first partition came here."""

    produced_bytes: int = 0
    produced_records: int = 0
    fetched_bytes: int = 0
    rejected_bytes: int = 0  # of too large batches
    failed_produce_entries: int = 0
    failed_fetch_entries: int = 0


@dataclass(slots=True)
class NodeCounters:
    """Totals since the node started."""

    produced_bytes: int = 0
    produced_records: int = 0
    produced_batches: int = 0
    fetched_bytes: int = 0
    rejected_bytes: int = 0
    failed_produce_entries: int = 0
    failed_verifications: int = 0  # of transactional batches
    failed_fetch_entries: int = 0
    refused_requests: int = 0
    replicated_in_bytes: int = 0
    replicated_out_bytes: int = 0
    isr_shrinks: int = 0
    isr_expands: int = 0
    topics: dict[str, TopicTraffic] = field(default_factory=dict)
    flush_times: Histogram = field(default_factory=Histogram)  # of logs, by the thread that syncs

    def produced(self, topic: TopicTraffic, size_bytes: int, record_count: int) -> None:
        """One batch was appended."""
        self.produced_bytes += size_bytes
        self.produced_records += record_count
        self.produced_batches += 1
        topic.produced_bytes += size_bytes
        topic.produced_records += record_count

    def topic(self, name: str) -> TopicTraffic:
        """The totals of a topic, which all its partitions share."""
        found = self.topics.get(name)
        if found is None:
            found = self.topics[name] = TopicTraffic()
        return found

    def keep(self, names: Collection[str]) -> None:
        """Drop the totals of all other topics."""
        for name in [name for name in self.topics if name not in names]:
            del self.topics[name]

    def to_mapping(self) -> dict[str, int]:
        """The totals of the node by name."""
        names = (each.name for each in fields(self) if each.type == "int")
        return {name: getattr(self, name) for name in names}
