"""Splits batches that were too large, and removes records that the leader rejected.

Source: KIP-126, KIP-467.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.records.settings import INT32_MAX
from .batches import Batch

if TYPE_CHECKING:
    from collections.abc import Callable, Container

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
    deliveries = hand_over(batch, first_indexes)
    return [_part(batch, builder, delivery) for builder, delivery in zip(builders, deliveries, strict=True)]


def without_records(
    batch: Batch,
    refused: Container[int],
    codec: RecordCodec,
    new_builder: Callable[[int], BatchBuilder],
    delivery: object,
) -> Batch:
    """The records of `batch` without those at `refused` indexes, in one closed batch with the creation time,
    deadline and retry count of the whole. At least one record is left."""
    assert batch.data is not None, "only a batch that was sent can be rejected"
    builder = new_builder(INT32_MAX)
    for index, record in enumerate(codec.decode(batch.data)):
        if index not in refused:
            builder.append(record.timestamp, record.key, record.value, record.headers)
    return _part(batch, builder, delivery)


def _part(batch: Batch, builder: BatchBuilder, delivery: object) -> Batch:
    part = Batch(batch.queue, delivery, batch.created_ms, batch.deadline_ms)
    part.builder, part.is_open = builder, False
    part.count, part.size_bytes = builder.count, builder.size_bytes
    part.counted_bytes = part.size_bytes  # the sticky choice has counted these bytes already
    part.attempts, part.last_error = batch.attempts, batch.last_error
    part.is_in_doubt = batch.is_in_doubt
    return part
