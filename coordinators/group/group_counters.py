"""Counters of a group shard, under the names of Kafka's group-coordinator-metrics. Pure."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class GroupCounters:
    """Counters since the shard was loaded; they only increase."""

    offset_commits: int = 0  # offsets, not requests
    offset_expirations: int = 0
    offset_deletions: int = 0
    completed_rebalances: int = 0  # of classic groups
    consumer_rebalances: int = 0  # group epochs of consumer-protocol groups
    streams_rebalances: int = 0  # group epochs of streams groups

    def by_name(self) -> dict[str, int]:
        """Values by Kafka's metric name."""
        return {
            "offset-commit-count": self.offset_commits,
            "offset-expiration-count": self.offset_expirations,
            "offset-deletion-count": self.offset_deletions,
            "group-completed-rebalance-count": self.completed_rebalances,
            "consumer-group-rebalance-count": self.consumer_rebalances,
            "streams-group-rebalance-count": self.streams_rebalances,
        }
