"""The tasks of one stream thread: made for assigned partitions, restored, committed and closed."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from ...clients.group.group_metadata import OffsetAndMetadata
from ...protocol.errors import HeadraceError
from ...protocol.model import TopicPartition
from ..errors import StateDirectoryError, TaskCorruptedError
from ..state.engines import DamagedStoreError
from ..state.thread_cache import ThreadCache
from ..task.task import Task, TaskIo, TaskState
from .assignor import tasks_of
from .start_positions import seek_to_start

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from ...clients.sync.consumer_io import Consumer
    from ..processing import TaskId
    from .output_io import Output
    from .plan import AppPlan
    from .restorer_io import Restorer
    from .state_directory_io import StateDirectory

log = logging.getLogger("headrace.stream")


class TaskManager:
    """Invariant: a task exists only while all of its partitions are assigned to the consumer. Its partitions
    are paused until its stores are restored. Not thread-safe."""

    def __init__(
        self,
        plan: AppPlan,
        thread: str,
        consumer: Consumer[bytes, bytes],
        output: Output,
        restorer: Restorer,
        directory: StateDirectory,
        global_stores: Mapping[str, Any],
        cache_bytes: int,
        wall_ms: Callable[[], int],
    ) -> None:
        self._plan = plan
        self._thread = thread
        self._consumer = consumer
        self.output = output
        self._restorer = restorer
        self._directory = directory
        self._global_stores = global_stores
        self._cache = ThreadCache(cache_bytes)
        self._wall_ms = wall_ms
        self.owned: set[TopicPartition] = set()
        self.tasks: dict[TaskId, Task] = {}
        self.by_partition: dict[TopicPartition, Task] = {}
        self._paused: set[TopicPartition] = set()
        self.is_stopped = False  # by the user: no partition is read
        self.purgeable: Mapping[TopicPartition, int] = {}  # replaced, never changed: another thread reads it

    @property
    def running(self) -> list[Task]:
        """The tasks that process records."""
        return [task for task in self.tasks.values() if task.state is TaskState.RUNNING]

    # --- assignment -------------------------------------------------------------------------------------

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """The consumer has got these partitions."""
        fresh = [tp for tp in partitions if tp not in self.owned]
        overridden = [tp for tp in fresh if self._plan.built.offset_reset(tp.topic) is not None]
        committed = self._consumer.committed(*overridden) if overridden else {}
        for partition in overridden:
            if committed.get(partition) is None:
                self._seek_to_start(partition)
        self.owned.update(fresh)
        self._pause(fresh)
        self.open_tasks()

    def open_tasks(self) -> None:
        """Make the tasks whose partitions are all here. One whose stores another thread still has waits for
        the next call."""
        for task_id, partitions in tasks_of(self._plan.sources, self._plan.partitions).items():
            if task_id in self.tasks or not self.owned.issuperset(partitions):
                continue
            try:
                self._open(task_id, partitions)
            except StateDirectoryError as error:
                log.info("task %s waits: %s", task_id, error)

    def _open(self, task_id: TaskId, partitions: list[TopicPartition]) -> None:
        self._directory.acquire(task_id, self._thread)
        try:
            self._open_restored(task_id, partitions)
        except (TaskCorruptedError, DamagedStoreError) as error:
            log.warning(
                "%s: the stores of task %s are deleted and restored from their changelogs", error, task_id
            )
            self._forget(task_id)
            self._directory.wipe(task_id)
            self._directory.acquire(task_id, self._thread)
            self._open_restored(task_id, partitions)

    def _open_restored(self, task_id: TaskId, partitions: list[TopicPartition]) -> None:
        """Open the stores and begin to restore them."""
        folder = self._directory.acquire(task_id, self._thread)
        sub_topology = self._plan.sub_topologies[task_id.sub_topology]
        ids = {topic: self._plan.topic_ids[topic] for topic in sorted(sub_topology.changelogs.values())}
        if ids and not self._directory.bind(task_id, ids):
            log.info("the stores of task %s were of other changelog topics and are deleted", task_id)
        output = self.output.for_task()
        io = TaskIo(
            output.produce,
            self.output.partitions_of,
            lambda store: self._plan.open_engine(folder, store),
            self._cache,
        )
        task = Task(
            self._plan.config.application_id,
            task_id.partition,
            sub_topology,
            self._plan.settings,
            io,
            topics=[partition.topic for partition in partitions],
            wall_ms=self._wall_ms(),
            global_stores=self._global_stores,
        )
        output.collector = task.collector
        self.tasks[task_id] = task
        self.by_partition.update(dict.fromkeys(partitions, task))
        self._restorer.add(task_id, task.initialize())

    def restored(self, task_ids: Iterable[TaskId]) -> None:
        """The stores of these tasks are complete: they begin to process."""
        for task_id in task_ids:
            task = self.tasks[task_id]
            committed = self._consumer.committed(*task.partitions)
            metadata = {tp: found.metadata for tp, found in committed.items() if found is not None}
            task.complete_restoration(metadata)
            self.resume(task.partitions)
            log.info("task %s runs in %s", task_id, self._thread)

    def revoke(self, partitions: Iterable[TopicPartition]) -> None:
        """The consumer gives these partitions back: their tasks are committed and closed."""
        leaving = self._leaving(partitions)
        for task in leaving:
            task.suspend()
        try:
            self.commit(leaving)
        finally:
            self._drop(partitions)
            for task in leaving:
                self._forget(task.id)

    def lose(self, partitions: Iterable[TopicPartition] | None = None) -> None:
        """Other members have these partitions, or all: nothing of their tasks can be committed any more."""
        lost = list(self.owned) if partitions is None else list(partitions)
        leaving = self._leaving(lost)
        self.output.abort()
        self._drop(lost)
        for task in leaving:
            if task.state is not TaskState.SUSPENDED:
                task.suspend()
            self._forget(task.id)

    def reset(self, corrupted: TaskId | None = None) -> None:
        """Drop what is not committed, and begin again at the committed offsets with the same partitions. The
        stores of a corrupted task are deleted."""
        partitions = list(self.owned)
        self.lose()
        if corrupted is not None:
            self._directory.wipe(corrupted)
        committed = self._consumer.committed(*partitions)
        for partition in partitions:
            found = committed.get(partition)
            if found is not None:
                self._consumer.seek(partition, found.offset)
            else:
                self._seek_to_start(partition)
        self.owned.update(partitions)
        self._pause(partitions)
        self.open_tasks()

    def _seek_to_start(self, partition: TopicPartition) -> None:
        seek_to_start(self._consumer, partition, self._plan.offset_reset(partition.topic), self._wall_ms())

    def _drop(self, partitions: Iterable[TopicPartition]) -> None:
        self.owned.difference_update(partitions)
        self._paused.difference_update(partitions)

    def _leaving(self, partitions: Iterable[TopicPartition]) -> list[Task]:
        found = {task.id: task for tp in partitions if (task := self.by_partition.get(tp)) is not None}
        return list(found.values())

    def _forget(self, task_id: TaskId) -> None:
        """Close a task that is suspended, or that could not be opened."""
        self._restorer.remove(task_id)
        task = self.tasks.pop(task_id, None)
        if task is not None:
            for partition in task.partitions:
                self.by_partition.pop(partition, None)
            if task.state is not TaskState.SUSPENDED:
                task.suspend()
            task.close()
        self._directory.release(task_id)

    # --- records and commits ----------------------------------------------------------------------------

    def add_records(self, partition: TopicPartition, records: list[Any]) -> None:
        """Buffer records of one partition; it is paused when its task has enough."""
        task = self.by_partition.get(partition)
        if task is not None and task.add_records(partition, records):
            self._pause([partition])

    def resume_drained(self) -> None:
        """Read on where the buffers have room."""
        limit = self._plan.settings.buffered_records
        drained = [
            tp
            for tp in self._paused
            if (task := self.by_partition.get(tp)) is not None
            and task.state is TaskState.RUNNING
            and len(task.group.queues[tp]) <= limit
        ]
        if drained:
            self.resume(drained)

    def _pause(self, partitions: Iterable[TopicPartition]) -> None:
        fresh = [tp for tp in partitions if tp not in self._paused]
        if fresh:
            self._paused.update(fresh)
            self._consumer.pause(*fresh)

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        """Read these partitions, unless the user has paused the application."""
        paused = [tp for tp in partitions if tp in self._paused]
        if paused and not self.is_stopped:
            self._paused.difference_update(paused)
            self._consumer.resume(*paused)

    def stop(self, *, is_stopped: bool) -> None:
        """Pause all partitions for the user, or end that."""
        self.is_stopped = is_stopped
        if is_stopped:
            self._pause(self.by_partition)

    def commit(self, tasks: Iterable[Task] | None = None) -> None:
        """Commit these tasks; with exactly-once all, because they share a transaction.

        Order: changelogs and output are acknowledged before the offsets are committed, and the stores become
        durable last. Errors: TaskMigratedError, CommitFailedError, those of the collectors.
        """
        chosen = self._all_open() if tasks is None or self._plan.config.is_exactly_once else list(tasks)
        offsets = {}
        for task in chosen:
            offsets.update(task.prepare_commit())
        if self._plan.config.is_exactly_once:
            self.output.commit(offsets, self._consumer.group_metadata())
        else:
            self.output.flush()
        for task in chosen:
            task.collector.check()
        if offsets and not self._plan.config.is_exactly_once:
            self._consumer.commit({tp: OffsetAndMetadata(*found) for tp, found in offsets.items()})
        repartition = {
            tp: offset.offset for tp, offset in offsets.items() if tp.topic in self._plan.repartition_topics
        }
        if repartition:
            self.purgeable = {**self.purgeable, **repartition}
        ends = self.output.changelog_ends()
        for task in chosen:
            known = {
                store: ends[partition]
                for store, topic in task.topology.changelogs.items()
                if (partition := TopicPartition(topic, task.id.partition)) in ends
            }
            task.post_commit(known)

    def _all_open(self) -> list[Task]:
        return [
            task for task in self.tasks.values() if task.state in (TaskState.RUNNING, TaskState.SUSPENDED)
        ]

    def close(self, *, clean: bool) -> None:
        """Close all tasks: after a last commit, or dropping what is not committed."""
        if clean:
            self.revoke(list(self.owned))
        else:
            try:
                self.lose()
            except HeadraceError as error:
                log.warning("%s: %s", self._thread, error)
