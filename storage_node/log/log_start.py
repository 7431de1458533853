"""Where a log starts, and what lies below: the other end of what `Log` appends to. For the owner's thread."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.errors import OffsetOutOfRangeError
from ...protocol.records.header import read_batch_header
from .batches import crc_fault
from .log_reads import LogReads
from .segment_list import retire_oldest_first

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ...protocol.records.header import Buffer
    from .flush import Flush
    from .segment import Segment


class LogStart(LogReads):
    """What `Log` inherits; the attributes are the log's.

    Invariant: a start that was wanted is in the checkpoint before it becomes the log's and readers see it: no
    crash brings back what it has hidden. It stays there: names of segments may be lost, or come back.
    """

    directory: str
    high_watermark: int
    wanted_start_offset: int
    on_retired: Callable[[LogStart, Sequence[Segment]], None] | None
    _dropped: list[Segment]
    _flush: Flush | None
    _has_new_epochs: bool
    _has_new_names: bool

    @property
    def first_base_offset(self) -> int:
        """Base offset of the oldest segment."""
        return self._segments.first_base_offset

    @property
    def has_dropped(self) -> bool:
        """Whether segments have left the log that no flush has taken the names of."""
        return bool(self._dropped)

    def begins_inside(self, data: Buffer) -> bool:
        """Whether the first batch in `data` is sound and holds the start of this empty log, but begins before
        it: records were deleted up to the middle of a batch. Errors: CorruptMessageError."""
        start = self.log_start_offset
        if self.log_end_offset != start:
            return False
        header = read_batch_header(data)
        batch = memoryview(data)[: header.size_bytes]
        is_inside = header.base_offset < start <= header.last_offset
        return is_inside and len(batch) == header.size_bytes and crc_fault(batch, header) is None

    def want_start(self, offset: int) -> bool:
        """Want the log to start at `offset`: the next checkpoint says it, and then `advance_log_start_offset`
        is due. False if that, or more, is wanted already. Errors: OffsetOutOfRangeError behind the end."""
        if offset > self.log_end_offset:
            raise OffsetOutOfRangeError(f"log start offset {offset} is behind the end {self.log_end_offset}")
        if offset <= self.wanted_start_offset:
            return False
        self.wanted_start_offset = offset
        return True

    def advance_log_start_offset(self, offset: int) -> None:
        """Hide records below `offset` from readers; never moves back. Errors: as `want_start`."""
        self.want_start(offset)
        if offset > self.log_start_offset:
            self.log_start_offset = offset
            self._has_new_epochs |= self._epochs.truncate_from_start(offset)
            if self.tail is not None:
                self.tail.drop_below(offset)

    def drop_segments_below(self, offset: int, limit: int | None = None) -> int:
        """Forget the segments that hold nothing at or above `offset`, never the active one; how many those
        were, at most `limit`. The log then starts with its first segment. The next flush takes their names.
        """
        count = self._segments.count_below(offset)
        count = count if limit is None else min(count, limit)
        if count:
            self._dropped += self._segments.drop_first(count)
            self._has_new_names = True
            self.advance_log_start_offset(self.first_base_offset)
        return count

    def delete_segments_below(self, offset: int) -> int:
        """As `drop_segments_below`, with their names taken away here."""
        assert self._flush is None, "deletion must not overtake a flush"
        count = self.drop_segments_below(offset)
        if self._dropped:
            retire_oldest_first(self._files, self.directory, self._dropped)
            self._dropped, gone = [], self._dropped
            self.hand_over(gone)
        return count

    def hand_over(self, segments: Sequence[Segment]) -> None:
        """The files of segments are left, which are of the log no more and have lost their names."""
        if self.on_retired is not None:
            self.on_retired(self, segments)
        else:
            for segment in segments:
                segment.remove()
