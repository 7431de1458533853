"""A network that misbehaves on demand: all TCP connections of a cluster run through proxies in this process.

A link goes from the client of its connections to their server, such as ("node-1", "node-2"). All clients use
one address of a server, so the first request is the first to name the client: until then the bytes of the
handshake pass, and no fault applies. Faults may be changed while connections are open.

TCP never drops, duplicates or reorders bytes, so neither does this: a loss is a reset connection; a partition
holds bytes back, which arrive late when it heals, or never after a reset.
"""

from __future__ import annotations

import asyncio
import contextlib
import enum
import re
import socket
import struct
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Any

from headrace.runtime.loop_thread_io import LoopThread

HOST = "127.0.0.1"
READ_BYTES = 64 * 1024
HEAD_BYTES = 4096  # within which a client must name itself
# Bound: pending reads of one direction of one connection; beyond it TCP slows the sender.
MAX_WAITING_READS = 64
CALL_TIMEOUT_S = 20.0
# The names of servers and clients of the cluster under test, in the body of their first request.
NAME = re.compile(rb"(?:node|controller|client|observer)-\d+")
_RESET_AT_CLOSE = struct.pack("ii", 1, 0)


class Way(enum.Enum):
    """OUT: from the client of a connection to its server. BACK: the responses."""

    OUT = "out"
    BACK = "back"


BOTH = (Way.OUT, Way.BACK)


@dataclass(eq=False)
class Flow:
    """One direction of a link, over all its connections. Changed only on the event loop."""

    random: Random
    delay_s: float = 0.0
    bytes_per_s: float | None = None
    piece_bytes: int = READ_BYTES  # largest single write
    reset_chance: float = 0.0  # of each write
    passed_bytes: int = 0
    _free_at_s: float = 0.0
    _thawed: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self._thawed.set()

    @property
    def is_frozen(self) -> bool:
        """Whether bytes are held back."""
        return not self._thawed.is_set()

    @is_frozen.setter
    def is_frozen(self, is_frozen: bool) -> None:
        if is_frozen:
            self._thawed.clear()
        else:
            self._thawed.set()

    def heal(self) -> None:
        """End all faults; held bytes are delivered."""
        self.delay_s, self.bytes_per_s, self.piece_bytes, self.reset_chance = 0.0, None, READ_BYTES, 0.0
        self.is_frozen = False

    async def admit(self, came_s: float, size: int) -> None:
        """Wait until `size` bytes that arrived at `came_s` may pass. Errors: ConnectionResetError at
        random."""
        loop = asyncio.get_running_loop()
        due_s = came_s + self.delay_s
        if self.bytes_per_s is not None:
            self._free_at_s = max(self._free_at_s, loop.time()) + size / self.bytes_per_s
            due_s = max(due_s, self._free_at_s)
        if due_s > loop.time():
            await asyncio.sleep(due_s - loop.time())
        await self._thawed.wait()
        if self.reset_chance and self.random.random() < self.reset_chance:
            raise ConnectionResetError("random loss")


class Link:
    """Both directions between one client and one server, and the open connections."""

    def __init__(self, source: str, target: str, random: Random) -> None:
        self.source, self.target = source, target
        self.flows = {way: Flow(random) for way in BOTH}
        self.is_refusing = False  # a new connection is reset as soon as its client is known
        self.connections: set[_Connection] = set()
        self.accepted = 0

    def __repr__(self) -> str:
        return f"{self.source}>{self.target}"


class _Connection:
    """One connection: the client's socket, the server's, and the tasks between them."""

    def __init__(self, proxy: Proxy, caller: socket.socket) -> None:
        self._proxy = proxy
        self._caller = caller
        self._server: socket.socket | None = None
        self._greeting = {way: Flow(proxy.network.random) for way in BOTH}
        self._link: Link | None = None
        self._head = b""
        self._closed_ways: set[Way] = set()
        self.held_bytes = dict.fromkeys(BOTH, 0)  # read, and not yet written
        self.task: asyncio.Task[None]

    async def run(self) -> None:
        is_reset = True
        try:
            self._server = await self._dial()
            async with asyncio.TaskGroup() as tasks:
                for way in BOTH:
                    reads: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(MAX_WAITING_READS)
                    tasks.create_task(self._read(way, reads))
                    tasks.create_task(self._write(way, reads))
            is_reset = False
        except* OSError:
            pass  # a reset of one side is a reset of the other
        finally:
            self._close(is_reset=is_reset)

    def half_close(self, way: Way) -> None:
        """Close one direction; later bytes of it are dropped."""
        self._closed_ways.add(way)
        with contextlib.suppress(OSError):
            self._sink(way).shutdown(socket.SHUT_WR)

    async def _dial(self) -> socket.socket:
        server = socket.socket()
        server.setblocking(False)
        try:
            await asyncio.get_running_loop().sock_connect(server, (HOST, self._proxy.target_port))
        except BaseException:
            server.close()
            raise
        for end in (server, self._caller):
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return server

    def _sink(self, way: Way) -> socket.socket:
        assert self._server is not None, "dialled"
        return self._server if way is Way.OUT else self._caller

    def _flow(self, way: Way) -> Flow:
        return (self._greeting if self._link is None else self._link.flows)[way]

    async def _read(self, way: Way, reads: asyncio.Queue[tuple[float, bytes]]) -> None:
        loop = asyncio.get_running_loop()
        source = self._sink(Way.BACK if way is Way.OUT else Way.OUT)
        while True:
            data = await loop.sock_recv(source, READ_BYTES)
            if way is Way.OUT:
                self._identify(data)
            self.held_bytes[way] += len(data)
            await reads.put((loop.time(), data))
            if not data:
                return

    def _identify(self, data: bytes) -> None:
        """Join the client's link once its name has arrived. Errors: ConnectionResetError when refused."""
        if self._link is not None:
            return
        self._head += data
        found = NAME.search(self._head)
        if found is None and len(self._head) < HEAD_BYTES and data:
            return
        name = found.group().decode() if found else "client-0"
        link = self._link = self._proxy.network.link(name, self._proxy.name)
        link.accepted += 1
        link.connections.add(self)
        if link.is_refusing:
            raise ConnectionResetError("refused")

    async def _write(self, way: Way, reads: asyncio.Queue[tuple[float, bytes]]) -> None:
        loop = asyncio.get_running_loop()
        while True:
            came_s, data = await reads.get()
            if not data:
                await self._flow(way).admit(came_s, 0)
                self.half_close(way)
                return
            left = memoryview(data)
            while left and way not in self._closed_ways:
                flow = self._flow(way)
                piece = left[: flow.piece_bytes]
                await flow.admit(came_s, len(piece))
                if way not in self._closed_ways:
                    await loop.sock_sendall(self._sink(way), piece)
                flow.passed_bytes += len(piece)
                left = left[len(piece) :]
            self.held_bytes[way] -= len(data)

    def _close(self, *, is_reset: bool) -> None:
        if self._link is not None:
            self._link.connections.discard(self)
        for end in (self._caller, self._server):
            if end is not None:
                if is_reset:
                    with contextlib.suppress(OSError):
                        end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_AT_CLOSE)
                end.close()


class Proxy:
    """The address of one server. `target_port` may change: a restarted server may listen elsewhere."""

    def __init__(self, network: ChaosNetwork, name: str) -> None:
        self.network, self.name = network, name
        self.target_port = 0
        self._listener = socket.create_server((HOST, 0), backlog=128)
        self._listener.setblocking(False)
        self.port: int = self._listener.getsockname()[1]
        self.tasks: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            while True:
                caller, _ = await loop.sock_accept(self._listener)
                caller.setblocking(False)
                connection = _Connection(self, caller)
                connection.task = loop.create_task(connection.run())
                self.tasks.add(connection.task)
                connection.task.add_done_callback(self.tasks.discard)
                # a task that is cancelled before it has begun does not close its socket
                connection.task.add_done_callback(lambda _, caller=caller: caller.close())
        finally:
            self._listener.close()


class ChaosNetwork:
    """All proxies and links of one cluster, on a thread of their own; the methods are for other threads and
    return when the change is in effect. A context manager."""

    def __init__(self, seed: int = 0) -> None:
        self.random = Random(seed)
        self._links: dict[tuple[str, str], Link] = {}
        self._proxies: dict[str, Proxy] = {}
        self._over: asyncio.Event
        self.thread = LoopThread("chaos-network", self._main, self._ended)
        self.failure: BaseException | None = None

    def __enter__(self) -> ChaosNetwork:
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.thread.wake(lambda: self._over.set())
        assert self.thread.join(CALL_TIMEOUT_S), "the network's thread does not end"

    # --- addresses ----------------------------------------------------------------------------------------

    def listen(self, name: str) -> int:
        """Open a proxy for `name` and return its port; `route` sets its target."""
        return self._do(lambda: self._listen(name))  # type: ignore[no-any-return]

    def route(self, name: str, port: int) -> None:
        """Connect new connections to `name` to this port."""
        self._do(lambda: setattr(self._proxies[name], "target_port", port))

    # --- faults -------------------------------------------------------------------------------------------

    def shape(self, links: Iterable[tuple[str, str]], *ways: Way, **values: Any) -> None:
        """Set fields of `Flow` for these links, in both directions by default."""

        def work() -> None:
            for flow in self._flows(links, ways):
                for name, value in values.items():
                    assert hasattr(flow, name), name
                    setattr(flow, name, value)

        self._do(work)

    def freeze(self, links: Iterable[tuple[str, str]], *ways: Way) -> None:
        """Hold all bytes back from now on, like packets that are retransmitted without success."""
        self.shape(links, *ways, is_frozen=True)

    def refuse(self, links: Iterable[tuple[str, str]], *, is_refusing: bool = True) -> None:
        """Reset new connections."""

        def work() -> None:
            for pair in links:
                self.link(*pair).is_refusing = is_refusing

        self._do(work)

    def reset(self, links: Iterable[tuple[str, str]]) -> int:
        """Reset the open connections and drop their held bytes; returns their number."""
        return self._do(lambda: self._reset(links))  # type: ignore[no-any-return]

    def half_close(self, links: Iterable[tuple[str, str]], way: Way) -> None:
        """Close one direction of the open connections."""
        self._do(lambda: [each.half_close(way) for pair in links for each in self.link(*pair).connections])

    def cut(self, links: Iterable[tuple[str, str]]) -> int:
        """Reset open and new connections."""
        pairs = list(links)
        self.refuse(pairs)
        return self.reset(pairs)

    def heal(self, *, is_reset: bool = False) -> None:
        """End all faults. Connections continue, or with `is_reset` are reset."""

        async def work() -> None:
            if is_reset:
                await self._reset(self._links)
            for link in self._links.values():
                link.is_refusing = False
                for flow in link.flows.values():
                    flow.heal()

        self._do(work)

    def figures(self, source: str, target: str) -> dict[str, int]:
        """The counters of a link."""

        def work() -> dict[str, int]:
            link = self.link(source, target)
            out, back = link.flows[Way.OUT], link.flows[Way.BACK]
            return {
                "accepted": link.accepted,
                "open": len(link.connections),
                "out": out.passed_bytes,
                "back": back.passed_bytes,
                "held_out": sum(each.held_bytes[Way.OUT] for each in link.connections),
                "held_back": sum(each.held_bytes[Way.BACK] for each in link.connections),
            }

        return self._do(work)  # type: ignore[no-any-return]

    # --- on the loop --------------------------------------------------------------------------------------

    def link(self, source: str, target: str) -> Link:
        """The link, created at its first use, so that a fault can precede the first connection."""
        pair = (source, target)
        if pair not in self._links:
            self._links[pair] = Link(source, target, self.random)
        return self._links[pair]

    def _listen(self, name: str) -> int:
        proxy = self._proxies[name] = Proxy(self, name)
        task = asyncio.get_running_loop().create_task(proxy.run())
        proxy.tasks.add(task)
        return proxy.port

    def _flows(self, links: Iterable[tuple[str, str]], ways: tuple[Way, ...]) -> Iterator[Flow]:
        for pair in links:
            for way in ways or BOTH:
                yield self.link(*pair).flows[way]

    async def _reset(self, links: Iterable[tuple[str, str]]) -> int:
        found = [each.task for pair in list(links) for each in self.link(*pair).connections]
        for task in found:
            task.cancel()
        await asyncio.gather(*found, return_exceptions=True)
        return len(found)

    async def _main(self) -> None:
        self._over = asyncio.Event()
        await self._over.wait()
        tasks = [task for proxy in self._proxies.values() for task in proxy.tasks]
        for task in tasks:
            task.cancel()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        for result in results:
            if isinstance(result, Exception):
                raise result

    def _ended(self, failure: BaseException | None) -> None:
        self.failure = failure

    def _do(self, work: Callable[[], Any]) -> Any:
        async def on_the_loop() -> Any:
            result = work()
            return await result if asyncio.iscoroutine(result) else result

        return self.thread.call(on_the_loop(), CALL_TIMEOUT_S)


def between(some: Iterable[str], others: Iterable[str]) -> list[tuple[str, str]]:
    """The links between two groups, in both directions."""
    others = list(others)
    pairs = [(a, b) for a in some for b in others if a != b]
    return sorted({*pairs, *((b, a) for a, b in pairs)})


def toward(some: Iterable[str], others: Iterable[str]) -> list[tuple[tuple[str, str], Way]]:
    """The links and directions of bytes from `some` to `others`."""
    others = list(others)
    pairs = [(a, b) for a in some for b in others if a != b]
    return [((a, b), Way.OUT) for a, b in pairs] + [((b, a), Way.BACK) for a, b in pairs]
