"""Makes the tasks of one stream thread, and opens their stores."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Any

from ..errors import SnapshotLoadingError
from ..metrics.measures import TaskMeasures
from ..metrics.names import Level
from ..query.gate_io import QueryGate
from ..state.engines import DamagedStoreError, StateStoreError
from ..task.columns import ColumnIo
from ..task.states import TaskState
from ..task.task import Task, TaskIo
from .state_directory_io import StoredOffset
from .tracing_io import around_records

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from ...protocol.model import TopicPartition
    from ..records import TaskId
    from ..state.engines import Engine
    from ..state.thread_cache import ThreadCache
    from ..task.restoration import Restoration
    from .async_calls_io import ThreadCalls
    from .output_io import Output, TaskOutput
    from .plan import AppPlan
    from .state_directory_io import StateDirectory

log = logging.getLogger("headrace.stream")


class TaskMaker:
    """`plan` is replaced when topics that match a pattern came or went. Not thread-safe."""

    def __init__(
        self,
        plan: AppPlan,
        thread: str,
        output: Output,
        directory: StateDirectory,
        calls: ThreadCalls,
        global_stores: Mapping[str, Any],
        cache: ThreadCache,
        wall_ms: Callable[[], int],
    ) -> None:
        self.plan = plan
        self.directory = directory
        self._thread = thread
        self._output = output
        self._calls = calls
        self._global_stores = global_stores
        self._cache = cache
        self._wall_ms = wall_ms
        self._around_record = around_records(plan)
        self._engines: dict[TaskId, dict[str, Engine]] = {}  # of open tasks

    def open(self, task_id: TaskId, partitions: Iterable[TopicPartition]) -> tuple[Task, Restoration]:
        """A task with open stores, and what is to be restored. Damaged stores are deleted.

        Errors: StateDirectoryError while another thread has the stores, or a snapshot is loaded;
        StateStoreError.
        """
        self._prepare(task_id)
        try:
            return self._open(task_id, partitions)
        except DamagedStoreError as error:
            log.warning(
                "%s: the stores of task %s are deleted and restored from their changelogs", error, task_id
            )
            self.directory.wipe(task_id)
            self._prepare(task_id)
            return self._open(task_id, partitions)

    def _prepare(self, task_id: TaskId) -> None:
        """Lock the folder; load a snapshot if it has no stores. Errors: StateDirectoryError until it is
        loaded."""
        self.directory.acquire(task_id, self._thread)
        snapshots, topic_ids = self.directory.snapshots, self._topic_ids(task_id)
        if snapshots is None or not topic_ids or self.directory.has_stores(task_id):
            return
        if not snapshots.load(task_id, topic_ids):
            self.directory.release(task_id)
            raise SnapshotLoadingError(f"a snapshot of task {task_id} is looked for, and loaded")

    def _topic_ids(self, task_id: TaskId) -> dict[str, str]:
        changelogs = self.plan.sub_topologies[task_id.sub_topology].changelogs
        return {topic: self.plan.topic_ids[topic] for topic in sorted(changelogs.values())}

    def take_snapshots(self, tasks: Iterable[Task]) -> None:
        """Take snapshots of tasks that were just committed, where they are due."""
        snapshots = self.directory.snapshots
        if snapshots is not None:
            for task in tasks:
                if task.id in self._engines:
                    topic_ids = self._topic_ids(task.id)
                    snapshots.take(task.id, self._engines[task.id], topic_ids, self._wall_ms())

    def _open_engine(self, task_id: TaskId, folder: Path, store: str) -> Engine:
        engine = self.plan.open_engine(folder, store)
        self._engines.setdefault(task_id, {})[store] = engine
        return engine

    def _open(self, task_id: TaskId, partitions: Iterable[TopicPartition]) -> tuple[Task, Restoration]:
        folder = self.directory.acquire(task_id, self._thread)
        sub_topology, ids = self.plan.sub_topologies[task_id.sub_topology], self._topic_ids(task_id)
        if ids and not self.directory.bind(task_id, ids):
            log.info("the stores of task %s were of other changelog topics and are deleted", task_id)
        output = self._output.for_task()
        io = TaskIo(
            output.produce,
            self._output.partitions_of,
            lambda store: self._open_engine(task_id, folder, store),
            self._cache,
            self._calls.for_task,
            *(self._column_io(task_id.sub_topology, output), output.produce_rows),
        )
        task = Task(
            self.plan.config.application_id,
            task_id.partition,
            sub_topology,
            self.plan.settings,
            io,
            topics=[partition.topic for partition in partitions],
            wall_ms=self._wall_ms(),
            global_stores=self._global_stores,
        )
        output.collector = task.collector
        task.context.folder, task.context.gate = folder, QueryGate()
        task.context.around_record = self._around_record
        level = Level[self.plan.config.metrics_level]
        if level > Level.INFO:
            context = task.context
            context.measures = TaskMeasures(
                lambda: context.wall_ms, time.perf_counter_ns, is_finest=level is Level.TRACE
            )
        try:
            restoration = task.initialize()
        except BaseException:
            self.close(task)
            raise
        task.context.engines = self._engines.get(task_id, {})
        return task, restoration

    def close(self, task: Task) -> None:
        """Close the stores; what is not committed is dropped. The folder is free for other threads."""
        if task.state is not TaskState.SUSPENDED:
            task.suspend()
        task.context.gate.close()
        stored = self._stored_offset(task.id)
        task.close()
        self._engines.pop(task.id, None)
        if self.directory.snapshots is not None:
            self.directory.snapshots.closed(task.id)
        self.directory.release(task.id, stored)

    def _stored_offset(self, task_id: TaskId) -> StoredOffset | None:
        """How far the files are that stay; None without files, or if they cannot be read."""
        changelogs = self.plan.sub_topologies[task_id.sub_topology].changelogs
        engines = [each for name, each in self._engines.get(task_id, {}).items() if name in changelogs]
        try:
            offset = sum(engine.offset() or 0 for engine in engines)
        except StateStoreError:
            return None
        return StoredOffset(offset, offset) if engines else None

    def _column_io(self, sub_topology: int, output: TaskOutput) -> ColumnIo | None:
        if not self.plan.column_paths.get(sub_topology):
            return None
        from ..processors.arrow_paths import records_of

        return ColumnIo(self.paths(sub_topology), output.produce_columns, records_of)

    def paths(self, sub_topology: int) -> dict[str, Any]:
        """How batches are read by column, by source topic."""
        from ..processors.arrow_paths import ArrowPath
        from ..processors.column_aggregates import AggregatePath

        return {
            topic: (ArrowPath if path.aggregate is None else AggregatePath)(path, self.plan.settings)
            for topic, path in self.plan.column_paths.get(sub_topology, {}).items()
        }
