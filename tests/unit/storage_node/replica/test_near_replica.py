"""Clients that read from a replica in their own rack, and followers that serve them."""

from __future__ import annotations

from typing import Any

from headrace.protocol.errors import (
    FencedLeaderEpochError,
    NotLeaderOrFollowerError,
    OffsetNotAvailableError,
    OffsetOutOfRangeError,
    UnknownLeaderEpochError,
)
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
    cluster = Replicas(racks={1: "a", 2: "b", 3: "c"}, node=config)
    cluster.settle()
    for value in (b"0", b"1", b"2"):
        cluster.produce(value)
    cluster.settle()
    return cluster


def fetch(
    cluster: Replicas, node: int, offset: int = 0, *, rack: str = "b", wait_ms: int = 0, epoch: int = -1
) -> Any:
    entry = FetchPartition(TOPIC, 0, offset, 1 << 20, epoch)
    body = FetchRequest(wait_ms, 1, 1 << 20, 0, (entry,), rack=rack)
    return cluster.nodes[node].ask(registry.FETCH, body)


def values(request: Any) -> list[bytes | None]:
    return [value for _, value in values_of(request.answer_frames)]


def test_the_leader_names_the_replica_in_the_clients_rack() -> None:
    """At once, without records and without a wait, also at the end of the log."""
    cluster = three_racks()
    for offset in (0, 3):
        answer = fetch(cluster, 1, offset, wait_ms=500).first
        assert (answer.error_code, answer.preferred_read_replica, answer.frame_count) == (0, 2, 0)
        assert answer.high_watermark == 3


def test_the_leader_serves_who_is_not_nearer_elsewhere() -> None:
    """In its own rack, in one without a replica, without a rack."""
    cluster = three_racks()
    for rack in ("a", "z", ""):
        request = fetch(cluster, 1, rack=rack)
        assert request.first.preferred_read_replica == -1
        assert values(request) == [b"0", b"1", b"2"]


def test_a_follower_serves_what_it_knows_to_be_committed() -> None:
    """And answers who waits as soon as it learns of more."""
    cluster = three_racks()
    request = fetch(cluster, 2)
    assert values(request) == [b"0", b"1", b"2"]
    assert request.first.preferred_read_replica == -1
    waiting = fetch(cluster, 2, 3, wait_ms=500)
    assert not waiting.is_answered
    cluster.produce(b"3")
    cluster.settle()
    assert values(waiting) == [b"3"]


def test_a_follower_serves_who_knows_of_followers() -> None:
    """Also without racks and without a selector; others are sent to the leader."""
    cluster = three_racks(replica_selector_class="")
    entry = FetchPartition(TOPIC, 0, 0, 1 << 20)
    for may_follow in (True, False):
        body = FetchRequest(0, 1, 1 << 20, 0, (entry,), may_follow=may_follow)
        request = cluster.nodes[2].ask(registry.FETCH, body)
        if may_follow:
            assert values(request) == [b"0", b"1", b"2"]
        else:
            assert request.first.error_code == NotLeaderOrFollowerError.code


def test_a_follower_tells_of_its_producers() -> None:
    """Each replica of a partition can be asked."""
    cluster = three_racks()
    asked = DescribeProducersRequest((TopicNamePartitions("t", (0,)),))
    told = [cluster.nodes[node].ask(registry.DESCRIBE_PRODUCERS, asked).first for node in (1, 2)]
    assert [each.error_code for each in told] == [0, 0]
    assert told[0].producers == told[1].producers


def test_a_follower_never_shows_what_is_not_committed() -> None:
    """It holds the record, but the third replica does not."""
    cluster = three_racks()
    cluster.cut.add((3, 1))
    cluster.break_link(3, 1)
    cluster.produce(b"3")
    cluster.settle()
    assert (cluster.end(2), cluster.watermark(2)) == (4, 3)
    for offset in (3, 4):
        request = fetch(cluster, 2, offset)
        assert (request.first.error_code, request.answer_frames) == (0, [])


def test_offsets_that_a_follower_does_not_have() -> None:
    """Above its end they may exist on the leader; below its start they are gone."""
    cluster = three_racks()
    assert fetch(cluster, 2, 4).first.error_code == OffsetNotAvailableError.code
    answer = fetch(cluster, 2, -1).first
    assert (answer.error_code, answer.log_start_offset) == (OffsetOutOfRangeError.code, 0)
    assert fetch(cluster, 1, 4).first.error_code == OffsetOutOfRangeError.code
    assert fetch(cluster, 1, -1).first.error_code == OffsetOutOfRangeError.code


def test_a_follower_that_left_the_isr_holds_nobody_back() -> None:
    """What it has is true; for what comes after it the client has to go to the leader, at once."""
    cluster = three_racks()
    cluster.cut.add((2, 1))
    cluster.break_link(2, 1)
    waiting = fetch(cluster, 2, 3, wait_ms=60_000)
    cluster.produce(b"3")
    cluster.pass_time(3_000)
    assert cluster.registration.isr == (1, 3)
    assert waiting.first.error_code == OffsetNotAvailableError.code
    assert waiting.first.leader_id == 1
    assert values(fetch(cluster, 2, 0)) == [b"0", b"1", b"2"]
    assert fetch(cluster, 1, 0).first.preferred_read_replica == -1


def test_who_is_fenced_is_not_preferred() -> None:
    """Even before it leaves the ISR."""
    cluster = three_racks()
    cluster.publish(FenceBrokerRecord(2, cluster.epochs[2]))
    assert fetch(cluster, 1).first.preferred_read_replica == -1


def test_who_does_not_hold_the_offset_is_not_preferred() -> None:
    """It lags, or its log starts later."""
    cluster = three_racks()
    progress = cluster.partition(1).in_sync.followers[2]
    cluster.cut.add((2, 1))
    cluster.break_link(2, 1)
    cluster.nodes[1].produce(TOPIC, acks=1)
    assert fetch(cluster, 1, 3).first.preferred_read_replica == 2
    assert fetch(cluster, 1, 4).first.preferred_read_replica == -1
    progress.log_start_offset = 2
    assert fetch(cluster, 1, 1).first.preferred_read_replica == -1
    assert fetch(cluster, 1, 2).first.preferred_read_replica == 2


def test_of_two_in_the_rack_the_furthest_is_preferred() -> None:
    """Its reader sees records first."""
    cluster = Replicas(racks={1: "a", 2: "b", 3: "b"}, node=SELECTOR)
    cluster.settle()
    cluster.cut.add((2, 1))
    cluster.break_link(2, 1)
    cluster.produce()
    cluster.settle()
    assert fetch(cluster, 1).first.preferred_read_replica == 3


def test_leader_epochs_are_checked_on_followers_too() -> None:
    """A client or a follower of the past is found."""
    cluster = three_racks()
    cluster.change(leader=3)
    cluster.settle()
    assert fetch(cluster, 2, epoch=0).first.error_code == FencedLeaderEpochError.code
    assert fetch(cluster, 2, epoch=2).first.error_code == UnknownLeaderEpochError.code
    assert values(fetch(cluster, 2, epoch=1)) == [b"0", b"1", b"2"]


def test_without_a_selector_racks_mean_nothing() -> None:
    """Followers serve nobody, and the leader everybody."""
    cluster = three_racks(replica_selector_class="")
    assert fetch(cluster, 2).first.error_code == NotLeaderOrFollowerError.code
    assert values(fetch(cluster, 1)) == [b"0", b"1", b"2"]


def test_who_names_no_rack_reads_from_the_leader_alone() -> None:
    """Clients that know nothing of followers expect the leader's errors."""
    assert fetch(three_racks(), 2, rack="").first.error_code == NotLeaderOrFollowerError.code


def test_one_partition_elsewhere_does_not_hold_up_the_answer() -> None:
    """Its reader is told at once, although nothing is there for the other partition."""
    cluster = three_racks()
    other = cluster.nodes[1].topic("single")
    entries = (FetchPartition(other, 0, 0, 1 << 20), FetchPartition(TOPIC, 0, 0, 1 << 20))
    request = cluster.nodes[1].ask(registry.FETCH, FetchRequest(500, 1, 1 << 20, 0, entries, rack="b"))
    assert [answer.preferred_read_replica for answer in request.answer.partitions] == [-1, 2]
