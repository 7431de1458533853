"""Commits the tasks of one stream thread: changelogs and output, offsets, stores."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...clients.group.group_metadata import OffsetAndMetadata
from ...protocol.errors import HeadraceError
from ...protocol.model import TopicPartition
from ..errors import TaskMigratedError, TaskRetryError, is_retriable
from ..state.engines import StateStoreError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from ...clients.sync.consumer_io import Consumer
    from ..task.task import CommitOffset, Task
    from ..task.timeouts import TaskTimeouts
    from .async_calls_io import ThreadCalls
    from .output_io import Output
    from .plan import AppPlan

_PATIENCE_S = 5.0  # more than the timeout of an async function, in a loop that has much to do


class TaskCommits:
    """With exactly-once all tasks of the thread share one transaction, else each may be committed alone. Not
    thread-safe."""

    def __init__(
        self,
        plan: AppPlan,
        consumer: Consumer[bytes, bytes],
        output: Output,
        calls: ThreadCalls,
        timeouts: TaskTimeouts,
        wall_ms: Callable[[], int],
    ) -> None:
        self._is_exactly_once = plan.config.is_exactly_once
        self._repartition_topics = plan.repartition_topics
        self._consumer = consumer
        self._output = output
        self._calls = calls
        self._timeouts = timeouts
        self._wall_ms = wall_ms
        self.committed: dict[TopicPartition, CommitOffset] = {}
        """Of the partitions of tasks, as far as they are known; another thread may read it."""
        self.durable: dict[TopicPartition, CommitOffset] = {}
        """Those of `committed` whose results the stores have; they follow it within a commit."""
        self.purgeable: Mapping[TopicPartition, int] = {}  # replaced, never changed: another thread reads it

    def forget(self, partitions: Iterable[TopicPartition]) -> None:
        """The thread does not own these partitions any more, or reads them again."""
        for partition in partitions:
            self.durable.pop(partition, None)
            self.committed.pop(partition, None)

    def note_committed(self, offsets: Mapping[TopicPartition, CommitOffset]) -> None:
        """These offsets were committed before the task is opened here: its stores are restored to them."""
        self.committed.update(offsets)
        self.durable.update(offsets)

    def await_calls(self, tasks: Sequence[Task]) -> None:
        """Wait for the calls of async functions. Errors: TaskMigratedError if one exceeds its timeout: the
        event loop is blocked."""
        while True:
            for task in tasks:
                task.forward_results(self._wall_ms())
            waiting = [task for task in tasks if not task.drain()]
            if not waiting:
                return
            timeout_s = max(task.calls.longest_ms for task in waiting) / 1000 + _PATIENCE_S
            if not self._calls.wait(timeout_s):
                names = ", ".join(str(task.id) for task in waiting)
                raise TaskMigratedError(f"async functions of tasks {names} do not end within {timeout_s} s")

    def commit(self, tasks: Sequence[Task]) -> None:
        """Commit these tasks, which are drained.

        Order: changelogs and output are acknowledged before the offsets are committed, and the stores become
        durable last. After a retriable error the next commit has these offsets, too; with exactly-once the
        transaction is lost. Errors: TaskMigratedError, TaskRetryError, CommitFailedError, TaskTimeoutError,
        those of the collectors.
        """
        offsets: dict[TopicPartition, CommitOffset] = {}
        for task in tasks:
            offsets.update(task.prepare_commit())
        try:
            self._commit_offsets(tasks, offsets)
        except HeadraceError as error:
            if self._is_exactly_once and is_retriable(error):
                raise TaskRetryError(f"the transaction could not be committed: {error}") from error
            failed = [task.id for task in tasks]
            self._timeouts.retry_or_raise(failed, error, self._wall_ms(), until_commit=True)
            for task in tasks:
                task.calls.resume()
            return
        self._make_durable(tasks, offsets)

    def _commit_offsets(self, tasks: Sequence[Task], offsets: Mapping[TopicPartition, CommitOffset]) -> None:
        """Changelogs and output, then the offsets; with exactly-once as one transaction. Order: a record that
        was not sent stops the commit."""
        self._output.flush()
        for task in tasks:
            task.collector.check()
        if self._is_exactly_once:
            self._output.commit(offsets, self._consumer.group_metadata())
            self.committed.update(offsets)
            return
        # Unchanged offsets are left out: those of a topic that was deleted cannot be committed.
        news = {tp: found for tp, found in offsets.items() if self.committed.get(tp) != found}
        if news:
            self._consumer.commit({tp: OffsetAndMetadata(*found) for tp, found in news.items()})
            self.committed.update(news)

    def _make_durable(self, tasks: Sequence[Task], offsets: Mapping[TopicPartition, CommitOffset]) -> None:
        """The stores write what is committed. One that cannot for now, because its disk is full, does so with
        the next commit; its changelog has the records."""
        repartition = {
            tp: offset.offset for tp, offset in offsets.items() if tp.topic in self._repartition_topics
        }
        if repartition:
            self.purgeable = {**self.purgeable, **repartition}
        for task in tasks:
            # Hazard: of a task that was here before, and was lost: the new one may not have restored so much
            is_needed = task.commit_needed
            ends = self._output.changelog_ends() if is_needed else {}
            known = {
                store: ends[partition]
                for store, topic in task.topology.changelogs.items()
                if (partition := TopicPartition(topic, task.id.partition)) in ends
            }
            try:
                task.post_commit(known)
            except StateStoreError as error:
                self._timeouts.retry_or_raise([task.id], error, self._wall_ms(), until_commit=True)
            else:
                self.durable.update({tp: offsets[tp] for tp in task.partitions if tp in offsets})
                if is_needed:
                    self._timeouts.clear([task.id])
