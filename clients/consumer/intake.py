"""Takes fetched bytes of a partition in, batch by batch. Pure.

Under read_committed the batches of aborted transactions are marked here, once per batch: like markers they
have nothing for the user, and the position moves past them. Source: Kafka CompletedFetch.java.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.errors import CorruptMessageError
from ...protocol.records.header import read_batch_header
from .fetch_state import Chunk

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ...protocol.records.header import BatchHeader, Buffer
    from .fetch_state import PartitionState


class Aborted:
    """Which batches of one answer are of aborted transactions; asked for each in turn."""

    def __init__(self, transactions: Iterable[tuple[int, int]]) -> None:
        """(producer id, first offset) of each, in any order."""
        self._coming = sorted(((first, producer) for producer, first in transactions), reverse=True)
        self._open: set[int] = set()

    def covers(self, header: BatchHeader) -> bool:
        """Whether the records of the batch do not count. A producer's marker ends its transaction."""
        while self._coming and self._coming[-1][0] <= header.last_offset:
            self._open.add(self._coming.pop()[1])
        if header.producer_id not in self._open:
            return False
        if header.is_control:
            self._open.discard(header.producer_id)
        return header.is_transactional


def take_in_batches(
    state: PartitionState, frame: Buffer, aborted: Aborted
) -> tuple[int, CorruptMessageError | None]:
    """Add the batches of a frame behind what is there, up to the first that is none; how many bytes that
    are, and what was wrong."""
    view, position, added = memoryview(frame), 0, 0
    while position < len(view):
        try:
            header = read_batch_header(view, position)
        except CorruptMessageError as fault:
            return added, fault
        end = position + header.size_bytes
        if end > len(view):
            return added, CorruptMessageError(f"a batch of {header.size_bytes} bytes is cut short")
        batch, position = view[position:end], end
        is_hidden = aborted.covers(header) or header.is_control
        if header.next_offset <= state.fetch_offset:
            continue  # the fetch started inside a compacted range, or the node repeats itself
        chunk = Chunk(state, batch, header.next_offset, is_hidden, header.record_count)
        chunk.is_active = not state.is_paused
        state.chunks.append(chunk)
        state.epochs.note(header.leader_epoch, max(header.base_offset, state.fetch_offset))
        state.fetch_offset = header.next_offset
        state.buffered_bytes += chunk.size_bytes
        added += chunk.size_bytes
    return added, None
