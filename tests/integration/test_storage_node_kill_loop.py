"""A storage node that is killed at random moments under load. Scenario 25.

A real process on real files. Producers number their records and record the acknowledgements; topics are
created and deleted meanwhile; segments are tiny, so that kills often happen during a roll. At the end every
acknowledged record is unchanged at its offset, every index matches its log, and no partly deleted log is
left.
"""

import asyncio
import contextlib
import os
import random
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import node_process
from headrace.controller.config import ControllerConfig
from headrace.controller.controller_io import ControllerServer
from headrace.protocol.errors import HeadraceError
from headrace.protocol.messages import registry
from headrace.protocol.messages.control import CreateTopicsRequest, DeleteTopicsRequest, NewTopicSpec
from headrace.protocol.messages.data import MetadataRequest, ProducePartition, ProduceRequest
from headrace.protocol.model import TopicPartition
from headrace.protocol.records.codec import active_codec
from headrace.protocol.transport.dealer_io import Connection
from headrace.runtime.files.files_io import OsFiles
from headrace.runtime.loop_io import new_event_loop
from headrace.storage_node.log.config import LogConfig
from headrace.storage_node.log.dump import dump_file
from headrace.storage_node.log.log_manager import LogManager
from node_rig import until

FIRST_MS = 1_700_000_000_000
STEP_MS = 1_000  # between batches, by their timestamps; with segment.ms a few of them fill a segment
SESSION_MS = 400
FEWEST_KILLS = 3  # of a run: a slow machine takes longer for them than the run is meant to


class Node:
    """The process, its port, and whether it is meant to run."""

    def __init__(self, directory: Path, controller: ControllerServer) -> None:
        self._arguments = [sys.executable, node_process.__file__, str(directory), str(controller.port)]
        self._arguments += ["log.flush.offset.checkpoint.interval.ms=50", "controller.backoff.ms=5"]
        self.process: asyncio.subprocess.Process | None = None
        self.port = 0

    async def start(self) -> None:
        """Until it serves, or was killed on the way."""
        await self.launch()
        await self.serves()

    async def launch(self) -> None:
        """The process is there, and can be killed; it does not serve yet."""
        self.process = await asyncio.create_subprocess_exec(
            *self._arguments, stdout=asyncio.subprocess.PIPE, start_new_session=True
        )

    async def serves(self) -> None:
        assert self.process is not None
        assert self.process.stdout is not None
        line = await self.process.stdout.readline()
        if line:  # else it was killed while it started
            self.port = int(line.split()[1])

    async def has_metadata(self, offset: int) -> None:
        connection = await Connection.open("127.0.0.1", self.port, client_id="w", timeout_s=60)
        seen = -1
        while seen < offset:
            answer = await connection.request(registry.METADATA, MetadataRequest(()), timeout_s=60)
            seen = answer.body.metadata_offset
            await asyncio.sleep(0.02)
        connection.close()

    async def end(self, number: int) -> int:
        assert self.process is not None
        with contextlib.suppress(ProcessLookupError):
            self.process.send_signal(number)
        return await self.process.wait()


class Writer:
    """One partition's producer: one batch at a time, each tried once; what became of it is kept."""

    def __init__(self, topic: str, topic_id: bytes, partition: int, acks: int) -> None:
        self.name = TopicPartition(topic, partition)
        self.topic_id, self.acks = topic_id, acks
        self.acked: dict[int, int] = {}  # base offset by number
        self._number = 0

    def batch(self, number: int) -> bytes:
        """A batch of two records with partition and number in their values."""
        builder = active_codec().builder(max_bytes=1 << 20)
        for part in range(2):
            value = f"{self.name}/{number}/{part}".encode().ljust(200, b".")
            builder.append(FIRST_MS + number * STEP_MS, None, value)
        return builder.build()

    async def write(self, node: Node) -> None:
        """Send batches until cancelled; after an error the outcome of a batch is unknown."""
        entry = ProducePartition(self.topic_id, self.name.partition)
        while True:
            try:
                connection = await Connection.open("127.0.0.1", node.port, client_id="w", timeout_s=0.5)
            except HeadraceError:
                await asyncio.sleep(0.02)  # polls until the next process listens
                continue
            try:
                while True:
                    self._number += 1
                    number = self._number
                    answer = await connection.request(
                        registry.PRODUCE,
                        ProduceRequest(self.acks, 1_000, (entry,)),
                        [self.batch(number)],
                        timeout_s=1.5,
                    )
                    (found,) = answer.body.partitions
                    if found.error_code:
                        await asyncio.sleep(0.01)
                    else:
                        self.acked[number] = found.base_offset
            except HeadraceError:
                pass
            finally:
                connection.close()

    def check(self, files: OsFiles, manager: LogManager) -> None:
        """Against the log as the next process finds it."""
        log = manager.logs[self.name]
        assert log.topic_id == self.topic_id
        found: dict[int, list[bytes]] = {}
        offset = log.log_start_offset
        assert offset == 0
        numbers = []
        while offset < log.log_end_offset:
            run = log.reader.read(offset, 1 << 20, upto_offset=log.log_end_offset)
            for data in run.data:
                view = memoryview(data)
                while len(view):
                    size = 12 + int.from_bytes(view[8:12], "big")
                    records = active_codec().decode(view[:size])
                    assert [record.offset for record in records] == [offset, offset + 1]
                    found[offset] = [record.value or b"" for record in records]
                    numbers.append(int(found[offset][0].split(b"/")[1]))
                    offset += 2
                    view = view[size:]
        assert numbers == sorted(set(numbers)), "in order, each once"
        for number, base_offset in self.acked.items():
            values = [f"{self.name}/{number}/{part}".encode().ljust(200, b".") for part in range(2)]
            assert found.get(base_offset) == values, f"{self.name}: batch {number} at {base_offset}"
        for at_ms in random.Random(1).sample(sorted(self.acked), min(20, len(self.acked))):
            hit = log.reader.offset_for_timestamp(FIRST_MS + at_ms * STEP_MS)
            assert hit is not None
            assert hit[0] == self.acked[at_ms]
        for name in files.listdir(log.folder.path):
            if name.endswith((".index", ".timeindex")):
                entries = dump_file(files, f"{log.folder.path}/{name}", verify=True)
                assert not [entry.text() for entry in entries if entry.is_fault], name


async def churn(connection: Connection, chance: random.Random) -> None:
    """Topics come and go; names are used again."""
    while True:
        name = f"churn-{chance.randrange(4)}"
        await connection.request(
            registry.CREATE_TOPICS,
            CreateTopicsRequest((NewTopicSpec(name, 3, 1, configs={"segment.ms": "5"}),)),
            timeout_s=10,
        )
        await asyncio.sleep(chance.random() * 0.05)
        await connection.request(registry.DELETE_TOPICS, DeleteTopicsRequest((name,)), timeout_s=60)


@contextlib.asynccontextmanager
async def controller_in(directory: Path) -> AsyncIterator[ControllerServer]:
    config = {"metadata.log.dir": str(directory), "broker.heartbeat.interval.ms": 100}
    server = ControllerServer(ControllerConfig.of({**config, "broker.session.timeout.ms": SESSION_MS}))
    await server.start()
    running = asyncio.create_task(server.run())
    try:
        yield server
    finally:
        await server.stop()
        await running


@contextlib.asynccontextmanager
async def node_of(directory: Path, controller: ControllerServer) -> AsyncIterator[Node]:
    """It serves. No process outlives a test that failed: the loop would not close before it ends."""
    node = Node(directory / "node", controller)
    await node.start()
    try:
        yield node
    finally:
        await node.end(signal.SIGKILL)


async def steady_topics(connection: Connection) -> list[Writer]:
    """A topic of each durability, with writers of each kind of acks."""
    specs = [
        NewTopicSpec(f"steady-{kind}", 2, 1, configs={"segment.ms": str(5 * STEP_MS), "durability": kind})
        for kind in ("async", "fsync")
    ]
    answer = await connection.request(registry.CREATE_TOPICS, CreateTopicsRequest(tuple(specs)), timeout_s=60)
    assert not any(topic.error_code for topic in answer.body.topics), answer.body
    acks = {0: 1, 1: -1}
    return [
        Writer(topic.name, topic.topic_id, partition, acks[partition])
        for topic in answer.body.topics
        for partition in (0, 1)
    ]


async def kill_again_and_again(directory: Path, seconds: float, seed: int) -> tuple[int, list[Writer]]:
    """How many kills there were, and the writers with what was acknowledged; the node ended cleanly."""
    chance = random.Random(seed)
    kills = 0
    async with controller_in(directory / "controller") as controller, node_of(directory, controller) as node:
        admin = await Connection.open("127.0.0.1", controller.port, client_id="admin", timeout_s=60)
        writers = await steady_topics(admin)
        work: list[asyncio.Task[Any]] = [asyncio.create_task(writer.write(node)) for writer in writers]
        work.append(asyncio.create_task(churn(admin, chance)))
        end = time.monotonic() + seconds
        while time.monotonic() < end or kills < FEWEST_KILLS:
            await asyncio.sleep(chance.random() * 0.3)
            await node.end(signal.SIGKILL)
            kills += 1
            await node.launch()
            while chance.random() < 0.2:  # some processes do not get as far as serving
                await asyncio.sleep(0.05 + chance.random())
                await node.end(signal.SIGKILL)
                kills += 1
                await node.launch()
            await node.serves()
            assert not [task for task in work if task.done()], "a writer ended"
        counts = [len(writer.acked) for writer in writers]
        async with asyncio.timeout(300):  # the last process, too, takes what each of them sends
            await until(lambda: all(len(w.acked) > count for w, count in zip(writers, counts, strict=True)))
        for task in work:
            task.cancel()
        await asyncio.gather(*work, return_exceptions=True)
        names = tuple(f"churn-{number}" for number in range(4))
        answer = await admin.request(registry.DELETE_TOPICS, DeleteTopicsRequest(names), timeout_s=60)
        admin.close()
        await node.has_metadata(answer.body.metadata_offset)
        assert await node.end(signal.SIGTERM) == 0, "a clean end"
    return kills, writers


def check_disk(directory: Path, writers: list[Writer]) -> None:
    """What the process left, as the next one finds it."""
    files = OsFiles()
    manager = LogManager(files, [str(directory)], defaults=LogConfig(), new_uuid=lambda: os.urandom(16))
    manager.open_dirs()
    assert manager.dirs[0].was_clean
    assert manager.dirs[0].faults == []
    manager.load(0)
    try:
        assert manager.failed == {}
        # a topic that was deleted while the node was down is kept under another name
        assert all(path.startswith(f"{directory}/churn-") for path in manager.loader.stray_folders)
        for purge in manager.loader.purge_tasks():  # what the stop left to the next start
            purge()
        assert not [name for name in files.listdir(str(directory)) if name.endswith("-delete")]
        for log in manager.logs.values():
            assert log.recovery.faults == []
        for writer in writers:
            writer.check(files, manager)
        assert len(manager.logs) == len(writers)
    finally:
        manager.abandon()


def test_repeated_kills_lose_no_acknowledged_record(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    """SIGKILL under load, acks=1 and acks=all, async and fsync, while topics are created and deleted."""
    seconds = float(os.environ.get("HEADRACE_KILL_SECONDS", "7"))
    seed = int(os.environ.get("HEADRACE_KILL_SEED", "1"))
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        kills, writers = runner.run(kill_again_and_again(tmp_path, seconds, seed))
    acked = {str(writer.name): len(writer.acked) for writer in writers}
    record_property("kills", kills)
    record_property("acknowledged", str(acked))
    assert kills >= FEWEST_KILLS
    assert all(count > 0 for count in acked.values()), acked
    check_disk(tmp_path / "node", writers)
