"""The metrics of a producer, by Kafka's names. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .sender import Sender


def producer_metrics(sender: Sender, buffer_bytes: int) -> dict[str, float]:
    """Totals and gauges. Called with the lock of the sender."""
    counters, accumulator = sender.counters, sender.accumulator
    batches = max(counters.batches_sent, 1)
    return {
        "record-send-total": counters.records_sent,
        "record-error-total": counters.records_failed,
        "record-retry-total": counters.batches_retried,
        "byte-total": counters.bytes_sent,
        "request-total": counters.requests_sent,
        "batch-split-total": counters.batches_split,
        "batch-duplicate-total": counters.batches_duplicate,
        "producer-epoch-bump-total": 0 if sender.sequences is None else sender.sequences.bumps,
        "batch-size-avg": counters.bytes_sent / batches,
        "records-per-batch-avg": counters.records_sent / batches,
        "requests-in-flight": len(sender.in_flight),
        "batches-pending": len(accumulator.live),
        "buffer-total-bytes": buffer_bytes,
        "buffer-available-bytes": max(buffer_bytes - accumulator.used_bytes, 0),
        "waiting-threads": accumulator.waiting_for_memory,
    }
