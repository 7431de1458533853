"""The metadata log of one controller: batches in, committed records and snapshots out.

Shape on disk, in `__cluster_metadata-0/`: the segments of an ordinary log, one record batch per decision,
with the controller epoch as leader epoch; snapshots; `quorum-state`; and in
`recovery-point-offset-checkpoint` the durable end: a log that can be read only up to an earlier offset is
damaged, and rejected. The quorum's core (raft.py) appends, truncates and advances `high_watermark`; only
records below it are applied. Invariants: what `flush` has returned for survives any crash; a decision is
stored as a whole or not at all; the newest two snapshots are kept, and the log from the older one on, so that
a damaged snapshot loses nothing; a snapshot has only committed records. Errors: KafkaStorageError from
everything that uses the disk. After one the object must not be used again: what is on the disk is unknown
until the log is opened again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.metadata.image import MetadataImage
from ...protocol.records.control import VoterSet, encode_control
from ...protocol.records.header import read_batch_header
from ...runtime.config import MAX_LONG
from ...runtime.files.file_layer import make_directory_durably, write_file_atomically
from ...storage_node.log.checkpoints import format_offsets
from ...storage_node.log.config import LogConfig
from ...storage_node.log.guarded_files import guarded
from ...storage_node.log.log import Log
from ...storage_node.log.names import RECOVERY_POINTS
from .election_state import NO_EPOCH, ElectionState, lost_vote, read_election_state, write_election_state
from .log_recovery import (
    METADATA_PARTITION,
    batches_from,
    check_not_damaged,
    control_batches_from,
    read_checkpoint,
)
from .record_batches import MAX_BATCH_BYTES, decode_batches, encode_control_batch
from .snapshot_store import SnapshotStore
from .snapshots import SnapshotId, write_snapshot
from .voters import BOOTSTRAP_OFFSET, VoterHistory

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ...protocol.metadata.records import MetadataRecord
    from ...protocol.records.control import ControlRecord
    from ...protocol.records.header import Buffer
    from ...runtime.files.file_layer import Files
    from ...storage_node.log.flush import Flush

__all__ = ["METADATA_PARTITION", "MetadataLog", "metadata_log_config"]


class MetadataLog:
    """Made by `open`. Single owner. Other threads may run `Flush.sync`, `save_snapshot`, and, while the owner
    waits for them, `flush` and `write_snapshot`.

    Invariant: high_watermark <= flushed_offset <= end_offset, and the high watermark never decreases.
    Invariant: a snapshot has the records before the log start.
    """

    def __init__(
        self, files: Files, directory: str, stored: Log, snapshots: SnapshotStore, image: MetadataImage
    ) -> None:
        self._files = files
        self._directory = directory
        self._log = stored
        self.recovered = image  # of the newest valid snapshot
        self.voters = VoterHistory()
        self.flushed_offset = 0  # exclusive end of the durable records
        self.high_watermark = 0  # exclusive end of the committed records, as far as known
        self.snapshots = snapshots
        self.rejected_batches = 0  # of the leader, because they are damaged
        self.bytes_since_snapshot = 0
        self._checkpointed_offset = 0
        self._is_flushing = False

    @property
    def errors(self) -> int:
        """Damaged snapshots and batches since the start."""
        return len(self.snapshots.damaged) + self.snapshots.damaged_downloads + self.rejected_batches

    @classmethod
    def open(
        cls,
        files: Files,
        metadata_dir: str,
        *,
        config: LogConfig,
        wall_ms: int,
    ) -> MetadataLog:
        """Recover the newest valid snapshot and the log after it; both are durable on return.

        Errors: KafkaStorageError, also if a part of the log is missing or unreadable.
        """
        directory = f"{metadata_dir}/{METADATA_PARTITION}"
        files = guarded(files)
        make_directory_durably(files, metadata_dir)
        make_directory_durably(files, directory)
        snapshots = SnapshotStore(files, directory)
        image, voters = snapshots.recover()
        durable_offset = read_checkpoint(files, directory)
        stored = Log.open(
            files,
            directory,
            config,
            topic_partition=METADATA_PARTITION,
            recovery_point=durable_offset,
            was_clean=False,
            wall_ms=wall_ms,
            keeps_producers=False,
        )
        try:
            check_not_damaged(stored, image, durable_offset)
            self = cls(files, directory, stored, snapshots, image)
            self._checkpointed_offset = durable_offset
            self._restart_after_snapshot(is_of_quorum=bool(voters.voters))
            self._recover_voters(voters)
            self.bytes_since_snapshot = stored.reader.bytes_between(image.offset + 1, stored.log_end_offset)
            # Order: durable before it is published. The previous process may have died between an append and
            # its flush; then a power loss could remove records that are about to be published.
            self.flush()
            self.checkpoint()
            self.high_watermark = image.offset + 1
        except BaseException:
            stored.close_abruptly()
            raise
        return self

    @classmethod
    def format(cls, files: Files, metadata_dir: str, voters: VoterSet, wall_ms: int) -> None:
        """Write the first voter set of a new quorum to the empty disk of each of the voters; durable.

        Order: once in the life of a quorum. A voter that lost its disk must not be formatted again, because
        it has lost its votes too.
        """
        directory = f"{metadata_dir}/{METADATA_PARTITION}"
        make_directory_durably(files, metadata_dir)
        make_directory_durably(files, directory)
        write_snapshot(files, directory, MetadataImage(), NO_EPOCH, wall_ms, voters)

    @property
    def is_blank(self) -> bool:
        """Whether this disk has never been part of a quorum."""
        return not self.end_offset and not self.snapshots.ids and not self.voters.latest_keys

    def bootstrap(self, voters: VoterSet, wall_ms: int) -> None:
        """As `format`, on the blank disk of an open log."""
        assert self.is_blank, "a quorum is bootstrapped once"
        self.snapshots.add(self.snapshots.write(MetadataImage(), NO_EPOCH, wall_ms, voters))
        self.voters.restart(BOOTSTRAP_OFFSET, voters)

    @property
    def end_offset(self) -> int:
        """The offset of the next record."""
        return self._log.log_end_offset

    @property
    def start_offset(self) -> int:
        """The first offset in the log; earlier records are only in snapshots."""
        return self._log.log_start_offset

    @property
    def size_bytes(self) -> int:
        """The size of the log's segments."""
        return self._log.size_bytes

    @property
    def last_epoch(self) -> int:
        """The epoch of the last record; 0 if there is none."""
        newest = self.snapshots.newest
        if newest is not None and newest.end_offset >= self._log.log_end_offset:
            return newest.epoch
        return max(self._log.epochs.latest_epoch, NO_EPOCH)

    def epoch_of(self, offset: int) -> int:
        """The epoch of the record at `offset`; 0 if unknown."""
        for snapshot in self.snapshots.ids:
            if snapshot.end_offset == offset + 1:
                return snapshot.epoch
        return max(self._log.epochs.epoch_of(offset), NO_EPOCH)

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """(epoch, exclusive end offset) of the largest epoch up to `epoch`; (-1, -1) if it is newer than any
        epoch of the log."""
        return self._log.end_offset_for_epoch(epoch)

    def check(self) -> None:
        """Assert the invariants."""
        assert self.high_watermark <= self.flushed_offset <= self._log.log_end_offset, (
            f"CommittedIsDurable: {self.high_watermark} are committed, {self.flushed_offset} are durable"
        )
        start_offset = self._log.log_start_offset
        assert not start_offset or any(each.end_offset >= start_offset for each in self.snapshots.ids), (
            "SnapshotAtLogStart: no snapshot has the records before the log start"
        )
        self.snapshots.check()

    # --- epoch and vote -------------------------------------------------------------------------------

    def read_election_state(self) -> ElectionState | None:
        """The stored epoch and vote; None if this disk has never voted. Errors: KafkaStorageError, also if
        the file is missing beside a log with records."""
        state = read_election_state(self._files, self._directory)
        if state is None and self.last_epoch > NO_EPOCH:
            raise lost_vote(self._directory, "is missing beside a log")
        return state

    def write_election_state(self, state: ElectionState) -> None:
        """Store epoch and vote; durable on return."""
        write_election_state(self._files, self._directory, state)

    # --- write ----------------------------------------------------------------------------------------

    def append_batch(self, batch: bytes, epoch: int, wall_ms: int) -> int:
        """Append a batch as the leader of `epoch`; the offset of its first record. Durable after a flush."""
        info = self._log.append_as_leader(batch, leader_epoch=epoch, wall_ms=wall_ms, internal=True)
        self.bytes_since_snapshot += len(batch)
        return info.base_offset

    def append_control(self, record: ControlRecord, epoch: int, wall_ms: int) -> int:
        """Append a control record as the leader of `epoch`; its offset. A voter set takes effect at once."""
        offset = self.append_batch(encode_control_batch(*encode_control(record), wall_ms), epoch, wall_ms)
        if isinstance(record, VoterSet):
            self.voters.add(offset, record)
        return offset

    def append_as_follower(self, data: Buffer) -> None:
        """Append the leader's batches, unchanged. A voter set takes effect at once. This log is never
        compacted, so a gap between offsets is an error.

        Errors: CorruptMessage, InvalidRecord; batches before the bad one are appended.
        """
        view = memoryview(data)
        while len(view):
            header = read_batch_header(view)
            batch = view[: header.size_bytes]
            self._log.append_as_follower(batch, is_dense=True)
            self.bytes_since_snapshot += len(batch)
            if header.is_control:
                self._add_voters(batch)
            view = view[header.size_bytes :]

    def truncate_to(self, offset: int) -> None:
        """Remove the records from `offset`, the start of a batch, on; durable on return. Order: not during a
        flush."""
        assert offset >= self.high_watermark, f"truncation to {offset} below {self.high_watermark} committed"
        self._lower_checkpoint(offset)
        self._log.truncate_to(offset)
        self.voters.truncate_from_end(offset)
        self.flushed_offset = min(self.flushed_offset, self.end_offset)
        self.bytes_since_snapshot = self._log.reader.bytes_between(self._snapshot_end(), self.end_offset)

    def flush(self) -> None:
        """Make all appended records durable."""
        end_offset = self._log.log_end_offset
        self._log.flush()
        self.flushed_offset = end_offset

    def start_flush(self) -> Flush | None:
        """A flush of all appended records, to be synced on any thread; None if all are durable. Order: one at
        a time, each followed by `finish_flush`."""
        assert not self._is_flushing, "one flush at a time"
        self._is_flushing = True
        return self._log.start_flush()

    def finish_flush(self, flush: Flush | None) -> None:
        """All records appended before `start_flush` are durable."""
        self._is_flushing = False
        if flush is not None:
            self._log.finish_flush(flush)
        self.flushed_offset = self._log.recovery_point
        self._trim()

    # --- read -----------------------------------------------------------------------------------------

    def read(self, offset: int, max_bytes: int) -> list[Buffer]:
        """Whole batches from `offset` on, committed or not, at least one if there is one.

        Errors: OffsetOutOfRange, CorruptMessage, KafkaStorageError.
        """
        return self._log.reader.read(offset, max_bytes, upto_offset=self.end_offset).data

    def committed(self, offset: int, end_offset: int) -> Iterator[tuple[int, Sequence[MetadataRecord]]]:
        """(base offset, records) of each decision from `offset`, the start of a batch, to `end_offset`.

        A control record is replaced by a NoOpRecord, which only advances the image's offset.
        """
        assert end_offset <= self.high_watermark, f"only {self.high_watermark} are committed"
        for batch in batches_from(self._log, offset, end_offset):
            yield batch.header.base_offset, batch.to_apply

    # --- snapshots ------------------------------------------------------------------------------------

    def write_snapshot(self, image: MetadataImage, wall_ms: int) -> None:
        """Write a snapshot of the image, then delete what it replaces."""
        self.add_snapshot(self.save_snapshot(image, wall_ms))

    def save_snapshot(self, image: MetadataImage, wall_ms: int) -> SnapshotId:
        """Write the snapshot file of the image; durable on return. Any thread."""
        end_offset = image.offset + 1
        assert end_offset <= self.high_watermark, "a snapshot has only committed records"
        assert end_offset <= self.flushed_offset, "a snapshot has only durable records"
        voters, epoch = self.voters.at(end_offset), self.epoch_of(image.offset)
        return self.snapshots.write(image, epoch, wall_ms, voters)

    def add_snapshot(self, snapshot: SnapshotId) -> None:
        """The snapshot is on the disk: delete what it replaces, the log's segments once no flush is in
        progress."""
        if self.snapshots.add(snapshot):
            self.bytes_since_snapshot = self._log.reader.bytes_between(snapshot.end_offset, self.end_offset)
            self._trim()

    def install_snapshot(self, snapshot: SnapshotId) -> None:
        """Replace the whole log by the fetched snapshot. Order: not during a flush.

        Errors: CorruptMessageError if the snapshot is damaged: it is deleted, and nothing else changes.
        """
        assert snapshot.end_offset >= self.high_watermark, "a snapshot never ends before the high watermark"
        # Order: the snapshot is durable before the log is deleted; a start in between finds that they do not
        # match.
        voters = self.snapshots.install(snapshot)
        self._lower_checkpoint(snapshot.end_offset)
        self._log.truncate_fully_and_start_at(snapshot.end_offset)
        self.voters.restart(snapshot.end_offset - 1, voters)
        self.bytes_since_snapshot = 0
        self.flush()
        self.high_watermark = snapshot.end_offset
        self._trim()

    # --- checkpoint and close -------------------------------------------------------------------------

    def checkpoint(self) -> None:
        """Store the durable end, so that a restart detects a log that ends before it."""
        offset = self.flushed_offset
        if offset != self._checkpointed_offset:
            self._write_checkpoint(offset)

    def checkpoint_committed(self, offset: int) -> None:
        """Store that the records below `offset` are committed and durable. Any thread, one call at a time."""
        if offset > self._checkpointed_offset:
            self._write_checkpoint(offset)

    def close(self) -> None:
        """Flush, store the durable end, and close the files; after a disk failure only close them."""
        if self._log.is_offline:
            self._log.close_abruptly()
            return
        self._log.close()
        self.flushed_offset = self._log.log_end_offset
        self.checkpoint()

    def close_abruptly(self) -> None:
        """Close the files without a flush."""
        self._log.close_abruptly()

    def _snapshot_end(self) -> int:
        newest = self.snapshots.newest
        return self.start_offset if newest is None else newest.end_offset

    def _trim(self) -> None:
        """Delete older snapshots, and the log before the oldest that is kept."""
        self.snapshots.delete_old()
        if self.snapshots.has_all_kept and not self._is_flushing:
            self._log.delete_segments_below(self.snapshots.ids[-1].end_offset)
            self.voters.truncate_from_start(self.snapshots.ids[-1].end_offset)

    def _lower_checkpoint(self, offset: int) -> None:
        """Order: before a truncation, or a start after a crash would take the log for damaged."""
        if offset < self._checkpointed_offset:
            self._write_checkpoint(offset)

    def _write_checkpoint(self, offset: int) -> None:
        content = format_offsets({METADATA_PARTITION: offset})
        write_file_atomically(self._files, self._directory, RECOVERY_POINTS, content)
        self._checkpointed_offset = offset

    def _add_voters(self, batch: Buffer) -> None:
        for stored in decode_batches(batch):
            if (voters := stored.voters) is not None:
                self.voters.add(stored.header.base_offset, voters)

    def _restart_after_snapshot(self, *, is_of_quorum: bool) -> None:
        """Restart the log after the snapshot if the log ends before it, because of damage, or diverges
        from it, because the process died while it installed the snapshot."""
        stored, last_offset = self._log, self.recovered.offset
        is_stale = stored.log_end_offset <= last_offset
        # Without a voter set, the epoch of a snapshot is the one in which it was written.
        if not is_stale and is_of_quorum and last_offset >= stored.log_start_offset:
            is_stale = stored.epochs.epoch_of(last_offset) != self.snapshots.ids[0].epoch
        if is_stale:
            self._lower_checkpoint(last_offset + 1)
            stored.truncate_fully_and_start_at(last_offset + 1)

    def _recover_voters(self, snapshot_voters: VoterSet) -> None:
        """From the newest snapshot, or the one that the disk was formatted with, and the log after it."""
        if snapshot_voters.voters:
            self.voters.restart(self.recovered.offset, snapshot_voters)
        elif self.snapshots.ids and self.snapshots.ids[-1].end_offset == 0:
            _, formatted = self.snapshots.read(self.snapshots.ids[-1])
            self.voters.restart(BOOTSTRAP_OFFSET, formatted)
        for batch in control_batches_from(self._log, self.recovered.offset + 1):
            if (voters := batch.voters) is not None:
                self.voters.add(batch.header.base_offset, voters)


def metadata_log_config(segment_bytes: int) -> LogConfig:
    """The configuration of a metadata log: any decision fits into a segment."""
    return LogConfig(segment_bytes=segment_bytes, max_message_bytes=MAX_BATCH_BYTES, segment_ms=MAX_LONG)
