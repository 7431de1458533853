"""The log start offset, and the higher one that waits for a checkpoint."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.errors import OffsetOutOfRangeError
from ...protocol.records.header import read_batch_header
from .batches import crc_fault

if TYPE_CHECKING:
    from ...protocol.records.header import Buffer


class LogStart:
    """Invariant: offset <= pending_offset.
    Invariant: a new start offset is in the checkpoint before it becomes `offset`, which readers see, so that
    no crash shows deleted records again. It stays there: a crash may undo the renaming of a segment's files.
    """

    __slots__ = ("offset", "pending_offset")

    def __init__(self, offset: int) -> None:
        self.offset = self.pending_offset = offset

    def request(self, offset: int, end_offset: int) -> bool:
        """Have the next checkpoint say that the log starts at `offset`; `Log.advance_log_start_offset` is due
        after it. False if the pending offset is not lower. Errors: OffsetOutOfRangeError above the log end
        offset."""
        if offset > end_offset:
            raise OffsetOutOfRangeError(f"log start offset {offset} is above the end offset {end_offset}")
        if offset <= self.pending_offset:
            return False
        self.pending_offset = offset
        return True

    def is_inside(self, data: Buffer, end_offset: int) -> bool:
        """Whether the log is empty, and the first batch in `data` is sound, starts below the log start offset
        and reaches it: records were deleted up to the middle of a batch. Errors: CorruptMessageError."""
        if end_offset != self.offset:
            return False
        header = read_batch_header(data)
        batch = memoryview(data)[: header.size_bytes]
        is_inside = header.base_offset < self.offset <= header.last_offset
        return is_inside and len(batch) == header.size_bytes and crc_fault(batch, header) is None

    def truncated(self, end_offset: int) -> None:
        self.pending_offset = max(self.offset, min(self.pending_offset, end_offset))

    def check(self) -> None:
        assert self.offset <= self.pending_offset, "the log starts at an offset that was never requested"
