"""The application's side of a consumer: takes fetched records, under the lock that the event loop shares."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from ...protocol.errors import ConfigError, HeadraceError
from ..operation_times import OperationTimes
from .column_builder import ColumnBuilder, ColumnSelection

if TYPE_CHECKING:
    from ...protocol.records.codec import RecordCodec
    from ..tracing.consuming_io import ConsumerTracing
    from .fetch_buffer_io import FetchBuffer
    from .fetch_collector import FetchCollector
    from .fetch_state import FetchedBatch
    from .interceptors import Interceptors

# Bound: bytes of keys, of values or of headers in one table of `arrow_batches`, whatever its rows. Small
# enough that the allocator keeps the memory for the next: fresh pages for each would halve the throughput.
MAX_COLUMN_BYTES = 16 << 20


class RecordReader:
    """What the application's thread or task calls to get records: lists, batches to iterate over, or columns.

    Records are taken first, which moves the positions, and returned then. If the call is interrupted in
    between (Ctrl-C, a cancelled task), `rewind` moves the positions back.
    """

    def __init__(
        self,
        buffer: FetchBuffer,
        collector: FetchCollector,
        codec: RecordCodec,
        interceptors: Interceptors,
        tracing: ConsumerTracing | None = None,
    ) -> None:
        self._buffer, self._collector, self._codec = buffer, collector, codec
        self._interceptors, self.tracing = interceptors, tracing
        self.max_column_bytes = MAX_COLUMN_BYTES
        self.polls = 0  # calls that asked for records
        self.operations = OperationTimes()
        self._asked_s = 0.0  # 0: no call waits for records
        self._last_asked_s = 0.0
        self._is_deserializing = False  # the application's deserializers run

    def begin_call(self) -> None:
        """The application calls for records. An earlier call may have returned none."""
        self._asked_s = 0.0
        if self.tracing is not None:
            self.tracing.begin_call()

    def last_poll_ago_s(self) -> int:
        """Seconds since the application asked for records; -1 if it never has."""
        return int(time.monotonic() - self._last_asked_s) if self._last_asked_s else -1

    def _asked(self) -> None:
        self.polls += 1
        if not self._asked_s:
            self._asked_s = self._last_asked_s = time.monotonic()
            if self.tracing is not None:
                self.tracing.asked()

    def _answered(self) -> None:
        asked_s, self._asked_s = self._asked_s, 0.0
        self.operations.polled((time.monotonic() - asked_s) * 1000)

    # --- lists of records -----------------------------------------------------------------------------------

    def take(self, max_records: int) -> list[Any]:
        """Fetched records, to be returned at once; empty if there are none. Errors: see `FetchCollector`."""
        taken: list[Any] = []
        try:
            size, _ = self.fill(taken, max_records)
            if size and self.tracing is not None:
                self.tracing.polled(taken)
            self.returned(size)
        except BaseException:
            self.rewind()
            raise
        return taken

    def fill(self, taken: list[Any], max_records: int) -> tuple[int, bool]:
        """Move fetched records to `taken`, up to `max_records` in all; call `returned` or `rewind` then.
        Gives their number, and whether these must be returned before more can be taken.

        Errors: see `FetchCollector`. With records in `taken` the next call raises the error instead.
        """
        self._asked()
        buffer, collector = self._buffer, self._collector
        while True:
            with buffer.lock:
                if not taken:
                    collector.processed()
                if self._is_deserializing or buffer.failure is not None:
                    self._check_not_deserializing()
                    if taken:
                        return len(taken), True
                    buffer.raise_if_closed()
                try:
                    batch = collector.take(taken, max_records)
                finally:
                    buffer.schedule_poll_if_needed()
            if batch is None:
                return len(taken), collector.is_blocked or len(taken) >= max_records
            try:
                self._prepare(batch)
            except Exception:  # the application's `on_deserialize_error` may raise anything
                if not taken:
                    raise
                return len(taken), True  # the batch stays in the buffer: the next call raises the error

    def returned(self, count: int) -> None:
        """The application gets the records or rows that were taken.

        Order: no call comes between this and the return, or an interrupt after it would lose the records.
        """
        if count:
            self._answered()
        self._collector.returned(count)

    def rewind(self) -> None:
        """The application does not get the records that were taken: move the positions back."""
        if self._is_deserializing:
            return  # called by a deserializer: the records belong to the call that runs the deserializer
        with self._buffer.lock:
            self._collector.rewind()
            self._buffer.schedule_poll_if_needed()

    # --- columns --------------------------------------------------------------------------------------------

    def new_columns(self, columns: ColumnSelection, max_rows: int) -> ColumnBuilder:
        """An empty table for `fill_columns`; call `returned` or `rewind_columns` then. Errors: ConfigError if
        the consumer has interceptors that see records."""
        if self._interceptors.see_records:
            raise ConfigError("interceptors see records, not columns: this consumer has no arrow_batches")
        if self.tracing is not None:
            columns = columns._replace(headers=True)  # they have the contexts
        sink = self._codec.columns(**columns._asdict(), max_column_bytes=self.max_column_bytes)
        return ColumnBuilder(sink, max_rows, None if self.tracing is None else self.tracing.polled_columns)

    def fill_columns(self, builder: ColumnBuilder) -> tuple[int, bool]:
        """As `fill`, with rows of a table. Errors: see `FetchCollector.choose`."""
        self._asked()
        buffer, collector = self._buffer, self._collector
        while not builder.is_full:
            with buffer.lock:
                self._check_not_deserializing()
                if not builder.count:
                    collector.processed()
                if builder.count and buffer.failure is not None:
                    builder.is_blocked = True
                    break
                buffer.raise_if_closed()
                try:
                    batches = collector.choose(builder)
                finally:
                    buffer.schedule_poll_if_needed()
            if not batches:
                break
            self._add_rows(batches, builder)
        return builder.count, builder.is_full

    def rewind_columns(self, builder: ColumnBuilder) -> None:
        """The application does not get the rows: move the positions back."""
        with self._buffer.lock:
            self._collector.rewind_columns(builder)
            self._buffer.schedule_poll_if_needed()

    def _add_rows(self, batches: list[FetchedBatch], builder: ColumnBuilder) -> None:
        ends: list[tuple[FetchedBatch, int]] = []
        try:
            # Without the lock: the event loop fetches ahead meanwhile.
            self._collector.add_rows(builder, batches, ends)
        except HeadraceError:
            if not builder.count:
                raise
            builder.is_blocked = True
        finally:
            with self._buffer.lock:
                self._collector.rows_added(ends)
                self._buffer.schedule_poll_if_needed()

    # --- iteration ------------------------------------------------------------------------------------------

    def next_batch(self) -> FetchedBatch | None:
        """The next batch to iterate over; call `end_iteration` then."""
        self._asked()
        buffer, collector = self._buffer, self._collector
        while True:
            with buffer.lock:
                self._check_not_deserializing()
                buffer.raise_if_closed()
                collector.processed()
                try:
                    batch = collector.head()
                    if batch is not None and batch.is_ready:
                        collector.begin_iteration(batch)
                finally:
                    buffer.schedule_poll_if_needed()
            if batch is None:
                return None
            if batch.is_ready:
                self._answered()
                return batch
            self._prepare(batch)

    def sampled(self, batch: FetchedBatch) -> frozenset[int]:
        """The indexes of the sampled records in a batch to iterate over; empty without tracing."""
        if self.tracing is None:
            return frozenset()
        return self.tracing.sampled(batch.records, batch.index, batch.ready)

    def end_iteration(self, batch: FetchedBatch, count: int) -> None:
        """The application stops iterating over the batch, after `count` records of it."""
        with self._buffer.lock:
            self._collector.drop_if_consumed(batch)
            self._collector.records_total += count
            self._buffer.schedule_poll_if_needed()

    def processed(self) -> None:
        """The application asks for more: it has processed all records that it got."""
        with self._buffer.lock:
            self._collector.processed()

    def _prepare(self, batch: FetchedBatch) -> None:
        # Without the lock: the event loop fetches ahead meanwhile, and a deserializer may call the consumer.
        self._is_deserializing = True
        try:
            self._collector.prepare(batch)
        finally:
            self._is_deserializing = False

    def _check_not_deserializing(self) -> None:
        if self._is_deserializing:
            raise HeadraceError(
                "records are being deserialized: neither a deserializer nor another thread can take more"
            )
