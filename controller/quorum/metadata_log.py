"""The durable metadata log of one controller: batches in, committed decisions and snapshots out.

Shape on disk, in `__cluster_metadata-0/`: the segments of an ordinary log, one record batch per decision, its
leader epoch the controller epoch; beside them snapshots and `quorum-state`.
The core of the quorum (raft.py) appends, truncates and moves `high_watermark`, and only what lies below that
is ever handed out.
Invariants: what `flush` has returned for survives any crash; a decision is there as a whole or not at all;
the newest two snapshots are kept, and the log from the older one on, so that one damaged snapshot loses
nothing; a snapshot holds only what is committed.
Besides, `recovery-point-offset-checkpoint` says how much was durable: a log that can be read only up to less
than that is damaged, and refused rather than served as if nothing were missing.
Errors: KafkaStorageError from everything that touches the disk. After one the object must not be used again:
what is on the disk is then unknown until it is opened anew.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.errors import (
    CorruptMessageError,
    PositionOutOfRangeError,
    SnapshotNotFoundError,
)
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
from .quorum_state import NO_EPOCH, QuorumState, lost_vote, read_quorum_state, write_quorum_state
from .reading import (
    METADATA_PARTITION,
    batches_from,
    check_not_damaged,
    control_batches_from,
    newest_sound_snapshot,
    read_checkpoint,
)
from .record_batches import MAX_BATCH_BYTES, decode_batches, encode_control_batch
from .snapshots import PART_SUFFIX, SnapshotId, read_whole_snapshot, write_snapshot
from .voters import BOOTSTRAP_OFFSET, VoterHistory

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ...protocol.metadata.records import MetadataRecord
    from ...protocol.records.control import ControlRecord
    from ...protocol.records.header import Buffer
    from ...runtime.files.file_layer import Files
    from ...storage_node.log.flush import Flush

__all__ = ["METADATA_PARTITION", "MetadataLog", "metadata_log_config"]
SNAPSHOTS_KEPT = 2


class MetadataLog:
    """Made by `open`. Single owner. Other threads may run `Flush.sync`, `save_snapshot`, and while the owner
    waits for them `flush` and `write_snapshot`.

    Invariant: high_watermark <= flushed_offset <= end_offset, and the high watermark never moves back.
    """

    def __init__(self, files: Files, directory: str, stored: Log, image: MetadataImage) -> None:
        self._files = files
        self._directory = directory
        self._log = stored
        self.recovered = image  # of the newest sound snapshot
        self.voters = VoterHistory()
        self.flushed_offset = 0  # exclusive end of what is durable
        self.high_watermark = 0  # exclusive end of what is committed, as far as this controller knows
        self.snapshots: list[SnapshotId] = []  # newest first
        self.damaged_snapshots: list[str] = []  # what was wrong with those that open had to pass over
        self.bytes_since_snapshot = 0
        self._checkpointed_offset = 0
        self._is_flushing = False

    @classmethod
    def open(
        cls,
        files: Files,
        metadata_dir: str,
        *,
        config: LogConfig,
        wall_ms: int,
    ) -> MetadataLog:
        """Recover: the newest sound snapshot, then the log after it; all of it durable on return.

        Errors: KafkaStorageError, also when a part of the log is missing or unreadable.
        """
        directory = f"{metadata_dir}/{METADATA_PARTITION}"
        files = guarded(files)
        make_directory_durably(files, metadata_dir)
        make_directory_durably(files, directory)
        for name in files.listdir(directory):
            if name.endswith(PART_SUFFIX):
                files.remove(f"{directory}/{name}")
        snapshots, image, voters, damaged = newest_sound_snapshot(files, directory)
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
            self = cls(files, directory, stored, image)
            self.snapshots, self.damaged_snapshots = snapshots, damaged
            self._checkpointed_offset = durable_offset
            self._go_on_behind_snapshot(is_of_quorum=bool(voters.voters))
            self._find_voters(voters)
            self.bytes_since_snapshot = stored.reader.bytes_between(image.offset + 1, stored.log_end_offset)
            # Order: durable before anyone is shown it. The process before may have died between its append
            # and its flush; without this a power loss could take back what we are about to publish.
            self.flush()
            self.checkpoint()
            self.high_watermark = image.offset + 1
        except BaseException:
            stored.close_abruptly()
            raise
        return self

    @classmethod
    def format(cls, files: Files, metadata_dir: str, voters: VoterSet, wall_ms: int) -> None:
        """Name the voters that a new quorum begins with, on the empty disk of each of them; durable.

        Order: once in the life of a quorum. A voter that comes back with an empty disk must not be formatted:
        it would have forgotten its votes.
        """
        directory = f"{metadata_dir}/{METADATA_PARTITION}"
        make_directory_durably(files, metadata_dir)
        make_directory_durably(files, directory)
        write_snapshot(files, directory, MetadataImage(), NO_EPOCH, wall_ms, voters)

    @property
    def is_blank(self) -> bool:
        """Whether this disk has never been part of a quorum, as far as it knows."""
        return not self.end_offset and not self.snapshots and not self.voters.latest_keys

    def begin(self, voters: VoterSet, wall_ms: int) -> None:
        """As `format`, on the blank disk of an open log."""
        assert self.is_blank, "a quorum begins once"
        snapshot = write_snapshot(self._files, self._directory, MetadataImage(), NO_EPOCH, wall_ms, voters)
        self.snapshots.append(snapshot)
        self.voters.restart(BOOTSTRAP_OFFSET, voters)

    @property
    def end_offset(self) -> int:
        """The offset that the next decision's first record will get."""
        return self._log.log_end_offset

    @property
    def start_offset(self) -> int:
        """The first offset that is still in the log; earlier ones are only in snapshots."""
        return self._log.log_start_offset

    @property
    def size_bytes(self) -> int:
        """Bytes of the log's segments."""
        return self._log.size_bytes

    @property
    def last_epoch(self) -> int:
        """The epoch of the last record before the log's end; 0 if there is none."""
        if self.snapshots and self.snapshots[0].end_offset >= self.end_offset:
            return self.snapshots[0].epoch
        return max(self._log.epochs.latest_epoch, NO_EPOCH)

    def epoch_of(self, offset: int) -> int:
        """The epoch of the record at `offset`, which the log holds; 0 if it is not known."""
        for snapshot in self.snapshots:
            if snapshot.end_offset == offset + 1:
                return snapshot.epoch
        return max(self._log.epochs.epoch_of(offset), NO_EPOCH)

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """(epoch, exclusive end offset) of the largest epoch at or below `epoch`; (-1, -1) if it is newer
        than any in the log."""
        return self._log.end_offset_for_epoch(epoch)

    # --- the quorum's state ---------------------------------------------------------------------------

    def read_state(self) -> QuorumState | None:
        """The stored epoch and vote; None if this disk has never voted. Errors: KafkaStorageError, also if
        they are lost though the log says that there were some."""
        state = read_quorum_state(self._files, self._directory)
        if state is None and self.last_epoch > NO_EPOCH:
            raise lost_vote(self._directory, "is missing beside a log")
        return state

    def write_state(self, state: QuorumState) -> None:
        """Remember epoch and vote; durable on return."""
        write_quorum_state(self._files, self._directory, state)

    # --- write ----------------------------------------------------------------------------------------

    def append_batch(self, batch: bytes, epoch: int, wall_ms: int) -> int:
        """Write a batch as the leader of `epoch`; the offset of its first record. Durable after a flush."""
        info = self._log.append_as_leader(batch, leader_epoch=epoch, wall_ms=wall_ms, internal=True)
        self.bytes_since_snapshot += len(batch)
        return info.base_offset

    def append_control(self, record: ControlRecord, epoch: int, wall_ms: int) -> int:
        """Write a control record as the leader of `epoch`; its offset. A voter set counts at once."""
        offset = self.append_batch(encode_control_batch(*encode_control(record), wall_ms), epoch, wall_ms)
        if isinstance(record, VoterSet):
            self.voters.add(offset, record)
        return offset

    def append_as_follower(self, data: Buffer) -> None:
        """Write whole batches as the leader has them. A voter set counts at once. Nothing compacts this log:
        behind a gap there is nothing to take.

        Errors: CorruptMessage, InvalidRecord; batches before the bad one are in the log.
        """
        view = memoryview(data)
        while len(view):
            header = read_batch_header(view)
            batch = view[: header.size_bytes]
            self._log.append_as_follower(batch, is_dense=True)
            self.bytes_since_snapshot += len(batch)
            if header.is_control:
                self._note_voters(batch)
            view = view[header.size_bytes :]

    def truncate_to(self, offset: int) -> None:
        """Forget everything from `offset`, where a batch begins, on; durable on return. Order: no flush."""
        assert offset >= self.high_watermark, f"{self.high_watermark} are committed, not only {offset}"
        self._lower_checkpoint(offset)
        self._log.truncate_to(offset)
        self.voters.truncate_from_end(offset)
        self.flushed_offset = min(self.flushed_offset, self.end_offset)
        self.bytes_since_snapshot = self._log.reader.bytes_between(self._snapshot_end(), self.end_offset)

    def flush(self) -> None:
        """Return once everything that was appended is on the disk."""
        end_offset = self._log.log_end_offset
        self._log.flush()
        self.flushed_offset = end_offset

    def start_flush(self) -> Flush | None:
        """What to bring to the disk, to be synced on any thread; None if it is all there. Order: one at a
        time, each followed by `finish_flush`."""
        assert not self._is_flushing, "one flush at a time"
        self._is_flushing = True
        return self._log.start_flush()

    def finish_flush(self, flush: Flush | None) -> None:
        """Everything that was there at `start_flush` is durable."""
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
        """The decisions from `offset`, where a batch begins, to `end_offset`, each with its base offset.

        A control record comes as a NoOpRecord: it moves the image's offset and changes nothing.
        """
        assert end_offset <= self.high_watermark, f"only {self.high_watermark} are committed"
        for batch in batches_from(self._log, offset, end_offset):
            yield batch.header.base_offset, batch.to_apply

    # --- snapshots ------------------------------------------------------------------------------------

    def write_snapshot(self, image: MetadataImage, wall_ms: int) -> None:
        """Write a snapshot of the image, then drop what is not needed any more."""
        self.note_snapshot(self.save_snapshot(image, wall_ms))

    def save_snapshot(self, image: MetadataImage, wall_ms: int) -> SnapshotId:
        """Write the file of a snapshot of the image; durable on return. Any thread."""
        end_offset = image.offset + 1
        assert end_offset <= self.high_watermark, "only what is committed"
        assert end_offset <= self.flushed_offset, "only what is durable"
        voters, epoch = self.voters.at(end_offset), self.epoch_of(image.offset)
        return write_snapshot(self._files, self._directory, image, epoch, wall_ms, voters)

    def note_snapshot(self, snapshot: SnapshotId) -> None:
        """The snapshot is there: drop what is not needed any more, once no flush is under way."""
        if self.snapshots and snapshot <= self.snapshots[0]:
            return
        self.snapshots.insert(0, snapshot)
        self.bytes_since_snapshot = self._log.reader.bytes_between(snapshot.end_offset, self.end_offset)
        self._trim()

    def read_snapshot(self, snapshot: SnapshotId) -> MetadataImage:
        """The image in a snapshot. Errors: CorruptMessageError, KafkaStorageError."""
        return read_whole_snapshot(self._files, self._directory, snapshot)[0]

    def snapshot_chunk(self, snapshot: SnapshotId, position: int, max_bytes: int) -> tuple[int, bytes]:
        """(the snapshot's size, its bytes from `position` on, at most `max_bytes`).

        Errors: SnapshotNotFoundError, PositionOutOfRangeError, KafkaStorageError.
        """
        if snapshot not in self.snapshots:
            raise SnapshotNotFoundError(f"no snapshot {snapshot.file_name}")
        file = self._files.open(f"{self._directory}/{snapshot.file_name}")
        try:
            size = file.size()
            if not 0 <= position < size:
                raise PositionOutOfRangeError(f"position {position} of {size} bytes")
            return size, file.pread(position, min(max_bytes, size - position))
        finally:
            file.close()

    def receive_snapshot(self, snapshot: SnapshotId, position: int, data: Buffer) -> None:
        """Keep bytes of a snapshot that is being fetched, in order from position 0 on."""
        path = f"{self._directory}/{snapshot.file_name}{PART_SUFFIX}"
        file = self._files.open(path, create=True)
        try:
            if not position:
                file.truncate(0)
            file.pwrite(position, [data])
        finally:
            file.close()

    def install_snapshot(self, snapshot: SnapshotId) -> None:
        """Go on behind the snapshot that was fetched; the log before and after it goes. Order: no flush.

        Errors: CorruptMessageError if what was fetched is damaged: it is thrown away, and nothing changed.
        """
        part = f"{self._directory}/{snapshot.file_name}{PART_SUFFIX}"
        assert snapshot.end_offset >= self.high_watermark, "a snapshot never takes back what is committed"
        try:
            _, voters = read_whole_snapshot(self._files, self._directory, snapshot, PART_SUFFIX)
        except CorruptMessageError:
            self._files.remove(part)
            raise
        file = self._files.open(part)
        file.fdatasync()
        file.close()
        # Order: the snapshot is there before the log goes; a start in between finds that they do not fit.
        self._files.rename(part, f"{self._directory}/{snapshot.file_name}")
        self._files.fsync_directory(self._directory)
        self._lower_checkpoint(snapshot.end_offset)
        self._log.truncate_fully_and_start_at(snapshot.end_offset)
        self.snapshots = [snapshot, *(each for each in self.snapshots if each < snapshot)]
        self.voters.restart(snapshot.end_offset - 1, voters)
        self.bytes_since_snapshot = 0
        self.flush()
        self.high_watermark = snapshot.end_offset
        self._trim()

    # --- upkeep ---------------------------------------------------------------------------------------

    def checkpoint(self) -> None:
        """Remember how much is durable, so that a restart notices if less can be read."""
        offset = self.flushed_offset
        if offset != self._checkpointed_offset:
            self._write_checkpoint(offset)

    def checkpoint_committed(self, offset: int) -> None:
        """Remember that everything below `offset` is committed and durable. Any thread, one call at a
        time."""
        if offset > self._checkpointed_offset:
            self._write_checkpoint(offset)

    def close(self) -> None:
        """Flush, remember how much is durable, and let go of the files. After a failure, only let go."""
        if self._log.is_offline:
            self._log.close_abruptly()
            return
        self._log.close()
        self.flushed_offset = self._log.log_end_offset
        self.checkpoint()

    def abandon(self) -> None:
        """Let go of the files as they are."""
        self._log.close_abruptly()

    def _snapshot_end(self) -> int:
        return self.snapshots[0].end_offset if self.snapshots else self.start_offset

    def _trim(self) -> None:
        """Keep the newest snapshots and the log from the oldest of them on."""
        for old in self.snapshots[SNAPSHOTS_KEPT:]:
            self._files.remove(f"{self._directory}/{old.file_name}")
        del self.snapshots[SNAPSHOTS_KEPT:]
        if len(self.snapshots) == SNAPSHOTS_KEPT and not self._is_flushing:
            self._log.delete_segments_below(self.snapshots[-1].end_offset)
            self.voters.truncate_from_start(self.snapshots[-1].end_offset)

    def _lower_checkpoint(self, offset: int) -> None:
        """Order: before the log gets shorter, so that a start after a crash does not miss what was taken."""
        if offset < self._checkpointed_offset:
            self._write_checkpoint(offset)

    def _write_checkpoint(self, offset: int) -> None:
        content = format_offsets({METADATA_PARTITION: offset})
        write_file_atomically(self._files, self._directory, RECOVERY_POINTS, content)
        self._checkpointed_offset = offset

    def _note_voters(self, batch: Buffer) -> None:
        for stored in decode_batches(batch):
            if (voters := stored.voters) is not None:
                self.voters.add(stored.header.base_offset, voters)

    def _go_on_behind_snapshot(self, *, is_of_quorum: bool) -> None:
        """If the log lost its end to damage and the snapshot has it, or if the process died when the snapshot
        was installed and the log is still the old one."""
        stored, last_offset = self._log, self.recovered.offset
        is_behind = stored.log_end_offset <= last_offset
        # A controller alone named its snapshots by the epoch in which it wrote them.
        if not is_behind and is_of_quorum and last_offset >= stored.log_start_offset:
            is_behind = stored.epochs.epoch_of(last_offset) != self.snapshots[0].epoch
        if is_behind:
            self._lower_checkpoint(last_offset + 1)
            stored.truncate_fully_and_start_at(last_offset + 1)

    def _find_voters(self, voters: VoterSet) -> None:
        """From the newest snapshot, or what the disk was formatted with, and the log after it."""
        if voters.voters:
            self.voters.restart(self.recovered.offset, voters)
        elif self.snapshots and self.snapshots[-1].end_offset == 0:
            formatted = read_whole_snapshot(self._files, self._directory, self.snapshots[-1])[1]
            self.voters.restart(BOOTSTRAP_OFFSET, formatted)
        for stored in control_batches_from(self._log, self.recovered.offset + 1):
            if (found := stored.voters) is not None:
                self.voters.add(stored.header.base_offset, found)


def metadata_log_config(segment_bytes: int) -> LogConfig:
    """The keys of a log that holds decisions: any of them fits into a segment."""
    return LogConfig(segment_bytes=segment_bytes, max_message_bytes=MAX_BATCH_BYTES, segment_ms=MAX_LONG)
