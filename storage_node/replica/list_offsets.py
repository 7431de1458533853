"""ListOffsets: earliest, latest, newest by time, and the first record at or after a timestamp.

Source: Kafka ReplicaManager.fetchOffset; KIP-734 for the record with the largest timestamp.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.errors import (
    CorruptMessageError,
    InvalidRequestError,
    KafkaError,
    KafkaStorageError,
    OffsetNotAvailableError,
)
from ...protocol.messages.data import ListOffsetsPartitionResponse, ListOffsetsResponse
from ...protocol.model import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, MAX_TIMESTAMP, NO_OFFSET, NO_TIMESTAMP
from .fetch import ISOLATION_LEVELS

if TYPE_CHECKING:
    from ...protocol.messages.data import ListOffsetsPartition, ListOffsetsRequest
    from ..log.log import Log
    from ..replies import Incoming, Replies
    from .partition import Partition
    from .replica_manager import ReplicaManager


class ListOffsetsHandler:
    """Answers at once; nothing here waits."""

    def __init__(self, replicas: ReplicaManager, replies: Replies, *, max_partitions: int) -> None:
        self._replicas = replicas
        self._replies = replies
        self._max_partitions = max_partitions

    def handle(self, request: Incoming) -> None:
        """Answer every entry on its own. Errors: InvalidRequestError for the whole request."""
        body: ListOffsetsRequest = request.body
        if body.isolation not in ISOLATION_LEVELS:
            raise InvalidRequestError(f"isolation {body.isolation}, only 0 and 1 exist")
        if len(body.partitions) > self._max_partitions:
            raise InvalidRequestError(
                f"{len(body.partitions)} partitions, at most {self._max_partitions} are allowed"
            )
        answers = tuple(self._answer(entry) for entry in body.partitions)
        self._replies.reply(request, ListOffsetsResponse(answers))

    def _answer(self, entry: ListOffsetsPartition) -> ListOffsetsPartitionResponse:
        try:
            partition = self._replicas.find(entry.topic_id, entry.partition)
            log = partition.leader_log(entry.current_leader_epoch)
            try:
                timestamp, offset, epoch = _look_up(partition, log, entry.timestamp)
            except KafkaStorageError as error:
                self._replicas.disk_failed(partition, error)
                raise
            except CorruptMessageError as error:
                self._replicas.found_damage(partition, error)
                raise
        except KafkaError as error:
            return ListOffsetsPartitionResponse(error.code, error_detail=error.detail)
        return ListOffsetsPartitionResponse(0, timestamp, offset, epoch)


def _look_up(partition: Partition, log: Log, timestamp_ms: int) -> tuple[int, int, int]:
    """(timestamp, offset, leader epoch); never at or above the high watermark but for `latest` itself."""
    if timestamp_ms == EARLIEST_TIMESTAMP:
        return NO_TIMESTAMP, log.log_start_offset, partition.leader_epoch
    if partition.high_watermark < partition.epoch_start_offset:
        # what the last leader had shown may lie above it: an answer now could go back (KIP-207)
        raise OffsetNotAvailableError(
            f"{partition.topic_partition} is committed up to {partition.high_watermark},"
            f" its leader epoch began at {partition.epoch_start_offset}"
        )
    if timestamp_ms == LATEST_TIMESTAMP:
        return NO_TIMESTAMP, partition.high_watermark, partition.leader_epoch
    if timestamp_ms == MAX_TIMESTAMP:
        found = log.max_timestamp_offset()
    elif timestamp_ms >= 0:
        found = log.offset_for_timestamp(timestamp_ms)
    else:
        raise InvalidRequestError(
            f"timestamp {timestamp_ms}, only -1, -2, -3 and times from 0 on have a meaning"
        )
    if found is None or found[0] >= partition.high_watermark:
        return NO_TIMESTAMP, NO_OFFSET, partition.leader_epoch
    offset, record_timestamp, epoch = found
    return record_timestamp, offset, epoch
