"""Streams of `format("headrace")` from topic to topic: exactly once over restarts, within limits, and what
they say of it."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from headrace import NewTopic, TopicPartition
from markers import until_markers_are_written
from pyspark.errors import PySparkException
from waiting import wait_for


class Copy:
    """A query that copies a topic to another, run by run."""

    def __init__(self, spark: Any, cluster: Any, source: str, target: str, checkpoint: Path) -> None:
        self.spark, self.cluster = spark, cluster
        self.source, self.target, self.checkpoint = source, target, checkpoint
        self.at = {"kafka.bootstrap.servers": cluster.bootstrap}

    def rows(self, **options: Any) -> Any:
        given = {**self.at, "startingOffsets": "earliest", **options}
        if not {"assign", "subscribePattern"} & set(given):
            given["subscribe"] = self.source
        return self.spark.readStream.format("headrace").options(**given).load().select("key", "value")

    def start(self, rows: Any, *, available_now: bool = True, **write: Any) -> Any:
        given = {**self.at, "topic": self.target, "checkpointLocation": str(self.checkpoint), **write}
        writer = rows.writeStream.format("headrace").options(**given)
        return (writer.trigger(availableNow=True) if available_now else writer).start()

    def run(self, write: dict[str, Any] | None = None, **read: Any) -> list[Any]:
        """What was new; the progress of each batch that had rows."""
        query = self.start(self.rows(**read), **(write or {}))
        assert query.awaitTermination(500)
        return [each for each in query.recentProgress if each["numInputRows"]]

    def seen(self) -> list[int]:
        """All that readers of committed records see."""
        until_markers_are_written(self.cluster)
        read = self.spark.read.format("headrace").schema("value binary").options(
            **self.at, **{"kafka.isolation.level": "read_committed"}, subscribe=self.target
        )  # fmt: skip
        return sorted(int(row.value) for row in read.load().collect())

    def put(self, numbers: range, topic: str | None = None, partitions: int = 2) -> None:
        with self.cluster.producer() as producer:
            for number in numbers:
                producer.send(topic or self.source, b"%d" % number, partition=number % partitions)

    def undo_commit(self) -> None:
        """As if Spark had died before it noted its last batch: it will play that again."""
        commits = self.checkpoint / "commits"
        last = max(
            (path for path in commits.iterdir() if path.name.isdigit()), key=lambda path: int(path.name)
        )
        last.unlink()
        (commits / f".{last.name}.crc").unlink(missing_ok=True)

    def forget_ids(self) -> None:
        """As if a version had written the checkpoint that knew no ids of topics."""
        for path in (each for each in (self.checkpoint / "offsets").iterdir() if each.name.isdigit()):
            *lines, offsets = path.read_text().splitlines()
            known = {name: found for name, found in json.loads(offsets).items() if name == self.source}
            path.write_text("\n".join([*lines, json.dumps(known)]))
            (path.parent / f".{path.name}.crc").unlink()


@pytest.fixture
def copy(spark: Any, cluster: Any, topic: Callable[..., str], tmp_path: Path) -> Copy:
    """Of two new topics."""
    return Copy(spark, cluster, topic(), topic(), tmp_path / "checkpoint")


def test_available_rows_are_copied_and_a_restart_continues(copy: Copy) -> None:
    """Limits divide the batches; the lag is shown; a repeated batch is there once; new partitions are read
    from their start."""
    copy.put(range(100))
    batches = copy.run(maxOffsetsPerTrigger="40", minOffsetsPerTrigger="30", **{"kafka.group.id": "copying"})
    assert [each["numInputRows"] for each in batches] == [40, 40, 20]
    assert copy.seen() == list(range(100))
    lags = copy.cluster.admin().consumer_group_lag("copying")["copying"].partitions
    assert {tp: each.records for tp, each in lags.items()} == {
        TopicPartition(copy.source, 0): 0,
        TopicPartition(copy.source, 1): 0,
    }
    source = batches[0]["sources"][0]
    end = json.loads(str(source["endOffset"]).replace("'", '"'))
    assert end.pop("topic ids").keys() == {copy.source}
    assert end == {copy.source: {"0": 20, "1": 20}}
    assert json.loads(str(source["latestOffset"]).replace("'", '"')) == {copy.source: {"0": 50, "1": 50}}
    copy.undo_commit()
    copy.forget_ids()
    copy.cluster.admin().create_partitions({copy.source: 3}).raise_for_errors()
    copy.put(range(100, 130), partitions=3)
    copy.run()
    assert copy.seen() == list(range(130))
    shutil.rmtree(copy.checkpoint)  # another query, whose batches have the same numbers
    copy.run({"exactlyOnce": "false"})
    assert copy.seen() == sorted([*range(130), *range(130)])


def test_running_query_reads_new_rows(copy: Copy) -> None:
    """From the end at its start; its progress is committed while it waits."""
    copy.put(range(10))
    rows = copy.rows(startingOffsets="latest", **{"kafka.group.id": "following"})
    query = copy.start(rows, available_now=False)
    try:
        query.processAllAvailable()
        assert copy.seen() == []
        copy.put(range(10, 30))
        query.processAllAvailable()
        assert copy.seen() == list(range(10, 30))
        response = copy.cluster.admin().consumer_group_lag
        wait_for(
            lambda: (
                [each.records for each in response("following")["following"].partitions.values()] == [0, 0]
            ),
            "the progress is published",
        )
    finally:
        query.stop()


def test_rows_appended_after_the_start_are_for_the_next_run(copy: Copy) -> None:
    """The source is its own target here. Bytes limit a batch too, by the average record size."""
    copy.target = copy.source
    copy.put(range(1000, 3000))
    dirs = copy.cluster.admin().describe_log_dirs()
    replicas = [each for node in dirs.values() for place in node for each in place.replicas]
    size_bytes = sum(each.size_bytes for each in replicas if each.topic == copy.source)
    batches = copy.run(maxBytesPerTrigger=str(size_bytes // 3))
    assert sum(each["numInputRows"] for each in batches) == 2000
    assert max(each["numInputRows"] for each in batches) < 1000
    assert copy.seen() == sorted([*range(1000, 3000), *range(1000, 3000)])


def test_lost_rows_and_topics(copy: Copy) -> None:
    """After retention, and after a deletion: an error with the loss; or the remaining rows."""
    other = f"{copy.source}-other"
    copy.cluster.admin().create_topics(NewTopic(other, 1)).raise_for_errors()
    copy.put(range(20))
    copy.put(range(100, 110), other, 1)
    pattern = {"subscribePattern": f"{copy.source}.*"}
    copy.run(**pattern)
    copy.put(range(20, 60))
    copy.cluster.admin().delete_records({TopicPartition(copy.source, 0): 15}).raise_for_errors()
    copy.cluster.admin().delete_topics(other).raise_for_errors()
    lost = r"5 offsets from 10 on are lost.*other-0.*the partition is deleted.*failOnDataLoss"
    with pytest.raises(PySparkException, match=lost):
        copy.run(**pattern)
    copy.run(failOnDataLoss="false", **pattern)
    assert copy.seen() == sorted([*range(20), *range(100, 110), *range(21, 60, 2), *range(30, 60, 2)])


def test_topic_is_recreated_between_two_runs(copy: Copy) -> None:
    """With more records than the old one: an error, or all of the new one."""
    copy.put(range(10))
    copy.run()
    copy.cluster.admin().delete_topics(copy.source).raise_for_errors()
    copy.cluster.admin().create_topics(NewTopic(copy.source, 2)).raise_for_errors()
    copy.put(range(100, 140))
    with pytest.raises(
        PySparkException, match=f"topic {copy.source} was created again.*failOnDataLoss=false"
    ):
        copy.run()
    copy.run(failOnDataLoss="false")
    assert copy.seen() == [*range(10), *range(100, 140)]


def dying() -> Any:
    """A data source whose driver dies between the decision and the commits. It is pickled as it stands."""
    from headrace.clients.pipeline.sink_io import Sink
    from headrace.clients.spark.source_io import HeadraceDataSource
    from headrace.clients.spark.source_writer_io import StreamWriter

    class Dying(HeadraceDataSource):
        @classmethod
        def name(cls) -> str:
            return "dying"

        def streamWriter(self, schema: Any, overwrite: bool) -> Any:
            return DyingWriter(super().streamWriter(schema, overwrite)._how)

    class DyingWriter(StreamWriter):
        def commit(self, messages: Any, batchId: int) -> None:
            def die(_sink: Any, decision: Any) -> None:
                raise RuntimeError(f"dead after deciding {len(decision.writes)} writes")

            real, Sink._finish = Sink._finish, die  # type: ignore[method-assign]
            try:
                super().commit(messages, batchId)
            finally:
                Sink._finish = real  # type: ignore[method-assign]

        def abort(self, messages: Any, batchId: int) -> None:
            """The dead do not."""

    return Dying


def test_repeated_batch_finds_its_decision(copy: Copy) -> None:
    """The driver dies before it has committed the transactions. The tasks of the next run neither fence the
    decided transactions nor add rows."""
    copy.put(range(20))
    copy.spark.dataSource.register(dying())
    given = {**copy.at, "topic": copy.target, "checkpointLocation": str(copy.checkpoint)}
    query = copy.rows().writeStream.format("dying").options(**given).trigger(availableNow=True).start()
    with pytest.raises(PySparkException, match="dead after deciding 2 writes"):
        query.awaitTermination(500)
    assert copy.seen() == []
    copy.put(range(20, 30))
    copy.run()
    assert copy.seen() == list(range(30))


def test_retried_task_writes_once(copy: Copy, tmp_path: Path) -> None:
    """Its first attempt has written all of its rows."""
    copy.put(range(100))
    mark = str(tmp_path / "failed")

    def fail_once(batches: Any) -> Any:
        import pathlib

        yield from batches
        if not pathlib.Path(mark).exists():
            pathlib.Path(mark).write_text("")
            raise ValueError("after the last row")

    query = copy.start(copy.rows().mapInArrow(fail_once, "key binary, value binary"))
    assert query.awaitTermination(500)
    assert (tmp_path / "failed").exists()
    assert copy.seen() == list(range(100))


def test_failed_batch_leaves_no_rows_and_runs_again(copy: Copy, tmp_path: Path) -> None:
    """No task has sent a message: the run is aborted, and a late task writes nothing."""
    copy.put(range(100))

    def fail(batches: Any) -> Any:
        yield from batches
        raise ValueError("always")

    query = copy.start(copy.rows().mapInArrow(fail, "key binary, value binary"))
    with pytest.raises(PySparkException, match="always"):
        query.awaitTermination(500)
    assert copy.seen() == []
    begins = f"headrace-sink/spark-{query.id}/{query.runId}%40"
    (_,) = copy.cluster.admin().list_transactions(pattern=f"{begins}[0-9a-f]+")
    copy.run()
    assert copy.seen() == list(range(100))


@pytest.mark.parametrize(
    ("read", "write", "wanted"),
    [
        ({"endingOffsets": "latest"}, {}, "endingOffsets is for batches"),
        ({}, {"kafka.transactional.id": "mine"}, "each task uses its own"),
    ],
)
def test_invalid_options_are_refused(
    copy: Copy, read: dict[str, Any], write: dict[str, Any], wanted: str
) -> None:
    """As the error of the query, at the latest."""
    copy.put(range(3))
    with pytest.raises(PySparkException, match=wanted):
        copy.run(write, **read)
