"""Takes fetched bytes of a partition in, batch by batch. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.errors import CorruptMessageError
from ...protocol.records.header import read_batch_header
from .fetch_state import Chunk

if TYPE_CHECKING:
    from ...protocol.records.header import Buffer
    from .fetch_state import PartitionState


def take_in_batches(state: PartitionState, frame: Buffer) -> tuple[int, CorruptMessageError | None]:
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
        if header.next_offset <= state.fetch_offset:
            continue  # the fetch started inside a compacted range, or the node repeats itself
        chunk = Chunk(state, batch, header.next_offset, header.is_control, header.record_count)
        chunk.is_active = not state.is_paused
        state.chunks.append(chunk)
        state.epochs.note(header.leader_epoch, max(header.base_offset, state.fetch_offset))
        state.fetch_offset = header.next_offset
        state.buffered_bytes += chunk.size_bytes
        added += chunk.size_bytes
    return added, None
