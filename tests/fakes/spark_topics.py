"""Writes and reads topics without Spark, for tests of Spark."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from headrace import LocalCluster, NewTopic
from headrace.clients.pipeline import (
    Planner,
    WriteReport,
    fetch_arrow,
    read_options,
    write_arrow,
    write_options,
)
from headrace.runtime.waiting_io import until
from markers import until_markers_are_written


def create(cluster: LocalCluster, *names: str, partitions: int = 2, replicas: int = 1) -> None:
    topics = (NewTopic(name, partitions, replicas) for name in names)
    cluster.admin().create_topics(*topics).raise_for_errors()


def fill(cluster: LocalCluster, topic: str, numbers: range, size: int = 6, partition: int = 0) -> WriteReport:
    options = write_options({"bootstrap": cluster.bootstrap, "topic": topic})
    values = pa.array([b"%0*d" % (size, number) for number in numbers])
    partitions = pa.array([partition] * len(numbers), pa.int32())
    return write_arrow([pa.record_batch({"value": values, "partition": partitions})], options)


def given(cluster: LocalCluster, topic: str, **more: Any) -> dict[str, Any]:
    return {"bootstrap": cluster.bootstrap, "subscribe": topic, **more}


def leader_of(cluster: LocalCluster, topic: str) -> int:
    return cluster.admin().describe_topics(topic)[topic].partitions[0].leader


def values(df: Any) -> list[int]:
    return sorted(int(row.value) for row in df.collect())


def stored(cluster: LocalCluster, topic: str, isolation: str = "read_committed") -> list[int]:
    """The sorted values of a topic, read without Spark after all transaction markers are written."""
    until_markers_are_written(cluster)
    options = read_options(given(cluster, topic, **{"kafka.isolation.level": isolation}))
    found: list[int] = []
    for each in Planner(options).batch().ranges:
        for batch in fetch_arrow(each, options, columns=["value"]):
            found += map(int, batch.column("value").to_pylist())
    return sorted(found)


def handed_on(folder: Path, *, fails: bool = True) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """For mapInArrow: passes batches on. Each attempt creates a file with its number at its first batch, and
    continues when there is a file `go`. The first attempt fails after its last batch, if `fails`.

    A function inside a function: workers cannot import this file.
    """
    wait = until

    def work(batches: Iterator[Any]) -> Iterator[Any]:
        from pyspark import TaskContext

        attempt = TaskContext.get().attemptNumber()
        for batch in batches:
            yield batch
            (folder / str(attempt)).touch()
            assert wait((folder / "go").exists, 500), "the test does not go on"
        if attempt == 0 and fails:
            raise RuntimeError("the first attempt fails")

    return work
