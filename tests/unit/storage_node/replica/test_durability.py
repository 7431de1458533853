"""The durability keys on leader and followers, and the acknowledgements that depend on them."""

import pytest
from headrace.protocol.metadata.image import TOPIC_RESOURCE
from headrace.protocol.metadata.records import ConfigRecord
from node_rig import batch
from replica_rig import Replicas


def flushed(cluster: Replicas, node: int) -> int:
    return int(cluster.partition(node).flushed_offset)


def in_sync(**configs: str) -> Replicas:
    return Replicas.settled(min_isr=2, **configs)


def test_fsync_acks_all_waits_for_the_flush_of_every_isr_member() -> None:
    """The flush of the leader or of one follower is not enough."""
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


def test_async_acknowledges_unflushed_records() -> None:
    """As Kafka: they are in the page caches of the ISR."""
    cluster = in_sync()
    cluster.is_flushing = False
    assert cluster.produce(b"a").is_answered is False
    cluster.settle()
    assert cluster.watermark(1) == 1
    assert [flushed(cluster, node) for node in (1, 2, 3)] == [0, 0, 0]


@pytest.mark.parametrize("node", [1, 2])
def test_flush_messages_holds_on_leader_and_follower(node: int) -> None:
    """Unflushed records are counted by each replica."""
    cluster = in_sync(flush_messages="3")
    cluster.write(b"a", b"b")
    assert flushed(cluster, node) == 0
    cluster.write(b"c")
    assert flushed(cluster, node) == 3


@pytest.mark.parametrize("node", [1, 2])
def test_flush_ms_holds_on_leader_and_follower(node: int) -> None:
    """The age is measured by each replica."""
    cluster = in_sync(flush_ms="1000")
    cluster.produce(b"a")
    cluster.pass_time(900)
    assert flushed(cluster, node) == 0
    cluster.pass_time(300)
    assert flushed(cluster, node) == 1


@pytest.mark.parametrize(
    ("key", "value"), [("flush.messages", "1"), ("flush.ms", "100"), ("durability", "fsync")]
)
def test_change_of_durability_flushes_existing_records(key: str, value: str) -> None:
    """On leader and followers, without a restart; after the change back nothing is flushed."""
    cluster = in_sync()
    cluster.write(b"a")
    assert flushed(cluster, 1) == 0
    cluster.publish(ConfigRecord(TOPIC_RESOURCE, "t", key, value))
    cluster.pass_time(500)
    assert [flushed(cluster, node) for node in (1, 2, 3)] == [1, 1, 1]
    cluster.publish(ConfigRecord(TOPIC_RESOURCE, "t", key, None))
    cluster.produce(b"b")
    cluster.pass_time(500)
    assert [flushed(cluster, node) for node in (1, 2, 3)] == [1, 1, 1]


def test_fsync_acks_1_waits_for_the_leaders_flush_only() -> None:
    """durability=fsync holds for every acknowledgement."""
    cluster = in_sync(durability="fsync")
    cluster.is_flushing = False
    request = cluster.nodes[1].produce(cluster.partition(1).key[0], batch(b"a"), acks=1)
    cluster.settle()
    assert not request.is_answered
    cluster.nodes[1].flush()
    assert request.first.error_code == 0
