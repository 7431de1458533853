"""Read-ahead for clients that catch up, and removal of the pages behind them from the page cache.

Tracked are clients whose reads had to wait for a disk, and those that read near them. For a client that reads
sequentially the next `ahead_bytes` of its segment are read into the page cache, again whenever half of them
are used. Pages that were loaded for such clients, and only those, are dropped once the last client nearby has
passed them: pages that were cached before are used by other readers.

Never dropped: bytes that are not flushed, and the last `_KEPT_TAIL_BYTES` of an active segment, which readers
at the tail need. A client more than `_NEAR_BYTES` behind another one is not waited for.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ...runtime.files.file_layer import File
    from ..log.reads import Run
    from ..log.segment import Segment
    from .partition import PartitionKey

_PAGE_BYTES = 4096
_KEPT_TAIL_BYTES = 64 * 1024 * 1024
_NEAR_BYTES = 32 * 1024 * 1024
# Bound: tracked pairs of client and partition; the least recent reader is dropped.
_MAX_READERS = 10_000
# Bound: tracked ranges of one segment; others are left to the kernel.
_MAX_PIECES = 64

_ReaderKey = tuple[int, "PartitionKey"]  # connection and partition


@dataclass(frozen=True, slots=True)
class PageAdvice:
    """Advice for the page cache; `run` goes on a thread, because it may block."""

    file: File
    behind: tuple[tuple[int, int], ...]  # position, size
    ahead: tuple[int, int] | None

    def run(self) -> None:
        """Advise the kernel."""
        for position, size in self.behind:
            self.file.drop_cached(position, size)
        if self.ahead is not None:
            self.file.will_need(*self.ahead)


@dataclass(slots=True, eq=False)
class _SegmentReaders:
    """The readers of a segment, and the ranges [start, end) that were loaded for them."""

    readers: dict[_ReaderKey, _Reader] = field(default_factory=dict)
    brought: list[tuple[int, int]] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class _Reader:
    """One client and partition: it has read up to `position`; read-ahead was requested up to `ahead_to`."""

    segment: Segment
    position: int
    next_offset: int
    ahead_to: int = 0


class CatchUp:
    """Tracks the clients of a node that catch up."""

    def __init__(self, ahead_bytes: int) -> None:
        self._ahead_bytes = ahead_bytes
        self._readers: OrderedDict[_ReaderKey, _Reader] = OrderedDict()
        self._segments: dict[Segment, _SegmentReaders] = {}

    def __len__(self) -> int:
        return len(self._readers)

    def overlaps(self, segment: Segment, start: int, end: int) -> bool:
        """Whether pages of `start` to `end` were loaded for readers, and will be dropped behind them."""
        place = self._segments.get(segment)
        return place is not None and any(low < end and start < high for low, high in place.brought)

    def ahead_of(self, key: _ReaderKey, offset: int) -> int:
        """How much to read ahead with a cold read at `offset`: nothing until the client reads
        sequentially."""
        reader = self._readers.get(key)
        return self._ahead_bytes if reader is not None and reader.next_offset == offset else 0

    def read(self, key: _ReaderKey, run: Run, brought_bytes: int | None = None) -> PageAdvice | None:
        """A client has read `run`; `brought_bytes` from its start were not cached before (None: all were).
        Returns the advice that follows."""
        if not len(run.data) or (brought_bytes is None and run.segment not in self._segments):
            return None
        old, end = self._readers.pop(key, None), run.position + len(run.data)
        ahead_to = 0
        if old is not None and old.segment is not run.segment:
            self._leave(key, old)
        elif old is not None and old.position == run.position:
            ahead_to = old.ahead_to
        reader = _Reader(run.segment, end, run.next_offset, ahead_to)
        place = self._segments.setdefault(run.segment, _SegmentReaders())
        if brought_bytes is not None:
            reached = min(run.position + max(brought_bytes, len(run.data)), run.segment.size_bytes)
            _add(place.brought, run.position, reached)
            reader.ahead_to = max(reader.ahead_to, reached)
        self._readers[key] = place.readers[key] = reader
        while len(self._readers) > _MAX_READERS:
            self._leave(*self._readers.popitem(last=False))
        return self._advice(place, reader)

    def forget(self, session: int) -> None:
        """The client has disconnected."""
        for key in [key for key in self._readers if key[0] == session]:
            self._leave(key, self._readers.pop(key))

    def _leave(self, key: _ReaderKey, reader: _Reader) -> None:
        place = self._segments.get(reader.segment)
        if place is not None:
            place.readers.pop(key, None)
            if not place.readers:
                del self._segments[reader.segment]

    def _advice(self, place: _SegmentReaders, reader: _Reader) -> PageAdvice | None:
        segment = reader.segment
        behind = _passed(place, reader)
        ahead: tuple[int, int] | None = None
        left = reader.ahead_to - reader.position
        if 0 < left * 2 <= self._ahead_bytes:
            size = min(self._ahead_bytes, segment.size_bytes - reader.ahead_to)
            # Pages that are cached already were loaded for other readers: do not track them.
            if size > 0 and segment.file.lend(reader.ahead_to, size) is None:
                ahead = (reader.ahead_to, size)
                _add(place.brought, reader.ahead_to, reader.ahead_to + size)
                reader.ahead_to += size
        return PageAdvice(segment.file, behind, ahead) if behind or ahead else None


def _passed(place: _SegmentReaders, reader: _Reader) -> tuple[tuple[int, int], ...]:
    """Remove and return the loaded ranges that no client nearby needs any more."""
    segment, low = reader.segment, reader.position
    for other in place.readers.values():
        if reader.position - _NEAR_BYTES <= other.position < low:
            low = other.position
    low = min(low, segment.synced_bytes)
    if not segment.is_sealed:
        low = min(low, segment.size_bytes - _KEPT_TAIL_BYTES)
    if low < segment.size_bytes:
        low -= low % _PAGE_BYTES  # a partly passed page is dropped with the next ones
    passed = tuple((start, min(end, low) - start) for start, end in place.brought if start < low)
    if passed:
        place.brought = [(max(start, low), end) for start, end in place.brought if end > low]
    return passed


def _add(pieces: list[tuple[int, int]], start: int, end: int) -> None:
    """Add a range, joined with the last one where they touch."""
    if pieces and pieces[-1][0] <= start <= pieces[-1][1]:
        pieces[-1] = (pieces[-1][0], max(pieces[-1][1], end))
        return
    pieces.append((start, end))
    del pieces[:-_MAX_PIECES]
