"""Clients that read from a replica in their own rack, and followers that serve them."""

from typing import Any

import pytest
from headrace.protocol import errors
from headrace.protocol.messages import registry
from headrace.protocol.messages.data import FetchPartition, FetchRequest
from headrace.protocol.messages.transactions import DescribeProducersRequest, TopicNamePartitions
from headrace.protocol.metadata.records import FenceBrokerRecord
from node_rig import values_of
from replica_rig import TOPIC, Replicas

SELECTOR = {"replica_selector_class": "RackAwareReplicaSelector"}


def three_racks(**node: Any) -> Replicas:
    """Nodes 1, 2, 3 in racks a, b, c, with three committed records."""
    config = SELECTOR | {"replica_lag_time_max_ms": 1_000} | node
    cluster = Replicas.settled(racks={1: "a", 2: "b", 3: "c"}, node=config)
    for value in (b"0", b"1", b"2"):
        cluster.produce(value)
    cluster.settle()
    return cluster


@pytest.fixture
def cluster() -> Replicas:
    return three_racks()


def fetch(
    cluster: Replicas, node: int, offset: int = 0, *, rack: str = "b", wait_ms: int = 0, epoch: int = -1
) -> Any:
    entry = FetchPartition(TOPIC, 0, offset, 1 << 20, epoch)
    body = FetchRequest(wait_ms, 1, 1 << 20, 0, (entry,), rack=rack)
    return cluster.nodes[node].ask(registry.FETCH, body)


def values(request: Any) -> list[bytes | None]:
    return [value for _, value in values_of(request.answer_frames)]


def test_leader_returns_the_preferred_read_replica(cluster: Replicas) -> None:
    """At once, without records and without a wait, also at the log end."""
    for offset in (0, 3):
        answer = fetch(cluster, 1, offset, wait_ms=500).first
        assert (answer.error_code, answer.preferred_read_replica, answer.frame_count) == (0, 2, 0)
        assert answer.high_watermark == 3


def test_leader_serves_clients_without_a_nearer_replica(cluster: Replicas) -> None:
    """In its own rack, in a rack without a replica, without a rack."""
    for rack in ("a", "z", ""):
        request = fetch(cluster, 1, rack=rack)
        assert request.first.preferred_read_replica == -1
        assert values(request) == [b"0", b"1", b"2"]


def test_follower_serves_up_to_its_high_watermark(cluster: Replicas) -> None:
    """A waiting fetch completes when it advances."""
    request = fetch(cluster, 2)
    assert values(request) == [b"0", b"1", b"2"]
    assert request.first.preferred_read_replica == -1
    waiting = fetch(cluster, 2, 3, wait_ms=500)
    assert not waiting.is_answered
    cluster.write(b"3")
    assert values(waiting) == [b"3"]


def test_follower_serves_clients_that_may_fetch_from_followers() -> None:
    """Also without racks and without a selector; others are sent to the leader."""
    cluster = three_racks(replica_selector_class="")
    entry = FetchPartition(TOPIC, 0, 0, 1 << 20)
    for may_follow in (True, False):
        body = FetchRequest(0, 1, 1 << 20, 0, (entry,), may_follow=may_follow)
        request = cluster.nodes[2].ask(registry.FETCH, body)
        if may_follow:
            assert values(request) == [b"0", b"1", b"2"]
        else:
            assert request.first.error_code == errors.NotLeaderOrFollowerError.code


def test_describe_producers_on_a_follower(cluster: Replicas) -> None:
    """Each replica can be asked."""
    asked = DescribeProducersRequest((TopicNamePartitions("t", (0,)),))
    response = [cluster.nodes[node].ask(registry.DESCRIBE_PRODUCERS, asked).first for node in (1, 2)]
    assert [each.error_code for each in response] == [0, 0]
    assert response[0].producers == response[1].producers


def test_follower_does_not_serve_uncommitted_records(cluster: Replicas) -> None:
    """It has the record, the third replica does not."""
    cluster.cut_link(3, 1)
    cluster.write(b"3")
    assert (cluster.end(2), cluster.watermark(2)) == (4, 3)
    for offset in (3, 4):
        request = fetch(cluster, 2, offset)
        assert (request.first.error_code, request.answer_frames) == (0, [])


def test_fetch_offset_outside_of_the_followers_log(cluster: Replicas) -> None:
    """Above its end the leader may have it; below its start it is deleted."""
    assert fetch(cluster, 2, 4).first.error_code == errors.OffsetNotAvailableError.code
    answer = fetch(cluster, 2, -1).first
    assert (answer.error_code, answer.log_start_offset) == (errors.OffsetOutOfRangeError.code, 0)
    assert fetch(cluster, 1, 4).first.error_code == errors.OffsetOutOfRangeError.code
    assert fetch(cluster, 1, -1).first.error_code == errors.OffsetOutOfRangeError.code


def test_follower_outside_the_isr_sends_clients_to_the_leader(cluster: Replicas) -> None:
    """At its log end, at once."""
    cluster.cut_link(2, 1)
    waiting = fetch(cluster, 2, 3, wait_ms=60_000)
    cluster.produce(b"3")
    cluster.pass_time(3_000)
    assert cluster.registration.isr == (1, 3)
    assert waiting.first.error_code == errors.OffsetNotAvailableError.code
    assert waiting.first.leader_id == 1
    assert values(fetch(cluster, 2, 0)) == [b"0", b"1", b"2"]
    assert fetch(cluster, 1, 0).first.preferred_read_replica == -1


def test_fenced_replica_is_not_preferred(cluster: Replicas) -> None:
    """Even before it leaves the ISR."""
    cluster.publish(FenceBrokerRecord(2, cluster.epochs[2]))
    assert fetch(cluster, 1).first.preferred_read_replica == -1


def test_replica_without_the_offset_is_not_preferred(cluster: Replicas) -> None:
    """It lags, or its log starts later."""
    progress = cluster.partition(1).in_sync.followers[2]
    cluster.cut_link(2, 1)
    cluster.nodes[1].produce(TOPIC, acks=1)
    assert fetch(cluster, 1, 3).first.preferred_read_replica == 2
    assert fetch(cluster, 1, 4).first.preferred_read_replica == -1
    progress.log_start_offset = 2
    assert fetch(cluster, 1, 1).first.preferred_read_replica == -1
    assert fetch(cluster, 1, 2).first.preferred_read_replica == 2


def test_replica_with_the_largest_end_offset_is_preferred() -> None:
    """Of two in the rack."""
    cluster = Replicas.settled(racks={1: "a", 2: "b", 3: "b"}, node=SELECTOR)
    cluster.cut_link(2, 1)
    cluster.write()
    assert fetch(cluster, 1).first.preferred_read_replica == 3


def test_leader_epochs_are_checked_on_followers_too(cluster: Replicas) -> None:
    """A stale client or a stale follower is detected."""
    cluster.change(leader=3)
    cluster.settle()
    assert fetch(cluster, 2, epoch=0).first.error_code == errors.FencedLeaderEpochError.code
    assert fetch(cluster, 2, epoch=2).first.error_code == errors.UnknownLeaderEpochError.code
    assert values(fetch(cluster, 2, epoch=1)) == [b"0", b"1", b"2"]


def test_without_a_selector_racks_are_ignored() -> None:
    """The leader serves all clients."""
    cluster = three_racks(replica_selector_class="")
    assert fetch(cluster, 2).first.error_code == errors.NotLeaderOrFollowerError.code
    assert values(fetch(cluster, 1)) == [b"0", b"1", b"2"]


def test_client_without_a_rack_reads_from_the_leader() -> None:
    """It expects the leader's errors."""
    assert fetch(three_racks(), 2, rack="").first.error_code == errors.NotLeaderOrFollowerError.code


def test_preferred_read_replica_ends_the_wait(cluster: Replicas) -> None:
    """Although the other partition has no records."""
    other = cluster.nodes[1].topic("single")
    entries = (FetchPartition(other, 0, 0, 1 << 20), FetchPartition(TOPIC, 0, 0, 1 << 20))
    request = cluster.nodes[1].ask(registry.FETCH, FetchRequest(500, 1, 1 << 20, 0, entries, rack="b"))
    assert [answer.preferred_read_replica for answer in request.answer.partitions] == [-1, 2]
