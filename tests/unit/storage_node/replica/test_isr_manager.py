"""A leader's high watermark advances when nodes change or time passes, without an append or a fetch."""

from core_rig import FakeRequest
from headrace.protocol.metadata.records import BrokerRegistrationChangeRecord
from replica_rig import Replicas


def drained_then_undrained() -> tuple[Replicas, FakeRequest]:
    """ISR 1, 2. Follower 3 was drained, has stopped fetching, and is eligible again but behind the high
    watermark: a produce with acks=all waits for it, because it was caught up a moment ago."""
    cluster = Replicas.settled(min_isr=2, node={"replica_lag_time_max_ms": 3_000})
    cluster.publish(BrokerRegistrationChangeRecord(3, cluster.epochs[3], in_controlled_shutdown=True))
    cluster.change(isr=(1, 2))
    cluster.write(b"a")
    assert cluster.end(3) == 1
    cluster.cut_link(3, 1)
    cluster.write(b"b")
    assert cluster.watermark(1) == 2
    cluster.publish(BrokerRegistrationChangeRecord(3, cluster.epochs[3], in_controlled_shutdown=False))
    request = cluster.write(b"c", timeout_ms=60_000)
    assert cluster.registration.isr == (1, 2)
    assert cluster.end(2) == 3
    assert not request.is_answered
    return cluster, request


def test_fencing_a_caught_up_follower_advances_the_high_watermark() -> None:
    """Outside the ISR; without an append or a fetch."""
    cluster, request = drained_then_undrained()
    cluster.fence(3)
    assert request.first.error_code == 0
    assert cluster.watermark(1) == 3


def test_draining_a_caught_up_follower_advances_the_high_watermark() -> None:
    """It is no longer eligible."""
    cluster, request = drained_then_undrained()
    cluster.publish(BrokerRegistrationChangeRecord(3, cluster.epochs[3], in_controlled_shutdown=True))
    assert request.first.error_code == 0


def test_follower_outside_the_isr_holds_back_commits_for_replica_lag_time_max_ms_only() -> None:
    """It is unfenced but does not fetch: the next tick after that time commits, without an append."""
    cluster, request = drained_then_undrained()
    cluster.pass_time(2_000)
    assert not request.is_answered
    cluster.pass_time(2_500)
    assert request.first.error_code == 0
