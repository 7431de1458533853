"""ListOffsets: earliest, latest, newest by time, and the first record at or after a timestamp.

The first two are known; a search by time may read and decompress a batch of many MB, so it runs on a thread
and its answer comes back as an event. Source: Kafka ReplicaManager.fetchOffset; KIP-734 for the record with
the largest timestamp.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ...protocol.errors import (
    CorruptMessageError,
    InvalidRequestError,
    KafkaError,
    KafkaStorageError,
    OffsetNotAvailableError,
    ThrottlingQuotaExceededError,
)
from ...protocol.messages.data import ListOffsetsPartitionResponse, ListOffsetsResponse
from ...protocol.model import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, MAX_TIMESTAMP, NO_OFFSET, NO_TIMESTAMP
from ...runtime.files.file_layer import FileGoneError
from ..effects import LookUpOffsets
from .fetch import READ_COMMITTED, check_asked

if TYPE_CHECKING:
    from ...protocol.messages.data import ListOffsetsPartition, ListOffsetsRequest
    from ...protocol.transport.replies import Incoming, Replies
    from ..log.log import Log
    from .partition import Partition
    from .replica_manager import ReplicaManager

# Bound: searches by time under way or waiting for a thread; each holds its request.
MAX_LOOKUPS = 1000

Found = tuple[int, int, int]  # offset, timestamp, leader epoch


@dataclass(slots=True)
class _Search:
    """One entry to be searched for: number `index` of the answer."""

    index: int
    entry: ListOffsetsPartition
    partition: Partition
    log: Log
    isolation: int
    found: Found | None = None
    error: KafkaError | None = None


@dataclass(slots=True, eq=False)
class OffsetLookup:
    """A request that searches by time. `run` goes on a thread; then the handler's `finish`."""

    request: Incoming
    answers: list[ListOffsetsPartitionResponse]
    searches: list[_Search] = field(default_factory=list)

    def run(self) -> None:
        """Search the logs; what goes wrong stays with its entry."""
        for search in self.searches:
            timestamp_ms = search.entry.timestamp
            try:
                if timestamp_ms == MAX_TIMESTAMP:
                    search.found = search.log.reader.max_timestamp_offset()
                else:
                    search.found = search.log.reader.offset_for_timestamp(timestamp_ms)
            except KafkaError as error:
                search.error = error


class ListOffsetsHandler:
    """Answers at once, or when a search comes back."""

    def __init__(self, replicas: ReplicaManager, replies: Replies, *, max_partitions: int) -> None:
        self._replicas = replicas
        self._replies = replies
        self._max_partitions = max_partitions
        self._lookups = 0

    def handle(self, request: Incoming) -> None:
        """Answer every entry on its own.

        Errors: InvalidRequestError for the whole request; ThrottlingQuotaExceededError.
        """
        body: ListOffsetsRequest = request.body
        check_asked(body.isolation, body.partitions, self._max_partitions)
        lookup = OffsetLookup(request, [])
        for index, entry in enumerate(body.partitions):
            lookup.answers.append(self._answer(index, entry, body.isolation, lookup))
        if not lookup.searches:
            self._replies.reply(request, ListOffsetsResponse(tuple(lookup.answers)))
            return
        if self._lookups >= MAX_LOOKUPS:
            raise ThrottlingQuotaExceededError(f"{self._lookups} searches by time are under way already")
        self._lookups += 1
        self._replicas.effects.append(LookUpOffsets(lookup))

    def finish(self, lookup: OffsetLookup, now_ms: int) -> None:
        """The searches are done: answer, by what holds now."""
        self._lookups -= 1
        for search in lookup.searches:
            try:
                lookup.answers[search.index] = self._found(search, now_ms)
            except KafkaError as error:
                lookup.answers[search.index] = _failed(error)
        self._replies.reply(lookup.request, ListOffsetsResponse(tuple(lookup.answers)))

    def _answer(
        self, index: int, entry: ListOffsetsPartition, isolation: int, lookup: OffsetLookup
    ) -> ListOffsetsPartitionResponse:
        """The answer, or the place for it if it must be searched for."""
        try:
            partition = self._replicas.find(entry.topic_id, entry.partition)
            log = partition.leader_log(entry.current_leader_epoch)
            if entry.timestamp == EARLIEST_TIMESTAMP:
                return _answered(partition, log.log_start_offset)
            _check_watermark(partition)
            if entry.timestamp == LATEST_TIMESTAMP:
                return _answered(partition, _end_of(partition, log, isolation))
            if entry.timestamp < 0 and entry.timestamp != MAX_TIMESTAMP:
                raise InvalidRequestError(
                    f"timestamp {entry.timestamp}, only -1, -2, -3 and times from 0 on have a meaning"
                )
        except KafkaError as error:
            return _failed(error)
        lookup.searches.append(_Search(index, entry, partition, log, isolation))
        return _answered(partition, NO_OFFSET)

    def _found(self, search: _Search, now_ms: int) -> ListOffsetsPartitionResponse:
        partition = search.partition
        partition.leader_log(search.entry.current_leader_epoch)  # it may have been lost meanwhile
        if search.error is not None:
            if isinstance(search.error, FileGoneError):
                pass  # its segment was deleted under the search: no disk is to blame, the client asks again
            elif isinstance(search.error, KafkaStorageError):
                self._replicas.disk_failed(partition, search.error, now_ms)
            elif isinstance(search.error, CorruptMessageError):
                self._replicas.disks.found_damage(partition, search.error)
            raise search.error
        end = _end_of(partition, search.log, search.isolation)
        if search.found is None or search.found[0] >= end:
            return _answered(partition, NO_OFFSET)
        offset, timestamp_ms, epoch = search.found
        return ListOffsetsPartitionResponse(0, timestamp_ms, offset, epoch)


def _end_of(partition: Partition, log: Log, isolation: int) -> int:
    return log.last_stable_offset if isolation == READ_COMMITTED else partition.high_watermark


def _answered(partition: Partition, offset: int) -> ListOffsetsPartitionResponse:
    return ListOffsetsPartitionResponse(0, NO_TIMESTAMP, offset, partition.leader_epoch)


def _failed(error: KafkaError) -> ListOffsetsPartitionResponse:
    return ListOffsetsPartitionResponse(error.code, error_detail=error.detail)


def _check_watermark(partition: Partition) -> None:
    """Errors: OffsetNotAvailableError while what the last leader had shown may lie above the high watermark:
    an answer now could go back (KIP-207)."""
    if partition.high_watermark < partition.epoch_start_offset:
        raise OffsetNotAvailableError(
            f"{partition.topic_partition} is committed up to {partition.high_watermark},"
            f" its leader epoch began at {partition.epoch_start_offset}"
        )
