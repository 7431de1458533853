"""Kafka's clients while a leader is killed: no acknowledged record is lost or duplicated."""

from collections.abc import Iterator
from typing import Any

import headrace
import pytest
from headrace.services.local_io import LocalCluster, local
from kafka_clients import WAIT_S, confluent_consumer, confluent_producer, values_from


@pytest.fixture
def cluster() -> Iterator[LocalCluster]:
    """Three nodes with short sessions."""
    settings: dict[str, Any] = {
        "broker_session_timeout_ms": 1_000,
        "broker_heartbeat_interval_ms": 100,
        "replica_lag_time_max_ms": 1_000,
    }
    with local(nodes=3, listeners="PLAINTEXT://127.0.0.1:0", **settings) as made:
        yield made
        assert [node["kafka"]["broken"] for node in made.status()["nodes"]] == [0, 0, 0]


def test_leader_is_killed_under_a_producer_and_a_group(cluster: LocalCluster) -> None:
    """The producer continues with the next leader, the group with the next coordinator."""
    with cluster.admin() as admin:
        admin.create_topics(
            headrace.NewTopic("t", 6, replication_factor=3, configs={"min.insync.replicas": 2})
        )
    producer = confluent_producer(
        cluster, enable_idempotence=True, linger_ms=1, delivery_timeout_ms=60_000, retry_backoff_max_ms=200
    )
    consumer = confluent_consumer(cluster, "g", session_timeout_ms=10_000)
    consumer.subscribe(["t"])
    acked: list[bytes] = []
    failed: list[Any] = []

    def delivered(error: Any, message: Any) -> None:
        if error is None:
            acked.append(message.value())
        else:
            failed.append(error)

    found: list[bytes] = []
    for number in range(3_000):
        producer.produce("t", b"%d" % number, on_delivery=delivered)
        if number == 1_000:
            found += values_from(consumer, 300)
            cluster.kill_node(0)
        if number == 2_000:
            cluster.restart_node(0)
        if number % 50 == 0:
            producer.poll(0.01)
    assert producer.flush(2 * WAIT_S) == 0
    assert failed == []
    found += values_from(consumer, 3_000 - len(found))
    consumer.close()
    assert len(acked) == 3_000
    assert sorted(found) == sorted(acked)
