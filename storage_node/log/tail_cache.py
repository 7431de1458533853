"""The newest batches of each log, in memory as they came in: who reads at the tail costs no system call.

A batch is kept as the pieces that were written: the prefix that the log assigned, and the frame of its
producer. It was checked when it was appended, so it is not checked again. The first reader of a large batch
has it joined into one piece, which others then share; small ones are joined by the run.

Bound: `limit_bytes` over all logs, the oldest batch goes first whichever log it is of; `share_bytes` of each,
so that one busy partition does not drive out all others. What counts is the memory that is held: a small view
on a large frame is copied instead.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import OrderedDict
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...protocol.records.header import Buffer

# What a batch costs beside its bytes: the entry, its prefix, its places in lists. Measured: 430 bytes
# and the view on its frame.
_ENTRY_BYTES = 600
# Whatever holds a smaller piece may hold more than it shows: the codec's blocks have 4 KiB at least.
_COPY_BELOW_BYTES = 4096
# A batch of at least this size is a part of an answer of its own; smaller ones are copied together.
# Measured: a part of 4 to 32 KB costs 3 to 5 us more at both ends of ZeroMQ than its bytes within a larger
# one, to join it 0.6 us at 32 KB and 2.7 us at 64 KB (without page faults, which make it many times dearer).
JOIN_BELOW_BYTES = 32 * 1024


# What is appended without anybody asking for it before no more is kept, until somebody asks: to copy what
# only goes to the file, into memory that was used long ago, costs as much as to write it there.
UNREAD_BYTES = 16 * 1024 * 1024


class TailRead(NamedTuple):
    """Parts that each hold whole batches; `next_offset` follows the last one."""

    data: list[Buffer]
    next_offset: int


class _Entry:
    """One batch."""

    __slots__ = ("held_bytes", "next_offset", "pieces", "size_bytes", "tail")

    def __init__(self, tail: Tail, pieces: list[Buffer], next_offset: int, size_bytes: int) -> None:
        self.tail = tail
        self.pieces = pieces
        self.next_offset = next_offset
        self.size_bytes = size_bytes
        self.held_bytes = size_bytes + _ENTRY_BYTES

    def joined(self) -> Buffer:
        """The batch in one piece, from now on."""
        if len(self.pieces) > 1:
            self.pieces = [b"".join(self.pieces)]
        return self.pieces[0]


class TailCache:
    """What the tails of a node's logs share: the memory that they may hold."""

    def __init__(self, limit_bytes: int, share_bytes: int) -> None:
        self.share_bytes = min(share_bytes, limit_bytes)
        self.held_bytes = 0
        self._limit_bytes = limit_bytes
        self._entries: OrderedDict[_Entry, None] = OrderedDict()  # oldest first

    def __len__(self) -> int:
        return len(self._entries)

    def limit(self, limit_bytes: int, share_bytes: int) -> None:
        """Other bounds. A log above its new share gives way when it next grows."""
        self.share_bytes = min(share_bytes, limit_bytes)
        self._limit_bytes = limit_bytes
        self._shrink()

    def add(self, entry: _Entry) -> None:
        """Take an entry in, and let the oldest go until all fits."""
        self._entries[entry] = None
        self.held_bytes += entry.held_bytes
        if self.held_bytes > self._limit_bytes:
            self._shrink()

    def _shrink(self) -> None:
        while self.held_bytes > self._limit_bytes:
            next(iter(self._entries)).tail.drop_first()

    def forget(self, entry: _Entry) -> None:
        """An entry left its tail."""
        del self._entries[entry]
        self.held_bytes -= entry.held_bytes


class Tail:
    """The newest batches of one log, all of them up to its end, or none at all."""

    __slots__ = ("_bases", "_cache", "_entries", "_first", "_held_bytes", "_unread_bytes")

    def __init__(self, cache: TailCache) -> None:
        self._cache = cache
        self._bases: list[int] = []
        self._entries: list[_Entry | None] = []
        self._first = 0  # entries before it are gone; the lists are cut now and then
        self._held_bytes = 0
        self._unread_bytes = 0  # appended since somebody asked

    def __len__(self) -> int:
        return len(self._entries) - self._first

    @property
    def end_offset(self) -> int | None:
        """The offset after the newest batch; None without any."""
        entry = self._entries[-1] if self._entries else None
        return None if entry is None else entry.next_offset

    def add(self, base_offset: int, next_offset: int, pieces: Sequence[Buffer], size_bytes: int) -> None:
        """The batch that was just appended, `size_bytes` in all. Its memory must not change any more, unless
        it is a bytearray's, which is copied."""
        cache, held_bytes = self._cache, size_bytes + _ENTRY_BYTES
        self._unread_bytes += size_bytes
        if self._unread_bytes > UNREAD_BYTES:
            if self._held_bytes:
                self.clear()
            return
        share_bytes = cache.share_bytes
        if held_bytes > share_bytes:
            self.clear()  # what is here must reach up to the end
            return
        while self._held_bytes + held_bytes > share_bytes:
            self.drop_first()
        own = [piece if isinstance(piece, bytes) else kept(piece) for piece in pieces]
        entry = _Entry(self, own, next_offset, size_bytes)
        self._bases.append(base_offset)
        self._entries.append(entry)
        self._held_bytes += held_bytes
        cache.add(entry)

    def read(self, offset: int, max_bytes: int, upto_offset: int, *, min_one: bool) -> TailRead | None:
        """The batches from the one that holds `offset` on, below `upto_offset`, of at most `max_bytes`; with
        `min_one` the first comes however large it is. None if `offset` lies before all that is here."""
        self._unread_bytes = 0
        number = bisect_right(self._bases, offset, lo=self._first) - 1
        if number < self._first:
            return None
        entry = self._entries[number]
        if entry is not None and entry.next_offset <= offset:
            number += 1  # it asks for a gap: the next is the one
        parts: list[Buffer] = []
        small: list[Buffer] = []
        for index in range(number, len(self._entries)):
            entry = self._entries[index]
            assert entry is not None, "only entries before the first are gone"
            if entry.next_offset > upto_offset or (entry.size_bytes > max_bytes and not min_one):
                break
            min_one = False
            max_bytes -= entry.size_bytes
            offset = entry.next_offset
            if entry.size_bytes < JOIN_BELOW_BYTES:
                small += entry.pieces
                continue
            if small:
                parts.append(b"".join(small))
                small = []
            parts.append(entry.joined())
            if max_bytes <= 0:
                break
        if small:
            parts.append(b"".join(small))
        return TailRead(parts, offset)

    def drop_first(self) -> None:
        """Let the oldest batch go."""
        entry = self._entries[self._first]
        assert entry is not None, "the first is here"
        self._entries[self._first] = None
        self._first += 1
        self._held_bytes -= entry.held_bytes
        self._cache.forget(entry)
        if self._first > 64 and self._first * 2 > len(self._entries):
            del self._entries[: self._first], self._bases[: self._first]
            self._first = 0

    def drop_below(self, offset: int) -> None:
        """Let batches go that lie wholly below `offset`."""
        while len(self):
            entry = self._entries[self._first]
            assert entry is not None, "the first is here"
            if entry.next_offset > offset:
                return
            self.drop_first()

    def clear(self) -> None:
        """Let everything go: the log was cut, or is gone."""
        while len(self):
            self.drop_first()
        self._bases, self._entries, self._first = [], [], 0


def kept(piece: Buffer) -> Buffer:
    """A buffer to be kept: this one, or a copy if it is small, a small part of something larger, or does not
    last."""
    if isinstance(piece, bytes):
        return piece
    if isinstance(piece, memoryview) and piece.nbytes >= _COPY_BELOW_BYTES and _lasts(piece):
        return piece if piece.nbytes * 2 >= memoryview(piece.obj).nbytes else bytes(piece)
    return bytes(piece)


def lasting(piece: Buffer) -> Buffer:
    """This buffer, or a copy if whoever gave it may use its memory again."""
    return piece if _lasts(piece) else bytes(piece)


def _lasts(piece: Buffer) -> bool:
    """Listeners read into bytearrays, which they use again."""
    return not isinstance(piece.obj if isinstance(piece, memoryview) else piece, bytearray)
