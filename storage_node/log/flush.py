"""One flush of a log: begun by the log's owner, synced on any thread, finished by the owner."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...runtime.files.file_layer import FileGoneError, sync_files, write_file_atomically
from . import names
from .segment_list import retire_oldest_first

if TYPE_CHECKING:
    from ...runtime.files.file_layer import Files
    from .segment import Segment


@dataclass(slots=True)
class Flush:
    """What must reach the disk before the recovery point may become `end_offset`."""

    files: Files
    directory: str
    end_offset: int
    segments: list[tuple[Segment, int]]  # with their sizes when the flush began
    sealed: list[Segment]  # those of them whose index files go along
    has_new_names: bool
    epochs: bytes | None  # what the epoch file is to say, if it changed
    dropped: list[Segment]  # of the log no more, their names are to go

    def sync(self) -> None:
        """Bring it all to the disk. Errors: KafkaStorageError, and the log dir is offline."""
        for segment, _ in self.segments:
            try:
                self._sync_segment(segment)
            except FileGoneError:
                # The cleaner has put another one in its place, which is on the disk already.
                if not segment.is_replaced:
                    raise
        if self.epochs is not None:
            write_file_atomically(self.files, self.directory, names.LEADER_EPOCHS, self.epochs)
        # Order: after the epochs, or what was deleted would pass for a beginning that was lost.
        if self.dropped:
            retire_oldest_first(self.files, self.directory, self.dropped)
        elif self.has_new_names and self.epochs is None:  # else the folder is there already
            self.files.fsync_directory(self.directory)

    def _sync_segment(self, segment: Segment) -> None:
        segment.file.fdatasync()
        if segment in self.sealed:
            sync_files(self.files, segment.unsynced_paths())
