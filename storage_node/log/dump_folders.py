"""Dump a whole partition folder or log dir: every file in it, and with `verify` contradictions between files.

Segments must not overlap and go on where the one before ends, but for the gaps that compaction leaves;
epochs in batches and in the leader-epoch-checkpoint must agree; snapshots and aborted transactions must
lie in the log; checkpoints must name folders that are there and offsets that those have. Apache Kafka's
folders obey the same rules.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ...runtime.files.file_layer import read_file
from . import names
from .checkpoints import CorruptFileError, parse_epochs, parse_offsets
from .dump import DumpEntry, dump_file, fault, is_known
from .producer_snapshot import parse_producer_snapshot
from .transaction_index import parse_transaction_index

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ...protocol.model import TopicPartition
    from ...runtime.files.file_layer import Files
    from .leader_epochs import EpochEntry

Found = tuple[str, DumpEntry]  # path of the file, and what is in it
_OFFSET_FILES = (names.RECOVERY_POINTS, names.HIGH_WATERMARKS, names.LOG_START_OFFSETS)


@dataclass(slots=True)
class FolderContents:
    """Facts from the batches of one partition's folder."""

    base_offsets: list[int] = field(default_factory=list)  # of the segments, rising
    end_offsets: list[int] = field(default_factory=list)  # of the segments; the base where one is empty
    epochs: list[tuple[int, int]] = field(
        default_factory=list
    )  # (base offset, epoch) where the epoch changes
    end_offset: int = 0


def dump_path(files: Files, path: str, *, has_records: bool = True, verify: bool = False) -> Iterator[Found]:
    """Entries of a file, of all files in a partition's folder, or of all in a log dir; with `verify` also
    faults between files. Errors: KafkaStorageError when the disk fails."""
    if not files.is_directory(path):
        for entry in dump_file(files, path, has_records=has_records, verify=verify):
            yield path, entry
    elif _is_partition_folder(files, path):
        yield from _dump_folder(files, path, FolderContents(), has_records=has_records, verify=verify)
    else:
        yield from _dump_log_dir(files, path, has_records=has_records, verify=verify)


def _is_partition_folder(files: Files, path: str) -> bool:
    return any(
        names.parse_segment_name(name) or name == names.PARTITION_METADATA for name in files.listdir(path)
    )


def _dump_log_dir(files: Files, path: str, *, has_records: bool, verify: bool) -> Iterator[Found]:
    ends: dict[TopicPartition, FolderContents] = {}
    for name in files.listdir(path):
        inner = f"{path}/{name}"
        if not files.is_directory(inner):
            continue
        whose = names.parse_folder_name(name)
        if whose is not None or name.endswith((names.DELETE_FOLDER, names.STRAY_FOLDER, names.FUTURE_FOLDER)):
            contents = FolderContents()
            yield from _dump_folder(files, inner, contents, has_records=has_records, verify=verify)
            if whose is not None:
                ends[whose] = contents
    for name in files.listdir(path):
        inner = f"{path}/{name}"
        if is_known(name) and not files.is_directory(inner):
            for entry in dump_file(files, inner):
                yield inner, entry
            if verify and name in _OFFSET_FILES:
                yield from _checkpoint_faults(files, inner, name, ends)


def _dump_folder(
    files: Files, path: str, contents: FolderContents, *, has_records: bool, verify: bool
) -> Iterator[Found]:
    """Segments first: the other files are compared with them."""
    listed = [name for name in files.listdir(path) if not files.is_directory(f"{path}/{name}")]
    for name in sorted(listed, key=lambda name: (not name.endswith(names.LOG), name)):
        inner = f"{path}/{name}"
        if not is_known(name):
            continue
        found = names.parse_segment_name(name)
        base_offset = found[0] if found is not None and found[1] == names.LOG else None
        if base_offset is not None:
            if verify and contents.base_offsets and base_offset < contents.end_offset:
                yield (
                    inner,
                    fault(0, f"starts at {base_offset}, the previous segment ends at {contents.end_offset}"),
                )
            contents.base_offsets.append(base_offset)
            contents.end_offset = max(contents.end_offset, base_offset)
        for entry in dump_file(files, inner, has_records=has_records, verify=verify):
            yield inner, entry
            if base_offset is not None and entry.kind == "batch":
                _note(contents, entry)
        if base_offset is not None:
            contents.end_offsets.append(contents.end_offset)
    if verify:
        yield from _folder_faults(files, path, listed, contents)


def _note(contents: FolderContents, batch: DumpEntry) -> None:
    base_offset, epoch = batch.fields["base_offset"], batch.fields["leader_epoch"]
    contents.end_offset = max(contents.end_offset, batch.fields["last_offset"] + 1)
    if not contents.epochs or contents.epochs[-1][1] != epoch:
        contents.epochs.append((base_offset, epoch))


def _folder_faults(files: Files, path: str, listed: list[str], contents: FolderContents) -> Iterator[Found]:
    for base_offset, end_offset in zip(contents.base_offsets[:-1], contents.end_offsets[:-1], strict=False):
        for suffix in (names.OFFSET_INDEX, names.TIME_INDEX):
            name = names.segment_name(base_offset, suffix)
            if name not in listed and end_offset > base_offset:
                yield f"{path}/{name}", fault(None, "is missing")
    for name in listed:
        inner, found = f"{path}/{name}", names.parse_segment_name(name)
        try:
            if name == names.LEADER_EPOCHS:
                yield from _epoch_faults(inner, parse_epochs(read_file(files, inner)), contents)
            elif found is not None and found[1] == names.SNAPSHOT:
                yield from _producer_faults(files, inner, found[0], contents)
            elif found is not None and found[1] == names.TXN_INDEX:
                yield from _transaction_faults(files, inner, found[0], contents)
        except CorruptFileError:
            pass  # reported when the file was dumped


def _epoch_faults(path: str, entries: list[EpochEntry], contents: FolderContents) -> Iterator[Found]:
    starts = [entry.start_offset for entry in entries]
    for entry in entries:
        if entry.start_offset > contents.end_offset:
            yield (
                path,
                fault(None, f"epoch {entry.epoch} starts at {entry.start_offset}, the log ends before"),
            )
    for base_offset, epoch in contents.epochs:
        number = bisect_right(starts, base_offset) - 1
        said = entries[number].epoch if number >= 0 else None
        is_older = number < 0 and bool(entries) and epoch <= entries[0].epoch  # below the log's start offset
        if epoch >= 0 and said != epoch and not is_older:
            yield path, fault(None, f"the batch at offset {base_offset} has epoch {epoch}, not {said}")


def _producer_faults(files: Files, path: str, offset: int, contents: FolderContents) -> Iterator[Found]:
    if offset > contents.end_offset:
        yield path, fault(None, f"a snapshot at {offset}, the log ends at {contents.end_offset}")
    for producer in parse_producer_snapshot(read_file(files, path)):
        if producer.last_offset >= offset or producer.transaction_first_offset >= offset:
            yield path, fault(None, f"producer {producer.producer_id} has records above offset {offset}")


def _transaction_faults(
    files: Files, path: str, base_offset: int, contents: FolderContents
) -> Iterator[Found]:
    if base_offset not in contents.base_offsets:
        yield path, fault(None, "has no segment")
        return
    end_offset = contents.end_offsets[contents.base_offsets.index(base_offset)]
    last_offset = -1
    for number, entry in enumerate(parse_transaction_index(read_file(files, path))):
        if not base_offset <= entry.last_offset < end_offset or entry.first_offset > entry.last_offset:
            yield path, fault(None, f"entry {number} does not end in this segment")
        if entry.last_offset <= last_offset:
            yield path, fault(None, f"entry {number} does not rise")
        last_offset = entry.last_offset


def _checkpoint_faults(
    files: Files, path: str, name: str, folders: dict[TopicPartition, FolderContents]
) -> Iterator[Found]:
    try:
        offsets = parse_offsets(read_file(files, path))
    except CorruptFileError:
        return  # reported when the file was dumped
    for whose, offset in sorted(offsets.items()):
        contents = folders.get(whose)
        if contents is None:
            if offset > 0:
                yield path, fault(None, f"{whose} has offset {offset} and has no folder in this dir")
        elif offset > contents.end_offset:
            yield (path, fault(None, f"{whose} has offset {offset}, its log ends at {contents.end_offset}"))
        elif name == names.LOG_START_OFFSETS and contents.base_offsets and offset < contents.base_offsets[0]:
            first = contents.base_offsets[0]
            yield path, fault(None, f"{whose} has start offset {offset}, its first segment starts at {first}")
