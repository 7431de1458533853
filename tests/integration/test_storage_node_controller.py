"""A storage node with the real controller: registration, fencing, topics and shutdown."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from headrace.controller.config import ControllerConfig
from headrace.controller.controller_io import ControllerServer
from headrace.protocol.messages import control, registry
from headrace.protocol.messages.data import MetadataRequest
from headrace.protocol.metadata.image import BROKER_RESOURCE
from headrace.services.cli.main import run as headrace
from headrace.storage_node.configs.node_config import NodeConfig
from headrace.storage_node.shell.node_io import NodeServer
from node_rig import Client, batch, until


class Cluster:
    """One controller and one node, each with its run task."""

    def __init__(self, directory: Path, log_dirs: tuple[str, ...] = ("n",)) -> None:
        self.directory, self.log_dirs = directory, log_dirs
        self.controller = self.new_controller()
        self.node = self.new_node()
        self.tasks: dict[Any, asyncio.Task[None]] = {}

    def new_controller(self) -> ControllerServer:
        return ControllerServer(ControllerConfig.of({"metadata.log.dir": str(self.directory / "c")}))

    def new_node(self) -> NodeServer:
        dirs = ",".join(str(self.directory / name) for name in self.log_dirs)
        config = NodeConfig.of({"log.dirs": dirs, "controller.backoff.ms": 5})
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
async def cluster(directory: Path, *log_dirs: str) -> AsyncIterator[Cluster]:
    made = Cluster(directory, log_dirs or ("n",))
    await made.start(made.controller)
    try:
        await made.start(made.node)
        yield made
    finally:
        for server in list(made.tasks)[::-1]:
            await made.stop(server)


@pytest.fixture
def made(tmp_path: Path) -> AbstractAsyncContextManager[Cluster]:
    return cluster(tmp_path)


async def create(client: Client, name: str) -> bytes:
    answer = (
        await client.ask(
            registry.CREATE_TOPICS, control.CreateTopicsRequest((control.NewTopicSpec(name, 2),))
        )
    ).body
    assert answer.topics[0].error_code == 0, answer
    return answer.topics[0].topic_id  # type: ignore[no-any-return]


async def test_topic_is_created_altered_deleted_and_recreated(made: Cluster) -> None:
    """Each change is visible after its response."""
    client = await Client.to(made.node)
    topic_id = await create(client, "t")
    assert (await client.produce(topic_id, batch(b"old"), partition=1)).error_code == 0
    change = control.AlterConfigs(
        control.ConfigResource(2, "t"), (control.ConfigChange("max.message.bytes", 0, "100"),)
    )
    await client.ask(registry.INCREMENTAL_ALTER_CONFIGS, control.IncrementalAlterConfigsRequest((change,)))
    assert (await client.produce(topic_id, batch(b"v" * 200), partition=1)).error_code == 10
    await client.ask(registry.DELETE_TOPICS, control.DeleteTopicsRequest(("t",)))
    assert (await client.produce(topic_id, batch(b"x"), partition=1)).error_code == 100
    again = await create(client, "t")
    assert (await client.fetch(again, partition=1))[1] == []
    assert (await client.produce(again, batch(b"v" * 200), partition=1)).base_offset == 0
    client.close()


async def test_restarts_of_node_and_controller_lose_nothing(made: Cluster) -> None:
    """The controller restarts under a running node, then the node crashes and restarts."""
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


async def test_stopped_node_leads_nothing(made: Cluster) -> None:
    """Controlled shutdown: its partitions have no leader before the node ends."""
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


async def test_replica_moves_between_dirs_under_load(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    """By the command line, and over a restart; cordoned dirs get no replicas."""

    async def shell(made: Cluster, *arguments: str, code: int = 0) -> Any:
        line = ["-b", f"127.0.0.1:{made.node.port}", *arguments, "-o", "json"]
        assert await asyncio.to_thread(headrace, line) == code
        return json.loads(capfdbinary.readouterr().out or b"null")

    async with cluster(tmp_path, "a", "b") as made:
        client = await Client.to(made.node)
        topic_id = await create(client, "t")
        sent, node_id = 0, str(made.node.node_id)

        async def produce() -> None:
            nonlocal sent
            answer = await client.produce(topic_id, batch(b"%d" % sent, b"v" * 10_000))
            assert answer.error_code == 0, answer
            sent += 1

        for _ in range(300):
            await produce()
        home = next(name for name in ("a", "b") if (tmp_path / name / "t-0").is_dir())
        other = "b" if home == "a" else "a"
        target = str(tmp_path / other)
        moved = await shell(made, "partition", "move-dir", target, "--node", node_id, "-t", "t", "-p", "0")
        assert moved == [{"topic": "t", "partition": 0, "node": int(node_id), "log_dir": target}]
        while not (tmp_path / other / "t-0").is_dir():
            await produce()
        await produce()
        rows = await shell(made, "log", "dirs", "-t", "t")
        assert {row["log_dir"]: row["partition"] for row in rows if row["partition"] == 0} == {target: 0}
        dirs = await shell(made, "log", "dirs", "--node", node_id)
        assert [row["state"] for row in dirs] == ["online", "online"]
        await shell(made, "partition", "move-dir", "/none", "--node", node_id, "-t", "t", "-p", "0", code=1)
        cordon = control.ConfigChange("cordoned.log.dirs", 0, target)
        altered = control.AlterConfigs(control.ConfigResource(BROKER_RESOURCE, node_id), (cordon,))
        answer = await client.ask(
            registry.INCREMENTAL_ALTER_CONFIGS, control.IncrementalAlterConfigsRequest((altered,))
        )
        assert answer.body.results[0].error_code == 0, answer.body
        await until(lambda: made.node._manager.placement.cordoned == {target})
        await create(client, "u")
        await until(lambda: (tmp_path / home / "u-1").is_dir())
        assert not (tmp_path / other / "u-0").is_dir()
        client.close()
        await made.stop(made.node)
        dump = ["log", "dump", "--faults", target, str(tmp_path / home)]
        assert await asyncio.to_thread(headrace, dump) == 0
        assert capfdbinary.readouterr().out == b""
        made.node = made.new_node()
        await made.start(made.node)
        client = await Client.to(made.node)
        found: list[bytes | None] = []
        while len(found) < 2 * sent:
            found += [value for _, value in (await client.fetch(topic_id, len(found)))[1]]
        assert found[::2] == [b"%d" % number for number in range(sent)]
        client.close()
