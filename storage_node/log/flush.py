"""Flushes of one log: started and finished on the owner's thread, synced on any thread, one at a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...runtime.files.file_layer import DiskFullError, FileGoneError, sync_files, write_file_atomically
from . import names
from .checkpoints import format_epochs
from .partition_folder import PartitionFolder
from .producer_recovery import secure_snapshot
from .segment_list import retire_oldest_first

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .guarded_files import GuardedFiles
    from .leader_epochs import LeaderEpochs
    from .segment import Segment
    from .segment_list import SegmentList


@dataclass(slots=True)
class Flush:
    """What must be on disk before the recovery point may move to `end_offset`."""

    files: GuardedFiles
    directory: str
    end_offset: int
    segments: list[tuple[Segment, int]]  # with their sizes when the flush started
    sealed: list[Segment]  # those of `segments` whose index files are synced too
    has_unsynced_names: bool
    epochs: bytes | None  # new content of the leader-epoch-checkpoint, if it changed
    dropped: list[Segment]  # no longer in the log; the flush renames their files to `.deleted`

    def sync(self) -> None:
        """Errors: KafkaStorageError, and the log dir is offline; DiskFullError: call `Flusher.abandon`."""
        for segment, _ in self.segments:
            try:
                self._sync_segment(segment)
            except FileGoneError:
                # Compaction has replaced the segment; the new segment is on disk already.
                if not segment.is_replaced:
                    raise
        if self.epochs is not None:
            write_file_atomically(self.files, self.directory, names.LEADER_EPOCHS, self.epochs)
        # Order: after the epochs; otherwise recovery would take deleted segments for lost ones.
        if self.dropped:
            # Order: before their batches are gone, from which it could be rebuilt.
            secure_snapshot(PartitionFolder(self.files, self.directory), self.dropped)
            retire_oldest_first(self.files, self.directory, self.dropped)
        elif self.has_unsynced_names and self.epochs is None:  # writing the epochs has synced the folder
            self.files.fsync_directory(self.directory)

    def _sync_segment(self, segment: Segment) -> None:
        segment.file.fdatasync()
        if segment in self.sealed:
            sync_files(self.files, segment.unsynced_paths())


class Flusher:
    """Knows which parts of a log are not on disk yet.

    Invariant: every batch below `recovery_point` is on disk; recovery_point <= log end offset.
    Invariant: a dropped segment is not in the log; its file names go with the next flush.
    """

    def __init__(
        self, folder: PartitionFolder, segments: SegmentList, epochs: LeaderEpochs, recovery_point: int
    ) -> None:
        self._folder = folder
        self._segments = segments
        self._epochs = epochs
        self.recovery_point = recovery_point
        self.dropped: list[Segment] = []
        self._flush: Flush | None = None

    @property
    def is_running(self) -> bool:
        return self._flush is not None

    @property
    def unretired_segments(self) -> Sequence[Segment]:
        """Dropped segments whose files may still have their names."""
        return self.dropped if self._flush is None else [*self._flush.dropped, *self.dropped]

    def drop(self, segments: list[Segment]) -> None:
        self.dropped += segments
        self._folder.has_unsynced_names = True

    def take_dropped(self) -> list[Segment]:
        """The dropped segments; the caller retires them, in place of the next flush."""
        dropped, self.dropped = self.dropped, []
        return dropped

    def start(self) -> Flush | None:
        """None if everything is on disk or a flush is running."""
        if self._flush is not None:
            return None
        folder, end_offset = self._folder, self._segments.active.next_offset
        dirty = [segment for segment in self._segments if segment.synced_bytes != segment.size_bytes]
        if not dirty and not folder.has_unsynced_names and not self._epochs.is_unsaved:
            self.recovery_point = end_offset
            return None
        self._flush = Flush(
            files=folder.files,
            directory=folder.path,
            end_offset=end_offset,
            segments=[(segment, segment.size_bytes) for segment in dirty],
            sealed=[segment for segment in dirty if segment.is_sealed],
            has_unsynced_names=folder.has_unsynced_names,
            epochs=format_epochs(self._epochs.entries) if self._epochs.is_unsaved else None,
            dropped=self.take_dropped(),
        )
        folder.has_unsynced_names = self._epochs.is_unsaved = False
        return self._flush

    def finish(self, flush: Flush) -> list[Segment]:
        """Move the recovery point after `flush.sync()` has returned; returns the retired segments."""
        assert flush is self._flush, "one flush at a time, each finished once"
        self._flush = None
        for segment, size in flush.segments:
            # A segment that was sealed during the flush: its index files were not part of the flush.
            if segment.is_sealed == (segment in flush.sealed):
                segment.synced_bytes = min(size, segment.size_bytes)
        end_offset = min(flush.end_offset, self._segments.active.next_offset)
        self.recovery_point = max(self.recovery_point, end_offset)
        return flush.dropped

    def flush(self) -> list[Segment]:
        assert not self.is_running, "one flush at a time; finish the running one"
        flush = self.start()
        if flush is None:
            return []
        try:
            flush.sync()
        except DiskFullError:
            self.abandon()
            raise
        return self.finish(flush)

    def abandon(self) -> None:
        """The flush failed with DiskFullError: the next flush includes all of it."""
        flush, self._flush = self._flush, None
        assert flush is not None, "no flush is running"
        self._folder.has_unsynced_names |= flush.has_unsynced_names
        self._epochs.is_unsaved |= flush.epochs is not None
        self.dropped = flush.dropped + self.dropped

    def truncated(self) -> None:
        self.recovery_point = min(self.recovery_point, self._segments.active.next_offset)

    def check(self) -> None:
        assert self.recovery_point <= self._segments.active.next_offset, "flushed beyond the log end"
        kept = list(self._segments)
        assert not any(segment in kept for segment in self.unretired_segments), "a dropped segment is in use"
