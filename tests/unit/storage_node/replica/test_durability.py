"""What each durability key does, at the leader and at its followers, and that acknowledgements keep to it."""

from __future__ import annotations

import pytest
from headrace.protocol.metadata.image import TOPIC_RESOURCE
from headrace.protocol.metadata.records import ConfigRecord
from node_rig import batch
from replica_rig import Replicas


def flushed(cluster: Replicas, node: int) -> int:
    return int(cluster.partition(node).flushed_offset)


def in_sync(**configs: str) -> Replicas:
    cluster = Replicas(min_isr=2, **configs)
    cluster.settle()
    return cluster


def test_an_ack_waits_for_the_disk_of_every_member_of_the_isr() -> None:
    """durability=fsync: the leader's disk alone is not enough, one follower more is not, all of them are."""
    cluster = in_sync(durability="fsync")
    cluster.is_flushing = False
    request = cluster.produce(b"a")
    for node in (1, 2, 3):
        cluster.settle()
        assert not request.is_answered, f"before node {node} has flushed"
        cluster.nodes[node].flush()
    cluster.settle()
    assert request.first.error_code == 0
    for node in (1, 2, 3):
        files = cluster.nodes[node].files.power_loss("none")
        assert files.content(f"/d{node}/t-0/{0:020d}.log"), f"node {node} lost it with its power"


def test_async_acknowledges_what_is_on_no_disk() -> None:
    """As Kafka: in the page caches of the ISR."""
    cluster = in_sync()
    cluster.is_flushing = False
    assert cluster.produce(b"a").is_answered is False
    cluster.settle()
    assert cluster.watermark(1) == 1
    assert [flushed(cluster, node) for node in (1, 2, 3)] == [0, 0, 0]


@pytest.mark.parametrize("node", [1, 2])
def test_flush_messages_acts_on_leader_and_follower(node: int) -> None:
    """After so many unflushed records, counted at each replica."""
    cluster = in_sync(flush_messages="3")
    cluster.produce(b"a", b"b")
    cluster.settle()
    assert flushed(cluster, node) == 0
    cluster.produce(b"c")
    cluster.settle()
    assert flushed(cluster, node) == 3


@pytest.mark.parametrize("node", [1, 2])
def test_flush_ms_acts_on_leader_and_follower(node: int) -> None:
    """When the oldest unflushed record is that old, as each replica sees it."""
    cluster = in_sync(flush_ms="1000")
    cluster.produce(b"a")
    cluster.pass_time(900)
    assert flushed(cluster, node) == 0
    cluster.pass_time(300)
    assert flushed(cluster, node) == 1


@pytest.mark.parametrize(
    ("key", "value"), [("flush.messages", "1"), ("flush.ms", "100"), ("durability", "fsync")]
)
def test_a_change_acts_at_once_on_what_is_there(key: str, value: str) -> None:
    """Records from before the change are flushed too, at leader and followers, without a restart; taken back,
    nothing is flushed any more."""
    cluster = in_sync()
    cluster.produce(b"a")
    cluster.settle()
    assert flushed(cluster, 1) == 0
    cluster.publish(ConfigRecord(TOPIC_RESOURCE, "t", key, value))
    cluster.pass_time(500)
    assert [flushed(cluster, node) for node in (1, 2, 3)] == [1, 1, 1]
    cluster.publish(ConfigRecord(TOPIC_RESOURCE, "t", key, None))
    cluster.produce(b"b")
    cluster.pass_time(500)
    assert [flushed(cluster, node) for node in (1, 2, 3)] == [1, 1, 1]


def test_acks_one_waits_for_the_leaders_disk_alone() -> None:
    """durability=fsync holds for every acknowledgement."""
    cluster = in_sync(durability="fsync")
    cluster.is_flushing = False
    request = cluster.nodes[1].produce(cluster.partition(1).key[0], batch(b"a"), acks=1)
    cluster.settle()
    assert not request.is_answered
    cluster.nodes[1].flush()
    assert request.first.error_code == 0
