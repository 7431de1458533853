"""A storage node with a scripted controller and a client, in this process and over real sockets."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from fake_controller import FakeController
from headrace.coordinators.assembly import new_coordinators
from headrace.protocol.messages import registry
from headrace.protocol.messages.data import (
    FetchPartition,
    FetchPartitionResponse,
    FetchRequest,
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ProducePartition,
    ProducePartitionResponse,
    ProduceRequest,
)
from headrace.protocol.records.codec import active_codec
from headrace.protocol.transport.dealer_io import Connection
from headrace.runtime.files.file_layer import Files
from headrace.runtime.loop_io import new_event_loop
from headrace.runtime.ports_io import reserve_ports
from headrace.storage_node.configs.node_config import NodeConfig
from headrace.storage_node.node import StorageNode
from headrace.storage_node.shell.node_io import NodeServer

TIMEOUT_S = 100.0
WALL_MS = 1_700_000_000_000


def run(scenario: Callable[[], Awaitable[Any]]) -> None:
    """Run a scenario on the event loop that servers use, with a time limit."""

    async def bounded() -> None:
        async with asyncio.timeout(TIMEOUT_S):
            await scenario()

    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(bounded())


async def until(condition: Callable[[], bool]) -> None:
    """Poll until the condition holds; `run` bounds the wait."""
    while not condition():  # noqa: ASYNC110 -- as said
        await asyncio.sleep(0.002)


def batch(*values: bytes, timestamp_ms: int = WALL_MS, key: bytes | None = None) -> bytes:
    """One record batch with these values, all under one key."""
    builder = active_codec().builder(max_bytes=1 << 30)
    for value in values:
        builder.append(timestamp_ms, key, value)
    return builder.build()


def values_of(frames: Iterable[Any]) -> list[tuple[int, bytes | None]]:
    """(offset, value) of every record in frames of whole batches."""
    found = []
    for frame in frames:
        view = memoryview(frame)
        while len(view):
            size = 12 + int.from_bytes(view[8:12], "big")
            found += [(record.offset, record.value) for record in active_codec().decode(view[:size])]
            view = view[size:]
    return found


class Client:
    """Requests over one connection."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    @classmethod
    async def to(cls, node: NodeServer) -> Client:
        return cls(await Connection.open(node.host, node.port, client_id="test", timeout_s=TIMEOUT_S))

    async def ask(self, api: Any, body: Any, frames: Iterable[Any] = ()) -> Any:
        return await self.connection.request(api, body, list(frames), timeout_s=TIMEOUT_S)

    async def produce(
        self, topic_id: bytes, data: bytes, *, partition: int = 0, acks: int = -1, timeout_ms: int = 20_000
    ) -> ProducePartitionResponse:
        body = ProduceRequest(acks, timeout_ms, (ProducePartition(topic_id, partition),))
        response = await self.ask(registry.PRODUCE, body, [data])
        return response.body.partitions[0]  # type: ignore[no-any-return]

    async def send_without_answer(self, topic_id: bytes, data: bytes) -> None:
        body = ProduceRequest(0, 1_000, (ProducePartition(topic_id, 0),))
        await self.connection.send(registry.PRODUCE, body, [data], expect_reply=False)

    async def fetch(
        self,
        topic_id: bytes,
        offset: int = 0,
        *,
        max_wait_ms: int = 0,
        min_bytes: int = 1,
        partition: int = 0,
    ) -> tuple[FetchPartitionResponse, list[tuple[int, bytes | None]]]:
        entry = FetchPartition(topic_id, partition, offset, 1 << 20)
        response = await self.ask(registry.FETCH, FetchRequest(max_wait_ms, min_bytes, 1 << 24, 0, (entry,)))
        return response.body.partitions[0], values_of(response.frames)

    async def offset_at(
        self, topic_id: bytes, timestamp: int, *, partition: int = 0
    ) -> ListOffsetsPartitionResponse:
        entry = ListOffsetsPartition(topic_id, partition, timestamp)
        response = await self.ask(registry.LIST_OFFSETS, ListOffsetsRequest(0, (entry,)))
        return response.body.partitions[0]  # type: ignore[no-any-return]

    def close(self) -> None:
        self.connection.close()


class Rig:
    """A node, its controller, and clients; `restart` and `crash` start the next process on the same disks."""

    def __init__(self, directory: Path, files: Files | None, config: dict[str, Any]) -> None:
        self.controller = FakeController()
        self.files = files
        self.config = {
            "node.id": 1,
            "log.dirs": str(directory / "d0"),
            "log.dir.reserve.bytes": 0,
            "controller.backoff.ms": 5,
            "controlled.shutdown.timeout.ms": 500,
            "metadata.fetch.max.wait.ms": 50,
        } | config
        self.clients: list[Client] = []
        if files is None:  # a fixed port, which restarts use again
            (directory / "d0").mkdir(parents=True, exist_ok=True)
            (directory / "d0" / "listener.port").write_text(f"{reserve_ports(1)[0]}\n")
        self.node = self.new_node()
        self.running: asyncio.Task[None] | None = None

    def new_node(self) -> NodeServer:
        return NodeServer(NodeConfig.of(self.config), self.controller.locate, self.files, new_coordinators)

    async def start(self) -> None:
        await self.node.start()
        self.running = asyncio.create_task(self.node.run())

    async def stop(self) -> None:
        await self.node.stop()
        await self.ended()

    async def ended(self) -> None:
        """Wait until the node's `run` ends; raises its error."""
        running, self.running = self.running, None
        if running is not None:
            await running

    async def restart(self, *, crash: bool = False) -> None:
        if crash:
            await self.node.kill()
            await self.ended()
        else:
            await self.stop()
        self.node = self.new_node()
        await self.start()

    @property
    def core(self) -> StorageNode:
        assert self.node._core is not None
        return self.node._core

    async def client(self) -> Client:
        client = await Client.to(self.node)
        self.clients.append(client)
        return client

    async def topic(self, name: str = "t", partitions: int = 1, **configs: str) -> bytes:
        """Create a topic, and wait until the node leads it."""
        values = {key.replace("_", "."): value for key, value in configs.items()}
        topic_id = self.controller.create_topic(name, partitions, node_id=1, configs=values)
        await self.sees(len(self.controller.records) - 1)
        return topic_id

    async def sees(self, offset: int) -> None:
        """Wait until the node has applied this metadata offset."""
        await until(lambda: self.node.status().get("metadata_offset", -1) >= offset)


@asynccontextmanager
async def node_rig(
    directory: Path, files: Files | None = None, config: dict[str, Any] | None = None
) -> AsyncIterator[Rig]:
    """A started rig. At the end the node is stopped if it still runs, and everything is closed."""
    rig = Rig(directory, files, config or {})
    rig.controller.start()
    try:
        await rig.start()
        yield rig
    finally:
        for client in rig.clients:
            client.close()
        if rig.running is not None:
            await rig.stop()
        rig.controller.close()
