"""Rebuild the producer state of a log from the newest sound snapshot and the batches after it.

A snapshot is valid if every batch after it is still in the log. After a clean shutdown the newest snapshot is
that of the log end offset, and no batch is read. A cleanly closed log without a snapshot had no producers
with ids. Source: Kafka ProducerStateManager.java, UnifiedLog.java rebuildProducerState.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.errors import CorruptMessageError
from ...protocol.model import NO_OFFSET
from ...runtime.files.file_layer import read_file, sync_files, write_file_atomically
from . import names
from .batches import walk_headers
from .checkpoints import CorruptFileError
from .index_files import write_index
from .markers import read_marker
from .producer_snapshot import format_producer_snapshot, parse_producer_snapshot
from .producer_states import ProducerStates

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from .partition_folder import PartitionFolder
    from .segment import Segment


def load_producers(
    folder: PartitionFolder,
    segments: Sequence[Segment],
    upto_offset: int,
    producers: ProducerStates,
    faults: list[str],
) -> None:
    """Set `producers` to the state at `upto_offset`, the start of a batch; `segments` reach up to it, and the
    snapshot of the first base offset has the state before them. Damaged batches are added to `faults`.
    Errors: KafkaStorageError."""
    producers.clear()
    start = segments[0].base_offset if segments else upto_offset
    for offset in reversed(snapshot_offsets(folder)):
        if start <= offset <= upto_offset and _restore(folder, offset, producers):
            start = offset
            break
    for segment in segments:
        if segment.next_offset > start and segment.base_offset < upto_offset:
            try:
                _replay(segment, start, upto_offset, producers)
            except CorruptMessageError as error:
                faults.append(f"{error}; producer state after it is not known")


def secure_snapshot(folder: PartitionFolder, dropped: Sequence[Segment]) -> None:
    """Bring the snapshot at the end of the oldest segments, which leave the log, to the disk: their batches
    cannot replace it any more. A missing or damaged one is rebuilt from them. Errors: KafkaStorageError."""
    offset = dropped[-1].next_offset
    path = _path(folder, offset)
    producers = ProducerStates()
    if not folder.files.exists(path) or not _restore(folder, offset, producers):
        load_producers(folder, dropped, offset, producers, faults=[])
        if producers.is_empty:
            return
        write_index(folder.files, path, format_producer_snapshot(producers.to_snapshot()))
    sync_files(folder.files, [path])


def end_transactions(folder: PartitionFolder, offset: int) -> None:
    """Rewrite a sound snapshot without open transactions. Durable on return. Errors: KafkaStorageError."""
    path = _path(folder, offset)
    try:
        states = parse_producer_snapshot(read_file(folder.files, path))
    except CorruptFileError:
        return
    ended = [state._replace(transaction_first_offset=NO_OFFSET) for state in states]
    if ended != states:
        name = names.segment_name(offset, names.SNAPSHOT)
        write_file_atomically(folder.files, folder.path, name, format_producer_snapshot(ended))


def snapshot_offsets(folder: PartitionFolder) -> list[int]:
    """Offsets of the producer snapshots in a partition's folder, rising."""
    found = (names.parse_segment_name(name) for name in folder.files.listdir(folder.path))
    return sorted(entry[0] for entry in found if entry and entry[1] == names.SNAPSHOT)


def remove_snapshots(folder: PartitionFolder, offsets: Iterable[int]) -> None:
    """The caller syncs the folder."""
    for offset in offsets:
        folder.files.remove(_path(folder, offset))


def stray_snapshots(offsets: Sequence[int], bases: Sequence[int]) -> list[int]:
    """The snapshots that are not at the base offset of a segment; but the newest one above all base offsets
    stays: it is that of a clean shutdown (KAFKA-12520)."""
    strays = sorted(set(offsets).difference(bases))
    if strays and bases and strays[-1] > bases[-1]:
        strays.pop()
    return strays


def _restore(folder: PartitionFolder, offset: int, producers: ProducerStates) -> bool:
    try:
        producers.restore(parse_producer_snapshot(read_file(folder.files, _path(folder, offset))))
    except CorruptFileError:
        return False  # the state is rebuilt from the batches, which takes longer
    return True


def _replay(segment: Segment, start: int, upto_offset: int, producers: ProducerStates) -> None:
    for at, header in walk_headers(segment.file, 0, segment.size_bytes):
        if header.base_offset >= upto_offset:
            return
        if header.producer_id >= 0 and header.last_offset >= start:
            data = segment.file.pread(at, header.size_bytes) if header.is_control else b""
            marker = read_marker(data, header) if header.is_control else None
            producers.wrote(header, header.base_offset, marker)


def _path(folder: PartitionFolder, offset: int) -> str:
    return folder.file(names.segment_name(offset, names.SNAPSHOT))
