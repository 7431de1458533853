"""One compaction of one log, in steps that run on a thread: find the last offset of each key, then rewrite
groups of segments without older records.

The log's owner creates a `Cleaning`, and calls `install` between the steps of the thread:

    index()                       map each key to its last offset, for as many keys as fit
    while rewrite():              write and stage one group, see swap.py
        install()                 owner: the log serves the new segment
        settle()                  rename the old files, then the new ones

No record is removed because of a newer one that a loss of power could take: everything up to the last record
in the map is synced before the first swap. Segments are read and written whole batches at a time; the codec
filters the records (`clean_batch`), without an object per record. Source: Kafka Cleaner.java.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, Protocol

from ....protocol.errors import CorruptMessageError, HeadraceError, KafkaStorageError
from ....protocol.model import NO_EPOCH, NO_OFFSET
from ....protocol.records.codec import active_codec
from ....protocol.records.header import HEADER_BYTES
from ....runtime.files.file_layer import DiskFullError, sync_files
from .. import names
from ..batches import header_at
from ..producer_recovery import end_transactions, remove_snapshots, snapshot_offsets
from ..producer_state import NO_PRODUCER_EPOCH
from ..segment import Segment
from ..transaction_index import TransactionIndex
from .plan import group_segments
from .swap import settle, stage
from .transactions import CleanedTransactions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ....protocol.records.codec import OffsetMap
    from ....protocol.records.header import BatchHeader, Buffer
    from ..guarded_files import GuardedFiles
    from ..log import Log
    from ..transaction_index import AbortedTransaction
    from .plan import Cleanable


class CleaningAbortedError(HeadraceError):
    """The compaction was aborted; groups that were not installed are undone."""


class Pace(Protocol):
    """The rate limit of all cleaners."""

    def take(self, size_bytes: int) -> None:
        """Account for bytes read or written; waits as long as the limit requires."""


@dataclass(slots=True)
class CleaningStats:
    """Of one compaction."""

    indexed_bytes: int = 0
    indexed_records: int = 0
    read_bytes: int = 0
    written_bytes: int = 0
    removed_records: int = 0
    map_utilization: float = 0.0


class _Batch(NamedTuple):
    position: int
    header: BatchHeader
    data: memoryview


@dataclass(slots=True, eq=False)
class _Replacement:
    old: list[Segment]
    new: Segment


@dataclass(slots=True, eq=False)
class Cleaning:
    """See the module's docstring. One thread at a time; `abort` on any thread."""

    log: Log
    plan: Cleanable
    map_bytes: int
    load_factor: float
    buffer_bytes: int
    wall_ms: int
    pace: Pace
    stats: CleaningStats = field(default_factory=CleaningStats)
    end_offset: int = 0  # compacted below it, once all groups are done
    _files: GuardedFiles = field(init=False)
    _map: OffsetMap = field(init=False)
    _transactions: CleanedTransactions = field(init=False)
    _groups: list[tuple[Segment, ...]] = field(default_factory=list)
    _producers: dict[int, tuple[int, int]] = field(init=False)
    _aborted: list[AbortedTransaction] = field(init=False)
    _replacement: _Replacement | None = None
    _epoch: int = NO_EPOCH  # of the batch that was rewritten, or dropped, last
    _is_aborted: bool = False

    def __post_init__(self) -> None:
        self._files = self.log.folder.files
        self._producers = self.log.producers.last_batches()
        # The markers of transactions in the plan may be after it, up to the active segment.
        found = (each for segment in self.log.segments for each in segment.aborted or ())
        self._aborted = [each for each in found if each.first_offset < self.plan.end_offset]

    def abort(self) -> None:
        """See compaction_state.Abortable."""
        self._is_aborted = True

    # --- steps -----------------------------------------------------------------------------------------

    def index(self) -> None:
        """Fill the map from the dirty segments. Errors: CleaningAbortedError, KafkaStorageError, and those of
        the codec for a damaged batch."""
        start = self.plan.first_dirty_offset
        offset_map = active_codec().offset_map(self.map_bytes, load_factor=self.load_factor)
        transactions = CleanedTransactions(self._aborted_from(start))
        dirty = [segment for segment in self.plan.segments if segment.next_offset > start]
        for segment in dirty:
            if not self._index_segment(segment, start, offset_map, transactions):
                break
            offset_map.advance(segment.next_offset - 1)
        self._map = offset_map
        self.stats.map_utilization = len(offset_map) / offset_map.capacity
        self.end_offset = offset_map.latest_offset + 1
        segments = [segment for segment in self.plan.segments if segment.base_offset < self.end_offset]
        config = self.log.config
        self._groups = group_segments(segments, config.segment_bytes, config.segment_index_bytes)
        self._groups.reverse()
        self._transactions = CleanedTransactions(self._aborted_from(self.log.log_start_offset))
        if self._groups:
            self.log.compaction.mark_gaps()
            for segment in segments:
                if segment.synced_bytes != segment.size_bytes:
                    segment.file.fdatasync()
            self._drop_snapshots(segments[-1].next_offset)

    def rewrite(self) -> bool:
        """Write and stage the next group; False if there is none. Errors: as `index`; no file of the group is
        left then."""
        if not self._groups:
            return False
        group = list(self._groups.pop())
        new = self._create(group)
        try:
            filled = [segment for segment in group if segment.size_bytes]
            for segment in filled:
                self._rewrite_segment(segment, new, is_last=segment is filled[-1])
            new.next_offset = group[-1].next_offset
            self._finish(new)
            self._check()
            stage(self._files, new)
        except HeadraceError:
            self._undo(new)
            raise
        self._replacement = _Replacement(group, new)
        return True

    def install(self) -> None:
        """Have the log serve the new segment. The owner's thread."""
        assert self._replacement is not None, "no group was written"
        for segment in self._replacement.old:
            segment.is_replaced = True
        self.log.replace_segments(self._replacement.old, self._replacement.new)

    def settle(self) -> list[Segment]:
        """Rename the files; returns the old segments, whose files are to be deleted. Errors:
        KafkaStorageError."""
        assert self._replacement is not None, "no group was installed"
        (old, new), self._replacement = (self._replacement.old, self._replacement.new), None
        try:
            settle(self._files, old, new)
        except DiskFullError as error:  # an unknown part is done; the next start finishes it
            self._files.dir_state.fail(str(error))
            raise KafkaStorageError(str(error)) from error
        return old

    # --- the map ---------------------------------------------------------------------------------------

    def _index_segment(
        self, segment: Segment, start: int, offset_map: OffsetMap, transactions: CleanedTransactions
    ) -> bool:
        """False when the map is full."""
        begin = segment.start_of(start).position if start > segment.base_offset else 0

        def add_run(chunk: memoryview, at: int) -> int:
            end, records = offset_map.add_run(chunk, at, start)
            self.stats.indexed_bytes += end - at
            self.stats.indexed_records += records
            return end

        for batch in self._batches(segment, begin, add_run):
            header = batch.header
            self.stats.indexed_bytes += len(batch.data)
            self.stats.indexed_records += header.record_count
            if header.is_control:
                transactions.can_drop_marker(batch.data, header)
            elif not transactions.can_drop_batch(header):
                if not offset_map.add_batch(batch.data, start):
                    return False
                continue
            if header.last_offset >= start:
                offset_map.advance(header.last_offset)
        return True

    def _drop_snapshots(self, upto_offset: int) -> None:
        """Remove the producer snapshots of offsets that are compacted: the marker of a transaction that was
        open in the snapshot may be removed, and a recovery from the snapshot would miss it. That of the first
        segment stays, because it has producers whose batches were deleted; its transactions have ended below
        the last stable offset. Durable on return."""
        folder, first = self.log.folder, self.log.segments.first_base_offset
        compacted = [each for each in snapshot_offsets(folder) if each < upto_offset]
        if first in compacted:
            end_transactions(folder, first)
        remove_snapshots(folder, [each for each in compacted if each != first])
        folder.sync()

    def _aborted_from(self, start: int) -> list[AbortedTransaction]:
        """Aborted transactions that end at or above `start` and start below the end of the plan."""
        return [each for each in self._aborted if each.last_offset >= start]

    # --- rewriting ---------------------------------------------------------------------------------------

    def _create(self, group: list[Segment]) -> Segment:
        base = group[0].base_offset
        path = f"{self.log.folder.path}/{names.segment_name(base, names.LOG)}{names.CLEANED}"
        file = self._files.open(path, create=True)
        file.truncate(0)
        new = Segment(self._files, self.log.folder.path, base, file, group[-1].created_ms)
        new.ending = names.CLEANED
        return new

    def _rewrite_segment(self, segment: Segment, new: Segment, *, is_last: bool) -> None:
        pieces: list[Buffer] = []
        noted: list[tuple[int, int, BatchHeader, int]] = []
        size = 0
        for batch in self._batches(segment, 0):
            is_end = is_last and batch.position + len(batch.data) == segment.size_bytes
            self.stats.read_bytes += len(batch.data)
            found = self._cleaned(batch, keep_header=is_end or self._begins_epoch(batch.header))
            self._epoch = batch.header.leader_epoch
            if found is None:
                continue
            data, max_timestamp = found
            noted.append((new.size_bytes + size, len(data), batch.header, max_timestamp))
            pieces.append(data)
            size += len(data)
            if size >= self.buffer_bytes:
                self._write(new, pieces, noted, size)
                pieces, noted, size = [], [], 0
        if pieces:
            self._write(new, pieces, noted, size)

    def _write(
        self, new: Segment, pieces: list[Buffer], noted: list[tuple[int, int, BatchHeader, int]], size: int
    ) -> None:
        """Append `pieces`; `noted` has their positions, sizes, original headers and max timestamps."""
        new.file.pwrite(new.size_bytes, pieces)
        interval = self.log.config.index_interval_bytes
        for position, bytes_, header, max_timestamp in noted:
            new.note_batch(position, bytes_, header.base_offset, header.last_offset, max_timestamp, interval)
        self.stats.written_bytes += size
        self.pace.take(size)

    def _cleaned(self, batch: _Batch, *, keep_header: bool) -> tuple[Buffer, int] | None:
        """The compacted batch with its max timestamp, or None; offsets do not change. At least the header
        stays of the last batch of a group or of a producer, and of the first batch of a leader epoch: it
        shows where the segment ends, the last sequence, or the start of the epoch."""
        header, codec = batch.header, active_codec()
        keep_header = keep_header or (header.producer_id >= 0 and self._is_last_of_producer(header))
        is_horizon_due = False
        if header.is_control:
            is_horizon_due = self._transactions.can_drop_marker(batch.data, header)
            horizon_ms = header.delete_horizon_ms
            is_gone = is_horizon_due and horizon_ms is not None and horizon_ms <= self.wall_ms
            is_gone |= header.record_count == 0
        else:
            is_gone = self._transactions.can_drop_batch(header)
        if not is_gone and header.record_count:
            cleaned = codec.clean_batch(
                batch.data,
                self._map,
                now_ms=self.wall_ms,
                delete_retention_ms=self.log.config.delete_retention_ms,
                is_horizon_due=is_horizon_due,
            )
            self.stats.removed_records += cleaned.records_removed
            if cleaned.data is not None:
                is_same = cleaned.data is batch.data
                return cleaned.data, header.max_timestamp if is_same else cleaned.max_timestamp
        elif header.record_count:
            self.stats.removed_records += header.record_count
        if not keep_header:
            return None
        data = codec.empty_batch(header) if header.record_count else batch.data
        return data, header.max_timestamp

    def _begins_epoch(self, header: BatchHeader) -> bool:
        """A replica that copies this log learns its leader epochs from the batches. With fewer epochs, or
        later start offsets, it would report wrong divergence offsets as a leader: followers would truncate
        committed records, or keep uncommitted ones."""
        return header.leader_epoch != self._epoch

    def _is_last_of_producer(self, header: BatchHeader) -> bool:
        """The producer's last data batch; its last marker if it has no data in this epoch. An expired
        producer is not known.

        Source: Kafka Cleaner.java isBatchLastRecordOfProducer.
        """
        epoch, last_offset = self._producers.get(header.producer_id, (NO_PRODUCER_EPOCH, NO_OFFSET))
        if last_offset != NO_OFFSET:
            return header.last_offset == last_offset
        return header.is_control and header.producer_epoch == epoch

    def _finish(self, new: Segment) -> None:
        if self._transactions.kept:
            new.aborted = TransactionIndex(self._transactions.kept)
            self._transactions.kept = []
        new.seal()
        new.file.fdatasync()
        sync_files(self._files, new.unsynced_paths())
        new.synced_bytes = new.size_bytes

    def _undo(self, new: Segment) -> None:
        new.close()
        if self.log.is_offline:
            return
        for ending in (names.SWAP, names.CLEANED):
            new.ending = ending
            for suffix in names.SEGMENT_SUFFIXES:
                if self._files.exists(new.path_of(suffix)):
                    self._files.remove(new.path_of(suffix))

    # --- reading -----------------------------------------------------------------------------------------

    def _batches(
        self, segment: Segment, position: int, take: Callable[[memoryview, int], int] | None = None
    ) -> Iterator[_Batch]:
        """All batches of a segment, one buffer at a time; the codec checks the CRCs. `take` may consume
        batches from an index of the buffer on, and returns where it stopped."""
        end, path = segment.size_bytes, segment.file.path
        chunk, start = memoryview(b""), position
        while position < end:
            if len(chunk) - (position - start) < HEADER_BYTES:
                chunk, start = self._read(segment, position, self.buffer_bytes), position
            taken = start + take(chunk, position - start) if take is not None else position
            if taken > position:
                position = taken
                continue
            header = header_at(chunk, position - start, path=path, position=position)
            size = header.size_bytes
            if position + size <= end and len(chunk) - (position - start) < size:
                chunk, start = self._read(segment, position, max(size, self.buffer_bytes)), position
                if len(chunk) >= size:
                    continue
            if len(chunk) - (position - start) < size:
                raise CorruptMessageError(f"{path} at byte {position}: a batch of {size} bytes is cut short")
            yield _Batch(position, header, chunk[position - start : position - start + size])
            position += size

    def _read(self, segment: Segment, position: int, size: int) -> memoryview:
        self._check()
        data = segment.file.pread(position, min(size, segment.size_bytes - position))
        self.pace.take(len(data))
        return memoryview(data)

    def _check(self) -> None:
        if self._is_aborted:
            raise CleaningAbortedError(f"the compaction of {self.log.topic_partition} was aborted")
