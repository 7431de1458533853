"""aiokafka, whose versions of the protocol are the oldest of the three: none of them flexible."""

import asyncio
from collections.abc import Iterator

import aiokafka
import pytest
from headrace.services.local_io import LocalCluster, local
from kafka_clients import new_topic

WAIT_S = 100.0


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    """Two nodes."""
    with local(nodes=2, listeners="PLAINTEXT://127.0.0.1:0") as made:
        yield made
        assert [node["kafka"]["broken"] for node in made.status()["nodes"]] == [0, 0]


async def test_group_reads_all_codecs(cluster: LocalCluster) -> None:
    """Written and committed, with and without transactions."""
    name = new_topic(cluster, "aio", 3)

    for compression in (None, "gzip", "lz4", "snappy"):
        producer = aiokafka.AIOKafkaProducer(
            bootstrap_servers=cluster.kafka_bootstrap, compression_type=compression, acks="all"
        )
        await producer.start()
        for number in range(25):
            await producer.send(name, b"%d" % number)
        await producer.stop()
    consumer = aiokafka.AIOKafkaConsumer(
        name,
        bootstrap_servers=cluster.kafka_bootstrap,
        group_id="aio",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    )
    await consumer.start()
    found = [await consumer.getone() for _ in range(100)]
    assert sorted(record.value for record in found) == sorted(b"%d" % (n % 25) for n in range(100))
    await consumer.commit()
    committed = [await consumer.committed(partition) for partition in consumer.assignment()]
    assert sum(offset or 0 for offset in committed) == 100
    await consumer.stop()


async def test_aborted_records_are_not_read(cluster: LocalCluster) -> None:
    name = new_topic(cluster, "aio-txn", 1)

    producer = aiokafka.AIOKafkaProducer(bootstrap_servers=cluster.kafka_bootstrap, transactional_id="aio")
    await producer.start()
    async with producer.transaction():
        await producer.send(name, b"committed")
    await producer.begin_transaction()
    await producer.send_and_wait(name, b"aborted")
    await producer.abort_transaction()
    async with producer.transaction():
        await producer.send(name, b"last")
    await producer.stop()
    consumer = aiokafka.AIOKafkaConsumer(
        name,
        bootstrap_servers=cluster.kafka_bootstrap,
        auto_offset_reset="earliest",
        isolation_level="read_committed",
    )
    await consumer.start()
    assert [(await consumer.getone()).value for _ in range(2)] == [b"committed", b"last"]
    await consumer.stop()


def test_restarted_node_is_found_again(cluster: LocalCluster) -> None:
    """Its listener has the port of its last run; acknowledged records are there once."""
    name = new_topic(cluster, "aio-restart", 2)

    async def scenario() -> None:
        producer = aiokafka.AIOKafkaProducer(
            bootstrap_servers=cluster.kafka_bootstrap, enable_idempotence=True, request_timeout_ms=20_000
        )
        await producer.start()
        for number in range(20):
            if number == 10:
                await asyncio.to_thread(cluster.restart_node, 0)
            await producer.send_and_wait(name, b"%d" % number)
        await producer.stop()

    before = cluster.kafka_bootstrap
    asyncio.run(asyncio.wait_for(scenario(), 2 * WAIT_S))
    assert cluster.kafka_bootstrap == before
    with cluster.consumer(name, auto_offset_reset="earliest") as consumer:
        found: list[bytes] = []
        while len(found) < 20:
            found += [record.value for record in consumer.poll(timeout=WAIT_S)]
    assert sorted(found) == sorted(b"%d" % number for number in range(20))
