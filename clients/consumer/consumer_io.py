"""The engine of a consumer, sync or asyncio: fetches ahead on the event loop.

The application takes the records through `reader`; both sides meet in `buffer`.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, TypeVar

from ...protocol.errors import ConfigError, HeadraceError
from ...protocol.messages.registry import FETCH, LIST_OFFSETS, OFFSET_FOR_LEADER_EPOCH
from ...protocol.model import EARLIEST_TIMESTAMP, READ_COMMITTED, READ_UNCOMMITTED
from ...protocol.records.codec import active_codec
from ...runtime.effect_performer import EffectPerformer, ignore, on
from ...runtime.freed_memory import keep_freed_memory
from ...runtime.limited_log_io import LimitedLog
from ..cluster.backoff import Backoff
from ..group.joining_io import join_group
from ..tracing.enabling_io import consumer_tracing
from .arguments import checked_partitions, reset_timestamp
from .effects import (
    Effect,
    NotifyReader,
    RefreshMetadata,
    Request,
    SendFetch,
    SendListOffsets,
    SendOffsetForLeaderEpoch,
    Truncated,
    UpdateLeader,
)
from .fetch_buffer_io import FetchBuffer
from .fetch_collector import BadRecordAction, DeserializeField, FetchCollector
from .fetcher import Fetcher
from .interceptors import Interceptors
from .metrics import consumer_metrics
from .offsets_io import list_offsets, offsets_or_raise
from .positions import Positions, positions
from .record_reader_io import RecordReader
from .requests import FetchLimits, leaders_of
from .topic_discovery import TopicDiscovery

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterable, Mapping

    from ...protocol.errors import KafkaError
    from ...protocol.model import TopicPartition
    from ..cluster.hub_io import Hub
    from ..cluster.metadata import ClusterView
    from ..cluster.network import Reply
    from ..config import ConsumerConfig
    from ..group.joining_io import SomeAssignors
    from ..operation_times import OperationTimes
    from ..records import OffsetAndTimestamp
    from .fetch_state import PartitionState
T = TypeVar("T")

log = logging.getLogger("headrace.client.consumer")


def limited_warning() -> Callable[[str, str], None]:
    """Logs (kind, text) for one consumer; repeated texts of one kind at most once per interval."""
    return LimitedLog(log).warning


def _log_truncation(effect: Truncated) -> None:
    log.warning(
        "%s: the log was truncated below the position %d; reading goes on at offset %d "
        "(-1: by auto.offset.reset)",
        *(effect.tp, effect.position, effect.offset),
    )


NO_INTERCEPTORS = Interceptors()
APIS = {SendFetch: FETCH, SendListOffsets: LIST_OFFSETS, SendOffsetForLeaderEpoch: OFFSET_FOR_LEADER_EPOCH}


class ConsumerEngine:
    """One consumer on the event loop of `hub`. Methods of the first part may be called from any thread.

    With `topics` it reads all their partitions; partitions added later from their start, so that none of
    their records is missed. Without, it reads the partitions of `assign`, or those that its group assigns.
    """

    def __init__(
        self,
        hub: Hub,
        config: ConsumerConfig,
        topics: tuple[str, ...],
        deserializers: tuple[DeserializeField | None, DeserializeField | None],
        on_bad_record: BadRecordAction | None,
        *,
        is_threaded: bool,
        assignors: SomeAssignors | None = None,
        interceptors: Interceptors = NO_INTERCEPTORS,
    ) -> None:
        self._hub, self.config, self._topics = hub, config, TopicDiscovery(topics)
        self.interceptors = interceptors
        self.tracing = consumer_tracing(config, hub.client_id)
        self._backoff = Backoff(config.retry_backoff_ms, config.retry_backoff_max_ms, hub.random)
        limits = FetchLimits(
            config.fetch_max_wait_ms,
            config.fetch_min_bytes,
            config.fetch_max_bytes,
            config.max_partition_fetch_bytes,
            config.client_rack,
            hub.metadata.max_age_ms,
            READ_COMMITTED if config.is_read_committed else READ_UNCOMMITTED,
        )
        self._isolation = limits.isolation
        self._fetcher = Fetcher(limits, self._backoff, self._reset_timestamp())
        call_on_loop = hub.loop.call_soon_threadsafe if is_threaded else hub.loop.call_soon
        self.buffer = FetchBuffer(self._fetcher, call_on_loop, self._poll)
        codec = active_codec()
        self._collector = FetchCollector(
            *(self._fetcher, codec, *deserializers, on_bad_record),
            check_crcs=config.check_crcs,
            on_ready=interceptors.consumed if interceptors.see_records else None,
        )
        self.reader = RecordReader(self.buffer, self._collector, codec, interceptors, self.tracing)
        self._assigned: tuple[TopicPartition, ...] = ()
        self._timer: asyncio.TimerHandle | None = None
        metadata = hub.metadata
        self._performer = EffectPerformer(
            Effect,
            on(SendFetch, self._send),
            on(SendListOffsets, self._send),
            on(SendOffsetForLeaderEpoch, self._send),
            on(UpdateLeader, lambda e: metadata.take_hint(e.topic, e.partition, e.leader, e.leader_epoch)),
            on(RefreshMetadata, lambda _: metadata.refresh_soon()),
            on(Truncated, _log_truncation),
            on(NotifyReader, ignore),  # once, after the other effects
        )
        keep_freed_memory()
        self.group = join_group(self, hub, config, self._backoff, assignors)
        hub.join(self)
        hub.metadata.add_listener(self._on_view)
        hub.metadata.watch(topics)
        self._on_view(hub.metadata.view)

    # --- any thread -------------------------------------------------------------------------------------

    @property
    def operations(self) -> OperationTimes:
        """The durations of polls and commits."""
        return self.reader.operations

    def assign(self, tps: Iterable[TopicPartition]) -> None:
        """Read exactly these partitions; those that were assigned before keep their positions. On the
        event loop.

        Errors: TypeError if one is no partition.
        """
        assigned, old = checked_partitions(tps), self._assigned
        with self.buffer.lock:
            self.buffer.raise_if_closed()
            for tp in [tp for tp in self._fetcher.states if tp not in assigned]:
                self._fetcher.remove(tp)
            for tp in assigned if self.group is None else ():
                self._fetcher.add(tp, self._reset_timestamp())
            self._assigned = assigned
            self.buffer.schedule_poll_if_needed()
        if self.group is not None:
            self.group.fetch_positions(assigned)
        self._hub.metadata.watch({tp.topic for tp in assigned})
        self._hub.metadata.unwatch({tp.topic for tp in old})

    def assignment(self) -> tuple[TopicPartition, ...]:
        """The partitions that are read, sorted."""
        with self.buffer.lock:
            return tuple(sorted(self._fetcher.states))

    def check_reading(self) -> None:
        """A call for records begins. Errors: the error that closed the consumer; ConfigError if there is
        nothing to read."""
        self.reader.begin_call()
        self.buffer.raise_if_closed()
        is_member = self.group is not None and self.group.subscription is not None
        if not (self._topics.topics or is_member or self._assigned):
            more = "" if self.group is None else " subscribe() or"
            raise ConfigError(f"nothing to read: give the consumer topics, or call{more} assign()")

    def is_discovered(self) -> bool:
        """Whether the partitions of all topics are known."""
        return self._topics.is_complete

    def change(self, action: Callable[[Fetcher], T]) -> T:
        """Do something to the fetcher (seek, pause, ...) under the lock. Errors: ConfigError for KeyError."""
        with self.buffer.lock:
            self.buffer.raise_if_closed()
            try:
                return action(self._fetcher)
            except KeyError as error:
                raise ConfigError(f"{error.args[0]} is not assigned to this consumer") from error
            finally:
                self.buffer.schedule_poll_if_needed()

    def state_of(self, tp: TopicPartition, read: Callable[[PartitionState], T]) -> T:
        """Read one partition's state under the lock. Errors: ConfigError if it is not assigned."""
        return self.change(lambda fetcher: read(fetcher.states[tp]))

    def lag(self) -> dict[TopicPartition, int | None]:
        """Records between each position and the end of its partition; None if one is unknown."""
        with self.buffer.lock:
            return {tp: state.lag() for tp, state in sorted(self._fetcher.states.items())}

    def metrics(self) -> dict[str, float]:
        """Totals, rates and gauges by Kafka's metric names."""
        with self.buffer.lock:
            metrics = consumer_metrics(self._fetcher, self._collector)
        metrics["last-poll-seconds-ago"] = self.reader.last_poll_ago_s()
        return metrics if self.group is None else {**metrics, **self.group.metrics()}

    # --- on the event loop ------------------------------------------------------------------------------

    def positions(self, *, processed: bool) -> Positions:
        """The position of each partition; with `processed` the one after the last record that the application
        has processed."""
        with self.buffer.lock:
            return positions(self._fetcher, self._collector, processed=processed)

    def drop(self, tps: Iterable[TopicPartition]) -> None:
        """Unassign revoked partitions: none of their records is returned any more."""
        with self.buffer.lock:
            for tp in tps:
                self._fetcher.remove(tp)

    def set_group_work(self, has_group_work: bool) -> None:
        """Whether the group has callbacks or an error for the application."""
        self.buffer.set_group_work(has_group_work)

    def progress(self) -> tuple[Any, ...] | None:
        """Changes when the application asks for records; None while it waits for some."""
        return None if self.buffer.is_waiting else (self.reader.polls, self._collector.iteration_progress())

    async def discover(self, deadline_ms: int) -> None:
        """Wait until the partitions of all topics are known. Errors: UnknownTopicOrPartitionError, ..."""
        for topic in self._topics.topics:
            await self._hub.metadata.topic(topic, deadline_ms)
        self._on_view(self._hub.metadata.view)

    async def offsets(
        self, timestamps: Mapping[TopicPartition, int], deadline_ms: int
    ) -> dict[TopicPartition, OffsetAndTimestamp]:
        """Offsets by timestamp. Errors: the first error of a partition."""
        results = await list_offsets(
            self._hub,
            timestamps,
            deadline_ms=deadline_ms,
            request_timeout_ms=self.config.request_timeout_ms,
            backoff=self._backoff,
            isolation=self._isolation,
        )
        return offsets_or_raise(results)

    def fail(self, reason: HeadraceError) -> None:
        """Close the consumer: every waiting and later call raises `reason`."""
        if not self.buffer.close(reason):
            return
        if self._timer is not None:
            self._timer.cancel()
        if self.group is not None:
            self.group.close()
        self._hub.metadata.remove_listener(self._on_view)
        if self._hub.failure is None:
            self._hub.metadata.unwatch(self._topics.topics)
            self._hub.metadata.unwatch({tp.topic for tp in self._assigned})
        self._hub.leave(self)

    def assigned(self) -> tuple[TopicPartition, ...]:
        """The partitions of the last `assign`."""
        return self._assigned

    def _on_view(self, view: ClusterView) -> None:
        with self.buffer.lock:
            reset = self._reset_timestamp()
            for tp, is_late in self._topics.new_partitions(view):
                self._fetcher.add(tp, EARLIEST_TIMESTAMP if is_late and reset is not None else reset)
            self.buffer.schedule_poll()
        self.buffer.notify_thread()

    def _poll(self) -> None:
        with self.buffer.lock:
            if not self.buffer.poll_started():
                return
            self._fetcher.reset_policy = self._reset_timestamp()
            effects = self._fetcher.poll(self._hub.metadata.view, self._hub.now_ms())
            due_ms = self._fetcher.next_due_ms()
        self._set_timer(due_ms)
        self._perform(effects)

    def _set_timer(self, due_ms: int | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if due_ms is not None:
            # One more ms: the loop may fire a moment early, and a timer that is not due would spin.
            delay_s = (max(due_ms - self._hub.now_ms(), 0) + 1) / 1000
            self._timer = self._hub.loop.call_later(delay_s, self._poll)

    def _perform(self, effects: tuple[Effect, ...]) -> None:
        self._performer.perform_all(effects)
        if NotifyReader() in effects:
            self.buffer.notify()

    def _send(self, sent: Request) -> None:
        hub, is_fetch = self._hub, isinstance(sent, SendFetch)

        def on_done(reply: Reply | None, error: KafkaError | None) -> None:
            with self.buffer.lock:
                if reply is None:
                    assert error is not None
                    effects = self._fetcher.on_failure(sent, error, hub.now_ms())
                elif isinstance(sent, SendFetch):
                    effects = self._fetcher.on_fetched(sent, reply.body, reply.frames, hub.now_ms())
                elif isinstance(sent, SendListOffsets):
                    effects = self._fetcher.on_offsets_listed(sent, reply.body, hub.now_ms())
                else:
                    effects = self._fetcher.on_epoch_ends(sent, reply.body, hub.now_ms())
            self._perform(effects)
            self._poll()

        wait_ms = self.config.fetch_max_wait_ms if is_fetch else 0
        hub.submit(
            *(sent.node_id, APIS[type(sent)], sent.request),
            timeout_ms=self.config.request_timeout_ms + wait_ms,
            on_done=on_done,
            wait_ms=wait_ms,
            leaders=lambda: leaders_of(sent),
        )

    def _reset_timestamp(self) -> int | None:
        return reset_timestamp(self.config.auto_offset_reset, self._hub.wall_ms)
