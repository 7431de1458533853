"""Streams of micro-batches: each row once, in whichever way a run ends."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import headrace
import pyarrow as pa
import pytest
from headrace import NewTopic
from headrace.clients.pipeline import write_arrow, write_options

if TYPE_CHECKING:
    from pathlib import Path


def create(cluster: Any, *names: str, partitions: int = 2, replicas: int = 1) -> None:
    cluster.admin().create_topics(*(NewTopic(n, partitions, replicas) for n in names)).raise_for_errors()


def fill(cluster: Any, topic: str, numbers: range) -> None:
    options = write_options({"bootstrap": cluster.bootstrap, "topic": topic})
    write_arrow([pa.record_batch({"value": [b"%06d" % n for n in numbers]})], options)


def values(df: Any) -> list[int]:
    return sorted(int(row.value) for row in df.collect())


def committed(spark: Any, cluster: Any, topic: str) -> list[int]:
    options = {"bootstrap": cluster.bootstrap, "subscribe": topic, "kafka.isolation.level": "read_committed"}
    return values(headrace.spark.read(spark, columns=["value"], **options))


def test_what_is_there_is_read_in_batches_and_a_restart_goes_on(
    spark: Any, cluster: Any, tmp_path: Path
) -> None:
    """With limits, into another topic exactly once; the second run reads what came since."""
    create(cluster, "now", "then")
    sizes: list[int] = []

    def copy(df: Any, batch: int) -> None:
        sizes.append(df.count())
        to = {"bootstrap": cluster.bootstrap, "topic": "then"}
        assert headrace.spark.write_batch(df.select("key", "value"), batch, query="now", **to)

    for start in (0, 250):
        fill(cluster, "now", range(start, start + 250))
        running = headrace.spark.stream(
            spark,
            copy,
            checkpoint=str(tmp_path),
            available_now=True,
            bootstrap=cluster.bootstrap,
            subscribe="now",
            startingOffsets="earliest",
            maxOffsetsPerTrigger=100,
        )
        assert running.awaitTermination(60)
    assert committed(spark, cluster, "then") == list(range(500))
    assert max(sizes) <= 100
    assert len(sizes) >= 6
    progress = running.lastProgress
    assert progress is not None
    assert progress["sources"][0]["metrics"]["totalOffsetsBehindLatest"] == 0


def test_a_batch_that_failed_runs_again_with_the_same_rows(spark: Any, cluster: Any, tmp_path: Path) -> None:
    """It wrote, and then the driver fell: what has come since is not in its second run."""
    create(cluster, "again", "copied")
    fill(cluster, "again", range(100))
    seen: list[tuple[int, list[int]]] = []

    def fall(df: Any, batch: int) -> None:
        seen.append((batch, values(df)))
        to = {"bootstrap": cluster.bootstrap, "topic": "copied"}
        headrace.spark.write_batch(df.select("value"), batch, query="again", **to)
        if len(seen) == 1:
            raise RuntimeError("the driver falls")

    options = {"bootstrap": cluster.bootstrap, "subscribe": "again", "startingOffsets": "earliest"}
    given: dict[str, Any] = {"checkpoint": str(tmp_path), "available_now": True, **options}
    with pytest.raises(RuntimeError, match="the driver falls"):
        headrace.spark.stream(spark, fall, **given).awaitTermination(60)
    fill(cluster, "again", range(100, 150))
    headrace.spark.stream(spark, fall, **given).awaitTermination(60)
    assert seen[0] == seen[1] == (seen[0][0], list(range(100)))
    assert [rows for _, rows in seen[2:]] == [list(range(100, 150))]
    assert committed(spark, cluster, "copied") == list(range(150))
