"""The log dirs part of the admin client: replicas in log dirs of storage nodes, and moves between them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from ...protocol.errors import KafkaError
from ...protocol.messages import registry as apis
from ...protocol.messages.control import TopicPartitions
from ...protocol.messages.log_dirs import (
    AlterReplicaLogDirsRequest,
    DescribeLogDirsRequest,
    LogDirTarget,
)
from .admin_types import LogDirInfo, LogDirReplicaInfo, Results, TopicPartitionReplica
from .requester_io import error_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ...protocol.messages.log_dirs import LogDirDescription
    from ...protocol.model import TopicPartition
    from .requester_io import AdminRequester, Call

Outcomes = dict[TopicPartitionReplica, KafkaError | None]


class LogDirsEngine:
    """Runs on the loop of the client; sends to each node what concerns its own dirs. Timeouts in seconds."""

    def __init__(self, requester: AdminRequester) -> None:
        self._requester = requester

    async def describe(
        self,
        nodes: Iterable[int] | None,
        partitions: Iterable[TopicPartition] | None,
        *,
        timeout: float | None,
    ) -> Results[int, tuple[LogDirInfo, ...]]:
        """The log dirs of each node, or the error. None for `nodes` means all that are not fenced."""
        call = self._requester.call(timeout)
        wanted = sorted(await self._requester.nodes(call)) if nodes is None else list(nodes)
        topics = None if partitions is None else _named((tp.topic, tp.partition) for tp in partitions)
        request = DescribeLogDirsRequest(topics)

        async def ask(node_ids: list[int]) -> dict[int, Any]:
            found = await asyncio.gather(*(self._described(node_id, request, call) for node_id in node_ids))
            return dict(zip(node_ids, found, strict=True))

        return await self._requester.retried(wanted, ask, call)

    async def alter(
        self, moves: Mapping[TopicPartitionReplica, str], *, timeout: float | None
    ) -> Results[TopicPartitionReplica, None]:
        """None for each replica whose move has begun, or the error."""
        call = self._requester.call(timeout)
        targets = {TopicPartitionReplica(*replica): path for replica, path in moves.items()}

        async def ask(wanted: list[TopicPartitionReplica]) -> Outcomes:
            by_node: dict[int, list[TopicPartitionReplica]] = {}
            for replica in wanted:
                by_node.setdefault(replica.node_id, []).append(replica)
            parts = await asyncio.gather(
                *(self._moved(node_id, mine, targets, call) for node_id, mine in by_node.items())
            )
            return {replica: error for part in parts for replica, error in part.items()}

        return await self._requester.retried(list(targets), ask, call)

    async def _described(
        self, node_id: int, request: DescribeLogDirsRequest, call: Call
    ) -> tuple[LogDirInfo, ...] | KafkaError:
        try:
            response = await self._requester.ask_node(node_id, apis.DESCRIBE_LOG_DIRS, request, call)
        except KafkaError as error:
            return error
        return error_of(response) or tuple(map(_info, response.log_dirs))

    async def _moved(
        self,
        node_id: int,
        wanted: list[TopicPartitionReplica],
        targets: Mapping[TopicPartitionReplica, str],
        call: Call,
    ) -> Outcomes:
        by_path: dict[str, list[TopicPartitionReplica]] = {}
        for replica in wanted:
            by_path.setdefault(targets[replica], []).append(replica)
        request = AlterReplicaLogDirsRequest(
            tuple(
                LogDirTarget(path, _named((each.topic, each.partition) for each in mine))
                for path, mine in by_path.items()
            )
        )
        try:
            response = await self._requester.ask_node(node_id, apis.ALTER_REPLICA_LOG_DIRS, request, call)
        except KafkaError as error:
            return dict.fromkeys(wanted, error)
        whole = error_of(response)
        if whole is not None:
            return dict.fromkeys(wanted, whole)
        return {
            TopicPartitionReplica(each.topic, each.partition, node_id): error_of(each)
            for each in response.results
        }


def _named(places: Iterable[tuple[str, int]]) -> tuple[TopicPartitions, ...]:
    by_topic: dict[str, list[int]] = {}
    for topic, number in places:
        by_topic.setdefault(topic, []).append(number)
    return tuple(TopicPartitions(topic, tuple(numbers)) for topic, numbers in by_topic.items())


def _info(described: LogDirDescription) -> LogDirInfo:
    return LogDirInfo(
        described.log_dir,
        error_of(described),
        tuple(LogDirReplicaInfo(*_fields(each)) for each in described.replicas),
        described.total_bytes,
        described.usable_bytes,
        described.is_cordoned,
        described.error_detail,
    )


def _fields(replica: Any) -> tuple[str, int, int, int, bool]:
    return replica.topic, replica.partition, replica.size_bytes, replica.offset_lag, replica.is_future
