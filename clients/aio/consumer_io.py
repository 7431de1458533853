"""The asyncio consumer."""

from __future__ import annotations

import asyncio  # async only
import contextlib
from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING, Any, Generic

from ...protocol.errors import ApiTimeoutError, ClosedError, ConfigError, WakeupError
from ...protocol.model import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP
from ..cluster.async_cluster_io import AsyncClusterIo
from ..cluster.attach_io import attach
from ..config import ConsumerConfig
from ..consumer.arguments import (
    bad_record_action,
    checked_offset,
    checked_topics,
    deserializers_of,
    named_partitions,
    timestamps_of,
)
from ..consumer.consumer_io import ConsumerEngine, limited_warning
from ..consumer.interceptors import Interceptors
from ..group.joining_io import kept_assignors
from ..group.listeners import Callbacks
from ..group.membership_io import CLOSE_TIMEOUT_S
from ..group.subscription import first_subscription
from ..records import K, OffsetAndTimestamp, Record, V, timestamp_to_ms
from ..serdes import bytes_
from .group_io import AsyncGroupConsumer

if TYPE_CHECKING:
    import re
    from collections.abc import AsyncIterator, Callable, Iterable, Mapping
    from types import TracebackType
    from typing import Self, Unpack

    import pyarrow

    from ...protocol.model import TopicPartition
    from ..arrow.reading import Reading
    from ..cluster.async_cluster_io import AsyncSharedCluster
    from ..cluster.hub_io import Hub
    from ..consumer.arguments import OnDeserializeError, SomePartitions
    from ..consumer.interceptors import SomeConsumerInterceptor
    from ..group.joining_io import SomeAssignors
    from ..group.listeners import SomeListener
    from ..options import ConsumerOptions
    from ..records import TimestampLike
    from ..serdes import Deserializer

_BYTES: Any = bytes_
# Consumers whose `close` called the running rebalance callback.
_closing: ContextVar[tuple[Any, ...]] = ContextVar("_closing", default=())


class AsyncConsumer(AsyncGroupConsumer[K, V], Generic[K, V]):
    """Reads records. Belongs to one task at a time; only `wakeup` may be called by others.

    With topics it reads all their partitions, later ones too; with a `group` it shares them with the other
    members, as after `subscribe`. Without topics it reads those given to `assign`. `bootstrap` is as for
    `AsyncProducer`. `iter_timeout` ends an iteration after that many seconds without a record. `assignors`
    are those of partition.assignment.strategy, by name, or the user's own (the threads of a streams
    application give their topology here); `interceptors` as in `ConsumerInterceptor`. Other keyword arguments
    are keys of ConsumerConfig.

    With enable.auto.commit a record counts as processed when the next one (or the next batch) is requested.
    """

    def __init__(
        self,
        *topics: str,
        bootstrap: str | Iterable[str] | AsyncSharedCluster | None = None,
        key: Deserializer[K] = _BYTES,
        value: Deserializer[V] = _BYTES,
        iter_timeout: float | None = None,
        on_deserialize_error: OnDeserializeError = "raise",
        pattern: str | re.Pattern[str] | None = None,
        listener: SomeListener | None = None,
        assignors: SomeAssignors | None = None,
        interceptors: Iterable[SomeConsumerInterceptor] = (),
        config: Mapping[str, Any] | None = None,
        **options: Unpack[ConsumerOptions],
    ) -> None:
        super().__init__()
        wanted = checked_topics(topics)
        loads, on_bad = (
            deserializers_of(key, value),
            bad_record_action(on_deserialize_error, limited_warning()),
        )
        seeing, own = Interceptors(interceptors), kept_assignors(assignors)
        self._iter_timeout = iter_timeout
        self._io, self.config = attach(AsyncClusterIo, bootstrap, ConsumerConfig, config, options)
        self._topics = () if self.config.group else wanted
        self._is_closed, self._has_ended = False, self._io.new_event()
        with self._io.opening(self):
            first = first_subscription(self.config, wanted, pattern, listener)
            self._callbacks = Callbacks(listener, awaits=not self._io.is_threaded)

            def make_engine(hub: Hub) -> ConsumerEngine:
                engine = ConsumerEngine(
                    *(hub, self.config, self._topics, loads, on_bad),
                    is_threaded=self._io.is_threaded,
                    assignors=own,
                    interceptors=seeing,
                )
                if first is not None and engine.group is not None:
                    engine.group.subscribe(first)
                return engine

            self._holder = self._io.engine(make_engine)

    # --- records ----------------------------------------------------------------------------------------

    async def poll(self, timeout: float = 0, max_records: int | None = None) -> list[Record[K, V]]:
        """Records, at most `max_records` (default max.poll.records), as soon as there are any.

        Empty after `timeout` seconds. Errors: WakeupError after `wakeup`; SerializationError, NoOffsetError,
        OffsetOutOfRangeError, CorruptMessageError, each with partition and offset; what ends the membership
        in the group, FencedInstanceIdError first of all; ClosedError.
        """
        engine = self._engine
        most = self._most(engine, max_records)
        ends_at, left_s = self._io.now_s() + timeout, timeout
        while True:
            may_take = await self._serve(engine, left_s)
            records = engine.reader.take(most) if may_take else []
            if records:
                return records  # Order: before the next call, see `RecordReader.returned`
            left_s = self._left(ends_at)
            if await engine.buffer.async_wait(left_s):
                raise WakeupError
            if left_s <= 0:
                return records

    async def __aiter__(self) -> AsyncIterator[Record[K, V]]:
        """Record by record; waits for more. Ends after `wakeup`, or `iter_timeout` without a record."""
        engine, timeout = self._engine, self._iter_timeout
        engine.check_reading()
        buffer = engine.buffer
        ends_at = None if timeout is None else self._io.now_s() + timeout
        while True:
            may_take = await self._serve(engine, None if ends_at is None else self._left(ends_at))
            batch = engine.reader.next_batch() if may_take else None
            if batch is None:
                left_s = None if ends_at is None else self._left(ends_at)
                if (left_s is not None and left_s <= 0) or await buffer.async_wait(left_s):
                    return
                continue
            first = batch.index
            sampled = engine.reader.sampled(batch)
            try:
                while sampled and batch.is_active and batch.index < batch.ready and not buffer.has_group_work:
                    record = batch.records[batch.index]
                    batch.index += 1  # as below
                    with self.process_span(record):
                        yield record
                while batch.is_active and batch.index < batch.ready and not buffer.has_group_work:
                    record = batch.records[batch.index]
                    batch.index += 1  # before the yield: `position` there is that of the next record
                    yield record
            finally:
                engine.reader.end_iteration(batch, batch.index - first)
            engine.reader.processed()
            if buffer.take_wakeup():
                return
            await asyncio.sleep(0)  # async only: between batches the loop fetches ahead, and runs other tasks
            ends_at = None if timeout is None else self._io.now_s() + timeout

    async def batches(
        self, max_records: int = 500, timeout: float = 1.0
    ) -> AsyncIterator[list[Record[K, V]]]:
        """Lists of at most `max_records` records, none empty. A list is returned at latest `timeout` seconds
        after its first record. Ends like the iteration over records.
        """
        engine = self._engine
        engine.check_reading()
        while True:
            batch: list[Record[K, V]] = []
            try:
                is_over = await self._fill(
                    partial(engine.reader.fill, batch, max_records), timeout, self._iter_timeout
                )
                if batch and engine.tracing is not None:
                    engine.tracing.polled(batch)
                engine.reader.returned(len(batch))
            except BaseException:
                engine.reader.rewind()
                raise
            if batch:
                yield batch
            if is_over or engine.buffer.take_wakeup():
                return

    async def poll_arrow(
        self, timeout: float = 0, max_rows: int = 65_536, columns: Iterable[str] | None = None
    ) -> pyarrow.RecordBatch | None:
        """An Arrow record batch as those of `arrow_batches`, of at most `max_rows` rows, as soon as there are
        any. None after `timeout` seconds, or by `wakeup`. Errors: as `poll`; ImportError without pyarrow."""
        from ..arrow.reading import Reading

        reading, engine = Reading(max_rows, 0, columns), self._engine
        engine.check_reading()
        return (await self._next_rows(reading, timeout))[0]

    def arrow_batches(
        self, max_rows: int = 65_536, timeout: float = 1.0, columns: Iterable[str] | None = None
    ) -> AsyncIterator[pyarrow.RecordBatch]:
        """Arrow record batches in the layout of `headrace.ARROW_SCHEMA`, each with at least one row.

        A batch is returned when it has `max_rows` rows, or `timeout` seconds after its first row; earlier
        only when the bytes of one column reach 16 MB. `columns` names the columns to decode, in their order.
        Keys and values are bytes, whatever deserialisers the consumer has. Ends like the iteration over
        records. Errors: as `poll`; ImportError without pyarrow.
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
        await self._io.run(self._engine.assign, named_partitions(tps) or ())

    async def assignment(self, timeout: float | None = None) -> tuple[TopicPartition, ...]:
        """The partitions that are read; waits until those of its topics are known, but not for its group.

        Errors: UnknownTopicOrPartitionError, ApiTimeoutError.
        """
        await self._discover(timeout)
        return self._engine.assignment()

    async def position(self, tp: TopicPartition, timeout: float | None = None) -> int:
        """The offset of the next record that `poll` returns; fetched from the leader if necessary.

        Errors: NoOffsetError under auto.offset.reset=none, ApiTimeoutError, ConfigError when not assigned.
        """
        ends_at = self._io.now_s() + self._timeout_s(timeout)
        await self._discover(timeout)
        while True:
            position, error = self._engine.state_of(tp, lambda state: (state.next_position(), state.error))
            if position is not None:
                return position
            if error is not None:
                raise error
            left_s = self._left(ends_at)
            if left_s <= 0:
                raise ApiTimeoutError(f"no position for {tp} in time")
            await self._engine.buffer.async_wait_for_change(left_s)

    async def seek(self, tp: TopicPartition, offset: int) -> None:
        """Continue at this offset. Errors: ConfigError when not assigned, ValueError when negative."""
        checked_offset(offset)
        await self._discover(None)
        self._engine.change(lambda fetcher: fetcher.seek(tp, offset))

    async def seek_to_beginning(self, *tps: SomePartitions) -> None:
        """Continue at the first record of these partitions, or of all."""
        await self._seek_by(EARLIEST_TIMESTAMP, tps)

    async def seek_to_end(self, *tps: SomePartitions) -> None:
        """Continue after the last record of these partitions, or of all."""
        await self._seek_by(LATEST_TIMESTAMP, tps)

    async def seek_to_time(self, timestamp: TimestampLike, *tps: SomePartitions) -> None:
        """Continue at the first record at or after a time (ms or aware datetime), or at the end without
        one."""
        await self._seek_by(timestamp_to_ms(timestamp), tps)

    async def pause(self, *tps: SomePartitions) -> None:
        """Return no records of these partitions (or of all); fetched records are kept."""
        await self._discover(None)
        wanted = await self._named(tps)
        self._engine.change(lambda fetcher: fetcher.pause(wanted))

    async def resume(self, *tps: SomePartitions) -> None:
        """Undo `pause` for these partitions, or for all."""
        await self._discover(None)
        wanted = await self._named(tps)
        self._engine.change(lambda fetcher: fetcher.resume(wanted))
        self._engine.buffer.notify()  # async only: another task may wait for records

    def paused(self) -> tuple[TopicPartition, ...]:
        """The partitions that are paused."""
        return self._engine.change(
            lambda fetcher: tuple(sorted(tp for tp, state in fetcher.states.items() if state.is_paused))
        )

    # --- facts ------------------------------------------------------------------------------------------

    async def beginning_offsets(
        self, *tps: SomePartitions, timeout: float | None = None
    ) -> dict[TopicPartition, int]:
        """The first offset of each partition (all that are read by default)."""
        return await self._edges(EARLIEST_TIMESTAMP, tps, timeout)

    async def end_offsets(
        self, *tps: SomePartitions, timeout: float | None = None
    ) -> dict[TopicPartition, int]:
        """The offset after the last visible record of each partition (all that are read by default)."""
        return await self._edges(LATEST_TIMESTAMP, tps, timeout)

    async def offsets_for_times(
        self, wanted: Mapping[TopicPartition, TimestampLike], timeout: float | None = None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """The first record at or after each time; None without one."""
        found = await self._offsets(timestamps_of(wanted), self._deadline_ms(timeout))
        return {tp: value if value.offset >= 0 else None for tp, value in found.items()}

    def lag(self) -> dict[TopicPartition, int | None]:
        """The offset lag, not of records: from each position to the end, as of the last fetch; None while
        unknown."""
        return self._engine.lag()

    def metrics(self) -> dict[str, float]:
        """Totals and gauges by Kafka's metric names."""
        return self._engine.metrics()

    # --- life -------------------------------------------------------------------------------------------

    def wakeup(self) -> None:
        """End the `poll` that is going on, by WakeupError, or the iteration, or else the next one. A signal
        handler or any task may call it."""
        self._engine.buffer.wakeup()

    async def close(self, timeout: float | None = None, *, leave: bool | None = None) -> None:
        """Commit processed records (auto-commit), leave the group and close, within `timeout` seconds (30 by
        default). `leave` says whether the coordinator assigns the partitions to other members at once; by
        default those of a static member wait for its return (KIP-1092). A second call waits for the
        first one, unless a rebalance callback of that one makes it."""
        timeout = min(CLOSE_TIMEOUT_S, self._timeout_s(None)) if timeout is None else timeout
        if self._is_closed:
            if self not in _closing.get():
                await self._io.wait(self._has_ended, timeout)
            return
        self._io.check_may_block()
        self._is_closed = True
        before = _closing.set((*_closing.get(), self))
        try:
            if self._holder.made is not None:
                await self._leave("the consumer was closed", leave, timeout)
        except ClosedError:
            pass  # the connections were closed before
        finally:
            try:
                await self._end()
            finally:
                self._has_ended.set()
                _closing.reset(before)

    async def _end(self) -> None:
        try:
            if self._holder.made is not None:
                error = ClosedError("the consumer was closed")
                with contextlib.suppress(ClosedError):
                    await self._io.run(self._holder.made.fail, error)
        finally:
            await self._io.leave(self)

    def forked(self) -> None:
        """Make every further call raise ClosedError: this process is a forked child."""
        self._is_closed, self._has_ended = True, self._io.new_event()
        self._has_ended.set()
        if self._holder.made is not None:
            self._holder.made.buffer.forked()

    async def __aenter__(self) -> Self:
        assert self._engine is not None  # made on this loop
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    # --- inside -----------------------------------------------------------------------------------------

    @property
    def _engine(self) -> ConsumerEngine:
        if self._is_closed and self._holder.made is None:
            raise ClosedError("the consumer was closed")
        return self._holder.get()

    def _left(self, ends_at: float) -> float:
        # whole ms, as the clock of the hub has: a shorter wait would end before the clock moves
        return round(ends_at - self._io.now_s(), 3)

    async def _read_arrow(self, reading: Reading) -> AsyncIterator[pyarrow.RecordBatch]:
        engine = self._engine
        while True:
            batch, is_over = await self._next_rows(reading, self._iter_timeout)
            if batch is not None:
                yield batch
            if is_over or engine.buffer.take_wakeup():
                return
            await asyncio.sleep(0)  # async only: as between batches of records

    async def _next_rows(
        self, reading: Reading, idle_s: float | None
    ) -> tuple[pyarrow.RecordBatch | None, bool]:
        """The next table, and whether the iteration ends with it."""
        engine = self._engine
        builder = engine.reader.new_columns(reading.wanted, reading.max_rows)
        try:
            fill = partial(engine.reader.fill_columns, builder)
            is_over = await self._fill(fill, reading.timeout_s, idle_s)
            batch = reading.batch(builder) if builder.count else None
            engine.reader.returned(builder.count)
        except BaseException:
            engine.reader.rewind_columns(builder)
            raise
        return batch, is_over

    async def _fill(
        self, fill: Callable[[], tuple[int, bool]], timeout_s: float, idle_s: float | None
    ) -> bool:
        """Call `fill` until its list or table is ready; True when the iteration ends with it."""
        engine = self._engine
        ends_at = None if idle_s is None else self._io.now_s() + idle_s
        count = 0
        while True:
            is_first = not count
            if engine.buffer.has_group_work and count:
                return False  # these records are returned before the rebalance callbacks are called
            if not await self._serve(engine, None if ends_at is None else self._left(ends_at)):
                return True
            count, is_ready = fill()
            if is_ready:
                return False
            if is_first and count:
                ends_at = self._io.now_s() + timeout_s
            left_s = None if ends_at is None else self._left(ends_at)
            if left_s is not None and left_s <= 0:
                return not count
            if await engine.buffer.async_wait(left_s):
                return True

    def _most(self, engine: ConsumerEngine, max_records: int | None) -> int:
        engine.check_reading()
        most = self.config.max_poll_records if max_records is None else max_records
        if most < 1:
            raise ValueError(f"max_records must be at least 1, not {most}")
        return most

    def _timeout_s(self, timeout: float | None) -> float:
        return self.config.api_timeout_ms / 1000 if timeout is None else timeout

    def _deadline_ms(self, timeout: float | None) -> int:
        return self._io.hub.now_ms() + int(self._timeout_s(timeout) * 1000)

    async def _discover(self, timeout: float | None) -> None:
        if not self._engine.is_discovered():
            await self._io.call(self._engine.discover(self._deadline_ms(timeout)))

    async def _named(
        self, tps: tuple[SomePartitions, ...], timeout: float | None = None
    ) -> tuple[TopicPartition, ...]:
        """The partitions of a call; all that are read for no argument."""
        named = named_partitions(tps)
        return await self.assignment(timeout) if named is None else named

    async def _seek_by(self, timestamp: int, tps: tuple[SomePartitions, ...]) -> None:
        for tp in await self._named(tps):
            self._engine.change(lambda fetcher, tp=tp: fetcher.seek(tp, None, timestamp))  # type: ignore[misc]

    async def _offsets(
        self, wanted: Mapping[TopicPartition, int], deadline_ms: int
    ) -> dict[TopicPartition, OffsetAndTimestamp]:
        return await self._io.call(self._engine.offsets(wanted, deadline_ms))

    async def _edges(
        self, timestamp: int, tps: tuple[SomePartitions, ...], timeout: float | None
    ) -> dict[TopicPartition, int]:
        deadline_ms = self._deadline_ms(timeout)
        wanted = await self._named(tps, timeout)
        found = await self._offsets(dict.fromkeys(wanted, timestamp), deadline_ms)
        return {tp: value.offset for tp, value in found.items()}
