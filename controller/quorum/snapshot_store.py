"""The snapshot files of one metadata log: recovered, written, fetched piece by piece, sent piece by piece."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from ...protocol.errors import CorruptMessageError, PositionOutOfRangeError, SnapshotNotFoundError
from ...protocol.metadata.image import MetadataImage
from .snapshots import (
    CORRUPT_SUFFIX,
    NO_VOTERS,
    PART_SUFFIX,
    SnapshotId,
    list_snapshots,
    read_snapshot,
    write_snapshot,
)

if TYPE_CHECKING:
    from ...protocol.records.control import VoterSet
    from ...protocol.records.header import Buffer
    from ...runtime.files.file_layer import Files

SNAPSHOTS_KEPT = 2


class SnapshotStore:
    """Invariant: `ids` are newest first, and name the valid snapshots on the disk.

    Errors: KafkaStorageError from everything that uses the disk.
    """

    def __init__(self, files: Files, directory: str) -> None:
        self._files, self._directory = files, directory
        self.ids: list[SnapshotId] = []
        self.damaged: list[str] = []  # why `recover` ignored newer ones
        self.damaged_downloads = 0  # fetched from the leader

    @property
    def newest(self) -> SnapshotId | None:
        return self.ids[0] if self.ids else None

    @property
    def has_all_kept(self) -> bool:
        """Whether there are so many snapshots that the log before the oldest of them is not needed."""
        return len(self.ids) == SNAPSHOTS_KEPT

    def check(self) -> None:
        """Assert the invariant."""
        assert all(newer > older for newer, older in pairwise(self.ids)), f"not newest first: {self.ids}"

    def recover(self) -> tuple[MetadataImage, VoterSet]:
        """The image and voters of the newest valid snapshot. A damaged file is renamed, so that it does not
        count as one of the snapshots to keep; partly fetched ones are deleted."""
        for name in self._files.listdir(self._directory):
            if name.endswith(PART_SUFFIX):
                self._files.remove(f"{self._directory}/{name}")
        snapshots = list_snapshots(self._files, self._directory)
        for index, snapshot in enumerate(snapshots):
            try:
                image, voters = self.read(snapshot)
            except CorruptMessageError as error:
                self.damaged.append(str(error))
                self._files.rename(self._path(snapshot), self._path(snapshot, CORRUPT_SUFFIX))
            else:
                self.ids = snapshots[index:]
                return image, voters
        return MetadataImage(), NO_VOTERS

    def read(self, snapshot: SnapshotId) -> tuple[MetadataImage, VoterSet]:
        """Image and voters. Errors: CorruptMessageError."""
        return read_snapshot(self._files, self._directory, snapshot)

    def write(self, image: MetadataImage, epoch: int, wall_ms: int, voters: VoterSet) -> SnapshotId:
        """Write a snapshot, durable on return, for `add`. Any thread."""
        return write_snapshot(self._files, self._directory, image, epoch, wall_ms, voters)

    def add(self, snapshot: SnapshotId) -> bool:
        """The snapshot is on the disk; False if it is not newer than the newest."""
        if self.ids and snapshot <= self.ids[0]:
            return False
        self.ids.insert(0, snapshot)
        return True

    def delete_old(self) -> None:
        """Delete all but the newest snapshots."""
        for old in self.ids[SNAPSHOTS_KEPT:]:
            self._files.remove(self._path(old))
        del self.ids[SNAPSHOTS_KEPT:]

    # --- pieces -----------------------------------------------------------------------------------------

    def chunk(self, snapshot: SnapshotId, position: int, max_bytes: int) -> tuple[int, bytes]:
        """(size of the snapshot in bytes, its bytes from `position` on, at most `max_bytes`).

        Errors: SnapshotNotFoundError, PositionOutOfRangeError.
        """
        if snapshot not in self.ids:
            raise SnapshotNotFoundError(f"no snapshot {snapshot.file_name}")
        file = self._files.open(self._path(snapshot))
        try:
            size = file.size()
            if not 0 <= position < size:
                raise PositionOutOfRangeError(f"position {position} of {size} bytes")
            return size, file.pread(position, min(max_bytes, size - position))
        finally:
            file.close()

    def receive(self, snapshot: SnapshotId, position: int, data: Buffer) -> None:
        """Store a piece of a fetched snapshot; pieces come in order from position 0 on."""
        file = self._files.open(self._path(snapshot, PART_SUFFIX), create=True)
        try:
            if not position:
                file.truncate(0)
            file.pwrite(position, [data])
        finally:
            file.close()

    def install(self, snapshot: SnapshotId) -> VoterSet:
        """The fetched snapshot is complete: make it the newest, durably; its voters.

        Errors: CorruptMessageError if it is damaged: it is deleted.
        """
        part = self._path(snapshot, PART_SUFFIX)
        try:
            _, voters = read_snapshot(self._files, self._directory, snapshot, PART_SUFFIX)
        except CorruptMessageError:
            self.damaged_downloads += 1
            self._files.remove(part)
            raise
        file = self._files.open(part)
        file.fdatasync()
        file.close()
        self._files.rename(part, self._path(snapshot))
        self._files.fsync_directory(self._directory)
        self.ids = [snapshot, *(each for each in self.ids if each < snapshot)]
        return voters

    def _path(self, snapshot: SnapshotId, suffix: str = "") -> str:
        return f"{self._directory}/{snapshot.file_name}{suffix}"
