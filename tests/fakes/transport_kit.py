"""A real router, raw peers that send invalid frames, and waits, for tests of the transport."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from typing import Any

import zmq
from headrace.protocol.messages import data
from headrace.protocol.messages.envelope import ApiVersionsRequest, RequestHeader, ResponseHeader
from headrace.protocol.messages.registry import API_VERSIONS, FETCH, METADATA, PRODUCE
from headrace.protocol.transport import wire
from headrace.protocol.transport.context_io import shared_context
from headrace.protocol.transport.dealer_io import Connection, ConnectionOptions
from headrace.protocol.transport.router_io import Request, Router, RouterLimits, ServerIdentity
from headrace.protocol.transport.security import RouterSecurity
from headrace.runtime.loop_io import new_event_loop

PATIENCE_S = 60.0
# the time limit of a test: then its tasks are cancelled, so that its processes and files are removed
LIMIT_S = 500.0
METADATA_BODY = data.MetadataResponse("cluster", -1, 7, (), ())
PRODUCE_BODY = data.ProduceResponse((data.ProducePartitionResponse(0, 42),))
ASK = data.MetadataRequest(())
PRODUCE_ONE = data.ProduceRequest(1, 1000, ())
FETCH_ONE = data.FetchRequest(0, 1, 1, 0, ())
APIS = (METADATA, PRODUCE, FETCH)


def run(work: Coroutine[Any, Any, None]) -> None:
    """Run one test on a new event loop of the servers' kind."""
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(asyncio.wait_for(work, LIMIT_S))


async def until(is_so: Callable[[], object]) -> None:
    """Run the loop until the condition holds; fails after a time limit."""
    loop = asyncio.get_running_loop()
    end_s = loop.time() + PATIENCE_S
    while not is_so():
        assert loop.time() < end_s, "the condition never held"
        await asyncio.sleep(0.001)


class Served:
    """A router with test responses; while `is_holding`, requests are kept in `held`."""

    def __init__(
        self,
        limits: RouterLimits | None = None,
        apis: tuple[Any, ...] = APIS,
        security: RouterSecurity | None = None,
    ) -> None:
        self.requests: list[Request] = []
        self.held: list[Request] = []
        self.gone: list[str] = []
        self.is_holding = False
        self.frame = b"f" * 100
        self.limits = limits or RouterLimits()
        self.identity = ServerIdentity("cluster", 3, 99)
        self.handler: Callable[[Request], None] = self.handle
        handle = lambda request: self.handler(request)  # noqa: E731 - tests replace the handler later
        self.router = Router("127.0.0.1", 0, handle, apis, self.identity, self.limits, security)
        self.router.on_peer_gone = lambda peer: self.gone.append(peer.client_id)

    def handle(self, request: Request) -> None:
        self.requests.append(request)
        if self.is_holding:
            self.held.append(request)
        else:
            self.answer(request)

    def answer(self, request: Request) -> None:
        if request.api is FETCH:
            partition = data.FetchPartitionResponse(0, 1, 1, 0, 1)
            self.router.reply(request, data.FetchResponse((partition,)), (self.frame,))
        elif request.api is PRODUCE and request.body.acks == 0:
            self.router.no_reply(request)
        else:
            self.router.reply(request, PRODUCE_BODY if request.api is PRODUCE else METADATA_BODY)

    def answer_held(self) -> None:
        held, self.held = self.held, []
        for request in held:
            self.answer(request)

    async def connect(self, client_id: str = "client", **options: Any) -> Connection:
        return await Connection.open(
            "127.0.0.1",
            self.router.port,
            client_id=client_id,
            timeout_s=PATIENCE_S,
            options=ConnectionOptions(**options),
        )

    async def is_well(self) -> None:
        """Assert that a new client gets a response."""
        is_holding, self.is_holding = self.is_holding, False
        probe = await self.connect("probe")
        assert (await probe.request(METADATA, ASK, timeout_s=PATIENCE_S)).body == METADATA_BODY
        probe.close(0)
        self.is_holding = is_holding


@contextlib.asynccontextmanager
async def serving(limits: RouterLimits | None = None, apis: tuple[Any, ...] = APIS) -> AsyncIterator[Served]:
    """A started server, which is closed at the end; then no request may be accounted."""
    served = Served(limits, apis)
    served.router.start()
    try:
        yield served
        for request in served.held:
            served.router.no_reply(request)
        assert served.router.queued_bytes == 0
    finally:
        served.router.close()


class RawPeer:
    """A DEALER socket that sends any frames, valid or not."""

    def __init__(self, port: int, **options: int | bytes) -> None:
        self.socket = shared_context().socket(zmq.DEALER)
        self.socket.setsockopt(zmq.LINGER, 0)
        self.socket.setsockopt(zmq.RECONNECT_IVL, -1)
        for name, value in options.items():
            self.socket.setsockopt(getattr(zmq, name), value)
        self.events = self.socket.get_monitor_socket(zmq.EVENT_DISCONNECTED)
        self.events.setsockopt(zmq.LINGER, 0)
        self.socket.connect(f"tcp://127.0.0.1:{port}")
        self.session = 0

    def send(self, *parts: bytes) -> None:
        """Waits for room in the queue; without a connection, which ended, for SNDTIMEO (for ever)."""
        self.socket.send_multipart(parts)

    def ask(self, api_key: int, body: bytes, *frames: bytes, version: int = 0, number: int = 1) -> None:
        self.send(wire.encode(RequestHeader(api_key, version, number, self.session)), body, *frames)

    async def answer(self) -> tuple[ResponseHeader, list[bytes]]:
        await until(lambda: self.socket.poll(0))
        header, *rest = self.socket.recv_multipart()
        return wire.decode_response_header(header), rest

    async def shake_hands(self, client_id: str = "raw") -> None:
        self.ask(API_VERSIONS.key, wire.encode(ApiVersionsRequest("raw", "0", client_id)))
        header, rest = await self.answer()
        assert header.error_code == 0, header
        self.session = wire.response_decoder(API_VERSIONS)(rest[0]).session

    async def disconnected(self) -> None:
        await until(lambda: self.events.poll(0))

    def close(self) -> None:
        if self.socket.closed:
            return
        self.socket.disable_monitor()
        self.events.close()
        self.socket.close()


@contextlib.contextmanager
def raw_peer(port: int, **options: int | bytes) -> Iterator[RawPeer]:
    """A raw peer, which is closed at the end."""
    peer = RawPeer(port, **options)
    try:
        yield peer
    finally:
        peer.close()


class RawServer:
    """A ROUTER socket with a valid handshake, which then sends any frames of the test."""

    def __init__(self) -> None:
        self.socket = shared_context().socket(zmq.ROUTER)
        self.socket.setsockopt(zmq.LINGER, 0)
        self.port = self.socket.bind_to_random_port("tcp://127.0.0.1")
        self.hello: Any = None
        self.peers: list[bytes] = []

    async def receive(self) -> tuple[bytes, RequestHeader, list[bytes]]:
        await until(lambda: self.socket.poll(0))
        key, header, *rest = self.socket.recv_multipart()
        return key, wire.decode_request_header(header), rest

    def send(self, key: bytes, *parts: bytes) -> None:
        self.socket.send_multipart([key, *parts])

    async def accept(self, **options: Any) -> tuple[Connection, bytes]:
        """A client connection and its key, after a handshake answered with `self.hello`."""
        opening = asyncio.ensure_future(
            Connection.open(
                "127.0.0.1",
                self.port,
                client_id="c",
                timeout_s=PATIENCE_S,
                options=ConnectionOptions(**options),
            )
        )
        key, header, _ = await self.receive()
        self.send(key, wire.encode_response_header(header.correlation_id), wire.encode(self.hello))
        return await opening, key

    def close(self) -> None:
        self.socket.close()


def run_for_ever(work: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine until the process is killed."""
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(work)
