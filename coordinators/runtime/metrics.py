"""Metrics of a node's coordinators. Pure.

They are sums of the shards' counters; no metric costs more with more groups or transactions.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from ...protocol.model import CONSUMER_OFFSETS, TRANSACTION_STATE
from ...runtime.telemetry import coordinator_table as table
from ...runtime.telemetry.histogram import Histogram
from ...runtime.telemetry.samples import Samples

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ...runtime.telemetry.metric import Metric
    from .hosted_shard import HostedShard

_TABLES = {
    CONSUMER_OFFSETS: (table.GROUPS, table.GROUP_SHARDS, table.GROUP_METRICS),
    TRANSACTION_STATE: (table.TRANSACTIONS, table.TRANSACTION_SHARDS, table.TRANSACTION_METRICS),
}


class CoordinatorMetrics:
    """Metrics of the coordinators of one internal topic. Counts of dropped shards are kept."""

    def __init__(self, topic: str) -> None:
        self.load_times = Histogram()  # ms, of finished loads
        self._type, self._shards, self._metrics = _TABLES[topic]
        self._by_name: dict[str, Metric] = {metric.name: metric for metric in self._metrics}
        self._past: Counter[str] = Counter()

    def drop(self, shard: HostedShard) -> None:
        """Keep the counts of a dropped shard."""
        self._past.update(shard.metrics().counts)

    def write(self, samples: Samples, shards: Iterable[HostedShard]) -> None:
        """The sums over the shards."""
        states: Counter[str] = Counter({"loading": 0, "active": 0, "failed": 0})
        found = Counter(self._past)
        for shard in shards:
            states[shard.state.value] += 1
            for part in shard.metrics():
                for name, value in part.items():
                    found[name] += value
        for state, count in states.items():
            samples.set(self._shards.partitions, count, state)
        times = self.load_times
        samples.observe(self._shards.load_times, times)
        samples.set(self._shards.load_max, times.highest)
        samples.set(self._shards.load_avg, times.total / times.count if times.count else 0.0)
        for name, value in found.items():
            name, _, label = name.partition("/")
            samples.set(self._by_name[name], value, *filter(None, (label,)))

    def as_json(self, shards: Iterable[HostedShard]) -> tuple[str, dict[str, Any]]:
        """Kafka's metrics group, and the values by Kafka's names."""
        samples = Samples()
        self.write(samples, shards)
        return self._type, samples.by_kafka_name(self._metrics)


def by_topic(topics: Iterable[str], shards: Iterable[HostedShard]) -> dict[str, list[HostedShard]]:
    """The shards of each internal topic."""
    found: dict[str, list[HostedShard]] = {topic: [] for topic in topics}
    for shard in shards:
        found[shard.name.topic].append(shard)
    return found
