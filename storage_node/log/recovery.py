"""Bring a partition's folder from whatever a crash left behind to a log that can be trusted.

After a clean shutdown every file is taken at its word; only what is missing or cannot be right is rebuilt.
After any other end, every segment that reaches up to the recovery point is read whole: the log is cut at the
first byte that is no right batch or does not follow the one before, later segments go, indexes are
rebuilt, and the result is brought to the disk before the recovery point may move over it.

Idempotent: a crash at any point of it leaves a folder that the same procedure repairs; nothing is marked as
recovered before it is on the disk (KAFKA-10101, KAFKA-10471).
Source: Kafka LogLoader.java.
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
    from ...runtime.files.file_layer import Files
    from .config import LogConfig


@dataclass(slots=True)
class RecoveryReport:
    """What recovery found and did, for the operator; `faults` is empty when all was well."""

    scanned_bytes: int = 0
    truncated_bytes: int = 0
    removed_segments: int = 0
    has_loss: bool = False  # records that were there are missing before the end, or cannot be read
    faults: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Recovered:
    """A trusted log: segments in order of their base offsets, at least one, the last one active."""

    segments: list[Segment]
    epochs: LeaderEpochs
    report: RecoveryReport
    has_gaps: bool
    producers: ProducerStates
    snapshot_offset: int  # of the newest snapshot of producers; NO_OFFSET without one


def recover_log(
    files: Files,
    directory: str,
    config: LogConfig,
    *,
    recovery_point: int,
    was_clean: bool,
    log_start_offset: int,
    wall_ms: int,
    may_have_gaps: bool = False,
    keeps_producers: bool = True,
) -> Recovered:
    """Load or repair the partition's folder. `may_have_gaps`: compaction has been there, whatever the folder
    says. Errors: KafkaStorageError when the disk fails."""
    recovery = _Recovery(files, directory, config, wall_ms, keeps_producers=keeps_producers)
    bases = recovery.tidy_folder()
    recovery.has_gaps |= may_have_gaps
    recovery.load_epochs()
    for number, base_offset in enumerate(bases):
        following = bases[number + 1] if number + 1 < len(bases) else None
        # A segment that ends right at the recovery point counts as not flushed: its batches were, but it may
        # have been sealed after that, and its index files not be on the disk or be those of an earlier life.
        if not was_clean and (following is None or following >= recovery_point):
            goes_on = recovery.scan(base_offset, following, recovery_point)
        else:
            goes_on = recovery.trust(base_offset, following)
        if not goes_on:
            recovery.remove_segments(bases[number + 1 :])
            break
    return recovery.finish(log_start_offset, was_clean=was_clean)


class _Recovery:
    """The steps of one recovery and what they have found so far."""

    def __init__(
        self, files: Files, directory: str, config: LogConfig, wall_ms: int, *, keeps_producers: bool
    ) -> None:
        self._files = files
        self._directory = directory
        self._interval = config.index_interval_bytes
        self._wall_ms = wall_ms
        self._epochs = LeaderEpochs()
        self._has_epochs = False
        self._has_scanned = False
        self.has_gaps = False
        self._segments: list[Segment] = []
        self._report = RecoveryReport()
        self._keeps_producers = keeps_producers
        self._producers = ProducerStates()
        self._snapshots: list[int] = []
        self._has_producers = False  # it may have: there was a snapshot, whether it counts or not
        self._aborting: set[int] = set()  # base offsets of segments that have a transaction index

    def tidy_folder(self) -> list[int]:
        """Remove what interrupted work left behind; base offsets of the segments that are there, rising."""
        listed = self._files.listdir(self._directory)
        self.has_gaps = names.OFFSET_GAPS in listed
        if any(name.endswith(names.SWAP) for name in listed):
            finish_swaps(self._files, self._directory, listed)
            listed = self._files.listdir(self._directory)
        bases = {
            found[0] for name in listed if (found := names.parse_segment_name(name)) and found[1] == names.LOG
        }
        for name in listed:
            found = names.parse_segment_name(name)
            is_orphan = found is not None and found[1] in names.SEGMENT_SUFFIXES and found[0] not in bases
            if is_orphan or name.endswith((names.DELETED, names.CLEANED, names.TEMPORARY)):
                self._files.remove(f"{self._directory}/{name}")
            elif found is not None and found[1] == names.TXN_INDEX:
                self._aborting.add(found[0])
        if self._keeps_producers:
            self._snapshots = snapshot_offsets(listed)
            self._has_producers = bool(self._snapshots)
            self._drop_snapshots(stray_snapshots(self._snapshots, sorted(bases)))
        return sorted(bases)

    def load_epochs(self) -> None:
        """Read the leader-epoch-checkpoint, if it is there and whole; else it is rebuilt on the way."""
        path = f"{self._directory}/{names.LEADER_EPOCHS}"
        if not self._files.exists(path):
            return
        try:
            entries = parse_epochs(read_file(self._files, path))
            self._epochs, self._has_epochs = LeaderEpochs(entries), bool(entries)
        except CorruptFileError as error:
            self._report.faults.append(f"{path}: {error}; rebuilt from the log")

    def scan(self, base_offset: int, following: int | None, recovery_point: int) -> bool:
        """Read a segment whole and cut it at its first fault; whether the log may go on behind it.

        Compaction leaves gaps within segments, never between them: where one ends before the next begins,
        what lay there is lost. Below the recovery point nothing is: another server's cleaner has been there.
        """
        if not self._has_scanned:
            self._epochs.truncate_from_end(base_offset)
            self._load_producers(base_offset)
            self._has_scanned = True
        segment = self._open(base_offset)
        self._segments.append(segment)
        file_bytes = segment.file.size()
        fault = segment.recover(
            self._interval, self._epochs, has_gaps=self.has_gaps, producers=self._producers
        )
        self._report.scanned_bytes += file_bytes
        if segment.size_bytes != file_bytes:
            self._report.truncated_bytes += file_bytes - segment.size_bytes
            segment.cut()
        if fault is None and following is not None and following != segment.next_offset:
            if self.has_gaps and segment.next_offset < following <= recovery_point:
                segment.next_offset = following
            else:
                end = segment.next_offset
                fault = f"{segment.file.path} ends at offset {end}, the next starts at {following}"
        if fault:
            self._report.faults.append(fault)
        elif following is not None:
            segment.seal()
        return fault is None

    def trust(self, base_offset: int, following: int | None) -> bool:
        """Load a segment without reading it, rebuilding its indexes if they cannot be right.

        Damage in a segment below the recovery point is not cut out: what lies behind it was acknowledged and
        flushed. Reads of the damaged batches fail; the rest is served.
        """
        segment = self._open(base_offset)
        self._segments.append(segment)
        if not self._has_epochs:
            self._collect_epochs(segment)
        if following is None:
            fault = segment.load(self._interval, self._epochs, has_gaps=self.has_gaps)
        else:
            fault = segment.load_sealed(self._interval, following)
        if fault is None:
            return True
        self._report.faults.append(f"{fault}; rebuilt from the log")
        file_bytes = segment.file.size()
        self._report.scanned_bytes += file_bytes
        damage = segment.recover(self._interval, has_gaps=self.has_gaps)
        if damage:
            self._report.faults.append(damage)
        self._report.has_loss |= bool(damage) or following not in (None, segment.next_offset)
        if following is not None:
            segment.keep_whole(file_bytes, following)
        elif segment.size_bytes != file_bytes:
            self._report.truncated_bytes += file_bytes - segment.size_bytes
            segment.cut()
        return True

    def remove_segments(self, bases: list[int]) -> None:
        """Remove segments, the newest first: after a crash in between, what is left is a shorter log."""
        for base_offset in reversed(bases):
            segment = self._open(base_offset)
            self._report.truncated_bytes += segment.file.size()
            self._report.removed_segments += 1
            segment.remove()
        if bases:
            self._files.fsync_directory(self._directory)

    def finish(self, log_start_offset: int, *, was_clean: bool) -> Recovered:
        """Fit the side files to the end of the log that was found."""
        end_offset = self._segments[-1].next_offset if self._segments else log_start_offset
        if self._segments and end_offset < log_start_offset:
            # What was deleted up to the start offset must not come back under the same offsets.
            self._report.faults.append(
                f"the log ends at {end_offset}, before its start offset {log_start_offset}"
            )
            bases = [segment.base_offset for segment in self._segments]
            self._close_all()
            self.remove_segments(bases)
            self._drop_snapshots(list(self._snapshots))
            self._producers.clear()
            end_offset = log_start_offset
        if not self._segments:
            self._segments.append(
                Segment.create(self._files, self._directory, end_offset, created_ms=self._wall_ms)
            )
        self._epochs.truncate_from_end(end_offset + 1)
        oldest = self._epochs.entries[:1]
        # The oldest epoch begins with the log: epochs are cut before the segments that they lie in go.
        self._report.has_loss |= bool(oldest) and oldest[0].start_offset < self._segments[0].base_offset
        self._epochs.truncate_from_start(max(log_start_offset, self._segments[0].base_offset))
        self._drop_snapshots([offset for offset in self._snapshots if offset > end_offset])
        if not self._has_scanned and (self._has_producers or not was_clean):
            self._load_producers(end_offset)
        return Recovered(
            self._segments,
            self._epochs,
            self._report,
            self.has_gaps,
            self._producers,
            self._snapshots[-1] if self._snapshots else NO_OFFSET,
        )

    def _open(self, base_offset: int) -> Segment:
        path = f"{self._directory}/{names.segment_name(base_offset, names.LOG)}"
        segment = Segment(self._files, self._directory, base_offset, self._files.open(path), self._wall_ms)
        if base_offset in self._aborting:
            segment.load_aborted()
        return segment

    def _close_all(self) -> None:
        for segment in self._segments:
            segment.close()
        self._segments.clear()

    def _load_producers(self, upto_offset: int) -> None:
        if self._keeps_producers:
            faults = self._report.faults
            load_producers(self._files, self._directory, self._segments, upto_offset, self._producers, faults)

    def _drop_snapshots(self, offsets: list[int]) -> None:
        remove_snapshots(self._files, self._directory, offsets)
        self._snapshots = [offset for offset in self._snapshots if offset not in offsets]

    def _collect_epochs(self, segment: Segment) -> None:
        try:
            for _, header in walk_headers(segment.file, 0, segment.file.size()):
                if header.leader_epoch > self._epochs.latest_epoch:
                    self._epochs.assign(header.leader_epoch, header.base_offset)
        except CorruptMessageError as error:
            self._report.faults.append(str(error))
