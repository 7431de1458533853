"""Splits a batch that the server found too large into smaller ones. Source: KIP-126."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .accumulator import Batch

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...protocol.records.codec import BatchBuilder, RecordCodec


def split_batch(
    batch: Batch,
    max_bytes: int,
    codec: RecordCodec,
    new_builder: Callable[[int], BatchBuilder],
    hand_over: Callable[[Batch, list[int]], list[object]],
) -> list[Batch]:
    """The records of `batch`, in order, in closed batches of at most `max_bytes` (one record may exceed).

    `hand_over(batch, first_indexes)` gives one delivery per part; the parts keep the creation time,
    deadline and retry count of the whole.
    """
    assert batch.data is not None, "only a batch that was sent can be too large"
    builders: list[BatchBuilder] = []
    first_indexes: list[int] = []
    for index, record in enumerate(codec.decode(batch.data)):
        facts = (record.timestamp, record.key, record.value, record.headers)
        if not builders or builders[-1].append(*facts) < 0:
            builders.append(new_builder(max_bytes))
            first_indexes.append(index)
            builders[-1].append(*facts)
    parts = []
    for builder, delivery in zip(builders, hand_over(batch, first_indexes), strict=True):
        part = Batch(batch.queue, delivery, batch.created_ms, batch.deadline_ms)
        part.builder, part.is_open = builder, False
        part.count, part.size_bytes = builder.count, builder.size_bytes
        part.told_bytes = part.size_bytes  # the sticky choice has counted these bytes already
        part.attempts, part.last_error = batch.attempts, batch.last_error
        part.is_in_doubt = batch.is_in_doubt
        parts.append(part)
    return parts
