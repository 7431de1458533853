"""A cluster in memory behind the clients' `Network` interface: nodes, leaders, logs, delays, faults.

It keeps Kafka's rules as far as clients see them. Time is the running loop's, so that under the virtual loop
delays cost nothing. Faults are scripted by `rules`: the first rule that matches a request decides.
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

from fake_coordinator import GROUP_APIS, FakeCoordinator
from fake_replication import FakeReplication
from fake_roles import FakeRoles
from fake_transactions import TRANSACTION_APIS, FakeTransactions
from headrace.clients.cluster.hub_io import Hub
from headrace.clients.cluster.network import Address, Reply
from headrace.clients.config import ConnectionConfig
from headrace.protocol import errors
from headrace.protocol.messages import control, data
from headrace.protocol.messages import registry as apis
from headrace.protocol.records.codec import active_codec
from headrace.protocol.records.header import CRC_POSITION, assigned_prefix, read_batch_header
from headrace.storage_node.log.producer_states import ProducerStates
from headrace.storage_node.log.verification import UNCHECKED

log = logging.getLogger("fake")

Rule = Callable[["Ask"], "Fault | None"]

FOR_EVER_MS = 1_000_000_000


@dataclass(frozen=True)
class Ask:
    """A request, as passed to rules."""

    api: str
    node_id: int
    body: Any
    number: int  # how many requests of this API came before


@dataclass(frozen=True)
class Fault:
    """A fault of a request. `lost_request`: never executed; `lost_reply`: executed, without a response."""

    error: errors.KafkaError | None = None  # of the whole request, which is not executed
    partition_error: int | None = None  # error code of each partition; the request is not executed
    delay_ms: int = 0  # before it is executed
    lost_request: bool = False
    lost_reply: bool = False  # and the connection breaks
    silent: bool = False  # no response: the client times out
    behind: bool = False  # the node's metadata does not have the topic yet


@dataclass
class FakePartition:
    leader: int
    leader_epoch: int = 0
    log_start_offset: int = 0
    end_offset: int = 0
    batches: list[tuple[int, int, bytes]] = field(default_factory=list)  # base, next, bytes
    replicas: tuple[int, ...] = ()  # the leader only, unless set
    isr: tuple[int, ...] = ()
    elr: tuple[int, ...] = ()
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()
    epochs: list[tuple[int, int]] = field(default_factory=lambda: [(0, 0)])  # (epoch, start)
    followers: dict[int, int] = field(default_factory=dict)  # node id -> its high watermark
    acknowledged: int = 0  # end offset of the acknowledged records
    aborted: tuple[tuple[int, int], ...] = ()  # transactions: (producer id, first offset)
    last_stable_offset: int | None = None  # None: the end offset
    producers: ProducerStates = field(default_factory=ProducerStates)  # the state machine of a real leader

    def __post_init__(self) -> None:
        self.replicas = self.replicas or (self.leader,)
        self.isr = self.isr or self.replicas

    def append(self, frame: bytes, epoch: int) -> int:
        """Append a batch; returns its base offset, for a duplicate that of the first append. Errors: those of
        sequence numbers."""
        header = active_codec().check(frame)
        base = self.end_offset
        if header.producer_id >= 0 and not header.is_control:
            known = self.producers.check(header, guard=UNCHECKED)
            if known is not None:
                return known.first_offset
            self.producers.wrote(header, base, None)
        stored = assigned_prefix(base, header.batch_length, epoch) + bytes(frame)[CRC_POSITION:]
        self.end_offset = base + header.last_offset_delta + 1
        self.batches.append((base, self.end_offset, stored))
        return base

    def lead(self, leader: int) -> None:
        self.leader, self.leader_epoch = leader, self.leader_epoch + 1
        self.epochs.append((self.leader_epoch, self.end_offset))

    def truncate(self, offset: int) -> None:
        """Truncate the log: drop each batch that does not end before `offset`."""
        self.batches = [batch for batch in self.batches if batch[1] <= offset]
        self.end_offset = self.batches[-1][1] if self.batches else self.log_start_offset
        self.producers.clear()
        for base, _, batch in self.batches:
            if (header := read_batch_header(batch)).producer_id >= 0:
                self.producers.wrote(header, base, None)
        self.epochs = [entry for entry in self.epochs if entry[1] < max(self.end_offset, 1)]

    def end_of_epoch(self, epoch: int) -> tuple[int, int]:
        """The leader's response to OffsetForLeaderEpoch."""
        ends = [*(start for _, start in self.epochs[1:]), self.end_offset]
        if epoch > self.epochs[-1][0]:
            return -1, -1
        found = [(mine, end) for (mine, _), end in zip(self.epochs, ends, strict=True) if mine <= epoch]
        return found[-1] if found else (epoch, self.epochs[0][1])

    def records(self) -> list[Any]:
        return [record for _, records in self.headers_and_records() for record in records]

    def headers_and_records(self) -> list[tuple[Any, list[Any]]]:
        batches = (batch for _, _, batch in self.batches)
        return [(read_batch_header(batch), active_codec().decode(batch)) for batch in batches]


@dataclass
class FakeTopic:
    name: str
    topic_id: bytes
    partitions: list[FakePartition]
    max_message_bytes: int = 1_048_588
    configs: dict[str, str] = field(default_factory=dict)


class FakeCluster(FakeReplication, FakeRoles, FakeCoordinator, FakeTransactions):
    """`nodes` storage nodes; each of them serves every request."""

    def __init__(self, nodes: int = 1, *, latency_ms: int = 1, seed: int = 0) -> None:
        FakeReplication.__init__(self)
        FakeRoles.__init__(self)
        FakeCoordinator.__init__(self)
        FakeTransactions.__init__(self)
        self.random = Random(seed)
        self.racks: dict[int, str] = {}  # racks of nodes; with racks, consumers may fetch from followers
        self.cluster_id = "fake"
        self.latency_ms = latency_ms
        self.addresses = {node_id: Address(f"node{node_id}", 9000 + node_id) for node_id in range(nodes)}
        self.down: set[int] = set()
        self.fenced: set[int] = set()  # not in the metadata, but serving requests
        self.dropped: list[Address] = []  # nodes to which clients closed their connections
        self.topics: dict[str, FakeTopic] = {}
        self.node_configs: dict[str, dict[str, str]] = {}
        self.metadata_offset = 0
        self.rules: list[Rule] = []
        self.asked: list[tuple[str, int, Any]] = []  # (api, node id, body) of every request that arrived
        self.produced_at: list[tuple[int, int]] = []  # (ms, node id)
        self.in_flight: dict[int, int] = {}
        self.most_in_flight = 0
        self._counts: dict[str, int] = {}
        self._changed: asyncio.Event | None = None
        self._topic_number = 0

    # --- controls of tests --------------------------------------------------------------------------

    def create(self, name: str, partitions: int = 1, **facts: Any) -> FakeTopic:
        self._topic_number += 1
        topic_id = self._topic_number.to_bytes(16, "big")
        node_ids = sorted(self.addresses)
        made = [FakePartition(leader=node_ids[number % len(node_ids)]) for number in range(partitions)]
        self.topics[name] = FakeTopic(name, topic_id, made, **facts)
        self.metadata_offset += 1
        return self.topics[name]

    def grow(self, name: str, total: int) -> None:
        topic, node_ids = self.topics[name], sorted(self.addresses)
        while len(topic.partitions) < total:
            topic.partitions.append(FakePartition(leader=node_ids[len(topic.partitions) % len(node_ids)]))
        self.metadata_offset += 1

    def move_leader(self, name: str, partition: int, leader: int) -> None:
        moved = self.topics[name].partitions[partition]
        moved.lead(leader)
        if leader not in moved.replicas:
            moved.replicas = moved.isr = (leader,)
        self.metadata_offset += 1
        self._news()

    def elect_uncleanly(self, name: str, partition: int, leader: int, offset: int) -> None:
        """Elect a replica whose log ends at `offset`, or at the batch before."""
        self.topics[name].partitions[partition].truncate(offset)
        self.move_leader(name, partition, leader)

    def stop_node(self, node_id: int) -> None:
        self.down.add(node_id)

    def freeze_node(self, node_id: int) -> None:
        """Stop a node from reading and sending; its connections stay open."""
        self.rules.insert(0, lambda ask: Fault(delay_ms=FOR_EVER_MS) if ask.node_id == node_id else None)

    def start_node(self, node_id: int) -> None:
        """Restart a node; its producer state has the last batch of each producer, as after a snapshot."""
        self.down.discard(node_id)
        for part in (part for topic in self.topics.values() for part in topic.partitions):
            if part.leader == node_id:
                part.producers.restore(part.producers.to_snapshot())

    def truncate_start(self, name: str, partition: int, offset: int) -> None:
        cut = self.topics[name].partitions[partition]
        cut.log_start_offset = offset
        cut.batches = [batch for batch in cut.batches if batch[1] > offset]

    def put(self, name: str, partition: int, *values: bytes, timestamp: int = 1000, **builder: Any) -> int:
        """Append one batch; its base offset."""
        made = active_codec().builder(max_bytes=1 << 24, **builder)
        for value in values:
            made.append(timestamp, None, value, ())
        part = self.topics[name].partitions[partition]
        base = part.append(made.build(), part.leader_epoch)
        self._news()
        return base

    def values(self, name: str, partition: int | None = None) -> list[bytes]:
        parts = self.topics[name].partitions
        chosen = parts if partition is None else [parts[partition]]
        return [record.value for part in chosen for record in part.records()]

    def fail_next(self, api: str, fault: Fault, times: int = 1) -> None:
        """Apply a fault to the next `times` requests of an API."""
        left = times

        def rule(ask: Ask) -> Fault | None:
            nonlocal left
            if ask.api == api and left:
                left -= 1
                return fault
            return None

        self.rules.append(rule)

    def requests(self, api: str) -> list[Any]:
        return [body for name, _, body in self.asked if name == api]

    def make_hub(self, bootstrap: str | None, config: ConnectionConfig) -> Hub:
        """For `make_hub=` of a client: a hub on the virtual loop and its clock, else in real time."""
        loop = asyncio.get_running_loop()
        self._changed = asyncio.Event()
        network = FakeNetwork(self)
        if hasattr(loop, "now_ms"):
            return Hub(
                network,
                bootstrap,
                config,
                now_ms=loop.now_ms,
                wall_ms=lambda: 1_700_000_000_000,
                random=Random(7),
            )
        return Hub(network, bootstrap, config, random=Random(7))

    # --- answering ----------------------------------------------------------------------------------

    async def handle(self, node_id: int, api: Any, body: Any, frames: Any) -> Reply:
        number = self._counts[api.name] = self._counts.get(api.name, 0) + 1
        ask = Ask(api.name, node_id, body, number)
        fault = next((found for rule in self.rules if (found := rule(ask)) is not None), Fault())
        self.in_flight[node_id] = self.in_flight.get(node_id, 0) + 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight[node_id])
        try:
            await asyncio.sleep((self.latency_ms + fault.delay_ms) / 1000)
            if fault.lost_request or node_id in self.down:
                raise errors.NetworkError("the connection broke before the request came")
            if fault.error is not None:
                raise fault.error
            self.asked.append((api.name, node_id, body))
            reply = await self._answer(node_id, api, body, frames, fault)
            if fault.silent:
                await asyncio.sleep(3600)
            if fault.lost_reply or node_id in self.down:
                raise errors.NetworkError("the connection broke before the answer came")
            if api is apis.PRODUCE:
                self._acknowledge(body, reply.body)
            return reply
        finally:
            self.in_flight[node_id] -= 1

    async def _answer(self, node_id: int, api: Any, body: Any, frames: Any, fault: Fault) -> Reply:
        if api is apis.METADATA:
            return Reply(self._metadata(body, is_behind=fault.behind), ())
        if api is apis.PRODUCE:
            return Reply(self._produce(node_id, body, frames, fault), ())
        if api is apis.FETCH:
            return await self._fetch(node_id, body, fault)
        if api.name in GROUP_APIS:
            return Reply(await self.ask_group(api.name, body, node_id), ())
        by_leaders = {apis.LIST_OFFSETS: self._list_offsets, apis.OFFSET_FOR_LEADER_EPOCH: self._epoch_ends}
        if api in by_leaders:
            return Reply(by_leaders[api](node_id, body, fault), ())
        do = getattr(self, f"_do_{api.name}")
        return Reply(do(body, node_id) if api.name in TRANSACTION_APIS else do(body), ())

    def _metadata(self, body: data.MetadataRequest, *, is_behind: bool) -> data.MetadataResponse:
        known = {} if is_behind else self.topics
        names = sorted(known) if body.topics is None else body.topics
        return data.MetadataResponse(
            self.cluster_id,
            100,
            0 if is_behind else self.metadata_offset,
            tuple(
                data.NodeEndpoint(node_id, address.host, address.port, self.racks.get(node_id))
                for node_id, address in sorted(self.addresses.items())
                if node_id not in self.down | self.fenced
            ),
            tuple(self._topic_metadata(name, known.get(name)) for name in names),
        )

    def _topic_metadata(self, name: str, topic: FakeTopic | None) -> data.TopicMetadata:
        if topic is None:
            return data.TopicMetadata(3, name, b"", False, ())
        partitions = tuple(
            data.PartitionMetadata(
                number,
                -1 if part.leader in self.down else part.leader,
                part.leader_epoch,
                part.replicas,
                part.isr,
                tuple(node_id for node_id in part.replicas if node_id in self.down),
                partition_epoch=9,
                elr=part.elr,
                adding_replicas=part.adding,
                removing_replicas=part.removing,
            )
            for number, part in enumerate(topic.partitions)
        )
        return data.TopicMetadata(0, name, topic.topic_id, name.startswith("__"), partitions)

    def _find(self, node_id: int, entry: Any) -> tuple[FakeTopic, FakePartition] | int:
        topic = next((topic for topic in self.topics.values() if topic.topic_id == entry.topic_id), None)
        if topic is None:
            return errors.UnknownTopicIdError.code
        if entry.partition >= len(topic.partitions):
            return errors.UnknownTopicOrPartitionError.code
        part = topic.partitions[entry.partition]
        if part.leader != node_id and not (
            isinstance(entry, data.FetchPartition) and node_id in part.followers
        ):
            return errors.NotLeaderOrFollowerError.code
        asked = getattr(entry, "current_leader_epoch", -1)
        if asked not in (-1, part.leader_epoch):
            is_old = asked < part.leader_epoch
            return (errors.FencedLeaderEpochError if is_old else errors.UnknownLeaderEpochError).code
        return topic, part

    def _epoch_ends(self, node_id: int, body: Any, fault: Fault) -> data.OffsetForLeaderEpochResponse:
        answers = []
        for entry in body.partitions:
            found = self._find(node_id, entry)
            code = fault.partition_error or (found if isinstance(found, int) else 0)
            ends = (-1, -1) if code else found[1].end_of_epoch(entry.leader_epoch)  # type: ignore[index]
            answers.append(data.EpochAnswer(code, *ends))
        return data.OffsetForLeaderEpochResponse(tuple(answers))

    def _produce(self, node_id: int, body: Any, frames: Any, fault: Fault) -> data.ProduceResponse:
        self.produced_at.append((round(asyncio.get_running_loop().time() * 1000), node_id))
        answers = []
        for entry, frame in zip(body.partitions, frames, strict=True):
            found = self._find(node_id, entry)
            if fault.partition_error is not None:
                answers.append(data.ProducePartitionResponse(fault.partition_error))
            elif isinstance(found, int):
                answers.append(self._refusal(found, entry, data.ProducePartitionResponse))
            elif len(frame) > found[0].max_message_bytes:
                answers.append(data.ProducePartitionResponse(errors.MessageTooLargeError.code))
            else:
                answers.append(self._append(found[1], body.transactional_id, bytes(frame)))
        self._news()
        return data.ProduceResponse(tuple(answers))

    def _append(
        self, part: FakePartition, transactional_id: str | None, frame: bytes
    ) -> data.ProducePartitionResponse:
        try:
            self.check_transactional(transactional_id, read_batch_header(frame))
            base = part.append(frame, part.leader_epoch)
        except errors.KafkaError as error:
            return data.ProducePartitionResponse(error.code, error_detail=str(error))
        return data.ProducePartitionResponse(0, base, -1, part.log_start_offset)

    def _acknowledge(self, body: Any, response: data.ProduceResponse) -> None:
        for entry, answer in zip(body.partitions, response.partitions, strict=True):
            for topic in self.topics.values():
                if topic.topic_id == entry.topic_id and not answer.error_code:
                    part = topic.partitions[entry.partition]
                    ends = [following for base, following, _ in part.batches if base == answer.base_offset]
                    part.acknowledged = max(part.acknowledged, *ends)

    def _refusal(self, code: int, entry: Any, answer: Any) -> Any:
        hint = {}
        topic = next((topic for topic in self.topics.values() if topic.topic_id == entry.topic_id), None)
        if code == errors.NotLeaderOrFollowerError.code and topic is not None:
            part = topic.partitions[entry.partition]
            hint = {"leader_id": part.leader, "leader_epoch": part.leader_epoch}
        return answer(code, **hint)

    async def _fetch(self, node_id: int, body: Any, fault: Fault) -> Reply:
        loop = asyncio.get_running_loop()
        ends_at = loop.time() + body.max_wait_ms / 1000
        while True:
            answers, frames = self._fetch_now(node_id, body, fault)
            left = ends_at - loop.time()
            is_news = frames or any(
                answer.error_code or answer.preferred_read_replica >= 0 for answer in answers
            )
            if is_news or left <= 0 or node_id in self.down:
                return Reply(data.FetchResponse(tuple(answers)), frames)
            assert self._changed is not None
            try:
                async with asyncio.timeout(left):
                    await self._changed.wait()
            except TimeoutError:
                continue

    def _fetch_now(self, node_id: int, body: Any, fault: Fault) -> tuple[list[Any], list[memoryview]]:
        answers: list[Any] = []
        frames: list[memoryview] = []
        room = body.max_bytes
        for entry in body.partitions:
            found = self._find(node_id, entry)
            if fault.partition_error is not None:
                answers.append(data.FetchPartitionResponse(fault.partition_error))
                continue
            if isinstance(found, int):
                answers.append(self._refusal(found, entry, data.FetchPartitionResponse))
                continue
            part = found[1]
            near = [node for node in part.followers if body.rack and self.racks.get(node) == body.rack]
            if node_id == part.leader and near and near[0] not in self.down:
                preferred = data.FetchPartitionResponse(0, part.end_offset, preferred_read_replica=near[0])
                answers.append(preferred)
                continue
            end = part.end_offset if node_id == part.leader else part.followers[node_id]
            stable = end if part.last_stable_offset is None else part.last_stable_offset
            upto = stable if body.isolation else end
            if not part.log_start_offset <= entry.fetch_offset <= part.end_offset:
                answers.append(data.FetchPartitionResponse(errors.OffsetOutOfRangeError.code))
                continue
            taken, share = b"", min(room, entry.max_bytes)
            for _, following, batch in part.batches:
                if entry.fetch_offset < following <= upto:
                    if len(taken) + len(batch) > share and (taken or frames):
                        break
                    taken += batch
            room -= len(taken)
            if taken:
                frames.append(memoryview(taken))
            facts = (0, end, stable, part.log_start_offset, int(bool(taken)))
            answers.append(
                data.FetchPartitionResponse(*facts, aborted=part.aborted if body.isolation else ())
            )
        return answers, frames

    def _list_offsets(self, node_id: int, body: Any, fault: Fault) -> data.ListOffsetsResponse:
        return data.ListOffsetsResponse(
            tuple(self._list_offset(node_id, entry, fault, body.isolation) for entry in body.partitions)
        )

    def _list_offset(self, node_id: int, entry: Any, fault: Fault, isolation: int) -> Any:
        found = self._find(node_id, entry)
        if fault.partition_error is not None:
            return data.ListOffsetsPartitionResponse(fault.partition_error)
        if isinstance(found, int):
            return data.ListOffsetsPartitionResponse(found)
        part = found[1]
        if entry.timestamp in (-1, -2):
            is_stable = isolation and part.last_stable_offset is not None
            end = part.last_stable_offset if is_stable else part.end_offset
            edge = end if entry.timestamp == -1 else part.log_start_offset
            return data.ListOffsetsPartitionResponse(0, -1, edge, part.leader_epoch)
        records = [record for record in part.records() if record.offset >= part.log_start_offset]
        if entry.timestamp == -3 and records:
            best = max(records, key=lambda record: record.timestamp)
            return data.ListOffsetsPartitionResponse(0, best.timestamp, best.offset, part.leader_epoch)
        for record in records:
            if record.timestamp >= entry.timestamp >= 0:
                return data.ListOffsetsPartitionResponse(
                    0, record.timestamp, record.offset, part.leader_epoch
                )
        return data.ListOffsetsPartitionResponse(0)

    def _do_CreateTopics(self, body: Any) -> Any:
        made = []
        for spec in body.topics:
            if spec.name in self.topics:
                made.append(control.CreatedTopic(spec.name, 36, f"{spec.name} exists"))
                continue
            count = max(spec.num_partitions, 1)
            topic = None if body.validate_only else self.create(spec.name, count, configs=dict(spec.configs))
            made.append(control.CreatedTopic(spec.name, 0, "", topic.topic_id if topic else b"", count, 1))
        return control.CreateTopicsResponse(tuple(made), self.metadata_offset)

    def _do_DeleteTopics(self, body: Any) -> Any:
        results = []
        for name in body.names:
            gone = self.topics.pop(name, None)
            results.append(control.ItemError(name, 0 if gone else 3))
        self.metadata_offset += 1
        self._news()
        return control.DeleteTopicsResponse(tuple(results), self.metadata_offset)

    def _do_CreatePartitions(self, body: Any) -> Any:
        results = []
        for growth in body.topics:
            topic = self.topics.get(growth.name)
            code = 3 if topic is None else 37 if growth.total_count <= len(topic.partitions) else 0
            if not code and not body.validate_only:
                self.grow(growth.name, growth.total_count)
            results.append(control.ItemError(growth.name, code))
        return control.CreatePartitionsResponse(tuple(results), self.metadata_offset)

    def _do_DescribeConfigs(self, body: Any) -> Any:
        results = []
        for resource in body.resources:
            topic = self.topics.get(resource.name)
            entries = (
                ()
                if topic is None
                else tuple(
                    control.ConfigEntry(name, value, 1, False, "as set" if body.include_documentation else "")
                    for name, value in sorted(topic.configs.items())
                )
            )
            results.append(control.DescribedConfigs(resource, 3 if topic is None else 0, "", entries))
        return control.DescribeConfigsResponse(tuple(results))

    def _do_IncrementalAlterConfigs(self, body: Any) -> Any:
        results = []
        for alter in body.resources:
            configs = self._configs_of(alter.resource)
            for change in () if configs is None or body.validate_only else alter.changes:
                if change.operation == 0:
                    configs[change.name] = change.value
                else:
                    configs.pop(change.name, None)
            results.append(control.ItemError(alter.resource.name, 3 if configs is None else 0))
        return control.IncrementalAlterConfigsResponse(tuple(results), self.metadata_offset)

    def _configs_of(self, resource: Any) -> Any:
        """The mutable configs of a resource; None for a missing topic."""
        if resource.resource_type == 4:
            return self.node_configs.setdefault(resource.name, {})
        topic = self.topics.get(resource.name)
        return None if topic is None else topic.configs

    def _news(self) -> None:
        if self._changed is not None:
            self._changed.set()
            self._changed = asyncio.Event()


class FakeNetwork:
    """The fake implementation of `Network`; one per client."""

    def __init__(self, cluster: FakeCluster) -> None:
        self._cluster = cluster
        self._is_closed = False

    async def request(
        self,
        address: Address,
        api: Any,
        body: Any,
        frames: Any = (),
        *,
        timeout_ms: int,
        expect_reply: bool = True,
    ) -> Reply:
        if self._is_closed:
            raise errors.NetworkError("closed")
        by_address = {known: node_id for node_id, known in self._cluster.addresses.items()}
        if address not in by_address or by_address[address] in self._cluster.down:
            raise errors.NetworkError(f"connection refused by {address}")
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                reply = await self._cluster.handle(by_address[address], api, body, frames)
        except TimeoutError:
            raise errors.RequestTimedOutError(f"{address} did not answer") from None
        return reply if expect_reply else Reply(None, ())

    def submit(self, *_args: Any, **_facts: Any) -> None:
        """Not used here: `request` waits for the latency before it sends."""

    def drop(self, address: Address) -> None:
        self._cluster.dropped.append(address)

    async def close(self) -> None:
        self._is_closed = True
