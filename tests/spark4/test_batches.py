"""Batches of `format("headrace")`: what is written is read, by columns, filters and offsets; and what cannot
be done is said."""

import json
from collections.abc import Callable
from typing import Any

import headrace
import pytest
from markers import until_markers_are_written
from pyspark.errors import PySparkException


class Topics:
    """Reads and writes of one cluster."""

    def __init__(self, spark: Any, cluster: Any) -> None:
        self.spark, self.cluster = spark, cluster

    def read(self, topic: str, schema: str | None = None, **options: Any) -> Any:
        reader = self.spark.read.format("headrace")
        reader = reader.options(
            **{"kafka.bootstrap.servers": self.cluster.bootstrap, "subscribe": topic, **options}
        )
        return (reader if schema is None else reader.schema(schema)).load()

    def write(self, rows: Any, topic: str | None, mode: str = "append", **options: Any) -> None:
        writer = rows.write.format("headrace").option("kafka.bootstrap.servers", self.cluster.bootstrap)
        writer = writer if topic is None else writer.option("topic", topic)
        writer.options(**options).mode(mode).save()

    def numbers(self, topic: str, **options: Any) -> list[int]:
        """The values that readers of committed records see."""
        until_markers_are_written(self.cluster)
        read = self.read(topic, "value binary", **{"kafka.isolation.level": "read_committed", **options})
        return sorted(int(row.value) for row in read.collect())

    def put(self, topic: str, numbers: range, partition: int = 0) -> None:
        with self.cluster.producer() as producer:
            for number in numbers:
                producer.send(
                    topic, b"%d" % number, partition=partition, timestamp=1_700_000_000_000 + number
                )


@pytest.fixture
def topics(spark: Any, cluster: Any) -> Topics:
    """Those of the cluster."""
    return Topics(spark, cluster)


def test_functions_write_on_spark_4(spark: Any, topics: Topics, topic: Callable[..., str]) -> None:
    """`headrace.spark.write` of rows with timestamps, at least once."""
    name = topic(1)
    columns = "cast(id as string) as value", "timestamp_millis(1700000000000 + id) as timestamp"
    rows, at = spark.range(3).selectExpr(*columns), {"kafka.bootstrap.servers": topics.cluster.bootstrap}
    assert headrace.spark.write(rows, topic=name, **at).rows == 3
    assert topics.numbers(name) == [0, 1, 2]


def test_written_rows_are_read(spark: Any, topics: Topics, topic: Callable[..., str]) -> None:
    """All columns, with headers."""
    name = topic(2)
    rows = spark.range(0, 1000, 1, 1).selectExpr(
        "cast(id as string) as key",
        "cast(id * 2 as string) as value",
        "cast(id % 2 as int) as partition",
        "timestamp_millis(1700000000000 + id) as timestamp",
        "array(named_struct('key', 'n', 'value', cast(cast(id as string) as binary))) as headers",
    )
    topics.write(rows, name)
    read = topics.read(name, includeHeaders="true")
    assert read.schema.simpleString() == (
        "struct<key:binary,value:binary,topic:string,partition:int,offset:bigint,timestamp:timestamp,"
        "timestampType:int,headers:array<struct<key:string,value:binary>>>"
    )
    found = sorted(read.collect(), key=lambda row: int(row.key))
    assert [int(row.key) for row in found] == list(range(1000))
    for number in (0, 999):
        row = found[number]
        assert (row.value, row.topic, row.partition) == (str(2 * number).encode(), name, number % 2)
        assert (row.offset, row.timestampType) == (number // 2, 0)
        assert row.timestamp.timestamp() == 1700000000 + number / 1000
        assert row.headers == [("n", str(number).encode())]
    assert topics.read(name).schema.names[-1] == "timestampType"


def test_empty_writes_and_reads(spark: Any, topics: Topics, topic: Callable[..., str]) -> None:
    """A topic without records, a pattern without a match, no rows."""
    name = topic(2)
    topics.write(spark.range(0).selectExpr("cast(id as string) as value"), name)
    assert topics.numbers(name) == []
    at = {"kafka.bootstrap.servers": topics.cluster.bootstrap, "subscribePattern": "no such"}
    read = spark.read.format("headrace").options(**at).load()
    assert (read.count(), read.columns[0]) == (0, "key")


def test_filters_are_pushed_down(topics: Topics, topic: Callable[..., str]) -> None:
    """The same rows as without; the plan shows no filter of Spark."""
    name = topic(3)
    for partition in range(3):
        topics.put(name, range(100 * partition, 100 * partition + 50), partition)
    for condition, wanted in (
        ("partition = 1 and offset >= 10 and offset < 13", [110, 111, 112]),
        ("partition in (0, 2) and offset in (3, 49)", [3, 49, 203, 249]),
        ("timestamp > timestamp_millis(1700000000247)", [248, 249]),
        (f"topic = '{name}' and topic like 't%' and offset = 0", [0, 100, 200]),
        ("topic = 'other'", []),
        ("offset = 7 and (value = cast('7' as binary) or partition = 2)", [7, 207]),
    ):
        assert sorted(int(row.value) for row in topics.read(name).where(condition).collect()) == wanted
    plan = (
        topics.read(name)
        .where("partition = 1 and offset >= 10")
        ._jdf.queryExecution()
        .executedPlan()
        .toString()
    )
    assert "Filter (" not in plan


def test_ranges_columns_and_offsets_are_selected(topics: Topics, topic: Callable[..., str]) -> None:
    """By the options of Spark's connector; a schema of some columns reads no others."""
    name = topic(2)
    topics.put(name, range(100))
    edges = {"startingOffsets": {name: {"0": 10, "1": -2}}, "endingOffsets": {name: {"0": 20, "1": -1}}}
    options = {key: json.dumps(value) for key, value in edges.items()}
    read = topics.read(name, "offset bigint, value binary", minPartitions="5", **options)
    assert read.rdd.getNumPartitions() == 5
    assert [(row.offset, row.value) for row in read.collect()] == [
        (each, b"%d" % each) for each in range(10, 20)
    ]
    since = {"startingTimestamp": "1700000000099", "startingOffsetsByTimestampStrategy": "latest"}
    assert topics.read(name, **since).count() == 1
    assert topics.read(topic(1)).count() == 0


@pytest.mark.parametrize(
    ("options", "schema", "wanted"),
    [
        ({"subscribe": "nosuch"}, None, "no topic 'nosuch'"),
        ({"startingOffset": "earliest"}, None, "unknown option 'startingoffset'.*startingOffsets"),
        ({}, "value string", "column 'value' must be binary, not string"),
    ],
)
def test_invalid_reads_are_refused(
    topics: Topics, topic: Callable[..., str], options: dict[str, str], schema: str | None, wanted: str
) -> None:
    """Before any task runs."""
    name = topic(1)
    with pytest.raises(PySparkException, match=wanted):
        topics.read(name, schema, **options).collect()


@pytest.mark.parametrize(
    ("columns", "mode", "options", "wanted"),
    [
        (["id as value"], "append", {}, r"'value' has type int64: .*\.cast\(.string.\) in Spark"),
        (["'v' as value"], "overwrite", {}, 'write with mode."append".'),
        (["'v' as value"], "append", {"exactlyOnce": "maybe"}, "exactlyOnce must be true or false"),
        (["'v' as value", "9 as partition"], "append", {"kafka.max.block.ms": "3000"}, "partition"),
    ],
)
def test_invalid_writes_are_refused(
    spark: Any, topics: Topics, topic: Callable[..., str], columns: list[str], mode: str,
    options: dict[str, str], wanted: str,
) -> None:  # fmt: skip
    name = topic(1)
    with pytest.raises(PySparkException, match=wanted):
        topics.write(spark.range(3).selectExpr(*columns), name, mode, **options)
    assert topics.numbers(name) == []


def test_deleted_offsets(topics: Topics, topic: Callable[..., str]) -> None:
    """An error with their number; without failOnDataLoss the remaining rows."""
    name = topic(1)
    topics.put(name, range(30))
    from headrace import TopicPartition

    topics.cluster.admin().delete_records({TopicPartition(name, 0): 10}).raise_for_errors()
    options = {"startingOffsets": json.dumps({name: {"0": 5}})}
    with pytest.raises(PySparkException, match=r"5 offsets from 5 on are lost.*failOnDataLoss"):
        topics.read(name, **options).collect()
    assert topics.numbers(name, failOnDataLoss="false", **options) == list(range(10, 30))
    with pytest.raises(PySparkException, match="its log ends at 30"):
        topics.read(name, endingOffsets=json.dumps({name: {"0": 31}})).collect()


def test_topic_is_recreated_between_plan_and_read(topics: Topics, topic: Callable[..., str]) -> None:
    """The new topic, with the same offsets, is not read in its place."""
    name = topic(1)
    topics.put(name, range(30))
    planned = topics.read(name).rdd  # Spark plans here, and reads with the first action
    assert planned.getNumPartitions() == 1
    admin = topics.cluster.admin()
    admin.delete_topics(name).raise_for_errors()
    from headrace import NewTopic

    admin.create_topics(NewTopic(name, 1, configs={"retention.ms": "-1"})).raise_for_errors()
    topics.put(name, range(100, 130))
    assert topics.numbers(name) == list(range(100, 130))  # from here on the nodes know it
    with pytest.raises(Exception, match=r"(?s)DataLossError.*created again"):
        planned.count()


def test_retried_task_writes_once(
    spark: Any, topics: Topics, topic: Callable[..., str], tmp_path: Any
) -> None:
    """Its first attempt has written all of its rows and then fails."""
    name, mark = topic(2), str(tmp_path / "failed")

    def fail_once(batches: Any) -> Any:
        import pathlib

        yield from batches
        from pyspark import TaskContext

        if TaskContext.get().partitionId() == 1 and not pathlib.Path(mark).exists():  # type: ignore[union-attr]
            pathlib.Path(mark).write_text("")
            raise ValueError("after the last row")

    rows = spark.range(0, 2000, 1, 2).selectExpr("cast(cast(id as string) as binary) as value")
    topics.write(rows.mapInArrow(fail_once, "value binary"), name)
    assert (tmp_path / "failed").exists()
    assert topics.numbers(name) == list(range(2000))


def test_failed_job_leaves_no_rows(spark: Any, topics: Topics, topic: Callable[..., str]) -> None:
    """Nor of the task that had written before the other failed; no transaction stays open."""
    name, bootstrap = topic(2), topics.cluster.bootstrap

    def fail(batches: Any) -> Any:
        import headrace
        from headrace.runtime.waiting_io import until
        from pyspark import TaskContext

        if TaskContext.get().partitionId() == 1:  # type: ignore[union-attr]
            places = [headrace.TopicPartition(name, number) for number in range(2)]
            with headrace.connect(bootstrap) as cluster, cluster.consumer() as consumer:
                assert until(lambda: any(consumer.end_offsets(*places).values()), 300)
            raise ValueError("always")
        yield from batches

    rows = spark.range(0, 2000, 1, 2).selectExpr("cast(cast(id as string) as binary) as value")
    with pytest.raises(PySparkException, match="always"):
        topics.write(rows.mapInArrow(fail, "value binary"), name)
    assert topics.numbers(name) == []
    for partition in range(2):
        topics.put(name, range(3), partition)
    assert topics.numbers(name) == [0, 0, 1, 1, 2, 2]


def test_at_least_once(spark: Any, topics: Topics, topic: Callable[..., str]) -> None:
    name = topic(2)
    rows = spark.range(100).selectExpr("cast(id as string) as value", f"'{name}' as topic")
    topics.write(rows, None, exactlyOnce="false")
    assert topics.numbers(name) == list(range(100))
    assert topics.read(name).count() == 100


def test_single_write_leaves_no_decision(spark: Any, topics: Topics, topic: Callable[..., str]) -> None:
    """No later batch would read it."""
    topics.write(spark.range(3).selectExpr("cast(id as string) as value"), topic(1))
    last = {}
    for row in topics.read("__pipeline_commits", "key binary, value binary, offset bigint").collect():
        last[row.key] = max(last.get(row.key, (-1, None)), (row.offset, row.value is None))
    mine = [is_gone for key, (_, is_gone) in last.items() if key.startswith(b"spark-batch-")]
    assert mine
    assert all(mine)
