"""`headrace.spark.write` and `write_batch`: what attempts leave behind, and what readers see."""

import pickle
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import headrace
import pytest
from headrace import NewTopic, TopicPartition
from headrace.clients.pipeline import prepare_arrow, write_options
from headrace.clients.pipeline.commits import COMMITS_TOPIC
from headrace.clients.spark import writing_io
from headrace.protocol.errors import HeadraceError, ProducerFencedError
from headrace.runtime.clock_io import wall_ms
from spark_topics import create, handed_on, leader_of, stored
from waiting import wait_for


def numbers(spark: Any, count: int, tasks: int = 2) -> Any:
    return spark.range(count, numPartitions=tasks).selectExpr("cast(id as string) as value")


def falls_after(work: Any) -> Callable[..., Any]:
    """The same, but the first attempt of a task falls when all of its rows are stored."""

    def falling(*args: Any, **options: Any) -> Any:
        from pyspark import TaskContext

        done = work(*args, **options)
        if TaskContext.get().attemptNumber() == 0:
            raise RuntimeError("the first attempt falls")
        return done

    return falling


def test_rows_are_written_with_key_partition_timestamp_and_headers(spark: Any, cluster: Any) -> None:
    """The report has their offsets."""
    create(cluster, "report")
    at_ms = wall_ms()  # retention counts from here
    rows = spark.sql(
        "select 'k' as key, cast(id as string) as value, cast(1 as int) as partition,"
        f" timestamp_millis({at_ms} + id) as timestamp,"
        " array(named_struct('key', 'h', 'value', cast('x' as binary))) as headers from range(0, 100, 1, 4)"
    )
    report = headrace.spark.write(rows, bootstrap=cluster.bootstrap, topic="report")
    assert report.rows == 100
    ((place, written),) = report.partitions
    assert (place, written.first, written.last) == (TopicPartition("report", 1), 0, 99)
    consumer = cluster.consumer("report", auto_offset_reset="earliest")
    found = [next(iter(consumer)) for _ in range(100)]
    assert {(each.key, tuple(each.headers)) for each in found} == {(b"k", (("h", b"x"),))}
    assert all(each.timestamp == at_ms + int(each.value) for each in found)


def test_invalid_columns_are_refused_before_any_task(spark: Any, cluster: Any) -> None:
    """The error lists the allowed ones."""
    with pytest.raises(ValueError, match="unknown column 'id': the columns are value and"):
        headrace.spark.write(spark.range(3), bootstrap=cluster.bootstrap, topic="report")
    with pytest.raises(TypeError, match=r"'value' has type int64: .*\.cast\(.string.\) in Spark"):
        headrace.spark.write(spark.range(3).toDF("value"), bootstrap=cluster.bootstrap, topic="report")
    with pytest.raises(ValueError, match="give the option topic or a column 'topic'"):
        headrace.spark.write_batch(numbers(spark, 3), 0, query="q", bootstrap=cluster.bootstrap)


def test_retried_task_writes_twice_at_least_once_and_once_exactly_once(
    spark: Any, cluster: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its first attempt has stored all of its rows."""
    create(cluster, "twice", "once")
    for name in ("write_arrow", "prepare_arrow"):
        monkeypatch.setattr(writing_io, name, falls_after(getattr(writing_io, name)))
    report = headrace.spark.write(numbers(spark, 100), bootstrap=cluster.bootstrap, topic="twice")
    assert report.rows == 100
    assert stored(cluster, "twice") == sorted([*range(100)] * 2)
    to = {"bootstrap": cluster.bootstrap, "topic": "once"}
    assert headrace.spark.write_batch(numbers(spark, 100), 0, query="once", **to)
    assert stored(cluster, "once") == list(range(100))
    assert stored(cluster, "once", "read_uncommitted") == sorted([*range(100)] * 2)


def test_committed_batch_is_not_written_again(spark: Any, cluster: Any) -> None:
    """Whichever driver repeats it; the next batch is."""
    create(cluster, "replayed")
    to = {"bootstrap": cluster.bootstrap, "topic": "replayed", "query": "replayed"}
    assert headrace.spark.write_batch(numbers(spark, 10), 4, **to)
    assert not headrace.spark.write_batch(numbers(spark, 20), 4, **to)
    assert headrace.spark.write_batch(numbers(spark, 0), 5, **to)
    assert not headrace.spark.write_batch(numbers(spark, 20), 5, **to)
    assert stored(cluster, "replayed") == list(range(10))
    # another name is another sink, which has written nothing
    assert headrace.spark.write_batch(numbers(spark, 10), 4, **{**to, "query": "other"})
    assert stored(cluster, "replayed") == sorted([*range(10)] * 2)


def test_error_of_a_task_is_raised_and_nothing_stays_open(
    spark: Any, cluster: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A row is too large in one of two tasks: no row of the batch is visible, and a late task writes
    nothing."""
    real, kept = prepare_arrow, str(tmp_path / "gate")

    def keeps(batches: Any, options: Any, *, gate: Any, **names: Any) -> Any:
        import pickle
        from pathlib import Path

        Path(kept).write_bytes(pickle.dumps(gate))
        return real(batches, options, gate=gate, **names)

    monkeypatch.setattr(writing_io, "prepare_arrow", keeps)
    cluster.admin().create_topics(NewTopic("small", 1, 1, {"max.message.bytes": "2000"})).raise_for_errors()
    rows = spark.range(10, numPartitions=2).selectExpr("repeat('x', cast(id * 1000 as int)) as value")
    with pytest.raises(HeadraceError, match=r"bytes, max\.message\.bytes is 2000$"):
        headrace.spark.write_batch(rows, 0, query="small", bootstrap=cluster.bootstrap, topic="small")
    options = write_options({"bootstrap": cluster.bootstrap, "topic": "small"})
    with pytest.raises(ProducerFencedError, match="is too late"):
        real([], options, query="small", task=9, gate=pickle.loads((tmp_path / "gate").read_bytes()))
    to = {"bootstrap": cluster.bootstrap, "topic": "small"}
    assert headrace.spark.write_batch(numbers(spark, 10), 0, query="small", **to)
    assert stored(cluster, "small") == list(range(10))


def test_node_is_killed_during_a_write(spark: Any, cluster: Any, tmp_path: Path) -> None:
    """And the first attempts of tasks fail after it: each row is there once."""
    create(cluster, "written", partitions=1, replicas=3)
    rows = numbers(spark, 20_000, tasks=1).mapInArrow(handed_on(tmp_path), "value string")
    leader = leader_of(cluster, "written")
    to = {"bootstrap": cluster.bootstrap, "topic": "written"}
    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(headrace.spark.write_batch, rows, 0, query="written", **to)
        wait_for(lambda: (tmp_path / "0").exists() or writing.done(), "the first rows")
        cluster.kill_node(leader - 1)
        try:
            (tmp_path / "go").touch()
            assert writing.result(500)
            assert stored(cluster, "written") == list(range(20_000))
        finally:
            cluster.restart_node(leader - 1)
    assert (tmp_path / "1").exists(), "the second attempt"
    # what the driver decides does not wait for the node either
    decided = cluster.admin().describe_topics(COMMITS_TOPIC)[COMMITS_TOPIC].partitions[0]
    assert len(decided.replicas) == 3
