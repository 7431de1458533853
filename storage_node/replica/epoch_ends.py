"""OffsetForLeaderEpoch: the end offsets of leader epochs in a leader's log. Source: Kafka Partition.scala;
KIP-320."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.errors import InvalidRequestError, KafkaError
from ...protocol.messages.data import EpochAnswer, OffsetForLeaderEpochResponse

if TYPE_CHECKING:
    from ...protocol.messages.data import EpochQuestion, OffsetForLeaderEpochRequest
    from .partition_table import PartitionTable


def answer_epoch_ends(
    table: PartitionTable, asked: OffsetForLeaderEpochRequest, max_partitions: int
) -> OffsetForLeaderEpochResponse:
    """Errors of entries are in the response. Errors: InvalidRequestError if it has too many partitions."""
    if len(asked.partitions) > max_partitions:
        raise InvalidRequestError(f"{len(asked.partitions)} partitions, at most {max_partitions} are allowed")
    return OffsetForLeaderEpochResponse(tuple(_answer(table, question) for question in asked.partitions))


def _answer(table: PartitionTable, asked: EpochQuestion) -> EpochAnswer:
    try:
        partition = table.find(asked.topic_id, asked.partition)
        log = partition.leader_log(asked.current_leader_epoch)
    except KafkaError as error:
        return EpochAnswer(error.code, error_detail=error.detail)
    return EpochAnswer(0, *log.end_offset_for_epoch(asked.leader_epoch))
