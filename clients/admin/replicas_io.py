"""The part of the admin client about single replicas: asks each node for its own."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from ...protocol.errors import KafkaError
from ...protocol.messages import registry as apis
from ...protocol.messages.control import TopicPartitions
from ...protocol.messages.replicas import DescribeReplicasRequest
from ...protocol.model import TopicPartition
from .replica_types import NodeReplicas, ReplicaInfo
from .requester_io import error_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ...protocol.messages.replicas import DescribeReplicasResponse, ReplicaDescription
    from .admin_types import Results
    from .requester_io import AdminRequester, Call


class ReplicasEngine:
    """Runs on the loop of the client. Timeouts are in seconds."""

    def __init__(self, requester: AdminRequester) -> None:
        self._requester = requester

    async def describe(
        self,
        nodes: Iterable[int] | None,
        partitions: Iterable[TopicPartition] | None,
        *,
        timeout: float | None,
    ) -> Results[int, NodeReplicas]:
        """The replicas of each node, or the error. None for `nodes` means all that are not fenced."""
        call = self._requester.call(timeout)
        wanted = sorted(await self._requester.nodes(call)) if nodes is None else list(nodes)
        request = DescribeReplicasRequest(None if partitions is None else _named(partitions))

        async def ask(node_ids: list[int]) -> dict[int, Any]:
            found = await asyncio.gather(*(self._described(node_id, request, call) for node_id in node_ids))
            return dict(zip(node_ids, found, strict=True))

        return await self._requester.retried(wanted, ask, call)

    async def _described(
        self, node_id: int, request: DescribeReplicasRequest, call: Call
    ) -> NodeReplicas | KafkaError:
        try:
            response: DescribeReplicasResponse = await self._requester.ask_node(
                node_id, apis.DESCRIBE_REPLICAS, request, call
            )
        except KafkaError as error:
            return error
        found = {TopicPartition(each.topic, each.partition): _info(each) for each in response.replicas}
        return error_of(response) or NodeReplicas(response.node_id, response.clock_ms, found)


def _named(partitions: Iterable[TopicPartition]) -> tuple[TopicPartitions, ...]:
    by_topic: dict[str, list[int]] = {}
    for place in partitions:
        by_topic.setdefault(place.topic, []).append(place.partition)
    return tuple(TopicPartitions(topic, tuple(numbers)) for topic, numbers in by_topic.items())


def _info(found: ReplicaDescription) -> ReplicaInfo:
    return ReplicaInfo(
        found.topic,
        found.partition,
        error_of(found),
        found.is_leader,
        found.leader_epoch,
        found.log_start_offset,
        found.log_end_offset,
        found.high_watermark,
        found.size_bytes,
        found.last_timestamp_ms,
        tuple((each.epoch, each.start_offset) for each in found.epochs),
        found.produced_bytes,
        found.fetched_bytes,
    )
