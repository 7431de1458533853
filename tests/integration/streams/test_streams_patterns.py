"""An application that reads all topics that match a pattern, while topics come and go."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import headrace
from headrace import NewTopic, int64, stream, utf8
from headrace.services.local_io import LocalCluster
from headrace.stream.errors import InternalTopicError
from headrace.stream.worker.states import InstanceState
from waiting import wait_for

if TYPE_CHECKING:
    from pathlib import Path

PATIENCE_S = 60.0


class Counts:
    """Counts of keys of all topics `pattern-in-*`, in memory: a store that is closed has to be restored."""

    def __init__(self, cluster: LocalCluster, folder: Path) -> None:
        self.cluster, self.folder = cluster, folder
        self.admin = headrace.Admin(cluster.bootstrap)
        self.admin.create_topics(NewTopic("pattern-counts", 1)).raise_for_errors()
        self.found: dict[str | None, int | None] = {}
        self.consumer = headrace.Consumer(
            "pattern-counts", bootstrap=cluster.bootstrap, key=utf8, value=int64, auto_offset_reset="earliest"
        )

    def instance(self, process: int, max_age_ms: int) -> stream.AppInstance:
        app = stream.App(
            "pattern",
            key=utf8,
            value=utf8,
            commit_interval_ms=50,
            cache_bytes=0,
            default_store="in_memory",
            state_dir=str(self.folder / str(process)),
            config={
                "consumer.metadata.max.age.ms": max_age_ms,
            },
        )
        counts = app.stream(re.compile("pattern-in-.*")).group_by_key().count(store="counts")
        counts.to_stream().to("pattern-counts", value=int64)
        return app.instance(self.cluster.bootstrap)

    def create(self, name: str, partitions: int) -> None:
        self.admin.create_topics(NewTopic(name, partitions)).raise_for_errors()

    def send(self, topic: str, *keys: str) -> None:
        with headrace.Producer(self.cluster.bootstrap, key=utf8) as producer:
            for partition in (0, 1):
                for key in keys:
                    producer.send(topic, b"", key=f"{key}{partition}", partition=partition)

    def wait_for_counts(self, **counts: int) -> None:
        def is_there() -> bool:
            self.found.update((record.key, record.value) for record in self.consumer.poll(0.1))
            return all(self.found.get(key, 0) == count for key, count in counts.items())

        wait_for(is_there, f"counts {counts}, found {self.found}", PATIENCE_S)

    def close(self) -> None:
        self.consumer.close()
        self.admin.close()


def test_topics_that_match_are_read_without_a_restart(cluster: LocalCluster, tmp_path: Path) -> None:
    """The first topic brings the changelog. Further ones join running tasks, whose stores stay open; a topic
    that is deleted leaves them. The second process looks for topics once an hour: the epochs
    of the group tell it. A topic that needs more partitions of the changelog ends the application."""
    counts = Counts(cluster, tmp_path)
    quick, slow = counts.instance(1, 200), counts.instance(2, 3_600_000)
    with quick, slow:
        for instance in (quick, slow):
            assert instance.wait_for(InstanceState.RUNNING, timeout_s=PATIENCE_S)
        counts.create("pattern-in-a", 2)
        counts.send("pattern-in-a", "x")
        counts.wait_for_counts(x0=1, x1=1)
        counts.create("pattern-in-b", 2)
        counts.send("pattern-in-b", "x")
        counts.wait_for_counts(x0=2, x1=2)
        counts.send("pattern-in-a", "x")
        counts.wait_for_counts(x0=3, x1=3)
        counts.admin.delete_topics("pattern-in-a").raise_for_errors()
        counts.send("pattern-in-b", "x", "y")
        counts.wait_for_counts(x0=4, x1=4, y0=1, y1=1)
        assert [instance.error for instance in (quick, slow)] == [None, None]
        counts.create("pattern-in-c", 3)
        assert quick.wait_for(InstanceState.ERROR, timeout_s=PATIENCE_S)
        assert isinstance(quick.error, InternalTopicError)
        assert "pattern-counts-changelog exists with 2 partitions" in str(quick.error)
    counts.close()
