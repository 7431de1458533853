"""Batches that are sent from where they lie in a segment's file, instead of being read into memory first.

Lent are whole batches that lie in the page cache, below the offset that their reader may see: bytes that do
not change any more. They stay what they are when the log is cleaned, expires or is deleted, because the file
stays open. Only a truncation takes back what was promised: then all that the log has lent is revoked before
the file is touched, and whoever is sending it ends the connection at once. Over loopback alone, what lies in
the reader's own socket by then still shares its pages with the file.

What is not read is not looked at: of a run its first header is checked, and the one behind it. The rest is
for the reader's own check of CRCs; where it stumbles it asks again, and that header is checked.
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

Part: TypeAlias = "Buffer | LentRun"  # of an answer

# Below it reading costs less than asking. Measured: a read and a send of 64 KiB take 15 us.
_LEAST_BYTES = 64 * 1024
# Bound: of one run; the page cache is asked about each of its pages.
_MOST_BYTES = 4 * 1024 * 1024


class RevokedError(Exception):
    """The log was cut: what was lent is not to be sent any more."""


class LentRun:
    """Whole batches, as long as a buffer of them would be; `next_offset` follows the last of them.

    Whoever sends it keeps it until its reader has the bytes; `on_revoked` is called once if they are taken
    back before that.
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
        """Give a socket as much as it takes of the bytes from `start` on. Errors: RevokedError; OSError,
        BlockingIOError if it takes nothing now."""
        if self._is_revoked:
            raise RevokedError
        sent = self._lent.send(descriptor, start)
        if not sent:
            raise RevokedError  # the file is shorter than it was
        return sent

    def revoke(self) -> None:
        """Take it back."""
        self._is_revoked = True
        if self.on_revoked is not None:
            self.on_revoked()


class Unlent(Protocol):
    """Bytes that are to be read and not lent."""

    def overlaps(self, segment: Segment, start: int, end: int) -> bool:
        """Whether some of them lie from `start` to `end` of a segment."""


class Lendings:
    """What a log has lent and somebody still holds."""

    def __init__(self) -> None:
        self._runs: WeakSet[LentRun] = WeakSet()

    def __len__(self) -> int:
        return len(self._runs)

    def add(self, run: LentRun) -> None:
        """One more."""
        self._runs.add(run)

    def revoke_all(self) -> None:
        """The log is about to be cut."""
        for run in list(self._runs):
            run.revoke()
        self._runs.clear()


def lend_run(
    segment: Segment,
    epochs: LeaderEpochs,
    offset: int,
    max_bytes: int,
    upto_offset: int,
    unlent: Unlent,
) -> LentRun | None:
    """The batches from the one that begins at `offset` on, below `upto_offset`, of at most `max_bytes`; None
    where they are to be read: few of them, not in the page cache, nobody has read up to there before, or they
    are among the `unlent`."""
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
    assert next_offset is not None, "what is not short has an end"
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
    """The last batch start at or before a byte that the index knows, all before it below `upto_offset`; and
    the offset there, None if the batch is not what the index says."""
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
        return None  # who reads it says what is wrong
