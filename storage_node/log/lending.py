"""Zero-copy reads: batches that are sent from the segment's file, by sendfile, without reading them; with TLS
they are read in pieces, when they are encrypted.

A log lends whole batches that are in the page cache and below the reader's end offset: bytes that do not
change any more. Compaction, retention and deletion do not affect them, because the file stays open. A
truncation does: all lent runs are revoked before the file is truncated, and the connection that is sending
one is closed. Over loopback, bytes already in the reader's socket still share their pages with the file.

Only the first header of a run and the header after it are checked. The client checks the CRCs; if one is
wrong, it fetches again from there, and that header is checked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeAlias
from weakref import WeakSet

from ...protocol.errors import CorruptMessageError
from ...protocol.records.header import HEADER_BYTES, read_batch_header

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...protocol.records.header import BatchHeader, Buffer
    from ...runtime.files.file_layer import Lent
    from .leader_epochs import LeaderEpochs
    from .segment import Segment

Part: TypeAlias = "Buffer | LentRun"  # of a response

# Below it a read is cheaper. Measured: a read and a send of 64 KiB take 15 us.
_LEAST_BYTES = 64 * 1024
# Bound: of one run; the kernel is asked about each of its pages.
_MOST_BYTES = 4 * 1024 * 1024


class RevokedError(Exception):
    """The log was truncated: the run must not be sent any more."""


class LentRun:
    """Whole batches in a file; `len` is their size in bytes, `next_offset` follows the last one.

    The connection holds it until all is sent; `on_revoked` is called if the log is truncated before that.
    """

    __slots__ = ("__weakref__", "_is_revoked", "_lent", "_size", "next_offset", "on_revoked")

    def __init__(self, lent: Lent, next_offset: int) -> None:
        self._lent, self._size = lent, len(lent)
        self._is_revoked = False
        self.next_offset = next_offset
        self.on_revoked: Callable[[], None] | None = None

    def __len__(self) -> int:
        return self._size

    def send(self, descriptor: int, start: int) -> int:
        """Send as many bytes from `start` on as the socket takes. Errors: RevokedError; OSError,
        BlockingIOError if it takes none now."""
        if self._is_revoked:
            raise RevokedError
        sent = self._lent.send(descriptor, start)
        if not sent:
            raise RevokedError  # the file was truncated
        return sent

    def read_into(self, room: Buffer, start: int) -> int:
        """Read bytes from `start` on into `room`, at least one. Errors: RevokedError, OSError."""
        if self._is_revoked:
            raise RevokedError
        count = self._lent.read_into(room, start)
        if not count:
            raise RevokedError  # the file was truncated
        return count

    def revoke(self) -> None:
        self._is_revoked = True
        if self.on_revoked is not None:
            self.on_revoked()


class Unlent(Protocol):
    """Byte ranges that must be read instead of lent."""

    def overlaps(self, segment: Segment, start: int, end: int) -> bool:
        """Whether one overlaps bytes `start` to `end` of a segment."""


class Lendings:
    """The runs that a log has lent and that are still held."""

    def __init__(self) -> None:
        self._runs: WeakSet[LentRun] = WeakSet()

    def __len__(self) -> int:
        return len(self._runs)

    def add(self, run: LentRun) -> None:
        self._runs.add(run)

    def revoke_all(self) -> None:
        """Order: before the log is truncated."""
        for run in list(self._runs):
            run.revoke()
        self._runs.clear()


def lend_run(
    segment: Segment, epochs: LeaderEpochs, offset: int, max_bytes: int, upto_offset: int, unlent: Unlent
) -> LentRun | None:
    """The batches from the one that starts at `offset` on, below `upto_offset`, of at most `max_bytes`. None
    if they must be read: too few bytes, not in the page cache, `offset` is not the end of an earlier read, or
    they overlap `unlent`."""
    start = segment.run_ends.find(offset)
    if start is None or max_bytes < _LEAST_BYTES:
        return None
    upto_position = start.position + min(max_bytes, _MOST_BYTES)
    next_offset: int | None
    if upto_offset >= segment.next_offset and segment.size_bytes <= upto_position:
        end, next_offset = segment.size_bytes, segment.next_offset
    else:
        end, next_offset = _last_start(segment, upto_position, upto_offset)
    is_short = next_offset is None or end - start.position < _LEAST_BYTES
    if is_short or unlent.overlaps(segment, start.position, end):
        return None
    assert next_offset is not None, "a long run has an end"
    first = _header_at(segment, start.position)
    if first is None or first.base_offset != offset:
        return None
    if first.leader_epoch != epochs.epoch_of(first.last_offset):
        return None
    lent = segment.file.lend(start.position, end - start.position)
    if lent is None:
        return None
    segment.run_ends.note(next_offset, end)
    return LentRun(lent, next_offset)


def _last_start(segment: Segment, upto_position: int, upto_offset: int) -> tuple[int, int | None]:
    """(position, base offset) of the last batch in the index at or before a byte, with all batches before it
    below `upto_offset`; the offset is None if the batch does not match the index."""
    entry = segment.entry_within(upto_position, upto_offset)
    header = None if entry is None else _header_at(segment, entry.position)
    if entry is None or header is None or header.last_offset != entry.offset:
        return 0, None
    return entry.position, header.base_offset


def _header_at(segment: Segment, position: int) -> BatchHeader | None:
    data = segment.file.pread_cached(position, HEADER_BYTES)
    try:
        return None if data is None else read_batch_header(data)
    except CorruptMessageError:
        return None  # the read reports the damage
