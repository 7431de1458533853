"""The producer's engine: user threads append under one lock, the event loop sends.

Both producers, synchronous and asyncio, use it. `append` runs for every record, in the user's thread; the
loop is woken once per batch.
"""

from __future__ import annotations

import threading
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Any

from ...protocol.errors import ClosedError, HeadraceError, KafkaError
from ...protocol.messages.registry import PRODUCE
from ...protocol.records.codec import active_codec
from ...runtime.effect_performer import EffectPerformer, ignore, on
from ..cluster.metadata_io import plain_name
from ..losses_io import (
    Losses,
    Unfinished,
    counts_of,
    counts_without_outcome,
    record_count,
    undelivered,
)
from ..operation_times import OperationTimes
from ..records import PartitionInfo
from .accumulator import Accumulator
from .appending import (
    NO_PARTITION,
    NO_TOPIC,
    append_run,
    append_runs,
    append_slowly,
    joining_columns,
    joining_values,
)
from .assembly import limits_of, sender_of
from .batch_maker_io import BatchMaker
from .delivery_io import Delivery, RefusedRecords
from .effects import (
    Effect,
    MemoryFreed,
    RecordsRefused,
    RefreshMetadata,
    RequestProducerId,
    Resolve,
    SendProduce,
    TakeHint,
)
from .gil_yield_io import GilYield, Turn
from .identity_io import new_identity
from .lanes import LockedLanes, new_lanes
from .memory_wait_io import MemoryWait
from .metrics import producer_metrics
from .partitioner import Partitioner, choice_of, murmur2_sticky, partition_number
from .record_preparer_io import OVERHEAD_BYTES
from .requests import frames_of, leaders_of, request_of
from .transaction_manager_io import TransactionManager

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Mapping, Sequence
    from contextlib import AbstractContextManager

    from ...protocol.records.codec import Columns
    from ...protocol.records.header import Buffer
    from ..cluster.hub_io import Hub
    from ..cluster.metadata import ClusterView
    from ..cluster.network import Reply
    from ..config import ProducerConfig
    from ..records import Headers
    from .accumulator import Join
    from .appending import Runs


class ProducerEngine:
    """One producer on the loop of `hub`. The methods of the first part may be called from any thread.

    `is_plain`: records are bytes without interceptors, so that they may go by `lanes`.
    """

    def __init__(
        self,
        hub: Hub,
        config: ProducerConfig,
        partitioner: Partitioner,
        io_thread: int | None,
        *,
        is_plain: bool = False,
    ) -> None:
        self._hub, self.config, self._io_thread = hub, config, io_thread
        self._partitioner = None if partitioner is murmur2_sticky else partitioner
        self._choose = choice_of(self._partitioner, ignore_keys=config.partitioner_ignore_keys)
        codec, self._now_ms = active_codec(), hub.now_ms
        self._acks = config.acks_number
        is_common = is_plain and self._partitioner is None
        most_bytes = config.max_request_size - OVERHEAD_BYTES
        self.lanes = (
            new_lanes(codec, most_bytes, config.partitioner_ignore_keys) if is_common else LockedLanes()
        )
        maker = BatchMaker(codec, config, io_thread)
        self._accumulator = Accumulator(
            limits_of(config), maker.builder, maker.delivery, hub.random, self.lanes
        )
        self._sender = sender_of(config, self._accumulator, maker.split, maker.without, hub.random)
        self._topics = self._accumulator.topics
        self._lock = threading.Lock()
        turn = Turn(self._lock)
        self._gil_yield = None if io_thread is None else GilYield(hub.loop, turn)
        self._turn: AbstractContextManager[Any] = turn if self._gil_yield else self._lock  # of the loop
        self._memory_wait = MemoryWait(
            hub.loop, self._lock, self._turn, self._accumulator, config.buffer_memory
        )
        self._memory_listeners: list[Callable[[], None]] = []
        self.is_traced = config.enable_tracing
        self.losses, self.operations = Losses(), OperationTimes()
        # Only for a loop of the user: at exit the other clients are closed.
        left = partial(counts_without_outcome, self._accumulator.live)
        self._unfinished = Unfinished(left if io_thread is None else dict)
        self._wake_is_sent = False
        self._timer: asyncio.TimerHandle | None = None
        self._failure: HeadraceError | None = None
        # The error of `append`: the failure, or no open transaction.
        self._refusal: HeadraceError | None = None
        metadata = hub.metadata
        self._performer = EffectPerformer(
            Effect,
            on(SendProduce, self._send),
            on(Resolve, self._resolve),
            on(RecordsRefused, self._note_refused),
            on(TakeHint, lambda e: metadata.take_hint(e.topic, e.partition, e.leader, e.leader_epoch)),
            on(RefreshMetadata, lambda _: metadata.refresh_soon()),
            on(MemoryFreed, ignore),  # once, after the other effects
            on(RequestProducerId, lambda _: hub.tasks.spawn(self._request_producer_id())),
        )
        self._wake_loop = hub.loop.call_soon if io_thread is None else hub.loop.call_soon_threadsafe
        self.transactions: TransactionManager | None = None
        if config.transactional_id is not None:
            self.transactions = TransactionManager(
                *(hub, config, self._sender, self._turn, self._perform, self._pump, self._refuse)
            )
        hub.join(self)
        hub.metadata.add_listener(self._on_view)

    # --- any thread -------------------------------------------------------------------------------------

    def append(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        headers: Headers,
        partition: int | None,
        timestamp_ms: int,
    ) -> tuple[Delivery, int] | str:
        """Append one record. Gives its delivery and index, or why it cannot be appended yet (NO_TOPIC, ...).

        Errors: what ended the producer; those of a custom partitioner; TypeError for the partition.
        """
        accumulator = self._accumulator
        if partition is not None and type(partition) is not int:
            partition = partition_number(partition)
        with self._lock:
            if self._refusal is not None:
                raise self._refusal
            queues = self._topics.get(topic)
            if queues is None:
                return NO_TOPIC
            if partition is None and (self._partitioner is not None or key is not None):
                partition = self._choose(topic, key, queues.partition_count)
            if partition is None:
                queue = accumulator.sticky_queue(queues)
            elif 0 <= partition < queues.partition_count:
                queue = queues.queues[partition]
            else:
                return NO_PARTITION
            batch = queue.open
            index = accumulator.try_append(queue, timestamp_ms, key, value, headers)
            if index < 0:
                if partition is None:  # a sealed batch moves the sticky choice
                    queue = accumulator.sticky_queue(queues)
                found = append_slowly(accumulator, queue, self._now_ms(), timestamp_ms, (key, value, headers))
            else:
                assert batch is not None
                found = batch.delivery, index
            if headers and not isinstance(found, str):  # before the batch is sent
                found[0].note_headers(headers, is_traced=self.is_traced)
            if accumulator.needs_wake and not self._wake_is_sent:
                self._wake()
        if accumulator.has_grown:
            self._yield_gil()
        return found

    def append_values(
        self, topic: str, values: Sequence[bytes | None], start: int, timestamp_ms: int
    ) -> tuple[Runs, str | None]:
        """Append values without keys from `start` on to batches of the sticky partitions.

        Shape and errors: as `append_rows`. Not for custom partitioners.
        """
        return self._append_runs(topic, joining_values(values, timestamp_ms), start, len(values), None)

    def append_rows(
        self,
        topic: str,
        columns: Columns,
        rows: Buffer | None,
        start: int,
        end: int,
        partition: int | None,
        timestamp_ms: int,
    ) -> tuple[Runs, str | None]:
        """Append the rows `rows[start:end]` (None: `start` to `end` themselves) of `columns` to batches of
        one partition; None: of the sticky ones.

        Shape: runs of (delivery, index in it, how many rows), and what is missing for the rest (NO_TOPIC,
        NO_PARTITION, NO_MEMORY; None when nothing is). The runs may end before `end` with nothing missing: at
        a row that fits no batch; what is wrong with it is raised by the next call, which starts with it. Not
        for custom partitioners. Errors: what ended the producer; TypeError, ValueError.
        """
        join = joining_columns(columns, rows, end, timestamp_ms)
        return self._append_runs(topic, join, start, end, partition)

    def wait_for_memory(self, timeout_s: float) -> bool:
        """Wait in the user's thread until memory may be free; False if `timeout_s` is not positive."""
        if timeout_s <= 0:
            return False
        with self._lock:
            # Order: checked again under the lock, because memory that was freed since `append` woke no
            # thread.
            if self._accumulator.has_free_memory() or self._refusal is not None:
                return True
            self.start_waiting_locked()
            try:
                self._memory_wait.wait(timeout_s)
            finally:  # also after an interrupt: batches would never linger again
                self._accumulator.waiting_for_memory -= 1
        return True

    def start_waiting_locked(self) -> None:
        """A caller waits for memory: send without lingering, until `waiting_for_memory` is lowered again."""
        self._accumulator.waiting_for_memory += 1
        now_ms = self._now_ms()
        for queue in {batch.queue: None for batch in self._accumulator.live}:
            self._accumulator.touch(queue, now_ms)
        if not self._wake_is_sent and self._failure is None:
            self._wake()

    def flush(self) -> list[tuple[Delivery, int]]:
        """Send all batches without lingering. Gives the batches without an outcome, with record counts."""
        with self._lock:
            batches = self._accumulator.flush(self._now_ms())
            if batches and not self._wake_is_sent and self._failure is None:
                self._wake()
            return [(batch.delivery, record_count(batch)) for batch in batches]

    def spread(self, topic: str) -> tuple[int, list[int]] | None:
        with self._lock:
            return self._accumulator.spread(topic)

    def partitions(self, topic: str) -> list[PartitionInfo]:
        """The partitions of a topic that was loaded, from the metadata."""
        views = enumerate(self._hub.metadata.view.partitions_of(topic))
        return [PartitionInfo(topic, n, v.leader, v.leader_epoch, v.replicas, v.isr) for n, v in views]

    def metrics(self) -> dict[str, float]:
        with self._lock:
            found = producer_metrics(self._sender, self.config.buffer_memory)
        return found if self.transactions is None else found | self.transactions.metrics()

    def forked(self) -> None:
        """In a forked child: the IO thread does not exist here, and the lock may be held for ever."""
        self.lanes.close()
        self._lock = threading.Lock()
        self._failure = ClosedError("this producer belongs to the parent process; make a new one after fork")
        self._refusal = self._failure
        self._unfinished.over()

    # --- on the loop ------------------------------------------------------------------------------------

    async def load_topic(self, name: str, deadline_ms: int, min_partitions: int = 0) -> None:
        """Load the partitions of a topic. Errors: as `plain_name`, UnknownTopicOrPartition, ApiTimeout."""
        metadata, name = self._hub.metadata, plain_name(name)
        is_new = name not in self._topics
        if is_new:
            metadata.watch((name,))
        try:
            view = await metadata.topic(name, deadline_ms, min_partitions=min_partitions)
        except BaseException:
            if is_new:
                metadata.unwatch((name,))
            raise
        with self._lock:
            if is_new and name in self._topics:  # two callers loaded it concurrently
                metadata.unwatch((name,))
            self._accumulator.view = metadata.view
            self._accumulator.set_topic(name, len(view.partitions))

    def add_memory_listener(self, listener: Callable[[], None]) -> None:
        """Call on the loop whenever memory was freed, and when the producer ends."""
        self._memory_listeners.append(listener)

    def has_free_memory(self) -> bool:
        """Whether a new batch may be opened."""
        return self._accumulator.has_free_memory()

    def oldest_cause(self) -> str:
        """Why the oldest batch in the buffer is not acknowledged yet."""
        with self._lock:
            return self._sender.oldest_cause()

    def stop_waiting(self) -> None:
        """An asyncio caller no longer waits for memory."""
        with self._lock:
            self._accumulator.waiting_for_memory -= 1

    def start_waiting(self) -> None:
        """An asyncio caller waits for memory."""
        with self._lock:
            self.start_waiting_locked()

    def end(self, waiting: Mapping[str, int], timeout_s: float | None) -> BaseException | None:
        """Close the producer: what has no outcome fails with ClosedError. `waiting`: records by topic that
        never reached it. Gives the error for `close` to raise: that records were not acknowledged within
        `timeout_s`, or the first delivery error that no future has reported; None if nothing is lost."""
        first = self.losses.first()
        dropped = self._end(ClosedError("the producer was closed")) + Counter(waiting)
        # An open transaction is aborted, and earlier ones have reported their errors.
        if self.transactions is not None:
            return None
        if dropped:
            lost = undelivered(dropped, timeout_s)
            lost.__cause__ = first
            return lost
        return first

    def fail(self, reason: HeadraceError) -> None:
        """Fail all records without an outcome with `reason`."""
        self._end(reason)

    def _end(self, reason: HeadraceError) -> Counter[str]:
        """As `fail`. Gives the count of these records by topic."""
        with self._lock:
            if self._failure is not None:
                return Counter()
            self._failure = self._refusal = reason
            if self.transactions is not None:
                self.transactions.fail(reason)
            effects = self._sender.abort(reason)
        if self._timer is not None:
            self._timer.cancel()
        self._hub.metadata.remove_listener(self._on_view)
        if self._hub.failure is None:
            self._hub.metadata.unwatch(self._topics)
        self._hub.leave(self)
        self._perform(effects)
        self._unfinished.over()
        return counts_of(effect.batch for effect in effects if isinstance(effect, Resolve))

    def _refuse(self, reason: HeadraceError | None) -> None:
        if self._failure is None:
            self._refusal = reason

    def _on_view(self, view: ClusterView) -> None:
        with self._lock:
            for name in list(self._topics):
                topic = view.topics.get(name)
                if topic is not None:
                    self._accumulator.set_topic(name, len(topic.partitions))
            if not self._wake_is_sent and self._accumulator.live:
                self._wake()

    def _pump(self, reached_ms: int = 0) -> None:
        """Poll the sender at `reached_ms`, or now if that is later."""
        with self._turn:
            self._wake_is_sent = False
            if self._failure is not None:
                return
            metadata = self._hub.metadata
            effects = self._sender.poll(metadata.view, max(self._now_ms(), reached_ms), metadata.last_error)
            due_ms = self._sender.next_due_ms()
            self._memory_wait.notify(is_over=False)  # a batch that was taken is charged less
        self._arm(due_ms)
        self._perform(effects)

    def _arm(self, due_ms: int | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if due_ms is not None:
            # The loop may fire a moment early; the time counts as reached then: linger.ms is an upper bound,
            # and a timer that is not due would spin.
            delay_s = max(due_ms - self._now_ms(), 0) / 1000
            self._timer = self._hub.loop.call_later(delay_s, self._pump, due_ms)

    def _perform(self, effects: tuple[Effect, ...]) -> None:
        self._performer.perform_all(effects)
        if MemoryFreed() in effects:
            self._notify_memory()

    def _resolve(self, effect: Resolve) -> None:
        batch, error = effect.batch, effect.error
        delivery: Delivery = batch.delivery
        delivery.resolve(effect.base_offset, effect.log_append_time_ms, error, effect.record_errors)
        self.operations.sent(delivery.topic, self._now_ms() - batch.created_ms, error)
        if error is not None and self.transactions is not None:
            self.transactions.on_error(error, of_batch=True)
        elif error is not None:
            self.losses.add(delivery, batch.count)

    def _note_refused(self, effect: RecordsRefused) -> None:
        errors = effect.record_errors
        self.losses.add(RefusedRecords(effect.batch.delivery, errors), len(errors))

    async def _request_producer_id(self) -> None:
        try:
            identity = await new_identity(self._hub, self.config)
        except KafkaError as error:
            self.fail(error)
            return
        with self._turn:
            self._sender.on_identity(identity, self._now_ms())
        self._pump()

    def _notify_memory(self) -> None:
        with self._turn:
            self._memory_wait.notify(is_over=self._failure is not None)
        for listener in list(self._memory_listeners):
            listener()

    def _send(self, send: SendProduce) -> None:
        def on_done(reply: Reply | None, error: KafkaError | None) -> None:
            with self._turn:
                if error is not None:
                    effects = self._sender.on_failure(send.request_id, error, self._now_ms())
                else:
                    body = None if self._acks == 0 or reply is None else reply.body
                    effects = self._sender.on_response(send.request_id, body, self._now_ms())
            self._perform(effects)
            self._pump()

        timeout_ms = self.config.request_timeout_ms
        try:
            self._hub.submit(
                send.node_id,
                PRODUCE,
                request_of(send, self._acks, timeout_ms, self.config.transactional_id),
                frames_of(send),
                timeout_ms=timeout_ms,
                expect_reply=self._acks != 0,
                on_done=on_done,
                leaders=lambda: leaders_of(send),
            )
        except Exception as bug:  # noqa: BLE001 - a batch that cannot be sent must not hang
            self._hub.tasks.report(bug)

    # --- inside -----------------------------------------------------------------------------------------

    def _append_runs(
        self, topic: str, join: Join, start: int, end: int, partition: int | None
    ) -> tuple[Runs, str | None]:
        def append(start: int) -> tuple[Delivery, int, int] | str:
            # The lock is held for one run at a time, because the IO thread needs it too.
            found = self._append_run(topic, join, start, end, partition)
            if self._accumulator.has_grown:
                self._yield_gil()
            return found

        return append_runs(append, start, end)

    def _append_run(
        self, topic: str, join: Join, start: int, end: int, partition: int | None
    ) -> tuple[Delivery, int, int] | str:
        accumulator = self._accumulator
        with self._lock:
            if self._refusal is not None:
                raise self._refusal
            queues = self._topics.get(topic)
            if queues is None:
                return NO_TOPIC
            if partition is not None and not 0 <= partition < queues.partition_count:
                return NO_PARTITION
            try:
                queue = accumulator.queue_of(queues, partition)
                return append_run(accumulator, queue, self._now_ms(), join, start, end)
            finally:
                if accumulator.needs_wake and not self._wake_is_sent:
                    self._wake()

    def _yield_gil(self) -> None:
        self._accumulator.has_grown = False
        if self._gil_yield is not None:
            self._gil_yield.step()

    def _wake(self) -> None:
        self._wake_is_sent = True
        self._wake_loop(self._pump)
