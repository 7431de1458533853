"""Streams of micro-batches: each row once, in whichever way a run ends."""

from pathlib import Path
from typing import Any

import headrace
import pytest
from headrace import NewTopic
from headrace.protocol.errors import DataLossError
from recreating import recreate
from spark_topics import create, fill, given, stored, values
from waiting import wait_for


def test_available_rows_are_read_in_batches(spark: Any, cluster: Any, tmp_path: Path) -> None:
    """With limits, into another topic exactly once; the second run reads the rows appended since."""
    create(cluster, "now", "then")
    sizes: list[int] = []

    def copy(df: Any, batch: int) -> None:
        sizes.append(df.count())
        to = {"bootstrap": cluster.bootstrap, "topic": "then"}
        assert headrace.spark.write_batch(df.select("key", "value"), batch, query="now", **to)

    for start in (0, 200):
        fill(cluster, "now", range(start, start + 200))
        running = headrace.spark.stream(
            spark,
            copy,
            checkpoint=str(tmp_path),
            available_now=True,
            **given(cluster, "now", startingOffsets="earliest", maxOffsetsPerTrigger=100),
        )
        assert running.awaitTermination(500)
    assert stored(cluster, "then") == list(range(400))
    assert max(sizes) <= 100
    assert len(sizes) == 4
    progress = running.lastProgress
    assert progress is not None
    assert progress["sources"][0]["metrics"]["totalOffsetsBehindLatest"] == 0


def test_failed_batch_runs_again_with_the_same_rows(spark: Any, cluster: Any, tmp_path: Path) -> None:
    """It wrote, and then the driver failed: later rows are not in its second run."""
    create(cluster, "again", "copied")
    fill(cluster, "again", range(100))
    seen: list[tuple[int, list[int]]] = []

    def fall(df: Any, batch: int) -> None:
        seen.append((batch, values(df)))
        to = {"bootstrap": cluster.bootstrap, "topic": "copied"}
        headrace.spark.write_batch(df.select("value"), batch, query="again", **to)
        if len(seen) == 1:
            raise RuntimeError("the driver falls")

    options = given(cluster, "again", startingOffsets="earliest")
    start: dict[str, Any] = {"checkpoint": str(tmp_path), "available_now": True, **options}
    with pytest.raises(RuntimeError, match="the driver falls"):
        headrace.spark.stream(spark, fall, **start).awaitTermination(500)
    fill(cluster, "again", range(100, 150))
    headrace.spark.stream(spark, fall, **start).awaitTermination(500)
    assert seen[0] == seen[1] == (seen[0][0], list(range(100)))
    assert [rows for _, rows in seen[2:]] == [list(range(100, 150))]
    assert stored(cluster, "copied") == list(range(150))


def test_stopped_stream_continues_at_its_offsets(spark: Any, cluster: Any, tmp_path: Path) -> None:
    """From the end, as Spark starts; a group shows its offsets."""
    create(cluster, "live", partitions=1)
    fill(cluster, "live", range(10))
    seen: dict[int, list[int]] = {}  # the batch that a stop cuts off runs again

    def note(df: Any, batch: int) -> None:
        seen[batch] = values(df)

    options = given(cluster, "live", **{"kafka.group.id": "spark-live"})
    running = headrace.spark.stream(spark, note, checkpoint=str(tmp_path), name="live", **options)
    fill(cluster, "live", range(10, 20))
    wait_for(lambda: running.lastProgress is not None or not running.isActive, "a batch")
    assert (running.name, running.isActive, running.exception()) == ("live", True, None)
    running.stop()
    assert not running.isActive
    assert list(seen.values()) == [list(range(10, 20))]
    offsets = cluster.admin().list_group_offsets("spark-live")
    assert [found.offset for found in offsets.values()] == [20]
    fill(cluster, "live", range(20, 30))
    again = headrace.spark.stream(
        spark, note, checkpoint=str(tmp_path), available_now=True, name="live", **options
    )
    assert again.awaitTermination(500)
    assert again.id == running.id
    assert list(seen.values()) == [list(range(10, 20)), list(range(20, 30))]


def test_topic_is_recreated_before_the_first_batch(spark: Any, cluster: Any, tmp_path: Path) -> None:
    """With more records than the old one: offsets do not show it."""
    create(cluster, "recreated-stream", partitions=1)
    fill(cluster, "recreated-stream", range(10))
    seen: list[list[int]] = []

    def run(**more: Any) -> None:
        options = given(cluster, "recreated-stream", startingOffsets="latest", **more)
        running = headrace.spark.stream(
            spark,
            lambda df, _: seen.append(values(df)),
            checkpoint=str(tmp_path),
            available_now=True,
            **options,
        )
        running.awaitTermination(500)

    run()
    assert seen == []
    recreate(cluster, NewTopic("recreated-stream", 1, 1))
    fill(cluster, "recreated-stream", range(100, 150))
    with pytest.raises(DataLossError, match="topic recreated-stream was created again"):
        run()
    run(failOnDataLoss="false")
    assert seen == [list(range(100, 150))]
