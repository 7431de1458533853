"""The segments of one log in their folder: find by offset, roll, truncate, drop.

Readers on other threads see the lists grow while they look, or both replaced at once, never half changed.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import pairwise
from typing import TYPE_CHECKING

from ...runtime.files.file_layer import DiskFullError
from .segment import Segment

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ...runtime.files.file_layer import Files
    from .partition_folder import PartitionFolder

# Bound: sealed segments per log whose indexes stay in memory, for one or two readers that catch up.
_LOADED_SEALED_SEGMENTS = 4


class SegmentList:
    """Invariant: there is at least one segment; all but the last are sealed; each starts where the previous
    one ends."""

    __slots__ = ("_folder", "_lists", "_loaded", "active")

    def __init__(self, folder: PartitionFolder, segments: list[Segment]) -> None:
        self._folder = folder
        self._loaded: list[Segment] = []  # sealed segments whose indexes are in memory, last used last
        self.active = segments[-1]
        self._replace(segments)

    @property
    def _bases(self) -> list[int]:
        return self._lists[0]

    @property
    def _segments(self) -> list[Segment]:
        return self._lists[1]

    def __len__(self) -> int:
        return len(self._segments)

    def __iter__(self) -> Iterator[Segment]:
        return iter(self._segments)

    def __getitem__(self, number: int) -> Segment:
        return self._segments[number]

    @property
    def first_base_offset(self) -> int:
        return self._bases[0]

    @property
    def size_bytes(self) -> int:
        return sum(segment.size_bytes for segment in self._segments)

    @property
    def sealed(self) -> list[Segment]:
        return self._segments[:-1]

    def roll(self, wall_ms: int, *, preallocate_bytes: int = 0) -> None:
        """Seal the active segment and create a new one. Errors: DiskFullError, and the active one stays."""
        active, folder = self.active, self._folder
        active.seal()
        folder.has_unsynced_names = True
        try:
            segment = Segment.create(
                folder.files,
                folder.path,
                active.next_offset,
                created_ms=wall_ms,
                preallocate_bytes=preallocate_bytes,
            )
        except DiskFullError:
            active.reopen()
            raise
        self._note_used(active)
        # Order: a reader that finds the base offset must find the segment.
        self._segments.append(segment)
        self._bases.append(segment.base_offset)
        self.active = segment

    def holding(self, offset: int) -> Segment:
        """The segment with `offset`; the first or the last one for an offset outside the log."""
        bases, segments = self._lists
        segment = segments[_number_at(bases, offset)]
        if segment.is_sealed:
            self._note_used(segment)
        return segment

    def from_offset(self, offset: int) -> list[Segment]:
        bases, segments = self._lists
        return segments[_number_at(bases, offset) :]

    def count_below(self, offset: int) -> int:
        """The number of segments wholly below `offset`, the active one not counted."""
        return _number_at(self._bases, offset)

    def bytes_between(self, offset: int, upto_offset: int) -> int:
        """Bytes from the batch with `offset` to the one with `upto_offset`, exclusive."""
        if offset >= upto_offset:
            return 0
        bases, segments = self._lists
        first, last = _number_at(bases, offset), _number_at(bases, upto_offset - 1)
        whole = sum(segment.size_bytes for segment in segments[first:last])
        return whole + segments[last].position_of(upto_offset) - segments[first].position_of(offset)

    def bytes_about(self, offset: int, upto_offset: int) -> int:
        """As `bytes_between`, without reading a file: exact among the newest batches; otherwise too high by
        at most an index interval, or a sealed segment whose index is not in memory."""
        if offset >= upto_offset:
            return 0
        bases, segments = self._lists
        first, last = _number_at(bases, offset), _number_at(bases, upto_offset - 1)
        whole = sum(segment.size_bytes for segment in segments[first:last])
        size = whole + segments[last].position_near(upto_offset) - segments[first].position_near(offset)
        return max(size, 1)

    def drop_first(self, count: int) -> list[Segment]:
        """Drop the oldest segments; returns them, oldest first. The active segment must stay."""
        assert count < len(self._segments), "the active segment stays"
        dropped, kept = self._segments[:count], self._segments[count:]
        self._replace(kept)
        return dropped

    def truncate_to(self, offset: int) -> list[Segment]:
        """Remove the segments that start at or above `offset`, and rename their files to `.deleted`; returns
        them. The folder is synced."""
        keep = self.count_below(offset - 1) + 1
        kept, removed = self._segments[:keep], self._segments[keep:]
        self._replace(kept)
        self._folder.has_unsynced_names = True
        retire_newest_first(self._folder.files, self._folder.path, removed)
        return removed

    def restart(self, offset: int, dropped: list[Segment]) -> list[Segment]:
        """Replace all segments by a new one at `offset`; returns the old ones, renamed to `.deleted`, after
        the earlier `dropped` ones."""
        folder = self._folder
        # Order: no file that is removed later may have the name of the new segment.
        removed = [*dropped, *self._segments]
        retire_newest_first(folder.files, folder.path, removed)
        self._replace([Segment.create(folder.files, folder.path, offset, created_ms=0)])
        folder.has_unsynced_names = True
        return removed

    def replace_some(self, old: list[Segment], new: Segment) -> bool:
        """Put `new` in the place of adjacent sealed segments; False if they have left the log."""
        segments = self._segments
        first = next((number for number, segment in enumerate(segments) if segment is old[0]), -1)
        behind = first + len(old)
        if first < 0 or behind >= len(segments) or segments[first:behind] != old:
            return False
        assert (new.base_offset, new.next_offset) == (old[0].base_offset, old[-1].next_offset)
        self._replace([*segments[:first], new, *segments[behind:]])
        return True

    def release_unused(self) -> None:
        """Release the indexes that lookups by time have loaded; any thread."""
        used = self._loaded
        for segment in list(self._segments):
            if segment.is_sealed and segment not in used:
                segment.release_indexes()

    def check(self) -> None:
        bases, segments = self._lists
        assert bases == [segment.base_offset for segment in segments], "base offsets of other segments"
        assert self.active is segments[-1], "the active segment is not the last one"
        for segment, following in pairwise(segments):
            assert segment.is_sealed, "a segment before the active one is not sealed"
            assert segment.next_offset == following.base_offset, "segments are not dense"

    def _replace(self, segments: list[Segment]) -> None:
        assert segments, "a log has at least one segment"
        self._loaded = []
        # Order: one store replaces both lists, because a reader with the base offsets of one and the segments
        # of the other would look into a wrong segment, or behind the end of the list.
        self._lists = ([segment.base_offset for segment in segments], segments)
        self.active = segments[-1]

    def _note_used(self, segment: Segment) -> None:
        """Keep the indexes of a sealed segment in memory; the least recently used one releases its own."""
        loaded = [other for other in self._loaded if other is not segment]
        if len(loaded) >= _LOADED_SEALED_SEGMENTS:
            oldest = loaded.pop(0)
            if oldest.is_sealed:
                oldest.release_indexes()
        self._loaded = [*loaded, segment]


def _number_at(bases: list[int], offset: int) -> int:
    """The index of the segment with `offset`; the first or the last one for an offset outside the log."""
    return max(bisect_right(bases, offset) - 1, 0)


def retire_newest_first(files: Files, directory: str, segments: list[Segment]) -> None:
    """Rename the files of segments at the end of the log: a crash in between leaves a shorter log."""
    for segment in reversed(segments):
        segment.retire()
    files.fsync_directory(directory)


def retire_oldest_first(files: Files, directory: str, segments: list[Segment]) -> None:
    """Rename the files of segments at the start of the log: a crash in between leaves a dense log that starts
    later."""
    for segment in segments:
        segment.retire()
    files.fsync_directory(directory)
