"""The producer state of one log, kept in step with its batches, and its snapshots on disk.

The state is always that of the log end offset. A snapshot is written when a segment is rolled and when the
log is closed; after a crash or a truncation the state is rebuilt from a snapshot and the batches behind it
(producer_recovery.py). For the owner's thread. Source: Kafka ProducerStateManager.java, UnifiedLog.java.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from ...protocol.errors import CorruptMessageError, KafkaStorageError, OutOfOrderSequenceNumberError
from ...protocol.model import NO_OFFSET
from ...protocol.records.header import CONTROL_BIT
from ...runtime.files.file_layer import DiskFullError, sync_files
from . import names
from .checkpoints import CorruptFileError
from .index_files import write_index
from .markers import read_marker
from .producer_recall import recall
from .producer_recovery import load_producers, remove_snapshots, snapshot_offsets
from .producer_snapshot import format_producer_snapshot, parse_producer_snapshot
from .verification import NO_GUARD, UNCHECKED

if TYPE_CHECKING:
    from ...protocol.records.header import BatchHeader, Buffer
    from .partition_folder import PartitionFolder
    from .producer_snapshot import ProducerState
    from .producer_state import WrittenBatch
    from .producer_states import ProducerStates
    from .recovery import Recovered
    from .segment_list import SegmentList


class ProducerStateManager:
    """Invariant: no snapshot on disk is named after an offset above the log end offset."""

    def __init__(self, folder: PartitionFolder, segments: SegmentList, recovered: Recovered) -> None:
        self._folder = folder
        self._segments = segments
        self.states = recovered.producers
        self._snapshot_offset = recovered.snapshot_offset  # of the newest snapshot; NO_OFFSET without one
        self._faults = recovered.report.faults
        self._is_enabled = recovered.keeps_producers

    # --- appends ----------------------------------------------------------------------------------------

    def validate(
        self, batch: Buffer, header: BatchHeader, *, internal: bool, guard: int, transaction_version: int
    ) -> WrittenBatch | None:
        """As ProducerStates.check, for markers too; the earlier batch that this batch duplicates, or None."""
        if header.attributes & CONTROL_BIT:
            marker = read_marker(batch, header)
            if marker is not None:
                self.states.check_marker(header, marker, transaction_version)
            return None
        if internal and guard == NO_GUARD:
            guard = UNCHECKED  # a coordinator that writes for a producer has verified the transaction
        try:
            return self.states.check(header, is_of_client=not internal, guard=guard)
        except OutOfOrderSequenceNumberError:
            if not self._recall(header.producer_id):
                raise
            return self.states.check(header, is_of_client=not internal, guard=guard)

    def _recall(self, producer_id: int) -> bool:
        """Whether more batches of the producer are known now than when the sequence was out of order."""
        producer = self.states.get(producer_id)
        try:
            return producer is not None and recall(producer, self._segments)
        except CorruptMessageError as error:
            self._faults.append(f"{error}; earlier batches of producers are not known")
            return False

    def update(self, batch: Buffer, header: BatchHeader, base_offset: int, high_watermark: int) -> None:
        """A batch with a producer id was appended to the active segment."""
        marker = None
        if header.attributes & CONTROL_BIT:
            marker = read_marker(batch, header)
            # Bound: a log that is never read must not gather completed transactions for ever.
            self.states.first_unstable_offset(high_watermark)
        aborted = self.states.wrote(header, base_offset, marker)
        if aborted is not None:
            self._segments.active.note_aborted(aborted)

    def last_batches(self) -> dict[int, tuple[int, int]]:
        """By producer id: its epoch, and the last offset of its last data batch in it or NO_OFFSET."""
        return {each.producer_id: (each.epoch, each.last_data_offset) for each in self.states.all()}

    # --- snapshots --------------------------------------------------------------------------------------

    def take_snapshot(self, *, is_synced: bool = False) -> None:
        """Write a snapshot of the log end offset, unless there is one. A torn snapshot is recognised by its
        checksum. Errors: KafkaStorageError."""
        end_offset = self._segments.active.next_offset
        if self._snapshot_offset != end_offset:
            self._write(end_offset, self.states.to_snapshot(), is_synced=is_synced)

    def take_last_snapshot(self) -> None:
        """For a clean shutdown: durable on return, unless the disk is full, which makes the next start
        slower. A log without producers needs no snapshot. Errors: KafkaStorageError."""
        if self._snapshot_offset != NO_OFFSET or not self.states.is_empty:
            with suppress(DiskFullError):
                self.take_snapshot(is_synced=True)

    def snapshot_before(self, offset: int) -> bytes:
        """The snapshot for a follower whose log starts at `offset`, the start of a batch or of this log."""
        return format_producer_snapshot(self.states.to_snapshot_before(offset))

    def restore(self, snapshot: Buffer) -> None:
        """Load the leader's snapshot into this empty log; durable on return. Errors: CorruptMessageError,
        KafkaStorageError."""
        try:
            self.states.restore(parse_producer_snapshot(bytes(snapshot)))
        except CorruptFileError as error:
            raise CorruptMessageError(f"producer snapshot of the leader: {error}") from error
        self._snapshot_offset = NO_OFFSET
        try:
            self.take_snapshot(is_synced=True)
        except KafkaStorageError:
            self.states.clear()
            raise

    def move_snapshot_to(self, offset: int) -> None:
        """Before this empty log restarts with the batch at `offset`, inside which the log starts: the
        producers are the same there. Durable on return. Errors: KafkaStorageError."""
        if not self.states.is_empty:
            self._write(offset, self.states.to_snapshot(), is_synced=True)

    def adopt(self, other: ProducerStateManager) -> None:
        """Take the states of a log with the same batches. Its batches may have been deleted since: from its
        first segment on, this log recovers the states with a snapshot, durable on return. Errors:
        KafkaStorageError."""
        self.delete_snapshots_from(0)  # of the batches in this log alone
        self.states = other.states
        first = self._segments.first_base_offset
        self._write(first, self.states.to_snapshot_before(first), is_synced=True)

    def _write(self, offset: int, states: list[ProducerState], *, is_synced: bool) -> None:
        if not self._is_enabled:
            return
        folder = self._folder
        path = folder.file(names.segment_name(offset, names.SNAPSHOT))
        write_index(folder.files, path, format_producer_snapshot(states))
        if is_synced:
            sync_files(folder.files, [path])
        self._snapshot_offset = offset
        folder.has_unsynced_names = True

    # --- truncation -------------------------------------------------------------------------------------

    def delete_snapshots_from(self, offset: int) -> None:
        """Order: before other batches are written at these offsets; the caller syncs the folder."""
        snapshots = snapshot_offsets(self._folder)
        remove_snapshots(self._folder, [each for each in snapshots if each >= offset])
        left = [each for each in snapshots if each < offset]
        self._snapshot_offset = left[-1] if left else NO_OFFSET

    def reload(self, upto_offset: int) -> ProducerStates | None:
        """Rebuild the states of `upto_offset`, the base offset of a segment; None if the log keeps none. A
        producer that was forgotten since may have a transaction open there."""
        if not self._is_enabled:
            return None
        kept = [segment for segment in self._segments if segment.base_offset < upto_offset]
        load_producers(self._folder, kept, upto_offset, self.states, self._faults)
        return self.states

    def check(self) -> None:
        assert self._snapshot_offset <= self._segments.active.next_offset, "a snapshot above the log end"
        self.states.check_invariants(self._segments.active.next_offset)
