"""The newest batches of each log, in memory: a read at the tail needs no system call.

A batch is kept as the pieces that were written: the prefix that the log assigned, and the frame from the
producer. It was checked when it was appended, so it is not checked again. The first read of a large batch
joins its pieces, and later reads share the result; small batches are joined per read.

Bound: `limit_bytes` over all logs, with the oldest batch of any log evicted first; `share_bytes` per log, so
that one busy partition does not evict all others. The held memory counts: a small view on a large frame is
copied instead.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import OrderedDict
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...protocol.records.header import Buffer

# Memory of a batch beside its bytes: the entry, its prefix, its places in lists. Measured: 430 bytes and the
# view on its frame.
_ENTRY_BYTES = 600
# A smaller piece may hold more memory than its size: the codec's blocks have at least 4 KiB.
_COPY_BELOW_BYTES = 4096
# A batch of at least this size is a part of the response of its own; smaller ones are copied together.
# Measured: a part of 4 to 32 KB costs 3 to 5 us more at both ends of ZeroMQ than the same bytes within a
# larger part; joining costs 0.6 us at 32 KB and 2.7 us at 64 KB (many times more with page faults).
JOIN_BELOW_BYTES = 32 * 1024


# After so many appended bytes without a read nothing is cached until the next read: a copy into memory that
# was used long ago costs as much as the write to the file.
UNREAD_BYTES = 16 * 1024 * 1024


class TailRead(NamedTuple):
    """Parts of whole batches; `next_offset` follows the last one."""

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
        """Join the pieces, once."""
        if len(self.pieces) > 1:
            self.pieces = [b"".join(self.pieces)]
        return self.pieces[0]


class TailCache:
    """The memory bound that the tails of a node's logs share."""

    def __init__(self, limit_bytes: int, share_bytes: int) -> None:
        self.share_bytes = min(share_bytes, limit_bytes)
        self.held_bytes = 0
        self._limit_bytes = limit_bytes
        self._entries: OrderedDict[_Entry, None] = OrderedDict()  # oldest first

    def __len__(self) -> int:
        return len(self._entries)

    def limit(self, limit_bytes: int, share_bytes: int) -> None:
        """Change the bounds. A log above its new share shrinks at its next append."""
        self.share_bytes = min(share_bytes, limit_bytes)
        self._limit_bytes = limit_bytes
        self._shrink()

    def add(self, entry: _Entry) -> None:
        """Add an entry, and evict the oldest ones until all fit."""
        self._entries[entry] = None
        self.held_bytes += entry.held_bytes
        if self.held_bytes > self._limit_bytes:
            self._shrink()

    def _shrink(self) -> None:
        while self.held_bytes > self._limit_bytes:
            next(iter(self._entries)).tail.drop_first()

    def forget(self, entry: _Entry) -> None:
        del self._entries[entry]
        self.held_bytes -= entry.held_bytes


class Tail:
    """The newest batches of one log, up to the log end offset; or none."""

    __slots__ = ("_bases", "_cache", "_entries", "_first", "_held_bytes", "_unread_bytes")

    def __init__(self, cache: TailCache) -> None:
        self._cache = cache
        self._bases: list[int] = []
        self._entries: list[_Entry | None] = []
        self._first = 0  # entries before it are evicted; the lists are trimmed now and then
        self._held_bytes = 0
        self._unread_bytes = 0  # appended since the last read

    def __len__(self) -> int:
        return len(self._entries) - self._first

    @property
    def end_offset(self) -> int | None:
        """The offset after the newest batch; None without any."""
        entry = self._entries[-1] if self._entries else None
        return None if entry is None else entry.next_offset

    def add(self, base_offset: int, next_offset: int, pieces: Sequence[Buffer], size_bytes: int) -> None:
        """Cache the batch that was just appended, `size_bytes` in all. Its memory must not change any more;
        the memory of a bytearray is copied."""
        cache, held_bytes = self._cache, size_bytes + _ENTRY_BYTES
        self._unread_bytes += size_bytes
        if self._unread_bytes > UNREAD_BYTES:
            if self._held_bytes:
                self.clear()
            return
        share_bytes = cache.share_bytes
        if held_bytes > share_bytes:
            self.clear()  # the tail must reach the log end
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
        """The batches from the one with `offset` on, below `upto_offset`, of at most `max_bytes`; with
        `min_one` the first one however large it is. None if `offset` is before the cached batches."""
        self._unread_bytes = 0
        number = bisect_right(self._bases, offset, lo=self._first) - 1
        if number < self._first:
            return None
        entry = self._entries[number]
        if entry is not None and entry.next_offset <= offset:
            number += 1  # `offset` is in a gap: start with the next batch
        parts: list[Buffer] = []
        small: list[Buffer] = []
        for index in range(number, len(self._entries)):
            entry = self._entries[index]
            assert entry is not None, "only entries before the first are evicted"
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
        entry = self._entries[self._first]
        assert entry is not None, "the first entry is cached"
        self._entries[self._first] = None
        self._first += 1
        self._held_bytes -= entry.held_bytes
        self._cache.forget(entry)
        if self._first > 64 and self._first * 2 > len(self._entries):
            del self._entries[: self._first], self._bases[: self._first]
            self._first = 0

    def drop_below(self, offset: int) -> None:
        while len(self):
            entry = self._entries[self._first]
            assert entry is not None, "the first entry is cached"
            if entry.next_offset > offset:
                return
            self.drop_first()

    def clear(self) -> None:
        """Evict everything: the log was truncated, or is closed."""
        while len(self):
            self.drop_first()
        self._bases, self._entries, self._first = [], [], 0


def kept(piece: Buffer) -> Buffer:
    """The buffer to cache: `piece`, or a copy if it is small, a small part of a larger buffer, or its memory
    is reused."""
    if isinstance(piece, bytes):
        return piece
    if isinstance(piece, memoryview) and piece.nbytes >= _COPY_BELOW_BYTES and _is_stable(piece):
        return piece if piece.nbytes * 2 >= memoryview(piece.obj).nbytes else bytes(piece)
    return bytes(piece)


def stable_buffer(piece: Buffer) -> Buffer:
    """`piece`, or a copy if its memory may be reused."""
    return piece if _is_stable(piece) else bytes(piece)


def _is_stable(piece: Buffer) -> bool:
    """Whether the memory is not reused: listeners read into bytearrays, which they reuse."""
    return not isinstance(piece.obj if isinstance(piece, memoryview) else piece, bytearray)
