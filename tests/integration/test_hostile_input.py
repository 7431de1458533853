"""Whatever arrives, the servers live on: RELIABILITY 3.3 rows 23 to 37 and 48, over real sockets.

Every api of a storage node and of the controller gets requests that are wrong in one field or one byte.
After each lot a well-behaved client must be served by the same processes, its data must be what it wrote, and
memory must not have grown.
"""

from __future__ import annotations

import asyncio
import gc
import os
import struct
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
import zmq
from crc32c import crc32c
from headrace import local
from headrace.protocol import errors
from headrace.protocol.messages import control, data, registry
from headrace.protocol.messages.envelope import ApiVersionsRequest, ApiVersionsResponse, RequestHeader
from headrace.protocol.records.codec import active_codec
from headrace.protocol.records.header import Compression
from headrace.protocol.transport.context_io import shared_context
from headrace.protocol.transport.dealer_io import Connection
from headrace.protocol.transport.wire import encode
from headrace.runtime.loop_io import new_event_loop
from hostile import mutations
from node_rig import batch, values_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from headrace import LocalCluster

TIMEOUT_S = 30.0
IN_FLIGHT = 64
MIB = 1024 * 1024
# Bound: of what one lot of a few thousand bad requests may leave behind, garbage of the allocator included.
MAX_GROWTH_BYTES = 100 * MIB
GOOD = b"a good record"
# Bound: above what a server lets unread answers take (see the cluster fixture), with room for the allocator.
UNREAD_BYTES = 150 * MIB


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    limits = {"queued_max_response_bytes": 32 * MIB}
    with local(nodes=1, broker_session_timeout_ms=10_000, **limits) as made:
        yield made


def rss_bytes() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


class Probe:
    """The well-behaved client, and the facts that must not change."""

    def __init__(self, cluster: LocalCluster) -> None:
        host, _, port = cluster.bootstrap.rpartition(":")
        self.node = (host, int(port))
        status = cluster.status()
        host, _, port = status["controller"]["endpoint"].rpartition(":")
        self.controller = (host, int(port))
        self._cluster = cluster
        self._identity = self._facts()
        self.topic_id = b""
        self._written = 0

    def _facts(self) -> tuple[Any, ...]:
        status = self._cluster.status()
        (node,) = status["nodes"]
        return node["node_id"], node["broker_epoch"], status["controller"]["controller_epoch"]

    async def ask(self, api: Any, body: Any, frames: Any = (), *, to: tuple[str, int] | None = None) -> Any:
        """Ask as every client does: what is told to slow down comes again."""
        connection = await Connection.open(*(to or self.node), client_id="good", timeout_s=TIMEOUT_S)
        try:
            async with asyncio.timeout(TIMEOUT_S):
                while True:
                    try:
                        return await connection.request(api, body, frames, timeout_s=TIMEOUT_S)
                    except errors.ThrottlingQuotaExceededError:
                        await asyncio.sleep(0.05)  # the queue of the server empties meanwhile
        finally:
            connection.close()

    async def prepare(self) -> None:
        """A topic of its own."""
        name = f"probe-{os.urandom(4).hex()}"
        spec = control.NewTopicSpec(name, 1, 1)
        answer = await self.ask(registry.CREATE_TOPICS, control.CreateTopicsRequest((spec,)))
        self.topic_id = answer.body.topics[0].topic_id

    async def check(self) -> None:
        """Produce, read everything back, ask the controller; nobody was restarted or fenced."""
        entry = data.ProducePartition(self.topic_id, 0)
        answer = await self.ask(registry.PRODUCE, data.ProduceRequest(-1, 10_000, (entry,)), [batch(GOOD)])
        assert answer.body.partitions[0].error_code == 0, answer.body
        self._written += 1
        wanted = data.FetchPartition(self.topic_id, 0, 0, 8 * MIB)
        answer = await self.ask(registry.FETCH, data.FetchRequest(0, 1, 8 * MIB, 0, (wanted,)))
        assert [value for _, value in values_of(answer.frames)] == [GOOD] * self._written
        beat = control.BrokerHeartbeatRequest(4_711, 1, 1)
        answer = await self.ask(registry.BROKER_HEARTBEAT, beat, to=self.controller)
        assert answer.body.error_code == errors.BrokerIdNotRegisteredError.code
        assert self._facts() == self._identity, "a server was restarted or fenced"


def attack(cluster: LocalCluster, scenario: Callable[[Probe], Awaitable[None]]) -> None:
    """Run a scenario between two checks of the probe, and bound what it leaves in memory."""

    async def bounded() -> None:
        async with asyncio.timeout(110):
            probe = Probe(cluster)
            await probe.prepare()
            await probe.check()
            before = rss_bytes()
            await scenario(probe)
            await probe.check()
            gc.collect()
            growth = rss_bytes() - before
            assert growth < MAX_GROWTH_BYTES, f"{growth / MIB:.0f} MiB more memory"

    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(bounded())


async def send_all(
    probe: Probe, to: tuple[str, int], api: Any, bodies: list[bytes], frames: Any = ()
) -> None:
    """Send lots of bodies, each lot on a connection of its own; answers and refusals are both fine."""
    for start in range(0, len(bodies), IN_FLIGHT):
        connection = await Connection.open(*to, client_id="bad", timeout_s=TIMEOUT_S)
        sent = []
        for body in bodies[start : start + IN_FLIGHT]:
            try:
                sent.append(connection.send(api, body, frames))
            except errors.KafkaError:
                break  # the connection was closed on us
        if sent:
            await asyncio.wait(sent, timeout=0.25)  # a fetch may have been told to wait for ever
        connection.close()
        for future in sent:
            if future.done():
                failure = future.exception()
                assert failure is None or isinstance(failure, errors.KafkaError), failure
            else:
                future.add_done_callback(lambda done: done.cancelled() or done.exception())
        del sent


def node_requests(topic_id: bytes) -> dict[Any, tuple[Any, list[bytes]]]:
    """A valid request of every api of a storage node, with its frames."""
    resource = control.ConfigResource(2, "victim")
    change = control.ConfigChange("segment.ms", 0, "1000")
    spec = control.NewTopicSpec("victim", -1, -1, (control.ReplicaAssignment(0, (1,)),), {"segment.ms": "9"})
    growth = control.PartitionGrowth("victim", 2, (control.ReplicaAssignment(1, (1,)),))
    return {
        registry.PRODUCE: (
            data.ProduceRequest(1, 1_000, (data.ProducePartition(topic_id, 0, -1),)),
            [batch(b"v")],
        ),
        registry.FETCH: (
            data.FetchRequest(10, 1, MIB, 0, (data.FetchPartition(topic_id, 0, 0, MIB, -1),)),
            [],
        ),
        registry.LIST_OFFSETS: (
            data.ListOffsetsRequest(0, (data.ListOffsetsPartition(topic_id, 0, 0, -1),)),
            [],
        ),
        registry.METADATA: (data.MetadataRequest(("victim",), (topic_id,)), []),
        registry.CREATE_TOPICS: (control.CreateTopicsRequest((spec,), 500, False), []),
        registry.DELETE_TOPICS: (control.DeleteTopicsRequest(("victim",), 500), []),
        registry.CREATE_PARTITIONS: (control.CreatePartitionsRequest((growth,), 500, False), []),
        registry.DESCRIBE_CONFIGS: (control.DescribeConfigsRequest((resource,)), []),
        registry.INCREMENTAL_ALTER_CONFIGS: (
            control.IncrementalAlterConfigsRequest((control.AlterConfigs(resource, (change,)),), False),
            [],
        ),
        registry.UNREGISTER_BROKER: (control.UnregisterBrokerRequest(4_711), []),
    }


NODE_APIS = [api.name for api in node_requests(b"")]
FORGED_ID = 77


def controller_requests(broker_epoch: int) -> dict[Any, Any]:
    """A valid request of every api that only storage nodes send, from one that does not exist."""
    return {
        registry.BROKER_REGISTRATION: control.BrokerRegistrationRequest(
            FORGED_ID, "", b"i" * 16, "host", 9, "rack", (b"d" * 16,)
        ),
        registry.BROKER_HEARTBEAT: control.BrokerHeartbeatRequest(FORGED_ID, broker_epoch, 3, False, False),
        registry.FETCH_METADATA: control.FetchMetadataRequest(FORGED_ID, 0, 10),
    }


@pytest.mark.timeout(120)
@pytest.mark.parametrize("name", NODE_APIS)
def test_a_node_survives_every_mutation(cluster: LocalCluster, name: str) -> None:
    """Each api of a storage node; those of the controller come through it."""

    async def scenario(probe: Probe) -> None:
        spec = control.NewTopicSpec("target", 1, 1)
        made = await probe.ask(registry.CREATE_TOPICS, control.CreateTopicsRequest((spec,)))
        target = made.body.topics[0].topic_id or probe.topic_id
        requests = node_requests(target if target != probe.topic_id else b"t" * 16)
        (api,) = [api for api in requests if api.name == name]
        valid, frames = requests[api]
        await send_all(probe, probe.node, api, list(mutations(valid)), frames)
        if api in registry.FORWARDED:
            await send_all(probe, probe.controller, api, list(mutations(valid, seed=1)))
        await probe.ask(registry.DELETE_TOPICS, control.DeleteTopicsRequest(("target",)))

    attack(cluster, scenario)


@pytest.mark.timeout(120)
@pytest.mark.parametrize("name", ["BrokerRegistration", "BrokerHeartbeat", "FetchMetadata"])
def test_the_controller_survives_every_mutation(cluster: LocalCluster, name: str) -> None:
    """A client that pretends to be a storage node."""

    async def scenario(probe: Probe) -> None:
        (api,) = [api for api in controller_requests(0) if api.name == name]
        await send_all(probe, probe.controller, api, list(mutations(controller_requests(5)[api])))

    attack(cluster, scenario)


# --- rows 23 to 30: one bad batch ---------------------------------------------------------------------


def record(value: bytes = b"v", *, length: int | None = None, timestamp: int = 0, offset: int = 0) -> bytes:
    """One record as in a batch; `length` lies about its size."""
    body = b"\0" + varint(timestamp) + varint(offset) + varint(-1) + varint(len(value)) + value + varint(0)
    return varint(len(body) if length is None else length) + body


def varint(number: int) -> bytes:
    left = ((number << 1) ^ (number >> 63)) & (2**64 - 1)
    out = b""
    while left >= 0x80:
        out += bytes([left & 0x7F | 0x80])
        left >>= 7
    return out + bytes([left])


def forged(
    records: bytes,
    *,
    count: int = 1,
    last: int | None = None,
    attributes: int = 0,
    magic: int = 2,
    base_ms: int = 1_700_000_000_000,
    max_ms: int | None = None,
    producer_id: int = -1,
    length: int | None = None,
    crc: int | None = None,
) -> bytes:
    """A batch that says of itself whatever is asked, with a right CRC unless another is given."""
    tail = struct.pack(
        ">hiqqqhii",
        attributes,
        count - 1 if last is None else last,
        base_ms,
        base_ms if max_ms is None else max_ms,
        producer_id,
        -1,
        -1,
        count,
    )
    tail += records
    checked = crc32c(tail) if crc is None else crc
    return struct.pack(">qiibI", 0, len(tail) + 9 if length is None else length, -1, magic, checked) + tail


def bomb(compression: Compression) -> bytes:
    """A megabyte that says it grows to a gigabyte."""
    builder = active_codec().builder(max_bytes=1 << 30, compression=compression)
    for _ in range(8):
        builder.append(1_700_000_000_000, None, bytes(100 * MIB))
    return builder.build()


R = record()
CORRUPT, INVALID = errors.CorruptMessageError, errors.InvalidRecordError
BAD_BATCHES: dict[str, tuple[bytes, tuple[type[errors.KafkaError], ...]]] = {
    "23 no bytes": (b"", (CORRUPT,)),
    "23 one byte": (b"\0", (CORRUPT,)),
    "23 length 0": (forged(R, length=0), (CORRUPT,)),
    "23 length -1": (forged(R, length=-1), (CORRUPT,)),
    "23 length 2^31-1": (forged(R, length=2**31 - 1), (CORRUPT,)),
    "23 length below a header": (forged(R, length=20), (CORRUPT, INVALID)),
    "24 wrong crc": (forged(R, crc=1), (CORRUPT,)),
    "24 count says two": (forged(R, count=2), (INVALID,)),
    "24 last offset delta": (forged(R, last=5), (INVALID,)),
    "24 count 0": (forged(b"", count=0, last=0), (INVALID,)),
    "24 count 2^31-1": (forged(R, count=2**31 - 1), (INVALID,)),
    "24 count -1": (forged(R, count=-1, last=0), (INVALID,)),
    "25 magic 0": (forged(R, magic=0), (INVALID,)),
    "25 magic 1": (forged(R, magic=1), (INVALID,)),
    "25 magic 3": (forged(R, magic=3), (INVALID,)),
    "25 two batches": (forged(R) * 2, (INVALID,)),
    "25 control batch": (forged(R, attributes=0x20), (INVALID,)),
    "25 transactional": (forged(R, attributes=0x10), (INVALID,)),
    "25 producer id": (forged(R, producer_id=7), (INVALID,)),
    "25 delete horizon": (forged(R, attributes=0x40), (INVALID,)),
    "26 record length -1": (forged(record(length=-1)), (INVALID,)),
    "26 record length 2^31": (forged(record(length=2**31)), (INVALID,)),
    "26 varint without end": (forged(b"\xff" * 20), (INVALID,)),
    "26 headers count -1": (forged(R[:-1] + varint(-1)), (INVALID,)),
    "26 headers count 2^31-1": (forged(varint(40) + R[1:-1] + varint(2**31 - 1)), (INVALID,)),
    "26 garbage behind the records": (forged(R + b"more"), (INVALID,)),
    "27 gzip of garbage": (forged(R, attributes=1), (CORRUPT, INVALID)),
    "27 snappy of garbage": (
        forged(b"\x82SNAPPY\0" + bytes(8) + b"\x7f\xff\xff\xff", attributes=2),
        (CORRUPT, INVALID),
    ),
    "27 lz4 of garbage": (forged(R, attributes=3), (CORRUPT, INVALID)),
    "27 zstd of garbage": (forged(R, attributes=4), (CORRUPT, INVALID)),
    "28 codec 5": (forged(R, attributes=5), (errors.UnsupportedCompressionTypeError,)),
    "28 codec 7": (forged(R, attributes=7), (errors.UnsupportedCompressionTypeError,)),
    "29 timestamp -2": (forged(R, base_ms=-2), (errors.InvalidTimestampError,)),
    "29 timestamp 2^63-1": (forged(R, base_ms=2**63 - 1), (errors.InvalidTimestampError,)),
    "29 timestamps overflow": (forged(record(timestamp=9), base_ms=2**63 - 1), (INVALID,)),
    "29 LogAppendTime by the client": (forged(R, attributes=8), (errors.InvalidTimestampError,)),
    "too large": (batch(bytes(2 * MIB)), (errors.MessageTooLargeError,)),
}


def test_every_bad_batch_gets_its_error(cluster: LocalCluster) -> None:
    """Each answered with its own code beside a good batch in the same request, which is taken."""

    async def scenario(probe: Probe) -> None:
        connection = await Connection.open(*probe.node, client_id="bad", timeout_s=TIMEOUT_S)
        spec = control.NewTopicSpec("batches", 1, 1)
        made = await probe.ask(registry.CREATE_TOPICS, control.CreateTopicsRequest((spec,)))
        entry = data.ProducePartition(made.body.topics[0].topic_id, 0)
        for number, (name, (bad, expected)) in enumerate(BAD_BATCHES.items()):
            body = data.ProduceRequest(1, 1_000, (entry, entry))
            answer = await connection.request(
                registry.PRODUCE, body, [bad, batch(b"good")], timeout_s=TIMEOUT_S
            )
            refused, taken = answer.body.partitions
            assert refused.error_code in [cls.code for cls in expected], (name, refused)
            assert (taken.error_code, taken.base_offset) == (0, number), (name, taken)
        connection.close()

    attack(cluster, scenario)


@pytest.mark.parametrize("compression", [c for c in Compression if c])
def test_decompression_bombs_stay_small(cluster: LocalCluster, compression: Compression) -> None:
    """Row 27: what is small on the wire and 800 MiB when opened, many times at once."""

    async def scenario(probe: Probe) -> None:
        packed = bomb(compression)
        entry = data.ProducePartition(probe.topic_id, 0)
        connection = await Connection.open(*probe.node, client_id="bad", timeout_s=TIMEOUT_S)
        body = data.ProduceRequest(1, 1_000, (entry,))
        answers = await asyncio.gather(
            *(connection.request(registry.PRODUCE, body, [packed], timeout_s=TIMEOUT_S) for _ in range(4))
        )
        codes = {answer.body.partitions[0].error_code for answer in answers}
        assert codes <= {CORRUPT.code, INVALID.code, errors.MessageTooLargeError.code}
        connection.close()

    attack(cluster, scenario)


# --- rows 11 to 13, 32 to 34 and 37: absurd but well-formed ---------------------------------------------


def test_wrong_frames_and_sessions(cluster: LocalCluster) -> None:
    """Frames that do not pair up with entries, unknown sessions, apis of others: refused, one by one."""

    async def scenario(probe: Probe) -> None:
        connection = await Connection.open(*probe.node, client_id="bad", timeout_s=TIMEOUT_S)
        entry = data.ProducePartition(probe.topic_id, 0)
        for entries, frames in (((entry,), []), ((), [batch(b"v")]), ((entry,), [batch(b"v")] * 3)):
            body = data.ProduceRequest(1, 1_000, entries)
            with pytest.raises(errors.InvalidRequestError):
                await connection.request(registry.PRODUCE, body, frames, timeout_s=TIMEOUT_S)
        body = data.ProduceRequest(2, 1_000, (entry,))
        with pytest.raises(errors.InvalidRequiredAcksError):
            await connection.request(registry.PRODUCE, body, [batch(b"v")], timeout_s=TIMEOUT_S)
        heartbeat = control.BrokerHeartbeatRequest(1, 1, 1)
        with pytest.raises(errors.UnsupportedVersionError):
            await connection.request(registry.BROKER_HEARTBEAT, heartbeat, timeout_s=TIMEOUT_S)
        connection._session += 1
        with pytest.raises(errors.NetworkError):
            await connection.request(registry.METADATA, data.MetadataRequest(()), timeout_s=TIMEOUT_S)
        connection.close()

    attack(cluster, scenario)


def test_absurd_reads(cluster: LocalCluster) -> None:
    """Rows 32 and 34: offsets, sizes, epochs and times that cannot be."""
    far = 2**63 - 1

    async def scenario(probe: Probe) -> None:
        async def fetch(offset: int, size: int = MIB, epoch: int = -1, total: int = MIB) -> int:
            wanted = data.FetchPartition(probe.topic_id, 0, offset, size, epoch)
            answer = await probe.ask(registry.FETCH, data.FetchRequest(0, 1, total, 0, (wanted,)))
            return int(answer.body.partitions[0].error_code)

        async def offset_at(timestamp: int, epoch: int = -1) -> int:
            wanted = data.ListOffsetsPartition(probe.topic_id, 0, timestamp, epoch)
            answer = await probe.ask(registry.LIST_OFFSETS, data.ListOffsetsRequest(0, (wanted,)))
            return int(answer.body.partitions[0].error_code)

        out_of_range = errors.OffsetOutOfRangeError.code
        assert [await fetch(offset) for offset in (-5, far, 2**64 - 1)] == [out_of_range] * 3
        assert [await fetch(0, size=size) for size in (0, -1, 2**31 - 1, 2**64 - 1)] == [0] * 4
        assert [await fetch(0, total=total) for total in (0, -1, 2**64 - 1)] == [0] * 3
        assert await fetch(0, epoch=far) == errors.UnknownLeaderEpochError.code
        assert [await offset_at(time) for time in (far, 2**64 - 1)] == [0, 0]
        assert [await offset_at(time) for time in (-4, -far)] == [errors.InvalidRequestError.code] * 2
        assert await offset_at(0, epoch=far) == errors.UnknownLeaderEpochError.code

    attack(cluster, scenario)


def test_a_hundred_thousand_partitions(cluster: LocalCluster) -> None:
    """Every plural request with far more than there are: refused, or an error for each."""

    async def scenario(probe: Probe) -> None:
        fetches = tuple(data.FetchPartition(probe.topic_id, index, 0, 1) for index in range(100_000))
        looks = tuple(data.ListOffsetsPartition(probe.topic_id, index, 0) for index in range(100_000))
        names = tuple(f"n{index}" for index in range(100_000))
        for api, body in (
            (registry.FETCH, data.FetchRequest(10, 1, MIB, 0, fetches)),
            (registry.LIST_OFFSETS, data.ListOffsetsRequest(0, looks)),
            (registry.METADATA, data.MetadataRequest(names)),
            (registry.DELETE_TOPICS, control.DeleteTopicsRequest(names)),
            (registry.FETCH, data.FetchRequest(10, 1, MIB, 0, (fetches[0], fetches[0]))),
            (registry.LIST_OFFSETS, data.ListOffsetsRequest(0, (looks[0], looks[0]))),
        ):
            with pytest.raises(errors.InvalidRequestError):
                await probe.ask(api, body)

    attack(cluster, scenario)


def test_row_37_topics_that_must_not_be(cluster: LocalCluster) -> None:
    """Partitions, replicas, names, configs and assignments beyond all measure; nothing is created."""
    assignment = control.ReplicaAssignment
    table: list[tuple[control.NewTopicSpec, type[errors.KafkaError]]] = [
        (control.NewTopicSpec("p", 10**6, 1), errors.InvalidPartitionsError),
        (control.NewTopicSpec("p", 2**63, 1), errors.InvalidPartitionsError),
        (control.NewTopicSpec("p", 0, 1), errors.InvalidPartitionsError),
        (control.NewTopicSpec("p", 1, 32_767), errors.InvalidReplicationFactorError),
        (control.NewTopicSpec("p", 1, 0), errors.InvalidReplicationFactorError),
        (control.NewTopicSpec("p", configs={"no.such": "1"}), errors.InvalidConfigError),
        (control.NewTopicSpec("p", configs={"segment.ms": "1e3"}), errors.InvalidConfigError),
        (control.NewTopicSpec("p", configs={"segment.ms": "9" * 10_000}), errors.InvalidConfigError),
        (control.NewTopicSpec("p", configs={"retention\nms": "1"}), errors.InvalidConfigError),
        (
            control.NewTopicSpec("p", assignments=(assignment(0, (1,)), assignment(0, (1,)))),
            errors.InvalidReplicaAssignmentError,
        ),
        (control.NewTopicSpec("p", assignments=(assignment(7, (1,)),)), errors.InvalidReplicaAssignmentError),
        (
            control.NewTopicSpec("p", assignments=(assignment(0, (99,)),)),
            errors.InvalidReplicaAssignmentError,
        ),
        (control.NewTopicSpec("p", assignments=(assignment(0, ()),)), errors.InvalidReplicaAssignmentError),
    ]
    names = ("", ".", "..", "x" * 250, "a/b", "../../etc", "nul\0", "sp ace", "ümlaut", "new\nline")
    table += [(control.NewTopicSpec(name, 1, 1), errors.InvalidTopicError) for name in names]

    async def scenario(probe: Probe) -> None:
        before = await probe.ask(registry.METADATA, data.MetadataRequest())
        for spec, expected in table:
            answer = await probe.ask(registry.CREATE_TOPICS, control.CreateTopicsRequest((spec,)))
            assert answer.body.topics[0].error_code == expected.code, (spec, answer.body)
        after = await probe.ask(registry.METADATA, data.MetadataRequest())
        assert [t.name for t in after.body.topics] == [t.name for t in before.body.topics]

    attack(cluster, scenario)


# --- floods ---------------------------------------------------------------------------------------------


async def flood(probe: Probe, to: tuple[str, int], api: Any, body: Any, connections: int, each: int) -> int:
    """Send many requests and read nothing for a while; how many were answered."""
    opened = [await Connection.open(*to, client_id="bad", timeout_s=TIMEOUT_S) for _ in range(connections)]
    sent = [connection.send(api, body) for connection in opened for _ in range(each)]
    await probe.check()
    done, pending = await asyncio.wait(sent, timeout=0.5)
    for connection in opened:
        connection.close()
    for future in pending:
        future.add_done_callback(lambda over: over.cancelled() or over.exception())
    return sum(future.exception() is None for future in done)


def test_a_flood_of_fetches_that_wait_for_ever(cluster: LocalCluster) -> None:
    """Row 33: thousands of fetches that want more than there will be; others are served, and with their
    connections they are gone."""

    async def scenario(probe: Probe) -> None:
        wanted = data.FetchPartition(probe.topic_id, 0, 0, 2**31 - 1)
        body = data.FetchRequest(2**31 - 1, 2**31 - 1, 2**31 - 1, 0, (wanted,))
        await flood(probe, probe.node, registry.FETCH, body, 20, 200)
        for _ in range(500):
            if not cluster.status()["nodes"][0]["parked_requests"]:
                break
            await asyncio.sleep(0.01)
        assert cluster.status()["nodes"][0]["parked_requests"] == 0

    attack(cluster, scenario)


class Deaf:
    """A client that shakes hands, asks and never reads; what it holds itself is next to nothing."""

    def __init__(self, to: tuple[str, int]) -> None:
        self._socket = shared_context().socket(zmq.DEALER)
        self._socket.setsockopt(zmq.LINGER, 0)
        self._socket.setsockopt(zmq.RCVHWM, 1)
        self._socket.setsockopt(zmq.RCVBUF, 4096)
        self._socket.connect(f"tcp://{to[0]}:{to[1]}")
        self._session = 0

    async def shake_hands(self) -> None:
        hello = ApiVersionsRequest("bad", "1")
        self._socket.send_multipart([encode(RequestHeader(18, 0, 0)), encode(hello)])
        while not self._socket.poll(0):  # noqa: ASYNC110 -- nothing tells
            await asyncio.sleep(0.002)
        answer = self._socket.recv_multipart()
        self._session = msgspec.msgpack.decode(answer[1], type=ApiVersionsResponse).session

    def ask(self, api: Any, body: Any, times: int) -> None:
        for number in range(times):
            header = RequestHeader(api.key, 0, number + 1, self._session)
            self._socket.send_multipart([encode(header), encode(body)], zmq.DONTWAIT)

    def close(self) -> None:
        self._socket.close()


def unread_bytes(cluster: LocalCluster, is_node: bool) -> int:
    """What the server holds for clients that do not read, by its own account, asked on its own loop."""
    cores = cluster._cores
    server: Any = cores._nodes[0] if is_node else cores._controller

    async def ask() -> int:
        return int(server._router.pending_response_bytes)

    return cluster._thread.call(ask(), TIMEOUT_S)


@pytest.mark.parametrize("kind", ["snapshots", "news", "metadata", "configs"])
def test_answers_that_nobody_reads(cluster: LocalCluster, kind: str) -> None:
    """A small question with a large answer, thousands of times: memory stays bounded while nobody reads, and
    others are served."""

    async def scenario(probe: Probe) -> None:
        specs = tuple(control.NewTopicSpec(f"many-{number}", 60, 1) for number in range(20))
        await probe.ask(registry.CREATE_TOPICS, control.CreateTopicsRequest(specs))
        resources = tuple(control.ConfigResource(2, spec.name) for spec in specs)
        to, api, body = {
            "snapshots": (probe.controller, registry.FETCH_METADATA, control.FetchMetadataRequest(77, -9, 0)),
            "news": (probe.controller, registry.FETCH_METADATA, control.FetchMetadataRequest(77, 0, 0)),
            "metadata": (probe.node, registry.METADATA, data.MetadataRequest()),
            "configs": (
                probe.controller,
                registry.DESCRIBE_CONFIGS,
                control.DescribeConfigsRequest(resources),
            ),
        }[kind]
        before = rss_bytes()
        deaf = [Deaf(to) for _ in range(20)]
        try:
            for client in deaf:
                await client.shake_hands()
            for client in deaf:
                client.ask(api, body, 400)
                await asyncio.sleep(0)
            await probe.check()
            await probe.check()
            growth = rss_bytes() - before
            if kind == "snapshots":  # far more than the kernel's buffers take
                assert await asyncio.to_thread(unread_bytes, cluster, False) > MIB, "bodies count"
        finally:
            for client in deaf:
                client.close()
        assert growth < UNREAD_BYTES, f"{growth / MIB:.0f} MiB for answers that nobody reads"
        names = tuple(spec.name for spec in specs)
        await probe.ask(registry.DELETE_TOPICS, control.DeleteTopicsRequest(names))

    attack(cluster, scenario)


def test_expensive_decisions_do_not_silence_the_others(cluster: LocalCluster) -> None:
    """Hundreds of creations of ten thousand partitions, to be checked only: a heartbeat gets its turn between
    them, long before the last is answered."""

    async def scenario(probe: Probe) -> None:
        spec = control.NewTopicSpec("huge", 9_000, 1)
        body = control.CreateTopicsRequest((spec,), 1_000, True)
        bad = await Connection.open(*probe.controller, client_id="bad", timeout_s=TIMEOUT_S)
        good = await Connection.open(*probe.controller, client_id="good", timeout_s=TIMEOUT_S)
        sent = [bad.send(registry.CREATE_TOPICS, body) for _ in range(100)]
        await asyncio.wait(sent, return_when=asyncio.FIRST_COMPLETED)
        resource = control.DescribeConfigsRequest((control.ConfigResource(2, "nothing"),))
        done = good.send(registry.FETCH_METADATA, control.FetchMetadataRequest(FORGED_ID, 0, 0))
        await done
        assert not all(future.done() for future in sent)
        await asyncio.gather(*sent)
        await good.request(registry.DESCRIBE_CONFIGS, resource, timeout_s=TIMEOUT_S)
        bad.close()
        good.close()

    attack(cluster, scenario)


# --- a client that pretends to be a storage node ----------------------------------------------------------


def test_an_impostor_cannot_take_a_nodes_place(cluster: LocalCluster) -> None:
    """An id in use, epochs out of thin air, a cluster of its own, metadata from the future."""

    async def scenario(probe: Probe) -> None:
        def ask(api: Any, body: Any) -> Awaitable[Any]:
            return probe.ask(api, body, to=probe.controller)

        def register(node_id: int, cluster_id: str = "") -> control.BrokerRegistrationRequest:
            return control.BrokerRegistrationRequest(node_id, cluster_id, os.urandom(16), "evil", 9)

        answer = await ask(registry.BROKER_REGISTRATION, register(1))
        assert answer.body.error_code == errors.DuplicateBrokerRegistrationError.code
        answer = await ask(registry.BROKER_REGISTRATION, register(1, "another cluster"))
        assert answer.body.error_code == errors.InconsistentClusterIdError.code
        for epoch in (-1, 0, 2**63 - 1):
            beat = control.BrokerHeartbeatRequest(1, epoch, 2**62, want_fence=True, want_shutdown=True)
            answer = await ask(registry.BROKER_HEARTBEAT, beat)
            assert answer.body.error_code == errors.StaleBrokerEpochError.code
        epoch = cluster.status()["nodes"][0]["broker_epoch"]
        beat = control.BrokerHeartbeatRequest(1, epoch, 2**62, want_shutdown=True)
        answer = await ask(registry.BROKER_HEARTBEAT, beat)
        assert answer.body.error_code == errors.OffsetOutOfRangeError.code
        for offset in (2**62, 2**64 - 1):
            with pytest.raises(errors.OffsetOutOfRangeError):
                await ask(registry.FETCH_METADATA, control.FetchMetadataRequest(1, offset, 0))
        answer = await ask(registry.FETCH_METADATA, control.FetchMetadataRequest(1, -(2**63), 0))
        assert answer.body.is_snapshot or answer.body.base_offset == 0

    attack(cluster, scenario)
