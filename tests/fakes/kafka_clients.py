"""Kafka clients for tests of the listener."""

import time
from typing import Any

import headrace
from confluent_kafka import Consumer, Producer, TopicPartition
from headrace.services.local_io import LocalCluster

WAIT_S = 100.0


def new_topic(cluster: LocalCluster, name: str, partitions: int = 3) -> str:
    """Create a topic with headrace's own admin client."""
    with cluster.admin() as admin:
        admin.create_topics(headrace.NewTopic(name, partitions))
    return name


def confluent_producer(cluster: LocalCluster, **config: Any) -> Producer:
    """A confluent-kafka producer; config names have underscores."""
    return Producer({"bootstrap.servers": cluster.kafka_bootstrap, **dotted(config)})


def confluent_consumer(cluster: LocalCluster, group: str, **config: Any) -> Consumer:
    """A confluent-kafka consumer from the earliest offset, without auto-commit."""
    defaults = {"auto.offset.reset": "earliest", "enable.auto.commit": False, "group.id": group}
    return Consumer({"bootstrap.servers": cluster.kafka_bootstrap, **defaults, **dotted(config)})


def dotted(config: dict[str, Any]) -> dict[str, Any]:
    """Configs with dots for underscores."""
    return {name.replace("_", "."): value for name, value in config.items()}


def produce(cluster: LocalCluster, name: str, values: list[bytes], **config: Any) -> None:
    """Send values with confluent-kafka; raises the error of a delivery."""
    producer = confluent_producer(cluster, **config)
    errors: list[Any] = []
    for number, value in enumerate(values):
        producer.produce(name, key=b"%d" % number, value=value, on_delivery=lambda e, _: errors.append(e))
    assert producer.flush(WAIT_S) == 0
    assert errors == [None] * len(values)


def values_from(consumer: Consumer, count: int) -> list[bytes]:
    """Consume `count` values, or fewer after a long wait."""
    found: list[bytes] = []
    deadline = time.monotonic() + WAIT_S
    while len(found) < count and time.monotonic() < deadline:
        for message in consumer.consume(count - len(found), 0.5):
            assert message.error() is None, message.error()
            found.append(message.value())
    return found


def consume(cluster: LocalCluster, name: str, count: int, partitions: int = 3, **config: Any) -> list[bytes]:
    """Read values with confluent-kafka, without a group."""
    consumer = confluent_consumer(cluster, "none", **config)
    consumer.assign([TopicPartition(name, number, 0) for number in range(partitions)])
    try:
        return values_from(consumer, count)
    finally:
        consumer.close()
