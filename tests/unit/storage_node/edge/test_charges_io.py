"""Client quotas on the node's own listener: throttle times and muted connections."""

from dataclasses import replace
from typing import Any

import pytest
from core_rig import FakeReplies
from headrace.protocol.errors import InvalidRequestError, KafkaError, ThrottlingQuotaExceededError
from headrace.protocol.messages import data, registry
from headrace.protocol.messages.control import CreateTopicsResponse
from headrace.protocol.messages.quotas import DescribeClientQuotasRequest
from headrace.protocol.metadata.image import BrokerRegistration, MetadataImage
from headrace.protocol.security.identity import Identity
from headrace.protocol.security.principals import user
from headrace.protocol.transport.peers import Peer, Request
from headrace.runtime.clock_io import monotonic_ms
from headrace.storage_node.configs.node_config import NodeConfig
from headrace.storage_node.edge.charges_io import OwnCharges
from headrace.storage_node.edge.node_quotas import NodeQuotas
from node_rig import until

ALL = (("client-id", None),)
PRODUCED = data.ProduceResponse((data.ProducePartitionResponse(0, 1),))
FETCHED = data.FetchResponse((data.FetchPartitionResponse(0, 1, 1, 0, 1),))
MIB = 1024 * 1024
CONFIG = NodeConfig.of({"log.dirs": "/d", "quota.window.num": 2, "queued.max.request.bytes": 4 * MIB})


class Own(FakeReplies):
    """The listener; records the responses in order."""

    def __init__(self) -> None:
        self.answered: list[Any] = []

    def reply(self, request: Any, body: Any, frames: Any = ()) -> None:
        self.answered.append(request)

    def reply_error(self, request: Any, error: KafkaError) -> None:
        self.answered.append((request, error))

    def no_reply(self, request: Any) -> None:
        self.answered.append(request)


class Rig:
    """A node that answers at once, by default."""

    def __init__(self, **quotas: float) -> None:
        broker = BrokerRegistration(7, 1, b"i" * 16, "h", 1, None, (), False)
        held = {ALL: quotas} if quotas else {}
        self.image = replace(MetadataImage(), brokers={7: broker}, client_quotas=held)
        self.own, self.handled = Own(), list[Request]()
        self.failures: list[BaseException] = []
        self.refusal: Exception | None = None
        self.frames: list[bytes] = []
        self.peer = Peer(key=b"k", session=5, last_seen_ms=0, address="a", descriptor=-1)
        self.quotas = NodeQuotas(lambda: CONFIG, lambda: self.image)
        self.charges = OwnCharges(
            self.own, self.quotas, lambda: self.image, self.handle, self.failures.append
        )

    def handle(self, request: Request) -> None:
        self.handled.append(request)
        if self.refusal is not None:
            raise self.refusal
        if request.api is registry.PRODUCE and request.body.acks == 0:
            self.charges.no_reply(request)
        else:
            self.charges.reply(request, FETCHED if request.api is registry.FETCH else PRODUCED, self.frames)

    def ask(self, api: Any, body: Any, frame: bytes = b"", client_id: str = "c") -> Request:
        self.peer.client_id = client_id
        request = Request(self.peer, api, 1, body, b"", [memoryview(frame)], queued_bytes=len(frame))
        self.charges.take(request)
        return request

    def gone(self) -> None:
        self.peer.is_connected = False
        self.charges.peer_gone(self.peer)

    def produce(self, size: int, acks: int = 1, **client: str) -> Request:
        return self.ask(registry.PRODUCE, data.ProduceRequest(acks, 1_000, ()), bytes(size), **client)

    def fetch(self, replica_id: int = -1, **client: str) -> Request:
        body = data.FetchRequest(0, 1, 1 << 20, 0, (), replica_id=replica_id)
        return self.ask(registry.FETCH, body, **client)


def test_without_quotas_nothing_is_counted() -> None:
    """And no client is throttled."""
    rig = Rig()
    assert rig.produce(1 << 20).throttle_ms == 0
    assert len(rig.quotas.meters) == 0


@pytest.mark.parametrize("acks", [1, 0])
async def test_a_producer_above_its_quota_is_muted(acks: int) -> None:
    """Its response has the throttle time; its next requests run in order after the wait."""
    rig = Rig(producer_byte_rate=100_000.0)
    assert rig.produce(90_000, acks).throttle_ms == 0
    response = rig.produce(30_000, acks)
    assert 0 < response.throttle_ms < 1_000
    late = [rig.produce(1, acks=1), rig.fetch()]
    assert len(rig.handled) == 2
    assert rig.quotas.status()["throttled"] == {"producer_byte_rate": 1}
    await until(lambda: len(rig.own.answered) == 4)
    assert rig.handled[2:] == late


async def test_a_quota_of_a_user_is_that_of_its_connections() -> None:
    """By the name that authentication gave; others are not throttled."""
    rig = Rig()
    of_alice = {(("user", "alice"),): {"producer_byte_rate": 100_000.0}}
    rig.image = replace(rig.image, client_quotas=of_alice)
    assert rig.produce(1 << 20).throttle_ms == 0
    rig.peer.identity = Identity(user("alice"), mechanism="PLAIN")
    assert rig.produce(1 << 20).throttle_ms > 0


async def test_a_consumer_above_its_quota_is_muted() -> None:
    """It gets the records; the next response is bounded by the windows. Followers are not throttled."""
    rig = Rig(consumer_byte_rate=50_000.0)
    rig.frames = [bytes(130_000)]
    assert rig.fetch(replica_id=7).throttle_ms == 0
    response = rig.fetch()
    assert response.throttle_ms > 0
    assert response.body.max_bytes == 50_000
    rig.charges.close()


async def test_nodes_are_not_charged() -> None:
    """By the client id of a registered node; a client that uses it from another address is charged."""
    rig = Rig(producer_byte_rate=1.0)
    assert rig.produce(1_000, client_id="node-7").throttle_ms == 0
    assert rig.produce(1_000, client_id="node-8").throttle_ms > 0
    rig.charges.close()


async def test_mutations_are_throttled_by_the_controller() -> None:
    """The throttle time is in its response."""
    rig = Rig(controller_mutation_rate=1.0)
    peer = Peer(key=b"k", session=5, last_seen_ms=0, address="a", descriptor=-1)
    request = Request(peer, registry.CREATE_TOPICS, 1, None, b"", [])
    rig.charges.reply(request, CreateTopicsResponse((), 1, 700))
    assert request.throttle_ms == 700
    rig.charges.close()


async def test_request_time_is_charged() -> None:
    """The time of the handler's own turn."""
    rig = Rig(request_percentage=1e-9)
    response = rig.ask(registry.DESCRIBE_CLIENT_QUOTAS, DescribeClientQuotasRequest())
    assert response.throttle_ms == 1_000, "one window is the longest wait"
    rig.charges.close()


async def test_a_delayed_request_can_fail() -> None:
    """An error is its response; a bug ends the node."""
    for refusal in (InvalidRequestError("no"), ValueError("a bug")):
        rig = Rig(producer_byte_rate=100_000.0)
        rig.produce(210_000)
        late = rig.produce(1)
        rig.refusal = refusal
        await until(lambda rig=rig: len(rig.own.answered) + len(rig.failures) == 2)
        assert (rig.own.answered[1:], rig.failures) in (([(late, refusal)], []), ([], [refusal]))


async def test_delayed_requests_are_dropped_when_the_node_stops() -> None:
    """The listener has sent the closing message."""
    rig = Rig(producer_byte_rate=100_000.0)
    rig.produce(210_000)
    rig.produce(1)
    timer = rig.charges._muted[5].timer
    rig.charges.close()
    assert timer.cancelled()
    assert not rig.charges._muted
    assert len(rig.handled) == 1


async def test_delayed_requests_are_bounded() -> None:
    """To a quarter of the memory for requests, over all connections: others, nodes among them, need the
    rest."""
    rig = Rig(producer_byte_rate=100_000.0)
    rig.produce(210_000)
    rig.produce(MIB - 1)
    with pytest.raises(ThrottlingQuotaExceededError):
        rig.produce(2)
    rig.produce(1)
    rig.gone()
    rig.peer = Peer(key=b"l", session=6)
    rig.produce(1)
    rig.produce(MIB)
    rig.charges.close()


async def test_a_closed_connection_is_not_delayed() -> None:
    """Its produce requests run, others are dropped; its memory is released."""
    rig = Rig(producer_byte_rate=1.0)
    first = rig.produce(MIB)
    late = [rig.produce(1), rig.fetch(), rig.produce(2, acks=0)]
    timer = rig.charges._muted[5].timer
    rig.gone()
    assert timer.cancelled()
    assert rig.handled == [first, late[0], late[2]]
    assert set(map(id, rig.own.answered)) == set(map(id, [first, *late])), "each is settled"
    rig.produce(1)
    assert not rig.charges._muted
    assert len(rig.handled) == 4


async def test_the_longest_throttle_time_counts() -> None:
    """Several responses have times of their own."""
    rig = Rig(controller_mutation_rate=1.0)
    until_ms = monotonic_ms() + 300
    for wait_ms in (50, 300, 1):
        request = Request(rig.peer, registry.CREATE_TOPICS, 1, None, b"", [])
        rig.charges.reply(request, CreateTopicsResponse((), 1, wait_ms))
    rig.produce(1)
    await until(lambda: bool(rig.handled))
    assert monotonic_ms() >= until_ms
