"""What the coordinators of a node tell of themselves, under the names of Kafka's group-coordinator-metrics
and transaction-coordinator-metrics, and how far groups are behind. Pure.

Sums of what shards count as they go; nothing here grows with the number of groups or transactions.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from ...protocol.model import CONSUMER_OFFSETS, TRANSACTION_STATE
from ...runtime.metrics import Histogram

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ...storage_node.embedded.contract import GuestHost
    from .hosted_shard import HostedShard

MAX_LAGS = 2_000  # Bound: of committed offsets that are looked at for one answer
_GROUPS = {
    CONSUMER_OFFSETS: "group-coordinator-metrics",
    TRANSACTION_STATE: "transaction-coordinator-metrics",
}


class CoordinatorMetrics:
    """Of the coordinators of one internal topic. Shards come and go; what they have counted stays."""

    def __init__(self) -> None:
        self.load_times = Histogram()  # ms, of loads that came to their end
        self._past: Counter[str] = Counter()

    def left(self, shard: HostedShard) -> None:
        """It counts no further."""
        self._past.update(shard.metrics().counts)

    def told(self, shards: Iterable[HostedShard]) -> dict[str, Any]:
        """JSON-able; a name with a slash becomes a mapping by what is behind it."""
        states: Counter[str] = Counter({"loading": 0, "active": 0, "failed": 0})
        found = Counter(self._past)
        for shard in shards:
            states[shard.state.value] += 1
            for part in shard.metrics():
                for name, value in part.items():
                    found[name] += value
        times = self.load_times.summary()
        told: dict[str, Any] = {
            "partition-load-time-max": times["max"],
            "partition-load-time-avg": times["mean"],
            "num-partitions": dict(states),
        }
        for name, value in found.items():
            name, slash, tag = name.partition("/")
            if slash:
                told.setdefault(name, {})[tag] = value
            else:
                told[name] = value
        return told


def metrics_of(
    topics: dict[str, CoordinatorMetrics], shards: Iterable[HostedShard]
) -> dict[str, dict[str, Any]]:
    """By Kafka's group of metrics."""
    by_topic: dict[str, list[HostedShard]] = {topic: [] for topic in topics}
    for shard in shards:
        by_topic[shard.name.topic].append(shard)
    return {_GROUPS[topic]: topics[topic].told(mine) for topic, mine in by_topic.items()}


def consumer_lag(host: GuestHost, shards: Iterable[HostedShard]) -> dict[str, dict[str, int]]:
    """By group and partition how many records lie between what is committed and the high watermark, where
    this node has a replica of the partition: of a follower's, as far as it knows. Of the first MAX_LAGS
    commits."""
    found: dict[str, dict[str, int]] = {}
    left = MAX_LAGS
    for shard in shards:
        for group_id, tp, offset in shard.committed_offsets():
            if left == 0:
                return found
            left -= 1
            topic = host.image.topics.get(tp.topic)
            end = None if topic is None else host.known_end((topic.topic_id, tp.partition))
            if end is not None:
                found.setdefault(group_id, {})[str(tp)] = max(end - offset, 0)
    return found
