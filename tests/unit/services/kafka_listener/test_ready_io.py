"""Ready responses: equal to the node's, authorized for each client, dropped when the metadata changes."""

from dataclasses import replace
from typing import Any

from authorization_kit import Rights
from headrace.protocol.errors import UnknownTopicOrPartitionError
from headrace.protocol.messages.data import (
    MetadataResponse,
    PartitionMetadata,
    ProducePartitionResponse,
    ProduceResponse,
    TopicMetadata,
)
from headrace.runtime.telemetry import node_table
from headrace.runtime.telemetry.histogram import Histogram
from headrace.runtime.telemetry.samples import Samples
from headrace.services.kafka_listener.ready import MAX_ANSWERS, MAX_REQUEST_BYTES
from kafka_listener_rig import TOPIC, TOPIC_ID, ListenerRig, WireClient
from kafka_wire import example_request, framed, request_frame
from node_rig import until

PRODUCE, METADATA, API_VERSIONS = 0, 3, 18


def described(offset: int = 5, code: int = 0) -> MetadataResponse:
    """What a node says of the topic."""
    partitions = () if code else (PartitionMetadata(0, 1, 3, (1,), (1,)),)
    return MetadataResponse("c", 1, offset, (), (TopicMetadata(code, TOPIC, TOPIC_ID, False, partitions),))


async def ask_metadata(rig: ListenerRig, number: int, *, asks_node: bool, **answer: int) -> Any:
    """The Metadata request of a new client for the topic."""
    client = await rig.client()
    before = len(rig.host.requests)
    client.send(METADATA, 9, number, name=TOPIC, allow_auto_topic_creation=False)
    if asks_node:
        (await rig.host.request(before)).answered(described(**answer), ())
    correlation_id, body = await client.answer(METADATA, 9)
    assert correlation_id == number
    assert len(rig.host.requests) == before + asks_node
    return body


async def test_a_ready_response_serves_many_clients(rig: ListenerRig) -> None:
    """Until the metadata changes; each has its own correlation id."""
    first = await ask_metadata(rig, 1, asks_node=True)
    assert await ask_metadata(rig, -2, asks_node=False) == first
    rig.host.image = replace(rig.host.image, offset=6)
    await ask_metadata(rig, 3, asks_node=True, offset=6)
    await ask_metadata(rig, 4, asks_node=False)
    samples = Samples()
    samples.set(node_table.REQUESTS, 2, "Metadata")  # of the node's meter
    rig.listener.measure(samples)
    assert samples.get(node_table.REQUESTS, "Metadata") == 4
    times = samples.get(node_table.TOTAL_TIME, "Metadata")
    assert isinstance(times, Histogram)
    assert (times.count, times.total) == (2, 0)
    assert samples.get(node_table.REQUESTS, "ApiVersions") is None


async def test_responses_that_may_change_are_not_kept(rig: ListenerRig) -> None:
    """Of unknown topics, which may be created, and of older metadata."""
    for number in range(2):
        await ask_metadata(rig, number, asks_node=True, code=UnknownTopicOrPartitionError.code)
    for number in range(2):
        await ask_metadata(rig, number, asks_node=True, offset=4)


async def test_a_client_without_a_software_name_gets_none(rig: ListenerRig) -> None:
    """ApiVersions of an old version, before or after one with a name."""
    first, second = await rig.client(), await rig.client()
    first.send(API_VERSIONS, 3, client_software_name="x")
    await first.answer(API_VERSIONS, 3)
    for client in (first, second):
        client.send(API_VERSIONS, 0)
        await client.answer(API_VERSIONS, 0)
    names = [connection.peer.software[0] for connection in rig.listener._connections]
    assert sorted(names) == ["unknown", "x"]


async def test_each_connection_has_its_own_software_name(rig: ListenerRig) -> None:
    """That of its ApiVersions request."""
    clients = [await rig.client() for _ in range(3)]
    for number, client in enumerate(clients):
        client.send(API_VERSIONS, 3, number, client_software_name=f"x{min(number, 1)}")
        await client.answer(API_VERSIONS, 3)
        client.send(METADATA, 9, number, name=TOPIC)
        if not number:
            (await rig.host.request(0)).answered(described(), ())
        await client.answer(METADATA, 9)
    assert len(rig.host.requests) == 1
    peers = sorted((each.peer for each in rig.listener._connections), key=lambda peer: peer.session)
    assert sorted(peer.software[0] for peer in peers) == ["x0", "x1", "x1"]
    assert [peer.client_id for peer in peers] == ["c"] * 3


async def test_metadata_is_authorized_for_each_client(rig: ListenerRig) -> None:
    """It has what the client may see."""
    rig.host.gate.authorizer = Rights()
    for number in range(2):
        await ask_metadata(rig, number, asks_node=True)
    assert len(rig.listener.ready) == 0


async def test_clients_with_quotas_get_no_ready_response(rig: ListenerRig) -> None:
    """Their request time is measured."""
    await ask_metadata(rig, 1, asks_node=True)
    quotas = {(("client-id", None),): {"request_percentage": 1e9}}
    rig.host.image = replace(rig.host.image, client_quotas=quotas)
    for number in range(2):
        await ask_metadata(rig, number, asks_node=True)
    assert rig.listener.throttle.status()["meters"] == 1


async def test_a_ready_response_waits_for_earlier_requests(rig: ListenerRig) -> None:
    """A Produce before it is answered first."""
    await ask_metadata(rig, 1, asks_node=True)
    client = await rig.client()
    client.send(PRODUCE, 9, 5, name=TOPIC, index=0, acks=1, transactional_id=None)
    produce = await rig.host.request(1)
    client.send(METADATA, 9, 6, name=TOPIC, allow_auto_topic_creation=False)
    await until(lambda: any(each._waiting for each in rig.listener._connections))
    produce.answered(ProduceResponse((ProducePartitionResponse(0, 1),)), ())
    assert (await client.answer(PRODUCE, 9))[0] == 5
    (await rig.host.request(2)).answered(described(), ())
    assert (await client.answer(METADATA, 9))[0] == 6


async def test_ready_responses_are_bounded(rig: ListenerRig) -> None:
    """By their number and by the size of one."""

    async def versions(client: WireClient, name: str) -> None:
        client.send(API_VERSIONS, 3, client_software_name=name)
        await client.answer(API_VERSIONS, 3)

    client = await rig.client()
    await versions(client, "x" * MAX_REQUEST_BYTES)
    assert len(rig.listener.ready) == 0
    for number in range(MAX_ANSWERS + 5):
        await versions(client, f"x{number}")
    assert len(rig.listener.ready) == MAX_ANSWERS


async def test_a_request_in_pieces_gets_no_ready_response_early(rig: ListenerRig) -> None:
    """It may end in the middle of a read."""
    client = await rig.client()
    body = example_request(API_VERSIONS, 3, client_software_name="x")
    data = b"".join(framed(request_frame(API_VERSIONS, 3, body, number)) for number in range(4))
    for start in range(0, len(data), 7):
        client.write(data[start : start + 7])
        await client.writer.drain()
    for number in range(4):
        assert (await client.answer(API_VERSIONS, 3))[0] == number
