"""How what a log has gets to the disk: flushes, one at a time, and how far the last one came."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...runtime.files.file_layer import DiskFullError
from .checkpoints import format_epochs
from .flush import Flush

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .guarded_files import GuardedFiles
    from .leader_epochs import LeaderEpochs
    from .segment import Segment
    from .segment_list import SegmentList


class LogFlushing:
    """What `Log` inherits; the attributes are the log's. For the owner's thread."""

    directory: str
    recovery_point: int
    _files: GuardedFiles
    _segments: SegmentList
    _epochs: LeaderEpochs
    _flush: Flush | None
    _dropped: list[Segment]
    _has_new_names: bool
    _has_new_epochs: bool

    if TYPE_CHECKING:  # other parts of the log have these

        @property
        def log_end_offset(self) -> int: ...

        def hand_over(self, segments: Sequence[Segment]) -> None: ...

    def start_flush(self) -> Flush | None:
        """What to bring to the disk now, to be synced on any thread; None if all is there or a flush runs."""
        if self._flush is not None:
            return None
        dirty = [segment for segment in self._segments if segment.synced_bytes != segment.size_bytes]
        if not dirty and not self._has_new_names and not self._has_new_epochs:
            self.recovery_point = self.log_end_offset
            return None
        self._flush = Flush(
            files=self._files,
            directory=self.directory,
            end_offset=self.log_end_offset,
            segments=[(segment, segment.size_bytes) for segment in dirty],
            sealed=[segment for segment in dirty if segment.is_sealed],
            has_new_names=self._has_new_names,
            epochs=format_epochs(self._epochs.entries) if self._has_new_epochs else None,
            dropped=self._dropped,
        )
        self._dropped = []
        self._has_new_names = self._has_new_epochs = False
        return self._flush

    def finish_flush(self, flush: Flush) -> None:
        """Move the recovery point after `flush.sync()` has returned."""
        assert flush is self._flush, "one flush at a time, each finished once"
        self._flush = None
        for segment, size in flush.segments:
            # Sealed while the flush ran: its index files were not part of it.
            if segment.is_sealed == (segment in flush.sealed):
                segment.synced_bytes = min(size, segment.size_bytes)
        self.recovery_point = max(self.recovery_point, min(flush.end_offset, self.log_end_offset))
        self.hand_over(flush.dropped)

    def abandon_flush(self) -> None:
        """There was no room for what a flush had to write (DiskFullError): nothing is known to be on the disk
        that was not before, and the next flush does it all again."""
        flush, self._flush = self._flush, None
        assert flush is not None, "only a flush under way"
        self._has_new_names |= flush.has_new_names
        self._has_new_epochs |= flush.epochs is not None
        self._dropped = flush.dropped + self._dropped

    def flush(self) -> None:
        """Bring everything to the disk and move the recovery point to the log end offset."""
        self._files.fuse.check()
        assert self._flush is None, "one flush at a time; finish the one under way"
        flush = self.start_flush()
        if flush is None:
            return
        try:
            flush.sync()
        except DiskFullError:
            self.abandon_flush()
            raise
        self.finish_flush(flush)
