"""Streams of `format("headrace")` from topic to topic: exactly once, over restarts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


class Copy:
    """A query that copies a topic to another, run by run."""

    def __init__(self, spark: Any, cluster: Any, source: str, target: str, checkpoint: Path) -> None:
        self.spark, self.cluster = spark, cluster
        self.source, self.target, self.checkpoint = source, target, checkpoint

    def start(self, read: dict[str, Any] | None = None, **write: Any) -> Any:
        at = {"kafka.bootstrap.servers": self.cluster.bootstrap}
        given = {**at, "subscribe": self.source, "startingOffsets": "earliest", **(read or {})}
        rows = self.spark.readStream.format("headrace").options(**given).load()
        writer = rows.select("key", "value").writeStream.format("headrace")
        writer = writer.options(**at, topic=self.target, checkpointLocation=str(self.checkpoint), **write)
        return writer.trigger(availableNow=True).start()

    def run(self, read: dict[str, Any] | None = None, **write: Any) -> list[Any]:
        """What was new; the progress of each batch."""
        query = self.start(read, **write)
        assert query.awaitTermination(60)
        return list(query.recentProgress)

    def values(self) -> list[int]:
        """All that readers of committed records see."""
        return values(self.spark, self.cluster, self.target)


def values(spark: Any, cluster: Any, topic: str) -> list[int]:
    read = spark.read.format("headrace").options(
        **{"kafka.bootstrap.servers": cluster.bootstrap, "kafka.isolation.level": "read_committed"},
        subscribe=topic,
    )
    return sorted(int(row.value) for row in read.load().select("value").collect())


def put(cluster: Any, topic: str, numbers: range) -> None:
    with cluster.producer() as producer:
        for number in numbers:
            producer.send(topic, b"%d" % number, partition=number % 2)


@pytest.fixture
def copy(spark: Any, cluster: Any, topic: Callable[..., str], tmp_path: Path) -> Copy:
    """Of two new topics."""
    return Copy(spark, cluster, topic(), topic(), tmp_path)


def test_what_is_available_is_copied_and_a_restart_goes_on(copy: Copy) -> None:
    """Limits cut the batches; the lag of the group is told."""
    put(copy.cluster, copy.source, range(100))
    batches = copy.run({"maxOffsetsPerTrigger": "40", "kafka.group.id": "copying"})
    assert [each["numInputRows"] for each in batches if each["numInputRows"]] == [40, 40, 20]
    assert copy.values() == list(range(100))
    lag = copy.cluster.admin().group_lag("copying")
    assert sum(each.lag for each in lag.values()) == 0
    put(copy.cluster, copy.source, range(100, 130))
    copy.run()
    assert copy.values() == list(range(130))
