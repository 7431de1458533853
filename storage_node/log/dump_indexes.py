"""Dump the entries of an offset or time index, checked by themselves and optionally against the log."""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, Any

from ...protocol.errors import CorruptMessageError
from ...protocol.model import NO_TIMESTAMP
from . import offset_index, time_index
from .batches import walk_headers
from .offset_index import OffsetIndex
from .time_index import TimeIndex

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ...protocol.records.header import BatchHeader
    from ...runtime.files.file_layer import Files

Entry = tuple[str, dict[str, Any], int]  # kind, fields, position


class IndexCheck:
    """The batches of the `.log` file, to compare index entries with."""

    def __init__(self, files: Files, log_path: str) -> None:
        self._last_offset_at: dict[int, int] = {}  # by position
        self._last_offsets: list[int] = []
        self._largest_ms: list[int] = []  # up to each batch
        self.fault: str | None = None
        file = files.open(log_path)
        try:
            for position, header in walk_headers(file, 0, file.size()):
                self._note(position, header)
        except CorruptMessageError as error:
            self.fault = str(error)
        finally:
            file.close()

    def offset_fault(self, offset: int, position: int) -> str | None:
        """Why no batch ends at `offset` and starts at `position`, or None."""
        last_offset = self._last_offset_at.get(position)
        if last_offset is None:
            return f"no batch starts at {position} in the log"
        return None if last_offset == offset else f"the batch at {position} ends at offset {last_offset}"

    def time_fault(self, timestamp_ms: int, offset: int) -> str | None:
        """Why `timestamp_ms` is not the largest timestamp up to the batch with `offset`, or None."""
        number = bisect_left(self._last_offsets, offset)
        if number == len(self._last_offsets):
            return f"offset {offset} is not in the log"
        largest_ms = self._largest_ms[number]
        return None if largest_ms == timestamp_ms else f"the largest timestamp up to it is {largest_ms}"

    def _note(self, position: int, header: BatchHeader) -> None:
        self._last_offset_at[position] = header.last_offset
        self._last_offsets.append(header.last_offset)
        before_ms = self._largest_ms[-1] if self._largest_ms else NO_TIMESTAMP
        self._largest_ms.append(max(before_ms, header.max_timestamp))


def dump_offset_index(data: bytes, base_offset: int, check: IndexCheck | None) -> Iterator[Entry]:
    """Entries and faults of an offset index."""
    whole, faults = _whole(data, offset_index.ENTRY_BYTES)
    previous = (-1, -1)
    for number, entry in enumerate(OffsetIndex.from_bytes(base_offset, whole).entries()):
        at = number * offset_index.ENTRY_BYTES
        yield "offset_index", {"offset": entry.offset, "log_position": entry.position}, at
        if number and (entry.offset <= previous[0] or entry.position <= previous[1]):
            yield "fault", {"why": "does not rise over the entry before"}, at
        fault = check.offset_fault(entry.offset, entry.position) if check else None
        if fault:
            yield "fault", {"why": fault}, at
        previous = (entry.offset, entry.position)
    yield from faults
    yield from _log_fault(check)


def dump_time_index(data: bytes, base_offset: int, check: IndexCheck | None) -> Iterator[Entry]:
    """Entries and faults of a time index."""
    whole, faults = _whole(data, time_index.ENTRY_BYTES)
    previous = (-1, -1)
    for number, entry in enumerate(TimeIndex.from_bytes(base_offset, whole).entries()):
        at = number * time_index.ENTRY_BYTES
        yield "time_index", {"timestamp": entry.timestamp_ms, "offset": entry.offset}, at
        if number and (entry.timestamp_ms <= previous[0] or entry.offset < previous[1]):
            yield "fault", {"why": "does not rise over the entry before"}, at
        fault = check.time_fault(entry.timestamp_ms, entry.offset) if check else None
        if fault:
            yield "fault", {"why": fault}, at
        previous = entry
    yield from faults
    yield from _log_fault(check)


def _whole(data: bytes, entry_bytes: int) -> tuple[bytes, list[Entry]]:
    """The bytes without an unused tail: zeros that Kafka preallocates in active segments, or a partial
    entry."""
    end = len(data) - len(data) % entry_bytes
    faults: list[Entry] = []
    if end != len(data):
        faults.append(("fault", {"why": f"{len(data) - end} bytes at the end are not a whole entry"}, end))
    used = end
    while used and not any(data[used - entry_bytes : used]):
        used -= entry_bytes
    if used != end:
        faults.insert(0, ("reserved", {"size_bytes": end - used}, used))
    return data[:used], faults


def _log_fault(check: IndexCheck | None) -> Iterator[Entry]:
    if check is not None and check.fault is not None:
        yield "fault", {"why": check.fault}, 0
