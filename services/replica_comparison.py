"""Compares the record batches of the replicas of a partition. Pure.

Replicas store a batch byte for byte as the leader appended it, so base offset, leader epoch and CRC of each
batch agree. Each replica compacts its log by itself: of compacted topics only batches are compared that all
replicas have with the same number of records, and without a delete horizon, which is a time of the replica.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from crc32c import crc32c

from ..protocol.records.header import ATTRIBUTES_POSITION, BatchHeader, read_batch_header

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ..protocol.records.header import Buffer


class BatchSum(NamedTuple):
    """What must agree of a batch."""

    base_offset: int
    last_offset: int
    leader_epoch: int
    crc: int
    records: int
    has_delete_horizon: bool


class Mismatch(NamedTuple):
    """The first batch at which replicas differ: by node, what each has there (None: no batch)."""

    offset: int
    batches: dict[int, BatchSum | None]


class Step(NamedTuple):
    """`next_offset`: everything before it was compared; `batches`: how many were."""

    next_offset: int
    batches: int
    mismatch: Mismatch | None


def batch_sums(frames: Iterable[Buffer]) -> list[BatchSum]:
    """The batches in frames of whole batches. Errors: CorruptMessageError."""
    found = []
    for frame in frames:
        position = 0
        while position < len(frame):
            header = read_batch_header(frame, position)
            end = position + header.size_bytes
            # Order: of the bytes themselves; the CRC in the header would not show a damaged record.
            crc = crc32c(memoryview(frame)[position + ATTRIBUTES_POSITION : end])
            found.append(_sum(header, crc))
            position = end
    return found


def compare(sums: Mapping[int, Sequence[BatchSum]], *, is_compacted: bool) -> Step:
    """Compare the batches of all replicas from the same offset on, up to the end that all of them reach.

    Every replica must have at least one batch.
    """
    end = min(batches[-1].last_offset for batches in sums.values()) + 1
    by_base = {
        node: {each.base_offset: each for each in batches if each.base_offset < end}
        for node, batches in sums.items()
    }
    offsets = sorted(set().union(*by_base.values()))
    compared = 0
    for offset in offsets:
        found = {node: mine.get(offset) for node, mine in by_base.items()}
        if is_compacted and not _are_comparable(found.values()):
            continue
        if len(set(found.values())) > 1:
            return Step(end, compared, Mismatch(offset, found))
        compared += 1
    return Step(end, compared, None)


def _are_comparable(found: Iterable[BatchSum | None]) -> bool:
    known = list(found)
    counts = {None if each is None else (each.records, each.last_offset) for each in known}
    return len(counts) == 1 and not any(each is None or each.has_delete_horizon for each in known)


def _sum(header: BatchHeader, crc: int) -> BatchSum:
    return BatchSum(
        header.base_offset,
        header.last_offset,
        header.leader_epoch,
        crc,
        header.record_count,
        header.delete_horizon_ms is not None,
    )
