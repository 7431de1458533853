"""Standby and warm-up tasks of instances over a running cluster."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import headrace
from headrace import NewTopic, int64, stream, utf8
from headrace.stream.worker.listeners_io import SuspendReason
from waiting import wait_for

if TYPE_CHECKING:
    from pathlib import Path

    from headrace.protocol.model import TopicPartition
    from headrace.services.local_io import LocalCluster
    from headrace.stream.worker.instance_io import AppInstance

PATIENCE_S = 60.0
PARTITIONS = 4


class Promotions(stream.RestoreListener):
    """Standby tasks that became active, and from where their stores were restored."""

    def __init__(self) -> None:
        self.promoted: dict[int, int] = {}
        self.restored_from: dict[int, int] = {}

    def on_update_suspended(
        self, partition: TopicPartition, store: str, offset: int, end: int, reason: SuspendReason
    ) -> None:
        if reason is SuspendReason.PROMOTED:
            self.promoted[partition.partition] = offset

    def on_restore_start(self, partition: TopicPartition, store: str, start: int, end: int) -> None:
        self.restored_from[partition.partition] = start


class Words:
    """An application that counts words, and what it has counted."""

    def __init__(self, cluster: LocalCluster, folder: Path, **options: Any) -> None:
        self.cluster, self.folder, self.name, self.options = cluster, folder, folder.name, options
        self.sent: Counter[str] = Counter()
        self.found: dict[str, int] = {}
        with headrace.Admin(cluster.bootstrap) as admin:
            admin.create_topics(
                NewTopic(f"{self.name}-words", PARTITIONS), NewTopic(f"{self.name}-totals", 1)
            ).raise_for_errors()

    def instance(self, folder: str, **options: Any) -> AppInstance:
        """An instance with stores in this folder."""
        app = stream.App(
            self.name,
            key=utf8,
            value=utf8,
            commit_interval_ms=50,
            state_dir=str(self.folder / folder),
            **self.options,
        )
        counts = app.stream(f"{self.name}-words").group_by_key().count(store="counts")
        counts.to_stream().to(f"{self.name}-totals", value=int64)
        return app.instance(self.cluster.bootstrap, **options)

    def send(self, rounds: int) -> None:
        """Send each of 40 words `rounds` times."""
        with headrace.Producer(self.cluster.bootstrap) as producer:
            for number in range(40 * rounds):
                word = f"w{number % 40}"
                producer.send(f"{self.name}-words", b"", key=word.encode())
                self.sent[word] += 1

    def wait_until_counted(self) -> None:
        """Read the totals until they are those of all words."""
        with headrace.Consumer(
            f"{self.name}-totals",
            bootstrap=self.cluster.bootstrap,
            key=utf8,
            value=int64,
            auto_offset_reset="earliest",
            isolation_level="read_committed",
        ) as consumer:

            def is_complete() -> bool:
                for record in consumer.poll(0.1):
                    self.found[str(record.key)] = int(record.value or 0)
                return self.found == self.sent

            wait_for(is_complete, "all is counted", PATIENCE_S, lambda: f"{self.found} of {self.sent}")


def tasks_of(instance: AppInstance) -> list[int]:
    return sorted(task.id.partition for thread in instance.threads for task in thread.tasks)


def standbys_of(instance: AppInstance) -> list[int]:
    return sorted(task.id.partition for thread in instance.threads for task in thread.standby_tasks)


def is_caught_up(instance: AppInstance) -> bool:
    lags = instance.lags().get("counts", {})
    return len(lags) == PARTITIONS and all(lag.lag == 0 for lag in lags.values())


def test_standbys_take_over_with_their_stores(cluster: LocalCluster, tmp_path: Path) -> None:
    """Each instance has the tasks of the other one as standbys. When one ends, the other goes on from the
    stores that it has, and a third one gets the standbys."""
    words = Words(cluster, tmp_path, guarantee="exactly_once_v2", standby_replicas=1, warmup_replicas=0)
    listener = Promotions()
    with words.instance("first", on_restore=listener) as first:
        with words.instance("second") as second:
            wait_for(
                lambda: len(tasks_of(first)) == len(tasks_of(second)) == 2, "tasks are balanced", PATIENCE_S
            )
            words.send(10)
            words.wait_until_counted()
            wait_for(lambda: standbys_of(first) == tasks_of(second), "standbys", PATIENCE_S)
            wait_for(lambda: is_caught_up(first), "the standbys are up to date", PATIENCE_S)
            moved = set(tasks_of(second))
        wait_for(lambda: len(tasks_of(first)) == PARTITIONS, "all tasks are in one instance", PATIENCE_S)
        assert listener.promoted.keys() == moved
        assert min(listener.promoted.values()) > 0
        wait_for(
            lambda: all(listener.restored_from.get(each, -1) >= listener.promoted[each] for each in moved),
            "the stores are restored from where the standbys were",
            PATIENCE_S,
        )
        words.send(5)
        words.wait_until_counted()
        with words.instance("third") as third:
            wait_for(lambda: len(standbys_of(first)) == 2, "active tasks go on as standbys", PATIENCE_S)
            words.send(5)
            words.wait_until_counted()
            wait_for(lambda: is_caught_up(first) and is_caught_up(third), "up to date", PATIENCE_S)


def test_a_task_moves_when_its_warm_up_is_up_to_date(cluster: LocalCluster, tmp_path: Path) -> None:
    """The new instance restores the stores while the old one processes, one task at a time."""
    words = Words(cluster, tmp_path, warmup_replicas=1, acceptable_recovery_lag=0)
    listener = Promotions()
    with words.instance("old") as old:
        words.send(20)
        words.wait_until_counted()
        with words.instance("new", on_restore=listener) as new:
            wait_for(lambda: len(tasks_of(new)) == 2, "two tasks have moved", PATIENCE_S)
            assert listener.promoted.keys() == set(tasks_of(new))
            assert min(listener.promoted.values()) > 0
            wait_for(lambda: len(tasks_of(old)) == 2, "the old instance has the others", PATIENCE_S)
            words.send(1)
            words.wait_until_counted()


def test_a_new_machine_loads_a_snapshot_and_reads_the_rest(cluster: LocalCluster, tmp_path: Path) -> None:
    """Its state.dir is empty. Without a snapshot it would read all that was written since the beginning."""
    place = tmp_path / "snapshots"
    words = Words(cluster, tmp_path, config={"snapshot.dir": str(place), "snapshot.interval.ms": 0})
    with words.instance("lost"):
        words.send(25)
        words.wait_until_counted()

        def positions() -> dict[str, int]:
            """Of the newest snapshots."""
            found = sorted(place.rglob("manifests/*.json"), key=lambda path: path.name)
            return {path.parent.parent.name: int(path.name.split("-")[1]) for path in found}

        wait_for(lambda: len(positions()) == PARTITIONS, "each task has a snapshot", PATIENCE_S)
    taken = positions()
    with words.instance("new") as new:
        wait_for(lambda: len(tasks_of(new)) == PARTITIONS, "all tasks are here", PATIENCE_S)
        words.send(1)
        words.wait_until_counted()
        ends = new.lags()["counts"]
        assert new.restored_records <= sum(ends[int(task[2:])].end - at for task, at in taken.items())
        assert min(taken.values()) > 0
