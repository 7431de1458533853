"""What compaction needs of a log, beside reading it: its gaps, how far it is clean, other segments for some.

Compaction leaves gaps between offsets, and so gives up the simplest proof that nothing is lost. Three laws
stay: segments are dense, because a cleaned one keeps its last batch, if only the header; within segments
there are gaps only in a log that is marked, by a file in its folder that is on the disk before the first gap;
and the batches tell where each leader epoch began, because its first one stays, if only the header.

Source: Kafka UnifiedLog.java replaceSegments; LogCleanerManager.java.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from . import names

if TYPE_CHECKING:
    from .guarded_files import GuardedFiles
    from .segment import Segment
    from .segment_list import SegmentList
    from .tail_cache import Tail


class Abortable(Protocol):
    """A cleaning under way."""

    def abort(self) -> None:
        """End soon; any thread."""


class LogCleaning:
    """What `Log` inherits; the attributes are the log's."""

    directory: str
    has_gaps: bool  # offsets may be missing between batches
    cleaner_offset: int | None  # compacted below it, as far as it could be; None: never
    cleaning: Abortable | None  # while set, no segment may go but through `replace_segments`
    tail: Tail | None
    cuts: int
    _files: GuardedFiles
    _segments: SegmentList
    _is_marked: bool

    @property
    def files(self) -> GuardedFiles:
        """The disk that the log lies on."""
        return self._files

    @property
    def segments(self) -> list[Segment]:
        """All segments, oldest first."""
        return list(self._segments)

    @property
    def sealed_segments(self) -> list[Segment]:
        """The segments that grow no more, oldest first."""
        return list(self._segments)[:-1]

    def note_gaps(self) -> None:
        """Mark the log, if it is not yet; on the disk when this returns. Errors: KafkaStorageError."""
        if not self._is_marked:
            self._files.open(f"{self.directory}/{names.OFFSET_GAPS}", create=True).close()
            self._files.fsync_directory(self.directory)
            self._is_marked = self.has_gaps = True

    def stop_cleaning(self) -> bool:
        """Have a cleaning that is under way end soon, and the next one wait; whether there is one."""
        if self.cleaning is not None:
            self.cleaning.abort()
        return self.cleaning is not None

    def replace_segments(self, old: list[Segment], new: Segment) -> None:
        """Serve `new` in place of `old` from now on; readers that hold an old one end normally. What was read
        before is not to be shown later: the aborted transactions in it may not be named any more."""
        self.cuts += 1
        assert self._segments.replace_some(old, new), "a segment went while it was cleaned"
        if self.tail is not None:
            self.tail.drop_below(new.next_offset)  # what it has of them is as it was

    def forget_cleaned(self, end_offset: int) -> None:
        """Nothing from `end_offset` on is clean: it is new."""
        if self.cleaner_offset is not None:
            self.cleaner_offset = min(self.cleaner_offset, end_offset)
