"""A client of coordinators over plain connections: it finds the coordinator and retries retriable errors."""

import asyncio
import itertools
import time
from collections.abc import Sequence
from typing import Any

from headrace.protocol.errors import KafkaError, RebalanceInProgressError, error_from_code
from headrace.protocol.messages import data, groups, registry, transactions
from headrace.protocol.messages.control import CreateTopicsRequest, DeleteTopicsRequest, NewTopicSpec
from headrace.protocol.model import LATEST_TIMESTAMP
from headrace.protocol.records.codec import active_codec
from headrace.protocol.transport.dealer_io import Connection

TIMEOUT_S = 100.0
PAUSE_S = 0.02
MEMBER_ID_REQUIRED = 79


class CoordinatorClient:
    """Uses one connection per node, opened on demand."""

    def __init__(self, bootstrap: str, name: str = "client") -> None:
        self._bootstrap = [_address(text) for text in bootstrap.split(",")]
        self._name = name
        self._connections: dict[tuple[str, int], Connection] = {}

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()

    async def send(self, address: tuple[str, int], api: Any, body: Any, frames: Sequence[bytes] = ()) -> Any:
        """Send a request; returns the response. Errors: KafkaError."""
        connection = self._connections.get(address)
        if connection is None or connection.is_closed:
            connection = await Connection.open(*address, client_id=self._name, timeout_s=TIMEOUT_S)
            self._connections[address] = connection
        return (await connection.request(api, body, frames, timeout_s=TIMEOUT_S)).body

    async def find(self, key: str, key_type: int = groups.GROUP_KEY) -> tuple[str, int]:
        """The address of the coordinator; waits until there is one."""
        while True:
            for address in self._bootstrap:
                try:
                    body = groups.FindCoordinatorRequest(key_type, (key,))
                    (found,) = (await self.send(address, registry.FIND_COORDINATOR, body)).coordinators
                except KafkaError:
                    continue
                if not found.error_code:
                    return found.host, found.port
            await asyncio.sleep(PAUSE_S)

    async def create(self, topic: str, partitions: int) -> None:
        """Create a topic."""
        request = CreateTopicsRequest((NewTopicSpec(topic, partitions, 1),))
        await self.send(self._bootstrap[0], registry.CREATE_TOPICS, request)

    async def delete(self, topic: str) -> None:
        """Delete a topic; the response comes after the deletion."""
        await self.send(self._bootstrap[0], registry.DELETE_TOPICS, DeleteTopicsRequest((topic,)))

    async def leader(self, topic: str) -> tuple[bytes, tuple[str, int]]:
        """The id of a topic, and the address of the leader of its only partition."""
        for address in itertools.cycle(self._bootstrap):
            try:
                found = await self.send(address, registry.METADATA, data.MetadataRequest((topic,)))
            except KafkaError:
                continue
            nodes = {node.node_id: (node.host, node.port) for node in found.nodes}
            (described,) = found.topics
            if described.partitions and described.partitions[0].leader in nodes:
                return described.topic_id, nodes[described.partitions[0].leader]
            await asyncio.sleep(PAUSE_S)
        raise AssertionError("no node responds")

    async def end_offset(self, topic: str, *, is_stable: bool) -> int:
        """The last stable offset or the high watermark of the topic's only partition."""
        topic_id, address = await self.leader(topic)
        entry = data.ListOffsetsPartition(topic_id, 0, LATEST_TIMESTAMP)
        body = data.ListOffsetsRequest(int(is_stable), (entry,))
        return (await self.send(address, registry.LIST_OFFSETS, body)).partitions[0].offset  # type: ignore[no-any-return]

    async def ask(self, key: str, api: Any, body: Any, key_type: int = groups.GROUP_KEY) -> Any:
        """Retry a request to the id's coordinator while the error is retriable. Errors: the other ones."""
        while True:
            try:
                answer = await self.send(await self.find(key, key_type), api, body)
                error = _error_in(answer)
            except KafkaError as refused:
                error = refused
            if error is None or not error.retriable:
                break
            await asyncio.sleep(PAUSE_S)
        if error is not None:
            raise error
        return answer


class GroupMember:
    """A member of a classic group, by plain requests."""

    def __init__(self, client: CoordinatorClient, group: str, *, session_ms: int = 10_000) -> None:
        self.client, self.group = client, group
        self.member_id = ""
        self.generation = -1
        self.joined = groups.JoinGroupResponse(0)
        self._session_ms = session_ms

    async def join(self) -> groups.JoinGroupResponse:
        """Join until there is a generation."""
        while True:
            body = groups.JoinGroupRequest(
                self.group,
                self._session_ms,
                self._session_ms,
                self.member_id,
                "consumer",
                (groups.GroupProtocol("range", b"what I read"),),
            )
            answer = await self.client.ask(self.group, registry.JOIN_GROUP, body)
            self.member_id = answer.member_id or self.member_id
            if answer.error_code == 0:
                self.generation, self.joined = answer.generation_id, answer
                return answer  # type: ignore[no-any-return]

    async def sync(self, assignments: Sequence[tuple[str, bytes]] = ()) -> bytes:
        """Sync; returns the member's assignment."""
        given = tuple(groups.MemberAssignment(*each) for each in assignments)
        body = groups.SyncGroupRequest(
            self.group, self.generation, self.member_id, None, "consumer", "range", given
        )
        return (await self.client.ask(self.group, registry.SYNC_GROUP, body)).assignment  # type: ignore[no-any-return]

    async def beat(self) -> None:
        body = groups.HeartbeatRequest(self.group, self.generation, self.member_id)
        await self.client.ask(self.group, registry.HEARTBEAT, body)

    async def until_rebalance(self) -> None:
        """Send heartbeats until the group rebalances."""
        while True:
            body = groups.HeartbeatRequest(self.group, self.generation, self.member_id)
            address = await self.client.find(self.group)
            try:
                answer = await self.client.send(address, registry.HEARTBEAT, body)
            except RebalanceInProgressError:
                return
            if answer.error_code == RebalanceInProgressError.code:
                return
            await asyncio.sleep(PAUSE_S)

    async def commit(self, topic: str, partition: int, offset: int) -> None:
        body = groups.OffsetCommitRequest(
            self.group, self.generation, self.member_id, (groups.CommittedOffset(topic, partition, offset),)
        )
        await self.client.ask(self.group, registry.OFFSET_COMMIT, body)

    async def leave(self) -> None:
        body = groups.LeaveGroupRequest(self.group, (groups.LeavingMember(self.member_id),))
        await self.client.ask(self.group, registry.LEAVE_GROUP, body)


async def committed(client: CoordinatorClient, group: str) -> dict[tuple[str, int], int]:
    """All committed offsets of a group."""
    body = groups.OffsetFetchRequest((groups.OffsetFetchGroup(group),))
    (answer,) = (await client.ask(group, registry.OFFSET_FETCH, body)).groups
    return {(each.topic, each.partition): each.offset for each in answer.offsets}


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    return host, int(port)


def _error_in(answer: Any) -> KafkaError | None:
    """The first error of a response or of its entries, except MEMBER_ID_REQUIRED."""
    codes = [getattr(answer, "error_code", 0)]
    for field in ("groups", "results", "transactions", "members"):
        codes += [getattr(each, "error_code", 0) for each in getattr(answer, field, ())]
    code = next((code for code in codes if code not in (0, MEMBER_ID_REQUIRED)), 0)
    return error_from_code(code, getattr(answer, "error_detail", "")) if code else None


class Transactional:
    """A transactional producer, by plain requests."""

    def __init__(self, client: CoordinatorClient, transactional_id: str) -> None:
        self.client, self.id = client, transactional_id
        self.producer_id = self.epoch = -1
        self._sequence = 0

    async def _ask(self, api: Any, body: Any) -> Any:
        return await self.client.ask(self.id, api, body, groups.TRANSACTION_KEY)

    async def init(self) -> None:
        """Send InitProducerId, which fences the previous producer."""
        found = await self._ask(registry.INIT_PRODUCER_ID, transactions.InitProducerIdRequest(self.id))
        self._take(found)

    def _take(self, answer: Any) -> None:
        if (answer.producer_id, answer.producer_epoch) != (self.producer_id, self.epoch):
            self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
            self._sequence = 0

    async def write(self, topic: str, value: bytes) -> None:
        """Add partition 0 to the transaction and send one record to it."""
        added = transactions.TransactionPartitions(
            self.id, self.producer_id, self.epoch, (groups.TopicNamePartitions(topic, (0,)),)
        )
        await self._ask(registry.ADD_PARTITIONS_TO_TXN, transactions.AddPartitionsToTxnRequest((added,)))
        builder = active_codec().builder(
            max_bytes=1 << 20,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            base_sequence=self._sequence,
            is_transactional=True,
        )
        builder.append(int(time.time() * 1000), None, value)
        self._sequence += 1
        while True:
            topic_id, address = await self.client.leader(topic)
            body = data.ProduceRequest(-1, 10_000, (data.ProducePartition(topic_id, 0),), self.id)
            response = await self.client.send(address, registry.PRODUCE, body, [builder.build()])
            (answer,) = response.partitions
            if not answer.error_code:
                return
            error = error_from_code(answer.error_code, answer.error_detail)
            if not error.retriable:
                raise error
            await asyncio.sleep(PAUSE_S)

    async def send_offset(self, group: str, topic: str, offset: int) -> None:
        """Send TxnOffsetCommit."""
        offsets = (groups.CommittedOffset(topic, 0, offset),)
        body = transactions.TxnOffsetCommitRequest(self.id, group, self.producer_id, self.epoch, offsets)
        await self.client.ask(group, registry.TXN_OFFSET_COMMIT, body)

    async def end(self, *, commit: bool) -> None:
        body = transactions.EndTxnRequest(self.id, self.producer_id, self.epoch, committed=commit)
        self._take(await self._ask(registry.END_TXN, body))
