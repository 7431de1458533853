"""The log of one partition: append, read, look up, truncate, flush; always the owner of its folder.

Threads: one owner calls everything that changes the log. `read`, `offset_for_timestamp`,
`max_timestamp_offset` and `bytes_between` may run on other threads meanwhile, and so may `Flush.sync`.

Durability: bytes survive the death of the process once `append_as_leader` returned, and the loss of power
below `recovery_point`. After an error of the disk nothing is taken any more: see guarded_files.py.
Source: Kafka UnifiedLog.java, LocalLog.java; DESIGN 3 and 5.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.errors import CorruptMessageError, InvalidRecordError, KafkaStorageError
from ...protocol.model import NO_EPOCH, NO_OFFSET, NO_TIMESTAMP
from ...protocol.records.header import (
    CRC_POSITION,
    BatchHeader,
    Buffer,
    assigned_prefix,
    read_batch_header,
)
from ...runtime.files.file_layer import DiskFullError, make_directory_durably, remove_tree
from .append_rules import AppendInfo, check_client_batch, restamped
from .batches import crc_fault
from .checkpoints import NO_TOPIC_ID
from .guarded_files import GuardedFiles, guarded
from .leader_epochs import LeaderEpochs
from .lending import Lendings
from .log_cleaning import LogCleaning
from .log_flushing import LogFlushing
from .log_producers import LogProducers
from .log_start import LogStart
from .offset_index import MAX_RELATIVE_OFFSET
from .producer_states import ProducerStates
from .recovery import RecoveryReport, recover_log
from .retention import expired_segments
from .roll_rules import must_roll
from .segment import Segment
from .segment_list import SegmentList, retire_newest_first
from .verification import NO_GUARD

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ...protocol.model import TopicPartition
    from ...protocol.records.codec import BatchFacts
    from ...runtime.files.file_layer import Files
    from .config import LogConfig
    from .flush import Flush
    from .log_cleaning import Abortable
    from .tail_cache import Tail


class Log(LogStart, LogCleaning, LogFlushing, LogProducers):
    """One partition's log. Made by `open`.

    Invariant: log_start_offset <= recovery_point <= log_end_offset, or the recovery point is below the start.
    Invariant: segments are dense: each starts where the one before ends; the last one is active. Batches are
    dense too, unless it `has_gaps`.
    """

    def __init__(
        self, files: GuardedFiles, directory: str, config: LogConfig, topic_partition: TopicPartition
    ) -> None:
        self._files = files
        self.directory = directory
        self.config = config
        self.topic_partition = topic_partition
        self.topic_id = NO_TOPIC_ID
        self.log_start_offset = 0
        self.wanted_start_offset = 0  # at or above the start: what the next checkpoint is to say
        self.high_watermark = 0  # set by the partition that owns the log; kept here to be checkpointed
        self.recovery_point = 0
        self.recovery = RecoveryReport()
        self.on_truncate: Callable[[Log], None] | None = None
        self._is_marked = False
        self.has_gaps = config.is_compacted
        self.cleaner_offset: int | None = None
        self.cleaning: Abortable | None = None
        # Without it the files of segments that have left the log are removed at once.
        self.on_retired: Callable[[LogStart, Sequence[Segment]], None] | None = None
        self.producers = ProducerStates()
        self._keeps_producers = True
        self._snapshot_offset = NO_OFFSET
        self.tail: Tail | None = None  # set by who wants the newest batches kept in memory
        self.lendings = Lendings()
        self.cuts = 0  # truncations and cleanings so far: what was read before may be of the log no more
        self._flush: Flush | None = None
        self._dropped: list[Segment] = []  # forgotten already; their names go with the next flush
        self._has_new_names = True
        self._has_new_epochs = False
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
        """The log in `directory`, made if missing, recovered if the last end of it `was_clean` not.

        That the name of a folder that exists survives the loss of power is the caller's business.
        `recovery_point`, `log_start_offset` and `cleaner_offset` come from the checkpoints; offsets below the
        recovery point are taken to be on the disk, and who has a cleaner offset may have gaps. A log that
        only its own server writes `keeps_producers` not. Errors: KafkaStorageError.
        """
        log = cls(guarded(files), directory, config, topic_partition)
        if not log._files.exists(directory):
            make_directory_durably(log._files, directory)
        found = recover_log(
            log._files,
            directory,
            config,
            recovery_point=recovery_point,
            was_clean=was_clean,
            log_start_offset=log_start_offset,
            wall_ms=wall_ms,
            may_have_gaps=cleaner_offset is not None,
            keeps_producers=keeps_producers,
        )
        log._segments = SegmentList(found.segments)
        log._epochs = found.epochs
        log.producers, log._snapshot_offset = found.producers, found.snapshot_offset
        log._keeps_producers = keeps_producers
        log.recovery = found.report
        log._is_marked = found.has_gaps
        log.has_gaps |= found.has_gaps
        log.log_start_offset = max(log_start_offset, found.segments[0].base_offset)
        log.wanted_start_offset = log.log_start_offset
        log.recovery_point = min(recovery_point, log.log_end_offset)
        log.cleaner_offset = cleaner_offset
        log.forget_cleaned(log.log_end_offset)
        if log.recovery_point < recovery_point:
            log.recovery.faults.append(
                f"{directory}: up to {recovery_point} was flushed, the log ends at {log.recovery_point}"
            )
        if not was_clean:
            log._has_new_epochs = True
            log.flush()
        return log

    # --- facts --------------------------------------------------------------------------------------

    @property
    def log_dir(self) -> str:
        """The log dir that the partition's folder lies in."""
        return self.directory.rpartition("/")[0]

    @property
    def size_bytes(self) -> int:
        """Bytes of all batches on disk."""
        return self._segments.size_bytes

    @property
    def segment_count(self) -> int:
        """Segments, the active one included."""
        return len(self._segments)

    @property
    def oldest_epoch(self) -> int:
        """The oldest leader epoch in the log, -1 when there is none."""
        return self._epochs.entries[0].epoch if self._epochs.entries else NO_EPOCH

    @property
    def latest_epoch(self) -> int:
        """The newest leader epoch in the log, -1 when there is none."""
        return self._epochs.latest_epoch

    @property
    def is_offline(self) -> bool:
        """Whether the disk below failed; nothing is taken or given any more."""
        return self._files.fuse.failure is not None

    @property
    def full(self) -> str | None:
        """Why there is no room for records now, in words, or None."""
        room = self._files.room
        return None if room is None else room.full

    def fail(self, error: KafkaStorageError) -> None:
        """Take the log dir offline, unless the error says that its disk is fine."""
        self._files.fuse.blow_by(error)

    def reconfigure(self, config: LogConfig) -> None:
        """Take new values for the topic's keys; they hold from the next append on."""
        self.config = config
        self.has_gaps = self._is_marked or config.is_compacted

    # --- write --------------------------------------------------------------------------------------

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
        """Append the one batch that fills `batch`: assign offsets and epoch, write once, index.

        `checked` is what `codec.inspect` gave for these bytes; without it they are inspected here. `internal`
        batches come from this server. `guard`: see verification.py; the version is that of a marker.
        Errors: MessageTooLarge, InvalidTimestamp, InvalidRecord, CorruptMessage,
        UnsupportedCompressionType, DiskFull, those of ProducerStates.check and check_marker (nothing was
        written); KafkaStorageError (the log is offline).
        """
        config = self.config
        facts = check_client_batch(batch, config, wall_ms=wall_ms, checked=checked, internal=internal)
        header = facts.header
        has_producer = header.producer_id >= 0
        if has_producer:
            repeated = self._check_producer(
                batch, header, internal=internal, guard=guard, transaction_version=transaction_version
            )
            if repeated is not None:
                return repeated
        base_offset = self._segments.active.next_offset
        last_offset = base_offset + header.last_offset_delta
        pieces: list[Buffer] = [assigned_prefix(base_offset, header.batch_length, leader_epoch)]
        is_append_time = config.message_timestamp_type == "LogAppendTime" and not internal
        largest_ms = wall_ms if is_append_time else facts.max_timestamp
        if is_append_time or largest_ms != header.max_timestamp:
            # Some clients leave the header's max timestamp wrong; the time index relies on it.
            pieces += restamped(batch, header, largest_ms, is_append_time=is_append_time)
            header = header._replace(max_timestamp=largest_ms)
        else:
            pieces.append(memoryview(batch)[CRC_POSITION:])
        self._append(pieces, header, base_offset, last_offset, wall_ms)
        if leader_epoch != self._epochs.latest_epoch:
            self._note_epoch(leader_epoch, base_offset)
        if has_producer:
            self._wrote_of_producer(batch, header, base_offset)
        return AppendInfo(base_offset, last_offset, wall_ms if is_append_time else NO_TIMESTAMP)

    def append_as_follower(self, data: Buffer, *, wall_ms: int = 0, is_dense: bool = False) -> None:
        """Append the whole batches in `data` as the leader wrote them, offsets and epochs included. They may
        lie behind the log's end, unless it `is_dense`: the leader's has been compacted.

        Errors: CorruptMessage for a batch cut short or damaged, InvalidRecord for one below the log's end, or
        so far behind it that no segment can hold both, DiskFull; batches before it are in the log.
        """
        view = memoryview(data)
        position = 0
        while position < len(view):
            header = read_batch_header(view, position)
            batch = view[position : position + header.size_bytes]
            fault = crc_fault(batch, header) if len(batch) == header.size_bytes else "it is cut short"
            if fault:
                raise CorruptMessageError(f"the batch at offset {header.base_offset}: {fault}")
            gap = header.base_offset - self.log_end_offset
            largest = 0 if is_dense else MAX_RELATIVE_OFFSET - header.last_offset_delta
            if not 0 <= gap <= largest or header.last_offset_delta < 0:
                raise InvalidRecordError(
                    f"a batch at offset {header.base_offset}, the log of {self.topic_partition} "
                    f"ends at {self.log_end_offset}"
                )
            if gap:
                self.note_gaps()
            self._append([batch], header, header.base_offset, header.last_offset, wall_ms)
            if header.leader_epoch > self._epochs.latest_epoch:
                self._note_epoch(header.leader_epoch, header.base_offset)
            if header.producer_id >= 0:
                self._wrote_of_producer(batch, header, header.base_offset)
            position += header.size_bytes

    def assign_leader_epoch(self, epoch: int) -> None:
        """Begin `epoch` at the log end offset. It is written to the epoch file by the next flush."""
        self._note_epoch(epoch, self.log_end_offset)

    def succeed(self, other: Log) -> None:
        """Be as `other`, whose batches this log has: its epochs, start, watermark, config, producers, and how
        far it is clean. A start that it wants only, it wants still."""
        self._epochs = LeaderEpochs(list(other._epochs.entries))
        self._has_new_epochs = True
        self.advance_log_start_offset(other.log_start_offset)
        self.want_start(other.wanted_start_offset)
        self.high_watermark = other.high_watermark
        self.cleaner_offset = other.cleaner_offset
        self.reconfigure(other.config)
        self.producers, self._snapshot_offset = other.producers, NO_OFFSET
        self.take_snapshot()

    def roll(self, wall_ms: int = 0) -> None:
        """Seal the active segment and start a new one; nothing happens while the active one is empty, nor
        when there is no room (DiskFullError)."""
        active = self._segments.active
        if not active.size_bytes:
            return
        self.take_snapshot()  # Order: first, so that a full disk has changed nothing
        active.seal()
        size = self.config.segment_bytes if self.config.preallocate else 0
        self._has_new_names = True
        try:
            segment = Segment.create(
                self._files, self.directory, active.next_offset, created_ms=wall_ms, preallocate_bytes=size
            )
        except DiskFullError:
            active.reopen()
            raise
        self._segments.append(segment)

    # --- shorten ------------------------------------------------------------------------------------

    def truncate_to(self, offset: int) -> None:
        """Forget everything from the batch that holds `offset` on. It is on the disk when this returns."""
        assert self._flush is None, "truncation must not overtake a flush"
        if offset >= self.log_end_offset:
            # An epoch that began here and wrote nothing may contradict the leader's history (KAFKA-10706).
            self._has_new_epochs |= self._epochs.truncate_from_end(offset)
            return
        if offset <= self.log_start_offset:
            self.truncate_fully_and_start_at(offset)
            return
        self._forget_tail()
        # Order: no snapshot may be left of an offset that will be written anew; the folder is synced below.
        self._drop_snapshots_from(offset)
        segments = list(self._segments)
        keep = self._segments.count_below(offset - 1) + 1
        self._segments.replace(segments[:keep])
        self._has_new_names = True
        retire_newest_first(self._files, self.directory, segments[keep:])
        self.hand_over(segments[keep:])
        active = self._segments.active
        active.recover(
            self.config.index_interval_bytes,
            end_offset=offset,
            has_gaps=self.has_gaps,
            producers=self._producers_at(active.base_offset),
        )
        active.cut()
        self._after_truncation()

    def truncate_fully_and_start_at(self, offset: int, log_start_offset: int | None = None) -> None:
        """Forget everything and go on at `offset`, which becomes the log start offset, unless that is named:
        it may lie inside the batch that comes next. Then the log was empty, and knows its producers still."""
        assert self._flush is None, "truncation must not overtake a flush"
        self._forget_tail()
        if log_start_offset is not None and self.on_truncate is not None:
            self.on_truncate(self)  # Order: the start is on the disk before a segment that does not tell it
        if log_start_offset is None:
            self._drop_snapshots_from(0)
            self.producers.clear()
        else:
            self._drop_snapshots_from(offset + 1)
        # Order: nothing that goes later may have the name of the new segment.
        gone = [*self._dropped, *self._segments]
        retire_newest_first(self._files, self.directory, gone)
        self._dropped = []
        self._segments.replace([Segment.create(self._files, self.directory, offset, created_ms=0)])
        self.hand_over(gone)
        self._has_new_names = True
        self.recovery.has_loss = False
        self.log_start_offset = offset if log_start_offset is None else log_start_offset
        # An epoch that began before `offset` would be taken for that of what comes next.
        self._has_new_epochs |= self._epochs.truncate_from_end(0)
        self._after_truncation()

    def expire(self, wall_ms: int) -> bool:
        """Want the log to start behind the segments that retention lets go, the active one rolled if it is
        among them; False if there are none, or that is wanted already. Errors: KafkaStorageError.
        """
        found = expired_segments(
            list(self._segments),
            self.config,
            log_start_offset=self.log_start_offset,
            high_watermark=self.high_watermark,
            wall_ms=wall_ms,
        )
        start_offset = found.start_offset
        if start_offset > self.log_end_offset:
            return False  # it begins inside a batch that it does not have yet
        if found.must_roll:
            try:
                self.roll(wall_ms)
            except DiskFullError:  # what is sealed goes all the same: that makes room
                start_offset = min(start_offset, self._segments.active.base_offset)
        return self.want_start(start_offset)

    # --- end ----------------------------------------------------------------------------------------

    def close(self) -> None:
        """Write what a clean start relies on, flush, and let go of the files. Readers under way end normally.

        Errors: KafkaStorageError; the files are let go of all the same.
        """
        if self._is_closed:
            return
        self._is_closed = True
        self.drop_tail()
        try:
            if not self.is_offline:
                assert self._flush is None, "closing must not overtake a flush"
                self._seal_for_close()
        finally:
            self._close_files()

    def close_abruptly(self) -> None:
        """Let go of the files and leave the folder as after a crash."""
        self._is_closed = True
        self.drop_tail()
        self._close_files()

    def drop_tail(self) -> None:
        """Keep nothing in memory any more."""
        tail, self.tail = self.tail, None
        if tail is not None:
            tail.clear()

    def moved_to(self, directory: str) -> None:
        """The folder got another name; open files go with it."""
        self.directory = directory
        for segment in (*self._dropped, *self._segments):
            segment.directory = directory

    def delete(self) -> None:
        """Close and remove the folder with everything in it."""
        self.close_abruptly()
        remove_tree(self._files, self.directory)

    # --- inside -------------------------------------------------------------------------------------

    def _append(
        self, pieces: list[Buffer], header: BatchHeader, base_offset: int, last_offset: int, wall_ms: int
    ) -> None:
        room = self._files.room
        if room is not None and room.full is not None:
            room.check()
        segment = self._segments.active
        if must_roll(segment, header, last_offset, self.config, self.topic_partition, wall_ms):
            self.roll(wall_ms)
            segment = self._segments.active
        size = segment.append(pieces, header, base_offset, last_offset, self.config.index_interval_bytes)
        if self.tail is not None:
            self.tail.add(base_offset, last_offset + 1, pieces, size)

    def _note_epoch(self, epoch: int, start_offset: int) -> None:
        if epoch >= 0 and self._epochs.assign(epoch, start_offset):
            self._has_new_epochs = True

    def _forget_tail(self) -> None:
        """Order: before anything of the log goes, so that it is never read from memory after that, nor sent
        from a file."""
        self.cuts += 1
        self.lendings.revoke_all()
        if self.tail is not None:
            self.tail.clear()

    def _after_truncation(self) -> None:
        end_offset = self.log_end_offset
        self._has_new_epochs |= self._epochs.truncate_from_end(end_offset)
        self.high_watermark = min(self.high_watermark, end_offset)
        self.recovery_point = min(self.recovery_point, end_offset)
        self.forget_cleaned(end_offset)
        self.wanted_start_offset = max(self.log_start_offset, min(self.wanted_start_offset, end_offset))
        if self.on_truncate is not None:
            self.on_truncate(self)

    def _close_files(self) -> None:
        unfinished = self._flush.dropped if self._flush is not None else ()
        for segment in (*unfinished, *self._dropped, *self._segments):
            segment.close()

    def _seal_for_close(self) -> None:
        if self._segments.active.size_bytes:
            self._segments.active.seal()
            self._has_new_names = True
        self.take_last_snapshot()
        self.flush()
