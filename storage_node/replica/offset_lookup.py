"""Searches of logs by timestamp for a ListOffsets request; they run on a thread."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ...protocol.errors import KafkaError
from ...protocol.model import MAX_TIMESTAMP

if TYPE_CHECKING:
    from ...protocol.messages.data import ListOffsetsPartition, ListOffsetsPartitionResponse
    from ...protocol.transport.replies import Incoming
    from ..log.log import Log
    from .partition import Partition

Found = tuple[int, int, int]  # offset, timestamp, leader epoch


@dataclass(slots=True)
class OffsetSearch:
    """The search for entry `index` of the response."""

    index: int
    entry: ListOffsetsPartition
    partition: Partition
    log: Log
    isolation: int
    found: Found | None = None
    error: KafkaError | None = None


@dataclass(slots=True, eq=False)
class OffsetLookup:
    """A request with searches by timestamp. `run` goes on a thread; then the handler's `finish`."""

    request: Incoming
    answers: list[ListOffsetsPartitionResponse]
    searches: list[OffsetSearch] = field(default_factory=list)

    def run(self) -> None:
        """Search the logs; errors are kept in the searches."""
        for search in self.searches:
            timestamp_ms = search.entry.timestamp
            try:
                if timestamp_ms == MAX_TIMESTAMP:
                    search.found = search.log.reader.max_timestamp_offset()
                else:
                    search.found = search.log.reader.offset_for_timestamp(timestamp_ms)
            except KafkaError as error:
                search.error = error
