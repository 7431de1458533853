"""The read half of a log: from memory, from the page cache, or from wherever it is.

Any thread may call `read`, `read_one_run`, `bytes_between` and the lookups by time; what says that it never
waits for a disk belongs to the owner's thread.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from ...protocol.errors import CorruptMessageError, OffsetOutOfRangeError
from ...runtime.files.file_layer import NotCachedError
from .lending import lend_run
from .reads import IndexMismatchError, Run, read_run
from .time_lookup import first_at_or_after, first_with_largest

if TYPE_CHECKING:
    from ...protocol.model import TopicPartition
    from ...protocol.records.header import Buffer
    from .config import LogConfig
    from .guarded_files import GuardedFiles
    from .leader_epochs import LeaderEpochs
    from .lending import Lendings, LentRun, Part, Unlent
    from .segment import Segment
    from .segment_list import SegmentList
    from .tail_cache import Tail


class ReadInfo(NamedTuple):
    """Whole batches, in one buffer per segment touched; `next_offset` follows the last of them."""

    data: list[Buffer]
    next_offset: int


class CachedRead(NamedTuple):
    """What was found in memory: whole batches in one or more parts, and `run` if a file was read."""

    data: list[Part]
    next_offset: int
    run: Run | None = None


class LogReads:
    """What `Log` inherits; the attributes are the log's."""

    topic_partition: TopicPartition
    config: LogConfig
    log_start_offset: int
    tail: Tail | None
    has_gaps: bool
    lendings: Lendings
    _files: GuardedFiles
    _segments: SegmentList
    _epochs: LeaderEpochs

    @property
    def log_end_offset(self) -> int:
        """The next offset to be written."""
        return self._segments.active.next_offset

    def read(self, offset: int, max_bytes: int, *, upto_offset: int, min_one: bool = True) -> ReadInfo:
        """Whole batches from the one that holds `offset` on, below `upto_offset`, of about `max_bytes`.

        With `min_one` the first batch comes however large it is; it may start before `offset`.
        Errors: OffsetOutOfRange; CorruptMessage when a stored batch is damaged; KafkaStorageError.
        """
        end_offset = self.log_end_offset
        if not self.log_start_offset <= offset <= end_offset:
            raise OffsetOutOfRangeError(
                f"{self.topic_partition}: offset {offset} is outside [{self.log_start_offset}, {end_offset}]"
            )
        upto_offset = min(upto_offset, end_offset)
        data: list[Buffer] = []
        while offset < upto_offset and (max_bytes > 0 or (min_one and not data)):
            segment = self._segments.holding(offset)
            run = self._read_run(segment, offset, max_bytes, upto_offset, min_one=min_one and not data)
            if not len(run.data):
                if self._is_behind_all_of(segment, offset):
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
        """As `read`, from one segment and without waiting for the disk; None if it must be waited for. Of a
        file at most `file_bytes` are read. Whoever can send a LentRun gives `lend_except`: what it
        does not want so.

        Order: the caller has checked that the log holds `offset`. Never rebuilds an index.
        What comes from a file has its CRCs not checked. Errors: CorruptMessage, KafkaStorageError.
        """
        self._files.fuse.check()
        upto_offset = min(upto_offset, self.log_end_offset)
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
        """`read_cached` from the page cache."""
        segment = self._segments.holding(offset)
        try:
            run = read_run(
                segment,
                self._epochs,
                offset,
                max_bytes,
                upto_offset,
                min_one=min_one,
                cached_only=True,
                has_gaps=self.has_gaps,
            )
        except (NotCachedError, IndexMismatchError):
            return None
        except CorruptMessageError:
            if segment.run_ends.find(offset) is None:
                raise
            # where a run ended was known from a header that may be damaged itself: a thread looks closely
            segment.run_ends.forget(offset)
            return None
        if not len(run.data):
            # Nothing where one batch was due: a thread may look whether the segment lost it. Not so where the
            # next batch behind a gap reaches the limit.
            is_due = min_one and offset < upto_offset
            is_due &= not self.has_gaps or run.position >= segment.size_bytes
            return None if is_due else CachedRead([], offset)
        segment.run_ends.note(run.next_offset, run.position + len(run.data))
        return CachedRead([run.data], run.next_offset, run)

    def read_one_run(self, offset: int, max_bytes: int, *, upto_offset: int, ahead_bytes: int = 0) -> Run:
        """As `read` with `min_one`, from one segment, and where in it the batches lie. Any thread. The disk
        is asked for `ahead_bytes` more, which are not waited for.

        Errors: as `read`; CorruptMessageError also when `offset` is below `upto_offset` and not there.
        """
        segment = self._segments.holding(offset)
        if ahead_bytes:
            # Order: before the read, so that the disk has all of it to work on.
            segment.file.will_need(segment.start_of(offset).position, max_bytes + ahead_bytes)
        run = self._read_run(segment, offset, max_bytes, upto_offset, min_one=True)
        while not len(run.data) and self._is_behind_all_of(segment, offset):
            offset = segment.next_offset
            segment = self._segments.holding(offset)
            run = self._read_run(segment, offset, max_bytes, upto_offset, min_one=True)
        return run

    def bytes_about(self, offset: int, upto_offset: int) -> int:
        """As `bytes_between`, without waiting for a disk, and rather too many; at least 1 if there is one."""
        return self._segments.bytes_about(offset, min(upto_offset, self.log_end_offset))

    def bytes_between(self, offset: int, upto_offset: int) -> int:
        """Bytes of the batches from the one that holds `offset` to the one before `upto_offset`."""
        return self._segments.bytes_between(offset, min(upto_offset, self.log_end_offset))

    def offset_for_timestamp(self, timestamp_ms: int) -> tuple[int, int, int] | None:
        """(offset, timestamp, leader epoch) of the first record at or after the time, or None."""
        try:
            return first_at_or_after(list(self._segments), timestamp_ms, self.log_start_offset)
        finally:
            self._segments.release_unused()

    def max_timestamp_offset(self) -> tuple[int, int, int] | None:
        """(offset, timestamp, leader epoch) of the first record with the largest timestamp, or None."""
        try:
            return first_with_largest(list(self._segments), self.log_start_offset)
        finally:
            self._segments.release_unused()

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """(epoch, exclusive end offset) of the largest epoch at or below `epoch`; (-1, -1) if unknown."""
        return self._epochs.end_offset_for(epoch, self.log_end_offset)

    def epoch_of(self, offset: int) -> int:
        """The epoch that wrote `offset`, -1 if that is not known."""
        return self._epochs.epoch_of(offset)

    # --- inside -------------------------------------------------------------------------------------

    def _lend(self, offset: int, max_bytes: int, upto_offset: int, unlent: Unlent) -> LentRun | None:
        segment = self._segments.holding(offset)
        lent = lend_run(segment, self._epochs, offset, max_bytes, upto_offset, unlent)
        if lent is not None:
            self.lendings.add(lent)
        return lent

    def _read_run(
        self, segment: Segment, offset: int, max_bytes: int, upto_offset: int, *, min_one: bool
    ) -> Run:
        """As reads.read_run; an index that does not fit the batches is rebuilt from them once."""
        has_gaps = self.has_gaps
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
            segment.rebuild_indexes(self.config.index_interval_bytes, has_gaps=has_gaps)
            return read()

    def _is_behind_all_of(self, segment: Segment, offset: int) -> bool:
        """Whether the offset lies in a gap between a sealed segment and the next one, which another server's
        cleaner may leave. Errors: CorruptMessageError if the log has no gaps: the segment has lost it."""
        is_behind = (
            segment.is_sealed
            and offset < segment.next_offset
            and segment.position_of(offset) >= segment.size_bytes
        )
        if is_behind and not self.has_gaps:
            raise CorruptMessageError(f"{segment.file.path}: offset {offset} is missing")
        return is_behind
