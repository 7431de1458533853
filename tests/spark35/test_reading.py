"""`headrace.spark.read`: the columns of Spark's Kafka source, exact rows, and clear errors."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import headrace
import pytest
from headrace import NewTopic, TopicPartition
from headrace.clients.pipeline import Filters
from headrace.protocol.errors import ConfigError, DataLossError, UnknownTopicOrPartitionError
from headrace.runtime.clock_io import wall_ms
from pyspark.errors import PythonException
from recreating import recreate
from spark_topics import create, fill, given, handed_on, leader_of, values
from waiting import wait_for

KAFKA_COLUMNS = [
    ("key", "binary"),
    ("value", "binary"),
    ("topic", "string"),
    ("partition", "int"),
    ("offset", "bigint"),
    ("timestamp", "timestamp"),
    ("timestampType", "int"),
]
HEADERS = ("headers", "array<struct<key:string,value:binary>>")


def test_rows_have_the_columns_of_the_kafka_source(spark: Any, cluster: Any) -> None:
    """With headers on request; or selected columns only."""
    create(cluster, "columns", partitions=1)
    at_ms = wall_ms() - 5000  # retention counts from here
    with cluster.producer() as producer:
        producer.send("columns", b"v", key=b"k", timestamp=at_ms, headers=[("h", b"1"), ("h", None)])
        producer.send("columns", None, key=b"k2", timestamp=at_ms + 1)
    wanted = given(cluster, "columns", includeHeaders="true")
    df = headrace.spark.read(spark, **wanted)
    assert df.dtypes == [*KAFKA_COLUMNS, HEADERS]
    first, second = df.orderBy("offset").collect()
    assert (bytes(first.key), bytes(first.value), first.topic) == (b"k", b"v", "columns")
    assert (first.partition, first.offset, first.timestampType) == (0, 0, 0)
    assert first.timestamp.timestamp() * 1000 == pytest.approx(at_ms, abs=0.01)
    assert [(each.key, each.value) for each in first.headers] == [("h", b"1"), ("h", None)]
    assert (second.value, second.headers) == (None, [])
    assert headrace.spark.read(spark, **given(cluster, "columns")).dtypes == KAFKA_COLUMNS
    assert headrace.spark.read(spark, columns=["offset", "key"], **wanted).columns == ["offset", "key"]


def test_empty_topic_has_columns_and_no_rows(spark: Any, cluster: Any) -> None:
    """Without a job."""
    create(cluster, "empty")
    df = headrace.spark.read(spark, **given(cluster, "empty"))
    assert (df.dtypes, df.count()) == (KAFKA_COLUMNS, 0)


def test_filters_return_the_exact_rows(spark: Any, cluster: Any) -> None:
    """Written as text, or made before; filtered columns need not be selected."""
    create(cluster, "filtered", partitions=1)
    fill(cluster, "filtered", range(20))
    conditions = [("offset", ">=", 5), ("offset", "<", 8)]
    for filters in (conditions, Filters.of(conditions)):
        df = headrace.spark.read(spark, columns=["value"], filters=filters, **given(cluster, "filtered"))
        assert df.columns == ["value"]
        assert df.count() == 3
    with pytest.raises(ValueError, match="use partition, offset, timestamp"):
        headrace.spark.read(spark, filters=[("value", "=", b"x")], **given(cluster, "filtered"))


def test_imported_modules_are_excluded_from_garbage_collection(spark: Any) -> None:
    """Workers collect after every task."""

    def frozen(batches: Any) -> Any:
        import gc

        import pyarrow as pa

        yield from (pa.record_batch({"count": [gc.get_freeze_count()]}) for _ in batches)

    assert spark.range(1).mapInArrow(frozen, "count bigint").first()["count"] > 10_000


def test_each_range_is_a_task_near_its_leader(spark: Any, cluster: Any) -> None:
    """With the rows of the plan; the scheduler gets the locations."""
    create(cluster, "ranges")
    fill(cluster, "ranges", range(1000))
    df = headrace.spark.read(spark, **given(cluster, "ranges", minPartitions=4))
    fill(cluster, "ranges", range(1000, 1100))
    assert df.rdd.getNumPartitions() == 4
    rdd = df._jdf.queryExecution().toRdd()
    near = [str(spark.sparkContext._jsc.sc().getPreferredLocs(rdd, number)) for number in range(4)]
    assert near == ["List(127.0.0.1)"] * 4
    assert values(df) == list(range(1000))
    assert values(df.where("offset >= 990")) == list(range(990, 1000))


def test_missing_topics_options_and_offsets_are_refused(spark: Any, cluster: Any) -> None:
    """Before there is a job."""
    with pytest.raises(UnknownTopicOrPartitionError, match="no topic 'nowhere'"):
        headrace.spark.read(spark, **given(cluster, "nowhere"))
    with pytest.raises(
        ConfigError, match="unknown option 'startingOffset'; similar options: 'startingOffsets'"
    ):
        headrace.spark.read(spark, **given(cluster, "empty", startingOffset="earliest"))
    create(cluster, "outside", partitions=1)
    fill(cluster, "outside", range(100))
    cluster.admin().delete_records({TopicPartition("outside", 0): 40}).raise_for_errors()
    wanted = given(
        cluster, "outside", startingOffsets={"outside": {"0": 10}}, endingOffsets={"outside": {"0": 120}}
    )
    with pytest.raises(DataLossError, match=r"30 offsets from 10 on are lost: its log starts at 40 now"):
        headrace.spark.read(spark, **wanted)
    assert values(headrace.spark.read(spark, failOnDataLoss=False, **wanted)) == list(range(40, 100))


def test_recreated_topic_is_an_error(spark: Any, cluster: Any) -> None:
    """Between plan and read: a user's action shows the message, headrace's raises the error."""
    create(cluster, "recreated", "target", partitions=1)
    fill(cluster, "recreated", range(10))
    df = headrace.spark.read(spark, **given(cluster, "recreated"))
    lenient = headrace.spark.read(spark, **given(cluster, "recreated", failOnDataLoss="false"))
    recreate(cluster, NewTopic("recreated", 1, 1))
    fill(cluster, "recreated", range(50))
    with pytest.raises(PythonException, match=r"DataLossError: recreated-0: 10 offsets .* created again"):
        df.count()
    with pytest.raises(DataLossError, match=r"^recreated-0: 10 offsets from 0 on are lost: .* created again"):
        headrace.spark.write(df.select("value"), bootstrap=cluster.bootstrap, topic="target")
    assert lenient.count() == 0


def test_node_is_killed_during_a_read(spark: Any, cluster: Any, tmp_path: Path) -> None:
    """And a task fails after half of its rows: each row is there once."""
    create(cluster, "dying", partitions=1, replicas=3)
    count = 20_000
    fill(cluster, "dying", range(count), size=200)
    wanted = given(cluster, "dying", **{"kafka.max.partition.fetch.bytes": "20000"})
    leader = leader_of(cluster, "dying")
    df = headrace.spark.read(spark, columns=["value"], **wanted).mapInArrow(
        handed_on(tmp_path), "value binary"
    )
    with ThreadPoolExecutor(1) as pool:
        reading = pool.submit(values, df)
        wait_for(lambda: (tmp_path / "0").exists() or reading.done(), "the first rows")
        cluster.kill_node(leader - 1)
        try:
            (tmp_path / "go").touch()
            assert reading.result(500) == list(range(count))
        finally:
            cluster.restart_node(leader - 1)
    assert (tmp_path / "1").exists(), "the second attempt"


def test_process_has_one_session(spark: Any) -> None:
    """A second one would be the first, and stop it."""
    with (
        pytest.raises(ConfigError, match="is already running in this process"),
        headrace.spark.session(master="local"),
    ):
        pass
    assert spark.range(3).count() == 3


def test_workers_have_no_archives_of_spark_on_their_path(spark: Any) -> None:
    """Python would read their tables before every task."""

    def path(batches: Any) -> Any:
        import sys

        import pyarrow as pa

        list(batches)
        yield pa.record_batch({"entry": [*sys.path_importer_cache, *sys.path]})

    rows = spark.range(1, numPartitions=1).mapInArrow(path, "entry string").collect()
    assert not [row.entry for row in rows if "pyspark.zip" in row.entry or ".jar" in row.entry]
