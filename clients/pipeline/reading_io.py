"""`fetch_arrow`: the records of one range as Arrow batches, ending at an exact position.

Memory is bounded by the consumer's prefetch, not by the range. Leader changes and node failures are retried
for kafkaConsumer.pollTimeoutMs.
"""

from __future__ import annotations

import logging
import time
from bisect import bisect_left
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from ...protocol.errors import (
    ClosedError,
    DataLossError,
    HeadraceError,
    LogTruncationError,
    NoOffsetError,
    OffsetOutOfRangeError,
    ReplicaNotAvailableError,
)
from ...protocol.messages.data import EpochQuestion, OffsetForLeaderEpochRequest
from ...protocol.messages.registry import OFFSET_FOR_LEADER_EPOCH
from ...protocol.model import EARLIEST_TIMESTAMP, NO_EPOCH, NO_OFFSET
from ..arrow.layout import projection, to_record_batch
from ..arrow.library import pa, pc
from ..cluster.backoff import Backoff
from ..cluster.environment_io import environment
from ..cluster.leaders_io import LeaderQuery, query_leaders
from ..config import ConsumerConfig, resolve
from ..consumer.column_builder import ColumnSelection
from ..consumer.consumer_io import ConsumerEngine
from .filters import Filters
from .measures_io import pipelines
from .planning import loss_error
from .pool_io import keep_topics, shared_cluster
from .ranges import CREATED_AGAIN, Loss

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from ..arrow.layout import Projection
    from ..cluster.cluster_io import ClusterIo
    from ..consumer.column_builder import ColumnBuilder
    from ..consumer.fetch_state import PartitionState
    from ..consumer.fetcher import Fetcher
    from .ranges import OffsetRange
    from .source_options import ReadOptions

log = logging.getLogger("headrace.client.pipeline")

MAX_ROWS = 65_536
# How often a waiting read checks whether the range can still be completed.
LOOK_S = 0.5
_LOOKS_FOR_TOPIC = 3  # Bound: metadata refreshes, a retry backoff apart, before the topic counts as deleted
# The assumed size of a row, for the first fetch of a short range.
_ROW_BYTES = 1024
_LEAST_FETCH_BYTES = 64 << 10
LOST = (DataLossError, LogTruncationError, NoOffsetError, OffsetOutOfRangeError)


def _epoch_ends(entries: tuple[EpochQuestion, ...], _timeout_ms: int) -> OffsetForLeaderEpochRequest:
    return OffsetForLeaderEpochRequest(entries)


_EPOCH_ENDS: LeaderQuery[int, int] = LeaderQuery(
    OFFSET_FOR_LEADER_EPOCH, EpochQuestion, _epoch_ends, attrgetter("end_offset"), "its epochs are unknown"
)


def fetch_arrow(
    range_: OffsetRange,
    options: ReadOptions,
    *,
    columns: Iterable[str] | None = None,
    filters: Filters | None = None,
    max_rows: int = MAX_ROWS,
    on_loss: Callable[[Loss], None] | None = None,
) -> Iterator[Any]:
    """Arrow record batches in the layout of `headrace.ARROW_SCHEMA`, each of 1 to `max_rows` rows: the rows
    of the range that match `filters`, with the given `columns` (None: all; headers with includeHeaders).

    Missing records are an error with failOnDataLoss; otherwise they are skipped, logged, and passed to
    `on_loss`. Errors, at once: TypeError, ValueError, ImportError without pyarrow. While reading:
    DataLossError, ApiTimeoutError, CorruptMessageError, NoClusterError.
    """
    if max_rows < 1:
        raise ValueError(f"max_rows must be an integer >= 1, not {max_rows!r}")
    if columns is None and not options.include_headers:
        columns = [name for name in projection(None).schema.names if name != "headers"]
    wanted = projection(columns)
    filters = Filters() if filters is None else filters
    cut = filters.cut(range_)
    return iter(()) if cut is None else _read(cut, options, wanted, filters, max_rows, on_loss)


def _read(
    cut: OffsetRange,
    options: ReadOptions,
    wanted: Projection,
    filters: Filters,
    max_rows: int,
    on_loss: Callable[[Loss], None] | None,
) -> Iterator[Any]:
    shape = _Shape(wanted, filters)
    with shared_cluster(options.bootstrap, options.client) as cluster:
        reader = _RangeReader(cluster.io, cut, options)
        try:
            while reader.position < cut.end:
                try:
                    yield from reader.batches(shape, max_rows)
                except LOST as error:
                    loss = reader.skip(error)
                    if options.fail_on_data_loss:
                        raise loss_error([loss]) from error
                    log.warning("%s", loss)
                    if on_loss is not None:
                        on_loss(loss)
        finally:
            reader.close()


class _Shape:
    """Selects the columns and rows of collected batches."""

    def __init__(self, wanted: Projection, filters: Filters) -> None:
        self._filters, self._schema = filters, wanted.schema
        names = list(wanted.schema.names)
        # the offset is needed to find the end of the range
        needed = [*names, "offset", *([] if filters.timestamp.is_all else ["timestamp"])]
        self._decoded = projection(list(dict.fromkeys(needed)))
        self.columns = ColumnSelection(wanted.has("key"), wanted.has("value"), wanted.has("headers"))

    def batch(self, builder: Any, end: int) -> Any:
        """The selected rows of the range, of at least one collected row; may be empty."""
        found = to_record_batch(self._decoded, builder.finish(), builder.topics)
        column = found.column("offset")
        # Read from the buffer: pyarrow's first scalar in a process may import pandas, for tenths of a second.
        offsets = memoryview(column.buffers()[1]).cast("q")[column.offset :][: len(column)]
        if offsets[-1] >= end:  # offsets ascend
            found = found.slice(0, bisect_left(offsets, end))
        found = self._filtered(found)
        return found if found.num_columns == len(self._schema) else found.select(self._schema.names)

    def _filtered(self, found: Any) -> Any:
        among = self._filters.offset.among
        if among is not None:
            found = found.filter(pc.is_in(found.column("offset"), pa.array(sorted(among), pa.int64())))
        bounds = self._filters.timestamp
        if bounds.is_all:
            return found
        times = found.column("timestamp").cast(pa.int64())
        mask = pc.and_(pc.greater_equal(times, bounds.low), pc.less_equal(times, bounds.high))
        if bounds.among is not None:
            mask = pc.and_(mask, pc.is_in(times, pa.array(sorted(bounds.among), pa.int64())))
        return found.filter(mask)  # also drops rows without timestamp


class _RangeReader:
    """One consumer of one partition, from the start of a range to its end."""

    def __init__(self, io: ClusterIo, cut: OffsetRange, options: ReadOptions) -> None:
        self._io, self._cut, self._options = io, cut, options
        self.position = cut.start
        self._held: HeadraceError | None = None  # the error that ends the read after the rows before it
        config = _consumer_config(cut, options)

        async def make() -> ConsumerEngine:
            keep_topics(io, cut.topic)
            await self._view_as_planned()
            engine = ConsumerEngine(io.hub, config, (), (None, None), None, is_threaded=True)
            engine.assign([cut.tp])
            engine.change(self._begin)
            return engine

        self._engine = io.call(make())

    async def _view_as_planned(self) -> None:
        """Refresh shared metadata whose topic id differs from the plan's. It may be older than the plan,
        which was made by another process: then the topic was created again before the plan, not after it. A
        node may be behind too, so more than one response is needed. Errors: ApiTimeoutError."""
        cut, metadata = self._cut, self._io.hub.metadata
        for _ in range(_LOOKS_FOR_TOPIC):
            known = metadata.view.topics.get(cut.topic)
            if not cut.topic_id or known is None or known.topic_id == cut.topic_id:
                return
            await metadata.refresh(self._deadline_ms())

    def batches(self, shape: _Shape, max_rows: int) -> Iterator[Any]:
        """The rows from the position on. Errors: as `fetch_arrow`; after those in LOST the position is at the
        unreadable record."""
        cut, engine = self._cut, self._engine
        while self.position < cut.end:
            # A row takes at least one offset, so at most the rest of the range is decoded.
            engine.reader.begin_call()
            builder = engine.reader.new_columns(shape.columns, min(max_rows, cut.end - self.position))
            self._fill(builder)
            batch = shape.batch(builder, cut.end) if builder.count else None
            if batch is not None and batch.num_rows:
                pipelines.read(cut.topic, batch.num_rows, batch.nbytes)
                yield batch
        self._check_log()

    def skip(self, error: HeadraceError) -> Loss:
        """Continue at the first available offset of the range, if any; returns the loss."""
        cut, start = self._cut, self.position
        self.position = cut.end
        if isinstance(error, OffsetOutOfRangeError):
            found = self._io.call(self._engine.offsets({cut.tp: EARLIEST_TIMESTAMP}, self._deadline_ms()))
            first = found[cut.tp].offset
            if start < first < cut.end:
                self.position = first
                self._engine.change(self._begin)
        elif isinstance(error, LogTruncationError) and error.divergent_offset != NO_OFFSET:
            start = min(start, error.divergent_offset)
        is_other = isinstance(error, NoOffsetError)
        return Loss(cut.tp, start, self.position, CREATED_AGAIN if is_other else str(error))

    def _fill(self, builder: ColumnBuilder) -> None:
        """Until it is full, or the range is read."""
        cut, engine = self._cut, self._engine
        if self._held is not None:
            error, self._held = self._held, None
            raise error
        moved_s = time.monotonic()  # from here on: the consumer of the rows may take any time
        while True:
            _, is_ready = engine.reader.fill_columns(builder)
            position = engine.change(self._stand)
            if position is not None and position > self.position:
                self.position, moved_s = position, time.monotonic()
            if is_ready or self.position >= cut.end:
                return
            engine.buffer.wait(LOOK_S)
            error_now = self._given_up(time.monotonic() - moved_s)
            if error_now is not None:
                if not builder.count:
                    raise error_now
                self._held = error_now
                return

    def _check_log(self) -> None:
        """Check that the log is still that of the plan. Within one leader epoch a log only grows; under a
        later epoch the epochs up to the plan's must reach as far as before. Errors: LogTruncationError."""
        cut = self._cut
        now = self._engine.change(lambda fetcher: fetcher.states[cut.tp].validation.leader_epoch)
        if cut.leader_epoch == NO_EPOCH or now in (None, cut.leader_epoch):
            return
        config, hub = self._engine.config, self._io.hub
        backoff = Backoff(config.retry_backoff_ms, config.retry_backoff_max_ms, hub.random)
        asked = query_leaders(
            hub,
            _EPOCH_ENDS,
            {cut.tp: cut.leader_epoch},
            deadline_ms=self._deadline_ms(),
            request_timeout_ms=config.request_timeout_ms,
            backoff=backoff,
        )
        end = self._io.call(asked)[cut.tp]
        if isinstance(end, HeadraceError):
            raise end
        if NO_OFFSET < end < cut.end:
            text = f"the log has lost records from offset {end} on since the read was planned"
            raise LogTruncationError(text, *cut.tp, cut.end, end)

    def _deadline_ms(self) -> int:
        return self._io.hub.now_ms() + self._options.poll_timeout_ms

    def close(self) -> None:
        """Stop fetching."""
        if self._io.failure is None:
            self._io.wake(lambda: self._engine.fail(ClosedError("the range is read")))

    def _begin(self, fetcher: Fetcher) -> None:
        cut = self._cut
        fetcher.seek(cut.tp, self.position)
        state = fetcher.states[cut.tp]
        state.until = cut.end
        # Another topic id means another topic: the fetcher drops the position then.
        state.topic_id = cut.topic_id or None

    def _stand(self, fetcher: Fetcher) -> int | None:
        """The next offset to return. A log never ends with a gap, so this passes the end of the range."""
        return fetcher.states[self._cut.tp].next_position()

    def _given_up(self, waited_s: float) -> HeadraceError | None:
        """The error if waiting for the next row is useless."""
        view, cut, most_ms = self._io.hub.metadata.view, self._cut, self._options.poll_timeout_ms
        if waited_s > 2 * LOOK_S and cut.topic in view.missing:
            return DataLossError(f"topic {cut.topic!r} was deleted")
        if waited_s * 1000 < most_ms:
            return None
        state: PartitionState = self._engine.change(lambda fetcher: fetcher.states[cut.tp])
        end = state.high_watermark
        if end is not None and end < cut.end and not state.failures:
            return DataLossError(f"the log ends at {end} for readers")
        return ReplicaNotAvailableError(
            f"{cut.tp}: no record for {most_ms} ms at offset {self.position} (kafkaConsumer.pollTimeoutMs)"
        )


def _consumer_config(cut: OffsetRange, options: ReadOptions) -> ConsumerConfig:
    # From the plan: the task's environment may differ, and then the end of the range might not be reached.
    isolation = "read_committed" if options.is_read_committed else "read_uncommitted"
    values = {**dict(options.client), "auto.offset.reset": "none", "isolation.level": isolation}
    most = values["max.partition.fetch.bytes"]
    values["max.partition.fetch.bytes"] = min(int(most), max(cut.size * _ROW_BYTES, _LEAST_FETCH_BYTES))
    return resolve(ConsumerConfig, values, environment())
