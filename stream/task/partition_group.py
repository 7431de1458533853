"""The input partitions of a task: which record is next, whether to wait for others, and stream time.

Source: PartitionGroup; KIP-353, KIP-695.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .priority_queue import PriorityQueue
from .record_queue import NO_TIMESTAMP, RecordQueue, Run

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from ...protocol.model import TopicPartition
    from .record_queue import InputRecord

NEVER_IDLE = -1
_LEAST_RUN = 4  # fewer records are not worth it
_MOST_QUEUES = 2  # with more, equal timestamps of the others would have to keep their order

Taken = tuple[RecordQueue, "InputRecord", Any, Any, int, bool]
"""Queue, input record, key, value, timestamp in ms, and whether it is skipped because it cannot be read."""


class PartitionGroup:
    """Invariant: `_by_time` has the queues that are not empty; stream time never goes back."""

    def __init__(self, queues: Iterable[RecordQueue], max_task_idle_ms: int) -> None:
        self.queues: dict[TopicPartition, RecordQueue] = {queue.partition: queue for queue in queues}
        self.stream_time = NO_TIMESTAMP
        self._max_task_idle_ms = max_task_idle_ms
        self._by_time: PriorityQueue[RecordQueue] = PriorityQueue()
        self._lags: Mapping[TopicPartition, int] = {}
        self._idle_deadlines: dict[TopicPartition, int] = {}

    def add(self, partition: TopicPartition, records: Iterable[InputRecord]) -> int:
        """The number of records that the partition has buffered now. Errors: KeyError for a foreign
        partition."""
        queue = self.queues[partition]
        was_empty = queue.head is None
        queue.add(records)
        if was_empty and queue.head is not None:
            self._by_time.offer(queue)
        return len(queue)

    def use_partitions(
        self, partitions: Iterable[TopicPartition], new_queue: Callable[[TopicPartition], RecordQueue]
    ) -> None:
        """Keep the queues of these partitions, make those that are missing, and drop the others."""
        self.queues = {tp: self.queues[tp] if tp in self.queues else new_queue(tp) for tp in partitions}
        self._by_time.clear()
        for queue in self.queues.values():
            if queue.head is not None:
                self._by_time.offer(queue)
        for tp in self._idle_deadlines.keys() - self.queues.keys():
            del self._idle_deadlines[tp]

    def buffered(self) -> int:
        return sum(map(len, self.queues.values()))

    def use_lags(self, lags: Mapping[TopicPartition, int]) -> None:
        """Records of each partition that are on the broker and not buffered; absent: not known yet."""
        self._lags = lags

    def is_ready(self, wall_ms: int) -> bool:
        """True if a record may be processed, although partitions may be empty."""
        deadlines = self._idle_deadlines
        if self._max_task_idle_ms == NEVER_IDLE or len(self._by_time) == len(self.queues):
            deadlines.clear()
            return len(self._by_time) > 0
        for partition, queue in self.queues.items():
            if queue.head is not None or self._lags.get(partition) != 0:
                deadlines.pop(partition, None)
                if queue.head is None:
                    return False  # its records are on their way
            elif wall_ms < deadlines.setdefault(partition, wall_ms + self._max_task_idle_ms):
                return False
        return len(self._by_time) > 0

    def take(self) -> Taken | None:
        """Remove the next record; it advances stream time. The record behind it is read before it is
        processed."""
        queue = self._by_time.poll()
        if queue is None or queue.head is None:
            return None
        taken = (queue, queue.head, queue.key, queue.value, queue.timestamp, queue.is_skipped)
        queue.advance()
        if queue.head is not None:
            self._by_time.offer(queue)
        if taken[4] > self.stream_time:
            self.stream_time = taken[4]
        return taken

    def next_run(self, most: int) -> tuple[RecordQueue, Run] | None:
        """Records of one queue that are next, up to `most`, as columns; `end_run` takes them. None where they
        are to be taken one by one: there are few, or several queues may have the same timestamp."""
        queue = self._by_time.peek()
        if queue is None or len(queue) < _LEAST_RUN or len(self._by_time) > _MOST_QUEUES:
            return None
        others = [
            other.timestamp for other in self.queues.values() if other.head is not None and other is not queue
        ]
        run = queue.read_run(most, others[0] if others else None)
        if run is None or len(run.raws) < _LEAST_RUN:
            return None
        return queue, run

    def end_run(self, queue: RecordQueue, run: Run, count: int, latest: int) -> None:
        """Remove the first `count` records of a run, of which `latest` is the largest timestamp; they have
        advanced stream time."""
        self._by_time.poll()
        queue.advance_in(run, count, latest)
        self._by_time.offer(queue)

    def set_partition_time(self, partition: TopicPartition, timestamp: int) -> None:
        """Restore the partition time of the last commit."""
        self.queues[partition].partition_time = timestamp
        self.stream_time = max(self.stream_time, timestamp)

    def observe(self, partition: TopicPartition, timestamp: int) -> None:
        """Records up to this time were processed without being buffered here."""
        queue = self.queues[partition]
        queue.partition_time = max(queue.partition_time, timestamp)
        self.stream_time = max(self.stream_time, timestamp)

    def clear(self) -> None:
        for queue in self.queues.values():
            queue.clear()
        self._by_time.clear()
        self.stream_time = NO_TIMESTAMP
        self._lags = {}
