"""The transaction index: the aborted transactions whose markers are in a segment.

Shape of the file, big-endian, 34 bytes per entry: version i16 (0), producer id i64, first offset i64, last
offset i64, last stable offset i64. Like the other indexes it can be rebuilt from the
batches, and is written when the segment is sealed; unlike them it stays in memory, so that no fetch waits for
the disk.
Source: Kafka TransactionIndex.java, AbortedTxn.java.
"""

from __future__ import annotations

import struct
from array import array
from bisect import bisect_left
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

ENTRY_BYTES = 34
_ENTRY = struct.Struct(">hqqqq")
assert _ENTRY.size == ENTRY_BYTES


class AbortedTransaction(NamedTuple):
    """Offsets are inclusive but for the last stable offset."""

    version: int
    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


def parse_transaction_index(data: bytes) -> list[AbortedTransaction]:
    """The whole entries in a file's bytes."""
    whole = data[: len(data) - len(data) % ENTRY_BYTES]
    return [AbortedTransaction._make(entry) for entry in _ENTRY.iter_unpack(whole)]


class TransactionIndex:
    """Aborted transactions in order of their markers, 32 bytes each."""

    __slots__ = ("_columns",)

    def __init__(self, entries: Iterable[AbortedTransaction] = ()) -> None:
        self._columns = tuple(array("q") for _ in range(4))
        for entry in entries:
            self.append(entry)

    def __len__(self) -> int:
        return len(self._columns[0])

    def __iter__(self) -> Iterator[AbortedTransaction]:
        for entry in zip(*self._columns, strict=False):
            yield AbortedTransaction(0, *entry)

    def append(self, entry: AbortedTransaction) -> None:
        """Its marker comes after the others."""
        for column, value in zip(self._columns, entry[1:], strict=True):
            column.append(value)

    def truncate(self, end_offset: int) -> None:
        """Remove the transactions with a marker at or above `end_offset`: they are open again."""
        last_offsets = self._columns[2]
        count = len(last_offsets)
        while count and last_offsets[count - 1] >= end_offset:
            count -= 1
        for column in self._columns:
            del column[count:]

    def collect(self, offset: int, upto_offset: int, found: list[tuple[int, int]]) -> bool:
        """Add to `found` (producer id, first offset) of the transactions that overlap [offset, upto_offset).
        True if no later one can."""
        producers, firsts, lasts, stables = self._columns
        for number in range(bisect_left(lasts, offset), len(lasts)):
            if firsts[number] < upto_offset:
                found.append((producers[number], firsts[number]))
            if stables[number] >= upto_offset:
                return True
        return False

    def overlapping(self, offset: int, upto_offset: int) -> Iterator[AbortedTransaction]:
        """The transactions that overlap [offset, upto_offset), in order of their markers; any thread."""
        producers, firsts, lasts, stables = self._columns
        for number in range(bisect_left(lasts, offset), len(stables)):
            if firsts[number] < upto_offset:
                yield AbortedTransaction(0, producers[number], firsts[number], lasts[number], stables[number])
            if stables[number] >= upto_offset:
                return

    def to_bytes(self) -> bytes:
        return b"".join(_ENTRY.pack(*entry) for entry in self)
