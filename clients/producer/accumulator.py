"""The batches of a producer that are not acknowledged, by partition, and the buffer memory they use. Pure.

User threads append records, the sender takes batches; the caller of every method holds one lock. Records can
join an open batch without the lock through the slots of `lanes.py`, up to `charged_bytes`; the comments
"Order:" about slots come from that. Only the first batch of a queue is sent, and none while the queue
`is_muted`, because it waits for an earlier batch: so records are never reordered. The open batch of a muted
partition grows past batch.size, up to max.request.size: one round trip then carries more bytes.

Invariant: `used_bytes` is the sum of `charged_bytes` over all live batches.
"""

from __future__ import annotations

import heapq
from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from ...protocol.records.codec import BatchBuilder, Header
    from ...runtime.random_source import RandomSource
    from ..cluster.metadata import ClusterView
    from .lanes import Lanes

from .batches import Batch, PartitionQueue, TopicQueues
from .lanes import LockedLanes
from .partitioner import StickyChoice

# A new batch is charged this much, and twice its size each time it outgrows that, so that many partitions
# with little traffic do not exhaust the buffer. A full batch that still grows is charged in steps of
# GROWTH_BYTES.
FIRST_CHARGE_BYTES = 4096
GROWTH_BYTES = 65_536
# A run of at least this many items is expected to fill its batch: batch.size is charged while the items join,
# because each doubling would end the run.
LONG_RUN = 64
# How long a size limit that was learned from MESSAGE_TOO_LARGE holds. It may be raised meanwhile; to find out
# costs a few rejected batches.
LEARNED_LIMIT_MS = 300_000


# (builder, start, stop bytes) -> position after the last item that joined; see `BatchBuilder.append_values`
Join = Callable[["BatchBuilder", int, int], int]


class AccumulatorLimits(NamedTuple):
    """Keys of ProducerConfig that limit batches and the buffer."""

    linger_ms: int
    batch_bytes: int
    max_batch_bytes: int
    buffer_bytes: int
    delivery_timeout_ms: int
    is_adaptive: bool


class Accumulator:
    """All batches of one producer without an outcome.

    `ready` are the queues whose first batch may be sent now. `needs_wake` is set when a call has made a batch
    ready: the caller wakes the sender. `has_grown` is set when a batch was opened or charged more: the caller
    may yield the GIL then.
    """

    def __init__(
        self,
        limits: AccumulatorLimits,
        new_builder: Callable[[int], BatchBuilder],  # max bytes -> builder
        new_delivery: Callable[[PartitionQueue], Any],
        random: RandomSource,
        lanes: Lanes | None = None,
    ) -> None:
        self._lanes = LockedLanes() if lanes is None else lanes
        self._limits, self._new_builder, self._new_delivery = limits, new_builder, new_delivery
        self._random = random
        self.topics: dict[str, TopicQueues] = {}
        self.view: ClusterView | None = None
        self.ready: dict[PartitionQueue, None] = {}  # an ordered set
        self.live: OrderedDict[Batch, None] = OrderedDict()  # by deadline
        self._timers: list[tuple[int, int, PartitionQueue]] = []  # heap of (due_ms, number, queue)
        self._timer_number = 0
        self._first_charge_bytes = min(FIRST_CHARGE_BYTES, limits.batch_bytes)
        self.used_bytes = 0
        self.needs_wake = False
        self.has_grown = False
        self.waiting_for_memory = 0  # callers that wait; with any, batches do not linger

    # --- appending --------------------------------------------------------------------------------------

    def try_append(
        self,
        queue: PartitionQueue,
        timestamp_ms: int,
        key: bytes | None,
        value: bytes | None,
        headers: tuple[Header, ...],
    ) -> int:
        """Add a record to the queue's open batch; its index there, or -1 when a new batch is needed."""
        batch = queue.open
        if batch is None:
            return -1
        builder = batch.builder
        index = builder.append(timestamp_ms, key, value, headers)  # type: ignore[union-attr]
        if index < 0:
            self._seal(batch)
        elif builder.size_bytes > batch.charged_bytes:  # type: ignore[union-attr]
            self._grew(batch)
        elif index == 0:
            self._share(batch)
        return index

    def append_run(self, queue: PartitionQueue, join: Join, start: int, end: int) -> tuple[int, int]:
        """Append items from `start` on to the queue's open batch by `join`. Gives the index of the first one
        in the batch, and the position after the last one: before `end` if the batch is full or was charged
        more; the caller then chooses a queue again. An error of `join` is raised if no item was appended."""
        batch = queue.open
        assert batch is not None
        builder = batch.builder
        assert builder is not None
        queue.slot.close()  # Order: before the count is read, so that the records of the run are consecutive.
        first, charged_bytes = builder.count, batch.charged_bytes
        if end - start >= LONG_RUN:
            self._charge_whole(batch)
        try:
            position = join(builder, start, batch.charged_bytes)
        except (TypeError, ValueError):
            if builder.count == first:
                raise
            position = start + builder.count - first
        else:
            if position < end and builder.size_bytes <= batch.charged_bytes:
                self._seal(batch)
        finally:
            if batch.is_open and builder.count:
                if builder.size_bytes > batch.charged_bytes:
                    self._grew(batch)
                else:
                    fair_bytes = max(charged_bytes, 2 * builder.size_bytes)
                    self._charge(batch, min(fair_bytes, batch.charged_bytes))
                    self._share(batch)
        return first, position

    def open_batch(self, queue: PartitionQueue, now_ms: int) -> bool:
        """Open a new batch in the queue; False when the buffer is full."""
        assert queue.open is None, "the open batch takes records until it is sealed"
        if not self.has_free_memory():
            return False
        limits, topic = self._limits, queue.topic
        if now_ms >= topic.relearn_at_ms:
            topic.max_batch_bytes = limits.max_batch_bytes
        batch = Batch(queue, self._new_delivery(queue), now_ms, now_ms + limits.delivery_timeout_ms)
        batch.builder = self._new_builder(topic.max_batch_bytes)
        self._charge(batch, self._first_charge_bytes)
        queue.batches.append(batch)
        queue.open = batch
        self.live[batch] = None
        self.has_grown = True
        if len(queue.batches) == 1 and not queue.is_muted:
            self._add_timer(now_ms + limits.linger_ms, queue)
        return True

    def has_free_memory(self) -> bool:
        """Whether a new batch may be opened. The buffer is exceeded by one record per open batch at most."""
        used_bytes = self.used_bytes
        return used_bytes == 0 or used_bytes + self._first_charge_bytes <= self._limits.buffer_bytes

    def drop_if_empty(self, queue: PartitionQueue) -> None:
        """Undo `open_batch` when its first record could not be encoded."""
        batch = queue.open
        # An empty batch was never shared: its slot is closed.
        if batch is not None and batch.builder is not None and not batch.builder.count:
            queue.batches.remove(batch)
            queue.open = None
            self.ready.pop(queue, None)
            self.forget(batch)

    def queue_of(self, topic: TopicQueues, partition: int | None) -> PartitionQueue:
        """The queue of an existing partition; None: of the sticky partition."""
        return self.sticky_queue(topic) if partition is None else topic.queues[partition]

    def sticky_queue(self, topic: TopicQueues) -> PartitionQueue:
        """The queue of the sticky partition, to which records without a key go."""
        partition = topic.sticky.partition
        if not 0 <= partition < topic.partition_count:
            self._switch(topic)
            partition = topic.sticky.partition
        return topic.queues[partition]

    def spread(self, name: str) -> tuple[int, list[int]] | None:
        """The partition count of a topic, and the partitions with a leader, the sticky one first; None before
        `set_topic`."""
        topic = self.topics.get(name)
        if topic is None:
            return None
        first, available = self.sticky_queue(topic).partition, self._with_leader(topic)
        behind = [number for number in available if number > first]
        order = [first, *behind, *(number for number in available if number < first)]
        return topic.partition_count, order

    # --- topics -----------------------------------------------------------------------------------------

    def set_topic(self, name: str, partition_count: int) -> TopicQueues:
        """Add the queues of a topic, or of its new partitions."""
        topic = self.topics.get(name)
        if topic is None:
            sticky = StickyChoice(self._limits.batch_bytes, self._random)
            lane = self._lanes.add_lane(name)
            topic = self.topics[name] = TopicQueues(name, sticky, self._limits.max_batch_bytes, lane)
        for partition in range(len(topic.queues), partition_count):
            topic.queues.append(PartitionQueue(topic, partition, topic.lane.add_slot()))
        topic.partition_count = partition_count
        if topic.sticky.partition >= partition_count:
            topic.lane.stick_to(-1)
        topic.lane.set_count(partition_count)  # Order: when the slots are there.
        return topic

    def learn_limit(self, topic: TopicQueues, limit_bytes: int, now_ms: int) -> None:
        """Limit the batches of this topic for LEARNED_LIMIT_MS."""
        topic.max_batch_bytes = min(topic.max_batch_bytes, limit_bytes)
        topic.relearn_at_ms = now_ms + LEARNED_LIMIT_MS

    # --- sending ----------------------------------------------------------------------------------------

    def update_ready(self, now_ms: int) -> None:
        """Add the queues whose timers are due to `ready`."""
        while self._timers and self._timers[0][0] <= now_ms:
            self.touch(heapq.heappop(self._timers)[2], now_ms)

    def next_due_ms(self) -> int | None:
        """The time of the next linger, backoff or delivery timeout; None without one."""
        timer = self._timers[0][0] if self._timers else None
        deadline = next((batch.deadline_ms for batch in self.live if not batch.is_expired), None)
        if timer is None or deadline is None:
            return timer if deadline is None else deadline
        return min(timer, deadline)

    def touch(self, queue: PartitionQueue, now_ms: int) -> None:
        """Add the queue to `ready` or remove it, by the state of its first batch."""
        if queue.is_muted or not queue.batches:
            self.ready.pop(queue, None)
            return
        head = queue.batches[0]
        if head.retry_at_ms > now_ms:
            self.ready.pop(queue, None)
            self._add_timer(head.retry_at_ms, queue)
        elif self._may_go(head, now_ms):
            self.ready[queue] = None
        else:
            self._add_timer(head.created_ms + self._limits.linger_ms, queue)

    def take_first(self, queue: PartitionQueue) -> Batch:
        """Remove the first batch of a ready queue; no further record joins it."""
        batch = queue.batches.popleft()
        if batch.is_open:
            self._seal(batch)
        self.ready.pop(queue, None)
        return batch

    def put_back(self, batch: Batch) -> None:
        """Return a batch to its queue for a retry, before all batches that were not sent yet."""
        place = 0
        for queued in batch.queue.batches:  # Bound: the batches in flight
            if queued.stamp is None or queued.number > batch.number:
                break
            place += 1
        batch.queue.batches.insert(place, batch)

    def replace(self, batch: Batch, parts: list[Batch]) -> None:
        """Return the parts of a split batch to the queue, in order, in its place."""
        self.forget(batch)
        for part in reversed(parts):
            self.put_back(part)
            self._charge(part, part.size_bytes)
            self.live[part] = None
        # Order: by deadline, which `expired` relies on; the parts have that of the whole.
        for each in sorted(self.live, key=lambda live: live.deadline_ms):
            self.live.move_to_end(each)

    def remove(self, batch: Batch) -> None:
        """Remove a batch from its queue without sending it."""
        if batch.is_open:
            self._seal(batch)
        batch.queue.batches.remove(batch)

    def forget(self, batch: Batch) -> None:
        """The batch has its outcome: free its memory."""
        if batch in self.live:
            del self.live[batch]
            self.used_bytes -= batch.charged_bytes

    def expired(self, now_ms: int) -> list[Batch]:
        """Batches past their deadline, each returned once; queued ones are removed from their queue.

        A batch in flight stays in `live` until its response, and its queue muted until then.
        """
        found: list[Batch] = []
        for batch in self.live:
            if batch.deadline_ms > now_ms:
                break
            if not batch.is_expired:
                found.append(batch)
        for batch in found:
            batch.is_expired = True
            queue = batch.queue
            if not batch.is_on_wire:
                self.remove(batch)
                self.forget(batch)
                self.touch(queue, now_ms)
        return found

    def flush(self, now_ms: int) -> list[Batch]:
        """Send all batches without lingering. Gives all batches without an outcome."""
        for batch in self.live:
            batch.is_flushed = True
            self.touch(batch.queue, now_ms)
        self.needs_wake = True
        return list(self.live)

    def seal_all(self) -> None:
        """Close all open batches for further records."""
        for batch in self.live:
            if batch.is_open:
                self._seal(batch)

    def close_all(self) -> list[Batch]:
        """Remove every batch. Gives those without an outcome, for the caller to resolve; a batch that expired
        in flight has one."""
        dropped = [batch for batch in self.live if not batch.is_expired]
        for batch in list(self.live):  # Order: an open batch stays in `live` until it is sealed here
            if batch.is_open:
                self._seal(batch)
            batch.is_expired = True
            batch.queue.batches.clear()
            self.forget(batch)
        self._lanes.close()
        self.ready.clear()
        self._timers.clear()
        return dropped

    def check(self) -> None:
        """Assert the invariants; for tests."""
        assert self.used_bytes == sum(batch.charged_bytes for batch in self.live), "memory leaks"
        for queue in self.ready:
            assert queue.batches, "a ready queue has something to send"
            assert not queue.is_muted, "a muted queue is not ready"
        for topic in self.topics.values():
            for queue in topic.queues:
                if len(queue.batches) > 1:
                    *others, _ = queue.batches
                    assert not any(batch.is_open for batch in others), "only the last is open"
                assert queue.open is None or queue.open is queue.batches[-1], "the open batch is the last"

    # --- inside -----------------------------------------------------------------------------------------

    def _may_go(self, batch: Batch, now_ms: int) -> bool:
        return (
            not batch.is_open
            or batch.is_flushed
            or self.waiting_for_memory > 0
            or now_ms - batch.created_ms >= self._limits.linger_ms
            or batch.builder is None
            or batch.builder.size_bytes >= self._limits.batch_bytes
        )

    def _grew(self, batch: Batch) -> None:
        """The open batch outgrew `charged_bytes`: charge more, or seal it when the buffer is full."""
        assert batch.builder is not None
        size, limits = batch.builder.size_bytes, self._limits
        self.has_grown = True
        # Order: charge before use, so that no batch grows past the buffer unnoticed.
        is_full = size >= limits.batch_bytes
        step = min(GROWTH_BYTES, limits.batch_bytes)
        self._charge(batch, size + step if is_full else min(2 * size, limits.batch_bytes))
        if is_full:
            self._tell_sticky(batch, size)
            self._make_ready(batch)
        if self.used_bytes >= limits.buffer_bytes:
            self._seal(batch)
        else:
            self._share(batch)

    def _charge_whole(self, batch: Batch) -> None:
        """Charge the open batch as a full one, if the buffer has the memory."""
        more_bytes = self._limits.batch_bytes - batch.charged_bytes
        if 0 < more_bytes <= self._limits.buffer_bytes - self.used_bytes:
            self._charge(batch, self._limits.batch_bytes)

    def _share(self, batch: Batch) -> None:
        """Let records join the open batch without the lock, up to `charged_bytes`."""
        assert batch.builder is not None
        batch.queue.slot.open(batch.builder, batch.delivery, batch.charged_bytes)

    def _seal(self, batch: Batch) -> None:
        """Close the open batch for further records."""
        assert batch.builder is not None
        batch.queue.slot.close()  # Order: first of all, so that the count and the size are final.
        batch.is_open = False
        batch.count, batch.size_bytes = batch.builder.count, batch.builder.size_bytes
        self._charge(batch, batch.size_bytes)
        if self.waiting_for_memory:
            self.needs_wake = True  # the batch is charged less now
        batch.queue.open = None
        self._tell_sticky(batch, batch.size_bytes)
        self._make_ready(batch)

    def _make_ready(self, batch: Batch) -> None:
        queue = batch.queue
        is_next = bool(queue.batches) and queue.batches[0] is batch and batch.retry_at_ms == 0
        if is_next and not queue.is_muted and queue not in self.ready:
            self.ready[queue] = None
            self.needs_wake = True

    def _charge(self, batch: Batch, charge_bytes: int) -> None:
        self.used_bytes += charge_bytes - batch.charged_bytes
        batch.charged_bytes = charge_bytes

    def _tell_sticky(self, batch: Batch, size_bytes: int) -> None:
        topic = batch.queue.topic
        grown_bytes, batch.counted_bytes = size_bytes - batch.counted_bytes, size_bytes
        if topic.sticky.produced(batch.queue.partition, grown_bytes):
            self._switch(topic)

    def _switch(self, topic: TopicQueues) -> None:
        available = self._with_leader(topic)
        lengths = None
        if self._limits.is_adaptive:
            lengths = [len(topic.queues[partition].batches) for partition in available]
        topic.lane.stick_to(topic.sticky.switch(topic.partition_count, available, lengths))

    def _with_leader(self, topic: TopicQueues) -> list[int]:
        """Cached by view: busy producers call this once per batch.size."""
        view, count, led = self.view, topic.partition_count, topic.led
        if led is None or led[0] is not view or led[1] != count:
            numbers = [n for n in range(count) if view is None or view.leader_of(topic.name, n) is not None]
            led = topic.led = view, count, numbers
        return led[2]

    def _add_timer(self, due_ms: int, queue: PartitionQueue) -> None:
        if not self._timers or due_ms < self._timers[0][0]:
            self.needs_wake = True
        self._timer_number += 1
        heapq.heappush(self._timers, (due_ms, self._timer_number, queue))
