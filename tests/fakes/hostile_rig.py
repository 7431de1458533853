"""Attacks on a running cluster: a probe client checks it before and after, and memory growth is bounded."""

import asyncio
import contextlib
import gc
import os
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

from headrace import LocalCluster, local
from headrace.protocol import errors
from headrace.protocol.messages import control, data, registry
from headrace.protocol.transport.dealer_io import Connection
from headrace.protocol.transport.security import NO_SECURITY, ConnectionSecurity
from kafka_listener_rig import WireClient
from kafka_wire import example_request, framed, request_frame
from node_rig import batch, values_of

TIMEOUT_S = 100.0
BACKOFF_S = 0.05
IN_FLIGHT = 64
MIB = 1024 * 1024
# Bound: the memory growth after a few thousand bad requests, with the allocator's fragmentation.
MAX_GROWTH_BYTES = 100 * MIB
GOOD = b"a good record"


@contextlib.contextmanager
def attacked_cluster(nodes: int = 1, **more: int) -> Iterator[LocalCluster]:
    """Nodes with both planes, whose unread responses may take 32 MiB; `more` keys of their configuration."""
    limits = {"queued_max_response_bytes": 32 * MIB, **more}
    listeners = "PLAINTEXT://127.0.0.1:0"
    with local(nodes=nodes, broker_session_timeout_ms=10_000, listeners=listeners, **limits) as made:
        yield made


def rss_bytes() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


class Probe:
    """A client that sends valid requests, and the identities of the servers, which must not change."""

    def __init__(self, cluster: LocalCluster, security: ConnectionSecurity = NO_SECURITY) -> None:
        """`security`: of native connections; then the controllers, which let servers in alone, are not
        queried."""
        self._security = security
        nodes = cluster.status()["nodes"]
        addresses = [_address(node["kafka"]["listeners"]["PLAINTEXT"]) for node in nodes]
        self.kafka, self.kafka_ports = addresses[0], [port for _, port in addresses]
        self.node = _address(cluster.bootstrap.split(",")[0])
        self.controller = _address(cluster.status()["controller"]["endpoint"])
        self._cluster = cluster
        self._identity = self._facts()
        self.topic, self.topic_id = f"probe-{os.urandom(4).hex()}", b""
        self._written = 0

    def _facts(self) -> tuple[Any, ...]:
        status = self._cluster.status()
        nodes = [(node["node_id"], node["broker_epoch"]) for node in status["nodes"]]
        return nodes, status["controller"]["controller_epoch"]

    async def ask(self, api: Any, body: Any, frames: Any = (), *, to: tuple[str, int] | None = None) -> Any:
        """Send a request, and retry after a throttle error."""
        connection = await Connection.open(
            *(to or self.node), client_id="good", timeout_s=TIMEOUT_S, security=self._security
        )
        try:
            async with asyncio.timeout(TIMEOUT_S):
                while True:
                    try:
                        return await connection.request(api, body, frames, timeout_s=TIMEOUT_S)
                    except errors.ThrottlingQuotaExceededError:
                        await asyncio.sleep(BACKOFF_S)
        finally:
            connection.close()

    async def ask_kafka(self, api_key: int, version: int, **values: Any) -> Any:
        """Send one Kafka request with these field values."""
        return await self.send_kafka(api_key, version, example_request(api_key, version, **values))

    async def send_kafka(self, api_key: int, version: int, body: Any) -> Any:
        """The response to a request on a new connection."""
        client = await WireClient.to(self.kafka[1])
        try:
            async with asyncio.timeout(TIMEOUT_S):
                client.write(framed(request_frame(api_key, version, body)))
                return (await client.answer(api_key, version))[1]
        finally:
            client.close()

    def spec(self, topic: str) -> control.NewTopicSpec:
        """A topic with one partition on the probe's node; the records' timestamps are long ago."""
        (node_id, _), *_ = self._identity[0]
        where = (control.ReplicaAssignment(0, (node_id,)),)
        return control.NewTopicSpec(topic, assignments=where, configs={"retention.ms": "-1"})

    async def prepare(self) -> None:
        """Create the probe's topic."""
        answer = await self.ask(registry.CREATE_TOPICS, control.CreateTopicsRequest((self.spec(self.topic),)))
        self.topic_id = answer.body.topics[0].topic_id

    async def check(self) -> None:
        """Produce and consume over both protocols and query the controller; no node may have restarted or be
        fenced."""
        entry = data.ProducePartition(self.topic_id, 0)
        asked = data.ProduceRequest(-1, 10_000, (entry,))
        async with asyncio.timeout(TIMEOUT_S):
            while True:
                answer = await self.ask(registry.PRODUCE, asked, [batch(GOOD)])
                if answer.body.partitions[0].error_code != errors.UnknownTopicIdError.code:
                    break
                # retried: the node may not have the topic's metadata yet
                await asyncio.sleep(BACKOFF_S)
        assert answer.body.partitions[0].error_code == 0, answer.body
        self._written += 1
        wanted = data.FetchPartition(self.topic_id, 0, 0, 8 * MIB)
        answer = await self.ask(registry.FETCH, data.FetchRequest(0, 1, 8 * MIB, 0, (wanted,)))
        assert [value for _, value in values_of(answer.frames)] == [GOOD] * self._written
        await self._check_kafka()
        if self._security is NO_SECURITY:
            beat = control.BrokerHeartbeatRequest(4_711, 1, 1)
            answer = await self.ask(registry.BROKER_HEARTBEAT, beat, to=self.controller)
            assert answer.body.error_code == errors.BrokerIdNotRegisteredError.code
        assert self._facts() == self._identity, "a server was restarted or fenced"

    async def _check_kafka(self) -> None:
        """Produce and fetch with the Kafka protocol."""
        wanted = {"name": self.topic, "index": 0, "acks": -1, "transactional_id": None}
        answer = await self.ask_kafka(0, 9, records=batch(GOOD), **wanted)
        assert int(answer.responses[0].partition_responses[0].error_code) == 0, answer
        self._written += 1
        fetch = {"session_epoch": -1, "isolation_level": 0, "fetch_offset": 0, "current_leader_epoch": -1}
        limits = {"max_bytes": 8 * MIB, "partition_max_bytes": 8 * MIB}
        answer = await self.ask_kafka(1, 11, topic=self.topic, partition=0, **fetch, **limits)
        (partition,) = answer.responses[0].partitions
        assert [value for _, value in values_of([partition.records])] == [GOOD] * self._written


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    return host, int(port)


@contextlib.asynccontextmanager
async def attack(
    cluster: LocalCluster, new_probe: Callable[[LocalCluster], Probe] = Probe
) -> AsyncIterator[Probe]:
    """Run the probe's check before and after the block, and bound the memory growth in between."""
    probe = new_probe(cluster)
    await probe.prepare()
    await probe.check()
    before = rss_bytes()
    yield probe
    await probe.check()
    gc.collect()
    growth = rss_bytes() - before
    assert growth < MAX_GROWTH_BYTES, f"{growth / MIB:.0f} MiB more memory"


async def send_all(
    probe: Probe, to: tuple[str, int], api: Any, bodies: list[bytes], frames: Any = ()
) -> None:
    """Send groups of bodies, each group on a new connection; both responses and errors are valid."""
    for start in range(0, len(bodies), IN_FLIGHT):
        connection = await Connection.open(*to, client_id="bad", timeout_s=TIMEOUT_S)
        sent = []
        for body in bodies[start : start + IN_FLIGHT]:
            try:
                sent.append(connection.send(api, body, frames))
            except errors.KafkaError:
                break  # the server closed the connection
        if sent:
            await asyncio.wait(sent, timeout=0.25)  # a fetch may wait forever
        connection.close()
        for future in sent:
            if future.done():
                failure = future.exception()
                assert failure is None or isinstance(failure, errors.KafkaError), failure
            else:
                future.add_done_callback(lambda done: done.cancelled() or done.exception())
        del sent
