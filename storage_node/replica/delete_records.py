"""DeleteRecords: move log start offsets, and respond when all live replicas have moved theirs.

Source: Kafka ReplicaManager.deleteRecords, DelayedDeleteRecords; Partition.deleteRecordsOnLeader; KIP-107.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from ...protocol.errors import (
    InvalidRequestError,
    InvalidTopicError,
    KafkaError,
    OffsetOutOfRangeError,
    PolicyViolationError,
    RequestTimedOutError,
    ThrottlingQuotaExceededError,
)
from ...protocol.messages.data import (
    TO_HIGH_WATERMARK,
    DeleteRecordsPartition,
    DeleteRecordsPartitionResponse,
    DeleteRecordsResponse,
)
from ...protocol.model import INTERNAL_TOPICS
from ..log.retention import DELETE
from .delayed_entries import DelayedEntries, Waiting

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

    from ...protocol.messages.data import DeleteRecordsRequest
    from ...protocol.transport.replies import Incoming, Replies
    from ...runtime.purgatory import Purgatory
    from .log_starts import LogStarts
    from .partition import PartitionKey
    from .partition_table import PartitionTable


class DeleteRecordsHandler:
    """Requests new log starts and parks the request. `metadata_key` is checked when the set of nodes
    changes."""

    def __init__(
        self,
        table: PartitionTable,
        log_starts: LogStarts,
        purgatory: Purgatory,
        replies: Replies,
        *,
        max_wait_ms: int,
        max_partitions: int,
        metadata_key: Hashable,
    ) -> None:
        self._table = table
        self._log_starts = log_starts
        self._purgatory = purgatory
        self._replies = replies
        self._max_wait_ms = max_wait_ms
        self._max_partitions = max_partitions
        self._metadata_key = metadata_key

    def handle(self, request: Incoming, now_ms: int) -> None:
        """Errors: InvalidRequestError (nothing was deleted), ThrottlingQuotaExceededError if too many
        requests wait."""
        body: DeleteRecordsRequest = request.body
        if len(body.partitions) > self._max_partitions:
            raise InvalidRequestError(
                f"{len(body.partitions)} entries, at most {self._max_partitions} are allowed"
            )
        answers: list[DeleteRecordsPartitionResponse] = []
        waiting: list[Waiting] = []
        for index, entry in enumerate(body.partitions):
            try:
                waiting.append(self._started(index, entry))
                answers.append(DeleteRecordsPartitionResponse(0))
            except KafkaError as error:
                answers.append(self._failed((entry.topic_id, entry.partition), error))
        delayed = DelayedEntries(
            waiting,
            _Trimmed(),
            settled=partial(self._settled, answers),
            finished=lambda: self._replies.reply(request, DeleteRecordsResponse(tuple(answers))),
            is_wanted=lambda: request.peer.is_connected,
            abandoned=lambda: self._replies.no_reply(request),
        )
        keys = (request.peer.session, self._metadata_key, *{item.partition.key: None for item in waiting})
        wait_ms = min(max(body.timeout_ms, 0), self._max_wait_ms)
        deletion = _Deletion(delayed, waiting, lambda again, at_ms: self._park_overdue(again, keys, at_ms))
        self._purgatory.park(deletion, keys, now_ms + wait_ms, now_ms)

    def _park_overdue(self, deletion: _Deletion, keys: tuple[Hashable, ...], now_ms: int) -> None:
        """The request has timed out before this node has written its own log starts."""
        try:
            self._purgatory.park(deletion, keys, now_ms + self._max_wait_ms, now_ms)
        except ThrottlingQuotaExceededError:  # purgatory has filled up meanwhile
            deletion.on_expire(now_ms)

    def _started(self, index: int, entry: DeleteRecordsPartition) -> Waiting:
        """Errors: those of `find` and `leader_log`; InvalidTopicError, PolicyViolationError,
        OffsetOutOfRangeError."""
        partition = self._table.find(entry.topic_id, entry.partition)
        policy = partition.leader_log(entry.current_leader_epoch).config.cleanup_policy
        if partition.topic_partition.topic in INTERNAL_TOPICS:
            raise InvalidTopicError(
                f"records of the internal topic {partition.topic_partition} cannot be deleted"
            )
        if policy and DELETE not in policy:
            raise PolicyViolationError(
                f"records of {partition.topic_partition} cannot be deleted: its cleanup.policy is compact"
            )
        watermark = partition.high_watermark
        offset = watermark if entry.offset == TO_HIGH_WATERMARK else entry.offset
        if not 0 <= offset <= watermark:
            raise OffsetOutOfRangeError(
                f"offset {offset} of {partition.topic_partition}: its records end at {watermark}"
            )
        self._log_starts.request_start(partition, offset)
        return Waiting(index, partition, partition.leader_epoch, offset)

    def _settled(
        self, answers: list[DeleteRecordsPartitionResponse], item: Waiting, error: KafkaError | None
    ) -> None:
        if error is None:
            answers[item.index] = DeleteRecordsPartitionResponse(0, item.partition.low_watermark())
        else:
            answers[item.index] = self._failed(item.partition.key, error)

    def _failed(self, key: PartitionKey, error: KafkaError) -> DeleteRecordsPartitionResponse:
        leader, epoch = self._table.leader_hint(*key)
        return DeleteRecordsPartitionResponse(
            error.code, error_detail=error.detail, leader_id=leader, leader_epoch=epoch
        )


class _Deletion:
    """A request in purgatory whose timeout bounds only the wait for followers.

    Kafka's leader moves its log start before it looks at the timeout. Here a thread writes it to the disk
    first, so a request that has timed out waits for that once more, up to the longest wait of any request.
    """

    __slots__ = ("_entries", "_is_overdue", "_park_again", "_waiting")

    def __init__(
        self,
        entries: DelayedEntries,
        waiting: Sequence[Waiting],
        park_again: Callable[[_Deletion, int], None],
    ) -> None:
        self._entries, self._waiting, self._park_again = entries, waiting, park_again
        self._is_overdue = False

    def try_complete(self, now_ms: int) -> bool:
        if self._entries.try_complete(now_ms):
            return True
        if self._is_overdue and all(map(_has_deleted, self._waiting)):
            self._entries.on_expire(now_ms)
            return True
        return False

    def on_expire(self, now_ms: int) -> None:
        if self._is_overdue or all(map(_has_deleted, self._waiting)):
            self._entries.on_expire(now_ms)
        else:
            self._is_overdue = True
            self._park_again(self, now_ms)


def _has_deleted(item: Waiting) -> bool:
    """Whether this leader's own log start has moved, or its leadership has ended."""
    partition = item.partition
    is_led = partition.is_leader and partition.leader_epoch == item.leader_epoch
    return not is_led or partition.log is None or partition.log.log_start_offset >= item.offset


class _Trimmed:
    """The condition: the log start offsets of all live replicas have reached the offset."""

    __slots__ = ()

    def outcome(self, item: Waiting) -> bool:
        return item.partition.low_watermark() >= item.offset

    def timeout_error(self, item: Waiting) -> KafkaError:
        name = item.partition.topic_partition
        return RequestTimedOutError(
            f"not all live replicas of {name} have moved their log start to {item.offset}"
        )
