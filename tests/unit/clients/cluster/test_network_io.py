"""The real network against a real router on this machine."""

from __future__ import annotations

import asyncio
import gc
import socket
from random import Random
from typing import Any

import pytest
from headrace.clients.cluster.network import Address
from headrace.clients.cluster.network_io import ZmqNetwork
from headrace.clients.config import ConnectionConfig
from headrace.protocol.errors import (
    MessageTooLargeError,
    NetworkError,
    RequestTimedOutError,
    UnsupportedVersionError,
)
from headrace.protocol.messages.data import ProduceRequest
from headrace.runtime.clock_io import monotonic_ms
from headrace.runtime.ports_io import reserve_ports
from transport_kit import ASK, METADATA, PRODUCE, PRODUCE_ONE, Served, run, until


def network(now_ms: Any = monotonic_ms, **config: Any) -> ZmqNetwork:
    return ZmqNetwork(ConnectionConfig.of({"client.id": "me", **config}), now_ms, Random(1))


async def serve(served: Served) -> Address:
    return Address("127.0.0.1", served.router.start())


def test_one_connection_serves_many_requests() -> None:
    """Ten at the same time, before any connection is open: one peer."""

    async def scenario() -> None:
        served, net = Served(), network()
        address = await serve(served)
        replies = await asyncio.gather(
            *(net.request(address, METADATA, ASK, timeout_ms=5000) for _ in range(10))
        )
        assert {reply.body.cluster_id for reply in replies} == {"cluster"}
        assert {request.peer.session for request in served.requests} == {served.requests[0].peer.session}
        assert served.requests[0].peer.client_id == "me"
        await net.close()
        served.router.close()

    run(scenario())


def test_a_timeout_closes_the_connection() -> None:
    """The silent node's connection is gone before anyone can retry; the next request opens a new one."""

    async def scenario() -> None:
        served, net = Served(), network()
        address = await opened(net, served)  # however long that takes here
        served.is_holding = True
        with pytest.raises(RequestTimedOutError, match="did not respond to Metadata within 50 ms"):
            await net.request(address, METADATA, ASK, timeout_ms=50)
        await until(lambda: served.gone == ["me"])
        served.is_holding = False
        await net.request(address, METADATA, ASK, timeout_ms=5000)
        assert len({request.peer.session for request in served.requests}) == 2
        await net.close()
        served.router.close()

    run(scenario())


def test_a_lost_connection_fails_what_is_under_way_and_is_replaced() -> None:
    """The server goes away in the middle of a request and comes back on the same port."""

    async def scenario() -> None:
        served, net = Served(), network(**{"reconnect.backoff.ms": 0})
        (served.router.port,) = reserve_ports(1)  # for the next one, too
        address = await serve(served)
        served.is_holding = True
        waiting = asyncio.create_task(net.request(address, METADATA, ASK, timeout_ms=5000))
        await until(lambda: served.held)
        served.router.close()
        with pytest.raises(NetworkError, match=str(address)):
            await waiting
        again = Served()
        again.router.port = address.port
        again.router.start()
        reply = await net.request(address, METADATA, ASK, timeout_ms=5000)
        assert reply.body.cluster_id == "cluster"
        await net.close()
        again.router.close()

    run(scenario())


def test_an_unreachable_node_is_left_alone_for_a_while() -> None:
    """Nobody listens: the second request fails at once with the first one's cause, until the wait is over."""

    async def scenario() -> None:
        now = [1000]
        net = network(lambda: now[0], **{"reconnect.backoff.ms": 100, "reconnect.backoff.max.ms": 100})
        served = Served()
        address = await serve(served)
        served.router.close()
        with pytest.raises(NetworkError, match="cannot connect"):
            await net.request(address, METADATA, ASK, timeout_ms=5000)
        with pytest.raises(NetworkError, match=r"is in backoff.*cannot connect"):
            await net.request(address, METADATA, ASK, timeout_ms=5000)
        now[0] += 200
        with pytest.raises(NetworkError, match="cannot connect") as caught:
            await net.request(address, METADATA, ASK, timeout_ms=5000)
        assert "not tried" not in str(caught.value)
        await net.close()

    run(scenario())


def test_acks_0_returns_when_handed_over() -> None:
    """No answer comes; the request does arrive."""

    async def scenario() -> None:
        served, net = Served(), network()
        address = await serve(served)
        request = ProduceRequest(0, 1000, ())
        reply = await net.request(address, PRODUCE, request, timeout_ms=5000, expect_reply=False)
        assert reply.body is None
        await until(lambda: served.requests)
        await net.close()
        served.router.close()

    run(scenario())


def test_closing_ends_everything() -> None:
    """A request under way, one that still connects, and later ones."""

    async def scenario() -> None:
        served, net = Served(), network()
        address = await serve(served)
        served.is_holding = True
        under_way = asyncio.create_task(net.request(address, PRODUCE, PRODUCE_ONE, timeout_ms=60_000))
        await until(lambda: served.held)
        await net.close()
        with pytest.raises(NetworkError):
            await under_way
        with pytest.raises(NetworkError):
            await net.request(address, METADATA, ASK, timeout_ms=1000)
        served.router.close()

    run(scenario())


def test_addresses_that_are_gone_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nodes come and go for months: the table does not grow for ever."""

    async def scenario() -> None:
        now = [1000]
        net = network(lambda: now[0], **{"reconnect.backoff.ms": 0})
        monkeypatch.setattr("headrace.clients.cluster.network_io.MAX_IDLE_SLOTS", 3)
        for port in range(1, 8):
            with pytest.raises(NetworkError):
                await net.request(Address("127.0.0.1", port), METADATA, ASK, timeout_ms=2000)
            now[0] += 5000
        assert len(net._slots) <= 3
        await net.close()

    run(scenario())


def test_a_connection_that_fails_after_everyone_gave_up_is_no_stray_error() -> None:
    """The request waits for 20 ms, the connection is tried for 400: the loop has nothing to complain of."""

    async def scenario() -> None:
        complaints: list[Any] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
        net = network(**{"socket.connection.setup.timeout.ms": 400})
        with socket.create_server(("127.0.0.1", 0)) as silent:
            address = Address("127.0.0.1", silent.getsockname()[1])
            with pytest.raises(NetworkError, match="within 20 ms"):
                await net.request(address, METADATA, ASK, timeout_ms=20)
            await until(lambda: net._slots[address].opening is None)
        await asyncio.sleep(0)
        gc.collect()
        assert complaints == []
        await net.close()

    run(scenario())


class Heard(list[Any]):
    """What was told: the answers, and the texts of errors."""

    def __call__(self, reply: Any, error: Any) -> None:
        self.append(reply if error is None else error)


async def opened(net: ZmqNetwork, served: Served) -> Address:
    address = await serve(served)
    await net.request(address, METADATA, ASK, timeout_ms=5000)
    return address


def test_answers_by_call() -> None:
    """Nothing is sent while no connection is open; then each request is told once, after `submit`."""

    async def scenario() -> None:
        served, net, heard = Served(), network(), Heard()
        address = await serve(served)
        assert not net.submit(address, METADATA, ASK, timeout_ms=5000, on_done=heard)
        await net.request(address, METADATA, ASK, timeout_ms=5000)
        for _ in range(10):
            assert net.submit(address, METADATA, ASK, timeout_ms=5000, on_done=heard)
        assert heard == []
        await until(lambda: len(heard) == 10)
        assert {reply.body.cluster_id for reply in heard} == {"cluster"}
        assert len(served.requests) == 11, "what was refused was not sent"
        await net.close()
        served.router.close()
        assert len(heard) == 10

    run(scenario())


def test_a_silent_node_costs_all_calls_their_connection() -> None:
    """One call is over after 50 ms: its connection is closed, and the rest under way has failed."""

    async def scenario() -> None:
        served, net, heard, other = Served(), network(), Heard(), Heard()
        address = await opened(net, served)
        served.is_holding = True
        is_closed: list[bool] = []

        def look(_reply: Any, error: Any) -> None:
            heard.append(error)
            is_closed.append(net.submit(address, METADATA, ASK, timeout_ms=5000, on_done=other) is None)

        assert net.submit(address, METADATA, ASK, timeout_ms=60_000, on_done=other)
        assert net.submit(address, METADATA, ASK, timeout_ms=50, on_done=look)
        await until(lambda: heard)
        assert isinstance(heard[0], RequestTimedOutError)
        assert "did not respond to Metadata within 50 ms" in str(heard[0])
        assert is_closed == [True], "a retry would overtake it on the old connection"
        assert [type(error) for error in other] == [NetworkError]
        await until(lambda: served.gone == ["me"])
        await net.close()
        served.router.close()

    run(scenario())


def test_a_call_that_is_given_up_hears_nothing_and_its_connection_goes_on() -> None:
    """Its late answer is dropped, the next request is answered; `drop` ends the connection."""

    async def scenario() -> None:
        served, net, heard, other = Served(), network(), Heard(), Heard()
        address = await opened(net, served)
        served.is_holding = True
        give_up = net.submit(address, METADATA, ASK, timeout_ms=60_000, on_done=heard)
        await until(lambda: served.held)
        assert give_up is not None
        give_up()
        served.is_holding = False
        served.answer(served.held.pop())
        assert net.submit(address, METADATA, ASK, timeout_ms=60_000, on_done=other)
        await until(lambda: other)
        assert other[0].body.cluster_id == "cluster"
        assert heard == []
        served.is_holding = True
        assert net.submit(address, METADATA, ASK, timeout_ms=60_000, on_done=other)
        net.drop(Address("nobody", 1))
        net.drop(address)
        assert isinstance(other[1], NetworkError)
        assert net.submit(address, METADATA, ASK, timeout_ms=60_000, on_done=other) is None
        await until(lambda: served.gone == ["me"])
        assert heard == []
        await net.close()
        served.router.close()

    run(scenario())


def test_calls_hear_of_a_lost_connection_and_of_the_end() -> None:
    """The server goes away under one call, the client closes under another."""

    async def scenario() -> None:
        served, net, heard = Served(), network(), Heard()
        address = await opened(net, served)
        served.is_holding = True
        assert net.submit(address, METADATA, ASK, timeout_ms=60_000, on_done=heard)
        await until(lambda: served.held)
        served.router.close()
        await until(lambda: heard)
        assert isinstance(heard[0], NetworkError)
        assert str(address) in str(heard[0])
        again = Served()
        address = await opened(net, again)
        again.is_holding = True
        assert net.submit(address, METADATA, ASK, timeout_ms=60_000, on_done=heard)
        await net.close()
        assert [type(error) for error in heard] == [NetworkError, NetworkError]
        assert not net.submit(address, METADATA, ASK, timeout_ms=5000, on_done=heard)
        again.router.close()

    run(scenario())


def test_a_call_that_the_server_does_not_serve() -> None:
    """An api that it lacks, and an error in the header: told later, and the connection stays."""

    async def scenario() -> None:
        served, net, heard = Served(apis=(METADATA,)), network(), Heard()
        address = await opened(net, served)
        assert net.submit(address, PRODUCE, PRODUCE_ONE, timeout_ms=5000, on_done=heard)
        assert heard == []
        await until(lambda: heard)
        assert isinstance(heard[0], UnsupportedVersionError)
        served.is_holding = True
        assert net.submit(address, METADATA, ASK, timeout_ms=5000, on_done=heard)
        await until(lambda: served.held)
        served.router.reply_error(served.held.pop(), MessageTooLargeError("no"))
        await until(lambda: len(heard) == 2)
        assert isinstance(heard[1], MessageTooLargeError)
        served.is_holding = False
        assert net.submit(address, METADATA, ASK, timeout_ms=5000, on_done=heard)
        await until(lambda: len(heard) == 3)
        assert heard[2].body.cluster_id == "cluster"
        await net.close()
        served.router.close()

    run(scenario())
