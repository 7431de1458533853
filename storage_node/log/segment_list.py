"""The segments of one log in order of their base offsets, and which of them keep their indexes in memory.

Invariant: there is at least one segment; all but the last are sealed; each starts where the one before ends.
Readers on other threads see the lists grow while they look, or both replaced at once, never half changed.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ...runtime.files.file_layer import Files
    from .segment import Segment

# Bound: sealed segments per log whose indexes stay in memory: a reader or two that catch up.
_LOADED_SEALED_SEGMENTS = 4


class SegmentList:
    """Find segments by offset; add, cut off and remove them."""

    __slots__ = ("_lists", "_loaded", "active")

    def __init__(self, segments: list[Segment]) -> None:
        assert segments, "a log has at least one segment"
        # Order: one store replaces both, because a reader with the bases of one and the segments of the other
        # would look into a wrong segment, or behind the end of the list.
        self._lists = ([segment.base_offset for segment in segments], segments)
        self._loaded: list[Segment] = []
        self.active = segments[-1]

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

    @property
    def first_base_offset(self) -> int:
        """Base offset of the oldest segment."""
        return self._bases[0]

    @property
    def size_bytes(self) -> int:
        """Bytes of all batches."""
        return sum(segment.size_bytes for segment in self._segments)

    def append(self, segment: Segment) -> None:
        """Make `segment` the active one; the one before must be sealed."""
        assert self.active.is_sealed, "an unsealed segment would be left behind"
        self._note_used(self.active)
        # Order: a reader that finds the base offset must find the segment.
        self._segments.append(segment)
        self._bases.append(segment.base_offset)
        self.active = segment

    def holding(self, offset: int) -> Segment:
        """The segment whose range has `offset`; the first or last one for offsets outside of all."""
        bases, segments = self._lists
        segment = segments[_number_at(bases, offset)]
        if segment.is_sealed:
            self._note_used(segment)
        return segment

    def from_offset(self, offset: int) -> list[Segment]:
        """Those from the segment on that `holding` gives."""
        bases, segments = self._lists
        return segments[_number_at(bases, offset) :]

    def count_below(self, offset: int) -> int:
        """How many segments lie wholly below `offset`, never counting the active one."""
        return _number_at(self._bases, offset)

    def bytes_between(self, offset: int, upto_offset: int) -> int:
        """Bytes from the batch that holds `offset` to the one that holds `upto_offset`, exclusive."""
        if offset >= upto_offset:
            return 0
        bases, segments = self._lists
        first, last = _number_at(bases, offset), _number_at(bases, upto_offset - 1)
        whole = sum(segment.size_bytes for segment in segments[first:last])
        return whole + segments[last].position_of(upto_offset) - segments[first].position_of(offset)

    def bytes_about(self, offset: int, upto_offset: int) -> int:
        """As `bytes_between`, without a disk: exact among the newest batches, else rather too many by what
        an index interval has, or a sealed segment whose index is not in memory."""
        if offset >= upto_offset:
            return 0
        bases, segments = self._lists
        first, last = _number_at(bases, offset), _number_at(bases, upto_offset - 1)
        whole = sum(segment.size_bytes for segment in segments[first:last])
        size = whole + segments[last].position_near(upto_offset) - segments[first].position_near(offset)
        return max(size, 1)

    def drop_first(self, count: int) -> list[Segment]:
        """Forget the oldest segments; returns them, oldest first. The active one must stay."""
        assert count < len(self._segments), "the active segment stays"
        dropped, kept = self._segments[:count], self._segments[count:]
        self._replace(kept)
        return dropped

    def replace(self, segments: list[Segment]) -> None:
        """Take other segments in place of all these."""
        assert segments, "a log has at least one segment"
        self._replace(segments)

    def replace_some(self, old: list[Segment], new: Segment) -> bool:
        """Put `new` in the place of sealed segments that lie side by side; False if they do not any more."""
        segments = self._segments
        first = next((number for number, segment in enumerate(segments) if segment is old[0]), -1)
        behind = first + len(old)
        if first < 0 or behind >= len(segments) or segments[first:behind] != old:
            return False
        assert (new.base_offset, new.next_offset) == (old[0].base_offset, old[-1].next_offset)
        self._replace([*segments[:first], new, *segments[behind:]])
        return True

    def release_unused(self) -> None:
        """Give back the indexes that searches by time have loaded, of any segment, on any thread."""
        used = self._loaded
        for segment in list(self._segments):
            if segment.is_sealed and segment not in used:
                segment.release_indexes()

    def _replace(self, segments: list[Segment]) -> None:
        self._loaded = []
        self._lists = ([segment.base_offset for segment in segments], segments)
        self.active = segments[-1]

    def _note_used(self, segment: Segment) -> None:
        """Remember a sealed segment as last used; the one used longest ago gives its indexes back."""
        loaded = [other for other in self._loaded if other is not segment]
        if len(loaded) >= _LOADED_SEALED_SEGMENTS:
            oldest = loaded.pop(0)
            if oldest.is_sealed:
                oldest.release_indexes()
        self._loaded = [*loaded, segment]


def _number_at(bases: list[int], offset: int) -> int:
    """The place of the segment whose range has `offset`; the first or last one for offsets outside of all."""
    return max(bisect_right(bases, offset) - 1, 0)


def retire_newest_first(files: Files, directory: str, segments: list[Segment]) -> None:
    """Take away the names of segments at the log's end: a crash in between leaves a shorter log."""
    for segment in reversed(segments):
        segment.retire()
    files.fsync_directory(directory)


def retire_oldest_first(files: Files, directory: str, segments: list[Segment]) -> None:
    """Take away the names of segments at the log's start: a crash in between leaves a dense log that starts
    later."""
    for segment in segments:
        segment.retire()
    files.fsync_directory(directory)
