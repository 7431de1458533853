"""Counts of records for a CountRecords request; they run on a thread, step by step."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.errors import KafkaError
from ..log.visible_records import Count
from .watermarks import readable_end

if TYPE_CHECKING:
    from ...protocol.messages.lag import CountRecordsPartition, CountRecordsPartitionResponse
    from ...protocol.transport.replies import Incoming
    from ..log.log import Log
    from .partition import Partition


class PartitionCount:
    """The counts for entry `index` of the response."""

    __slots__ = ("count", "entry", "error", "index", "isolation", "log", "partition", "restarts")

    def __init__(
        self, index: int, entry: CountRecordsPartition, isolation: int, partition: Partition, log: Log
    ) -> None:
        self.index, self.entry, self.isolation = index, entry, isolation
        self.partition, self.log = partition, log
        self.error: KafkaError | None = None
        self.restarts = 0
        self.start()

    def start(self) -> None:
        """From the beginning, on the present log. Order: on the loop, where the log does not change."""
        log = self.log
        self.count = Count(
            log.visible,
            list(log.segments),
            self.entry.offsets,
            start_offset=log.log_start_offset,
            end_offset=readable_end(self.partition, log, self.isolation),
            isolation=self.isolation,
        )

    @property
    def is_stale(self) -> bool:
        """Whether records were removed while they were counted."""
        return self.count.cuts != self.log.visible.cuts


class CountWork:
    """A request that is being counted. `run` goes on a thread, then the handler's `stepped`."""

    def __init__(self, request: Incoming, answers: list[CountRecordsPartitionResponse]) -> None:
        self.request = request
        self.answers = answers
        self.left: list[PartitionCount] = []  # the last one is being counted

    def run(self) -> None:
        """One step; errors are kept in the partition."""
        current = self.left[-1]
        try:
            current.count.run()
        except KafkaError as error:
            current.error = error
        if current.error is not None or current.count.is_done:
            current.log.segments.release_unused()
