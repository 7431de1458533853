"""The metrics of a member: rebalances, commits and heartbeats."""

import asyncio
from typing import Any

import pytest
from group_members import KINDS, each_kind
from headrace.clients.group.member import ChangeKind
from headrace.clients.group.metrics import GroupMetrics
from headrace.clients.group.states import MemberState
from headrace.protocol.messages import registry

S = MemberState


def after(*states: tuple[int, MemberState, bool]) -> dict[str, float]:
    """Seen at (ms, state, is it a member); the values at the last one."""
    metrics = GroupMetrics()
    for now_ms, state, is_member in states:
        metrics.state_changed(state, is_member, now_ms)
    return metrics.values(states[-1][0])


def test_rebalance_time_ends_when_the_member_is_stable() -> None:
    """It begins with the first state that is not settled."""
    joined = [(10, S.UNJOINED, False), (20, S.JOINING, False), (30, S.JOINING, False), (40, S.SYNCING, True)]
    values = after(*joined, (50, S.ADOPTING, True), (60, S.STABLE, True), (5_070, S.STABLE, True))
    assert (values["rebalance-total"], values["rebalance-latency-max"]) == (1, 40)
    assert (values["failed-rebalance-total"], values["last-rebalance-seconds-ago"]) == (0, 5)
    assert values["rebalance-rate-per-hour"] == pytest.approx(120)
    values = after(*joined)
    assert (values["rebalance-total"], values["last-rebalance-seconds-ago"]) == (0, -1)


@pytest.mark.parametrize(
    ("state", "is_member", "failed"),
    [
        (S.JOINING, True, 1),  # the sync was refused
        (S.JOINING, False, 1),
        (S.REVOKING, False, 1),  # lost
        (S.LATE, False, 1),
        (S.FAILED, False, 1),
        (S.UNJOINED, False, 0),  # the user has unsubscribed
    ],
)
def test_failed_rebalances_are_counted(state: MemberState, is_member: bool, failed: int) -> None:
    """The time of the next one begins there."""
    begun = [(0, S.JOINING, False), (100, S.SYNCING, True), (200, state, is_member)]
    assert after(*begun)["failed-rebalance-total"] == failed
    values = after(*begun, (300, S.JOINING, is_member), (400, S.STABLE, True))
    assert values["rebalance-latency-avg"] == (200 if state in (S.JOINING, S.REVOKING) else 100)


def test_lost_stable_membership_begins_a_rebalance() -> None:
    """It is not a failed one."""
    values = after(
        (0, S.JOINING, False), (10, S.STABLE, True), (20, S.REVOKING, False), (30, S.JOINING, False)
    )
    assert (values["rebalance-total"], values["failed-rebalance-total"]) == (1, 0)


def test_requests_and_callbacks_are_timed() -> None:
    """By kind; requests of other APIs are not counted."""
    metrics = GroupMetrics()
    for api, took in ((registry.JOIN_GROUP, 5), (registry.SYNC_GROUP, 6), (registry.OFFSET_COMMIT, 7)):
        metrics.response_received(api, 1_000, 1_000 + took)
    metrics.response_received(registry.HEARTBEAT, 2_000, 2_003)
    metrics.response_received(registry.CONSUMER_GROUP_HEARTBEAT, 3_000, 3_002)
    metrics.response_received(registry.LEAVE_GROUP, 9_000, 9_001)
    metrics.ownership_changed(ChangeKind.REVOKED, 1_000, 1_400)
    values = metrics.values(9_500)
    assert (values["join-time-avg"], values["sync-time-max"], values["commit-latency-avg"]) == (5, 6, 7)
    assert (values["heartbeat-total"], values["heartbeat-response-time-max"]) == (2, 3)
    assert values["last-heartbeat-seconds-ago"] == 6
    assert (values["partition-revoked-latency-max"], values["partition-lost-latency-max"]) == (400, 0)
    assert values["commit-rate"] == pytest.approx(1 / 30)


@each_kind
async def test_consumer_metrics_include_those_of_the_group(fake: Any, cluster: Any, kind: str) -> None:
    """Beside its fetch metrics."""
    fake.create("t", 2)
    fake.put("t", 0, b"1", b"2", b"3")

    async def take_time(_consumer: Any, _tps: Any) -> None:
        await asyncio.sleep(2)

    options = {"group": "g", "auto_offset_reset": "earliest", **KINDS[kind]}
    consumer = cluster.consumer(enable_auto_commit=False, **options)
    assert consumer.metrics()["last-rebalance-seconds-ago"] == -1
    await consumer.subscribe("t", on_assigned=take_time)
    assert len(await consumer.poll(30, 1)) == 1
    await consumer.commit()
    for _ in range(20):
        await consumer.poll(0.5)
    metrics = consumer.metrics()
    assert (metrics["rebalance-total"], metrics["failed-rebalance-total"]) == (1, 0)
    assert metrics["rebalance-latency-max"] >= metrics["partition-assigned-latency-max"] >= 2_000
    assert 9 <= metrics["last-rebalance-seconds-ago"] <= 11
    assert (metrics["join-total"] > 0) == (metrics["sync-total"] > 0) == (kind != "new")
    assert (metrics["commit-total"], metrics["assigned-partitions"]) == (1, 2)
    assert metrics["commit-latency-avg"] > 0
    assert metrics["heartbeat-total"] > 2
    assert metrics["last-heartbeat-seconds-ago"] <= 5
    assert (metrics["t-0.records-lag"], metrics["t-0.records-lead"], metrics["records-lag-max"]) == (0, 3, 0)
    assert metrics["records-lead-min"] == 0
    assert set(metrics) > set(GroupMetrics().values(0))
    assert not set(cluster.consumer("t").metrics()) & set(GroupMetrics().values(0))
