"""Kafka's clients as the tests of the listener use them."""

import time
from typing import Any

import headrace
from confluent_kafka import Consumer, Producer, TopicPartition
from headrace.services.local_io import LocalCluster

WAIT_S = 100.0


def new_topic(cluster: LocalCluster, name: str, partitions: int = 3) -> str:
    """Made by headrace's own admin client."""
    with cluster.admin() as admin:
        admin.create_topics(headrace.NewTopic(name, partitions))
    return name


def confluent_producer(cluster: LocalCluster, **config: Any) -> Producer:
    """With underscores in the names."""
    return Producer({"bootstrap.servers": cluster.kafka_bootstrap, **dotted(config)})


def confluent_consumer(cluster: LocalCluster, group: str, **config: Any) -> Consumer:
    """From the beginning, without commits of its own."""
    defaults = {"auto.offset.reset": "earliest", "enable.auto.commit": False, "group.id": group}
    return Consumer({"bootstrap.servers": cluster.kafka_bootstrap, **defaults, **dotted(config)})


def dotted(config: dict[str, Any]) -> dict[str, Any]:
    """Kafka's names."""
    return {name.replace("_", "."): value for name, value in config.items()}


def produce(cluster: LocalCluster, name: str, values: list[bytes], **config: Any) -> None:
    """With confluent-kafka; raises what a delivery says."""
    producer = confluent_producer(cluster, **config)
    errors: list[Any] = []
    for number, value in enumerate(values):
        producer.produce(name, key=b"%d" % number, value=value, on_delivery=lambda e, _: errors.append(e))
    assert producer.flush(WAIT_S) == 0
    assert errors == [None] * len(values)


def values_from(consumer: Consumer, count: int) -> list[bytes]:
    """So many values, or fewer after a long wait."""
    found: list[bytes] = []
    deadline = time.monotonic() + WAIT_S
    while len(found) < count and time.monotonic() < deadline:
        for message in consumer.consume(count - len(found), 0.5):
            assert message.error() is None, message.error()
            found.append(message.value())
    return found


def consume(cluster: LocalCluster, name: str, count: int, partitions: int = 3, **config: Any) -> list[bytes]:
    """With confluent-kafka, without a group."""
    consumer = confluent_consumer(cluster, "none", **config)
    consumer.assign([TopicPartition(name, number, 0) for number in range(partitions)])
    try:
        return values_from(consumer, count)
    finally:
        consumer.close()
