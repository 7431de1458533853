"""The read half of a log: from memory, from the page cache, or from the disk.

`read`, `read_one_run`, `bytes_between` and the lookups by time may be called on any thread; the methods that
never wait for the disk (`read_cached`, `bytes_about`, the aborted transactions) only on the owner's thread.
"""

from __future__ import annotations

import struct
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from ...protocol.errors import CorruptMessageError, OffsetOutOfRangeError
from ...protocol.records.header import LENGTH_END, read_batch_header
from ...runtime.files.file_layer import NotCachedError
from .lending import Lendings, LentRun, lend_run
from .reads import IndexMismatchError, Run, read_run
from .time_lookup import first_at_or_after, first_with_largest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...protocol.records.header import Buffer
    from .compaction_state import CompactionState
    from .leader_epochs import LeaderEpochs
    from .lending import Part, Unlent
    from .log_start import LogStart
    from .partition_folder import PartitionFolder
    from .segment import Segment
    from .segment_list import SegmentList
    from .tail_cache import Tail

_LENGTH = struct.Struct(">i")
_LENGTH_POSITION = 8


class ReadInfo(NamedTuple):
    """Whole batches, one buffer per segment; `next_offset` follows the last batch."""

    data: list[Buffer]
    next_offset: int


class CachedRead(NamedTuple):
    """Whole batches in one or more parts; `run` if they were read from a file."""

    data: list[Part]
    next_offset: int
    run: Run | None = None


class LogReader:
    """Reads [log start offset, log end offset) of one log.

    Invariant: `tail` holds the newest batches up to the log end offset, or nothing.
    """

    def __init__(
        self,
        folder: PartitionFolder,
        segments: SegmentList,
        epochs: LeaderEpochs,
        start: LogStart,
        compaction: CompactionState,
    ) -> None:
        self._folder = folder
        self._dir_state = folder.files.dir_state
        self._segments = segments
        self._epochs = epochs
        self._start = start
        self._compaction = compaction
        self.index_interval_bytes = 0
        self.tail: Tail | None = None  # set by the replica manager: caches the newest batches in memory
        self.lendings = Lendings()
        # Truncations and compactions so far. A read that began before one may have batches that the log does
        # not have any more.
        self.invalidations = 0

    def read(self, offset: int, max_bytes: int, *, upto_offset: int, min_one: bool = True) -> ReadInfo:
        """Whole batches from the one with `offset` on, below `upto_offset`, of about `max_bytes`.

        With `min_one` the first batch is read however large it is; it may start before `offset`.
        Errors: OffsetOutOfRange; CorruptMessage when a stored batch is damaged; KafkaStorageError.
        """
        end_offset = self._segments.active.next_offset
        if not self._start.offset <= offset <= end_offset:
            raise OffsetOutOfRangeError(
                f"{self._folder.path}: offset {offset} is outside [{self._start.offset}, {end_offset}]"
            )
        upto_offset = min(upto_offset, end_offset)
        data: list[Buffer] = []
        while offset < upto_offset and (max_bytes > 0 or (min_one and not data)):
            segment = self._segments.holding(offset)
            run = self._read_run(segment, offset, max_bytes, upto_offset, min_one=min_one and not data)
            if not len(run.data):
                if self._is_in_gap_after(segment, offset):
                    offset = segment.next_offset
                    continue
                break
            data.append(run.data)
            max_bytes -= len(run.data)
            offset = run.next_offset
        return ReadInfo(data, offset)

    def read_cached(
        self,
        offset: int,
        max_bytes: int,
        *,
        upto_offset: int,
        min_one: bool = True,
        file_bytes: int | None = None,
        lend_except: Unlent | None = None,
    ) -> CachedRead | None:
        """As `read`, from one segment and never waiting for the disk; None if the disk is needed. At most
        `file_bytes` are read from a file. A caller that can send a LentRun passes `lend_except`: the bytes
        that must be read instead.

        Order: the caller has checked that the log holds `offset`. Never rebuilds an index.
        CRCs of batches from a file are not checked. Errors: CorruptMessage, KafkaStorageError.
        """
        self._dir_state.check()
        upto_offset = min(upto_offset, self._segments.active.next_offset)
        if self.tail is not None:
            newest = self.tail.read(offset, max_bytes, upto_offset, min_one=min_one)
            if newest is not None:
                return CachedRead([*newest.data], newest.next_offset)
        if lend_except is not None:
            lent = self._lend(offset, max_bytes, upto_offset, lend_except)
            if lent is not None:
                return CachedRead([lent], lent.next_offset)
        if file_bytes is not None:
            max_bytes = min(max_bytes, file_bytes)
        if max_bytes <= 0 and not min_one:
            return CachedRead([], offset)
        return self._read_pages(offset, max_bytes, upto_offset, min_one=min_one)

    def _read_pages(
        self, offset: int, max_bytes: int, upto_offset: int, *, min_one: bool
    ) -> CachedRead | None:
        segment, has_gaps = self._segments.holding(offset), self._compaction.has_gaps
        try:
            run = read_run(
                segment,
                self._epochs,
                offset,
                max_bytes,
                upto_offset,
                min_one=min_one,
                cached_only=True,
                has_gaps=has_gaps,
            )
        except (NotCachedError, IndexMismatchError):
            return None
        except CorruptMessageError:
            if segment.run_ends.find(offset) is None:
                raise
            # The end of the previous run came from a header that may be damaged: read on a thread, with CRCs.
            segment.run_ends.forget(offset)
            return None
        if not len(run.data):
            # A batch was due: a thread checks whether the segment has lost it. In a log with gaps no batch
            # is due if the first one after the gap reaches the limit.
            is_due = min_one and offset < upto_offset
            is_due &= not has_gaps or run.position >= segment.size_bytes
            return None if is_due else CachedRead([], offset)
        segment.run_ends.note(run.next_offset, run.position + len(run.data))
        return CachedRead([run.data], run.next_offset, run)

    def read_one_run(self, offset: int, max_bytes: int, *, upto_offset: int, ahead_bytes: int = 0) -> Run:
        """As `read` with `min_one`, from one segment, with the position of the batches. The kernel is advised
        to read `ahead_bytes` more, without waiting for them.

        Errors: as `read`; CorruptMessageError also when `offset` is below `upto_offset` and missing.
        """
        segment = self._segments.holding(offset)
        if ahead_bytes:
            # Order: before the read, so that the disk can work on all of it.
            segment.file.will_need(segment.start_of(offset).position, max_bytes + ahead_bytes)
        run = self._read_run(segment, offset, max_bytes, upto_offset, min_one=True)
        while not len(run.data) and self._is_in_gap_after(segment, offset):
            offset = segment.next_offset
            segment = self._segments.holding(offset)
            run = self._read_run(segment, offset, max_bytes, upto_offset, min_one=True)
        return run

    def bytes_about(self, offset: int, upto_offset: int) -> int:
        """As `bytes_between`, without waiting for the disk: an upper estimate, at least 1 if there is a
        batch."""
        return self._segments.bytes_about(offset, min(upto_offset, self._segments.active.next_offset))

    def bytes_between(self, offset: int, upto_offset: int) -> int:
        """Bytes of the batches from the one with `offset` to the one before `upto_offset`."""
        return self._segments.bytes_between(offset, min(upto_offset, self._segments.active.next_offset))

    def offset_for_timestamp(self, timestamp_ms: int) -> tuple[int, int, int] | None:
        """(offset, timestamp, leader epoch) of the first record at or after the timestamp, or None."""
        try:
            return first_at_or_after(list(self._segments), timestamp_ms, self._start.offset)
        finally:
            self._segments.release_unused()

    def max_timestamp_offset(self) -> tuple[int, int, int] | None:
        """(offset, timestamp, leader epoch) of the first record with the largest timestamp, or None."""
        try:
            return first_with_largest(list(self._segments), self._start.offset)
        finally:
            self._segments.release_unused()

    # --- aborted transactions -------------------------------------------------------------------------

    def aborted_between(self, offset: int, upto_offset: int) -> tuple[tuple[int, int], ...]:
        """(producer id, first offset) of the aborted transactions with records in the range, ordered by last
        offset. The range must lie below the last stable offset."""
        found: list[tuple[int, int]] = []
        for segment in self._segments.from_offset(offset):
            if segment.aborted is not None and segment.aborted.collect(offset, upto_offset, found):
                break
        return tuple(found)

    def aborted_in(self, offset: int, data: Sequence[Part]) -> tuple[tuple[int, int], ...]:
        """As `aborted_between`, for the batches in `data`, which were read from `offset` on."""
        if all(segment.aborted is None for segment in self._segments.from_offset(offset)):
            return ()
        last = data[-1]
        end = last.next_offset if isinstance(last, LentRun) else _end_of(last)
        return self.aborted_between(offset, end)

    # --- changes of the log ---------------------------------------------------------------------------

    def drop_below(self, offset: int) -> None:
        if self.tail is not None:
            self.tail.drop_below(offset)

    def invalidate(self) -> None:
        """Order: before the log is truncated, so that removed batches are neither read from memory nor sent
        from a file after that."""
        self.invalidations += 1
        self.lendings.revoke_all()
        if self.tail is not None:
            self.tail.clear()

    def replaced_below(self, offset: int) -> None:
        """Segments below `offset` were compacted. An earlier read must not be used: the aborted transactions
        in it may have left the transaction index."""
        self.invalidations += 1
        self.drop_below(offset)

    def drop_tail(self) -> None:
        tail, self.tail = self.tail, None
        if tail is not None:
            tail.clear()

    def check(self) -> None:
        assert self._segments.first_base_offset <= self._start.offset, "readers see what the log has lost"
        end_offset = self._segments.active.next_offset
        is_whole = self.tail is None or self.tail.end_offset in (None, end_offset)
        assert is_whole, "the tail cache does not reach the log end"

    # --- inside ---------------------------------------------------------------------------------------

    def _lend(self, offset: int, max_bytes: int, upto_offset: int, unlent: Unlent) -> LentRun | None:
        segment = self._segments.holding(offset)
        lent = lend_run(segment, self._epochs, offset, max_bytes, upto_offset, unlent)
        if lent is not None:
            self.lendings.add(lent)
        return lent

    def _read_run(
        self, segment: Segment, offset: int, max_bytes: int, upto_offset: int, *, min_one: bool
    ) -> Run:
        """As reads.read_run; an index that does not match the batches is rebuilt from them once."""
        has_gaps = self._compaction.has_gaps
        read = partial(
            read_run,
            segment,
            self._epochs,
            offset,
            max_bytes,
            upto_offset,
            min_one=min_one,
            has_gaps=has_gaps,
        )
        try:
            return read()
        except IndexMismatchError:
            segment.rebuild_indexes(self.index_interval_bytes, has_gaps=has_gaps)
            return read()

    def _is_in_gap_after(self, segment: Segment, offset: int) -> bool:
        """Whether `offset` lies in a gap between the last batch of a sealed segment and the next segment,
        which Kafka's cleaner may leave. Errors: CorruptMessageError if the log has no gaps: the batch is
        lost."""
        is_behind = (
            segment.is_sealed
            and offset < segment.next_offset
            and segment.position_of(offset) >= segment.size_bytes
        )
        if is_behind and not self._compaction.has_gaps:
            raise CorruptMessageError(f"{segment.file.path}: offset {offset} is missing")
        return is_behind


def _end_of(data: Buffer) -> int:
    """The offset after the whole batches in `data`."""
    position = last = 0
    while position < len(data):
        last = position
        position += LENGTH_END + _LENGTH.unpack_from(data, position + _LENGTH_POSITION)[0]
    return read_batch_header(data, last).next_offset
