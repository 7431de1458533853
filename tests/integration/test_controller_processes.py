"""Three controllers as processes of their own: kill -9 of the leader in the middle of a storm of topics."""

import asyncio
import signal
import sys
import time
from pathlib import Path
from typing import Any

import msgspec
from controller_kit import incarnation
from headrace.protocol.errors import KafkaError
from headrace.protocol.messages import control, quorum, registry
from headrace.protocol.metadata.features import OWN_RANGES
from headrace.protocol.metadata.image import MetadataImage
from headrace.protocol.metadata.replay import image_of, replay
from headrace.runtime.ports_io import reserve_ports
from headrace.storage_node.links.leader_search_io import LeaderSearch, fixed_locator

SCRIPT = str(Path(__file__).parents[1] / "fakes" / "quorum_process.py")
KEYS = (
    "controller.quorum.election.timeout.ms=500",
    "controller.quorum.fetch.timeout.ms=1500",
    "controller.quorum.election.backoff.max.ms=200",
    "broker.session.timeout.ms=60000",
)


class Three:
    """The processes."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.ports = dict(enumerate(reserve_ports(3), 1))
        self.processes: dict[int, asyncio.subprocess.Process] = {}
        self.search = LeaderSearch(tuple(fixed_locator("127.0.0.1", p) for p in self.ports.values()), 2.0)

    async def start(self, node: int) -> tuple[bool, Any]:
        """Whether its disk is blank, and how it describes itself."""
        others = ",".join(f"127.0.0.1:{port}" for port in self.ports.values())
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, SCRIPT, str(node), str(self.directory / str(node)), str(self.ports[node])),
            *(others, *KEYS),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        self.processes[node] = process
        assert process.stdout is not None
        word, is_blank, description = (await process.stdout.readline()).decode().split(" ", 2)
        assert word == "ready"
        return is_blank == "True", msgspec.json.decode(description)

    async def begin(self) -> None:
        answers = [await self.start(node) for node in self.ports]
        assert all(is_blank for is_blank, _ in answers)
        order = msgspec.json.encode([description for _, description in answers])
        stdin = self.processes[1].stdin
        assert stdin is not None
        stdin.write(b"begin " + order + b"\n")

    async def kill(self, node: int) -> None:
        process = self.processes.pop(node)
        process.kill()
        await process.wait()

    async def end(self) -> None:
        for process in self.processes.values():
            process.send_signal(signal.SIGTERM)
        codes = [await process.wait() for process in self.processes.values()]
        assert codes == [0] * len(codes)

    async def leader(self, timeout_s: float = 120) -> Any:
        """A connection to the active controller."""
        ends_at = time.monotonic() + timeout_s
        while True:
            try:
                return await self.search.find("test")
            except KafkaError:
                assert time.monotonic() < ends_at, "no controller leads"
                await asyncio.sleep(0.02)


async def ask(connection: Any, api: Any, body: Any) -> Any:
    return (await connection.request(api, body, timeout_s=60)).body


async def all_metadata(connection: Any) -> MetadataImage:
    image = MetadataImage()
    while True:
        answer = await ask(
            connection, registry.FETCH_METADATA, control.FetchMetadataRequest(1, image.offset, 0)
        )
        if answer.is_snapshot:
            image = image_of(answer.records, answer.end_offset - 1)
        elif answer.records:
            image, _ = replay(image, answer.base_offset, answer.records)
        else:
            return image


async def storm(three: Three, number: int, made: set[str], is_over: asyncio.Event) -> None:
    """Create one topic after the other at the active controller."""
    connection: Any = None
    count = 0
    while not is_over.is_set():
        count += 1
        name = f"t-{number}-{count}"
        try:
            if connection is None:
                connection = await three.search.find(f"storm-{number}")
            request = control.CreateTopicsRequest((control.NewTopicSpec(name),))
            answer = await ask(connection, registry.CREATE_TOPICS, request)
            if answer.topics[0].error_code == 0:
                made.add(name)
        except KafkaError:
            if connection is not None:
                connection.close()
            connection = None
            await asyncio.sleep(0.02)
    if connection is not None:
        connection.close()


async def test_killed_leaders_lose_no_acknowledged_topic(tmp_path: Path) -> None:
    """Each time another controller leads soon, with every acknowledged topic; the killed one returns."""
    three = Three(tmp_path)
    try:
        await three.begin()
        connection = await three.leader()
        register = control.BrokerRegistrationRequest(
            1, "", incarnation(1), "localhost", 9000, features=OWN_RANGES
        )
        epoch = (await ask(connection, registry.BROKER_REGISTRATION, register)).broker_epoch
        await ask(connection, registry.BROKER_HEARTBEAT, control.BrokerHeartbeatRequest(1, epoch, epoch))
        made: set[str] = set()
        is_over = asyncio.Event()
        clients = [asyncio.create_task(storm(three, number, made, is_over)) for number in range(3)]
        for _ in range(2):
            described = await ask(connection, registry.DESCRIBE_QUORUM, quorum.DescribeQuorumRequest())
            goal, ends_at = len(made) + 30, time.monotonic() + 120
            while len(made) < goal:
                assert time.monotonic() < ends_at, f"only {len(made)} topics"
                await asyncio.sleep(0.02)
            await three.kill(described.leader_id)
            connection.close()
            connection = await three.leader()
            await three.start(described.leader_id)
        is_over.set()
        await asyncio.gather(*clients)
        assert made <= set((await all_metadata(connection)).topics)
        connection.close()
    finally:
        await three.end()
