"""The transaction index: one 34-byte entry per aborted transaction of a segment.

Shape, big-endian: version i16 (0), producer id i64, first offset i64, last offset i64, last stable offset
i64. Nothing here writes transactions yet; folders that hold such files are kept right when they are cut.
Source: Kafka TransactionIndex.java, AbortedTxn.java.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple

from .files import read_file

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .files import Files

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
    """The whole entries in a file's bytes; a last part of an entry is left out."""
    whole = data[: len(data) - len(data) % ENTRY_BYTES]
    return [AbortedTransaction._make(entry) for entry in _ENTRY.iter_unpack(whole)]


def format_transaction_index(entries: Iterable[AbortedTransaction]) -> bytes:
    """An index of these transactions, which are in order of their ends."""
    return b"".join(_ENTRY.pack(*entry) for entry in entries)


def truncate_transaction_index(files: Files, path: str, end_offset: int) -> None:
    """Drop the entries whose transaction ends at or after `end_offset`; they are in order of their ends."""
    if not files.exists(path):
        return
    entries = parse_transaction_index(read_file(files, path))
    kept = sum(1 for entry in entries if entry.last_offset < end_offset)
    file = files.open(path)
    try:
        if file.size() != kept * ENTRY_BYTES:
            file.truncate(kept * ENTRY_BYTES)
            file.fdatasync()
    finally:
        file.close()
