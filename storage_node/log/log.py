"""The log of one partition: append, truncate, roll, retention, flush and close.

`Log` holds the folder and the segments, and delegates: `reader` reads, `Flusher` brings batches to the disk,
`producers` keeps the producer state, `compaction` knows how far the log is compacted.

Threads: one owner calls everything that changes the log. Reads that wait for the disk (`reader`) and
`Flush.sync` may run on other threads meanwhile.

Durability: a batch survives the death of the process once `append_as_leader` has returned, and the loss of
power below `recovery_point`. After a disk error the log refuses appends: see guarded_files.py.
Source: Kafka UnifiedLog.java, LocalLog.java; DESIGN 3 and 5.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.errors import CorruptMessageError, InvalidRecordError
from ...protocol.model import NO_TIMESTAMP
from ...protocol.records.header import CRC_POSITION, BatchHeader, Buffer, assigned_prefix, read_batch_header
from ...runtime.files.file_layer import DiskFullError, make_directory_durably, remove_tree
from .append_rules import AppendInfo, check_client_batch, restamped
from .batches import crc_fault
from .checkpoints import NO_TOPIC_ID
from .compaction_state import CompactionState
from .flush import Flusher
from .guarded_files import guarded
from .log_reader import LogReader
from .log_start import LogStart
from .offset_index import MAX_RELATIVE_OFFSET
from .partition_folder import PartitionFolder
from .producer_state_manager import ProducerStateManager
from .recovery import recover_log
from .retention import expired_segments
from .roll_rules import must_roll
from .segment_list import SegmentList, retire_oldest_first
from .verification import NO_GUARD
from .visible_records import VisibleRecords

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ...protocol.errors import KafkaStorageError
    from ...protocol.model import TopicPartition
    from ...protocol.records.codec import BatchFacts
    from ...runtime.files.file_layer import Files
    from .config import LogConfig
    from .flush import Flush
    from .recovery import Recovered
    from .segment import Segment


class Log:
    """One partition's log. Made by `open`.

    Invariant: high_watermark <= log_end_offset. Batches are dense, unless `compaction.has_gaps`.
    """

    def __init__(
        self,
        folder: PartitionFolder,
        config: LogConfig,
        topic_partition: TopicPartition,
        recovered: Recovered,
    ) -> None:
        self.folder = folder
        self.config = config
        self.topic_partition = topic_partition
        self.topic_id = NO_TOPIC_ID
        self.recovery = recovered.report
        self.high_watermark = 0  # set by the partition; stored here because it is checkpointed
        self.on_truncate: Callable[[Log], None] | None = None
        # Without it the files of retired segments are removed at once.
        self.on_retired: Callable[[Log, Sequence[Segment]], None] | None = None
        self.epochs = recovered.epochs
        self.segments = segments = SegmentList(folder, recovered.segments)
        self.start = LogStart(recovered.log_start_offset)
        self.compaction = CompactionState(folder, recovered, is_compacted=config.is_compacted)
        self.flusher = Flusher(folder, segments, self.epochs, recovered.recovery_point)
        self.producers = ProducerStateManager(folder, segments, recovered)
        self.reader = LogReader(folder, segments, self.epochs, self.start, self.compaction)
        self.reader.index_interval_bytes = config.index_interval_bytes
        self.visible = VisibleRecords(self.log_end_offset)
        self._is_closed = False

    @classmethod
    def open(
        cls,
        files: Files,
        directory: str,
        config: LogConfig,
        *,
        topic_partition: TopicPartition,
        recovery_point: int,
        was_clean: bool,
        log_start_offset: int = 0,
        wall_ms: int,
        cleaner_offset: int | None = None,
        keeps_producers: bool = True,
    ) -> Log:
        """The log in `directory`, created if missing, recovered unless the last shutdown `was_clean`.

        The caller syncs the parent folder. `recovery_point`, `log_start_offset` and `cleaner_offset` come
        from the checkpoints; batches below the recovery point are taken to be on disk, and a log with a
        cleaner offset may have gaps. A log that only its own server writes, as the metadata log, needs no
        producer state: `keeps_producers=False`. Errors: KafkaStorageError.
        """
        folder = PartitionFolder(guarded(files), directory)
        if not folder.files.exists(directory):
            make_directory_durably(folder.files, directory)
        recovered = recover_log(
            folder,
            config,
            recovery_point=recovery_point,
            was_clean=was_clean,
            log_start_offset=log_start_offset,
            wall_ms=wall_ms,
            cleaner_offset=cleaner_offset,
            keeps_producers=keeps_producers,
        )
        log = cls(folder, config, topic_partition, recovered)
        if not was_clean:
            log.flush()
        return log

    # --- facts --------------------------------------------------------------------------------------

    @property
    def log_start_offset(self) -> int:
        return self.start.offset

    @property
    def log_end_offset(self) -> int:
        return self.segments.active.next_offset

    @property
    def recovery_point(self) -> int:
        return self.flusher.recovery_point

    @property
    def last_stable_offset(self) -> int:
        """Every offset below it is committed, and not in a transaction that is open or whose marker is not
        committed."""
        high_watermark, states = self.high_watermark, self.producers.states
        if not states.has_transactions:
            return high_watermark
        first_unstable = max(states.first_unstable_offset(high_watermark), self.log_start_offset)
        return min(high_watermark, first_unstable)

    @property
    def size_bytes(self) -> int:
        return self.segments.size_bytes

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """(epoch, exclusive end offset) of the largest epoch at or below `epoch`; (-1, -1) if unknown."""
        return self.epochs.end_offset_for(epoch, self.log_end_offset)

    @property
    def is_offline(self) -> bool:
        """The disk has failed: appends and reads are refused."""
        return self.folder.files.dir_state.failure is not None

    @property
    def full(self) -> str | None:
        """Why the disk has no room for records, or None."""
        return self.folder.files.full

    def fail(self, error: KafkaStorageError) -> None:
        """Take the log dir offline, unless the error says that its disk works."""
        self.folder.files.dir_state.fail_by(error)

    def reconfigure(self, config: LogConfig) -> None:
        self.config = config
        self.compaction.reconfigure(is_compacted=config.is_compacted)
        self.reader.index_interval_bytes = config.index_interval_bytes

    # --- append -------------------------------------------------------------------------------------

    def append_as_leader(
        self,
        batch: Buffer,
        *,
        leader_epoch: int,
        wall_ms: int,
        checked: BatchFacts | None = None,
        internal: bool = False,
        guard: int = NO_GUARD,
        transaction_version: int = 0,
    ) -> AppendInfo:
        """Append one batch, which fills `batch`: assign offsets and epoch, write once, index.

        `checked` is the result of `codec.inspect` for these bytes; without it they are inspected here.
        `internal` batches come from this server. `guard`: see verification.py; `transaction_version` is that
        of a marker. Errors: MessageTooLarge, InvalidTimestamp, InvalidRecord, CorruptMessage,
        UnsupportedCompressionType, DiskFull, those of ProducerStates.check and check_marker (nothing was
        written); KafkaStorageError (the log is offline).
        """
        config = self.config
        facts = check_client_batch(batch, config, wall_ms=wall_ms, checked=checked, internal=internal)
        header = facts.header
        has_producer = header.producer_id >= 0
        is_append_time = config.message_timestamp_type == "LogAppendTime" and not internal
        if has_producer:
            repeated = self.producers.validate(
                batch, header, internal=internal, guard=guard, transaction_version=transaction_version
            )
            if repeated is not None:
                time_ms = repeated.timestamp_ms if is_append_time else NO_TIMESTAMP
                return AppendInfo(repeated.first_offset, repeated.last_offset, time_ms, is_repeated=True)
        base_offset = self.segments.active.next_offset
        last_offset = base_offset + header.last_offset_delta
        pieces: list[Buffer] = [assigned_prefix(base_offset, header.batch_length, leader_epoch)]
        largest_ms = wall_ms if is_append_time else facts.max_timestamp
        if is_append_time or largest_ms != header.max_timestamp:
            # Some clients write a wrong max timestamp into the header; the time index relies on it.
            pieces += restamped(batch, header, largest_ms, is_append_time=is_append_time)
            header = header._replace(max_timestamp=largest_ms)
        else:
            pieces.append(memoryview(batch)[CRC_POSITION:])
        self._append(pieces, header, base_offset, last_offset, wall_ms)
        if leader_epoch != self.epochs.latest_epoch:
            self.epochs.assign(leader_epoch, base_offset)
        if has_producer:
            self.producers.update(batch, header, base_offset, self.high_watermark)
            self.visible.appended(header, last_offset)
        return AppendInfo(base_offset, last_offset, wall_ms if is_append_time else NO_TIMESTAMP)

    def append_as_follower(self, data: Buffer, *, wall_ms: int = 0, is_dense: bool = False) -> None:
        """Append the whole batches in `data` as the leader wrote them, offsets and epochs included. The
        leader's log may be compacted, so that a batch starts after the log end offset, unless it `is_dense`.

        Errors: CorruptMessage for a batch that is cut short or damaged; InvalidRecord for a batch below the
        log end offset, or so far above it that no segment can hold both; DiskFull. Batches before that one
        are in the log.
        """
        view = memoryview(data)
        position = 0
        while position < len(view):
            header = read_batch_header(view, position)
            batch = view[position : position + header.size_bytes]
            fault = crc_fault(batch, header) if len(batch) == header.size_bytes else "it is cut short"
            if fault:
                raise CorruptMessageError(f"the batch at offset {header.base_offset}: {fault}")
            end_offset = self.segments.active.next_offset
            gap = header.base_offset - end_offset
            largest = 0 if is_dense else MAX_RELATIVE_OFFSET - header.last_offset_delta
            if not 0 <= gap <= largest or header.last_offset_delta < 0:
                raise InvalidRecordError(
                    f"a batch at offset {header.base_offset}, {self.topic_partition} ends at {end_offset}"
                )
            if gap:
                self.compaction.mark_gaps()
            self._append([batch], header, header.base_offset, header.last_offset, wall_ms)
            if header.leader_epoch > self.epochs.latest_epoch:
                self.epochs.assign(header.leader_epoch, header.base_offset)
            if header.producer_id >= 0:
                self.producers.update(batch, header, header.base_offset, self.high_watermark)
            self.visible.appended(header, header.last_offset)
            position += header.size_bytes

    def assign_leader_epoch(self, epoch: int) -> None:
        """Start `epoch` at the log end offset. The next flush writes it to the leader-epoch-checkpoint."""
        self.epochs.assign(epoch, self.log_end_offset)

    def restore_producers(self, snapshot: Buffer) -> None:
        """See ProducerStateManager.restore; the log must be empty."""
        assert self.log_end_offset == self.log_start_offset, "batches in the log would have to be replayed"
        self.producers.restore(snapshot)

    def adopt_state(self, other: Log) -> None:
        """Copy everything but the batches from `other`, whose batches this log has: epochs, start offsets,
        high watermark, cleaner offset, config and producer state."""
        self.epochs.copy_from(other.epochs)
        self.advance_log_start_offset(other.log_start_offset)
        self.request_start_offset(other.start.pending_offset)
        self.high_watermark = other.high_watermark
        self.compaction.cleaner_offset = other.compaction.cleaner_offset
        self.reconfigure(other.config)
        self.producers.adopt(other.producers)

    def roll(self, wall_ms: int = 0) -> None:
        """Seal the active segment and create a new one, unless the active segment is empty. Errors:
        DiskFullError, and the active segment stays."""
        if self.segments.active.size_bytes:
            self.producers.take_snapshot()  # Order: first, so that a full disk has changed nothing
            size = self.config.segment_bytes if self.config.preallocate else 0
            self.segments.roll(wall_ms, preallocate_bytes=size)

    # --- start offset and retention -----------------------------------------------------------------

    def request_start_offset(self, offset: int) -> bool:
        return self.start.request(offset, self.log_end_offset)

    def advance_log_start_offset(self, offset: int) -> None:
        """Hide records below `offset` from readers; never moves back. Errors: as `request_start_offset`."""
        self.request_start_offset(offset)
        if offset > self.log_start_offset:
            self.start.offset = offset
            self.reader.drop_below(offset)
            self.epochs.truncate_from_start(offset)

    def expire(self, wall_ms: int) -> bool:
        """Request the start offset that retention allows, after rolling the active segment if it has expired
        too; False if nothing more has expired. Errors: KafkaStorageError."""
        found = expired_segments(
            list(self.segments),
            self.config,
            log_start_offset=self.log_start_offset,
            high_watermark=self.high_watermark,
            wall_ms=wall_ms,
        )
        start_offset = found.start_offset
        if start_offset > self.log_end_offset:
            return False  # the log starts inside a batch that it does not have yet
        if found.must_roll:
            try:
                self.roll(wall_ms)
            except DiskFullError:  # the sealed segments are deleted all the same: that frees space
                start_offset = min(start_offset, self.segments.active.base_offset)
        return self.request_start_offset(start_offset)

    @property
    def has_dropped_segments(self) -> bool:
        """Whether segments have left the log whose files no flush has renamed yet."""
        return bool(self.flusher.dropped)

    def drop_segments_below(self, offset: int, limit: int | None = None) -> int:
        """Drop the segments that hold nothing at or above `offset`, at most `limit` and never the active one;
        their number. The log then starts with its first segment. The next flush renames the files."""
        count = self.segments.count_below(offset)
        count = count if limit is None else min(count, limit)
        if count:
            self.flusher.drop(self.segments.drop_first(count))
            self.advance_log_start_offset(self.segments.first_base_offset)
        return count

    def delete_segments_below(self, offset: int) -> int:
        """As `drop_segments_below`; the files are renamed here."""
        assert not self.flusher.is_running, "deletion must not overtake a flush"
        count = self.drop_segments_below(offset)
        dropped = self.flusher.take_dropped()
        if dropped:
            retire_oldest_first(self.folder.files, self.folder.path, dropped)
            self.delete_retired(dropped)
        return count

    def delete_retired(self, segments: Sequence[Segment]) -> None:
        """Delete the files of segments that have left the log and were renamed to `.deleted`; `on_retired`
        does it after file.delete.delay.ms."""
        if self.on_retired is not None:
            self.on_retired(self, segments)
        else:
            for segment in segments:
                segment.remove()

    def replace_segments(self, old: list[Segment], new: Segment) -> None:
        """Serve the compacted segment `new` in place of `old`; reads of an old segment finish normally."""
        assert self.segments.replace_some(old, new), "a segment left the log while it was compacted"
        self.reader.replaced_below(new.next_offset)
        self.visible.replaced_below(new.next_offset)

    # --- flush --------------------------------------------------------------------------------------

    def start_flush(self) -> Flush | None:
        return self.flusher.start()

    def finish_flush(self, flush: Flush) -> None:
        """Move the recovery point after `flush.sync()` has returned."""
        self.delete_retired(self.flusher.finish(flush))

    def flush(self) -> None:
        """Bring everything to the disk, and move the recovery point to the log end offset. Errors:
        KafkaStorageError."""
        self.folder.files.dir_state.check()
        self.delete_retired(self.flusher.flush())

    # --- truncate -----------------------------------------------------------------------------------

    def truncate_to(self, offset: int) -> None:
        """Remove everything from the batch with `offset` on; durable on return."""
        assert not self.flusher.is_running, "truncation must not overtake a flush"
        if offset >= self.log_end_offset:
            # An epoch that started here and wrote nothing may contradict the leader's history (KAFKA-10706).
            self.epochs.truncate_from_end(offset)
            return
        if offset <= self.log_start_offset:
            self.truncate_fully_and_start_at(offset)
            return
        self.reader.invalidate()
        self.producers.delete_snapshots_from(offset)
        self.delete_retired(self.segments.truncate_to(offset))
        active = self.segments.active
        active.recover(
            self.config.index_interval_bytes,
            end_offset=offset,
            has_gaps=self.compaction.has_gaps,
            producers=self.producers.reload(active.base_offset),
        )
        active.cut()
        self._after_truncation()

    def truncate_fully_and_start_at(self, offset: int, log_start_offset: int | None = None) -> None:
        """Remove everything and continue at `offset`, which becomes the log start offset. If an empty log
        starts inside the next batch, its `log_start_offset` is given: it keeps its producer state."""
        assert not self.flusher.is_running, "truncation must not overtake a flush"
        self.reader.invalidate()
        if log_start_offset is None:
            self.producers.delete_snapshots_from(0)
            self.producers.states.clear()
        else:
            if self.on_truncate is not None:
                # Order: the start offset is on disk before a segment that does not show it.
                self.on_truncate(self)
            self.producers.delete_snapshots_from(offset + 1)
        self.delete_retired(self.segments.restart(offset, self.flusher.take_dropped()))
        self.recovery.has_loss = False
        self.start.offset = offset if log_start_offset is None else log_start_offset
        # An epoch that started before `offset` would be taken for the epoch of the next batch.
        self.epochs.truncate_from_end(0)
        self._after_truncation()

    def _after_truncation(self) -> None:
        end_offset = self.log_end_offset
        self.visible.truncated(end_offset)
        self.epochs.truncate_from_end(end_offset)
        self.high_watermark = min(self.high_watermark, end_offset)
        self.flusher.truncated()
        self.compaction.truncated(end_offset)
        self.start.truncated(end_offset)
        if self.on_truncate is not None:
            self.on_truncate(self)

    # --- close --------------------------------------------------------------------------------------

    def close(self) -> None:
        """Write the files that a clean start relies on, flush, and close the files. Running reads finish
        normally. Errors: KafkaStorageError; the files are closed all the same."""
        if self._is_closed:
            return
        self._is_closed = True
        self.reader.drop_tail()
        try:
            if not self.is_offline:
                assert not self.flusher.is_running, "closing must not overtake a flush"
                if self.segments.active.size_bytes:
                    self.segments.active.seal()
                    self.folder.has_unsynced_names = True
                self.producers.take_last_snapshot()
                self.flush()
        finally:
            self._close_files()

    def close_abruptly(self) -> None:
        """Close the files and leave the folder as after a crash."""
        self._is_closed = True
        self.reader.drop_tail()
        self._close_files()

    def delete(self) -> None:
        self.close_abruptly()
        remove_tree(self.folder.files, self.folder.path)

    def moved_to(self, directory: str) -> None:
        self.folder.path = directory
        for segment in (*self.flusher.dropped, *self.segments):
            segment.directory = directory

    def check(self) -> None:
        """Assert every invariant."""
        end_offset = self.log_end_offset
        assert self.high_watermark <= max(end_offset, self.log_start_offset), "committed beyond the log end"
        self.start.check()
        self.segments.check()
        self.epochs.check(max(end_offset, self.log_start_offset))
        self.flusher.check()
        self.compaction.check(end_offset)
        self.producers.check()
        self.reader.check()

    # --- inside -------------------------------------------------------------------------------------

    def _append(
        self, pieces: list[Buffer], header: BatchHeader, base_offset: int, last_offset: int, wall_ms: int
    ) -> None:
        self.folder.files.check_room()
        segment = self.segments.active
        if must_roll(segment, header, last_offset, self.config, self.topic_partition, wall_ms):
            self.roll(wall_ms)
            segment = self.segments.active
        size = segment.append(pieces, header, base_offset, last_offset, self.config.index_interval_bytes)
        if self.reader.tail is not None:
            self.reader.tail.add(base_offset, last_offset + 1, pieces, size)

    def _close_files(self) -> None:
        for segment in (*self.flusher.unretired_segments, *self.segments):
            segment.close()
