"""The consumer's engine: the event loop fetches ahead, the user's side takes records under one lock.

Both faces of the consumer, sync and asyncio, stand on this one.
"""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Any, TypeVar

from ...protocol.errors import ClosedError, ConfigError, HeadraceError
from ...protocol.messages.registry import FETCH, LIST_OFFSETS, OFFSET_FOR_LEADER_EPOCH
from ...protocol.model import EARLIEST_TIMESTAMP, TopicPartition
from ...protocol.records.codec import active_codec
from ...runtime.freed_memory import keep_freed_memory
from ..cluster.backoff import Backoff
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
from .gathering import Gathering, Wanted
from .handout import Handout, Loads, OnBadRecord
from .incoming import checked_partitions, reset_timestamp
from .offsets_io import list_offsets
from .requests import FetchLimits, stakes_of

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterable, Mapping

    from ...protocol.errors import KafkaError
    from ..cluster.hub_io import Hub
    from ..cluster.metadata import ClusterView
    from ..cluster.network import Reply
    from ..config import ConsumerConfig
    from ..records import OffsetAndTimestamp
    from .fetch_state import Chunk, PartitionState
T = TypeVar("T")

log = logging.getLogger("headrace.client.consumer")

# Bound: bytes of keys, of values or of headers in one table of `arrow_batches`, whatever its rows. Small
# enough that the allocator keeps the memory for the next: fresh pages for each would halve the throughput.
MAX_COLUMN_BYTES = 16 << 20

APIS = {SendFetch: FETCH, SendLookup: LIST_OFFSETS, SendEpochs: OFFSET_FOR_LEADER_EPOCH}


class ConsumerEngine:
    """One consumer on the loop of `hub`. Methods of the first part may be called from any thread.

    With `topics` it reads all their partitions, those that are added later too (from their start, so that
    nothing is missed); without, what `assign` says.
    """

    def __init__(
        self,
        hub: Hub,
        config: ConsumerConfig,
        topics: tuple[str, ...],
        loads: tuple[Loads | None, Loads | None],
        on_bad_record: OnBadRecord | None,
        *,
        is_threaded: bool,
    ) -> None:
        self._hub, self.config, self._topics = hub, config, topics
        self._backoff = Backoff(config.retry_backoff_ms, config.retry_backoff_max_ms, hub.random)
        limits = FetchLimits(
            config.fetch_max_wait_ms,
            config.fetch_min_bytes,
            config.fetch_max_bytes,
            config.max_partition_fetch_bytes,
            config.client_rack,
            hub.metadata.max_age_ms,
        )
        self._fetcher = Fetcher(limits, self._backoff, self._reset_timestamp())
        self._codec = active_codec()
        self._handout = Handout(
            self._fetcher, self._codec, *loads, on_bad_record, check_crcs=config.check_crcs
        )
        self._lock = threading.Lock()
        self._news = threading.Condition(self._lock)
        self._listeners: list[Callable[[], None]] = []
        self._counts: dict[str, int] = {}  # partitions known of each topic
        self._assigned: tuple[TopicPartition, ...] = ()
        self._warned: set[str] = set()
        self._wake_is_sent = self._woken = False
        self._is_preparing = False  # the user's deserialisers are at work
        self._timer: asyncio.TimerHandle | None = None
        self._failure: HeadraceError | None = None
        keep_freed_memory()
        self._wake_loop = hub.loop.call_soon_threadsafe if is_threaded else hub.loop.call_soon
        hub.join(self)
        hub.metadata.add_listener(self._on_view)
        hub.metadata.watch(topics)
        self._on_view(hub.metadata.view)

    # --- any thread -------------------------------------------------------------------------------------

    def take(self, max_records: int) -> list[Any]:
        """Records that are there now; empty when none are. Errors: see `Handout`."""
        taken: list[Any] = []
        try:
            size, _ = self.fill(taken, max_records)
            self._handout.handed_out(size)
        except BaseException:
            self.put_back()
            raise
        return taken

    def fill(self, taken: list[Any], max_records: int) -> tuple[int, bool]:
        """Move records that are there now to `taken`, until these are `max_records`; tell `handed_out` or
        `put_back` then. Gives how many there are, and whether nothing can join before these are handed out.

        Errors: see `Handout`; with records taken it is ready instead, and the next call raises.
        """
        while True:
            with self._lock:
                if self._is_preparing or self._failure is not None:
                    self._check_user()
                    if taken:
                        return len(taken), True
                    self._check()
                try:
                    chunk = self._handout.take(taken, max_records)
                finally:
                    self._wake_if_needed()
            if chunk is None:
                return len(taken), self._handout.is_blocked or len(taken) >= max_records
            try:
                self._prepare(chunk)
            except Exception:  # the user's `on_deserialize_error` raises what it likes
                if not taken:
                    raise
                return len(taken), True  # the batch is still there: the next call raises it

    def handed_out(self, count: int) -> None:
        """The user gets what was taken or gathered.

        Order: no call comes between this and the hand-out, or an interrupt behind it would lose the records.
        """
        self._handout.handed_out(count)

    def put_back(self) -> None:
        """The user does not get the records that were taken: go back to where they began."""
        if self._is_preparing:
            return  # a deserialiser was refused: what was taken is of the call that it works for
        with self._lock:
            self._handout.put_back()
            self._wake_if_needed()

    def _prepare(self, chunk: Chunk) -> None:
        # Without the lock: the loop fetches on meanwhile, and the user's code may call the consumer.
        self._is_preparing = True
        try:
            self._handout.prepare(chunk)
        finally:
            self._is_preparing = False

    def gathering(self, wanted: Wanted, max_rows: int) -> Gathering:
        """A new table to fill by `gather`; tell `handed_out` or `undo` then."""
        sink = self._codec.columns(**wanted._asdict(), max_column_bytes=MAX_COLUMN_BYTES)
        return Gathering(sink, max_rows)

    def gather(self, gathering: Gathering) -> tuple[int, bool]:
        """`fill` with rows of a table. Errors: see `Handout.choose`; with rows gathered as there."""
        while not gathering.is_ready:
            with self._lock:
                self._check_user()
                if gathering.count and self._failure is not None:
                    gathering.is_blocked = True
                    break
                self._check()
                try:
                    chunks = self._handout.choose(gathering)
                finally:
                    self._wake_if_needed()
            if not chunks:
                break
            self._gather_from(chunks, gathering)
        return gathering.count, gathering.is_ready

    def _gather_from(self, chunks: list[Chunk], gathering: Gathering) -> None:
        moves: list[tuple[Chunk, int]] = []
        try:
            # Without the lock: the loop fetches on meanwhile.
            self._handout.gather(gathering, chunks, moves)
        except HeadraceError:
            if not gathering.count:
                raise
            gathering.is_blocked = True
        finally:
            with self._lock:
                self._handout.moved(moves)
                self._wake_if_needed()

    def undo(self, gathering: Gathering) -> None:
        """The user does not get the rows: go back to where they began."""
        with self._lock:
            self._handout.undo(gathering)
            self._wake_if_needed()

    def head(self) -> Chunk | None:
        """The next chunk to iterate over; report its end with `settle`."""
        while True:
            with self._lock:
                self._check_user()
                self._check()
                try:
                    chunk = self._handout.head()
                finally:
                    self._wake_if_needed()
            if chunk is None or chunk.is_ready:
                return chunk
            self._prepare(chunk)

    def settle(self, chunk: Chunk, taken: int) -> None:
        """The user has stopped taking records of the chunk after `taken` more of them."""
        with self._lock:
            self._handout.settle(chunk)
            self._handout.records_total += taken
            self._wake_if_needed()

    def wait(self, timeout_s: float | None) -> bool:
        """Wait in the user's thread for news; True when woken by `wakeup`, False for everything else."""
        with self._news:
            if not self._woken and self._failure is None and not self._has_news():
                self._news.wait(timeout_s)
            woken, self._woken = self._woken, False
            return woken

    def wait_for_change(self, timeout_s: float) -> None:
        """Wait in the user's thread for the next answer, at most `timeout_s`."""
        with self._news:
            # Bound: a short wait, because the change may have come before we waited.
            self._news.wait(min(max(timeout_s, 0), 0.05))

    def wakeup(self) -> None:
        """End the wait that is going on, or else the next one, early."""
        with self._news:
            self._woken = True
            self._news.notify_all()
        self._wake_loop(self._tell)

    def take_wakeup(self) -> bool:
        """Whether `wakeup` was called since the last look."""
        with self._lock:
            woken, self._woken = self._woken, False
            return woken

    def assign(self, tps: Iterable[TopicPartition]) -> None:
        """Read exactly these partitions; those that were read before go on where they are.

        Errors: TypeError for what is no partition.
        """
        wanted = checked_partitions(tps)
        with self._lock:
            self._check()
            for tp in [tp for tp in self._fetcher.states if tp not in wanted]:
                self._fetcher.remove(tp)
            for tp in wanted:
                self._fetcher.add(tp, self._reset_timestamp())
            self._assigned = wanted
            self._wake_if_needed()

    def assignment(self) -> tuple[TopicPartition, ...]:
        """The partitions that are read, sorted."""
        with self._lock:
            return tuple(sorted(self._fetcher.states))

    def is_discovered(self) -> bool:
        """Whether the partitions of all topics are known."""
        return len(self._counts) == len(self._topics)

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
        """Totals and gauges by Kafka's metric names."""
        lags = [lag for lag in self.lag().values() if lag is not None]
        with self._lock:
            fetcher = self._fetcher
            return {
                "records-consumed-total": self._handout.records_total,
                "bytes-fetched-total": fetcher.records_fetch_bytes,
                "fetch-total": fetcher.fetches_sent,
                "bytes-buffered": fetcher.buffered_bytes,
                "assigned-partitions": len(fetcher.states),
                "records-lag-max": max(lags, default=0),
            }

    def forked(self) -> None:
        """In a forked child: the loop and its thread stayed behind, and the lock may be held for ever."""
        self._lock = threading.Lock()
        self._news = threading.Condition(self._lock)
        self._failure = ClosedError("this consumer belongs to the parent process; make a new one after fork")

    # --- on the loop ------------------------------------------------------------------------------------

    async def discover(self, deadline_ms: int) -> None:
        """Wait until the partitions of all topics are known. Errors: UnknownTopicOrPartitionError, ..."""
        for topic in self._topics:
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
        )
        good: dict[TopicPartition, OffsetAndTimestamp] = {}
        for tp, value in found.items():
            if isinstance(value, HeadraceError):
                raise value
            good[tp] = value
        return good

    def add_listener(self, listener: Callable[[], None]) -> None:
        """Call on the loop whenever there may be records, errors or a wakeup."""
        self._listeners.append(listener)

    def fail(self, reason: HeadraceError) -> None:
        """End now; everyone who waits hears `reason`."""
        with self._news:
            if self._failure is not None:
                return
            self._failure = reason
            self._news.notify_all()
        if self._timer is not None:
            self._timer.cancel()
        self._hub.metadata.remove_listener(self._on_view)
        if self._hub.failure is None:
            self._hub.metadata.unwatch(self._topics)
            self._hub.metadata.unwatch({tp.topic for tp in self._assigned})
        self._hub.leave(self)
        self._tell()

    def watch_assigned(self, old: Iterable[TopicPartition]) -> None:
        """`assign` replaced `old`: keep the new topics in the metadata instead."""
        self._hub.metadata.watch({tp.topic for tp in self._assigned})
        self._hub.metadata.unwatch({tp.topic for tp in old})

    def assigned(self) -> tuple[TopicPartition, ...]:
        """What the last `assign` said."""
        return self._assigned

    def _on_view(self, view: ClusterView) -> None:
        with self._news:
            for name in self._topics:
                self._discover(name, view)
            if not self._wake_is_sent and self._failure is None:
                self._wake()
            self._news.notify_all()

    def _discover(self, name: str, view: ClusterView) -> None:
        topic = view.topics.get(name)
        if topic is None:
            if name in view.missing and name not in self._warned:
                self._warned.add(name)
                log.warning("there is no topic %r; waiting for it", name)
            return
        known = self._counts.get(name)
        reset = self._reset_timestamp()
        for partition in range(known or 0, len(topic.partitions)):
            # A partition that came later is read from its start: its first records came before we knew it.
            is_late = known is not None and reset is not None
            self._fetcher.add(TopicPartition(name, partition), EARLIEST_TIMESTAMP if is_late else reset)
        self._counts[name] = max(len(topic.partitions), known or 0)

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
        metadata = self._hub.metadata
        for effect in effects:
            if isinstance(effect, (SendFetch, SendLookup, SendEpochs)):
                self._ask(effect)
            elif isinstance(effect, TakeHint):
                metadata.take_hint(effect.topic, effect.partition, effect.leader, effect.leader_epoch)
            elif isinstance(effect, RefreshMetadata):
                metadata.refresh_soon()
            elif isinstance(effect, Truncated):
                log.warning(
                    "%s lost records read before offset %d; reading goes on at %d (-1: by auto.offset.reset)",
                    *(effect.tp, effect.position, effect.offset),
                )
        if Notify() in effects:
            with self._news:
                self._news.notify_all()
            self._tell()

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

    def _check(self) -> None:
        if self._failure is not None:
            raise self._failure

    def _check_user(self) -> None:
        if self._is_preparing:
            raise HeadraceError(
                "records are being deserialised: neither a deserialiser nor another thread can take more"
            )

    def _has_news(self) -> bool:
        return any(
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

    def _tell(self) -> None:
        for listener in list(self._listeners):
            listener()
