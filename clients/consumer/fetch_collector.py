"""Collects the application's records from fetched batches: decodes, deserializes, moves positions. Pure.

A record is taken first (its position moves), then returned to the application, and processed once the
application asks for more. Source: Kafka FetchCollector.java.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ...protocol.errors import HeadraceError, SerializationError
from .column_builder import StartPosition

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ...protocol.model import TopicPartition
    from ...protocol.records.codec import RecordCodec
    from ..records import Headers
    from .column_builder import ColumnBuilder
    from .fetch_state import FetchedBatch, PartitionState
    from .fetcher import Fetcher

# (topic, bytes, headers) -> the deserialized key or value
DeserializeField = Callable[[str, bytes, "Headers"], Any]
# For a record that cannot be deserialized: the record to return in its place, None to skip it.
BadRecordAction = Callable[[Any, SerializationError], Any]
# Called with records that are about to be returned: those to return, at some of the same offsets, in order.
OnReady = Callable[[list[Any]], list[Any]]


# A run of records that were taken: the batch, the index of the first record, the version of the partition.
_Taken = tuple["FetchedBatch", int, int]  # not a NamedTuple: one is made for each `take`


class FetchCollector:
    """Takes records from a fetcher. `key` and `value` deserialize; None leaves the bytes.

    Without `on_bad_record` the SerializationError is raised, and the position stays at the bad record, so
    that the application may seek past it. Without `on_ready` all records are returned.
    """

    def __init__(
        self,
        fetcher: Fetcher,
        codec: RecordCodec,
        key: DeserializeField | None,
        value: DeserializeField | None,
        on_bad_record: BadRecordAction | None,
        *,
        check_crcs: bool,
        on_ready: OnReady | None = None,
    ) -> None:
        self._fetcher, self._codec, self._check_crcs = fetcher, codec, check_crcs
        self._key, self._value, self._on_bad_record = key, value, on_bad_record
        self._is_plain, self._on_ready = key is None and value is None, on_ready
        self._last: TopicPartition | None = None  # the partition that had the last turn
        self._current: FetchedBatch | None = None  # its batch, while records may be left
        self._taken: list[_Taken] = []  # not returned yet
        self._returned: list[_Taken] = []  # not processed yet
        self._columns: ColumnBuilder | None = None  # rows that are not processed yet
        self._iterating: _Taken | None = None  # the batch that the application iterates over, from where
        self.records_total = 0
        self.is_blocked = False  # the last `take` stopped before an error

    def head(self, *, after_records: bool = False) -> FetchedBatch | None:
        """The next batch, None if there is none. Unless it `is_ready`, it must be given to `prepare` before
        its records can be taken.

        Partitions take turns, batch by batch. Errors: that of a partition, once; not `after_records`, where
        the error is left for the next call.
        """
        current = self._current
        if current is not None and current.is_active and current.index < current.ready:
            return current  # finish a started batch first: the fast path
        self._current = None
        for state in self._in_turn():
            if state.error is not None and not state.batches:  # batches before the error come first
                if after_records:
                    self.is_blocked = True
                    return None
                self._raise_error(state, state.error)
            if state.is_paused:
                continue
            while state.batches:
                batch = state.batches[0]
                if not batch.is_decoded or batch.index < len(batch.records):
                    if batch.is_ready:
                        self._last, self._current = state.tp, batch
                    return batch
                self._fetcher.batch_consumed(batch)
        return None

    def prepare(self, batch: FetchedBatch) -> None:
        """Decode a batch and deserialize records of it; perhaps none is left then.

        Needs no lock: only the application consumes batches, and a seek or pause by a deserializer makes the
        batch inactive. Errors: SerializationError, or what the application's code raises;
        CorruptMessageError, InvalidRecordError (at every call until the application seeks).
        """
        if not batch.is_decoded:
            self._decode(batch)
        if not batch.is_ready and batch.index < len(batch.records):
            self._make_ready(batch)

    def take(self, taken: list[Any], max_records: int) -> FetchedBatch | None:
        """Move records to `taken`, up to `max_records` in all, and the positions with them; call `returned`
        or `rewind` then. A batch if it must be given to `prepare` before more can be moved.

        Errors: as `head`, but never with records in `taken`.
        """
        self.is_blocked = False
        while len(taken) < max_records:
            batch = self.head(after_records=bool(taken))
            if batch is None or not batch.is_ready:
                return batch
            self._taken.append((batch, batch.index, batch.state.version))
            end = min(batch.ready, batch.index + max_records - len(taken))
            taken += batch.records[batch.index : end]
            batch.index = end
            self.drop_if_consumed(batch)
        return None

    def returned(self, count: int) -> None:
        """The application gets the records taken since the last call."""
        # Order: no call in here, nor until the application has the records: an interrupt comes after a call.
        self._returned = self._taken
        self._taken = []
        self.records_total += count

    def processed(self) -> None:
        """The application asks for more: it has processed all records that it got."""
        self._returned = []
        self._columns = self._iterating = None

    def unprocessed(self) -> dict[TopicPartition, StartPosition]:
        """The position of each partition before its first record that is not processed."""
        runs = [*self._returned, *self._taken]
        if self._iterating is not None:
            batch, first, version = self._iterating
            if batch.index > first:  # the application has the record before
                runs.append((batch, batch.index - 1, version))
        starts = _first_starts(runs)
        return starts if self._columns is None else starts | self._columns.starts

    def begin_iteration(self, batch: FetchedBatch) -> None:
        """The application takes the records of the batch one by one."""
        self._iterating = (batch, batch.index, batch.state.version)

    def iteration_progress(self) -> tuple[int, int]:
        """Changes while the application iterates over records."""
        return (0, 0) if self._iterating is None else (id(self._iterating[0]), self._iterating[0].index)

    def rewind(self) -> None:
        """The application does not get the records taken since the last call (interrupt, cancelled task)."""
        self._rewind_to(_first_starts(self._taken))
        self._taken = []

    def drop_if_consumed(self, batch: FetchedBatch) -> None:
        """Drop the batch if none of its records is left."""
        batches = batch.state.batches
        if batch.index >= len(batch.records) and batches and batches[0] is batch:
            self._fetcher.batch_consumed(batch)

    # --- columns --------------------------------------------------------------------------------------------

    def choose(self, builder: ColumnBuilder) -> list[FetchedBatch]:
        """Encoded batches of one partition with about as many rows as the builder has left; empty if there
        are none. All batches of a partition come before those of the next one.

        Errors: that of a partition, once; if the builder has rows, it is blocked instead.
        """
        chosen: list[FetchedBatch] = []
        self._columns = builder
        rows = 0
        for state in self._in_turn():
            if state.error is not None and not state.batches:
                if builder.count:
                    builder.is_blocked = True
                    return chosen
                self._raise_error(state, state.error)
            if state.is_paused or not state.batches:
                continue
            state.encoded_head()
            self._last = state.tp
            for batch in state.batches:
                chosen.append(batch)
                rows += batch.count
                if rows >= builder.left:
                    break
            return chosen
        return chosen

    def add_rows(
        self, builder: ColumnBuilder, batches: list[FetchedBatch], ends: list[tuple[FetchedBatch, int]]
    ) -> None:
        """Add the rows of chosen batches; `ends` gets the next offset in each, for `rows_added`.

        Needs no lock: the batches do not change unless the application does something else. Errors: as
        `prepare`, for the first batch that cannot be read.
        """
        previous: PartitionState | None = None
        position = 0
        for batch in batches:
            if not builder.left:
                return
            if batch.state is not previous:
                previous = batch.state
                assert previous.position is not None
                position = previous.position
            next_offset = batch.next_offset
            if not batch.is_skipped:
                try:
                    next_offset = builder.add(batch, position, check_crc=self._check_crcs)
                except HeadraceError as error:
                    raise type(error)(f"{batch.state.tp} at offset {position}: {error}") from error
            ends.append((batch, next_offset))
            if next_offset != batch.next_offset:
                builder.is_blocked = True  # by the number of rows, or the bytes of a column
                return
            position = next_offset

    def rows_added(self, ends: list[tuple[FetchedBatch, int]]) -> None:
        """Move the positions to the ends that `add_rows` gave."""
        for batch, next_offset in ends:
            if next_offset == batch.next_offset:
                self._fetcher.batch_consumed(batch)
            else:
                batch.state.position = next_offset
                batch.is_partly_in_columns = True

    def rewind_columns(self, builder: ColumnBuilder) -> None:
        """The application does not get the rows."""
        self._rewind_to(builder.starts)
        self._columns = None

    # --- inside ---------------------------------------------------------------------------------------------

    def _rewind_to(self, starts: Mapping[TopicPartition, StartPosition]) -> None:
        """Move positions back, except where the application has sought elsewhere."""
        for tp, start in starts.items():
            state = self._fetcher.states.get(tp)
            if state is not None and state.version == start.version:
                self._fetcher.rewind(tp, start.position)

    def _in_turn(self) -> list[PartitionState]:
        states = list(self._fetcher.states.values())
        for index, state in enumerate(states):
            if state.tp == self._last:
                head = state.batches[0] if state.batches else None
                # finish a started batch first
                start = index if head is not None and head.is_started else index + 1
                return states[start:] + states[:start]
        return states

    def _raise_error(self, state: PartitionState, error: HeadraceError) -> None:
        if state.position is not None:
            state.error = None  # raised once; the next poll of the fetcher tries again
            self._fetcher.needs_poll = True
        raise error

    def _decode(self, batch: FetchedBatch) -> None:
        state = batch.state
        assert state.position is not None
        if not batch.is_skipped:
            tp = state.tp
            try:
                records = self._codec.decode(
                    batch.data, topic=tp.topic, partition=tp.partition, check_crc=self._check_crcs
                )
            except HeadraceError as error:
                raise type(error)(f"{tp} at offset {state.position}: {error}") from error
            if records and records[0].offset < state.position:  # the position is inside the batch
                records = [record for record in records if record.offset >= state.position]
            batch.records = list(records)
            batch.loaded = len(records) if self._is_plain else 0
            batch.ready = batch.loaded if self._on_ready is None else 0
        batch.is_decoded = True

    def _make_ready(self, batch: FetchedBatch) -> None:
        """Deserialize up to the first bad record, whose error is raised if no record is before it; then call
        `on_ready`."""
        records, index = batch.records, batch.loaded
        try:
            while index < len(records) and batch.is_active:
                record = self._deserialized(records[index])
                if record is None:
                    del records[index]
                    continue
                records[index] = record
                index += 1
        except Exception:
            if index == batch.index:
                raise
            # The good records are returned first; the next call meets the bad one again.
        finally:
            batch.loaded = index  # also after an error: no record is deserialized twice
        if self._on_ready is not None and batch.ready < index and batch.is_active:
            # Order: after an interrupt in `on_ready` the next call passes the same records again.
            chosen = self._on_ready(records[batch.ready : index])
            records[batch.ready : index] = chosen
            batch.loaded = batch.ready + len(chosen)
        batch.ready = batch.loaded

    def _deserialized(self, record: Any) -> Any:
        """The record to return, None to skip it."""
        try:
            self._deserialize(record)
        except SerializationError as error:
            bad = _at(record, error)
            if self._on_bad_record is None:
                raise bad from error
            return self._on_bad_record(record, bad)
        return record

    def _deserialize(self, record: Any) -> None:
        # Order: both before the record is changed, so that the handler of a bad record gets the bytes.
        key, value = record.key, record.value
        if self._key is not None and key is not None:
            key = self._key(record.topic, key, record.headers)
        if self._value is not None and value is not None:
            value = self._value(record.topic, value, record.headers)
        record._fill(key, value)  # noqa: SLF001 - not returned yet, and saves one object per record


def _first_starts(runs: Iterable[_Taken]) -> dict[TopicPartition, StartPosition]:
    starts: dict[TopicPartition, StartPosition] = {}
    for batch, index, version in runs:
        starts.setdefault(batch.state.tp, StartPosition(version, batch.records[index].offset))
    return starts


def _at(record: Any, error: SerializationError) -> SerializationError:
    where = f"{record.topic}-{record.partition} at offset {record.offset}"
    text = f"{where}: {error}; seek past it, or pass on_deserialize_error='skip'"
    return SerializationError(text, record.topic, error.field, record.partition, record.offset, record)
