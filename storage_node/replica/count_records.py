"""CountRecords: exact lag, counted by the leader of each partition.

A reader at the end of what it may read has no lag; that needs no work. Other counts need headers of
batches and run on a thread, in steps of a few milliseconds, so that lookups of other clients run between.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ...protocol.errors import (
    InvalidRequestError,
    KafkaError,
    OffsetNotAvailableError,
    ThrottlingQuotaExceededError,
)
from ...protocol.messages.lag import (
    MAX_COUNTED_OFFSETS,
    CountRecordsPartitionResponse,
    CountRecordsResponse,
    RecordCount,
)
from ...runtime.files.file_layer import FileGoneError
from ..effects import CountRecords
from .count_work import CountWork, PartitionCount
from .fetch import check_read_request
from .lookups import LookupHandler
from .watermarks import check_watermark, readable_end

if TYPE_CHECKING:
    from ...protocol.messages.lag import CountRecordsPartition, CountRecordsRequest
    from ...protocol.transport.replies import Incoming
    from ..log.log import Log
    from .partition import Partition, PartitionKey

MAX_WAITING = 100  # Bound: requests that are being counted; each has at most 1,000 offsets
MAX_COUNTED_LOGS = 1_000  # Bound: logs whose counts are kept, tens of KB each
_RESTARTS = 3  # counts of a partition that truncation or compaction made useless


@dataclass(eq=False)
class CountRecordsHandler(LookupHandler):
    """Responds at once, or when everything is counted."""

    # last used last
    _counted: OrderedDict[PartitionKey, Log] = field(default_factory=OrderedDict, init=False)

    def handle(self, request: Incoming, wall_ms: int) -> None:
        """Errors: InvalidRequestError for the whole request; ThrottlingQuotaExceededError."""
        body: CountRecordsRequest = request.body
        check_read_request(body.isolation, body.partitions, self.max_partitions)
        offsets = sum(len(entry.offsets) for entry in body.partitions)
        if offsets > MAX_COUNTED_OFFSETS:
            raise InvalidRequestError(f"{offsets} offsets, at most {MAX_COUNTED_OFFSETS} are allowed")
        work = CountWork(request, [])
        for index, entry in enumerate(body.partitions):
            work.answers.append(self._answer(index, entry, body.isolation, work))
        if not work.left:
            self._replies.reply(request, CountRecordsResponse(tuple(work.answers), wall_ms))
            return
        if self._running >= MAX_WAITING:
            raise ThrottlingQuotaExceededError(f"{self._running} counts of records are running already")
        self._running += 1
        self._output.effects.append(CountRecords(work))

    def stepped(self, work: CountWork, now_ms: int, wall_ms: int) -> None:
        """A step of the count is done: the next one, or the response."""
        current = work.left[-1]
        try:
            if self._is_finished(current, now_ms):
                work.answers[current.index] = self._result(current)
                work.left.pop()
        except KafkaError as error:
            work.answers[current.index] = _failed(error)
            work.left.pop()
        if work.left:
            self._output.effects.append(CountRecords(work))
        else:
            self._running -= 1
            self._replies.reply(work.request, CountRecordsResponse(tuple(work.answers), wall_ms))

    def _answer(
        self, index: int, entry: CountRecordsPartition, isolation: int, work: CountWork
    ) -> CountRecordsPartitionResponse:
        """The entry of the response, or a placeholder if records must be counted."""
        try:
            partition = self._table.find(entry.topic_id, entry.partition)
            log = partition.leader_log(entry.current_leader_epoch)
            check_watermark(partition)
        except KafkaError as error:
            return _failed(error)
        start, end = log.log_start_offset, readable_end(partition, log, isolation)
        if start < end and any(offset < end for offset in entry.offsets):
            work.left.append(PartitionCount(index, entry, isolation, partition, log))
            self._note_counted(partition, log)
        return CountRecordsPartitionResponse(0, start, end, (RecordCount(0),) * len(entry.offsets))

    def _note_counted(self, partition: Partition, log: Log) -> None:
        """Keep the counts of the logs that are asked for."""
        counted = self._counted
        counted[partition.key] = log
        counted.move_to_end(partition.key)
        while len(counted) > MAX_COUNTED_LOGS:
            counted.popitem(last=False)[1].visible.forget()

    def _is_finished(self, current: PartitionCount, now_ms: int) -> bool:
        """Errors: of the partition."""
        partition, error = current.partition, current.error
        log = partition.leader_log(current.entry.current_leader_epoch)  # the leadership may have ended
        if current.is_stale or log is not current.log or isinstance(error, FileGoneError):
            if current.restarts >= _RESTARTS:
                raise OffsetNotAvailableError("records were removed while they were counted: try again")
            current.restarts += 1
            current.log, current.error = log, None
            current.start()
            return False
        if error is not None:
            self._report(partition, error, now_ms)
            raise error
        return current.count.is_done

    @staticmethod
    def _result(current: PartitionCount) -> CountRecordsPartitionResponse:
        counts = tuple(RecordCount(records, first_ms) for records, first_ms in current.count.found)
        log = current.log
        end_offset = readable_end(current.partition, log, current.isolation)
        return CountRecordsPartitionResponse(0, log.log_start_offset, end_offset, counts)


def _failed(error: KafkaError) -> CountRecordsPartitionResponse:
    return CountRecordsPartitionResponse(error.code, error_detail=error.detail)
