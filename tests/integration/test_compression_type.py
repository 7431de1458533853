"""`compression.type` of topics over real sockets: both planes, two replicas, idempotent producers."""

from collections.abc import Iterator
from pathlib import Path

import headrace
import kafka
import pytest
from headrace.protocol.records.codec import active_codec
from headrace.protocol.records.header import Compression, read_batch_header
from headrace.services.local_io import LocalCluster
from kafka_clients import WAIT_S, consume, new_topic, produce

CODECS = {
    "uncompressed": Compression.NONE,
    "gzip": Compression.GZIP,
    "snappy": Compression.SNAPPY,
    "lz4": Compression.LZ4,
    "zstd": Compression.ZSTD,
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("compression")


@pytest.fixture(scope="module")
def cluster(folder: Path) -> Iterator[LocalCluster]:
    """Two nodes, each with a listener for Kafka's clients."""
    with headrace.local(nodes=2, data_dir=str(folder), listeners="PLAINTEXT://127.0.0.1:0") as made:
        yield made


def stored(folder: Path, topic: str) -> dict[str, bytes]:
    """The segments of partition 0 by their paths; the topic has one small segment on each replica."""
    found = {str(path): path.read_bytes() for path in folder.rglob(f"{topic}-0/*.log")}
    assert found, "the topic lies somewhere below the data folder"
    return found


def codecs_in(data: bytes) -> set[int]:
    """The codecs of the batches in a segment; every CRC is checked."""
    codecs = set()
    while data:
        size = read_batch_header(data).size_bytes
        codecs.add(active_codec().check(data[:size]).compression_id)
        data = data[size:]
    return codecs


@pytest.mark.parametrize("name", CODECS)
def test_every_client_writes_the_topics_codec(cluster: LocalCluster, folder: Path, name: str) -> None:
    """confluent-kafka, kafka-python and headrace's own producer, idempotent and pipelined: every record is
    read back once, all replicas have equal bytes in the topic's codec."""
    topic = f"stored-{name}"
    with cluster.admin() as admin:
        admin.create_topics(
            headrace.NewTopic(topic, 1, 2, configs={"compression.type": name, "min.insync.replicas": "2"})
        ).raise_for_errors()
    values = [b"confluent %d" % number for number in range(300)]
    produce(cluster, topic, values, compression_type="lz4", linger_ms=1, batch_size=2000)
    python = kafka.KafkaProducer(
        bootstrap_servers=cluster.kafka_bootstrap, compression_type="gzip", batch_size=2000
    )
    values += [b"python %d" % number for number in range(300)]
    for value in values[300:]:
        python.send(topic, value)
    python.flush(WAIT_S)
    python.close()
    own = [b"own %d" % number for number in range(300)]
    with cluster.producer(compression_type="snappy", batch_size=2000) as producer:
        producer.send_many(topic, own).raise_for_errors(WAIT_S)
    assert sorted(consume(cluster, topic, 900, 1)) == sorted(values + own)
    segments = list(stored(folder, topic).values())
    assert len(segments) == 2
    assert segments[0] == segments[1]
    assert codecs_in(segments[0]) == {CODECS[name]}


def test_compression_type_of_a_topic_may_change(cluster: LocalCluster, folder: Path) -> None:
    """Stored batches keep their codec; later ones have the new codec."""
    topic = new_topic(cluster, "changes", 1)
    with cluster.producer() as producer, cluster.admin() as admin:
        producer.send(topic, value=b"before").result(WAIT_S)
        resource = headrace.Resource.topic(topic)
        admin.alter_configs({resource: {"compression.type": "zstd"}}).raise_for_errors()
        producer.send(topic, value=b"after").result(WAIT_S)
    assert sorted(consume(cluster, topic, 2, 1)) == [b"after", b"before"]
    assert codecs_in(next(iter(stored(folder, topic).values()))) == {Compression.NONE, Compression.ZSTD}
