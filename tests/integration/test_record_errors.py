"""A batch with some invalid records (KIP-467): the response fields, and the retry of its valid records."""

import time
from collections.abc import Iterator
from typing import Any

import headrace
import pytest
from beside.wire import Wire
from headrace import errors
from headrace.protocol.records.codec import active_codec
from headrace.protocol.records.header import Compression
from headrace.services.local_io import LocalCluster

WAIT_S = 100.0


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    """One node, with a listener for Kafka's clients."""
    with headrace.local(listeners="PLAINTEXT://127.0.0.1:0") as made:
        yield made


def new_topic(cluster: LocalCluster, name: str, **configs: str) -> str:
    named = {key.replace("_", "."): value for key, value in configs.items()}
    with cluster.admin() as admin:
        admin.create_topics(headrace.NewTopic(name, 1, configs=named)).raise_for_errors()
    return name


def batch_of(keys: list[bytes | None], compression: Compression = Compression.NONE, hours: int = 0) -> bytes:
    """One record for each key; those without one are `hours` ahead of now."""
    builder = active_codec().builder(max_bytes=1 << 20, compression=compression)
    now_ms = int(time.time() * 1000)
    for key in keys:
        builder.append(now_ms + (0 if key else hours * 3_600_000), key, b"v")
    return builder.build()


@pytest.mark.parametrize("compression", [Compression.NONE, Compression.ZSTD])
@pytest.mark.parametrize("version", [7, 8, 9, 12])
def test_response_names_the_invalid_records(
    cluster: LocalCluster, version: int, compression: Compression
) -> None:
    """From version 8 on, in both encodings; before, the error code alone."""
    topic = new_topic(cluster, f"wire-{version}-{compression}", cleanup_policy="compact")
    with Wire(cluster.kafka_bootstrap) as wire:

        def produce(data: bytes) -> Any:
            partitions = [{"index": 0, "records": data}]
            topics = [{"name": topic, "partition_data": partitions}]
            fields = {"acks": -1, "timeout": 10_000, "transactional_id": None, "topic_data": topics}
            return wire.ask("produce", version, **fields)["responses"][0]["partition_responses"][0]

        response = produce(batch_of([b"k", None, b"k", None], compression))
        assert response["error_code"] == "invalid_record"
        if version >= 8:
            assert [each["batch_index"] for each in response["record_errors"]] == [1, 3]
            assert "no key" in response["record_errors"][0]["batch_index_error_message"]
            assert "2 records" in response["error_message"]
        assert produce(batch_of([b"k", b"k"], compression))["base_offset"] == 0


@pytest.mark.parametrize("compression", ["none", "lz4"])
@pytest.mark.parametrize("is_idempotent", [True, False])
def test_producer_loses_only_the_invalid_records(
    cluster: LocalCluster, compression: str, is_idempotent: bool
) -> None:
    """10 of 100 have no key: 90 are stored in order; later records too."""
    topic = new_topic(cluster, f"own-{compression}-{is_idempotent}", cleanup_policy="compact")
    with cluster.producer(
        compression_type=compression, enable_idempotence=is_idempotent, linger_ms=20
    ) as producer:
        for start in (0, 100):
            futures = [
                producer.send(topic, value=b"%d" % number, key=None if number % 10 == 5 else b"%d" % number)
                for number in range(start, start + 100)
            ]
            failed = {
                number: future.exception(WAIT_S)
                for number, future in enumerate(futures, start)
                if future.exception(WAIT_S) is not None
            }
            assert list(failed) == list(range(start + 5, start + 100, 10))
            assert all(isinstance(error, errors.InvalidRecordError) for error in failed.values())
            offsets = [future.result().offset for n, future in enumerate(futures, start) if n not in failed]
            assert offsets == list(range(start // 10 * 9, start // 10 * 9 + 90))
    with cluster.consumer(auto_offset_reset="earliest") as consumer:
        consumer.assign([headrace.TopicPartition(topic, 0)])
        found: list[bytes | None] = []
        while len(found) < 180:
            found += [record.value for record in consumer.poll(WAIT_S)]
    assert found == [b"%d" % number for number in range(200) if number % 10 != 5]


def test_close_raises_the_error_of_refused_records(cluster: LocalCluster) -> None:
    """The valid records are stored; the error has the count."""
    topic = new_topic(cluster, "closing", cleanup_policy="compact")
    producer = cluster.producer(linger_ms=20)
    for number in range(10):
        producer.send(topic, value=b"v", key=None if number % 5 == 0 else b"k")
    with pytest.raises(errors.InvalidRecordError, match="key") as caught:
        producer.close()
    assert any(note.endswith(": 2") for note in caught.value.__notes__)


def test_transaction_with_an_invalid_record_aborts(cluster: LocalCluster) -> None:
    """The other records fail with their own error, and none is visible."""
    topic = new_topic(cluster, "transaction", cleanup_policy="compact")
    with cluster.producer(transactional_id="bad-records", linger_ms=20) as producer:
        producer.begin_transaction()
        good, bad = producer.send(topic, value=b"v", key=b"k"), producer.send(topic, value=b"v")
        assert isinstance(bad.exception(WAIT_S), errors.InvalidRecordError)
        assert isinstance(good.exception(WAIT_S), errors.BatchRefusedError | errors.TransactionAbortedError)
        with pytest.raises(errors.TransactionAbortableError):
            producer.commit_transaction()
        producer.abort_transaction()
        with producer.transaction():
            producer.send(topic, value=b"next", key=b"k")
    with cluster.consumer(auto_offset_reset="earliest", isolation_level="read_committed") as consumer:
        consumer.assign([headrace.TopicPartition(topic, 0)])
        assert [record.value for record in consumer.poll(WAIT_S)] == [b"next"]
