"""Damages the fake disk of a node while no process runs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from cluster_losses import is_unclean
from headrace.protocol.errors import CorruptMessageError
from headrace.protocol.records.header import CRC_POSITION, read_batch_header
from headrace.storage_node.log.checkpoints import parse_offsets
from headrace.storage_node.log.names import RECOVERY_POINTS, parse_folder_name

if TYPE_CHECKING:
    import random

    from fake_files import FakeFiles
    from headrace.protocol.model import TopicPartition


def rot(files: FakeFiles, log_dir: str, random: random.Random) -> bool:
    """Flip one bit of a batch above the recovery point of its log; False if there is none.

    The checksum does not cover base offset and leader epoch, as in Kafka: these bits are not flipped.
    """
    spots = [
        (path, start, size)
        for path in _unsynced_segments(files, log_dir)
        for start, size in _whole_batches(files.content(path))
    ]
    if not spots:
        return False
    path, start, size = random.choice(spots)
    files.flip_bit(path, start + random.randrange(CRC_POSITION, size), random.randrange(8))
    return True


@dataclass(slots=True)
class Taken:
    """A folder that was removed from the disk, with its files."""

    folder: str = ""
    contents: dict[str, bytes] = field(default_factory=dict)
    starts: int = 0  # starts of the node without the folder, before it is put back

    def take(self, files: FakeFiles, folder: str) -> None:
        """Remove a folder: the next process starts without it."""
        self.folder, self.starts = folder, 1
        self.contents = {name: files.content(f"{folder}/{name}") for name in files.listdir(folder)}
        for name in self.contents:
            files.remove(f"{folder}/{name}")
        files.rmdir(folder)

    def maybe_put_back(self, files: FakeFiles) -> None:
        """Put the folder back, once a process has started without it."""
        if self.folder and not self.starts:
            if not files.exists(self.folder):
                files.mkdir(self.folder)
                for name, content in self.contents.items():
                    files.put(f"{self.folder}/{name}", content)
                files.fsync_directory(self.folder.rpartition("/")[0])
            self.folder = ""
        self.starts = 0


def harm(files: FakeFiles, log_dir: str, random: random.Random, taken: Taken) -> str:
    """Remove a log with records, or a part of it. Returns the kind of damage, "" if there is no log."""
    folders = [
        f"{log_dir}/{name}"
        for name in files.listdir(log_dir)
        if parse_folder_name(name) and any(map(files.size, _segments(files, f"{log_dir}/{name}")))
    ]
    if not folders:
        return ""
    folder = random.choice(folders)
    kind = random.choice(("log cut", "log beheaded", "log emptied", "log taken", "log moved"))
    if kind == "log cut":
        segments = [path for path in _segments(files, folder) if files.size(path)]
        first = random.randrange(len(segments))
        for path in segments[first + 1 :]:
            files.remove(path)
        content = files.content(segments[first])
        files.put(segments[first], content[: random.randrange(len(content))])
        files.fsync_directory(folder)
    elif kind == "log beheaded" and not is_unclean(folder.rpartition("/")[2]):
        # Not in the topic with unclean elections: its leader could serve such a log.
        segments = _segments(files, folder)
        for path in segments[: random.randrange(len(segments))]:
            files.remove(path)
        files.fsync_directory(folder)
    elif kind == "log emptied":
        for path in _segments(files, folder):
            files.remove(path)
        files.fsync_directory(folder)
    elif kind == "log taken" and not taken.folder:
        taken.take(files, folder)
    else:
        files.rename(folder, f"{folder}.{len(files.listdir(log_dir))}")
    files.fsync_directory(log_dir)
    return kind


def _segments(files: FakeFiles, folder: str) -> list[str]:
    return [f"{folder}/{name}" for name in files.listdir(folder) if name.endswith(".log")]


def _unsynced_segments(files: FakeFiles, log_dir: str) -> list[str]:
    points = _recovery_points(files, log_dir)
    found = []
    for name in files.listdir(log_dir) if files.exists(log_dir) else ():
        partition, path = parse_folder_name(name), f"{log_dir}/{name}"
        if partition is None or not files.is_directory(path):
            continue
        for segment in files.listdir(path):
            if segment.endswith(".log") and int(segment.removesuffix(".log")) >= points.get(partition, 0):
                found.append(f"{path}/{segment}")
    return found


def _recovery_points(files: FakeFiles, log_dir: str) -> dict[TopicPartition, int]:
    path = f"{log_dir}/{RECOVERY_POINTS}"
    return parse_offsets(files.content(path)) if files.exists(path) else {}


def _whole_batches(data: bytes) -> list[tuple[int, int]]:
    """(position, size) of the whole batches at the beginning of a segment, whose end may be torn."""
    found, position = [], 0
    while position < len(data):
        try:
            size = read_batch_header(data, position).size_bytes
        except CorruptMessageError:
            break
        if position + size > len(data):
            break
        found.append((position, size))
        position += size
    return found
