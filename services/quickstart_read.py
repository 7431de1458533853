"""Reads one partition to its end in a Ray actor, for the quickstart."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass

from ..clients.sync.consumer_io import Consumer
from ..protocol.errors import ApiTimeoutError
from ..protocol.model import TopicPartition
from .record_sums import RecordSum

STALL_TIMEOUT_S = 60.0
POLL_S = 1.0
POLL_RECORDS = 10_000


@dataclass(frozen=True, slots=True)
class PartitionRead:
    """The result of one reader. Times are wall-clock seconds; `top_keys` has the most frequent first."""

    partition: int
    total: RecordSum
    top_keys: list[tuple[bytes, int]]
    started_s: float
    ended_s: float


class PartitionReader:
    """Reads one partition; the quickstart runs six of them in parallel as Ray actors."""

    def __init__(self, bootstrap: str, topic: str, partition: int) -> None:
        self._place = TopicPartition(topic, partition)
        self._consumer = Consumer(bootstrap=bootstrap, max_poll_records=POLL_RECORDS)
        self._consumer.assign([self._place])

    def end_offset(self) -> int:
        """The log end offset of the partition; its response shows that the reader is connected."""
        return self._consumer.end_offsets(self._place)[self._place]

    def read(self, end_offset: int, top: int) -> PartitionRead:
        """Read offsets 0 to `end_offset` (exclusive), and close.

        Errors: ApiTimeoutError if no record comes for `STALL_TIMEOUT_S`; AssertionError for a gap in the
        offsets.
        """
        total, keys = RecordSum(), Counter[bytes]()
        started_s = last_s = time.time()
        next_offset = 0
        consumer, place = self._consumer, self._place
        consumer.seek(place, 0)
        while next_offset < end_offset:
            for record in consumer.poll(POLL_S):
                assert record.offset == next_offset, (
                    f"{place}: offset {record.offset} instead of {next_offset}"
                )
                next_offset += 1
                total.add(record.key, record.value)
                keys[record.key or b""] += 1
                last_s = time.time()
            if time.time() - last_s > STALL_TIMEOUT_S:
                raise ApiTimeoutError(
                    f"no record from {place} for {STALL_TIMEOUT_S:.0f} s at offset {next_offset}"
                )
        ended_s = time.time()
        consumer.close()
        return PartitionRead(place.partition, total, keys.most_common(top), started_s, ended_s)
