"""A node dies while Spark reads from it and writes to it."""

import pickle
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from headrace import LocalCluster, NewTopic, local
from headrace.clients.pipeline import read_options, write_options
from headrace.clients.spark.batch_reader_io import Reader
from headrace.clients.spark.source_writer_io import BatchWriter, Delivery
from markers import until_markers_are_written
from pyspark import TaskContext
from spark_topics import handed_on
from waiting import wait_for

COUNT = 40_000


@pytest.fixture(scope="module")
def nodes() -> Iterator[LocalCluster]:
    """Three that miss each other soon."""
    with local(nodes=3, broker_session_timeout_ms=3_000) as started:
        started.producer(transactional_id="first").init_transactions()  # its topic has three replicas
        yield started


def test_node_is_killed_during_a_batch(nodes: LocalCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the parts of Spark's tasks, without Spark."""
    nodes.admin().create_topics(NewTopic("in", 1, 3), NewTopic("out", 3, 3)).raise_for_errors()
    with nodes.producer() as producer:
        for number in range(COUNT):
            producer.send("in", b"%0200d" % number)
    at = {"bootstrap": nodes.bootstrap}
    small = {"kafka.max.partition.fetch.bytes": "100000"}
    reader = Reader(read_options({**at, "subscribe": "in", **small}), ["value"])
    (whole,) = pickle.loads(pickle.dumps(reader.partitions()))
    leader = whole.value.leader

    def rows() -> Iterator[Any]:
        batches = reader.read(whole)
        yield next(batches)
        nodes.kill_node(leader - 1)
        yield from batches

    context = SimpleNamespace(partitionId=lambda: 0, attemptNumber=lambda: 0)
    monkeypatch.setattr(TaskContext, "get", lambda: context)
    writer = BatchWriter(Delivery(write_options({**at, "topic": "out"}), True))
    try:
        writer.commit([pickle.loads(pickle.dumps(writer.write(rows())))])
    finally:
        nodes.restart_node(leader - 1)
    read = Reader(
        read_options({**at, "subscribe": "out", "kafka.isolation.level": "read_committed"}), ["value"]
    )
    batches = (batch for each in read.partitions() for batch in read.read(each))
    found = [int(value) for batch in batches for value in batch.column("value").to_pylist()]
    assert sorted(found) == list(range(COUNT))


def test_node_is_killed_during_a_read_and_a_write(spark: Any, nodes: LocalCluster, tmp_path: Path) -> None:
    """The task continues with the next leaders, and every row is there once."""
    nodes.admin().create_topics(NewTopic("from", 1, 3), NewTopic("to", 3, 3)).raise_for_errors()
    with nodes.producer() as producer:
        for number in range(COUNT):
            producer.send("from", b"%0200d" % number)
    at = {"kafka.bootstrap.servers": nodes.bootstrap}
    reader = spark.readStream.format("headrace").schema("value binary")
    reader = reader.options(**at, **{"kafka.max.partition.fetch.bytes": "100000"})
    rows = reader.options(subscribe="from", startingOffsets="earliest").load()
    writer = rows.mapInArrow(handed_on(tmp_path, fails=False), "value binary").writeStream.format("headrace")
    writer = writer.options(**at, topic="to", checkpointLocation=str(tmp_path / "checkpoint"))
    query = writer.trigger(availableNow=True).start()
    wait_for(lambda: (tmp_path / "0").exists() or not query.isActive, "the first rows")
    leader = nodes.admin().describe_topics("from")["from"].partitions[0].leader
    nodes.kill_node(leader - 1)
    (tmp_path / "go").touch()
    assert query.awaitTermination(500)
    assert not query.exception()
    until_markers_are_written(nodes)
    committed = {**at, "subscribe": "to", "kafka.isolation.level": "read_committed"}
    read = spark.read.format("headrace").schema("value binary").options(**committed).load()
    assert sorted(int(row.value) for row in read.collect()) == list(range(COUNT))
