"""Unmodified Kafka clients produce to a headrace cluster and consume from it."""

import time
from collections.abc import Iterator
from typing import Any

import headrace
import kafka
import pytest
from headrace.protocol.errors import ApiTimeoutError
from headrace.services.local_io import LocalCluster
from kafka_clients import WAIT_S, confluent_producer, consume, new_topic, produce
from waiting import wait_for


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    """Two nodes, each with a listener for Kafka's clients."""
    with headrace.local(nodes=2, listeners="PLAINTEXT://127.0.0.1:0") as made:
        yield made


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_confluent_kafka_produces_and_consumes(cluster: LocalCluster, compression: str) -> None:
    """All codecs, over several partitions and nodes."""
    name = new_topic(cluster, f"confluent-{compression}")
    values = [b"value %d" % number for number in range(500)]
    produce(cluster, name, values, compression_type=compression, linger_ms=2)
    assert sorted(consume(cluster, name, 500)) == sorted(values)


@pytest.mark.parametrize("acks", [0, 1, "all"])
def test_kafka_python_produces_and_consumes(cluster: LocalCluster, acks: Any) -> None:
    """With each value of acks, and records of headrace's own producer."""
    name = new_topic(cluster, f"python-{acks}")
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


def test_large_batches_are_sent_and_received(cluster: LocalCluster) -> None:
    """Frames larger than one read, in both directions, several at a time on a connection."""
    name = new_topic(cluster, "large", 1)
    values = [bytes([number]) * 900_000 for number in range(20)]
    produce(cluster, name, values, linger_ms=0, max_in_flight=5, message_max_bytes=1_000_000)
    assert sorted(consume(cluster, name, 20, 1)) == values


def test_wrong_port_is_reported(cluster: LocalCluster) -> None:
    """headrace's own clients have another port."""
    with (
        headrace.Admin(cluster.kafka_bootstrap) as admin,
        pytest.raises(ApiTimeoutError, match="a port for Kafka clients does"),
    ):
        admin.list_topics(timeout=2)


def test_idle_listener_holds_no_memory(cluster: LocalCluster) -> None:
    produce(cluster, new_topic(cluster, "reported"), [b"x"])
    for node in cluster.status()["nodes"]:
        assert node["kafka"]["listeners"].keys() == {"PLAINTEXT"}
        assert node["kafka"]["broken"] == 0


def test_memory_is_released_after_each_request() -> None:
    """Of closed and of open connections."""
    with headrace.local(listeners="PLAINTEXT://127.0.0.1:0") as own:
        producer = confluent_producer(own, linger_ms=0)
        for number in range(100):
            producer.produce("held", b"%d" % number)
        producer.flush(WAIT_S)
        consume(own, "held", 100, 1)

        def held() -> int:
            (node,) = own.status()["nodes"]
            return int(node["kafka"]["held_request_bytes"])

        wait_for(lambda: held() == 0, "all memory of requests given back")
