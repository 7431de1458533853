"""Unmodified Kafka clients against a headrace cluster."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import headrace
import kafka
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.services.local_io import LocalCluster

WAIT_S = 30.0


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    """Two nodes, each with a listener for Kafka's clients."""
    with headrace.local(nodes=2, listeners="PLAINTEXT://127.0.0.1:0") as made:
        yield made


def topic(cluster: LocalCluster, name: str, partitions: int = 3) -> str:
    with cluster.admin() as admin:
        admin.create_topics(headrace.NewTopic(name, partitions))
    return name


def produce(cluster: LocalCluster, name: str, values: list[bytes], **config: Any) -> None:
    """With confluent-kafka; raises what a delivery says."""
    producer = Producer({"bootstrap.servers": cluster.kafka_bootstrap, **config})
    errors: list[Any] = []
    for number, value in enumerate(values):
        producer.produce(name, key=b"%d" % number, value=value, on_delivery=lambda e, _: errors.append(e))
    assert producer.flush(WAIT_S) == 0
    assert errors == [None] * len(values)


def consume(cluster: LocalCluster, name: str, count: int, partitions: int = 3) -> list[bytes]:
    """With confluent-kafka, without a group."""
    consumer = Consumer(
        {"bootstrap.servers": cluster.kafka_bootstrap, "group.id": "none", "enable.auto.commit": False}
    )
    consumer.assign([TopicPartition(name, number, 0) for number in range(partitions)])
    found: list[bytes] = []
    deadline = time.monotonic() + WAIT_S
    while len(found) < count and time.monotonic() < deadline:
        for message in consumer.consume(count - len(found), 1.0):
            assert message.error() is None, message.error()
            found.append(message.value())
    consumer.close()
    return found


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_confluent_kafka_produces_and_consumes(cluster: LocalCluster, compression: str) -> None:
    """All codecs, over several partitions and nodes."""
    name = topic(cluster, f"confluent-{compression}")
    values = [b"value %d" % number for number in range(500)]
    produce(cluster, name, values, **{"compression.type": compression, "linger.ms": 2})
    assert sorted(consume(cluster, name, 500)) == sorted(values)


@pytest.mark.parametrize("acks", [0, 1, "all"])
def test_kafka_python_produces_and_consumes(cluster: LocalCluster, acks: Any) -> None:
    """Each kind of acknowledgement; what it writes headrace's own consumer reads, and the reverse."""
    name = topic(cluster, f"python-{acks}")
    producer = kafka.KafkaProducer(
        bootstrap_servers=cluster.kafka_bootstrap, acks=acks, enable_idempotence=False
    )
    for number in range(100):
        producer.send(name, b"%d" % number)
    producer.flush(WAIT_S)
    producer.close()
    with cluster.producer() as own:
        own.send(name, value=b"100")
    consumer = kafka.KafkaConsumer(
        bootstrap_servers=cluster.kafka_bootstrap, auto_offset_reset="earliest", group_id=None
    )
    partitions = [kafka.TopicPartition(name, number) for number in range(3)]
    consumer.assign(partitions)
    consumer.seek_to_beginning()
    found: list[bytes] = []
    deadline = time.monotonic() + WAIT_S
    while len(found) < 101 and time.monotonic() < deadline:
        for records in consumer.poll(500).values():
            found += [record.value for record in records]
    assert sorted(found) == sorted(b"%d" % number for number in range(101))
    assert sum(consumer.end_offsets(partitions).values()) == 101
    assert sum(consumer.beginning_offsets(partitions).values()) == 0
    consumer.close()


def test_large_batches_cross_whole(cluster: LocalCluster) -> None:
    """Frames larger than what is read at once, both ways, several on one connection at a time."""
    name = topic(cluster, "large", 1)
    values = [bytes([number]) * 900_000 for number in range(20)]
    produce(cluster, name, values, **{"linger.ms": 0, "max.in.flight": 5, "message.max.bytes": 1_000_000})
    found = consume(cluster, name, 20, 1)
    assert sorted(found) == values


def test_the_listener_tells_of_itself(cluster: LocalCluster) -> None:
    """Nothing is held when nothing is under way."""
    produce(cluster, topic(cluster, "told"), [b"x"])
    for node in cluster.status()["nodes"]:
        assert node["kafka"]["listeners"].keys() == {"PLAINTEXT"}
        assert node["kafka"]["held_request_bytes"] == node["kafka"]["broken"] == 0
