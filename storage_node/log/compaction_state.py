"""How far a log is compacted, and whether it has offset gaps.

Compaction leaves gaps between offsets, and so gives up the simplest proof that no record is lost. Three
invariants stay: segments are dense, because a compacted segment keeps its last batch, if only the header;
there are gaps within segments only in a log that is marked, by a file in its folder that is on disk before
the first gap; and the batches tell where each leader epoch began, because the first batch of an epoch stays,
if only the header. Source: Kafka LogCleanerManager.java.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from . import names

if TYPE_CHECKING:
    from .partition_folder import PartitionFolder
    from .recovery import Recovered


class Abortable(Protocol):
    """A compaction that is running."""

    def abort(self) -> None:
        """End soon; may be called on any thread."""


class CompactionState:
    """Invariant: `has_gaps` is True if the log is marked; cleaner_offset <= log end offset."""

    def __init__(self, folder: PartitionFolder, recovered: Recovered, *, is_compacted: bool) -> None:
        self._folder = folder
        self._is_marked = recovered.has_gaps
        self.has_gaps = recovered.has_gaps or is_compacted  # offsets may be missing between batches
        self.cleaner_offset = recovered.cleaner_offset  # below it the log is compacted; None: never compacted
        self.running: Abortable | None = None  # while set, only `Log.replace_segments` may remove segments

    def reconfigure(self, *, is_compacted: bool) -> None:
        self.has_gaps = self._is_marked or is_compacted

    def mark_gaps(self) -> None:
        """Mark the log as having gaps; on disk on return. Errors: KafkaStorageError."""
        if not self._is_marked:
            self._folder.files.open(self._folder.file(names.OFFSET_GAPS), create=True).close()
            self._folder.sync()
            self._is_marked = self.has_gaps = True

    def abort(self) -> bool:
        """Abort the running compaction; whether there is one. It ends later, when `running` becomes None."""
        if self.running is not None:
            self.running.abort()
        return self.running is not None

    def truncated(self, end_offset: int) -> None:
        if self.cleaner_offset is not None:
            self.cleaner_offset = min(self.cleaner_offset, end_offset)

    def check(self, end_offset: int) -> None:
        assert self.has_gaps or not self._is_marked, "a marked log is read as dense"
        assert self.cleaner_offset is None or self.cleaner_offset <= end_offset, (
            "compacted beyond the log end"
        )
