"""Reads to the end offsets of partitions, without waiting for a pause in the records."""

import time
from typing import Any

from waiting import PATIENCE_S


def to_the_end(consumer: Any) -> list[Any]:
    """All records from the consumer's positions to the end offsets, for its isolation level; in a group after
    its first assignment."""
    records: list[Any] = []
    ends_at = time.monotonic() + PATIENCE_S
    ends: dict[Any, int] = {}
    while not ends or any((consumer.position(tp) or 0) < end for tp, end in ends.items()):
        assert time.monotonic() < ends_at, f"stalled before {ends}, behind {len(records)} records"
        if not ends and (assigned := consumer.assignment()):
            ends = consumer.end_offsets(*assigned)
        records += consumer.poll(0.2)
    return records
