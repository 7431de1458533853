"""A Kafka listener over real sockets, with a node whose responses are scripted by the test."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from headrace.protocol.metadata import image
from headrace.protocol.model import ListenerEndpoint
from headrace.runtime.authorization.gate import Gate
from headrace.services.kafka_listener.assembly import new_kafka_listener
from headrace.services.kafka_listener.listener_io import KafkaListener
from headrace.storage_node.configs.node_config import NodeConfig
from headrace.storage_node.edge.gateway import OwnRequest
from headrace.storage_node.edge.node_quotas import NodeQuotas
from kafka_wire import answer_of, example_request, framed, request_frame

NODE = 1
TOPIC, TOPIC_ID = "t", b"t" * 16


def small_image(nodes: int = 1) -> image.MetadataImage:
    """Nodes with listeners, and a topic with one partition that the first node leads."""
    brokers = {
        node: image.BrokerRegistration(
            node,
            1,
            bytes([node]) * 16,
            "own",
            1,
            None,
            (),
            is_fenced=False,
            listeners=(ListenerEndpoint("PLAINTEXT", "host", 9_000 + node),),
        )
        for node in range(1, nodes + 1)
    }
    replicas = tuple(brokers)
    partition = image.PartitionRegistration(replicas, replicas, NODE, 3, 1)
    topic = image.TopicImage(TOPIC, TOPIC_ID, (partition,))
    return image.MetadataImage(
        cluster_id="c", offset=5, brokers=brokers, topics={TOPIC: topic}, topic_names={TOPIC_ID: TOPIC}
    )


def as_asked(node_id: int, request: OwnRequest, timeout_ms: int) -> tuple[Any, ...]:
    """A request to another node; the last item takes the response."""
    return node_id, request.api, request.body, timeout_ms, lambda body: request.answered(body, ())


class FakeHost:
    """Implements GatewayHost; requests are pending until the test answers them."""

    def __init__(self, **config: Any) -> None:
        listeners = {"listeners": "PLAINTEXT://127.0.0.1:0", "log.dirs": "/nowhere"}
        self.now = NodeConfig.of({**listeners, **{k.replace("_", "."): v for k, v in config.items()}})
        self.config = self
        self.image = small_image()
        self.node_id = NODE
        self.quotas = NodeQuotas(lambda: self.config.now, lambda: self.image)
        self.gate = Gate(None, lambda: self.image)
        self.requests: list[OwnRequest] = []
        self.arrived = asyncio.Event()
        self.asked: list[tuple[Any, ...]] = []
        self.gone: list[int] = []
        self.failures: list[BaseException] = []
        self.ports: dict[str, int] = {}

    def handle(self, request: OwnRequest) -> None:
        self.requests.append(request)
        self.arrived.set()

    async def request(self, number: int) -> OwnRequest:
        """Wait for request `number`, from 0."""
        while len(self.requests) <= number:
            self.arrived.clear()
            await self.arrived.wait()
        return self.requests[number]

    def ask(self, node_id: int, request: OwnRequest, timeout_ms: int) -> None:
        self.asked.append(as_asked(node_id, request, timeout_ms))

    def connection_gone(self, session: int) -> None:
        self.gone.append(session)

    def stored_port(self, name: str) -> int:
        return self.ports.get(name, 0)

    def store_port(self, name: str, port: int) -> None:
        self.ports[name] = port

    def fail(self, error: BaseException) -> None:
        self.failures.append(error)


class WireClient:
    """A connection that speaks the Kafka protocol."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    @classmethod
    async def to(cls, port: int) -> WireClient:
        return cls(*await asyncio.open_connection("127.0.0.1", port))

    def send(
        self, api_key: int, version: int, correlation_id: int = 7, client: str = "c", **values: Any
    ) -> None:
        body = example_request(api_key, version, **values)
        self.write(framed(request_frame(api_key, version, body, correlation_id, client)))

    def write(self, data: bytes) -> None:
        self.writer.write(data)

    async def frame(self) -> bytes:
        """Read the next response, without its length."""
        (size,) = struct.unpack(">i", await self.reader.readexactly(4))
        return await self.reader.readexactly(size)

    async def answer(self, api_key: int, version: int) -> tuple[int, Any]:
        """Read the next response; returns its correlation id and body."""
        return answer_of(api_key, version, await self.frame())

    async def ended(self) -> bytes:
        """The bytes received until the connection was closed."""
        try:
            return await self.reader.read()
        except ConnectionError:
            return b""

    def close(self) -> None:
        self.writer.transport.abort()


class ListenerRig:
    """A listener and its node."""

    def __init__(self, host: FakeHost, listener: KafkaListener, port: int) -> None:
        self.host, self.listener, self.port = host, listener, port
        self.clients: list[WireClient] = []

    async def client(self) -> WireClient:
        made = await WireClient.to(self.port)
        self.clients.append(made)
        return made


@asynccontextmanager
async def listening(**config: Any) -> AsyncIterator[ListenerRig]:
    """A running listener; at the end of the block the node must not have failed."""
    host = FakeHost(**config)
    listener = new_kafka_listener(host)
    ((_, _, port),) = listener.bind()
    await listener.start()
    rig = ListenerRig(host, listener, port)
    try:
        yield rig
    finally:
        for client in rig.clients:
            client.close()
        listener.close()
    assert host.failures == []
