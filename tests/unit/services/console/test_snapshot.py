"""What lists show of one reading of the cluster: counts, lags, rates."""

from typing import Any

import pytest
from headrace.clients.admin.admin_types import (
    ClusterDescription,
    LogDirInfo,
    LogDirReplicaInfo,
    NodeInfo,
    NodeState,
    PartitionDescription,
    TopicDescription,
)
from headrace.clients.admin.group_types import GroupListing, GroupState, GroupType
from headrace.clients.cluster.network import Address
from headrace.protocol.model import TopicPartition
from headrace.services.console.pages.cluster import problems_of
from headrace.services.console.snapshot import Offsets, Snapshot, commit_rate, rates_between, sparkline

ORDERS = [TopicPartition("orders", number) for number in range(3)]


def partition(number: int, leader: int, isr: tuple[int, ...]) -> PartitionDescription:
    return PartitionDescription("orders", number, leader, 1, 1, (1, 2), isr)


def snapshot(**changes: Any) -> Snapshot:
    """Two nodes, one of them down; partition 0 in sync, 1 under-replicated, 2 offline."""
    parts = (partition(0, 1, (1, 2)), partition(1, 1, (1,)), partition(2, -1, ()))
    nodes = (
        NodeInfo(1, Address("a", 9092), None),
        NodeInfo(2, Address("b", 9092), "r2", NodeState.FENCED),
    )
    dirs = tuple(
        LogDirInfo(path, None, (LogDirReplicaInfo("orders", 0, 100, 0, False),), 1_000, 40, False, "")
        for path in ("/d1", "/d2")
    )
    facts: dict[str, Any] = {
        "taken_ms": 10_000,
        "took_ms": 5,
        "cluster": ClusterDescription("id", 1, nodes),
        "topics": {"orders": TopicDescription("orders", b"", False, parts)},
        "offsets": {ORDERS[0]: Offsets(10, 110), ORDERS[1]: Offsets(0, 50)},
        "log_dirs": {1: dirs},
        "groups": (GroupListing("g", GroupType.CONSUMER, GroupState.STABLE, "consumer"),),
        "committed": {"g": {ORDERS[0]: 60, ORDERS[1]: 70}},
        "committed_ms": 10_000,
        "counts": {ORDERS[0]: {60: 30}, ORDERS[1]: {70: 0}},
    }
    return Snapshot(**{**facts, **changes})


def test_topic_counts_its_partitions_by_state() -> None:
    """Records are unknown while the offsets of one partition are."""
    (row,) = snapshot().topic_rows
    assert (row.partitions, row.under_replicated, row.offline, row.records, row.size) == (3, 2, 1, None, 200)
    whole = snapshot(offsets=dict.fromkeys(ORDERS, Offsets(10, 20)))
    assert whole.topic_rows[0].records == 30


def test_node_counts_leaders_replicas_and_one_file_system_once() -> None:
    first, second = snapshot().node_rows
    assert (first.leaders, first.replicas, first.out_of_sync, first.size) == (2, 3, 1, 200)
    assert (first.disk_total, first.disk_usable, first.disk_used_percent) == (1_000, 40, 96)
    assert (second.state, second.size, second.disk_used_percent) == ("fenced", None, None)


def test_lag_is_what_leaders_have_counted() -> None:
    """Not the distance of offsets; unknown if one partition was not counted."""
    (row,) = snapshot().group_rows
    assert (row.lag, row.topics) == (30, ("orders",))
    assert snapshot(counts={ORDERS[0]: {60: 30}}).group_rows[0].lag is None
    assert snapshot(committed={}).group_rows[0].lag is None
    assert snapshot(committed={"g": {}}).group_rows[0].topics == ()
    assert snapshot().group_lag_in("g", "payments") is None


def test_problems_begin_with_the_worst() -> None:
    found = problems_of(snapshot(troubles={"quorum": "no leader"}))
    assert [level for level, _ in found] == ["bad", "bad", "bad", "warn", "warn"]
    texts = " | ".join(text for _, text in found)
    assert "1 partitions are offline" in texts
    assert "node 2 (b:9092) is down or fenced" in texts
    assert "node 1: the disk is 96 % full" in texts
    assert "quorum could not be read: no leader" in texts


def test_rates_count_growth_only() -> None:
    """A topic that was deleted and created again has a smaller end offset."""
    ends = {ORDERS[0]: Offsets(0, 210), ORDERS[1]: Offsets(0, 7), ORDERS[2]: Offsets(0, 9)}
    assert rates_between(snapshot(), ends, 12_000) == {"orders": 50.0}
    assert rates_between(snapshot(), ends, 10_000) == {}


def test_commit_rate_ignores_resets_and_new_groups() -> None:
    before = {"g": {ORDERS[0]: 10, ORDERS[1]: 10}}
    after = {"g": {ORDERS[0]: 30, ORDERS[1]: 5}, "new": {ORDERS[0]: 99}}
    assert commit_rate(before, after, 2_000) == 10.0
    assert commit_rate({}, after, 2_000) is None


@pytest.mark.parametrize(
    ("values", "points"),
    [([], ""), ([1], ""), ([0, 0], "0.0,38.0 240.0,38.0"), ([0, 5], "0.0,38.0 240.0,2.0")],
)
def test_chart_is_scaled_to_its_largest_value(values: list[float], points: str) -> None:
    assert sparkline(values) == points
