"""Replace several segments by one, so that any crash leaves either the old ones or the new one.

1. The new segment is written to `.cleaned` files, which are synced. A crash up to here leaves the old
segments; recovery removes `.cleaned` files. 2. The files are renamed to `.swap`, the `.log` last, and the
folder is synced. From here on the new segment is valid: recovery finishes the following steps. While a
`.cleaned` file is left, the `.swap` files of the same segment are not valid. 3. The old files are renamed to
`.deleted`. 4. The new files get their final names, the `.log` last, and the folder is synced.

A `.log.swap` file replaces the segments whose base offsets are in its range of offsets.
Source: Kafka LocalLog.java replaceSegments, LogLoader.java removeTempFilesAndCollectSwapFiles.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ....protocol.errors import CorruptMessageError, KafkaStorageError
from .. import names
from ..batches import walk_headers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ....runtime.files.file_layer import Files
    from ..segment import Segment

# The `.log` last: when it is there, the others are too.
_ORDER = (names.OFFSET_INDEX, names.TIME_INDEX, names.TXN_INDEX, names.LOG)


def stage(files: Files, segment: Segment) -> None:
    """Step 2; the files of the segment are synced. Errors: KafkaStorageError."""
    _rename(files, segment, names.SWAP)
    files.fsync_directory(segment.directory)


def settle(files: Files, old: Sequence[Segment], new: Segment) -> None:
    """Steps 3 and 4, once the log serves `new`. Errors: KafkaStorageError."""
    for segment in old:
        segment.retire()
    _rename(files, new, "")
    files.fsync_directory(new.directory)


def finish_swaps(files: Files, directory: str, listed: Sequence[str]) -> None:
    """Finish or undo the swaps that a crash interrupted; idempotent.

    Errors: KafkaStorageError, also if a segment that may be the only copy of its records is damaged.
    """
    cleaned = _named(listed, names.CLEANED)
    swapped = _named(listed, names.SWAP)
    undone_from = min((base for base, _ in cleaned), default=names.MAX_OFFSET)
    for base, suffix in swapped:
        if base >= undone_from or (suffix != names.LOG and (base, names.LOG) not in swapped):
            files.remove(_path(directory, base, suffix, names.SWAP))
    for base, suffix in swapped:
        if suffix == names.LOG and base < undone_from:
            _finish(files, directory, base, listed)


def _finish(files: Files, directory: str, base: int, listed: Sequence[str]) -> None:
    end = _end_offset(files, _path(directory, base, names.LOG, names.SWAP), base)
    for other, suffix in _named(listed, ""):
        if suffix == names.LOG and (other == base or base <= other < end):
            # Order: the `.log` first; without it the other files are orphans.
            for each in names.SEGMENT_SUFFIXES:
                if files.exists(_path(directory, other, each, "")):
                    files.remove(_path(directory, other, each, ""))
    for suffix in _ORDER:
        path = _path(directory, base, suffix, names.SWAP)
        if files.exists(path):
            files.rename(path, _path(directory, base, suffix, ""))
    files.fsync_directory(directory)


def _end_offset(files: Files, path: str, base: int) -> int:
    file = files.open(path)
    end = base
    try:
        for _, header in walk_headers(file, 0, file.size()):
            end = header.next_offset
    except CorruptMessageError as error:
        raise KafkaStorageError(f"an unfinished compaction is damaged: {error}") from error
    finally:
        file.close()
    return end


def _rename(files: Files, segment: Segment, ending: str) -> None:
    for suffix in _ORDER:
        path = segment.path_of(suffix)
        if files.exists(path):
            files.rename(path, _path(segment.directory, segment.base_offset, suffix, ending))
    segment.ending = ending


def _path(directory: str, base: int, suffix: str, ending: str) -> str:
    return f"{directory}/{names.segment_name(base, suffix)}{ending}"


def _named(listed: Sequence[str], ending: str) -> list[tuple[int, str]]:
    """(base offset, suffix) of the segment files with this ending."""
    found = (names.parse_segment_name(name.removesuffix(ending)) for name in listed if name.endswith(ending))
    return sorted(each for each in found if each is not None and each[1] in names.SEGMENT_SUFFIXES)
