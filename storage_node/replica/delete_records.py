"""DeleteRecords: move the starts of logs, and answer when all live replicas have followed.

Source: Kafka ReplicaManager.deleteRecords, DelayedDeleteRecords; Partition.deleteRecordsOnLeader; KIP-107.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...protocol.errors import (
    InvalidRequestError,
    InvalidTopicError,
    KafkaError,
    OffsetOutOfRangeError,
    PolicyViolationError,
    RequestTimedOutError,
)
from ...protocol.messages.data import (
    TO_HIGH_WATERMARK,
    DeleteRecordsPartition,
    DeleteRecordsPartitionResponse,
    DeleteRecordsResponse,
)
from ...protocol.model import INTERNAL_TOPICS
from ..log.retention import DELETE

if TYPE_CHECKING:
    from collections.abc import Hashable

    from ...protocol.messages.data import DeleteRecordsRequest
    from ...runtime.purgatory import Purgatory
    from ..replies import Incoming, Replies
    from .partition import Partition
    from .replica_manager import ReplicaManager


@dataclass(slots=True)
class _Waiting:
    """Entry `index` of the answer: its log is to start at `offset` everywhere."""

    index: int
    partition: Partition
    leader_epoch: int
    offset: int


class DeleteRecordsHandler:
    """Wants the starts and parks the request. `metadata_key` is checked when nodes come or go."""

    def __init__(
        self,
        replicas: ReplicaManager,
        purgatory: Purgatory,
        replies: Replies,
        *,
        max_wait_ms: int,
        max_partitions: int,
        metadata_key: Hashable,
    ) -> None:
        self._replicas = replicas
        self._purgatory = purgatory
        self._replies = replies
        self._max_wait_ms = max_wait_ms
        self._max_partitions = max_partitions
        self._metadata_key = metadata_key

    def handle(self, request: Incoming, now_ms: int) -> None:
        """Each entry on its own; one answer for all of them. Errors: InvalidRequestError (nothing was done),
        ThrottlingQuotaExceededError if too many requests wait."""
        body: DeleteRecordsRequest = request.body
        if len(body.partitions) > self._max_partitions:
            raise InvalidRequestError(
                f"{len(body.partitions)} entries, at most {self._max_partitions} are allowed"
            )
        answers: list[DeleteRecordsPartitionResponse] = []
        waiting: list[_Waiting] = []
        for index, entry in enumerate(body.partitions):
            try:
                waiting.append(self._started(index, entry))
                answers.append(DeleteRecordsPartitionResponse(0))
            except KafkaError as error:
                answers.append(self.failed(entry.topic_id, entry.partition, error))
        delayed = DelayedDeleteRecords(request, answers, waiting, self)
        keys = (request.peer.session, self._metadata_key, *{item.partition.key: None for item in waiting})
        wait_ms = min(max(body.timeout_ms, 0), self._max_wait_ms)
        self._purgatory.park(delayed, keys, now_ms + wait_ms)

    def _started(self, index: int, entry: DeleteRecordsPartition) -> _Waiting:
        """Errors: what `find` and `leader_log` say; InvalidTopicError, PolicyViolationError,
        OffsetOutOfRangeError."""
        partition = self._replicas.find(entry.topic_id, entry.partition)
        policy = partition.leader_log(entry.current_leader_epoch).config.cleanup_policy
        if partition.topic_partition.topic in INTERNAL_TOPICS:
            raise InvalidTopicError(f"records of {partition.topic_partition} are the cluster's own")
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
        self._replicas.log_starts.want(partition, offset)
        return _Waiting(index, partition, partition.leader_epoch, offset)

    def failed(self, topic_id: bytes, index: int, error: KafkaError) -> DeleteRecordsPartitionResponse:
        """The answer for an entry that went wrong."""
        leader, epoch = self._replicas.leader_hint(topic_id, index)
        return DeleteRecordsPartitionResponse(
            error.code, error_detail=error.detail, leader_id=leader, leader_epoch=epoch
        )

    def finish(self, request: Incoming, answers: list[DeleteRecordsPartitionResponse]) -> None:
        """Send the answer."""
        self._replies.reply(request, DeleteRecordsResponse(tuple(answers)))

    def abandon(self, request: Incoming) -> None:
        """Nobody is there any more to hear the answer."""
        self._replies.no_reply(request)


class DelayedDeleteRecords:
    """A request in purgatory. It watches its connection, its partitions, and which nodes live.

    Invariant: each waiting entry ends exactly once: done, lost with its leader, or timed out.
    """

    __slots__ = ("_answers", "_handler", "_request", "_waiting")

    def __init__(
        self,
        request: Incoming,
        answers: list[DeleteRecordsPartitionResponse],
        waiting: list[_Waiting],
        handler: DeleteRecordsHandler,
    ) -> None:
        self._request = request
        self._answers = answers
        self._waiting = waiting
        self._handler = handler

    def try_complete(self) -> bool:
        """Settle what can be settled; answer when nothing waits any more."""
        if not self._request.peer.is_connected:
            self._handler.abandon(self._request)
            return True
        still: list[_Waiting] = []
        for item in self._waiting:
            partition = item.partition
            if not partition.is_leader or partition.leader_epoch != item.leader_epoch:
                self._lost(item, partition.lost_error())
                continue
            low_watermark = partition.low_watermark()
            if low_watermark < item.offset:
                still.append(item)
            else:
                self._answers[item.index] = DeleteRecordsPartitionResponse(0, low_watermark)
        self._waiting = still
        if still:
            return False
        self._handler.finish(self._request, self._answers)
        return True

    def on_expire(self) -> None:
        """The client's timeout passed: the log starts later, but not known to be so everywhere."""
        for item in self._waiting:
            name = item.partition.topic_partition
            self._lost(
                item, RequestTimedOutError(f"not all live replicas of {name} start at {item.offset} yet")
            )
        self._handler.finish(self._request, self._answers)

    def _lost(self, item: _Waiting, error: KafkaError) -> None:
        self._answers[item.index] = self._handler.failed(*item.partition.key, error)
