"""What a stream thread measures while it runs: once per turn, not per record. Pure: times are arguments.

The thread writes, any thread reads. Durations in nanoseconds where they are added up, in ms where they are
kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...clients.measured import Measured

if TYPE_CHECKING:
    from collections.abc import Set

    from ..records import TaskId
    from ..task.task import Task

_NS_PER_MS = 1e6


class TaskMeter:
    """Of one active task. `process`: the records of a turn and the time that they took."""

    __slots__ = ("_count", "_ns", "_rows_before", "process")

    def __init__(self) -> None:
        self.process = Measured()
        self._count = self._ns = self._rows_before = 0

    def add(self, count: int, ns: int) -> None:
        """A run of records; a batch of columns counts as one."""
        self._count += count
        self._ns += ns

    def end_turn(self, rows: int, now_ms: int) -> int:
        """Records of this turn. `rows`: those of batches of columns so far, each batch less one."""
        count = self._count + max(rows - self._rows_before, 0)
        if count > 0:
            self.process.record(self._ns / _NS_PER_MS, now_ms, count)
        self._count, self._ns, self._rows_before = 0, 0, rows
        return count


class ThreadMeters:
    """Of one stream thread. `polled` and `processed` count records per poll and per turn; `restored` those of
    changelogs."""

    def __init__(self, started_ms: int) -> None:
        self.started_ms = started_ms
        self.poll, self.process, self.commit, self.punctuate = (Measured() for _ in range(4))
        self.polled, self.processed, self.restored = (Measured() for _ in range(3))
        self.created, self.closed = Measured(), Measured()
        self.tasks: dict[TaskId, TaskMeter] = {}

    def polled_records(self, count: int, ns: int, now_ms: int) -> None:
        """A poll of the consumer, with its wait."""
        self.poll.record(ns / _NS_PER_MS, now_ms)
        self.polled.record(count, now_ms)

    def of(self, task: Task) -> TaskMeter:
        """That of a task, made when it runs first."""
        found = self.tasks.get(task.id)
        if found is None:
            found = self.tasks[task.id] = TaskMeter()
        return found

    def end_turn(self, tasks: list[Task], ns: int, now_ms: int) -> int:
        """These tasks had their turns; the number of records."""
        count = sum(self.of(task).end_turn(task.columns.counted_once, now_ms) for task in tasks)
        if count:
            self.process.record(ns / _NS_PER_MS, now_ms, count)
            self.processed.record(count, now_ms)
        return count

    def keep(self, tasks: Set[TaskId], now_ms: int) -> None:
        """The active tasks of the thread after a rebalance."""
        gone, fresh = self.tasks.keys() - tasks, tasks - self.tasks.keys()
        for task_id in gone:
            del self.tasks[task_id]
        for task_id in fresh:
            self.tasks[task_id] = TaskMeter()
        if gone:
            self.closed.record(0, now_ms, len(gone))
        if fresh:
            self.created.record(0, now_ms, len(fresh))
