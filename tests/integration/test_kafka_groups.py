"""Groups and transactions of unmodified Kafka clients, with coordinators on both nodes."""

from collections.abc import Iterator
from typing import Any

import headrace
import kafka
import pytest
from confluent_kafka import TopicPartition
from headrace.services.local_io import LocalCluster
from kafka_clients import (
    WAIT_S,
    confluent_consumer,
    confluent_producer,
    consume,
    new_topic,
    produce,
    values_from,
)


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    """Two nodes: half of the groups and transactions live on each."""
    with headrace.local(nodes=2, listeners="PLAINTEXT://127.0.0.1:0") as made:
        yield made
        assert [node["kafka"]["broken"] for node in made.status()["nodes"]] == [0, 0]


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_confluent_kafka_reads_in_a_group(cluster: LocalCluster, protocol: str) -> None:
    """Join, read, commit, leave; the next member continues at the commit."""
    name = new_topic(cluster, f"group-{protocol}")
    produce(cluster, name, [b"%d" % number for number in range(100)])
    first = confluent_consumer(cluster, f"g-{protocol}", group_protocol=protocol)
    first.subscribe([name])
    assert len(values_from(first, 100)) == 100
    first.commit(asynchronous=False)
    first.close()
    produce(cluster, name, [b"new"])
    second = confluent_consumer(cluster, f"g-{protocol}", group_protocol=protocol)
    second.subscribe([name])
    assert values_from(second, 1) == [b"new"]
    positions = second.committed([TopicPartition(name, number) for number in range(3)], WAIT_S)
    assert sum(position.offset for position in positions) == 100
    second.close()


def test_two_clients_share_a_topic(cluster: LocalCluster) -> None:
    """kafka-python and confluent-kafka in one classic group: each reads a part, together all."""
    name = new_topic(cluster, "shared", 4)
    one = confluent_consumer(cluster, "shared", partition_assignment_strategy="range")
    one.subscribe([name])
    values_from(one, 0)
    other = kafka.KafkaConsumer(
        name,
        bootstrap_servers=cluster.kafka_bootstrap,
        group_id="shared",
        auto_offset_reset="earliest",
        partition_assignment_strategy=[kafka.coordinator.assignors.range.RangePartitionAssignor],
    )
    for _ in range(1000):
        one.poll(0.1)
        other.poll(100)
        if len(one.assignment()) == len(other.assignment()) == 2:
            break
    assert len(one.assignment()) == len(other.assignment()) == 2
    other.close()
    one.close()


@pytest.mark.parametrize("commits", [True, False])
def test_confluent_kafka_writes_in_transactions(cluster: LocalCluster, commits: bool) -> None:
    """read_committed does not return aborted records, and their offsets are not committed."""
    name = new_topic(cluster, f"txn-{commits}")
    source = confluent_consumer(cluster, f"txn-{commits}")
    source.subscribe([name])
    values_from(source, 0)
    producer = confluent_producer(cluster, transactional_id=f"t-{commits}")
    producer.init_transactions(WAIT_S)
    for turn in range(2):
        producer.begin_transaction()
        for number in range(10):
            producer.produce(name, b"%d %d" % (turn, number))
        for _ in range(2000):
            source.poll(0.05)
            if source.assignment():
                break
        offsets = [TopicPartition(name, 0, 5 + turn)]
        producer.send_offsets_to_transaction(offsets, source.consumer_group_metadata(), WAIT_S)
        if commits or turn == 1:
            producer.commit_transaction(WAIT_S)
        else:
            producer.abort_transaction(WAIT_S)
    found = consume(cluster, name, 20 if commits else 10, isolation_level="read_committed")
    assert {value.split()[0] for value in found} == ({b"0", b"1"} if commits else {b"1"})
    (committed,) = source.committed([TopicPartition(name, 0)], WAIT_S)
    assert committed.offset == 6
    source.close()


def test_kafka_python_writes_idempotently(cluster: LocalCluster) -> None:
    name = new_topic(cluster, "idempotent")
    producer: Any = kafka.KafkaProducer(bootstrap_servers=cluster.kafka_bootstrap)
    for number in range(100):
        producer.send(name, b"%d" % number)
    producer.flush(WAIT_S)
    producer.close()
    assert len(consume(cluster, name, 100)) == 100
