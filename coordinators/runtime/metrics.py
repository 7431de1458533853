"""Metrics of a node's coordinators, under the names of Kafka's group-coordinator-metrics and
transaction-coordinator-metrics, and consumer lag. Pure.

They are sums of the shards' counters; no metric costs more with more groups or transactions.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from ...protocol.model import CONSUMER_OFFSETS, TRANSACTION_STATE
from ...runtime.metrics import Histogram

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ...storage_node.embedded.contract import CoordinatorHost
    from .hosted_shard import HostedShard

MAX_LAGS = 2_000  # Bound: committed offsets per response
_GROUPS = {
    CONSUMER_OFFSETS: "group-coordinator-metrics",
    TRANSACTION_STATE: "transaction-coordinator-metrics",
}


class CoordinatorMetrics:
    """Metrics of the coordinators of one internal topic. Counts of dropped shards are kept."""

    def __init__(self) -> None:
        self.load_times = Histogram()  # ms, of finished loads
        self._past: Counter[str] = Counter()

    def drop(self, shard: HostedShard) -> None:
        """Keep the counts of a dropped shard."""
        self._past.update(shard.metrics().counts)

    def as_json(self, shards: Iterable[HostedShard]) -> dict[str, Any]:
        """JSON-able; a name with a slash becomes a mapping by the part behind it."""
        states: Counter[str] = Counter({"loading": 0, "active": 0, "failed": 0})
        found = Counter(self._past)
        for shard in shards:
            states[shard.state.value] += 1
            for part in shard.metrics():
                for name, value in part.items():
                    found[name] += value
        times = self.load_times.summary()
        as_json: dict[str, Any] = {
            "partition-load-time-max": times["max"],
            "partition-load-time-avg": times["mean"],
            "num-partitions": dict(states),
        }
        for name, value in found.items():
            name, slash, tag = name.partition("/")
            if slash:
                as_json.setdefault(name, {})[tag] = value
            else:
                as_json[name] = value
        return as_json


def metrics_of(
    topics: dict[str, CoordinatorMetrics], shards: Iterable[HostedShard]
) -> dict[str, dict[str, Any]]:
    """Metrics by Kafka's metrics group."""
    by_topic: dict[str, list[HostedShard]] = {topic: [] for topic in topics}
    for shard in shards:
        by_topic[shard.name.topic].append(shard)
    return {_GROUPS[topic]: topics[topic].as_json(mine) for topic, mine in by_topic.items()}


def consumer_lag(host: CoordinatorHost, shards: Iterable[HostedShard]) -> dict[str, dict[str, int]]:
    """Records between committed offset and high watermark by group and partition, of partitions with a
    replica on this node (a follower's high watermark may lag). Limited to the first MAX_LAGS offsets."""
    found: dict[str, dict[str, int]] = {}
    drop = MAX_LAGS
    for shard in shards:
        for group_id, tp, offset in shard.committed_offsets():
            if drop == 0:
                return found
            drop -= 1
            topic = host.image.topics.get(tp.topic)
            end = None if topic is None else host.known_end((topic.topic_id, tp.partition))
            if end is not None:
                found.setdefault(group_id, {})[str(tp)] = max(end - offset, 0)
    return found
