"""Many connections of Kafka clients: idle ones, and clients that connect, send requests and disconnect.

Bare sockets and encoded frames, so that one process handles thousands of connections per second.
"""

from __future__ import annotations

import contextlib
import select
import socket
import ssl
import time
from typing import TYPE_CHECKING, Any, Self

from headrace.runtime.waiting_io import let_pass
from headrace.services.bench.histogram import Histogram
from headrace.services.bench.pacing import Schedule
from headrace.services.bench.pacing_io import now_ns

from .frames import Requests, call, frame, frame_and_response_size
from .latency import summary

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..worker import Clock

CONNECT_TIMEOUT_S = 30.0
END_TIMEOUT_S = 20.0
CHECK_AFTER_S = 0.5
POLL_S = 0.05
NS_PER_S = 1_000_000_000
_BIND_ADDRESS_NO_PORT = 24  # Linux: the port is chosen when the peer is known
Frames = list[tuple[bytes, int]]  # each with the size of its response


def idle(spec: dict[str, Any], clock: Clock) -> dict[str, Any]:
    """`count` connections with the first requests of a client, then idle; all must respond at the end."""
    address = _address(spec)
    requests = Requests(spec["topic"])
    hello, metadata = (frame(request) for request, _ in (requests.hello, requests.metadata))
    with contextlib.ExitStack() as stack:
        connections = []
        for _ in range(spec["count"]):
            one = stack.enter_context(socket.create_connection(address, CONNECT_TIMEOUT_S))
            call(one, hello)
            call(one, metadata)
            connections.append(one)
        clock.ready()
        clock.start()
        let_pass(spec["warm_s"] + spec["seconds"] + CHECK_AFTER_S)
        found = clock.stop()
        for one in connections:
            call(one, metadata)
        return {**found, "alive": len(connections)}


def churn(spec: dict[str, Any], clock: Clock) -> dict[str, Any]:
    """`count` clients that connect, send ApiVersions and Metadata, produce or fetch one record, disconnect.

    Each connects again at once, or all of them together `pace` times per second. Visits in the last `seconds`
    are counted and timed; `produced` counts the records of all visits.
    With `ca_file` they use TLS, with a full handshake each time.
    Errors: RuntimeError for a response of another size than a correct one.
    """
    requests = Requests(spec["topic"])
    context = ssl.create_default_context(cafile=spec["ca_file"]) if "ca_file" in spec else None
    with _first_connection(_address(spec), context) as first:
        known = {
            name: frame_and_response_size(first, *getattr(requests, name))
            for name in ("hello", "metadata", "produce", "fetch")
        }
    sequences = [[known["hello"], known["metadata"], known[last]] for last in ("produce", "fetch")]
    clock.ready()
    clock.start()
    begun = now_ns()
    timed_from_ns = begun + int(spec["warm_s"] * NS_PER_S)
    ends_ns = timed_from_ns + int(spec["seconds"] * NS_PER_S)
    schedule = Schedule(spec["pace"], begun) if "pace" in spec else None
    transport = Transport() if context is None else TlsTransport(context)
    with Visitors(_address(spec), sequences, spec["count"], timed_from_ns, transport) as visitors:
        visitors.run(lambda: now_ns() >= ends_ns, schedule)
    found = clock.stop()
    return {**found, "visits": visitors.times.count, "all_visits": sum(visitors.finished),
            "visit": summary(visitors.times), "timed_s": spec["seconds"],
            "produced": (visitors.finished[0] + 1) * requests.records}  # fmt: skip


class _Visit:
    """One connection, and its next request."""

    __slots__ = ("begun_ns", "frames", "left", "sequence", "slot", "socket", "step")

    def __init__(self, slot: int, sequence: int, frames: Frames, begun_ns: int) -> None:
        self.slot, self.sequence, self.frames, self.begun_ns = slot, sequence, frames, begun_ns
        self.step, self.left = -1, 0
        self.socket = socket.socket()


def _first_connection(address: tuple[str, int], context: ssl.SSLContext | None) -> socket.socket:
    connection = socket.create_connection(address, CONNECT_TIMEOUT_S)
    return connection if context is None else context.wrap_socket(connection, server_hostname=address[0])


class Transport:
    """Of connections without encryption."""

    def opened(self, visit: _Visit) -> int:
        """Go on to open a connection: the event to wait for, 0 when it is open. Errors: ConnectionError."""
        error = visit.socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if error:
            raise ConnectionError(error, "the server refused a connection")
        return 0

    def received(self, visit: _Visit) -> bytes | None:
        """Bytes, b"" at the end, None if there are none yet."""
        return visit.socket.recv(1 << 16)


class TlsTransport(Transport):
    """The same with TLS: sockets become those of the context."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self._context = context

    def opened(self, visit: _Visit) -> int:
        if not isinstance(visit.socket, ssl.SSLSocket):
            super().opened(visit)
            host = visit.socket.getpeername()[0]
            visit.socket = self._context.wrap_socket(
                visit.socket, server_hostname=host, do_handshake_on_connect=False
            )
        try:
            visit.socket.do_handshake()
        except ssl.SSLWantReadError:
            return select.EPOLLIN
        except ssl.SSLWantWriteError:
            return select.EPOLLOUT
        return 0

    def received(self, visit: _Visit) -> bytes | None:
        """As `Transport.received`; a session ticket is no data."""
        try:
            return super().received(visit)
        except ssl.SSLWantReadError:
            return None


class Visitors:
    """At most `count` visits at a time in one loop; those that end after `timed_from_ns` are timed.

    `finished`: completed visits of each of `sequences`. As a context it closes open connections.
    """

    def __init__(
        self,
        address: tuple[str, int],
        sequences: list[Frames],
        count: int,
        timed_from_ns: int,
        transport: Transport,
    ) -> None:
        self._address, self._sequences, self._timed_from_ns = address, sequences, timed_from_ns
        self._transport = transport
        self._poll = select.epoll()
        self._visits: dict[int, _Visit] = {}
        self._free = list(range(count))
        self._begun = 0
        self._is_over = False
        self.times = Histogram()
        self.finished = [0] * len(sequences)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        for visit in self._visits.values():
            visit.socket.close()
        self._poll.close()

    def run(self, is_over: Callable[[], bool], schedule: Schedule | None = None) -> None:
        """Visit again and again until `is_over`, at once or by the `schedule`.

        A visit that waits for a free client counts as late. Visits open at the end are completed, and not
        timed. Errors: ConnectionError, RuntimeError, TimeoutError.
        """
        while not is_over():
            wait_s = self._begin_all() if schedule is None else self._begin_due(schedule)
            self._serve(wait_s)
        self._is_over = True
        ends_at = time.monotonic() + END_TIMEOUT_S
        while self._visits:
            if time.monotonic() > ends_at:
                raise TimeoutError(
                    f"{len(self._visits)} connections got no response in {END_TIMEOUT_S:.0f} s"
                )
            self._serve(POLL_S)

    def _begin_all(self) -> float:
        """The timeout of the next poll, in seconds."""
        now = now_ns()
        while self._free:
            self._begin(now)
        return POLL_S

    def _begin_due(self, schedule: Schedule) -> float:
        due = schedule.due(now_ns())
        while self._free and self._begun < due:
            self._begin(schedule.intended_ns(self._begun))
        if not self._free:
            return POLL_S
        return min(max((schedule.intended_ns(self._begun) - now_ns()) / NS_PER_S, 0.0), POLL_S)

    def _begin(self, begun_ns: int) -> None:
        slot = self._free.pop()
        sequence = self._begun % len(self._sequences)
        self._begun += 1
        visit = _Visit(slot, sequence, self._sequences[sequence], begun_ns)
        connection = visit.socket
        connection.setblocking(False)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # an address per client: connections in TIME_WAIT would use up the ports of a single one
        connection.setsockopt(socket.IPPROTO_IP, _BIND_ADDRESS_NO_PORT, 1)
        connection.bind((f"127.0.{1 + slot // 250}.{1 + slot % 250}", 0))
        connection.connect_ex(self._address)
        self._visits[connection.fileno()] = visit
        self._poll.register(connection.fileno(), select.EPOLLOUT)

    def _serve(self, timeout_s: float) -> None:
        for fd, _ in self._poll.poll(timeout_s):
            visit = self._visits[fd]
            if visit.step < 0:
                event = self._transport.opened(visit)
                self._poll.modify(fd, event or select.EPOLLIN)
                if event:
                    continue
            else:
                data = self._transport.received(visit)
                if data is None:
                    continue
                if not data:
                    raise ConnectionError("the server closed a connection")
                visit.left -= len(data)
                if visit.left < 0:
                    raise RuntimeError(f"a response is {-visit.left} bytes longer than a correct one")
                if visit.left:
                    continue
            visit.step += 1
            if visit.step == len(visit.frames):
                self._end(fd, visit)
            else:
                request, visit.left = visit.frames[visit.step]
                visit.socket.send(request)

    def _end(self, fd: int, visit: _Visit) -> None:
        self._poll.unregister(fd)
        del self._visits[fd]
        visit.socket.close()
        self._free.append(visit.slot)
        self.finished[visit.sequence] += 1
        now = now_ns()
        if now >= self._timed_from_ns and not self._is_over:
            self.times.record(now - visit.begun_ns)


def _address(spec: dict[str, Any]) -> tuple[str, int]:
    host, _, port = spec["bootstrap"].partition(",")[0].rpartition(":")
    return host, int(port)
