"""Splits the fetched bytes of a partition into batches. Pure.

Under read_committed the batches of aborted transactions are marked here, once per batch; the position moves
past them, as past control batches. Source: Kafka CompletedFetch.java.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.errors import CorruptMessageError
from ...protocol.records.header import read_batch_header
from .fetch_state import FetchedBatch

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ...protocol.records.header import BatchHeader, Buffer
    from .fetch_state import PartitionState


class AbortedTransactions:
    """The aborted transactions of one partition's fetch response; asked about each batch in log order."""

    def __init__(self, transactions: Iterable[tuple[int, int]]) -> None:
        """(producer id, first offset) of each, in any order."""
        self._coming = sorted(((first, producer) for producer, first in transactions), reverse=True)
        self._open: set[int] = set()

    def covers(self, header: BatchHeader) -> bool:
        """Whether the batch belongs to an aborted transaction, which ends with its producer's marker."""
        while self._coming and self._coming[-1][0] <= header.last_offset:
            self._open.add(self._coming.pop()[1])
        if header.producer_id not in self._open:
            return False
        if header.is_control:
            self._open.discard(header.producer_id)
        return header.is_transactional


def buffer_batches(
    state: PartitionState, frame: Buffer, aborted: AbortedTransactions
) -> tuple[int, CorruptMessageError | None]:
    """Append the batches of a frame to the partition's buffer, up to the first corrupt one; the bytes added,
    and the fault."""
    view, position, added = memoryview(frame), 0, 0
    while position < len(view):
        try:
            header = read_batch_header(view, position)
        except CorruptMessageError as fault:
            return added, fault
        end = position + header.size_bytes
        if end > len(view):
            return added, CorruptMessageError(f"a batch of {header.size_bytes} bytes is cut short")
        data, position = view[position:end], end
        is_skipped = aborted.covers(header) or header.is_control
        if header.next_offset <= state.fetch_offset:
            continue  # the fetch started inside a compacted range, or the node repeats itself
        batch = FetchedBatch(state, data, header.next_offset, is_skipped, header.record_count)
        batch.is_active = not state.is_paused
        state.batches.append(batch)
        state.validation.epochs.note(header.leader_epoch, max(header.base_offset, state.fetch_offset))
        state.fetch_offset = header.next_offset
        state.buffered_bytes += batch.size_bytes
        added += batch.size_bytes
    return added, None
