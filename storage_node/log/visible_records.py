"""How many records of a log a reader receives from an offset on, by its isolation level.

Offsets without such a record: transaction markers, what compaction removed, and with read_committed records
of aborted transactions.
Counting needs the headers of the batches once, 61 bytes each; the counts are kept at some offsets and
extended when the log grows. A span in which each offset has a record, or none has, needs no header: the count
before any of its offsets is a difference. That is most of most logs.

The owner of the log calls the methods of `VisibleRecords`; `Count.run` goes on a thread, one at a time.
Invariant: spans with another number of cuts than the log has now are never used.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections import OrderedDict
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from ...protocol.errors import CorruptMessageError
from ...protocol.model import NO_TIMESTAMP, READ_COMMITTED
from ...protocol.records.codec import active_codec
from ...protocol.records.header import (
    CONTROL_BIT,
    DELETE_HORIZON_BIT,
    HEADER_BYTES,
    LOG_APPEND_TIME_BIT,
    TRANSACTIONAL_BIT,
)
from ...protocol.records.settings import INT64_MAX
from .batches import header_at
from .reads import read_batch

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Sequence

    from ...protocol.records.header import BatchHeader
    from .segment import Segment

    Steps = Generator[None, None, "Spans"]

MAX_SPANS = 1_024  # Bound: of a log and isolation level; 16 bytes each
MAX_KNOWN = 256  # Bound: offsets of a log and isolation level whose first record is remembered
STEP_HEADERS = 2_000  # Bound: headers that one call of `Count.run` looks at, a few milliseconds
SPAN_HEADERS = 64  # of an irregular span; more after there were too many spans
_CHUNK_BYTES = 16 * 1024
_LARGE_BATCH = 4 * 1024  # after a batch of that size only the next header is read
_MAX_ROWS = 2**31 - 1


class Spans(NamedTuple):
    """`before[i]` records lie between `anchor` and `offsets[i]`; negative below the anchor. Offsets ascend;
    they are starts or ends of batches, or lie where each offset has a record."""

    cuts: int
    anchor: int
    offsets: array[int]
    before: array[int]


class First(NamedTuple):
    """The first record at or after an offset: how many lie before it, as in Spans, and its timestamp."""

    before: int
    timestamp_ms: int = NO_TIMESTAMP


class KeptCounts:
    """The counts for readers of one isolation level."""

    __slots__ = ("known", "spans")

    def __init__(self) -> None:
        self.spans: Spans | None = None
        # by cuts, anchor and offset
        self.known: OrderedDict[tuple[int, int, int], First] = OrderedDict()

    def take(self, spans: Spans, max_spans: int) -> None:
        """Keep these spans, unless those kept are newer, or reach further on both sides."""
        kept = self.spans
        if (
            kept is None
            or kept.cuts < spans.cuts
            or (
                kept.cuts == spans.cuts
                and (kept.offsets[0] > spans.offsets[0] or kept.offsets[-1] < spans.offsets[-1])
            )
        ):
            self.spans = _thinned(spans, max_spans)

    def remember(self, spans: Spans, offset: int, first: First) -> None:
        """Keep the first record at or after `offset`; the oldest of many is dropped."""
        known = self.known
        known[spans.cuts, spans.anchor, offset] = first
        while len(known) > MAX_KNOWN:
            known.popitem(last=False)

    def forget_below(self, offset: int, cuts: int) -> None:
        """Keep the spans from `offset` on; they are those of the next cut, number `cuts`."""
        spans, self.spans, self.known = self.spans, None, OrderedDict()
        if spans is not None and spans.cuts == cuts - 1 and spans.offsets[-1] >= offset:
            number = bisect_left(spans.offsets, offset)
            self.spans = Spans(cuts, spans.anchor, spans.offsets[number:], spans.before[number:])


class VisibleRecords:
    """The counts of one log. From `regular_from` on each offset of the log has a record for certain. `cuts`:
    how often records were removed that may have been counted."""

    __slots__ = ("cuts", "kept", "max_spans", "regular_from", "span_headers")

    def __init__(
        self, log_end_offset: int, *, max_spans: int = MAX_SPANS, span_headers: int = SPAN_HEADERS
    ) -> None:
        self.max_spans, self.span_headers = max_spans, span_headers
        self.regular_from = log_end_offset
        self.cuts = 0
        self.kept = KeptCounts(), KeptCounts()  # by isolation level

    def appended(self, header: BatchHeader, last_offset: int) -> None:
        """A batch was appended; one of a client without a producer id needs no call. The header of a
        client's batch has no offsets yet."""
        if (
            header.attributes & (CONTROL_BIT | TRANSACTIONAL_BIT)
            or header.record_count <= header.last_offset_delta
        ):
            self.regular_from = last_offset + 1

    def replaced_below(self, offset: int) -> None:
        """Compaction may have removed records below `offset`; the counts from there on are still right."""
        self.regular_from = max(self.regular_from, offset)
        self._cut(offset)

    def truncated(self, log_end_offset: int) -> None:
        """Records at the end of the log were removed."""
        self.regular_from = min(self.regular_from, log_end_offset)
        self._cut(INT64_MAX)

    def forget(self) -> None:
        """Free the memory of the counts; they are made again when needed."""
        self.kept = KeptCounts(), KeptCounts()

    def _cut(self, offset: int) -> None:
        self.cuts += 1
        for kept in self.kept:
            kept.forget_below(offset, self.cuts)


class Count:
    """Counts the records from each of `offsets` to `end_offset`: the last stable offset, or for readers with
    read_uncommitted the high watermark.

    Made on the owner's thread; call `run` on a thread until `is_done`. Then `found` has for each offset the
    number of records and the timestamp of the first one, NO_TIMESTAMP without one.
    """

    def __init__(
        self,
        records: VisibleRecords,
        segments: Sequence[Segment],
        offsets: Sequence[int],
        *,
        start_offset: int,
        end_offset: int,
        isolation: int,
    ) -> None:
        """`segments`: all of the log."""
        self.cuts = records.cuts
        self.is_done = False
        self.found: list[tuple[int, int]] = []
        self._kept = records.kept[isolation]
        self._max_spans, self._span_headers = records.max_spans, records.span_headers
        self._is_committed = isolation == READ_COMMITTED
        self._segments = segments
        self._offsets = [max(offset, start_offset) for offset in offsets]
        self._start_offset = start_offset
        self._end_offset = end_offset
        self._regular_from = records.regular_from
        self._aborted: dict[int, list[tuple[int, int]]] = {}
        self._steps = self._work()

    def run(self) -> None:
        """Look at up to STEP_HEADERS headers. Errors: CorruptMessageError and other KafkaErrors of damaged
        batches, KafkaStorageError, FileGoneError after a segment was deleted."""
        for _ in range(STEP_HEADERS):
            try:
                next(self._steps)
            except StopIteration:
                self.is_done = True
                return

    def _work(self) -> Generator[None, None, None]:
        """Yields after each header."""
        wanted = sorted({offset for offset in self._offsets if offset < self._end_offset})
        if not wanted:
            self.found = [(0, NO_TIMESTAMP)] * len(self._offsets)
            return
        spans = yield from self._covering(wanted[0])
        total = spans.before[-1]
        firsts: dict[int, First] = {}
        for offset in wanted:
            first = self._kept.known.get((spans.cuts, spans.anchor, offset))
            if first is None:
                first = yield from self._first(spans, offset)
                if first.timestamp_ms != NO_TIMESTAMP:  # otherwise a first record may come
                    self._kept.remember(spans, offset, first)
            firsts[offset] = first
        nothing = First(total)
        for offset in self._offsets:
            first = firsts.get(offset, nothing)
            self.found.append((total - first.before, first.timestamp_ms))

    # --- the counts at some offsets ---------------------------------------------------------------------

    def _covering(self, offset: int) -> Steps:
        """Spans from `offset` to the end offset."""
        spans, end_offset = self._kept.spans, self._end_offset
        if spans is None or spans.cuts != self.cuts or spans.offsets[0] > end_offset:
            spans = self._starting_at(offset)
        spans = _upto(spans, end_offset)
        if self._is_committed:
            start = min(offset, spans.offsets[-1])
            self._aborted = _aborted_transactions(self._segments, start, end_offset)
        if offset < spans.offsets[0]:
            left = yield from self._extended(self._starting_at(offset), spans.offsets[0])
            shift = left.before[-1] - spans.before[0]
            before = array("q", (count - shift for count in left.before[:-1]))
            spans = Spans(self.cuts, spans.anchor, left.offsets[:-1] + spans.offsets, before + spans.before)
        if spans.offsets[-1] < end_offset:
            spans = yield from self._extended(spans, end_offset)
        self._kept.take(_from_offset(spans, self._start_offset), self._max_spans)
        return spans

    def _starting_at(self, offset: int) -> Spans:
        """Empty spans at the batch with `offset`, or at `offset` if no batch before the end has it."""
        if offset < self._regular_from:
            first = next(self._batches(offset, self._end_offset), None)
            if first is not None:
                offset = min(offset, first[2].base_offset)
        return Spans(self.cuts, offset, array("q", (offset,)), array("q", (0,)))

    def _extended(self, spans: Spans, upto: int) -> Steps:
        """The spans and those behind them, up to `upto`."""
        growing = _Growing(spans, self._span_headers)
        regular_from = min(max(self._regular_from, growing.end), upto)
        start = growing.end
        for _, _, header in self._batches(start, regular_from):
            yield
            visible, end = self._visible(header, start), header.next_offset
            if end > upto:  # `upto` lies where each offset has a record
                visible, end = visible - (end - upto), upto
            growing.add(end, visible)
        growing.add(regular_from, 0)
        growing.add(upto, upto - regular_from, headers=self._span_headers)
        return growing.spans()

    def _first(self, spans: Spans, offset: int) -> Generator[None, None, First]:
        """Order: an irregular span is walked from `offset` to its end, because its start may be deleted."""
        offsets, before = spans.offsets, spans.before
        for number in range(max(bisect_right(offsets, offset) - 1, 0), len(offsets) - 1):
            start, end = offsets[number], offsets[number + 1]
            visible = before[number + 1] - before[number]
            if not visible:
                continue
            begin, rest, first_ms = max(offset, start), 0, None
            for segment, position, header in self._batches(begin, end):
                yield
                rows = self._visible(header, header.base_offset)
                if rows and first_ms is None:
                    rows, timestamp_ms = _from(segment, position, header, begin)
                    first_ms = timestamp_ms if rows else None
                    if visible == end - start:
                        return First(before[number] + begin - start, timestamp_ms)
                rest += rows - (max(header.next_offset - end, 0) if rows else 0)
            if first_ms is not None:
                return First(before[number + 1] - rest, first_ms)
        return First(before[-1])

    # --- batches ----------------------------------------------------------------------------------------

    def _visible(self, header: BatchHeader, start: int) -> int:
        """Records of the batch that a reader receives. If it begins before `start`, each of its offsets has
        one, and those from `start` on are counted."""
        if header.is_control:
            return 0
        if header.is_transactional:
            ranges = self._aborted.get(header.producer_id)
            if ranges is not None:
                number = bisect_right(ranges, (header.base_offset, INT64_MAX)) - 1
                if number >= 0 and header.base_offset <= ranges[number][1]:
                    return 0
        return header.record_count - max(start - header.base_offset, 0)

    def _batches(self, start: int, end: int) -> Iterator[tuple[Segment, int, BatchHeader]]:
        """The batches with offsets in [start, end)."""
        if start >= end:
            return
        expected = -1
        for segment in self._segments:
            if segment.next_offset <= start:
                continue
            if segment.base_offset >= end:
                return
            position = segment.start_of(start).position if start > segment.base_offset else 0
            for found, header in _headers(segment, position):
                if header.base_offset >= end:
                    return
                if header.base_offset < expected or header.last_offset_delta < 0:
                    raise CorruptMessageError(
                        f"{segment.file.path} at byte {found}: offsets {header.base_offset} to"
                        f" {header.last_offset} after {expected}"
                    )
                expected = header.next_offset
                if header.last_offset >= start:
                    yield segment, found, header


class _Growing:
    """Spans that are extended, batch by batch."""

    def __init__(self, spans: Spans, span_headers: int) -> None:
        self._span_headers = span_headers
        self._cuts, self._anchor = spans.cuts, spans.anchor
        self._offsets, self._before = spans.offsets[:], spans.before[:]
        self._headers = span_headers  # in the last span; one of an earlier walk stays as it is

    @property
    def end(self) -> int:
        return self._offsets[-1]

    def add(self, end: int, visible: int, headers: int = 1) -> None:
        """The offsets up to `end` have `visible` records; nothing happens if there are no such offsets."""
        offsets, before = self._offsets, self._before
        width = end - offsets[-1]
        if width <= 0:
            return
        self._headers += headers
        is_alike = False
        if len(offsets) > 1:
            last_width, last = offsets[-1] - offsets[-2], before[-1] - before[-2]
            is_alike = (last == last_width and visible == width) or not (last or visible)
        if is_alike or self._headers <= self._span_headers:
            offsets[-1] = end
            before[-1] += visible
        else:
            offsets.append(end)
            before.append(before[-1] + visible)
            self._headers = headers

    def spans(self) -> Spans:
        return Spans(self._cuts, self._anchor, self._offsets, self._before)


def _upto(spans: Spans, end_offset: int) -> Spans:
    """Without what lies beyond `end_offset`: another count has seen a later end."""
    number = bisect_right(spans.offsets, end_offset)
    if number == len(spans.offsets):
        return spans
    offsets, before = spans.offsets[:number], spans.before[:number]
    width, visible = spans.offsets[number] - offsets[-1], spans.before[number] - before[-1]
    if visible in (0, width) and offsets[-1] < end_offset:
        before.append(before[-1] + (end_offset - offsets[-1] if visible else 0))
        offsets.append(end_offset)
    return Spans(spans.cuts, spans.anchor, offsets, before)


def _from_offset(spans: Spans, start_offset: int) -> Spans:
    """Without the spans that lie wholly below `start_offset`."""
    number = max(bisect_right(spans.offsets, start_offset) - 1, 0)
    if not number:
        return spans
    return Spans(spans.cuts, spans.anchor, spans.offsets[number:], spans.before[number:])


def _thinned(spans: Spans, max_spans: int) -> Spans:
    """If there are too many: neighbours are merged, narrow ones first, so that no span becomes too wide."""
    limit = 2
    while len(spans.offsets) > max_spans:
        offsets, before = array("q", spans.offsets[:1]), array("q", spans.before[:1])
        for (offset, count), (following, _) in pairwise(zip(spans.offsets, spans.before, strict=True)):
            if offset != offsets[-1] and following - offsets[-1] > limit:
                offsets.append(offset)
                before.append(count)
        offsets.append(spans.offsets[-1])
        before.append(spans.before[-1])
        spans = Spans(spans.cuts, spans.anchor, offsets, before)
        limit *= 2
    return spans


def _aborted_transactions(
    segments: Sequence[Segment], start: int, end: int
) -> dict[int, list[tuple[int, int]]]:
    """By producer id the first offset and the marker of each aborted transaction that overlaps the range."""
    found: dict[int, list[tuple[int, int]]] = {}
    for segment in segments:
        if segment.next_offset > start and segment.aborted is not None:
            for entry in segment.aborted.overlapping(start, end):
                found.setdefault(entry.producer_id, []).append((entry.first_offset, entry.last_offset))
    return found


def _headers(segment: Segment, position: int) -> Iterator[tuple[int, BatchHeader]]:
    """Position and header of the batches from byte `position` on. As batches.walk_headers, but reads nothing
    of large batches besides their headers."""
    file, end = segment.file, segment.size_bytes
    chunk, begin, size = memoryview(b""), position, 0
    while position < end:
        at = position - begin
        if len(chunk) - at < HEADER_BYTES:
            wanted = HEADER_BYTES if size >= _LARGE_BATCH else _CHUNK_BYTES
            chunk, begin, at = memoryview(file.pread(position, min(wanted, end - position))), position, 0
        header = header_at(chunk, at, path=file.path, position=position)
        size = header.size_bytes
        if position + size > end:
            raise CorruptMessageError(
                f"{file.path} at byte {position}: {size} bytes of batch, {end - position} left"
            )
        yield position, header
        position += size


def _from(segment: Segment, position: int, header: BatchHeader, offset: int) -> tuple[int, int]:
    """How many records of the batch are at or after `offset`, and the timestamp of the first one."""
    is_dense = header.record_count == header.last_offset_delta + 1
    rows = header.record_count if offset <= header.base_offset else header.next_offset - offset
    if is_dense or offset <= header.base_offset:
        if header.attributes & LOG_APPEND_TIME_BIT:
            return rows, header.max_timestamp
        has_base = not header.attributes & DELETE_HORIZON_BIT
        if has_base and (header.base_timestamp == header.max_timestamp):
            return rows, header.max_timestamp
        if has_base and is_dense and offset <= header.base_offset:
            return rows, header.base_timestamp
    sink = active_codec().columns(keys=False, values=False, headers=False)
    data = read_batch(segment, position, header)
    max_rows = 1 if is_dense else _MAX_ROWS
    found, _ = sink.append(data, partition=0, from_offset=offset, max_rows=max_rows, check_crc=False)
    timestamps = memoryview(sink.finish().timestamps).cast("B").cast("q")
    if not found:
        return 0, NO_TIMESTAMP
    return rows if is_dense else found, timestamps[0]
