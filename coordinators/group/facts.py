"""What a group shard counts, under the names of Kafka's group-coordinator-metrics. Pure."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class GroupFacts:
    """Counters since the shard was loaded; each goes only up."""

    offset_commits: int = 0  # offsets, not requests
    offset_expirations: int = 0
    offset_deletions: int = 0
    completed_rebalances: int = 0  # of classic groups
    consumer_rebalances: int = 0  # of groups of the new protocol: their epochs that were begun

    def by_name(self) -> dict[str, int]:
        """Kafka's metric names with their values."""
        return {
            "offset-commit-count": self.offset_commits,
            "offset-expiration-count": self.offset_expirations,
            "offset-deletion-count": self.offset_deletions,
            "group-completed-rebalance-count": self.completed_rebalances,
            "consumer-group-rebalance-count": self.consumer_rebalances,
        }
