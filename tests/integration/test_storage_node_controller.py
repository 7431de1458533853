"""A storage node with the real controller: they agree about registration, fencing, topics and shutdown."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from headrace.controller.config import ControllerConfig
from headrace.controller.controller_io import ControllerServer
from headrace.protocol.messages import registry
from headrace.protocol.messages.control import (
    AlterConfigs,
    ConfigChange,
    ConfigResource,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    IncrementalAlterConfigsRequest,
    NewTopicSpec,
)
from headrace.protocol.messages.data import MetadataRequest
from headrace.storage_node.config import NodeConfig
from headrace.storage_node.node_io import NodeServer
from node_rig import Client, batch, run, until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path


class Cluster:
    """One controller and one node, each with its run task."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.controller = self.new_controller()
        self.node = self.new_node()
        self.tasks: dict[Any, asyncio.Task[None]] = {}

    def new_controller(self) -> ControllerServer:
        return ControllerServer(ControllerConfig.of({"metadata.log.dir": str(self.directory / "c")}))

    def new_node(self) -> NodeServer:
        config = NodeConfig.of({"log.dirs": str(self.directory / "n"), "controller.backoff.ms": 5})
        return NodeServer(config, self.locate)

    async def locate(self) -> tuple[str, int]:
        return self.controller.host, self.controller.port

    async def start(self, server: Any) -> None:
        await server.start()
        self.tasks[server] = asyncio.create_task(server.run())

    async def stop(self, server: Any) -> None:
        await server.stop()
        await self.tasks.pop(server)


@asynccontextmanager
async def cluster(directory: Path) -> AsyncIterator[Cluster]:
    made = Cluster(directory)
    await made.start(made.controller)
    try:
        await made.start(made.node)
        yield made
    finally:
        for server in list(made.tasks)[::-1]:
            await made.stop(server)


async def create(client: Client, name: str) -> bytes:
    answer = (await client.ask(registry.CREATE_TOPICS, CreateTopicsRequest((NewTopicSpec(name, 2),)))).body
    assert answer.topics[0].error_code == 0, answer
    return answer.topics[0].topic_id  # type: ignore[no-any-return]


def test_the_life_of_a_topic(tmp_path: Path) -> None:
    """Create, produce, alter a config live, delete, create again: each step is visible in its answer."""

    async def scenario() -> None:
        async with cluster(tmp_path) as made:
            client = await Client.to(made.node)
            topic_id = await create(client, "t")
            assert (await client.produce(topic_id, batch(b"old"), partition=1)).error_code == 0
            change = AlterConfigs(ConfigResource(2, "t"), (ConfigChange("max.message.bytes", 0, "100"),))
            await client.ask(registry.INCREMENTAL_ALTER_CONFIGS, IncrementalAlterConfigsRequest((change,)))
            assert (await client.produce(topic_id, batch(b"v" * 200), partition=1)).error_code == 10
            await client.ask(registry.DELETE_TOPICS, DeleteTopicsRequest(("t",)))
            assert (await client.produce(topic_id, batch(b"x"), partition=1)).error_code == 100
            again = await create(client, "t")
            assert (await client.fetch(again, partition=1))[1] == []
            assert (await client.produce(again, batch(b"v" * 200), partition=1)).base_offset == 0
            client.close()

    run(scenario)


def test_restarts_of_both_lose_nothing(tmp_path: Path) -> None:
    """The controller is restarted under a running node, then the node crashes and comes back."""

    async def scenario() -> None:
        async with cluster(tmp_path) as made:
            client = await Client.to(made.node)
            topic_id = await create(client, "t")
            await client.produce(topic_id, batch(b"a"))
            await made.stop(made.controller)
            assert (await client.produce(topic_id, batch(b"b"))).error_code == 0
            made.controller = made.new_controller()
            await made.start(made.controller)
            await create(client, "u")
            client.close()
            node_id = made.node.node_id
            await made.node.kill()
            await made.tasks.pop(made.node)
            made.node = made.new_node()
            await made.start(made.node)
            assert made.node.node_id == node_id
            await until(lambda: made.node.status()["leaders"] == 4)
            client = await Client.to(made.node)
            assert (await client.fetch(topic_id))[1] == [(0, b"a"), (1, b"b")]
            client.close()

    run(scenario)


def test_a_stopped_node_leads_nothing(tmp_path: Path) -> None:
    """Controlled shutdown: the controller has taken the leadership away before the node is gone."""

    async def scenario() -> None:
        async with cluster(tmp_path) as made:
            client = await Client.to(made.node)
            await create(client, "t")
            metadata = (await client.ask(registry.METADATA, MetadataRequest(("t",)))).body
            client.close()
            await made.stop(made.node)
            made.node = made.new_node()
            await made.start(made.node)
            await until(lambda: made.node.status()["leaders"] == 2)
            client = await Client.to(made.node)
            metadata = (await client.ask(registry.METADATA, MetadataRequest(("t",)))).body
            assert all(partition.leader_epoch >= 2 for partition in metadata.topics[0].partitions)
            client.close()

    run(scenario)
