"""Find out again what a log knows of its producers: from the newest sound snapshot and the batches behind it.

A snapshot counts if every batch behind it is still there. After an orderly end the newest one is that of the
log's end, and no batch is read. A log without any snapshot that ended in order was written before there were
producers with ids. Source: Kafka ProducerStateManager.java, UnifiedLog.java rebuildProducerState.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.errors import CorruptMessageError
from ...runtime.files.file_layer import read_file
from . import names
from .batches import walk_headers
from .checkpoints import CorruptFileError
from .markers import read_marker
from .producer_snapshot import parse_producer_snapshot

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ...runtime.files.file_layer import Files
    from .producer_states import ProducerStates
    from .segment import Segment


def load_producers(
    files: Files,
    directory: str,
    segments: Sequence[Segment],
    upto_offset: int,
    producers: ProducerStates,
    faults: list[str],
) -> None:
    """Make `producers` those of the log at `upto_offset`, where a batch begins; `segments` are those up to
    there, and what was before the first one is in the snapshot at its beginning. Damage in stored batches is
    added to `faults`. Errors: KafkaStorageError."""
    producers.clear()
    start = segments[0].base_offset if segments else upto_offset
    for offset in reversed(snapshot_offsets(files.listdir(directory))):
        if start <= offset <= upto_offset and _restore(files, directory, offset, producers):
            start = offset
            break
    for segment in segments:
        if segment.next_offset > start and segment.base_offset < upto_offset:
            try:
                _replay(segment, start, upto_offset, producers)
            except CorruptMessageError as error:
                faults.append(f"{error}; the producers behind it are not known")


def snapshot_offsets(listed: Iterable[str]) -> list[int]:
    """Offsets of the snapshots among the names in a partition's folder, rising."""
    found = (names.parse_segment_name(name) for name in listed)
    return sorted(entry[0] for entry in found if entry and entry[1] == names.SNAPSHOT)


def remove_snapshots(files: Files, directory: str, offsets: Iterable[int]) -> None:
    """Remove the snapshots of these offsets."""
    for offset in offsets:
        files.remove(f"{directory}/{names.segment_name(offset, names.SNAPSHOT)}")


def stray_snapshots(offsets: Sequence[int], bases: Sequence[int]) -> list[int]:
    """Of these snapshots, those that no segment begins at; but the newest one behind all segments' beginnings
    stays: it is that of an orderly end (KAFKA-12520)."""
    strays = sorted(set(offsets).difference(bases))
    if strays and bases and strays[-1] > bases[-1]:
        strays.pop()
    return strays


def _restore(files: Files, directory: str, offset: int, producers: ProducerStates) -> bool:
    path = f"{directory}/{names.segment_name(offset, names.SNAPSHOT)}"
    try:
        producers.restore(parse_producer_snapshot(read_file(files, path)))
    except CorruptFileError:
        return False  # the batches say it all, it only takes longer
    return True


def _replay(segment: Segment, start: int, upto_offset: int, producers: ProducerStates) -> None:
    for at, header in walk_headers(segment.file, 0, segment.size_bytes):
        if header.base_offset >= upto_offset:
            return
        if header.producer_id >= 0 and header.last_offset >= start:
            data = segment.file.pread(at, header.size_bytes) if header.is_control else b""
            marker = read_marker(data, header) if header.is_control else None
            producers.wrote(header, header.base_offset, marker)
