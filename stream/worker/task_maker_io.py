"""Makes the tasks of one stream thread, and opens their stores."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from ..query.gate_io import QueryGate
from ..state.engines import DamagedStoreError
from ..task.columns import ColumnIo
from ..task.states import TaskState
from ..task.task import Task, TaskIo

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from ...protocol.model import TopicPartition
    from ..records import TaskId
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

    def open(self, task_id: TaskId, partitions: Iterable[TopicPartition]) -> tuple[Task, Restoration]:
        """A task with open stores, and what is to be restored. Damaged stores are deleted.

        Errors: StateDirectoryError while another thread has the stores; StateStoreError.
        """
        self.directory.acquire(task_id, self._thread)
        try:
            return self._open(task_id, partitions)
        except DamagedStoreError as error:
            log.warning(
                "%s: the stores of task %s are deleted and restored from their changelogs", error, task_id
            )
            self.directory.wipe(task_id)
            return self._open(task_id, partitions)

    def _open(self, task_id: TaskId, partitions: Iterable[TopicPartition]) -> tuple[Task, Restoration]:
        folder = self.directory.acquire(task_id, self._thread)
        sub_topology = self.plan.sub_topologies[task_id.sub_topology]
        ids = {topic: self.plan.topic_ids[topic] for topic in sorted(sub_topology.changelogs.values())}
        if ids and not self.directory.bind(task_id, ids):
            log.info("the stores of task %s were of other changelog topics and are deleted", task_id)
        output = self._output.for_task()
        io = TaskIo(
            output.produce,
            self._output.partitions_of,
            lambda store: self.plan.open_engine(folder, store),
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
        try:
            return task, task.initialize()
        except BaseException:
            self.close(task)
            raise

    def close(self, task: Task) -> None:
        """Close the stores; what is not committed is dropped. The folder is free for other threads."""
        if task.state is not TaskState.SUSPENDED:
            task.suspend()
        task.context.gate.close()
        task.close()
        self.directory.release(task.id)

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
