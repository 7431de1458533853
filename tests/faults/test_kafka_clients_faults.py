"""Kafka's clients over the listener while nodes, controllers and links fail."""

import time
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from fault_cluster import FaultCluster
from kafka_load import (
    END_S,
    IDEMPOTENT,
    TRANSACTIONAL,
    KafkaLoad,
    Librdkafka,
    LibrdkafkaTransactions,
    new_reader,
    silent,
)

ALL = (*IDEMPOTENT, *TRANSACTIONAL)


def kill_each(cluster: FaultCluster, load: KafkaLoad) -> None:
    """Kill each node once, leaders and coordinators among them."""
    for node in cluster.nodes:
        node.kill()
        load.more()
        node.start()
        for topic in cluster.image().topics:
            cluster.until_in_sync(topic)


def test_nodes_are_killed_under_producers(make_cluster: Any) -> None:
    """librdkafka, with and without transactions: a leader is killed and restarts."""
    cluster = make_cluster(kafka=True)
    with KafkaLoad(cluster, Librdkafka, LibrdkafkaTransactions) as load:
        node = cluster.node(cluster.leader("t"))
        node.kill()
        load.more()
        node.start()
        load.more()
        load.finish()
    cluster.until_replicas_agree("t")


@pytest.mark.faults
@pytest.mark.parametrize("kind", ALL, ids=lambda kind: kind.__name__)
def test_each_node_is_killed_under_each_producer(make_cluster: Any, kind: Any) -> None:
    """Each client on its own."""
    cluster = make_cluster(kafka=True)
    with KafkaLoad(cluster, kind) as load:
        kill_each(cluster, load)
        load.finish()
    cluster.until_replicas_agree("t")


@pytest.mark.faults
@pytest.mark.parametrize("kind", [Librdkafka, LibrdkafkaTransactions], ids=lambda kind: kind.__name__)
def test_links_between_nodes_are_cut(make_cluster: Any, kind: Any) -> None:
    """Clients reach all nodes: the isolated leader acknowledges nothing, clients continue with the next
    leader, and the old leader's log is truncated afterwards."""
    cluster = make_cluster(kafka=True)
    with KafkaLoad(cluster, kind) as load:
        for _ in range(2):
            old = cluster.node(cluster.leader("t"))
            others = [server.name for server in cluster.servers.values() if server is not old]
            cluster.isolate([old.name], others)
            cluster.until(lambda old=old: cluster.leader("t") != old.id, "another node leads")
            load.more()
            cluster.network.heal()
            cluster.until_in_sync("t")
        load.finish()
    cluster.until_replicas_agree("t")


@pytest.mark.faults
def test_rolling_restart_under_each_producer(make_cluster: Any) -> None:
    """All clients at once."""
    cluster = make_cluster(kafka=True)
    with KafkaLoad(cluster, *ALL) as load:
        for node in cluster.nodes:
            node.stop()
            node.start()
            for topic in cluster.image().topics:
                cluster.until_in_sync(topic)
            load.more(20)
        load.finish()


def written(cluster: FaultCluster, *values: bytes) -> None:
    """Send values with acks=1, one after the other; all are acknowledged."""
    failures: list[Any] = []
    producer = Producer(
        {"bootstrap.servers": cluster.kafka_bootstrap, "acks": 1, "linger.ms": 0}, logger=silent()
    )
    for value in values:
        producer.produce("t", value, partition=0, on_delivery=lambda error, _: failures.append(error))
    assert producer.flush(END_S) == 0
    assert failures == [None] * len(values)


def taken(reader: Consumer, count: int) -> list[Any]:
    """The next `count` values and error codes; fewer after a timeout."""
    found: list[Any] = []
    ends_at = time.monotonic() + END_S
    while len(found) < count and time.monotonic() < ends_at:
        for message in reader.consume(count - len(found), 0.2):
            error = message.error()
            if error is None:
                found.append(message.value())
            elif not error.retriable() and error.code() != KafkaError._TRANSPORT:
                found.append(error.code())
    return found


@pytest.mark.faults
@pytest.mark.parametrize("policy", ["error", "earliest"])
def test_consumer_detects_a_truncated_log(make_cluster: Any, policy: str) -> None:
    """KIP-320: a node with an older log is elected uncleanly. A consumer beyond it gets an error, or, with a
    reset policy, continues at the divergence."""
    cluster = make_cluster(kafka=True)
    cluster.create_topic("t", replication=2, min_insync_replicas=1, unclean_leader_election_enable="true")
    first = cluster.node(cluster.leader("t"))
    second = cluster.node(cluster.follower("t"))
    written(cluster, b"both 0", b"both 1")
    cluster.until_replicas_agree("t")
    second.kill()
    cluster.until(lambda: cluster.partition("t").isr == (first.id,), "the other node leaves the ISR")
    written(cluster, *(b"lost %d" % number for number in range(5)))
    options = {"auto_offset_reset": policy, "topic_metadata_refresh_interval_ms": 500}
    reader = new_reader(cluster.kafka_bootstrap, **options)
    reader.assign([TopicPartition("t", 0, 0)])
    try:
        assert len(taken(reader, 7)) == 7
        first.kill()
        second.start()
        cluster.until(lambda: cluster.leader("t") == second.id, "the other node is elected uncleanly")
        written(cluster, *(b"new %d" % number for number in range(9)))
        new = [b"new %d" % number for number in range(9)]
        if policy == "error":
            # the position is within the new log: only leader epochs show the truncation
            assert taken(reader, 1) == [KafkaError._AUTO_OFFSET_RESET]
        else:
            assert taken(reader, 9) == new
    finally:
        reader.close()
    first.start()
    cluster.until_in_sync("t", 2)
    cluster.until_replicas_agree("t")
