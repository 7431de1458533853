"""Requests to other servers: over one connection each, answered once in all cases."""

import contextlib
from collections.abc import AsyncIterator
from typing import Any

from headrace.protocol.errors import KafkaError, NetworkError, NotControllerError, RequestTimedOutError
from headrace.protocol.messages.registry import METADATA
from headrace.protocol.model import NO_NODE
from headrace.protocol.transport.peers import Response
from headrace.protocol.transport.wire import encode
from headrace.runtime.shell_io import TaskOwner
from headrace.storage_node.effects import AskPeer
from headrace.storage_node.links.peers_io import Peers
from transport_kit import ASK, METADATA_BODY, Served, serving, until

NODE = 3  # as transport_kit's servers call themselves


class Link:
    """A link to the controller with a scripted response."""

    def __init__(self) -> None:
        self.asked: list[tuple[Any, bytes, float]] = []
        self.outcome: Any = Response(METADATA_BODY, [])

    async def forward(self, api: Any, body: bytes, timeout_s: float) -> Response:
        self.asked.append((api, body, timeout_s))
        if isinstance(self.outcome, KafkaError):
            raise self.outcome
        return self.outcome  # type: ignore[no-any-return]


class Asker:
    """Peers, and the outcomes of requests."""

    def __init__(self, endpoints: dict[int, tuple[str, int]]) -> None:
        self.link = Link()
        self.tasks = TaskOwner()
        self.performed = 0
        self.outcomes: list[Any] = []
        self.peers = Peers(endpoints.get, self.link, self.tasks, self._perform)  # type: ignore[arg-type]

    def _perform(self) -> None:
        self.performed += 1

    def ask(self, node_id: int = NODE, timeout_ms: int = 20_000) -> None:
        """The outcome is appended, with the number of `perform` calls before it."""

        def answered(outcome: Any, now_ms: int, wall_ms: int) -> None:
            assert now_ms < wall_ms
            self.outcomes.append(outcome)

        self.peers.ask(AskPeer(node_id, METADATA, ASK, timeout_ms, answered), "node-1")

    async def outcomes_of(self, count: int) -> list[Any]:
        """Wait for that many outcomes."""
        await until(lambda: len(self.outcomes) >= count and self.performed >= count)
        return self.outcomes


@contextlib.asynccontextmanager
async def scene() -> AsyncIterator[tuple[Served, Asker]]:
    """A node that answers, and a client."""
    async with serving() as served:
        asker = Asker({NODE: ("127.0.0.1", served.router.port), 4: ("127.0.0.1", served.router.port)})
        try:
            yield served, asker
        finally:
            asker.peers.close()
            asker.tasks.stop()
            await asker.tasks.run()


async def test_requests_to_one_node_share_a_connection() -> None:
    """Also while it is being opened; the core's effects are performed after each response."""
    async with scene() as (served, asker):
        for _ in range(5):
            asker.ask()
        assert await asker.outcomes_of(5) == [METADATA_BODY] * 5
        asker.ask()
        await asker.outcomes_of(6)
        assert served.router.connections == 1
        assert {request.peer.client_id for request in served.requests} == {"node-1"}


async def test_requests_to_the_controller_use_the_link() -> None:
    async with scene() as (served, asker):
        asker.ask(NO_NODE, 1_500)
        assert await asker.outcomes_of(1) == [METADATA_BODY]
        assert asker.link.asked == [(METADATA, encode(ASK), 1.5)]
        asker.link.outcome = NotControllerError("no controller")
        asker.ask(NO_NODE)
        assert isinstance((await asker.outcomes_of(2))[1], NotControllerError)
        assert served.requests == []


async def test_a_broken_connection_fails_its_requests() -> None:
    """The next request opens another one."""
    async with scene() as (served, asker):
        served.is_holding = True
        asker.ask()
        asker.ask()
        await until(lambda: len(served.held) == 2)
        port = served.router.port
        for request in served.held:
            served.router.no_reply(request)
        served.held = []
        served.router.close()
        outcomes = await asker.outcomes_of(2)
        assert [type(outcome) for outcome in outcomes] == [NetworkError] * 2
        asker.ask()  # no server listens
        assert isinstance((await asker.outcomes_of(3))[2], NetworkError)
        async with serving() as other:
            assert other.router.port != port
            asker.peers._endpoint_of = {NODE: ("127.0.0.1", other.router.port)}.get  # type: ignore[assignment]
            asker.ask()
            assert (await asker.outcomes_of(4))[3] == METADATA_BODY


async def test_a_silent_node_times_out() -> None:
    """Other requests to the node are not affected."""
    async with scene() as (served, asker):
        asker.ask()
        await asker.outcomes_of(1)  # connected: the next request is sent before its timeout
        served.is_holding = True
        asker.ask(timeout_ms=30)
        assert isinstance((await asker.outcomes_of(2))[1], RequestTimedOutError)
        asker.ask()
        await until(lambda: len(served.held) == 2)
        served.answer_held()
        assert (await asker.outcomes_of(3))[2] == METADATA_BODY
        assert served.router.connections == 1


async def test_an_absent_or_wrong_node_gets_no_request() -> None:
    """Ports may have been reused."""
    async with scene() as (served, asker):
        asker.ask(9)
        asker.ask(4)
        outcomes = await asker.outcomes_of(2)
        assert [type(outcome) for outcome in outcomes] == [NetworkError] * 2
        assert any("node 3 listens where node 4 did" in str(outcome) for outcome in outcomes)
        assert served.requests == []


async def test_a_closed_peers_reports_nothing() -> None:
    """Neither responses nor new requests."""
    async with scene() as (served, asker):
        served.is_holding = True
        asker.ask()
        await until(lambda: served.held)
        asker.peers.close()
        asker.ask()
        asker.tasks.stop()
        await asker.tasks.run()
        assert asker.outcomes == []
