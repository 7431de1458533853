"""Recover a partition's folder after a shutdown or a crash.

After a clean shutdown the files are trusted; only files that are missing or cannot be right are rebuilt.
After any other end, every segment that reaches the recovery point is read whole: the log is truncated at the
first batch that is damaged or does not follow the previous one, later segments are removed, indexes are
rebuilt, and the result is synced before the recovery point may move past it.

Idempotent: a crash at any point leaves a folder that the same procedure repairs; nothing is marked as
recovered before it is on disk (KAFKA-10101, KAFKA-10471). Source: Kafka LogLoader.java.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ...protocol.errors import CorruptMessageError
from ...protocol.model import NO_OFFSET
from ...runtime.files.file_layer import read_file
from . import names
from .batches import walk_headers
from .checkpoints import CorruptFileError, parse_epochs
from .cleaner.swap import finish_swaps
from .leader_epochs import LeaderEpochs
from .producer_recovery import load_producers, remove_snapshots, snapshot_offsets, stray_snapshots
from .producer_states import ProducerStates
from .segment import Segment

if TYPE_CHECKING:
    from .config import LogConfig
    from .partition_folder import PartitionFolder


@dataclass(slots=True)
class RecoveryReport:
    """What recovery found and did, for operators; `faults` is empty if nothing was wrong."""

    scanned_bytes: int = 0
    truncated_bytes: int = 0
    removed_segments: int = 0
    has_loss: bool = False  # records before the log end are missing, or cannot be read
    faults: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Recovered:
    """A log that can be served: at least one segment, in order of base offsets, the last one active."""

    segments: list[Segment]
    epochs: LeaderEpochs
    report: RecoveryReport
    recovery_point: int
    log_start_offset: int
    cleaner_offset: int | None
    has_gaps: bool
    keeps_producers: bool
    producers: ProducerStates
    snapshot_offset: int  # of the newest producer snapshot; NO_OFFSET without one


def recover_log(
    folder: PartitionFolder,
    config: LogConfig,
    *,
    recovery_point: int,
    was_clean: bool,
    log_start_offset: int,
    wall_ms: int,
    cleaner_offset: int | None = None,
    keeps_producers: bool = True,
) -> Recovered:
    """Load or repair the partition's folder. With a `cleaner_offset` the log was compacted, so it may have
    gaps even if it is not marked. Errors: KafkaStorageError when the disk fails."""
    recovery = _Recovery(folder, config, wall_ms, keeps_producers=keeps_producers)
    bases = recovery.tidy_folder()
    recovery.has_gaps |= cleaner_offset is not None
    recovery.load_epochs()
    for number, base_offset in enumerate(bases):
        following = bases[number + 1] if number + 1 < len(bases) else None
        # A segment that ends right at the recovery point counts as not flushed: its batches were, but it may
        # have been sealed after that, and its index files may not be on disk, or be older ones.
        if not was_clean and (following is None or following >= recovery_point):
            is_sound = recovery.scan(base_offset, following, recovery_point)
        else:
            is_sound = recovery.trust(base_offset, following)
        if not is_sound:
            recovery.remove_segments(bases[number + 1 :])
            break
    end_offset = recovery.finish(log_start_offset, was_clean=was_clean)
    if end_offset < recovery_point:
        recovery.report.faults.append(
            f"{folder.path}: flushed up to {recovery_point}, but the log ends at {end_offset}"
        )
    recovery.epochs.is_unsaved = not was_clean
    return Recovered(
        recovery.segments,
        recovery.epochs,
        recovery.report,
        recovery_point=min(recovery_point, end_offset),
        log_start_offset=max(log_start_offset, recovery.segments[0].base_offset),
        cleaner_offset=None if cleaner_offset is None else min(cleaner_offset, end_offset),
        has_gaps=recovery.has_gaps,
        keeps_producers=keeps_producers,
        producers=recovery.producers,
        snapshot_offset=recovery.snapshots[-1] if recovery.snapshots else NO_OFFSET,
    )


class _Recovery:
    """The steps of one recovery and what they have found so far."""

    def __init__(
        self, folder: PartitionFolder, config: LogConfig, wall_ms: int, *, keeps_producers: bool
    ) -> None:
        self._folder = folder
        self._files = folder.files
        self._interval = config.index_interval_bytes
        self._wall_ms = wall_ms
        self._keeps_producers = keeps_producers
        self.epochs = LeaderEpochs()
        self.has_gaps = False
        self.segments: list[Segment] = []
        self.report = RecoveryReport()
        self.producers = ProducerStates()
        self.snapshots: list[int] = []  # offsets of the producer snapshots, rising
        self._has_epochs = False
        self._has_scanned = False
        self._has_producers = False  # there was a producer snapshot, valid or not
        self._aborting: set[int] = set()  # base offsets of segments with a transaction index

    def tidy_folder(self) -> list[int]:
        """Remove the files that interrupted work left; returns the base offsets of the segments, rising."""
        listed = self._files.listdir(self._folder.path)
        self.has_gaps = names.OFFSET_GAPS in listed
        if any(name.endswith(names.SWAP) for name in listed):
            finish_swaps(self._files, self._folder.path, listed)
            listed = self._files.listdir(self._folder.path)
        bases = {
            found[0] for name in listed if (found := names.parse_segment_name(name)) and found[1] == names.LOG
        }
        for name in listed:
            found = names.parse_segment_name(name)
            is_orphan = found is not None and found[1] in names.SEGMENT_SUFFIXES and found[0] not in bases
            if is_orphan or name.endswith((names.DELETED, names.CLEANED, names.TEMPORARY)):
                self._files.remove(self._folder.file(name))
            elif found is not None and found[1] == names.TXN_INDEX:
                self._aborting.add(found[0])
        if self._keeps_producers:
            self.snapshots = snapshot_offsets(self._folder)
            self._has_producers = bool(self.snapshots)
            self._drop_snapshots(stray_snapshots(self.snapshots, sorted(bases)))
        return sorted(bases)

    def load_epochs(self) -> None:
        """Read the leader-epoch-checkpoint; if it is missing or damaged, it is rebuilt from the batches."""
        path = self._folder.file(names.LEADER_EPOCHS)
        if not self._files.exists(path):
            return
        try:
            entries = parse_epochs(read_file(self._files, path))
            self.epochs, self._has_epochs = LeaderEpochs(entries), bool(entries)
        except CorruptFileError as error:
            self.report.faults.append(f"{path}: {error}; rebuilt from the log")

    def scan(self, base_offset: int, following: int | None, recovery_point: int) -> bool:
        """Read a segment whole and truncate it at its first fault; False if the log ends there.

        Compaction leaves gaps within segments, never between them: a segment that ends before the next one
        starts has lost records. Below the recovery point nothing is lost: Kafka's cleaner leaves such gaps.
        """
        if not self._has_scanned:
            self.epochs.truncate_from_end(base_offset)
            self._load_producers(base_offset)
            self._has_scanned = True
        segment = self._open(base_offset)
        self.segments.append(segment)
        file_bytes = segment.file.size()
        fault = segment.recover(self._interval, self.epochs, has_gaps=self.has_gaps, producers=self.producers)
        self.report.scanned_bytes += file_bytes
        if segment.size_bytes != file_bytes:
            self.report.truncated_bytes += file_bytes - segment.size_bytes
            segment.cut()
        if fault is None and following is not None and following != segment.next_offset:
            if self.has_gaps and segment.next_offset < following <= recovery_point:
                segment.next_offset = following
            else:
                end = segment.next_offset
                fault = f"{segment.file.path} ends at offset {end}, the next starts at {following}"
        if fault:
            self.report.faults.append(fault)
        elif following is not None:
            segment.seal()
        return fault is None

    def trust(self, base_offset: int, following: int | None) -> bool:
        """Load a segment without reading its batches, and rebuild its indexes if they cannot be right.

        Damage in a segment below the recovery point is not truncated: the batches behind it were acknowledged
        and flushed. Reads of damaged batches fail; the others are served.
        """
        segment = self._open(base_offset)
        self.segments.append(segment)
        if not self._has_epochs:
            self._collect_epochs(segment)
        if following is None:
            fault = segment.load(self._interval, self.epochs, has_gaps=self.has_gaps)
        else:
            fault = segment.load_sealed(self._interval, following)
        if fault is None:
            return True
        self.report.faults.append(f"{fault}; rebuilt from the log")
        file_bytes = segment.file.size()
        self.report.scanned_bytes += file_bytes
        damage = segment.recover(self._interval, has_gaps=self.has_gaps)
        if damage:
            self.report.faults.append(damage)
        self.report.has_loss |= bool(damage) or following not in (None, segment.next_offset)
        if following is not None:
            segment.keep_whole(file_bytes, following)
        elif segment.size_bytes != file_bytes:
            self.report.truncated_bytes += file_bytes - segment.size_bytes
            segment.cut()
        return True

    def remove_segments(self, bases: list[int]) -> None:
        """Remove segments, newest first: a crash in between leaves a shorter log."""
        for base_offset in reversed(bases):
            segment = self._open(base_offset)
            self.report.truncated_bytes += segment.file.size()
            self.report.removed_segments += 1
            segment.remove()
        if bases:
            self._folder.sync()

    def finish(self, log_start_offset: int, *, was_clean: bool) -> int:
        """Make epochs, snapshots and producer state match the log end offset, which is returned."""
        end_offset = self.segments[-1].next_offset if self.segments else log_start_offset
        if self.segments and end_offset < log_start_offset:
            # New records must not get the offsets of records that were deleted below the start offset.
            self.report.faults.append(
                f"the log ends at {end_offset}, before its start offset {log_start_offset}"
            )
            bases = [segment.base_offset for segment in self.segments]
            self._close_all()
            self.remove_segments(bases)
            self._drop_snapshots(list(self.snapshots))
            self.producers.clear()
            end_offset = log_start_offset
        if not self.segments:
            self.segments.append(
                Segment.create(self._files, self._folder.path, end_offset, created_ms=self._wall_ms)
            )
        self.epochs.truncate_from_end(end_offset + 1)
        oldest = self.epochs.entries[:1]
        # The oldest epoch starts with the log: epochs are truncated before their segments are removed.
        self.report.has_loss |= bool(oldest) and oldest[0].start_offset < self.segments[0].base_offset
        self.epochs.truncate_from_start(max(log_start_offset, self.segments[0].base_offset))
        self._drop_snapshots([offset for offset in self.snapshots if offset > end_offset])
        if not self._has_scanned and (self._has_producers or not was_clean):
            self._load_producers(end_offset)
        return end_offset

    def _open(self, base_offset: int) -> Segment:
        path = self._folder.file(names.segment_name(base_offset, names.LOG))
        segment = Segment(self._files, self._folder.path, base_offset, self._files.open(path), self._wall_ms)
        if base_offset in self._aborting:
            segment.load_aborted()
        return segment

    def _close_all(self) -> None:
        for segment in self.segments:
            segment.close()
        self.segments.clear()

    def _load_producers(self, upto_offset: int) -> None:
        if self._keeps_producers:
            faults = self.report.faults
            load_producers(self._folder, self.segments, upto_offset, self.producers, faults)

    def _drop_snapshots(self, offsets: list[int]) -> None:
        remove_snapshots(self._folder, offsets)
        self.snapshots = [offset for offset in self.snapshots if offset not in offsets]

    def _collect_epochs(self, segment: Segment) -> None:
        try:
            for _, header in walk_headers(segment.file, 0, segment.file.size()):
                if header.leader_epoch > self.epochs.latest_epoch:
                    self.epochs.assign(header.leader_epoch, header.base_offset)
        except CorruptMessageError as error:
            self.report.faults.append(str(error))
