"""The durable metadata log of one voter: decisions in, image out. Raft over it will live here too.

Shape on disk, in `__cluster_metadata-0/`: the segments of an ordinary log, one record batch per decision, its
leader epoch the controller epoch; beside them snapshots and `quorum-state`.
Invariants: what `flush` has returned for survives any crash; a decision is there as a whole or not at all;
the controller epoch of every start is higher than that of all before; the newest two snapshots are kept, and
the log from the older one on, so that one damaged snapshot loses nothing.
Besides, `recovery-point-offset-checkpoint` says how much was durable: a log that can be read only up to less
than that is damaged, and refused rather than served as if nothing were missing.
Errors: KafkaStorageError from everything that touches the disk. After one the object must not be used again:
what is on the disk is then unknown until it is opened anew.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.errors import CorruptMessageError, InvalidRecordError, KafkaStorageError
from ...protocol.metadata.image import MetadataImage
from ...protocol.metadata.replay import replay
from ...protocol.model import TopicPartition
from ...runtime.config import MAX_LONG
from ...storage_node.log import names
from ...storage_node.log.checkpoints import CorruptFileError, format_offsets, parse_offsets
from ...storage_node.log.config import LogConfig
from ...storage_node.log.files import make_directory_durably, read_file, write_file_atomically
from ...storage_node.log.guarded_files import guarded
from ...storage_node.log.log import Log
from .quorum_state import NO_EPOCH, QuorumState, read_quorum_state, write_quorum_state
from .record_batches import MAX_BATCH_BYTES, decode_batches, encode_batch
from .snapshots import CORRUPT_SUFFIX, SnapshotId, list_snapshots, read_snapshot, write_snapshot

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ...protocol.metadata.records import MetadataRecord
    from ...storage_node.log.files import Files
    from .record_batches import StoredBatch

METADATA_PARTITION = TopicPartition(names.METADATA_TOPIC, 0)
READ_BYTES = 4 * 1024 * 1024
SNAPSHOTS_KEPT = 2


class MetadataLog:
    """Made by `open`. Single owner; `flush` and `write_snapshot` may run on another thread while the owner
    waits for them."""

    def __init__(self, files: Files, directory: str, stored: Log, image: MetadataImage) -> None:
        self._files = files
        self._directory = directory
        self._log = stored
        self.recovered = image  # what the log said at open
        self.epoch = NO_EPOCH
        self.flushed_offset = 0  # exclusive end of what is durable
        self.snapshots: list[SnapshotId] = []  # newest first
        self.damaged_snapshots: list[str] = []  # what was wrong with those that open had to pass over
        self.bytes_since_snapshot = 0
        self._checkpointed_offset = 0

    @classmethod
    def open(
        cls, files: Files, metadata_dir: str, *, controller_id: int, config: LogConfig, wall_ms: int
    ) -> MetadataLog:
        """Recover: the newest sound snapshot, then the log after it; all of it durable on return.

        Errors: KafkaStorageError, also when a part of the log is missing or unreadable.
        """
        directory = f"{metadata_dir}/{METADATA_PARTITION}"
        files = guarded(files)
        make_directory_durably(files, metadata_dir)
        make_directory_durably(files, directory)
        snapshots, image, damaged = _newest_sound_snapshot(files, directory)
        durable_offset = _read_checkpoint(files, directory)
        stored = Log.open(
            files,
            directory,
            config,
            topic_partition=METADATA_PARTITION,
            recovery_point=durable_offset,
            was_clean=False,
            wall_ms=wall_ms,
        )
        try:
            _check_not_damaged(stored, image, durable_offset)
            if stored.log_end_offset <= image.offset:
                # The log lost its end to damage, but the snapshot has it: go on behind the snapshot.
                stored.truncate_fully_and_start_at(image.offset + 1)
            self = cls(files, directory, stored, _replayed(stored, image))
            self.snapshots, self.damaged_snapshots = snapshots, damaged
            self.bytes_since_snapshot = stored.bytes_between(image.offset + 1, stored.log_end_offset)
            # Order: durable before anyone is shown it. The process before may have died between its append
            # and its flush; without this a power loss could take back what we are about to publish.
            self.flush()
            self.checkpoint()
            self._begin_epoch(controller_id)
        except BaseException:
            stored.close_abruptly()
            raise
        return self

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

    def append(self, records: Sequence[MetadataRecord], wall_ms: int) -> int:
        """Write one decision as one batch; the offset of its first record. Not durable before `flush`."""
        batch = encode_batch(records, wall_ms)
        info = self._log.append_as_leader(batch, leader_epoch=self.epoch, wall_ms=wall_ms, internal=True)
        assert info.last_offset - info.base_offset + 1 == len(records)
        self.bytes_since_snapshot += len(batch)
        return info.base_offset

    def flush(self) -> None:
        """Return once everything that was appended is on the disk."""
        end_offset = self._log.log_end_offset
        self._log.flush()
        self.flushed_offset = end_offset

    def write_snapshot(self, image: MetadataImage, wall_ms: int) -> None:
        """Write a snapshot of the image at the log's flushed end, then drop what is not needed any more."""
        assert image.offset + 1 == self.flushed_offset == self.end_offset, "only what is durable"
        snapshot = write_snapshot(self._files, self._directory, image, self.epoch, wall_ms)
        self.bytes_since_snapshot = 0
        self.snapshots = [snapshot, *(each for each in self.snapshots if each != snapshot)]
        for old in self.snapshots[SNAPSHOTS_KEPT:]:
            self._files.remove(f"{self._directory}/{old.file_name}")
        del self.snapshots[SNAPSHOTS_KEPT:]
        if len(self.snapshots) == SNAPSHOTS_KEPT:
            self._log.delete_segments_below(self.snapshots[-1].end_offset)

    def checkpoint(self) -> None:
        """Remember how much is durable, so that a restart notices if less can be read."""
        offset = self.flushed_offset
        if offset != self._checkpointed_offset:
            content = format_offsets({METADATA_PARTITION: offset})
            write_file_atomically(self._files, self._directory, names.RECOVERY_POINTS, content)
            self._checkpointed_offset = offset

    def close(self) -> None:
        """Flush, remember how much is durable, and let go of the files. After a failure, only let go."""
        if self._log.is_offline:
            self._log.close_abruptly()
            return
        self._log.close()
        self.flushed_offset = self._log.log_end_offset
        self.checkpoint()

    def _begin_epoch(self, controller_id: int) -> None:
        state = read_quorum_state(self._files, self._directory)
        epochs = [state.leader_epoch if state else NO_EPOCH, self._log.latest_epoch]
        epochs += [snapshot.epoch for snapshot in self.snapshots]
        self.epoch = max(epochs) + 1
        state = QuorumState(self.recovered.cluster_id, controller_id, self.epoch)
        write_quorum_state(self._files, self._directory, state)


def metadata_log_config(segment_bytes: int) -> LogConfig:
    """The keys of a log that holds decisions: any of them fits into a segment."""
    return LogConfig(segment_bytes=segment_bytes, max_message_bytes=MAX_BATCH_BYTES, segment_ms=MAX_LONG)


def _check_not_damaged(stored: Log, image: MetadataImage, durable_offset: int) -> None:
    readable_offset = max(stored.log_end_offset, image.offset + 1)
    if readable_offset < durable_offset:
        raise KafkaStorageError(
            f"{stored.directory} is damaged: metadata up to offset {durable_offset} was durable, but only up "
            f"to {readable_offset} can be read; restore it, or accept the loss by removing "
            f"{names.RECOVERY_POINTS}"
        )


def _read_checkpoint(files: Files, directory: str) -> int:
    """How much was durable for sure; 0 if that is not known."""
    path = f"{directory}/{names.RECOVERY_POINTS}"
    if not files.exists(path):
        return 0
    try:
        return max(0, parse_offsets(read_file(files, path)).get(METADATA_PARTITION, 0))
    except CorruptFileError:
        return 0


def _newest_sound_snapshot(files: Files, directory: str) -> tuple[list[SnapshotId], MetadataImage, list[str]]:
    """The newest sound snapshot and the older ones, its image, and what was wrong with newer ones.

    A damaged file gets another name: it must not count as one of the snapshots to keep.
    """
    damaged: list[str] = []
    snapshots = list_snapshots(files, directory)
    for index, snapshot in enumerate(snapshots):
        try:
            return snapshots[index:], read_snapshot(files, directory, snapshot), damaged
        except CorruptMessageError as error:
            damaged.append(str(error))
            path = f"{directory}/{snapshot.file_name}"
            files.rename(path, path + CORRUPT_SUFFIX)
    return [], MetadataImage(), damaged


def _replayed(stored: Log, image: MetadataImage) -> MetadataImage:
    if stored.log_start_offset > image.offset + 1:
        raise KafkaStorageError(
            f"metadata from offset {image.offset + 1} to {stored.log_start_offset} is neither in a sound "
            f"snapshot nor in the log"
        )
    for batch in _batches_from(stored, image.offset + 1):
        records = batch.records[image.offset + 1 - batch.header.base_offset :]
        try:
            image, _ = replay(image, image.offset + 1, records)
        except ValueError as error:
            raise KafkaStorageError(f"the metadata log contradicts itself: {error}") from error
    return image


def _batches_from(stored: Log, offset: int) -> Iterator[StoredBatch]:
    end_offset = stored.log_end_offset
    while offset < end_offset:
        chunk = stored.read(offset, READ_BYTES, upto_offset=end_offset)
        try:
            for buffer in chunk.data:
                yield from decode_batches(buffer)
        except (CorruptMessageError, InvalidRecordError) as error:
            raise KafkaStorageError(f"the metadata log is unreadable: {error}") from error
        if chunk.next_offset <= offset:
            raise KafkaStorageError(
                f"the metadata log has nothing at offset {offset}, it ends at {end_offset}"
            )
        offset = chunk.next_offset
