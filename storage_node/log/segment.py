"""One segment of a log: the `.log` file with its offset, time and transaction index.

The indexes can be rebuilt from the `.log` file. They stay in memory while the segment is active, and are
written once, when it is sealed. The offset and time index of a sealed segment are loaded again on first use.

Invariant: `size_bytes` counts whole batches; bytes of the file past it are not part of the log.
Source: Kafka LogSegment.java.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.errors import CorruptMessageError
from ...protocol.model import NO_TIMESTAMP
from ...runtime.files.file_layer import DiskFullError, read_file
from . import names, offset_index, time_index
from .batch_starts import BatchStart, NewestStarts, RunEnds
from .batches import scan_batches, walk_headers
from .index_files import index_size_fault, write_index
from .markers import read_marker
from .offset_index import MAX_RELATIVE_OFFSET, OffsetIndex
from .time_index import TimeIndex
from .transaction_index import TransactionIndex, parse_transaction_index

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...protocol.records.header import BatchHeader, Buffer
    from ...runtime.files.file_layer import File, Files
    from .leader_epochs import LeaderEpochs
    from .offset_index import OffsetPosition
    from .producer_states import ProducerStates
    from .transaction_index import AbortedTransaction


class Segment:
    """The log's owner appends and seals; other threads may read at the same time."""

    __slots__ = (
        "_bytes_since_entry",
        "_files",
        "_has_aborted_file",
        "_newest",
        "_offset_index",
        "_time_index",
        "aborted",
        "base_offset",
        "created_ms",
        "directory",
        "ending",
        "file",
        "first_timestamp_ms",
        "is_replaced",
        "is_sealed",
        "largest_timestamp_ms",
        "largest_timestamp_offset",
        "next_offset",
        "run_ends",
        "size_bytes",
        "synced_bytes",
    )

    def __init__(self, files: Files, directory: str, base_offset: int, file: File, created_ms: int) -> None:
        self._files = files
        self.directory = directory
        self.base_offset = base_offset
        self.file = file
        self.created_ms = created_ms
        self.size_bytes = 0
        # Invariant: only bytes below it are known to be on disk; -1: the index files are not either
        self.synced_bytes = 0
        self.next_offset = base_offset
        self.first_timestamp_ms = NO_TIMESTAMP  # of the first batch; the age of the segment counts from it
        self.largest_timestamp_ms = NO_TIMESTAMP
        self.largest_timestamp_offset = base_offset
        self.is_sealed = False
        self.is_replaced = False  # by a compacted segment: its files need no flush
        self.aborted: TransactionIndex | None = None  # transactions whose abort marker is in this segment
        self._has_aborted_file = False  # it may be outdated
        self.ending = ""  # `.deleted`, `.cleaned` or `.swap`, after the suffix of each file
        self._bytes_since_entry = 0
        self._offset_index: OffsetIndex | None = OffsetIndex(base_offset)
        self._time_index: TimeIndex | None = TimeIndex(base_offset)
        self._newest = NewestStarts()
        self.run_ends = RunEnds()

    @classmethod
    def create(
        cls, files: Files, directory: str, base_offset: int, *, created_ms: int, preallocate_bytes: int = 0
    ) -> Segment:
        """A new empty segment; an old file with its name is emptied. Errors: DiskFullError, and the file is
        removed: otherwise a later start would take it for the end of the previous segment."""
        path = f"{directory}/{names.segment_name(base_offset, names.LOG)}"
        file = files.open(path, create=True)
        file.truncate(0)
        if preallocate_bytes:
            try:
                file.allocate(preallocate_bytes)
            except DiskFullError:
                file.close()
                files.remove(path)
                raise
        return cls(files, directory, base_offset, file, created_ms)

    @property
    def offset_index(self) -> OffsetIndex:
        """Loaded from its file if it is not in memory. Errors: KafkaStorageError."""
        index = self._offset_index
        if index is None:
            index = self._offset_index = OffsetIndex.from_bytes(
                self.base_offset, self._read(names.OFFSET_INDEX)
            )
        return index

    @property
    def time_index(self) -> TimeIndex:
        """Loaded from its file if it is not in memory. Errors: KafkaStorageError."""
        index = self._time_index
        if index is None:
            index = self._time_index = TimeIndex.from_bytes(self.base_offset, self._read(names.TIME_INDEX))
        return index

    def path_of(self, suffix: str) -> str:
        return f"{self.directory}/{names.segment_name(self.base_offset, suffix)}{self.ending}"

    def release_indexes(self) -> None:
        """Free the memory of the indexes; they are loaded again when needed."""
        assert self.is_sealed, "the indexes of an active segment are only in memory"
        self._offset_index = self._time_index = None
        self._newest, self.run_ends = NewestStarts(), RunEnds()

    def index_bytes(self) -> tuple[int, int]:
        """Bytes of the offset and the time index, without loading them."""
        offsets, times = self._offset_index, self._time_index
        return (
            self._files.size(self.path_of(names.OFFSET_INDEX)) if offsets is None else offsets.size_bytes,
            self._files.size(self.path_of(names.TIME_INDEX)) if times is None else times.size_bytes,
        )

    def oldest_timestamp_ms(self) -> int:
        """The timestamp of the first batch, read from the file if unknown. Errors: CorruptMessageError."""
        if self.first_timestamp_ms == NO_TIMESTAMP:
            self._load_first_timestamp()
        return self.first_timestamp_ms

    def has_index_room(self, limit_bytes: int) -> bool:
        """Whether both indexes stay within the limit with one more batch: an entry in each, and one more in
        the time index when the segment is sealed."""
        offsets, times = self._offset_index, self._time_index
        if offsets is None or times is None:
            offsets, times = self.offset_index, self.time_index
        return (
            len(offsets) < limit_bytes // offset_index.ENTRY_BYTES
            and len(times) + 1 < limit_bytes // time_index.ENTRY_BYTES
        )

    def can_take(self, last_offset: int) -> bool:
        """Whether the relative offset fits the 31 bits of an index entry."""
        return last_offset - self.base_offset <= MAX_RELATIVE_OFFSET

    def append(
        self,
        buffers: Sequence[Buffer],
        header: BatchHeader,
        base_offset: int,
        last_offset: int,
        interval: int,
    ) -> int:
        """Write one batch, the concatenation of `buffers`, at the end; its size in bytes. Errors:
        DiskFullError, and nothing of the batch is left."""
        position = self.size_bytes
        try:
            size = self.file.pwrite(position, buffers)
        except DiskFullError:
            self.file.truncate(position)
            raise
        self.note_batch(position, size, base_offset, last_offset, header.max_timestamp, interval)
        return size

    def note_batch(
        self, position: int, size: int, base_offset: int, last_offset: int, max_timestamp: int, interval: int
    ) -> None:
        """Account for a batch in the file at `position`; add index entries once per `interval` bytes.

        Append and recovery both call it, so a rebuilt index equals the lost one.
        """
        self._newest.add(base_offset, position)
        if not position:
            self.first_timestamp_ms = max_timestamp
        if max_timestamp > self.largest_timestamp_ms:
            # Order: the offset first; a reader that sees the new time must not see the old offset.
            self.largest_timestamp_offset = last_offset
            self.largest_timestamp_ms = max_timestamp
        if self._bytes_since_entry > interval:
            self.offset_index.append(last_offset, position)
            self.time_index.maybe_append(self.largest_timestamp_ms, self.largest_timestamp_offset)
            self._bytes_since_entry = 0
        self._bytes_since_entry += size
        self.next_offset = last_offset + 1
        self.size_bytes = position + size

    def seal(self) -> None:
        """Write the indexes and refuse further appends. The next flush brings the files to the disk."""
        self._finish_indexes()
        if self.file.size() != self.size_bytes:
            self.file.truncate(self.size_bytes)
        write_index(self._files, self.path_of(names.OFFSET_INDEX), self.offset_index.to_bytes())
        write_index(self._files, self.path_of(names.TIME_INDEX), self.time_index.to_bytes())
        if self.aborted is not None or self._has_aborted_file:
            self._has_aborted_file = True
            content = b"" if self.aborted is None else self.aborted.to_bytes()
            write_index(self._files, self.path_of(names.TXN_INDEX), content)
        # A segment whose batches are all synced must be flushed once more, for its new index files: otherwise
        # the recovery point would pass it, and after a power loss torn index files would be trusted.
        self.synced_bytes = -1
        self.is_sealed = True

    def reopen(self) -> None:
        """Undo `seal`: the segment is active again, and its index files are ignored until the next `seal`."""
        self.synced_bytes = 0
        self.is_sealed = False

    def unsynced_paths(self) -> list[str]:
        """Files to sync before the recovery point may pass the end of this sealed segment."""
        assert self.is_sealed, "an active segment has no valid index files"
        suffixes = (names.OFFSET_INDEX, names.TIME_INDEX, names.TXN_INDEX)
        return [self.path_of(suffix) for suffix in suffixes[: 3 if self._has_aborted_file else 2]]

    def load_aborted(self) -> None:
        """Load the transaction index. Errors: KafkaStorageError."""
        entries = parse_transaction_index(self._read(names.TXN_INDEX))
        self.aborted = TransactionIndex(entries) if entries else None
        self._has_aborted_file = True

    def note_aborted(self, entry: AbortedTransaction) -> None:
        """The abort marker of a transaction was appended to this segment."""
        if self.aborted is None:
            self.aborted = TransactionIndex()
        self.aborted.append(entry)

    def load(self, interval: int, epochs: LeaderEpochs, *, has_gaps: bool = False) -> str | None:
        """Load the last segment after a clean shutdown; the reason why it cannot be trusted, or None.

        Only the headers after the last index entry are read; newer epochs in them are added to `epochs`.
        Offsets must be dense, unless the log `has_gaps`.
        """
        self.size_bytes = self.synced_bytes = self.file.size()
        # An empty segment needs no index files.
        fault = self._index_fault(interval) if self.size_bytes else None
        if fault:
            return fault
        last = self.offset_index.last
        self.next_offset = self.base_offset if last.offset < 0 else -1
        try:
            for position, header in walk_headers(self.file, last.position, self.size_bytes):
                is_anchor = self.next_offset < 0 and header.last_offset == last.offset
                if not is_anchor and not follows(header.base_offset, self.next_offset, has_gaps=has_gaps):
                    return f"{self.file.path} at byte {position}: offset {header.base_offset} does not follow"
                if header.leader_epoch > epochs.latest_epoch:
                    epochs.assign(header.leader_epoch, header.base_offset)
                self._newest.add(header.base_offset, position)
                self.next_offset = header.next_offset
                self._bytes_since_entry = position + header.size_bytes - last.position
                self._note_largest(header)
            self._load_first_timestamp()
        except CorruptMessageError as error:
            return str(error)
        return None

    def load_sealed(self, interval: int, next_offset: int) -> str | None:
        """Load a sealed segment below the recovery point, reading only the end of its time index; the reason
        why it cannot be trusted, or None."""
        self.size_bytes = self.synced_bytes = self.file.size()
        self.next_offset = next_offset
        self.is_sealed = True
        fault = self._index_fault(interval)
        if fault is None:
            last = self.time_index.last
            self.largest_timestamp_ms, self.largest_timestamp_offset = last.timestamp_ms, last.offset
            self.release_indexes()
        return fault

    def recover(
        self,
        interval: int,
        epochs: LeaderEpochs | None = None,
        end_offset: int | None = None,
        *,
        has_gaps: bool = False,
        producers: ProducerStates | None = None,
    ) -> str | None:
        """Rebuild everything from the batches, with their CRCs checked; the fault at which the scan stopped,
        or None.

        The file is not changed: `cut` truncates it to the sound batches. Offsets must be dense, unless the
        log `has_gaps`, and epochs must not fall; new epochs are added to `epochs`. The scan ends before the
        first batch that reaches `end_offset`. `producers`, the states at the base offset, are updated from
        the batches, and the transaction index is rebuilt too.
        """
        self._reset()
        if producers is not None:
            self.aborted = None
        try:
            for position, header, data in scan_batches(self.file, 0, self.file.size()):
                if end_offset is not None and header.next_offset > end_offset:
                    return None
                fault = self._order_fault(header, epochs, has_gaps=has_gaps)
                if fault:
                    return f"{self.file.path} at byte {position}: {fault}"
                self.note_batch(
                    position,
                    header.size_bytes,
                    header.base_offset,
                    header.last_offset,
                    header.max_timestamp,
                    interval,
                )
                if epochs is not None and header.leader_epoch >= 0:
                    epochs.assign(header.leader_epoch, header.base_offset)
                if producers is not None and header.producer_id >= 0:
                    self._replay(producers, header, data)
        except CorruptMessageError as error:
            return str(error)
        return None

    def rebuild_indexes(self, interval: int, *, has_gaps: bool = False) -> None:
        """Replace indexes that do not match the sound batches. No file is written.

        The new ones are built aside and swapped at the end, so that reads on other threads are not disturbed.
        """
        fresh = Segment(self._files, self.directory, self.base_offset, self.file, self.created_ms)
        fresh.recover(interval, has_gaps=has_gaps)
        self._offset_index, self._time_index = fresh.offset_index, fresh.time_index

    def keep_whole(self, file_bytes: int, next_offset: int) -> None:
        """Keep a sealed segment after `recover`, with the batches after the damage, and write the indexes."""
        self.size_bytes, self.next_offset = file_bytes, next_offset
        self.seal()

    def cut(self) -> None:
        """Truncate the file to the sound batches, and sync it."""
        self.file.truncate(self.size_bytes)
        self.file.fdatasync()
        self.synced_bytes = self.size_bytes
        self.is_sealed = False
        if self.aborted is not None:
            self.aborted.truncate(self.next_offset)

    def start_of(self, offset: int) -> BatchStart:
        """Where to start searching for `offset`: its batch if that is among the newest, else an earlier
        batch."""
        found = self._newest.find(offset)
        if found is not None:
            return found
        entry = self.offset_index.lookup(offset)
        if entry.offset < 0:
            return BatchStart(0, self.base_offset, None)
        return BatchStart(entry.position, None, entry.offset)

    def can_look_up(self, offset: int) -> bool:
        """Whether `start_of` needs no index file."""
        return self._offset_index is not None or self._newest.find(offset) is not None

    def entry_within(self, position: int, offset: int) -> OffsetPosition | None:
        """The last index entry at or before a byte, with an offset of at most `offset`; None if the index is
        not in memory."""
        return None if self._offset_index is None else self._offset_index.last_within(position, offset)

    def position_near(self, offset: int) -> int:
        """A lower estimate of `position_of` without reading a file; exact among the newest batches."""
        if offset >= self.next_offset:
            return self.size_bytes
        return self.start_of(offset).position if self.can_look_up(offset) else 0

    def position_of(self, offset: int) -> int:
        """The position of the batch with `offset`; the size of the segment for an offset past its end."""
        if offset >= self.next_offset:
            return self.size_bytes
        start = self.start_of(offset)
        for position, header in walk_headers(self.file, start.position, self.size_bytes):
            if header.last_offset >= offset:
                return position
        return self.size_bytes

    def close(self) -> None:
        """Close the file; running reads finish normally."""
        self.file.close()

    def retire(self) -> None:
        """Rename all files to `.deleted`, and the producer snapshot of the base offset too, unless a
        compacted segment has the same base offset; running reads continue.

        Order: the `.log` file first. Without it the segment is gone: recovery removes what a crash leaves.
        """
        assert not self.ending, "a segment is retired once"
        own = () if self.is_replaced else (names.SNAPSHOT,)
        for suffix in (*names.SEGMENT_SUFFIXES, *own):
            path = self.path_of(suffix)
            if self._files.exists(path):
                self._files.rename(path, f"{path}{names.DELETED}")
        self.ending = names.DELETED

    def remove(self) -> None:
        """Close and remove all files. Order: the indexes before the `.log` file, without which they are
        orphans."""
        self.close()
        suffixes = reversed(names.SEGMENT_SUFFIXES)
        for suffix in (names.SNAPSHOT, *suffixes) if self.ending else suffixes:
            path = self.path_of(suffix)
            if self._files.exists(path):
                self._files.remove(path)

    def _finish_indexes(self) -> None:
        if self.size_bytes and self.largest_timestamp_ms != NO_TIMESTAMP:
            self.time_index.maybe_append(self.largest_timestamp_ms, self.largest_timestamp_offset)

    def _reset(self) -> None:
        self.size_bytes = self.synced_bytes = self._bytes_since_entry = 0
        self.next_offset = self.largest_timestamp_offset = self.base_offset
        self.first_timestamp_ms = self.largest_timestamp_ms = NO_TIMESTAMP
        self._offset_index, self._time_index = OffsetIndex(self.base_offset), TimeIndex(self.base_offset)
        self._newest, self.run_ends = NewestStarts(), RunEnds()
        self.is_sealed = False

    def _replay(self, producers: ProducerStates, header: BatchHeader, data: memoryview) -> None:
        marker = read_marker(data, header) if header.is_control else None
        aborted = producers.wrote(header, header.base_offset, marker)
        if aborted is not None:
            self.note_aborted(aborted)

    def _order_fault(self, header: BatchHeader, epochs: LeaderEpochs | None, *, has_gaps: bool) -> str | None:
        if epochs is not None and 0 <= header.leader_epoch < epochs.latest_epoch:
            return f"leader epoch {header.leader_epoch} after {epochs.latest_epoch}"
        if not follows(header.base_offset, self.next_offset, has_gaps=has_gaps):
            return f"base offset {header.base_offset}, expected {self.next_offset}"
        if header.last_offset_delta < 0 or not self.can_take(header.last_offset):
            return f"last offset delta {header.last_offset_delta} in a segment from {self.base_offset}"
        return None

    def _index_fault(self, interval: int) -> str | None:
        """Why the index files cannot belong to the log file, or None. Loads both."""
        for suffix, entry_bytes in ((names.OFFSET_INDEX, 8), (names.TIME_INDEX, 12)):
            fault = index_size_fault(self._files, self.path_of(suffix), entry_bytes, self.size_bytes)
            if fault:
                return fault
        self._offset_index = self._time_index = None
        fault = self.offset_index.fault(self.size_bytes)
        if not fault and not len(self.offset_index) and self._needs_entries(interval):
            fault = "it is empty"
        if fault:
            return f"{self.path_of(names.OFFSET_INDEX)}: {fault}"
        fault = self.time_index.fault()
        if fault:
            return f"{self.path_of(names.TIME_INDEX)}: {fault}"
        if self.size_bytes and not len(self.time_index):
            return f"{self.path_of(names.TIME_INDEX)} is empty, the log has {self.size_bytes} bytes"
        return None

    def _needs_entries(self, interval: int) -> bool:
        """Whether a batch starts so far into the file that the index must have an entry."""
        if self.size_bytes <= interval:
            return False
        try:
            return any(position > interval for position, _ in walk_headers(self.file, 0, self.size_bytes))
        except CorruptMessageError:
            return True

    def _load_first_timestamp(self) -> None:
        for _, header in walk_headers(self.file, 0, self.size_bytes):
            self.first_timestamp_ms = header.max_timestamp
            break

    def _note_largest(self, header: BatchHeader) -> None:
        last = self.time_index.last
        if last.timestamp_ms > self.largest_timestamp_ms:
            self.largest_timestamp_ms, self.largest_timestamp_offset = last.timestamp_ms, last.offset
        if header.max_timestamp > self.largest_timestamp_ms:
            self.largest_timestamp_ms, self.largest_timestamp_offset = (
                header.max_timestamp,
                header.last_offset,
            )

    def _read(self, suffix: str) -> bytes:
        return read_file(self._files, self.path_of(suffix))


def follows(base_offset: int, next_offset: int, *, has_gaps: bool) -> bool:
    """Whether a batch may follow at `next_offset`: it starts there, or after a gap."""
    return base_offset == next_offset or (has_gaps and base_offset > next_offset)
