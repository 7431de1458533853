"""The asyncio consumer."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any, Generic

from ...protocol.errors import ApiTimeoutError, ClosedError, ConfigError, WakeupError
from ...protocol.model import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP
from ..config import ConsumerConfig
from ..consumer.consumer_io import ConsumerEngine, limited_warning
from ..consumer.incoming import (
    bad_record_action,
    checked_offset,
    checked_topics,
    loads_of,
    named_partitions,
    timestamps_of,
)
from ..consumer.interceptors import Interceptors
from ..group.listeners import Callbacks
from ..group.membership_io import CLOSE_TIMEOUT_S
from ..group.subscription import first_subscription
from ..records import K, OffsetAndTimestamp, Record, V, timestamp_to_ms
from ..serdes import bytes_
from .cluster_io import attach_async
from .group_io import AsyncGroupFace

if TYPE_CHECKING:
    import re
    from collections.abc import AsyncIterator, Callable, Iterable, Mapping
    from types import TracebackType
    from typing import Self, Unpack

    import pyarrow

    from ...protocol.model import TopicPartition
    from ..arrow.reading import Reading
    from ..consumer.incoming import OnDeserializeError, SomePartitions
    from ..consumer.interceptors import SomeConsumerInterceptor
    from ..group.assignors import Assignor
    from ..group.listeners import SomeListener
    from ..options import ConsumerOptions
    from ..records import TimestampLike
    from ..serdes import Deserializer
    from .cluster_io import AsyncCluster

_BYTES: Any = bytes_


class AsyncConsumer(AsyncGroupFace[K, V], Generic[K, V]):
    """Reads records on one event loop. Arguments and methods are those of `Consumer`, to be awaited."""

    def __init__(
        self,
        *topics: str,
        bootstrap: str | Iterable[str] | AsyncCluster | None = None,
        key: Deserializer[K] = _BYTES,
        value: Deserializer[V] = _BYTES,
        iter_timeout: float | None = None,
        on_deserialize_error: OnDeserializeError = "raise",
        pattern: str | re.Pattern[str] | None = None,
        listener: SomeListener | None = None,
        assignors: Iterable[str | Assignor] | None = None,
        interceptors: Iterable[SomeConsumerInterceptor] = (),
        config: Mapping[str, Any] | None = None,
        **options: Unpack[ConsumerOptions],
    ) -> None:
        super().__init__()
        wanted = checked_topics(topics)
        self._loads, self._on_bad = (
            loads_of(key, value),
            bad_record_action(on_deserialize_error, limited_warning()),
        )
        self._iter_timeout, self._interceptors = iter_timeout, Interceptors(interceptors)
        attached = attach_async(bootstrap, ConsumerConfig, config, options)
        self._cluster, self.config, self._owns_cluster = attached
        self._topics = () if self.config.group else wanted
        self._assignors = None if assignors is None else tuple(assignors)
        self._first = first_subscription(self.config, wanted, pattern, listener)  # made with the engine
        self._callbacks = Callbacks(listener, awaits=True)
        self._made: ConsumerEngine | None = None
        self._news = asyncio.Event()
        self._is_closed = False
        self._cluster.add(self)

    # --- records ----------------------------------------------------------------------------------------

    async def poll(self, timeout: float = 0, max_records: int | None = None) -> list[Record[K, V]]:
        """Records, at most `max_records` (default max.poll.records), as soon as any are there.

        Empty after `timeout` seconds. Errors: as `Consumer.poll`.
        """
        engine, most = self._engine, self._most(max_records)
        ends_at = self._now() + timeout
        while True:
            may_take = await self._serve(self._left(ends_at))
            self._news.clear()
            records = engine.take(most) if may_take else []
            if records:
                return records  # Order: before the next call, see `handed_out`
            left_s = self._left(ends_at)
            if engine.take_wakeup():
                raise WakeupError
            if left_s <= 0:
                await asyncio.sleep(0)  # a loop of empty polls must not starve the others
                return records
            await self._wait(left_s)

    async def __aiter__(self) -> AsyncIterator[Record[K, V]]:
        """Record by record; waits for more. Ends after `wakeup`, or `iter_timeout` without a record."""
        engine, timeout = self._engine, self._iter_timeout
        self._engine.check_reading()
        ends_at = None if timeout is None else self._now() + timeout
        while True:
            may_take = await self._serve(None if ends_at is None else self._left(ends_at))
            self._news.clear()
            chunk = engine.head() if may_take else None
            if chunk is None:
                left_s = None if ends_at is None else self._left(ends_at)
                if (left_s is not None and left_s <= 0) or engine.take_wakeup():
                    return
                await self._wait(left_s)
                continue
            first = chunk.index
            try:
                while chunk.is_active and chunk.index < chunk.ready and not engine.attention:
                    record = chunk.records[chunk.index]
                    chunk.index += 1  # before the yield: whoever asks there for the position gets the next
                    yield record
            finally:
                engine.settle(chunk, chunk.index - first)
            engine.asked()
            if engine.take_wakeup():
                return
            await asyncio.sleep(0)  # let the loop fetch ahead, and others run, between batches
            ends_at = None if timeout is None else self._now() + timeout

    async def batches(
        self, max_records: int = 500, timeout: float = 1.0
    ) -> AsyncIterator[list[Record[K, V]]]:
        """Lists of records, each with at least one; at most `timeout` seconds pass while one fills up.

        Ends like the iteration over records.
        """
        self._engine.check_reading()
        engine = self._engine
        while True:
            batch: list[Record[K, V]] = []
            try:
                is_over = await self._fill(partial(engine.fill, batch, max_records), timeout)
                engine.handed_out(len(batch))
            except BaseException:
                engine.put_back()  # the records are in nobody's hands
                raise
            if batch:
                yield batch
            if is_over or engine.take_wakeup():
                return

    def arrow_batches(
        self, max_rows: int = 65_536, timeout: float = 1.0, columns: Iterable[str] | None = None
    ) -> AsyncIterator[pyarrow.RecordBatch]:
        """Arrow record batches in the layout of `headrace.ARROW_SCHEMA`, each with at least one row.

        As `Consumer.arrow_batches`.
        """
        from ..arrow.reading import Reading

        self._engine.check_reading()
        return self._read_arrow(Reading(max_rows, timeout, columns))

    # --- assignment and position ------------------------------------------------------------------------

    async def assign(self, *tps: SomePartitions) -> None:
        """Read exactly these partitions, given as a list or as arguments.

        Errors: ConfigError for a consumer made with topics.
        """
        group = self._engine.group
        if self._topics or (group is not None and group.subscription is not None):
            raise ConfigError("this consumer reads its topics; make one without topics to assign")
        old = self._engine.assigned()
        self._engine.assign(named_partitions(tps) or ())
        self._engine.watch_assigned(old)

    async def assignment(self, timeout: float | None = None) -> tuple[TopicPartition, ...]:
        """The partitions that are read; waits until those of its topics are known, but not for its group."""
        await self._discover(timeout)
        return self._engine.assignment()

    async def position(self, tp: TopicPartition, timeout: float | None = None) -> int:
        """The offset of the next record to be handed out; looks it up if need be."""
        ends_at = self._now() + self._timeout_s(timeout)
        await self._discover(timeout)
        while True:
            self._news.clear()
            position, error = self._engine.state_of(tp, lambda state: (state.next_position(), state.error))
            if position is not None:
                return position
            if error is not None:
                raise error
            left_s = self._left(ends_at)
            if left_s <= 0:
                raise ApiTimeoutError(f"no position for {tp} in time")
            await self._wait(left_s)

    async def seek(self, tp: TopicPartition, offset: int) -> None:
        """Go on with this offset. Errors: ConfigError when not assigned, ValueError when negative."""
        checked_offset(offset)
        await self._discover(None)
        self._engine.change(lambda fetcher: fetcher.seek(tp, offset))

    async def seek_to_beginning(self, *tps: SomePartitions) -> None:
        """Go to the first record of these partitions, or of all."""
        await self._seek_by(EARLIEST_TIMESTAMP, tps)

    async def seek_to_end(self, *tps: SomePartitions) -> None:
        """Go behind the last record of these partitions, or of all."""
        await self._seek_by(LATEST_TIMESTAMP, tps)

    async def seek_to_time(self, timestamp: TimestampLike, *tps: SomePartitions) -> None:
        """Go to the first record at or after a time (ms or aware datetime), or to the end without one."""
        await self._seek_by(timestamp_to_ms(timestamp), tps)

    async def pause(self, *tps: SomePartitions) -> None:
        """Hand out nothing of these partitions (or of all); what was fetched ahead is kept."""
        await self._discover(None)
        wanted = await self._named(tps)
        self._engine.change(lambda fetcher: fetcher.pause(wanted))

    async def resume(self, *tps: SomePartitions) -> None:
        """Undo `pause` for these partitions, or for all."""
        await self._discover(None)
        wanted = await self._named(tps)
        self._engine.change(lambda fetcher: fetcher.resume(wanted))
        self._news.set()

    def paused(self) -> tuple[TopicPartition, ...]:
        """The partitions that are paused."""
        return self._engine.change(
            lambda fetcher: tuple(sorted(tp for tp, state in fetcher.states.items() if state.is_paused))
        )

    # --- facts ------------------------------------------------------------------------------------------

    async def beginning_offsets(
        self,
        *tps: SomePartitions,
        timeout: float | None = None,
    ) -> dict[TopicPartition, int]:
        """The first offset of each partition (all that are read by default)."""
        return await self._edges(EARLIEST_TIMESTAMP, tps, timeout)

    async def end_offsets(
        self,
        *tps: SomePartitions,
        timeout: float | None = None,
    ) -> dict[TopicPartition, int]:
        """The offset behind the last readable record of each partition (all that are read by default)."""
        return await self._edges(LATEST_TIMESTAMP, tps, timeout)

    async def offsets_for_times(
        self,
        wanted: Mapping[TopicPartition, TimestampLike],
        timeout: float | None = None,
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """The first record at or after each time; None where there is none that new."""
        found = await self._engine.offsets(timestamps_of(wanted), self._deadline_ms(timeout))
        return {tp: value if value.offset >= 0 else None for tp, value in found.items()}

    def lag(self) -> dict[TopicPartition, int | None]:
        """Records between each position and the end, as of the last fetch; None while not known."""
        return self._engine.lag()

    def metrics(self) -> dict[str, float]:
        """Totals and gauges by Kafka's metric names."""
        return self._engine.metrics()

    # --- life -------------------------------------------------------------------------------------------

    def wakeup(self) -> None:
        """End the `poll` (by WakeupError) or iteration that is going on, or else the next one; on the same
        loop."""
        self._engine.wakeup()

    async def close(self, timeout: float | None = None, *, leave: bool | None = None) -> None:
        """End. Finished work is committed, and the group is told: as `Consumer.close`."""
        if self._is_closed:
            return
        try:
            if self._made is not None:
                if timeout is None:
                    timeout = min(CLOSE_TIMEOUT_S, self._timeout_s(None))
                await self._leave("the consumer was closed", leave, timeout)
        except ClosedError:
            pass  # it ended itself before
        finally:
            self._is_closed = True
            await self._end()

    async def _end(self) -> None:
        self._cluster.remove(self)
        if self._made is not None:
            self._made.fail(ClosedError("the consumer was closed"))
        if self._owns_cluster:
            await self._cluster.close()

    def forked(self) -> None:
        """This process is a forked child: every further call fails with ClosedError."""
        self._is_closed = True
        if self._made is not None:
            self._made.forked()

    async def __aenter__(self) -> Self:
        self._engine.lag()  # starts it on this loop
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    # --- inside -----------------------------------------------------------------------------------------

    @property
    def _engine(self) -> ConsumerEngine:
        if self._is_closed:
            raise ClosedError("the consumer was closed")
        hub = self._cluster.hub  # raises on another event loop than the first
        if self._made is None:
            self._made = ConsumerEngine(
                *(hub, self.config, self._topics, self._loads, self._on_bad),
                is_threaded=False,
                assignors=self._assignors,
                interceptors=self._interceptors,
            )
            self._made.add_listener(self._news.set)
            if self._first is not None:
                self._group.subscribe(self._first)
        return self._made

    def _now(self) -> float:
        return self._cluster.hub.now_ms() / 1000

    def _left(self, ends_at: float) -> float:
        # whole ms, as the clock has: a wait for less would end before the clock moves, again and again
        return round(ends_at - self._now(), 3)

    async def _wait(self, timeout_s: float | None) -> None:
        engine = self._engine
        if engine.attention:
            return
        engine.is_waiting = True
        try:
            async with asyncio.timeout(timeout_s):
                await self._news.wait()
        except TimeoutError:
            return
        finally:
            engine.is_waiting = False

    async def _read_arrow(self, reading: Reading) -> AsyncIterator[pyarrow.RecordBatch]:
        engine = self._engine
        while True:
            gathering = engine.gathering(reading.wanted, reading.max_rows)
            try:
                is_over = await self._fill(partial(engine.gather, gathering), reading.timeout_s)
                batch = reading.batch(gathering) if gathering.count else None
                engine.handed_out(gathering.count)
            except BaseException:
                engine.undo(gathering)  # the rows are in nobody's hands
                raise
            if batch is not None:
                yield batch
            if is_over or engine.take_wakeup():
                return
            await asyncio.sleep(0)  # let the loop fetch ahead, and others run, between batches

    async def _fill(self, fill: Callable[[], tuple[int, bool]], timeout_s: float) -> bool:
        """Fill a list or a table up, step by step; True when the iteration ends with it."""
        engine, idle_s = self._engine, self._iter_timeout
        ends_at = None if idle_s is None else self._now() + idle_s
        count = 0
        while True:
            self._news.clear()
            is_first = not count
            if engine.attention and count:
                return False  # what is there is handed out before the group changes anything
            if not await self._serve(None if ends_at is None else self._left(ends_at)):
                return True
            count, is_ready = fill()
            if is_ready:
                return False
            if is_first and count:
                ends_at = self._now() + timeout_s
            left_s = None if ends_at is None else self._left(ends_at)
            if left_s is not None and left_s <= 0:
                return not count
            if engine.take_wakeup():
                return True
            await self._wait(left_s)

    def _most(self, max_records: int | None) -> int:
        self._engine.check_reading()
        most = self.config.max_poll_records if max_records is None else max_records
        if most < 1:
            raise ValueError(f"max_records must be at least 1, not {most}")
        return most

    def _timeout_s(self, timeout: float | None) -> float:
        return self.config.api_timeout_ms / 1000 if timeout is None else timeout

    def _deadline_ms(self, timeout: float | None) -> int:
        return self._cluster.hub.now_ms() + int(self._timeout_s(timeout) * 1000)

    async def _discover(self, timeout: float | None) -> None:
        if not self._engine.is_discovered():
            await self._engine.discover(self._deadline_ms(timeout))

    async def _named(
        self, tps: tuple[SomePartitions, ...], timeout: float | None = None
    ) -> tuple[TopicPartition, ...]:
        """The partitions of a call; all that are read for no argument."""
        named = named_partitions(tps)
        return await self.assignment(timeout) if named is None else named

    async def _seek_by(self, timestamp: int, tps: tuple[SomePartitions, ...]) -> None:
        for tp in await self._named(tps):
            self._engine.change(lambda fetcher, tp=tp: fetcher.seek(tp, None, timestamp))  # type: ignore[misc]

    async def _edges(
        self,
        timestamp: int,
        tps: tuple[SomePartitions, ...],
        timeout: float | None,
    ) -> dict[TopicPartition, int]:
        deadline_ms = self._deadline_ms(timeout)
        wanted = await self._named(tps, timeout)
        found = await self._engine.offsets(dict.fromkeys(wanted, timestamp), deadline_ms)
        return {tp: value.offset for tp, value in found.items()}
