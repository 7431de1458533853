"""DescribeReplicas: offsets, epochs, sizes and traffic of local replicas, also of those without a leader.
Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.errors import NO_ERROR, InvalidRequestError
from ...protocol.messages.replicas import DescribeReplicasResponse, EpochStart, ReplicaDescription
from ...protocol.model import TopicPartition

if TYPE_CHECKING:
    from ...protocol.messages.replicas import DescribeReplicasRequest
    from ..log.log import Log
    from .partition import Partition
    from .partition_table import PartitionTable

NO_TIMESTAMP = -1


def describe_replicas(
    table: PartitionTable, asked: DescribeReplicasRequest, max_partitions: int, now_ms: int
) -> DescribeReplicasResponse:
    """Errors: InvalidRequestError if the request has too many partitions."""
    if asked.topics is None:
        found = [_described(each, has_epochs=False) for each in table.partitions.values()]
    else:
        named = {TopicPartition(each.topic, number) for each in asked.topics for number in each.partitions}
        count = sum(len(each.partitions) for each in asked.topics)
        if count > max_partitions:
            raise InvalidRequestError(f"{count} partitions, at most {max_partitions} are allowed")
        found = [
            _described(each, has_epochs=True)
            for each in table.partitions.values()
            if each.topic_partition in named
        ]
    found.sort(key=lambda each: (each.topic, each.partition))
    return DescribeReplicasResponse(NO_ERROR, "", table.node_id, now_ms, tuple(found))


def _described(partition: Partition, *, has_epochs: bool) -> ReplicaDescription:
    log = partition.log
    if log is None or not partition.is_online:
        error = partition.lost_error()
        return ReplicaDescription(*partition.topic_partition, error.code, str(error))
    epochs = log.epochs.entries if has_epochs else ()
    return ReplicaDescription(
        *partition.topic_partition,
        is_leader=partition.is_leader,
        leader_epoch=partition.leader_epoch,
        log_start_offset=log.log_start_offset,
        log_end_offset=log.log_end_offset,
        high_watermark=partition.high_watermark,
        size_bytes=log.size_bytes,
        last_timestamp_ms=_last_timestamp_ms(log),
        epochs=tuple(EpochStart(*each) for each in epochs),
        produced_bytes=partition.produced_bytes,
        fetched_bytes=partition.fetched_bytes,
    )


def _last_timestamp_ms(log: Log) -> int:
    newest = (segment.largest_timestamp_ms for segment in reversed(tuple(log.segments)))
    return next((each for each in newest if each > NO_TIMESTAMP), NO_TIMESTAMP)
