"""Floods: clients that send without end, or never read. Other clients are served, and memory is bounded."""

import asyncio
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
import zmq
from headrace import LocalCluster
from headrace.protocol.messages import control, data, registry
from headrace.protocol.messages.envelope import ApiVersionsRequest, ApiVersionsResponse, RequestHeader
from headrace.protocol.transport.context_io import shared_context
from headrace.protocol.transport.dealer_io import Connection
from headrace.protocol.transport.wire import encode
from hostile_rig import MIB, TIMEOUT_S, Probe, attacked_cluster, rss_bytes
from node_rig import until

FORGED_ID = 77
# Bound: the limit of unread responses (see attacked_cluster) plus the allocator's overhead.
UNREAD_BYTES = 150 * MIB


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with attacked_cluster() as made:
        yield made


async def flood(probe: Probe, to: tuple[str, int], api: Any, body: Any, connections: int, each: int) -> int:
    """Send many requests and read nothing for a while; returns the number of responses."""
    opened = [await Connection.open(*to, client_id="bad", timeout_s=TIMEOUT_S) for _ in range(connections)]
    sent = [connection.send(api, body) for connection in opened for _ in range(each)]
    await probe.check()
    done, pending = await asyncio.wait(sent, timeout=0.5)
    for connection in opened:
        connection.close()
    for future in pending:
        future.add_done_callback(lambda over: over.cancelled() or over.exception())
    return sum(future.exception() is None for future in done)


async def test_flood_of_endless_fetches_is_bounded(probe: Probe, cluster: LocalCluster) -> None:
    """Row 33: fetches that can never complete delay no other client, and end with their connections."""
    wanted = data.FetchPartition(probe.topic_id, 0, 0, 2**31 - 1)
    body = data.FetchRequest(2**31 - 1, 2**31 - 1, 2**31 - 1, 0, (wanted,))
    await flood(probe, probe.node, registry.FETCH, body, 20, 200)
    async with asyncio.timeout(TIMEOUT_S):
        await until(lambda: cluster.status()["nodes"][0]["parked_requests"] == 0)


class Deaf:
    """A client that sends requests after its handshake and never reads; it uses little memory itself."""

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
        assert await asyncio.to_thread(self._socket.poll, int(TIMEOUT_S * 1000))
        answer = self._socket.recv_multipart()
        self._session = msgspec.msgpack.decode(answer[1], type=ApiVersionsResponse).session

    def ask(self, api: Any, body: Any, times: int) -> None:
        for number in range(times):
            header = RequestHeader(api.key, 0, number + 1, self._session)
            self._socket.send_multipart([encode(header), encode(body)], zmq.DONTWAIT)

    def close(self) -> None:
        self._socket.close()


def unread_bytes(cluster: LocalCluster, is_node: bool) -> int:
    """The server's own count of unread response bytes, read on its own loop."""
    cores = cluster._cores
    server: Any = cores._nodes[0] if is_node else cores._controllers[0]

    async def ask() -> int:
        return int(server._router.pending_response_bytes)

    return cluster._thread.call(ask(), TIMEOUT_S)


@pytest.mark.parametrize("kind", ["snapshots", "news", "metadata", "configs"])
async def test_unread_responses_are_bounded(probe: Probe, cluster: LocalCluster, kind: str) -> None:
    """Small requests with large responses: memory is bounded, and other clients are served."""
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
        if kind == "snapshots":  # far more than the kernel's buffers
            assert await asyncio.to_thread(unread_bytes, cluster, False) > MIB, "bodies count"
    finally:
        for client in deaf:
            client.close()
    assert growth < UNREAD_BYTES, f"{growth / MIB:.0f} MiB for unread responses"
    names = tuple(spec.name for spec in specs)
    await probe.ask(registry.DELETE_TOPICS, control.DeleteTopicsRequest(names))


async def test_expensive_decisions_do_not_delay_heartbeats(probe: Probe) -> None:
    """Hundreds of validate_only creations of ten thousand partitions, and a heartbeat between them."""
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
