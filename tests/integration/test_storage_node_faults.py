"""A storage node under invalid input, floods and disk faults: it responds or refuses, and keeps serving."""

import asyncio
import errno
import os
import resource
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import node_process
import pytest
import zmq
from fake_controller import FakeController
from fake_files import FakeFiles
from headrace.protocol.errors import (
    InvalidRequestError,
    KafkaStorageError,
    NetworkError,
    ThrottlingQuotaExceededError,
    UnknownTopicOrPartitionError,
)
from headrace.protocol.messages import registry
from headrace.protocol.messages.data import FetchPartition, FetchRequest
from headrace.protocol.messages.envelope import RequestHeader
from headrace.protocol.transport.context_io import shared_context
from headrace.protocol.transport.dealer_io import Connection
from headrace.protocol.transport.wire import encode
from headrace.runtime.files.files_io import OsFiles
from node_rig import TIMEOUT_S, Client, Rig, batch, node_rig, until

# Run what follows with a bound on the size of each file; Python ignores SIGXFSZ: a write fails with EFBIG.
IN_SMALL_FILES = """
import os, resource, sys
bound = int(sys.argv[1])
resource.setrlimit(resource.RLIMIT_FSIZE, (bound, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
os.execv(sys.argv[2], sys.argv[2:])
"""


def hostile_messages(session: int) -> Iterator[list[bytes]]:
    """Invalid messages; `session` is a valid one, so some of them reach the handlers."""
    yield [b""]
    yield [b"", b""]
    yield [os.urandom(100)] * 3
    yield [b"GET / HTTP/1.1\r\n\r\n"]
    yield [encode(RequestHeader(0, 0, 1, 0)), b""]
    for api_key in (-1, 9_999, 0, 1, 2, 3, 19, 18, 62, 10_000):
        for version in (0, -1, 32_767):
            for body in (b"", b"\xc1", b"\x93", os.urandom(50), b"\xdd\xff\xff\xff\xff", b"\x91" * 5_000):
                yield [encode(RequestHeader(api_key, version, 7, session)), body]
    yield [encode(RequestHeader(0, 0, 7, session)), encode([1, 5, []]), *[b"frame"] * 5_000]


async def test_hostile_messages_delay_no_other_client(rig: Rig) -> None:
    """Garbage, unknown APIs, wrong versions, truncated bodies, thousands of frames."""
    topic_id = await rig.topic("t")
    neighbour = await rig.client()
    for number in range(4):
        victim = await rig.client()
        session = victim.connection._session
        for parts in hostile_messages(session):
            socket = shared_context().socket(zmq.DEALER)
            socket.setsockopt(zmq.LINGER, 100)
            socket.connect(f"tcp://127.0.0.1:{rig.node.port}")
            socket.send_multipart(parts)
            socket.close()
        victim.close()
        assert (await neighbour.produce(topic_id, batch(b"a"))).base_offset == number


async def test_invalid_body_on_a_valid_session_gets_an_error(rig: Rig) -> None:
    """The connection stays open."""
    client = await rig.client()
    for api in (registry.PRODUCE, registry.FETCH, registry.LIST_OFFSETS, registry.METADATA):
        for body in (b"", b"\xc1", b"\x93", encode({"a": 1}), encode([1] * 10), b"\x91" * 100_000):
            with pytest.raises(InvalidRequestError):
                await client.ask(api, body)
    topic_id = await rig.topic("t")
    assert (await client.produce(topic_id, batch(b"a"))).error_code == 0


async def test_oversized_frame_closes_its_connection_only(tmp_path: Path) -> None:
    """Larger than socket.request.max.bytes."""
    async with node_rig(tmp_path, config={"socket.request.max.bytes": 100_000}) as rig:
        topic_id = await rig.topic("t")
        neighbour, large = await rig.client(), await rig.client()
        assert large.connection.hello.max_request_bytes == 100_000
        with pytest.raises(NetworkError):
            await large.produce(topic_id, os.urandom(200_000))
        assert (await neighbour.produce(topic_id, batch(b"a"))).base_offset == 0


async def test_waiting_fetches_are_bounded(tmp_path: Path) -> None:
    """Purgatory holds its maximum, further ones are refused, and producers are not delayed."""
    async with node_rig(tmp_path, config={"purgatory.max.requests": 50}) as rig:
        topic_id = await rig.topic("t")
        entry = FetchPartition(topic_id, 0, 0, 2**31 - 1)
        body = FetchRequest(2**31 - 1, 2**31 - 1, 2**31 - 1, 0, (entry,))
        clients = [await rig.client() for _ in range(5)]
        sends = [client.connection.send(registry.FETCH, body) for client in clients for _ in range(100)]
        await until(lambda: sum(future.done() for future in sends) == 450)
        refused = [future for future in sends if future.done()]
        assert all(isinstance(future.exception(), ThrottlingQuotaExceededError) for future in refused)
        assert rig.node.status()["parked_requests"] == 50
        producer = await rig.client()
        assert (await producer.produce(topic_id, batch(b"a"))).error_code == 0
        for client in clients:
            client.close()
        await until(lambda: rig.node.status()["parked_requests"] == 0)
        for future in sends:
            if not future.cancelled():
                future.exception()


async def test_fetches_of_too_many_partitions_are_refused(rig: Rig) -> None:
    """Row 32: 100,000 partitions, and one partition named often; 20,000 unknown ones get an error each."""
    topic_id = await rig.topic("t")
    client = await rig.client()
    await client.produce(topic_id, batch(b"v" * 1_000))
    entry = FetchPartition(topic_id, 0, 0, 2**31 - 1)
    with pytest.raises(InvalidRequestError):
        await client.ask(registry.FETCH, FetchRequest(0, 1, 1_100, 0, (entry,) * 100_000))
    with pytest.raises(InvalidRequestError, match="twice"):
        await client.ask(registry.FETCH, FetchRequest(0, 1, 1_100, 0, (entry,) * 2))
    entries = tuple(FetchPartition(topic_id, index, 0, 2**31 - 1) for index in range(20_000))
    response = await client.ask(registry.FETCH, FetchRequest(0, 1, 1_100, 0, entries))
    assert len(response.frames) == 1
    errors = [partition.error_code for partition in response.body.partitions]
    assert errors == [0] + [UnknownTopicOrPartitionError.code] * 19_999


# --- disks --------------------------------------------------------------------------------------------


async def produce_until_refused(rig: Rig, topic_id: bytes) -> tuple[int, int]:
    """Produce until the first error: the number of acknowledged batches, and the error code."""
    client = await rig.client()
    acked = 0
    while True:
        answer = await client.produce(topic_id, batch(b"v" * 1_000))
        if answer.error_code:
            return acked, int(answer.error_code)
        acked += 1


@pytest.mark.parametrize("acks_from", ["async", "fsync"])
async def test_full_disk_refuses_records(tmp_path: Path, acks_from: str) -> None:
    """Scenario 29, one disk: the producer gets the error, consumers are served, the controller is notified,
    and with free space records are accepted again without a restart. Acknowledged records are there after a
    crash, too."""
    files = FakeFiles(capacity_bytes=20_000)
    async with node_rig(tmp_path, files) as rig:
        topic_id = await rig.topic("t", durability=acks_from)
        acked, code = await produce_until_refused(rig, topic_id)
        assert code == KafkaStorageError.code
        assert acked > 0
        client = await rig.client()
        assert len((await client.fetch(topic_id))[1]) == acked
        await until(lambda: rig.controller.heartbeats[-1].full_replicas == ((topic_id, 0),))
        files.capacity_bytes = None
        await until(lambda: rig.controller.heartbeats[-1].full_replicas == ())
        assert (await client.produce(topic_id, batch(b"next"))).base_offset == acked
        after = files.restart() if acks_from == "async" else files.power_loss("none")
        await rig.node.kill()
        await rig.ended()
        rig.files = after
        rig.node = rig.new_node()
        await rig.start()
        client = await rig.client()
        await until(lambda: rig.node.status()["leaders"] == 1)
        assert len((await client.fetch(topic_id))[1]) == acked + 1


async def test_one_failed_disk_of_two(tmp_path: Path) -> None:
    """Its partitions return a storage error, those of the other continue."""
    files = FakeFiles()
    async with node_rig(tmp_path, files, {"log.dirs": "/a,/b"}) as rig:
        topic_id = await rig.topic("t", partitions=2)
        files.fail("pwrite", "/a/t-", errno.EIO)
        client = await rig.client()
        codes = sorted(
            [(await client.produce(topic_id, batch(b"v"), partition=part)).error_code for part in (0, 1)]
        )
        assert codes == [0, KafkaStorageError.code]
        status = rig.node.status()
        assert [bool(log_dir["failure"]) for log_dir in status["log_dirs"]] == [True, False]
        assert status["offline_partitions"] == 1


async def test_failed_fsync_is_never_acknowledged(tmp_path: Path) -> None:
    """fdatasync fails once, on a thread: every waiting request gets the error, and the node ends."""
    files = FakeFiles()
    async with node_rig(tmp_path, files) as rig:
        topic_id = await rig.topic("t", durability="fsync")
        client = await rig.client()
        assert (await client.produce(topic_id, batch(b"a"))).error_code == 0
        files.fail("fdatasync", ".log")
        answers = await asyncio.gather(
            *(client.produce(topic_id, batch(b"v")) for _ in range(20)), return_exceptions=True
        )
        codes = {getattr(answer, "error_code", None) for answer in answers}
        assert 0 not in codes
        with pytest.raises(KafkaStorageError, match="EIO"):
            await rig.ended()


async def test_disk_error_in_a_checkpoint_ends_the_node(tmp_path: Path) -> None:
    """Without any produce request."""
    files = FakeFiles()
    config = {"log.flush.offset.checkpoint.interval.ms": 10}
    async with node_rig(tmp_path, files, config) as rig:
        files.fail("rename", "checkpoint")
        with pytest.raises(KafkaStorageError, match="EIO"):
            await rig.ended()


class HeldFiles(OsFiles):
    """Real files; syncs of files with `held` in their path block until the test releases them."""

    def __init__(self, held: str) -> None:
        super().__init__()
        self.may_go = threading.Event()
        self.has_come = threading.Event()
        self._held = held

    def open(self, path: str, *, create: bool = False) -> Any:
        file = super().open(path, create=create)
        if self._held not in path:
            return file
        return HeldFile(file, self)


class HeldFile:
    """A file whose syncs block; see HeldFiles."""

    def __init__(self, file: Any, files: HeldFiles) -> None:
        self._file, self._files = file, files

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def fdatasync(self) -> None:
        self._files.has_come.set()
        assert self._files.may_go.wait(60)
        self._file.fdatasync()


async def test_slow_disk_under_new_partitions_delays_nothing_else(tmp_path: Path) -> None:
    """The node serves its other topics, and sends its heartbeats."""
    files = HeldFiles("slow-")
    async with node_rig(tmp_path, files) as rig:
        topic_id = await rig.topic("quick")
        client = await rig.client()
        slow_id = rig.controller.create_topic("slow", 3)
        await until(files.has_come.is_set)
        beats = len(rig.controller.heartbeats)
        await until(lambda: len(rig.controller.heartbeats) > beats + 2)
        assert (await client.produce(topic_id, batch(b"v"))).error_code == 0
        assert rig.node.status()["partitions"] == 1
        files.may_go.set()
        await rig.sees(len(rig.controller.records) - 1)
        assert (await client.produce(slow_id, batch(b"v"), partition=2)).error_code == 0


async def test_node_stops_while_partitions_are_created(tmp_path: Path) -> None:
    """It waits for the disk, drops the new logs, and finds them at the next start."""
    files = HeldFiles("slow-")
    async with node_rig(tmp_path, files) as rig:
        slow_id = rig.controller.create_topic("slow", 3)
        await until(files.has_come.is_set)
        stopping = asyncio.create_task(rig.stop())
        await asyncio.sleep(0)
        files.may_go.set()
        await stopping
        rig.node = rig.new_node()
        await rig.start()
        client = await rig.client()
        assert (await client.produce(slow_id, batch(b"v"), partition=1)).base_offset == 0


async def test_process_with_a_full_disk_refuses_and_continues(tmp_path: Path) -> None:
    """Scenario 29 in a process: no file may exceed 200 kB. Records are refused, the process lives, and
    accepts records when there is space; after a kill every acknowledged record is there once."""
    controller = FakeController()
    controller.start()
    arguments = [sys.executable, node_process.__file__, str(tmp_path / "d"), str(controller.router.port)]
    process = await asyncio.create_subprocess_exec(
        *[sys.executable, "-c", IN_SMALL_FILES, "200000"],
        *arguments,
        "log.dir.reserve.bytes=100000",
        stdout=asyncio.subprocess.PIPE,
    )
    acked = 0
    try:
        assert process.stdout is not None
        port = int((await process.stdout.readline()).split()[1])
        topic_id = controller.create_topic("t")
        client = Client(await Connection.open("127.0.0.1", port, client_id="t", timeout_s=TIMEOUT_S))

        async def is_taken() -> bool:
            nonlocal acked
            answer = await client.produce(topic_id, batch(b"%d" % acked, b"v" * 10_000))
            if answer.error_code == KafkaStorageError.code:
                assert "is full" in answer.error_detail or "EFBIG" in answer.error_detail
                return False
            acked += answer.error_code == 0
            return True

        while await is_taken():
            pass
        assert acked >= 10
        assert len((await client.fetch(topic_id))[1]) == 2 * acked
        before = acked
        _, hard = resource.prlimit(process.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (hard, hard))
        while acked < before + 10:
            await is_taken()
        client.close()
    finally:
        process.kill()
        await process.wait()
    again = await asyncio.create_subprocess_exec(*arguments, stdout=asyncio.subprocess.PIPE)
    try:
        assert again.stdout is not None
        port = int((await again.stdout.readline()).split()[1])
        client = Client(await Connection.open("127.0.0.1", port, client_id="t", timeout_s=TIMEOUT_S))
        found = (await client.fetch(topic_id))[1]
        assert [value for _, value in found][::2] == [b"%d" % number for number in range(acked)]
        client.close()
    finally:
        again.kill()
        await again.wait()
        controller.close()
