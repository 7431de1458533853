"""The metrics of a node's group and transaction coordinators. Pure data; `table.py` has all metrics."""

from __future__ import annotations

from .metric import Metric, counter, gauge, histogram

GROUPS, TRANSACTIONS = "group-coordinator-metrics", "transaction-coordinator-metrics"
_GROUPS, _TRANSACTIONS = ("kafka.server", GROUPS), ("kafka.server", TRANSACTIONS)
_MANAGER = ("kafka.coordinator.group", "GroupMetadataManager")


class ShardTable:
    """The metrics that the coordinators of each internal topic have, of type `of`."""

    def __init__(self, of: str) -> None:
        self.partitions = gauge(
            "kafka.server",
            of,
            "num-partitions",
            "Partitions of the internal topic that this node coordinates, by state.",
            labels=("state",),
            unit="{partition}",
        )
        self.load_times = histogram(
            "kafka.server", of, "partition-load-time", "Loads of the state of a partition.", unit="ms"
        )
        self.load_max = gauge("kafka.server", of, "partition-load-time-max", "Longest load.", unit="ms")
        self.load_avg = gauge("kafka.server", of, "partition-load-time-avg", "Average load.", unit="ms")

    def all(self) -> tuple[Metric, ...]:
        return self.partitions, self.load_times, self.load_max, self.load_avg


GROUP_SHARDS, TRANSACTION_SHARDS = ShardTable(GROUPS), ShardTable(TRANSACTIONS)

# --- groups ----------------------------------------------------------------------------------------------

NUM_OFFSETS = gauge(*_MANAGER, "NumOffsets", "Committed offsets.", unit="{offset}")
NUM_GROUPS = gauge(*_MANAGER, "NumGroups", "Groups of the classic protocol.", unit="{group}")
CLASSIC_STATES = {
    state: gauge(*_MANAGER, f"NumGroups{state}", f"Classic groups in state {state}.", unit="{group}")
    for state in ("PreparingRebalance", "CompletingRebalance", "Stable", "Dead", "Empty")
}
NUM_MEMBERS = gauge("headrace", "GroupMetadataManager", "NumMembers", "Members of groups.", unit="{member}")
GROUP_COUNT = gauge(*_GROUPS, "group-count", "Groups by protocol.", labels=("protocol",), unit="{group}")
CONSUMER_GROUPS = gauge(
    *_GROUPS,
    "consumer-group-count",
    "Groups of the consumer protocol by state.",
    labels=("state",),
    unit="{group}",
)
STREAMS_GROUPS = gauge(
    *_GROUPS, "streams-group-count", "Streams groups by state.", labels=("state",), unit="{group}"
)
OFFSET_COMMITS = counter(*_GROUPS, "offset-commit-count", "Committed offsets.", unit="{offset}")
OFFSET_EXPIRATIONS = counter(*_GROUPS, "offset-expiration-count", "Expired offsets.", unit="{offset}")
OFFSET_DELETIONS = counter(*_GROUPS, "offset-deletion-count", "Deleted offsets.", unit="{offset}")
CLASSIC_REBALANCES = counter(
    *_GROUPS, "group-completed-rebalance-count", "Rebalances of classic groups.", unit="{rebalance}"
)
CONSUMER_REBALANCES = counter(
    *_GROUPS, "consumer-group-rebalance-count", "Group epochs of consumer groups.", unit="{rebalance}"
)
STREAMS_REBALANCES = counter(
    *_GROUPS, "streams-group-rebalance-count", "Group epochs of streams groups.", unit="{rebalance}"
)

# --- lag: Kafka has no such metrics; the names are those of kafka_exporter ---------------------------------

_LAG_LABELS = ("group", "topic", "partition")
LAG = gauge(
    "headrace",
    "consumergroup",
    "lag",
    "Records that a group has not read (docs/OPERATIONS.md), of partitions with the largest lag.",
    labels=_LAG_LABELS,
    unit="{record}",
    prometheus_name="kafka_consumergroup_lag",
)
LAG_SECONDS = gauge(
    "headrace",
    "consumergroup",
    "lag-seconds",
    "Age of the first record that a group has not read; 0 without one.",
    labels=_LAG_LABELS,
    unit="s",
    prometheus_name="kafka_consumergroup_lag_seconds",
)
LAG_SUM = gauge(
    "headrace",
    "consumergroup",
    "lag-sum",
    "Records that a group has not read, in all partitions.",
    labels=("group",),
    unit="{record}",
    prometheus_name="kafka_consumergroup_lag_sum",
)
LAG_SECONDS_MAX = gauge(
    "headrace",
    "consumergroup",
    "lag-seconds-max",
    "The largest age of a group's partitions.",
    labels=("group",),
    unit="s",
    prometheus_name="kafka_consumergroup_lag_seconds_max",
)
LAG_LEFT_OUT = gauge(
    "headrace",
    "consumergroup",
    "lag-left-out",
    "Groups and partitions of groups beyond group.lag.max.series, whose lag has no series.",
    prometheus_name="kafka_consumergroup_lag_left_out",
)
LAG_METRICS = (LAG, LAG_SECONDS, LAG_SUM, LAG_SECONDS_MAX, LAG_LEFT_OUT)

# --- transactions: Kafka has no such metrics -------------------------------------------------------------

TRANSACTION_STATES = gauge(
    "headrace",
    TRANSACTIONS,
    "transactional-ids",
    "Transactional ids by state.",
    labels=("state",),
    unit="{transaction}",
)
COMMITS = counter(
    "headrace", TRANSACTIONS, "transaction-commit-count", "Committed transactions.", unit="{transaction}"
)
ABORTS = counter(
    "headrace", TRANSACTIONS, "transaction-abort-count", "Aborted transactions.", unit="{transaction}"
)
WAITING = gauge(
    "headrace", "coordinators", "waiting-requests", "Requests that wait in coordinators.", unit="{request}"
)

GROUP_METRICS = (
    *GROUP_SHARDS.all(),
    NUM_OFFSETS,
    NUM_GROUPS,
    *CLASSIC_STATES.values(),
    NUM_MEMBERS,
    GROUP_COUNT,
    CONSUMER_GROUPS,
    STREAMS_GROUPS,
    OFFSET_COMMITS,
    OFFSET_EXPIRATIONS,
    OFFSET_DELETIONS,
    CLASSIC_REBALANCES,
    CONSUMER_REBALANCES,
    STREAMS_REBALANCES,
)
TRANSACTION_METRICS = (*TRANSACTION_SHARDS.all(), TRANSACTION_STATES, COMMITS, ABORTS)
COORDINATOR_METRICS = (*GROUP_METRICS, *LAG_METRICS, *TRANSACTION_METRICS, WAITING)
