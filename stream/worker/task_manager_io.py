"""The tasks of one stream thread: made for assigned partitions, restored, committed and closed."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from ...protocol.errors import HeadraceError
from ...protocol.model import TopicPartition
from ..errors import (
    InternalTopicError,
    StateDirectoryError,
    TaskCorruptedError,
    TaskMigratedError,
    TaskRetryError,
)
from ..task.states import TaskState
from ..task.task import CommitOffset, Task
from ..task.timeouts import TaskTimeouts
from .commit_schedule import CommitSchedule
from .commits_io import TaskCommits
from .standbys_io import Standbys
from .start_positions import seek_to_start
from .task_changelogs import TaskChangelogs
from .tasks import tasks_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from ...clients.sync.consumer_io import Consumer
    from ..records import TaskId
    from ..state.engines import StoreFullError
    from .async_calls_io import ThreadCalls
    from .output_io import Output
    from .plan import AppPlan
    from .restorer_io import Restorer
    from .standby_reader_io import StandbyReader
    from .task_maker_io import TaskMaker

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
        standby_reader: StandbyReader,
        maker: TaskMaker,
        calls: ThreadCalls,
        wall_ms: Callable[[], int],
        thread_count: Callable[[], int],
    ) -> None:
        self._plan, self._thread_count = plan, thread_count
        self._thread = thread
        self._consumer = consumer
        self.output = output
        self._restorer = restorer
        self._maker = maker
        self._directory = maker.directory
        self._wall_ms = wall_ms
        self.owned: set[TopicPartition] = set()
        self.tasks: dict[TaskId, Task] = {}
        self.standbys = Standbys(maker, standby_reader, self._partitions_of, self.tasks)
        self.changelogs = TaskChangelogs(output.changelog_ends, lambda: self.standbys.tasks)
        self.by_partition: dict[TopicPartition, Task] = {}
        self._paused: set[TopicPartition] = set()
        self.needs_reset = False  # the transaction of tasks that are still here was aborted
        self._partitions = dict(plan.partitions)
        self._matched = set(plan.built.matched)  # topics that only a pattern has named
        self._unpositioned: set[TopicPartition] = set()  # to be read from their committed offsets
        self._restored: list[TaskId] = []  # their committed offsets are not known yet
        self._timeouts = TaskTimeouts(plan.config.task_timeout_ms)
        every_ms, together = plan.config.commit_every_ms, plan.config.is_exactly_once
        self._schedule = CommitSchedule(every_ms, wall_ms(), together=together)
        self.commits = TaskCommits(plan, consumer, output, calls, self._timeouts, wall_ms)
        self.is_stopped = False  # by the user: no partition is read

    @property
    def is_waiting(self) -> bool:
        """Whether restored tasks wait for their committed offsets."""
        return bool(self._restored)

    @property
    def running(self) -> list[Task]:
        """The tasks that process records."""
        return [task for task in self.tasks.values() if task.state is TaskState.RUNNING]

    # --- assignment -------------------------------------------------------------------------------------

    def use_plan(self, plan: AppPlan) -> None:
        """Topics that match a pattern came or went. New partitions are assigned later; a task that has all of
        its partitions is opened, or goes on with them."""
        self._plan = self._maker.plan = plan
        self._partitions = dict(plan.partitions)
        self._matched |= plan.built.matched
        self.open_tasks()

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """The consumer has got these partitions. Errors: InternalTopicError for one that was added to a topic
        and has no partition in the changelogs of its task."""
        for partition in partitions:
            self._expect(partition)
        fresh = [tp for tp in partitions if tp not in self.owned]
        self._unpositioned.update(tp for tp in fresh if self._plan.built.offset_reset(tp.topic) is not None)
        self.owned.update(fresh)
        self._pause(fresh)
        self.open_tasks()

    def _expect(self, partition: TopicPartition) -> None:
        """A source topic may have more partitions than at the start."""
        topic, count = partition.topic, self._partitions.get(partition.topic, 0)
        if partition.partition < count:
            return
        for number, each in self._plan.sub_topologies.items():
            if topic in self._plan.sources[number] and each.changelogs:
                raise InternalTopicError(
                    f"source topic {topic} has a partition {partition.partition}, and {count} partitions when"
                    f" the application started, as {', '.join(sorted(each.changelogs.values()))}"
                )
        self._partitions[topic] = partition.partition + 1

    def use_roles(
        self, active: Collection[TaskId], standby: Collection[TaskId], warmup: Collection[TaskId]
    ) -> None:
        """The group's coordinator gives the thread these tasks; comes before `revoke` and `assign`. Standbys
        that have no role any more are closed."""
        self.standbys.use([*standby, *warmup], active)

    def _partitions_of(self, task_id: TaskId) -> list[TopicPartition]:
        return tasks_of(self._plan.sources, self._partitions).get(task_id, [])

    def open_tasks(self) -> None:
        """Make the tasks whose partitions are all here. One whose stores another thread still has, or whose
        offsets cannot be read for now, waits for the next call. Errors: TaskTimeoutError."""
        ready = []
        for task_id, partitions in tasks_of(self._plan.sources, self._partitions).items():
            task = self.tasks.get(task_id)
            if self.owned.issuperset(partitions) and not (task and {*partitions} <= {*task.partitions}):
                ready.append((task_id, partitions, task))
        if not ready:
            return
        try:
            self.output.initialize()
        except HeadraceError as error:
            self._retry_later([task_id for task_id, _, _ in ready], error)
            return
        for task_id, partitions, task in ready:
            try:
                self._position(partitions)
                if task is None:
                    self._open(task_id, partitions)
                else:
                    self._use_partitions(task, partitions)
            except StateDirectoryError as error:
                log.log(error.log_level, "task %s waits: %s", task_id, error)
            except HeadraceError as error:
                if task is None:
                    self._forget(task_id)
                self._retry_later([task_id], error)

    def _use_partitions(self, task: Task, partitions: Collection[TopicPartition]) -> None:
        """Go on with other partitions, because topics that match a pattern came or went."""
        fresh = [tp for tp in partitions if tp not in task.partitions]
        metadata = self._committed_metadata(fresh) if fresh else {}
        gone = [tp for tp in task.partitions if tp not in partitions]
        log.info("task %s has topics %s", task.id, ", ".join(tp.topic for tp in partitions))
        if task.columns.io is not None:
            task.columns.paths = self._maker.paths(task.id.sub_topology)
        task.use_partitions(partitions, metadata)
        for partition in gone:
            self.by_partition.pop(partition, None)
        self.by_partition.update(dict.fromkeys(fresh, task))
        if task.state is TaskState.RUNNING:
            self.resume(fresh)

    def _committed_metadata(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, str]:
        committed = {tp: found for tp, found in self._consumer.committed(*partitions).items() if found}
        self.commits.note_committed(
            {tp: CommitOffset(found.offset, found.metadata) for tp, found in committed.items()}
        )
        return {tp: found.metadata for tp, found in committed.items()}

    def _retry_later(self, tasks: Iterable[TaskId], error: HeadraceError) -> None:
        self._timeouts.retry_or_raise(tasks, error, self._wall_ms(), until_commit=False)

    def _position(self, partitions: Iterable[TopicPartition]) -> None:
        """Read on at the committed offsets, or where the topic begins for the application."""
        lost = [tp for tp in partitions if tp in self._unpositioned]
        if not lost:
            return
        committed = self._consumer.committed(*lost)
        for partition in lost:
            found = committed.get(partition)
            if found is not None:
                self._consumer.seek(partition, found.offset)
            else:
                seek_to_start(
                    self._consumer, partition, self._plan.offset_reset(partition.topic), self._wall_ms()
                )
        self._unpositioned.difference_update(lost)

    def _open(self, task_id: TaskId, partitions: list[TopicPartition]) -> None:
        try:
            self._begin(task_id, partitions)
        except TaskCorruptedError as error:
            log.warning(
                "%s: the stores of task %s are deleted and restored from their changelogs", error, task_id
            )
            self._forget(task_id)
            self._directory.wipe(task_id)
            self._begin(task_id, partitions)

    def _begin(self, task_id: TaskId, partitions: list[TopicPartition]) -> None:
        """Begin to restore the stores: those of a standby, or of the disk."""
        promoted = self.standbys.take(task_id, self._wall_ms())
        task, restoration = promoted or self._maker.open(task_id, partitions)
        task.use_partitions(partitions)
        self.tasks[task_id] = task
        self.changelogs.restorations[task_id] = restoration
        self.by_partition.update(dict.fromkeys(partitions, task))
        self._restorer.add(task_id, restoration)

    def restore(self, timeout_s: float) -> bool:
        """Read some records of changelogs; True if a task runs now. Errors: TaskCorruptedError,
        TaskTimeoutError."""
        try:
            self._restored += self._restorer.step(timeout_s, self._wall_ms())
        except HeadraceError as error:
            self._retry_later(self._restorer.tasks, error)
            return False
        before = len(self._restored)
        self._start_restored()
        return len(self._restored) < before

    def _start_restored(self) -> None:
        """Begin to process tasks whose stores are complete, once their committed offsets are known."""
        waiting, self._restored = self._restored, []
        for task_id in waiting:
            task = self.tasks[task_id]
            try:
                metadata = self._committed_metadata(task.partitions)
            except HeadraceError as error:
                self._restored.append(task_id)
                self._retry_later([task_id], error)
                continue
            self._timeouts.restored([task_id])
            task.complete_restoration(metadata)
            self.resume(task.partitions)
            log.info("task %s runs in %s", task_id, self._thread)

    def revoke(self, partitions: Iterable[TopicPartition]) -> None:
        """The consumer gives these partitions back: their tasks are committed and closed. A task that only
        loses topics that matched a pattern, and are gone, goes on with the others."""
        gone = set(partitions)
        tasks = self._leaving(gone)
        staying = {task.id: left for task in tasks if (left := self._left_of(task, gone))}
        leaving = [task for task in tasks if task.id not in staying]
        try:
            self.commits.await_calls(self._to_commit(tasks))
            for task in leaving:
                task.suspend()
            # Order: offsets of topics that do not exist any more cannot be committed
            for task_id, left in staying.items():
                self._use_partitions(self.tasks[task_id], left)
            self.commit(tasks)
            for task in leaving:
                self._recycle(task)
        finally:
            self._drop(gone)
            self._timeouts.clear(task.id for task in leaving)
            for task in leaving:
                self._forget(task.id)

    def _recycle(self, task: Task) -> None:
        """A task whose role changes goes on as a standby, unless it could not be committed."""
        if task.commit_needed or not self.standbys.is_wanted(task.id):
            return
        positions = self.changelogs.by_store(task.id, self.commits.committed)
        self._remove(task)
        self.standbys.adopt(task, positions)

    def _left_of(self, task: Task, gone: set[TopicPartition]) -> list[TopicPartition]:
        """The partitions with which the task goes on; none if one of a topic is gone that its topology
        names."""
        is_matched = all(tp.topic in self._matched for tp in task.partitions if tp in gone)
        return [tp for tp in task.partitions if tp not in gone] if is_matched else []

    def lose(self, partitions: Iterable[TopicPartition] | None = None) -> None:
        """Other members have these partitions, or all: nothing of their tasks can be committed any more."""
        lost = list(self.owned) if partitions is None else list(partitions)
        leaving = self._leaving(lost)
        if self.output.in_transaction and len(leaving) < len(self.tasks):
            self.needs_reset = True  # what the others have sent is aborted as well
        self.output.abort()
        self._drop(lost)
        if partitions is not None:  # else they are read again
            self._timeouts.clear(task.id for task in leaving)
        for task in leaving:
            if task.state is not TaskState.SUSPENDED:
                task.suspend()
            self._forget(task.id)

    def reset(self, corrupted: TaskId | None = None) -> None:
        """Drop what is not committed, and begin again at the committed offsets with the same partitions. The
        stores of a corrupted task are deleted."""
        partitions = list(self.owned)
        self.lose()
        self.needs_reset = False
        if corrupted is not None:
            self._directory.wipe(corrupted)
        self.owned.update(partitions)
        self._unpositioned.update(partitions)
        self._pause(partitions)
        self.open_tasks()

    def retry(self, failure: TaskRetryError | StoreFullError) -> None:
        """`reset` after a retriable error. Errors: TaskTimeoutError."""
        task_id = getattr(failure, "task_id", None)
        failed = list(self.tasks) if task_id is None else [task_id]
        self._timeouts.failed(failed, failure, self._wall_ms(), until_commit=True)
        self.reset()

    def _drop(self, partitions: Collection[TopicPartition]) -> None:
        self.commits.forget(partitions)
        self.owned.difference_update(partitions)
        self._unpositioned.difference_update(partitions)
        self._paused.difference_update(partitions)

    def _leaving(self, partitions: Iterable[TopicPartition]) -> list[Task]:
        found = {task.id: task for tp in partitions if (task := self.by_partition.get(tp)) is not None}
        return list(found.values())

    def _forget(self, task_id: TaskId) -> None:
        """Close a task that is suspended, or that could not be opened."""
        task = self.tasks.get(task_id)
        if task is not None:
            self._remove(task)
            self._maker.close(task)
        elif task_id not in self.standbys.tasks:
            self._directory.release(task_id)

    def _remove(self, task: Task) -> None:
        self._restorer.remove(task.id)
        if task.id in self._restored:
            self._restored.remove(task.id)
        del self.tasks[task.id], self.changelogs.restorations[task.id]
        for partition in task.partitions:
            self.by_partition.pop(partition, None)

    # --- standbys and offsets of changelogs ---------------------------------------------------------------

    def update_standbys(self, *, is_idle: bool) -> None:
        """The turn of the standby tasks, unless tasks are being restored. See `Standbys.step`."""
        if not self._restorer.is_busy:
            self.standbys.step(is_idle=is_idle)

    def task_offsets(self) -> dict[TaskId, int]:
        """By task with changelogs the sum of the offsets up to which its stores are complete."""
        return self.changelogs.offsets()

    def task_end_offsets(self) -> dict[TaskId, int]:
        """By task with changelogs the sum of their ends, as far as they are known."""
        return self.changelogs.end_offsets()

    # --- records and commits ----------------------------------------------------------------------------

    def add_records(self, partition: TopicPartition, records: list[Any]) -> None:
        """Buffer records of one partition; it is paused when its task has enough."""
        task = self.by_partition.get(partition)
        if task is not None and task.add_records(partition, records):
            self._pause([partition])

    def add_columns(self, batch: Any) -> None:
        """Buffer an Arrow batch with records of any partitions."""
        from ..processors.arrow_paths import by_partition, records_of

        for topic, number, rows in by_partition(batch):
            partition = TopicPartition(topic, number)
            task = self.by_partition.get(partition)
            if task is not None and not task.columns.paths:
                self.add_records(partition, records_of(rows))
            elif task is not None and task.add_columns(partition, rows):
                self._pause([partition])

    def resume_drained(self) -> None:
        """Read on where the buffers have room."""
        limit = self._plan.settings.buffered_records
        drained = [
            tp
            for tp in self._paused
            if (task := self.by_partition.get(tp)) is not None
            and task.state is TaskState.RUNNING
            and task.buffered(tp) <= limit
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

    @property
    def commit_at_ms(self) -> int:
        """When the next task is due to be committed; those that wait for calls left out."""
        return self._schedule.next_ms

    @property
    def is_commit_due(self) -> bool:
        """Whether a processor has asked for a commit, or the writes of the stores take too much memory."""
        return bool(self._asked(self._all_open()))

    def _asked(self, tasks: Iterable[Task]) -> list[TaskId]:
        """Tasks that wait already are left out: they take no further records."""
        others = [task for task in tasks if not self._schedule.is_waiting(task.id)]
        limit = self._plan.config.uncommitted_bytes
        is_full = 0 <= limit < sum(map(_uncommitted_bytes, others)) * self._thread_count()
        return [task.id for task in others if is_full or task.commit_requested]

    def commit_due(self, now_ms: int) -> bool:
        """Commit the tasks whose interval has passed, those that have asked, and all if their writes take too
        much memory (KIP-892). True if some were committed.

        A task with calls of async functions takes no input records until they have ended and it is committed
        in a later turn; with exactly-once all tasks wait for it, because they share a transaction.
        """
        self.check_transaction()
        tasks = {task.id: task for task in self._all_open()}
        due = [tasks[task_id] for task_id in self._schedule.due(tasks, self._asked(tasks.values()), now_ms)]
        ready = [task for task in due if task.drain()]
        if not ready or (self._plan.config.is_exactly_once and len(ready) < len(due)):
            return False
        self.commits.commit(ready)
        self._maker.take_snapshots(ready)
        self._schedule.committed([task.id for task in ready], self._wall_ms())
        return True

    def check_transaction(self) -> None:
        """Errors: TaskMigratedError if the output of tasks that are here was aborted: their offsets must not
        be committed before `reset`."""
        if self.needs_reset:
            raise TaskMigratedError("the transaction was aborted, because other tasks could not be committed")

    def _to_commit(self, tasks: Iterable[Task] | None) -> list[Task]:
        return self._all_open() if tasks is None or self._plan.config.is_exactly_once else list(tasks)

    def commit(self, tasks: Iterable[Task] | None = None) -> None:
        """Commit these tasks, which are drained; with exactly-once all, because they share a transaction.
        Errors: those of `check_transaction` and `TaskCommits.commit`."""
        self.check_transaction()
        self.commits.commit(self._to_commit(tasks))

    def _all_open(self) -> list[Task]:
        return [
            task for task in self.tasks.values() if task.state in (TaskState.RUNNING, TaskState.SUSPENDED)
        ]

    def close(self, *, clean: bool) -> None:
        """Close all tasks: after a last commit, or dropping what is not committed."""
        self.standbys.use((), ())
        if clean and not self.needs_reset:
            self.revoke(list(self.owned))
        else:
            try:
                self.lose()
            except HeadraceError as error:
                log.warning("%s: %s", self._thread, error)
        self.standbys.close()


def _uncommitted_bytes(task: Task) -> int:
    """The memory of the writes of the stores of a task since the last commit, an estimate."""
    return sum(getattr(store, "uncommitted_bytes", 0) for store in task.stores.values())
