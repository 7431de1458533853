"""The ZeroMQ network against a router on this machine."""

import asyncio
import gc
import socket
from random import Random
from typing import Any

import pytest
from headrace.clients.cluster.network import Address
from headrace.clients.cluster.network_io import ZmqNetwork
from headrace.clients.config import ConnectionConfig
from headrace.protocol import errors
from headrace.protocol.messages.data import ProduceRequest
from headrace.runtime.clock_io import monotonic_ms
from headrace.runtime.ports_io import reserve_ports
from transport_kit import ASK, METADATA, PRODUCE, PRODUCE_ONE, Served, run, until


@pytest.fixture
def run_async() -> Any:
    """On real sockets: not in virtual time."""
    return run


def network(now_ms: Any = monotonic_ms, **config: Any) -> ZmqNetwork:
    return ZmqNetwork(ConnectionConfig.of({"client.id": "me", **config}), now_ms, Random(1))


async def serve(served: Served) -> Address:
    return Address("127.0.0.1", served.router.start())


async def test_one_connection_serves_many_requests() -> None:
    """Ten concurrent requests before a connection is open: one peer."""
    served, net = Served(), network()
    address = await serve(served)
    replies = await asyncio.gather(*(net.request(address, METADATA, ASK, timeout_ms=5000) for _ in range(10)))
    assert {reply.body.cluster_id for reply in replies} == {"cluster"}
    assert {request.peer.session for request in served.requests} == {served.requests[0].peer.session}
    assert served.requests[0].peer.client_id == "me"
    await net.close()
    served.router.close()


async def test_a_timeout_closes_the_connection() -> None:
    """Before a retry is possible; the next request opens a new connection."""
    served, net = Served(), network()
    address = await opened(net, served)  # however long that takes here
    served.is_holding = True
    with pytest.raises(errors.RequestTimedOutError, match="did not respond to Metadata within 50 ms"):
        await net.request(address, METADATA, ASK, timeout_ms=50)
    await until(lambda: served.gone == ["me"])
    served.is_holding = False
    await net.request(address, METADATA, ASK, timeout_ms=5000)
    assert len({request.peer.session for request in served.requests}) == 2
    await net.close()
    served.router.close()


async def test_lost_connection_fails_requests_and_is_replaced() -> None:
    """The server stops during a request and starts again on the same port."""
    served, net = Served(), network(**{"reconnect.backoff.ms": 0})
    (served.router.port,) = reserve_ports(1)  # for the next one, too
    address = await serve(served)
    served.is_holding = True
    waiting = asyncio.create_task(net.request(address, METADATA, ASK, timeout_ms=5000))
    await until(lambda: served.held)
    served.router.close()
    with pytest.raises(errors.NetworkError, match=str(address)):
        await waiting
    again = Served()
    again.router.port = address.port
    again.router.start()
    reply = await net.request(address, METADATA, ASK, timeout_ms=5000)
    assert reply.body.cluster_id == "cluster"
    await net.close()
    again.router.close()


async def test_requests_to_an_unreachable_node_fail_at_once_during_the_backoff() -> None:
    """With the cause of the first failure."""
    now = [1000]
    net = network(lambda: now[0], **{"reconnect.backoff.ms": 100, "reconnect.backoff.max.ms": 100})
    served = Served()
    address = await serve(served)
    served.router.close()
    with pytest.raises(errors.NetworkError, match="cannot connect"):
        await net.request(address, METADATA, ASK, timeout_ms=5000)
    with pytest.raises(errors.NetworkError, match=r"is in backoff.*cannot connect"):
        await net.request(address, METADATA, ASK, timeout_ms=5000)
    now[0] += 200
    with pytest.raises(errors.NetworkError, match="cannot connect") as caught:
        await net.request(address, METADATA, ASK, timeout_ms=5000)
    assert "not tried" not in str(caught.value)
    await net.close()


async def test_request_without_reply_returns_when_sent() -> None:
    """There is no response; the server gets the request."""
    served, net = Served(), network()
    address = await serve(served)
    request = ProduceRequest(0, 1000, ())
    reply = await net.request(address, PRODUCE, request, timeout_ms=5000, expect_reply=False)
    assert reply.body is None
    await until(lambda: served.requests)
    await net.close()
    served.router.close()


async def test_close_fails_requests_and_attempts() -> None:
    """A request in flight, one that still connects, and later ones."""
    served, net = Served(), network()
    address = await serve(served)
    served.is_holding = True
    under_way = asyncio.create_task(net.request(address, PRODUCE, PRODUCE_ONE, timeout_ms=60_000))
    await until(lambda: served.held)
    await net.close()
    with pytest.raises(errors.NetworkError):
        await under_way
    with pytest.raises(errors.NetworkError):
        await net.request(address, METADATA, ASK, timeout_ms=1000)
    served.router.close()


async def test_idle_addresses_are_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The table does not grow with nodes that are added and removed."""
    now = [1000]
    net = network(lambda: now[0], **{"reconnect.backoff.ms": 0})
    monkeypatch.setattr("headrace.clients.cluster.network_io.MAX_IDLE_SLOTS", 3)
    for port in range(1, 8):
        with pytest.raises(errors.NetworkError):
            await net.request(Address("127.0.0.1", port), METADATA, ASK, timeout_ms=2000)
        now[0] += 5000
    assert len(net._slots) <= 3
    await net.close()


async def test_late_connection_failure_is_not_logged_by_asyncio() -> None:
    """The request waits 20 ms, the attempt 400."""
    complaints: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
    net = network(**{"socket.connection.setup.timeout.ms": 400})
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = Address("127.0.0.1", silent.getsockname()[1])
        with pytest.raises(errors.NetworkError, match="within 20 ms"):
            await net.request(address, METADATA, ASK, timeout_ms=20)
        await until(lambda: net._slots[address].opening is None)
    await asyncio.sleep(0)
    gc.collect()
    assert complaints == []
    await net.close()


class Outcomes(list[Any]):
    """Responses, and the texts of errors."""

    def __call__(self, reply: Any, error: Any) -> None:
        self.append(reply if error is None else error)


async def opened(net: ZmqNetwork, served: Served) -> Address:
    address = await serve(served)
    await net.request(address, METADATA, ASK, timeout_ms=5000)
    return address


async def test_submit_calls_back_once() -> None:
    """Without an open connection nothing is sent; then each request has one callback, after `submit`."""
    served, net, received = Served(), network(), Outcomes()
    address = await serve(served)
    assert not net.submit(address, METADATA, ASK, timeout_ms=5000, on_done=received)
    await net.request(address, METADATA, ASK, timeout_ms=5000)
    for _ in range(10):
        assert net.submit(address, METADATA, ASK, timeout_ms=5000, on_done=received)
    assert received == []
    await until(lambda: len(received) == 10)
    assert {reply.body.cluster_id for reply in received} == {"cluster"}
    assert len(served.requests) == 11, "refused requests are not sent"
    await net.close()
    served.router.close()
    assert len(received) == 10


async def test_timeout_of_one_request_fails_the_others_of_the_connection() -> None:
    """After 50 ms the connection is closed."""
    served, net, received, other = Served(), network(), Outcomes(), Outcomes()
    address = await opened(net, served)
    served.is_holding = True
    is_closed: list[bool] = []

    def look(_reply: Any, error: Any) -> None:
        received.append(error)
        is_closed.append(net.submit(address, METADATA, ASK, timeout_ms=5000, on_done=other) is None)

    assert net.submit(address, METADATA, ASK, timeout_ms=60_000, on_done=other)
    assert net.submit(address, METADATA, ASK, timeout_ms=50, on_done=look)
    await until(lambda: received)
    assert isinstance(received[0], errors.RequestTimedOutError)
    assert "did not respond to Metadata within 50 ms" in str(received[0])
    assert is_closed == [True], "a retry would overtake it on the old connection"
    assert [type(error) for error in other] == [errors.NetworkError]
    await until(lambda: served.gone == ["me"])
    await net.close()
    served.router.close()


async def test_cancelled_request_keeps_the_connection() -> None:
    """Its late response is dropped, the next request succeeds; `drop` ends the connection."""
    served, net, received, other = Served(), network(), Outcomes(), Outcomes()
    address = await opened(net, served)
    served.is_holding = True
    give_up = net.submit(address, METADATA, ASK, timeout_ms=60_000, on_done=received)
    await until(lambda: served.held)
    assert give_up is not None
    give_up()
    served.is_holding = False
    served.answer(served.held.pop())
    assert net.submit(address, METADATA, ASK, timeout_ms=60_000, on_done=other)
    await until(lambda: other)
    assert other[0].body.cluster_id == "cluster"
    assert received == []
    served.is_holding = True
    assert net.submit(address, METADATA, ASK, timeout_ms=60_000, on_done=other)
    net.drop(Address("absent", 1))
    net.drop(address)
    assert isinstance(other[1], errors.NetworkError)
    assert net.submit(address, METADATA, ASK, timeout_ms=60_000, on_done=other) is None
    await until(lambda: served.gone == ["me"])
    assert received == []
    await net.close()
    served.router.close()


async def test_callbacks_get_lost_connections_and_close() -> None:
    """The server stops during one request, the client closes during another."""
    served, net, received = Served(), network(), Outcomes()
    address = await opened(net, served)
    served.is_holding = True
    assert net.submit(address, METADATA, ASK, timeout_ms=60_000, on_done=received)
    await until(lambda: served.held)
    served.router.close()
    await until(lambda: received)
    assert isinstance(received[0], errors.NetworkError)
    assert str(address) in str(received[0])
    again = Served()
    address = await opened(net, again)
    again.is_holding = True
    assert net.submit(address, METADATA, ASK, timeout_ms=60_000, on_done=received)
    await net.close()
    assert [type(error) for error in received] == [errors.NetworkError, errors.NetworkError]
    assert not net.submit(address, METADATA, ASK, timeout_ms=5000, on_done=received)
    again.router.close()


async def test_unsupported_api_and_header_errors() -> None:
    """The callback gets the error, and the connection stays."""
    served, net, received = Served(apis=(METADATA,)), network(), Outcomes()
    address = await opened(net, served)
    assert net.submit(address, PRODUCE, PRODUCE_ONE, timeout_ms=5000, on_done=received)
    assert received == []
    await until(lambda: received)
    assert isinstance(received[0], errors.UnsupportedVersionError)
    served.is_holding = True
    assert net.submit(address, METADATA, ASK, timeout_ms=5000, on_done=received)
    await until(lambda: served.held)
    served.router.reply_error(served.held.pop(), errors.MessageTooLargeError("no"))
    await until(lambda: len(received) == 2)
    assert isinstance(received[1], errors.MessageTooLargeError)
    served.is_holding = False
    assert net.submit(address, METADATA, ASK, timeout_ms=5000, on_done=received)
    await until(lambda: len(received) == 3)
    assert received[2].body.cluster_id == "cluster"
    await net.close()
    served.router.close()
