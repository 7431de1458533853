"""ListOffsets: earliest, latest, newest by timestamp, and the first record at or after a timestamp.

The first two are known; a search by timestamp may read and decompress a batch of many MB, so it runs on a
thread and its result is an event. Source: Kafka ReplicaManager.fetchOffset; KIP-734 for the record with the
largest timestamp.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.errors import (
    InvalidRequestError,
    KafkaError,
    ThrottlingQuotaExceededError,
)
from ...protocol.messages.data import ListOffsetsPartitionResponse, ListOffsetsResponse
from ...protocol.model import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, MAX_TIMESTAMP, NO_OFFSET, NO_TIMESTAMP
from ..effects import LookUpOffsets
from .fetch import check_read_request
from .lookups import LookupHandler
from .offset_lookup import OffsetLookup, OffsetSearch
from .watermarks import check_watermark, readable_end

if TYPE_CHECKING:
    from ...protocol.messages.data import ListOffsetsPartition, ListOffsetsRequest
    from ...protocol.transport.replies import Incoming
    from .partition import Partition

# Bound: searches by timestamp running or waiting for a thread; each holds its request.
MAX_LOOKUPS = 1000


class ListOffsetsHandler(LookupHandler):
    """Responds at once, or when the searches by timestamp are done."""

    def handle(self, request: Incoming) -> None:
        """Errors: InvalidRequestError for the whole request; ThrottlingQuotaExceededError."""
        body: ListOffsetsRequest = request.body
        check_read_request(body.isolation, body.partitions, self.max_partitions)
        lookup = OffsetLookup(request, [])
        for index, entry in enumerate(body.partitions):
            lookup.answers.append(self._answer(index, entry, body.isolation, lookup))
        if not lookup.searches:
            self._replies.reply(request, ListOffsetsResponse(tuple(lookup.answers)))
            return
        if self._running >= MAX_LOOKUPS:
            raise ThrottlingQuotaExceededError(f"{self._running} searches by timestamp are running already")
        self._running += 1
        self._output.effects.append(LookUpOffsets(lookup))

    def finish(self, lookup: OffsetLookup, now_ms: int) -> None:
        """The searches are done: respond, by the present leadership and high watermark."""
        self._running -= 1
        for search in lookup.searches:
            try:
                lookup.answers[search.index] = self._found(search, now_ms)
            except KafkaError as error:
                lookup.answers[search.index] = _failed(error)
        self._replies.reply(lookup.request, ListOffsetsResponse(tuple(lookup.answers)))

    def _answer(
        self, index: int, entry: ListOffsetsPartition, isolation: int, lookup: OffsetLookup
    ) -> ListOffsetsPartitionResponse:
        """The entry of the response, or a placeholder if a search is needed."""
        try:
            partition = self._table.find(entry.topic_id, entry.partition)
            log = partition.leader_log(entry.current_leader_epoch)
            if entry.timestamp == EARLIEST_TIMESTAMP:
                return _answered(partition, log.log_start_offset)
            check_watermark(partition)
            if entry.timestamp == LATEST_TIMESTAMP:
                return _answered(partition, readable_end(partition, log, isolation))
            if entry.timestamp < 0 and entry.timestamp != MAX_TIMESTAMP:
                raise InvalidRequestError(f"timestamp {entry.timestamp}: must be -1, -2, -3 or at least 0")
        except KafkaError as error:
            return _failed(error)
        lookup.searches.append(OffsetSearch(index, entry, partition, log, isolation))
        return _answered(partition, NO_OFFSET)

    def _found(self, search: OffsetSearch, now_ms: int) -> ListOffsetsPartitionResponse:
        partition = search.partition
        partition.leader_log(search.entry.current_leader_epoch)  # the leadership may have ended meanwhile
        if search.error is not None:
            self._report(partition, search.error, now_ms)
            raise search.error
        end = readable_end(partition, search.log, search.isolation)
        if search.found is None or search.found[0] >= end:
            return _answered(partition, NO_OFFSET)
        offset, timestamp_ms, epoch = search.found
        return ListOffsetsPartitionResponse(0, timestamp_ms, offset, epoch)


def _answered(partition: Partition, offset: int) -> ListOffsetsPartitionResponse:
    return ListOffsetsPartitionResponse(0, NO_TIMESTAMP, offset, partition.leader_epoch)


def _failed(error: KafkaError) -> ListOffsetsPartitionResponse:
    return ListOffsetsPartitionResponse(error.code, error_detail=error.detail)
