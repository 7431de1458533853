"""What a log knows of its producers and transactions, kept in step with its batches.

The state is always that of the log's end. It goes into a snapshot where a segment begins and where the log is
closed; after a crash or a cut it is that of a snapshot and the batches behind it (producer_recovery.py).
For the owner's thread. Source: Kafka UnifiedLog.java.
"""

from __future__ import annotations

import struct
from contextlib import suppress
from typing import TYPE_CHECKING

from ...protocol.errors import CorruptMessageError, KafkaStorageError, OutOfOrderSequenceNumberError
from ...protocol.model import NO_OFFSET, NO_TIMESTAMP
from ...protocol.records.codec import active_codec
from ...protocol.records.control import EndTransaction, encode_control
from ...protocol.records.header import CONTROL_BIT, LENGTH_END, read_batch_header
from ...runtime.files.file_layer import DiskFullError, sync_files
from . import names
from .append_rules import AppendInfo
from .checkpoints import CorruptFileError
from .index_files import write_index
from .lending import LentRun
from .producer_recall import recall
from .producer_recovery import load_producers, remove_snapshots, snapshot_offsets
from .producer_snapshot import format_producer_snapshot, parse_producer_snapshot
from .producer_states import read_marker
from .verification import NO_GUARD, UNCHECKED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...protocol.records.header import BatchHeader, Buffer
    from .config import LogConfig
    from .guarded_files import GuardedFiles
    from .lending import Part
    from .producer_states import ProducerStates
    from .recovery import RecoveryReport
    from .segment_list import SegmentList


_LENGTH = struct.Struct(">i")
_LENGTH_POSITION = 8


class LogProducers:
    """What `Log` inherits; the attributes are the log's.

    Invariant: of a snapshot that is named behind the log's end nothing is left on the disk.
    """

    directory: str
    config: LogConfig
    high_watermark: int
    log_start_offset: int
    producers: ProducerStates
    recovery: RecoveryReport
    _files: GuardedFiles
    _segments: SegmentList
    _has_new_names: bool
    _keeps_producers: bool
    _snapshot_offset: int  # of the newest snapshot; NO_OFFSET without one

    if TYPE_CHECKING:  # other parts of the log have it

        @property
        def log_end_offset(self) -> int: ...

    @property
    def last_stable_offset(self) -> int:
        """Every offset below it is committed, and of no transaction that is open or whose marker is not
        committed."""
        high_watermark, producers = self.high_watermark, self.producers
        if not producers.has_transactions:
            return high_watermark
        first_unstable = max(producers.first_unstable_offset(high_watermark), self.log_start_offset)
        return min(high_watermark, first_unstable)

    def aborted_between(self, offset: int, upto_offset: int) -> tuple[tuple[int, int], ...]:
        """(producer id, first offset) of the aborted transactions that have records there, by the order of
        their ends. The log's stable part alone may be asked for. Never waits for a disk."""
        found: list[tuple[int, int]] = []
        for segment in self._segments.from_offset(offset):
            if segment.aborted is not None and segment.aborted.collect(offset, upto_offset, found):
                break
        return tuple(found)

    def aborted_in(self, offset: int, data: Sequence[Part]) -> tuple[tuple[int, int], ...]:
        """As `aborted_between`, for the batches in `data`, which were read from `offset` on."""
        if all(segment.aborted is None for segment in self._segments.from_offset(offset)):
            return ()
        last = data[-1]
        end = last.next_offset if isinstance(last, LentRun) else _end_of(last)
        return self.aborted_between(offset, end)

    @property
    def has_aborted(self) -> bool:
        """Whether the log has the marker of an aborted transaction."""
        return any(segment.aborted is not None for segment in self._segments)

    def last_of_producers(self) -> dict[int, tuple[int, int]]:
        """Of each producer its epoch, and the last offset of its last batch of data in it, NO_OFFSET if there
        is none."""
        return {each.producer_id: (each.epoch, each.last_data_offset) for each in self.producers.all()}

    def take_snapshot(self, *, is_synced: bool = False) -> None:
        """Write down what is known of producers at the log's end, if that is not written yet. What a crash
        tears is known by its checksum. Errors: KafkaStorageError."""
        if self._snapshot_offset != self.log_end_offset:
            self._write_snapshot(self.log_end_offset, is_synced=is_synced)

    def _write_snapshot(self, offset: int, *, is_synced: bool) -> None:
        if not self._keeps_producers:
            return
        path = f"{self.directory}/{names.segment_name(offset, names.SNAPSHOT)}"
        write_index(self._files, path, format_producer_snapshot(self.producers.to_snapshot()))
        if is_synced:
            sync_files(self._files, [path])
        self._snapshot_offset = offset
        self._has_new_names = True

    def producers_before(self, offset: int) -> bytes:
        """The snapshot with which a log that goes on at `offset`, a start of a batch or of this log, comes to
        know the producers as this log does."""
        return format_producer_snapshot(self.producers.to_snapshot_before(offset))

    def take_producers(self, snapshot: Buffer) -> None:
        """Know these at the end of this empty log; durable on return. Errors: CorruptMessageError,
        KafkaStorageError."""
        assert self.log_end_offset == self.log_start_offset, "what is there would have to be replayed"
        try:
            self.producers.restore(parse_producer_snapshot(bytes(snapshot)))
        except CorruptFileError as error:
            raise CorruptMessageError(f"a snapshot of producers: {error}") from error
        self._snapshot_offset = NO_OFFSET
        try:
            self.take_snapshot(is_synced=True)
        except KafkaStorageError:
            self.producers.clear()
            raise

    def keep_producers_at(self, offset: int) -> None:
        """Before this empty log is restarted with the batch at `offset`, in which it starts: what is known of
        producers was so there already. Durable on return. Errors: KafkaStorageError."""
        if not self.producers.is_empty:
            self._write_snapshot(offset, is_synced=True)

    def expire_producers(self, before_ms: int) -> None:
        """See ProducerStates.expire."""
        self.producers.expire(before_ms)

    def take_last_snapshot(self) -> None:
        """At an orderly end: durable on return, unless the disk is full, which only makes the next start take
        longer. A log that never had producers needs none. Errors: KafkaStorageError."""
        if self._snapshot_offset != NO_OFFSET or not self.producers.is_empty:
            with suppress(DiskFullError):
                self.take_snapshot(is_synced=True)

    # --- cutting ------------------------------------------------------------------------------------------

    def _drop_snapshots_from(self, offset: int) -> None:
        snapshots = snapshot_offsets(self._files.listdir(self.directory))
        remove_snapshots(self._files, self.directory, [each for each in snapshots if each >= offset])
        left = [each for each in snapshots if each < offset]
        self._snapshot_offset = left[-1] if left else NO_OFFSET

    def _producers_at(self, base_offset: int) -> ProducerStates | None:
        """The producers of the log where the last segment that is left begins; None if it keeps none. Who had
        been forgotten by the end may have had a transaction open there."""
        if not self._keeps_producers:
            return None
        kept = [segment for segment in self._segments if segment.base_offset < base_offset]
        load_producers(self._files, self.directory, kept, base_offset, self.producers, self.recovery.faults)
        return self.producers

    # --- appending ----------------------------------------------------------------------------------------

    def _check_producer(
        self, batch: Buffer, header: BatchHeader, *, internal: bool, guard: int, transaction_version: int
    ) -> AppendInfo | None:
        """As ProducerStates.check, also for markers; where the batch is that this one repeats."""
        if not header.attributes & CONTROL_BIT:
            if internal and guard == NO_GUARD:
                guard = UNCHECKED  # who writes for a producer has asked, or knows better
            try:
                repeated = self.producers.check(header, is_of_client=not internal, guard=guard)
            except OutOfOrderSequenceNumberError:
                if not self._recall(header.producer_id):
                    raise
                repeated = self.producers.check(header, is_of_client=not internal, guard=guard)
            if repeated is None:
                return None
            is_append_time = self.config.message_timestamp_type == "LogAppendTime"
            time_ms = repeated.timestamp_ms if is_append_time else NO_TIMESTAMP
            return AppendInfo(repeated.first_offset, repeated.last_offset, time_ms, is_repeated=True)
        marker = read_marker(batch, header)
        if marker is not None:
            self.producers.check_marker(header, marker, transaction_version)
        return None

    def _recall(self, producer_id: int) -> bool:
        """Whether more is known now of a producer than when it was found out of order."""
        producer = self.producers.get(producer_id)
        try:
            return producer is not None and recall(producer, self._segments)
        except CorruptMessageError as error:
            self.recovery.faults.append(f"{error}; what producers wrote before is not known")
            return False

    def _wrote_of_producer(self, batch: Buffer, header: BatchHeader, base_offset: int) -> None:
        """A batch with a producer id is in the active segment."""
        marker = None
        if header.attributes & CONTROL_BIT:
            marker = read_marker(batch, header)
            # Bound: who is never read must not gather markers for ever.
            self.producers.first_unstable_offset(self.high_watermark)
        aborted = self.producers.wrote(header, base_offset, marker)
        if aborted is not None:
            self._segments.active.note_aborted(aborted)


def _end_of(data: Buffer) -> int:
    """The offset behind the whole batches in `data`."""
    position = last = 0
    while position < len(data):
        last = position
        position += LENGTH_END + _LENGTH.unpack_from(data, position + _LENGTH_POSITION)[0]
    return read_batch_header(data, last).next_offset


def encode_marker(producer_id: int, producer_epoch: int, marker: EndTransaction, wall_ms: int) -> bytes:
    """The control batch that ends a transaction."""
    builder = active_codec().builder(
        max_bytes=1024,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        is_transactional=True,
        is_control=True,
    )
    builder.append(wall_ms, *encode_control(marker))
    return builder.build()
