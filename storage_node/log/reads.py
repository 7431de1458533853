"""Read whole batches from one segment, and check them.

The CRC covers a batch from its attributes on. The 21 bytes before them are checked otherwise: the base offset
against the index or the previous batch (offsets are dense or, in a log with gaps, rise), the length by the
CRC, the leader epoch against the epoch cache.

Batches from the disk have their CRC checked; of batches in the page cache only the headers are checked. Their
CRC was checked when they were appended, consumers (`check.crcs`) and followers check it again, and the check
is a tenth of the cost of a fetch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ...protocol.errors import CorruptMessageError
from ...protocol.records.codec import active_codec
from ...protocol.records.header import HEADER_BYTES
from ...runtime.files.file_layer import NotCachedError
from .batches import StoredBatch, crc_fault, header_at, walk_headers
from .segment import follows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ...protocol.records.header import BatchHeader
    from .leader_epochs import LeaderEpochs
    from .segment import Segment

# Bound: bytes read beyond the limit, to get the batches between the index entry and the requested offset in
# the same call: an index interval of 4 KiB and one or two batches of the usual 16 KiB.
_SLACK_BYTES = 32 * 1024


class IndexMismatchError(CorruptMessageError):
    """An index entry does not match the batch that it points to: one of them is damaged."""


class Run(NamedTuple):
    """Adjacent whole batches in a segment file from byte `position` on; `next_offset` follows the last one.
    Without any, `position` is where the search ended."""

    data: memoryview
    next_offset: int
    segment: Segment
    position: int

    @property
    def held_bytes(self) -> int:
        """Memory that it holds: the whole read, of which `data` may be a small part."""
        return memoryview(self.data.obj).nbytes


def read_run(
    segment: Segment,
    epochs: LeaderEpochs,
    offset: int,
    max_bytes: int,
    upto_offset: int,
    *,
    min_one: bool,
    cached_only: bool = False,
    has_gaps: bool = False,
) -> Run:
    """The batches from the one with `offset` on, all below `upto_offset`, of at most `max_bytes`.

    With `min_one` the first batch is read however large it is. Empty if no batch fits. With `cached_only` the
    read never waits for the disk, and does not check CRCs. If the log `has_gaps`, an offset in a gap means
    the next batch. Errors: CorruptMessageError when a batch of the run, or one between the index entry and
    it, is damaged; NotCachedError.
    """
    start = segment.run_ends.find(offset) if cached_only else None
    if cached_only and start is None and not segment.can_look_up(offset):
        raise NotCachedError
    # Order: the size first; the owner may append meanwhile on its thread, and sets the size last.
    end = segment.size_bytes
    end_offset = segment.next_offset
    start = start or segment.start_of(offset)
    is_exact = start.base_offset == offset
    wanted = max(max_bytes, _SLACK_BYTES) if is_exact else max_bytes + _SLACK_BYTES
    reader = _Reader(segment, start.position, end, wanted, cached_only=cached_only)
    expected_base, expected_last = start.base_offset, start.last_offset
    first_position, last_position, next_offset = -1, -1, offset
    while reader.position < end and next_offset < upto_offset:
        if first_position >= 0 and reader.position - first_position > max_bytes - HEADER_BYTES:
            break
        try:
            header = reader.header()
        except CorruptMessageError as error:
            if expected_last is not None:
                raise IndexMismatchError(str(error)) from error
            raise
        expected = (expected_base, expected_last)
        _check_order(segment, reader.position, header, expected, end_offset, has_gaps=has_gaps)
        expected_last = None
        if header.last_offset >= offset:
            if header.next_offset > upto_offset:
                break
            if first_position < 0:
                if header.size_bytes > max_bytes and not min_one:
                    break
                first_position = reader.keep_from = reader.position
            elif reader.position + header.size_bytes - first_position > max_bytes:
                break
            reader.check(header, epochs)
            next_offset = header.next_offset
            reader.position += header.size_bytes
            # All further common batches in one call: it stops before a batch that must be checked in detail.
            next_offset = reader.skip_sound(
                first_position + max_bytes, next_offset, upto_offset, epochs, is_dense=not has_gaps
            )
            last_position = reader.position
            expected_base = next_offset
            continue
        reader.position += header.size_bytes
        expected_base = header.next_offset
    position = first_position if first_position >= 0 else reader.position
    return Run(reader.between(first_position, last_position), next_offset, segment, position)


def read_batch(segment: Segment, position: int, header: BatchHeader) -> memoryview:
    """The whole batch at `position`, CRC checked. Errors: CorruptMessageError."""
    data = memoryview(segment.file.pread(position, header.size_bytes))
    fault = crc_fault(data, header) if len(data) == header.size_bytes else "the file ends inside it"
    if fault:
        raise CorruptMessageError(f"{segment.file.path} at byte {position}: {fault}")
    return data


def batches_from(segment: Segment, offset: int, min_timestamp_ms: int) -> Iterator[StoredBatch]:
    """Batches from `offset` on with a max timestamp of at least `min_timestamp_ms`; CRC checked."""
    start = segment.start_of(offset)
    for position, header in walk_headers(segment.file, start.position, segment.size_bytes):
        if header.last_offset >= offset and header.max_timestamp >= min_timestamp_ms:
            yield StoredBatch(position, header, read_batch(segment, position, header))


def _check_order(
    segment: Segment,
    position: int,
    header: BatchHeader,
    expected: tuple[int | None, int | None],
    end_offset: int,
    *,
    has_gaps: bool,
) -> None:
    """`expected`: the base offset and the last offset of the header, each as far as it is known."""
    base_offset, last_offset = expected
    if header.last_offset_delta < 0 or header.next_offset > end_offset:
        raise CorruptMessageError(
            f"{segment.file.path} at byte {position}: last offset {header.last_offset} "
            f"in a segment that ends at {end_offset}"
        )
    if base_offset is not None and not follows(header.base_offset, base_offset, has_gaps=has_gaps):
        raise CorruptMessageError(
            f"{segment.file.path} at byte {position}: base offset {header.base_offset}, "
            f"expected {base_offset}"
        )
    if last_offset is not None and header.last_offset != last_offset:
        raise IndexMismatchError(
            f"{segment.file.path} at byte {position}: last offset {header.last_offset}, "
            f"the index says {last_offset}"
        )


class _Reader:
    """A window on a segment file that moves forward and keeps the bytes from the first batch of the run
    on."""

    __slots__ = (
        "_cached_only",
        "_chunk",
        "_chunk_position",
        "_end",
        "_path",
        "_segment",
        "_wanted",
        "keep_from",
        "position",
    )

    def __init__(self, segment: Segment, position: int, end: int, wanted: int, *, cached_only: bool) -> None:
        self._segment = segment
        self._cached_only = cached_only
        self._path = segment.file.path
        self._end = end
        self._wanted = wanted
        self.position = position
        self.keep_from: int | None = None  # bytes from here on stay in the window
        self._load(position, wanted)

    def header(self) -> BatchHeader:
        at = self.position - self._chunk_position
        if len(self._chunk) - at < HEADER_BYTES:
            at = self._move(HEADER_BYTES)
        header = header_at(self._chunk, at, path=self._path, position=self.position)
        if self.position + header.size_bytes > self._end:
            raise CorruptMessageError(
                f"{self._path} at byte {self.position}: a batch of {header.size_bytes} bytes, "
                f"{self._end - self.position} are left"
            )
        return header

    def check(self, header: BatchHeader, epochs: LeaderEpochs) -> None:
        """Check the whole batch at `position`, loading more of the file where needed."""
        at = self.position - self._chunk_position
        if at + header.size_bytes > len(self._chunk):
            at = self._move(header.size_bytes)
        data = self._chunk[at : at + header.size_bytes]
        fault = None
        if len(data) != header.size_bytes:
            fault = "the file ends inside it"
        elif not self._cached_only:
            fault = crc_fault(data, header)
        # By the last offset: the log, and so its first epoch, may start in the middle of a batch.
        epoch = epochs.epoch_of(header.last_offset)
        if fault is None and header.leader_epoch != epoch:
            fault = f"leader epoch {header.leader_epoch}, the epoch cache has {epoch}"
        if fault:
            raise CorruptMessageError(f"{self._path} at byte {self.position}: {fault}")

    def skip_sound(
        self, limit: int, offset: int, upto_offset: int, epochs: LeaderEpochs, *, is_dense: bool
    ) -> int:
        """Skip the batches from `offset` on that are whole in the window, sound, below `upto_offset` and end
        at or before byte `limit`; the offset after them."""
        at = self.position - self._chunk_position
        end = min(len(self._chunk), min(limit, self._end) - self._chunk_position)
        if end - at < HEADER_BYTES:
            return offset
        epoch, epoch_end = epochs.span_of(offset)
        upto = upto_offset if epoch_end is None else min(upto_offset, epoch_end)
        at, offset = active_codec().walk(
            self._chunk, at, end, offset, upto, epoch, check_crc=not self._cached_only, is_dense=is_dense
        )
        self.position = self._chunk_position + at
        return offset

    def between(self, first: int, last: int) -> memoryview:
        if first < 0 or last <= first:
            return self._chunk[:0]
        return self._chunk[first - self._chunk_position : last - self._chunk_position]

    def _move(self, needed: int) -> int:
        """Move the window to have `needed` bytes from `position` on; the index of `position` in it."""
        begin = self.position if self.keep_from is None else self.keep_from
        self._load(begin, max(self._wanted, self.position - begin + needed))
        return self.position - begin

    def _load(self, position: int, size: int) -> None:
        file, size = self._segment.file, min(size, self._end - position)
        data = file.pread_cached(position, size) if self._cached_only else file.pread(position, size)
        if data is None:
            raise NotCachedError
        self._chunk = memoryview(data)
        self._chunk_position = position
