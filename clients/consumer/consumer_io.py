"""The consumer's engine: the event loop fetches ahead, the user's side takes records under one lock.

Both faces of the consumer, sync and asyncio, stand on this one.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import deque
from typing import TYPE_CHECKING, Any, TypeVar

from ...protocol.errors import ClosedError, ConfigError, HeadraceError
from ...protocol.messages.registry import FETCH, LIST_OFFSETS, OFFSET_FOR_LEADER_EPOCH
from ...protocol.model import EARLIEST_TIMESTAMP
from ...protocol.records.codec import active_codec
from ...runtime.effect_performer import EffectPerformer, ignore, on
from ...runtime.freed_memory import keep_freed_memory
from ...runtime.limited_log_io import LimitedLog
from ..cluster.backoff import Backoff
from ..group.joining_io import join_group
from .effects import (
    Effect,
    Notify,
    RefreshMetadata,
    Request,
    SendEpochs,
    SendFetch,
    SendLookup,
    TakeHint,
    Truncated,
)
from .fetcher import Fetcher
from .figures import figures
from .handing_out_io import HandingOut
from .handout import Handout, Loads, OnBadRecord
from .incoming import checked_partitions, reset_timestamp
from .interceptors import Interceptors
from .offsets_io import all_found, list_offsets
from .positions import Positions, positions
from .requests import READ_COMMITTED, READ_UNCOMMITTED, FetchLimits, stakes_of
from .whole_topics import WholeTopics

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from ...protocol.errors import KafkaError
    from ...protocol.model import TopicPartition
    from ..cluster.hub_io import Hub
    from ..cluster.metadata import ClusterView
    from ..cluster.network import Reply
    from ..config import ConsumerConfig
    from ..group.assignors import Assignor
    from ..records import OffsetAndTimestamp
    from .fetch_state import PartitionState
T = TypeVar("T")

log = logging.getLogger("headrace.client.consumer")


def limited_warning() -> Callable[[str, str], None]:
    """Logs (kind, text) for one consumer; of texts of one kind that follow each other one per interval."""
    return LimitedLog(log).warning


def _log_truncation(effect: Truncated) -> None:
    log.warning(
        "%s lost records read before offset %d; reading goes on at %d (-1: by auto.offset.reset)",
        *(effect.tp, effect.position, effect.offset),
    )


NO_INTERCEPTORS = Interceptors()
APIS = {SendFetch: FETCH, SendLookup: LIST_OFFSETS, SendEpochs: OFFSET_FOR_LEADER_EPOCH}


class ConsumerEngine(HandingOut):
    """One consumer on the loop of `hub`. Methods of the first part may be called from any thread.

    With `topics` it reads all their partitions, those that are added later too (from their start, so that
    nothing is missed); without, what `assign` says, or, with group.id, what its group gives it.
    """

    attention = False  # the group has something to do for the user's side, see `Membership.begin`

    def __init__(
        self,
        hub: Hub,
        config: ConsumerConfig,
        topics: tuple[str, ...],
        loads: tuple[Loads | None, Loads | None],
        on_bad_record: OnBadRecord | None,
        *,
        is_threaded: bool,
        assignors: Iterable[str | Assignor] | None = None,
        interceptors: Interceptors = NO_INTERCEPTORS,
    ) -> None:
        self._hub, self.config, self._topics = hub, config, WholeTopics(topics)
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
        self._codec = active_codec()
        self.interceptors = interceptors
        self._handout = Handout(
            *(self._fetcher, self._codec, *loads, on_bad_record),
            check_crcs=config.check_crcs,
            on_ready=interceptors.consumed if interceptors.see_records else None,
        )
        self._lock = threading.Lock()
        self._news = threading.Condition(self._lock)
        self._task_news = asyncio.Event()  # `_news` for a task that waits on the loop
        self._assigned: tuple[TopicPartition, ...] = ()
        self.is_waiting = False  # the user waits for news
        self._wake_is_sent = False
        self._wakeups: deque[None] = deque(maxlen=1)  # appended to without a lock: see `wakeup`
        self._timer: asyncio.TimerHandle | None = None
        self._failure: HeadraceError | None = None
        metadata = hub.metadata
        self._performer = EffectPerformer(
            Effect,
            on(SendFetch, self._ask),
            on(SendLookup, self._ask),
            on(SendEpochs, self._ask),
            on(TakeHint, lambda e: metadata.take_hint(e.topic, e.partition, e.leader, e.leader_epoch)),
            on(RefreshMetadata, lambda _: metadata.refresh_soon()),
            on(Truncated, _log_truncation),
            on(Notify, ignore),  # once, behind the other effects
        )
        keep_freed_memory()
        self._wake_loop = hub.loop.call_soon_threadsafe if is_threaded else hub.loop.call_soon
        self.group = join_group(self, hub, config, self._backoff, assignors)
        hub.join(self)
        hub.metadata.add_listener(self._on_view)
        hub.metadata.watch(topics)
        self._on_view(hub.metadata.view)

    # --- any thread -------------------------------------------------------------------------------------

    def wait(self, timeout_s: float | None) -> bool:
        """Wait in the user's thread for records, an error or work of the group; True after `wakeup`."""
        if timeout_s is not None and timeout_s <= 0:
            return self.take_wakeup()
        with self._news:
            if not self._wakeups and self._failure is None and not self._has_news():
                self.is_waiting = True
                self._news.wait(timeout_s)
                self.is_waiting = False
        return self.take_wakeup()

    async def async_wait(self, timeout_s: float | None) -> bool:
        """`wait` in a task on the loop; other tasks run at least once."""
        has_time = timeout_s is None or timeout_s > 0
        if has_time and not self._wakeups and self._failure is None and not self._has_news():
            self.is_waiting = True
            try:
                await self.async_wait_for_change(timeout_s)
            finally:
                self.is_waiting = False
        else:
            await asyncio.sleep(0)
        return self.take_wakeup()

    def wait_for_change(self, timeout_s: float) -> None:
        """Wait in the user's thread for the next response, at most `timeout_s`."""
        with self._news:
            # Bound: a short wait, because the response may have come before it began.
            self._news.wait(min(max(timeout_s, 0), 0.05))

    async def async_wait_for_change(self, timeout_s: float | None) -> None:
        """`wait_for_change` in a task on the loop."""
        self._task_news.clear()
        try:
            async with asyncio.timeout(timeout_s):
                await self._task_news.wait()
        except TimeoutError:
            return

    def wakeup(self) -> None:
        """End the wait that is going on, or else the next one, early. Takes no lock: a signal handler may
        call it in a thread that holds ours."""
        self._wakeups.append(None)
        self._wake_loop(self.notify)

    def notify(self) -> None:
        """End the wait that is going on; its caller looks for records again. On the loop."""
        with self._news:
            self._news.notify_all()
        self._task_news.set()

    def take_wakeup(self) -> bool:
        """Whether `wakeup` was called since the last look."""
        try:
            self._wakeups.pop()
        except IndexError:
            return False
        return True

    def assign(self, tps: Iterable[TopicPartition]) -> None:
        """Read exactly these partitions; those that were read before keep their positions. On the loop.

        Errors: TypeError for what is no partition.
        """
        wanted = checked_partitions(tps)
        old = self._assigned
        with self._lock:
            self._check()
            for tp in [tp for tp in self._fetcher.states if tp not in wanted]:
                self._fetcher.remove(tp)
            for tp in wanted if self.group is None else ():
                self._fetcher.add(tp, self._reset_timestamp())
            self._assigned = wanted
            self._wake_if_needed()
        if self.group is not None:
            self.group.fetch_positions(wanted)
        self._hub.metadata.watch({tp.topic for tp in wanted})
        self._hub.metadata.unwatch({tp.topic for tp in old})

    def assignment(self) -> tuple[TopicPartition, ...]:
        """The partitions that are read, sorted."""
        with self._lock:
            return tuple(sorted(self._fetcher.states))

    def check_reading(self) -> None:
        """Errors: what ended the consumer; ConfigError when there is nothing to read."""
        self._check()
        is_member = self.group is not None and self.group.subscription is not None
        if not (self._topics.topics or is_member or self._assigned):
            more = "" if self.group is None else " subscribe() or"
            raise ConfigError(f"nothing to read: give the consumer topics, or call{more} assign()")

    def is_discovered(self) -> bool:
        """Whether the partitions of all topics are known."""
        return self._topics.is_known

    def change(self, action: Callable[[Fetcher], T]) -> T:
        """Do something to the fetcher (seek, pause, ...) under the lock. Errors: ConfigError for KeyError."""
        with self._lock:
            self._check()
            try:
                return action(self._fetcher)
            except KeyError as error:
                raise ConfigError(f"{error.args[0]} is not assigned to this consumer") from error
            finally:
                self._wake_if_needed()

    def state_of(self, tp: TopicPartition, read: Callable[[PartitionState], T]) -> T:
        """Read one partition's state under the lock. Errors: ConfigError when it is not assigned."""
        return self.change(lambda fetcher: read(fetcher.states[tp]))

    def lag(self) -> dict[TopicPartition, int | None]:
        """Records between each position and the end of its partition; None while one is not known."""
        with self._lock:
            return {tp: state.lag() for tp, state in sorted(self._fetcher.states.items())}

    def metrics(self) -> dict[str, float]:
        """Totals, rates and gauges by Kafka's metric names."""
        with self._lock:
            found = figures(self._fetcher, self._handout)
        return found if self.group is None else {**found, **self.group.figures()}

    def forked(self) -> None:
        """In a forked child: the loop and its thread stayed behind, and the lock may be held for ever."""
        self._lock = threading.Lock()
        self._news = threading.Condition(self._lock)
        self._failure = ClosedError("this consumer belongs to the parent process; make a new one after fork")

    # --- on the loop ------------------------------------------------------------------------------------

    def positions(self, *, finished: bool) -> Positions:
        """Where each partition stands; with `finished` not beyond what the user is done with."""
        with self._lock:
            return positions(self._fetcher, self._handout, finished=finished)

    def drop(self, tps: Iterable[TopicPartition]) -> None:
        """Others read these now: nothing more of them is handed out."""
        with self._lock:
            for tp in tps:
                self._fetcher.remove(tp)

    def set_attention(self, attention: bool) -> None:
        """Whether the user's side has to call `Membership.begin` before it takes any more."""
        with self._news:
            self.attention = attention
            if attention:
                self._news.notify_all()
        if attention:
            self._task_news.set()

    def progress(self) -> tuple[Any, ...] | None:
        """What changes when the user asks for records; None while it waits for some."""
        return None if self.is_waiting else (self._asks, self._handout.iterated())

    async def discover(self, deadline_ms: int) -> None:
        """Wait until the partitions of all topics are known. Errors: UnknownTopicOrPartitionError, ..."""
        for topic in self._topics.topics:
            await self._hub.metadata.topic(topic, deadline_ms)
        self._on_view(self._hub.metadata.view)

    async def offsets(
        self, wanted: Mapping[TopicPartition, int], deadline_ms: int
    ) -> dict[TopicPartition, OffsetAndTimestamp]:
        """Offsets by timestamp. Errors: the first one that a partition met."""
        found = await list_offsets(
            self._hub,
            wanted,
            deadline_ms=deadline_ms,
            request_timeout_ms=self.config.request_timeout_ms,
            backoff=self._backoff,
            isolation=self._isolation,
        )
        return all_found(found)

    def fail(self, reason: HeadraceError) -> None:
        """End now; everyone who waits hears `reason`."""
        with self._news:
            if self._failure is not None:
                return
            self._failure = reason
            self._news.notify_all()
        if self._timer is not None:
            self._timer.cancel()
        if self.group is not None:
            self.group.close()
        self._hub.metadata.remove_listener(self._on_view)
        if self._hub.failure is None:
            self._hub.metadata.unwatch(self._topics.topics)
            self._hub.metadata.unwatch({tp.topic for tp in self._assigned})
        self._hub.leave(self)
        self._task_news.set()

    def assigned(self) -> tuple[TopicPartition, ...]:
        """What the last `assign` said."""
        return self._assigned

    def _on_view(self, view: ClusterView) -> None:
        with self._news:
            reset = self._reset_timestamp()
            for tp, is_late in self._topics.news(view):
                self._fetcher.add(tp, EARLIEST_TIMESTAMP if is_late and reset is not None else reset)
            if not self._wake_is_sent and self._failure is None:
                self._wake()
            self._news.notify_all()

    def _pump(self) -> None:
        with self._lock:
            self._wake_is_sent = False
            if self._failure is not None:
                return
            self._fetcher.reset_policy = self._reset_timestamp()
            effects = self._fetcher.poll(self._hub.metadata.view, self._hub.now_ms())
            due_ms = self._fetcher.next_due_ms()
        self._arm(due_ms)
        self._perform(effects)

    def _arm(self, due_ms: int | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if due_ms is not None:
            # One more ms: the loop may fire a moment early, and a timer that is not due would spin.
            delay_s = (max(due_ms - self._hub.now_ms(), 0) + 1) / 1000
            self._timer = self._hub.loop.call_later(delay_s, self._pump)

    def _perform(self, effects: tuple[Effect, ...]) -> None:
        self._performer.perform_all(effects)
        if Notify() in effects:
            with self._news:
                self._news.notify_all()
            self._task_news.set()

    def _ask(self, sent: Request) -> None:
        hub, is_fetch = self._hub, isinstance(sent, SendFetch)

        def on_done(reply: Reply | None, error: KafkaError | None) -> None:
            with self._lock:
                if reply is None:
                    assert error is not None
                    effects = self._fetcher.on_failure(sent, error, hub.now_ms())
                elif isinstance(sent, SendFetch):
                    effects = self._fetcher.on_fetched(sent, reply.body, reply.frames, hub.now_ms())
                elif isinstance(sent, SendLookup):
                    effects = self._fetcher.on_looked_up(sent, reply.body, hub.now_ms())
                else:
                    effects = self._fetcher.on_epoch_ends(sent, reply.body, hub.now_ms())
            self._perform(effects)
            self._pump()

        wait_ms = self.config.fetch_max_wait_ms if is_fetch else 0
        hub.submit(
            *(sent.node_id, APIS[type(sent)], sent.request),
            timeout_ms=self.config.request_timeout_ms + wait_ms,
            on_done=on_done,
            wait_ms=wait_ms,
            stakes=lambda: stakes_of(sent),
        )

    # --- inside -----------------------------------------------------------------------------------------

    def _reset_timestamp(self) -> int | None:
        return reset_timestamp(self.config.auto_offset_reset, self._hub.wall_ms)

    def _has_news(self) -> bool:
        return self.attention or any(
            not state.is_paused if state.chunks else state.error is not None
            for state in self._fetcher.states.values()
        )

    def _wake_if_needed(self) -> None:
        if self._fetcher.needs_wake and not self._wake_is_sent and self._failure is None:
            self._wake()

    def _wake(self) -> None:
        # Order: an interrupt in between sends it twice; the other way round it would never be sent.
        self._wake_loop(self._pump)
        self._wake_is_sent = True
