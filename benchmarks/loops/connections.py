"""Many connections of Kafka's clients: idle ones that stay, and ones that come, ask and go, over and over.

Bare sockets and ready frames, so that one process makes thousands a second.
"""

from __future__ import annotations

import contextlib
import select
import socket
import time
from typing import TYPE_CHECKING, Any, Self

from headrace.runtime.waiting_io import let_pass
from headrace.services.bench.histogram import Histogram
from headrace.services.bench.pacing import Schedule
from headrace.services.bench.pacing_io import now_ns

from .frames import Requests, ask, frame, right_size
from .latency import summary

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..worker import Clock

CONNECT_TIMEOUT_S = 30.0
PATIENCE_S = 20.0
CHECK_AFTER_S = 0.5
MOST_WAIT_S = 0.05
SECOND = 1_000_000_000
_BIND_ADDRESS_NO_PORT = 24  # Linux: the port is chosen when the other end is known
Frames = list[tuple[bytes, int]]  # each with the size of its answer


def idle(spec: dict[str, Any], clock: Clock) -> dict[str, Any]:
    """`count` connections that have asked what every client asks first, and stay; all must be alive then."""
    address = _address(spec)
    requests = Requests(spec["topic"])
    hello, metadata = (frame(request) for request, _ in (requests.hello, requests.metadata))
    with contextlib.ExitStack() as open_ones:
        connections = []
        for _ in range(spec["count"]):
            one = open_ones.enter_context(socket.create_connection(address, CONNECT_TIMEOUT_S))
            ask(one, hello)
            ask(one, metadata)
            connections.append(one)
        clock.ready()
        clock.start()
        let_pass(spec["warm_s"] + spec["seconds"] + CHECK_AFTER_S)
        found = clock.stop()
        for one in connections:
            ask(one, metadata)
        return {**found, "alive": len(connections)}


def churn(spec: dict[str, Any], clock: Clock) -> dict[str, Any]:
    """`count` clients that connect, ask what the server can and where the topic is, produce or fetch one
    record, and disconnect; each begins again at once, or all together `pace` times a second.

    The visits of the last `seconds` are counted and timed; `produced` are the records of all of them.
    Errors: RuntimeError for an answer that is not as long as the right one.
    """
    requests = Requests(spec["topic"])
    with socket.create_connection(_address(spec), CONNECT_TIMEOUT_S) as first:
        known = {
            name: right_size(first, *getattr(requests, name))
            for name in ("hello", "metadata", "produce", "fetch")
        }
    ways = [[known["hello"], known["metadata"], known[last]] for last in ("produce", "fetch")]
    clock.ready()
    clock.start()
    begun = now_ns()
    timed_from_ns = begun + int(spec["warm_s"] * SECOND)
    ends_ns = timed_from_ns + int(spec["seconds"] * SECOND)
    schedule = Schedule(spec["pace"], begun) if "pace" in spec else None
    with Crowd(_address(spec), ways, spec["count"], timed_from_ns) as crowd:
        crowd.run(lambda: now_ns() >= ends_ns, schedule)
    found = clock.stop()
    return {**found, "visits": crowd.times.count, "all_visits": sum(crowd.finished),
            "visit": summary(crowd.times), "timed_s": spec["seconds"],
            "produced": (crowd.finished[0] + 1) * requests.records}  # fmt: skip


class _Visit:
    """One connection on its way."""

    __slots__ = ("begun_ns", "frames", "left", "slot", "socket", "step", "way")

    def __init__(self, slot: int, way: int, frames: Frames, begun_ns: int) -> None:
        self.slot, self.way, self.frames, self.begun_ns = slot, way, frames, begun_ns
        self.step, self.left = -1, 0
        self.socket = socket.socket()


class Crowd:
    """At most `count` visits at a time, by one loop; those that end after `timed_from_ns` are timed.

    `finished`: how many of each way have come to their end. As a context it closes what is left.
    """

    def __init__(self, address: tuple[str, int], ways: list[Frames], count: int, timed_from_ns: int) -> None:
        self._address, self._ways, self._timed_from_ns = address, ways, timed_from_ns
        self._poll = select.epoll()
        self._visits: dict[int, _Visit] = {}
        self._free = list(range(count))
        self._begun = 0
        self._is_over = False
        self.times = Histogram()
        self.finished = [0] * len(ways)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        for visit in self._visits.values():
            visit.socket.close()
        self._poll.close()

    def run(self, is_over: Callable[[], bool], schedule: Schedule | None = None) -> None:
        """Whoever is through begins again until `is_over`, at once or when the next visit is due: what has to
        wait for a free client counts as late. Those on their way then are waited for, and not timed.

        Errors: ConnectionError, RuntimeError, TimeoutError.
        """
        while not is_over():
            wait_s = self._begin_all() if schedule is None else self._begin_due(schedule)
            self._serve(wait_s)
        self._is_over = True
        ends_at = time.monotonic() + PATIENCE_S
        while self._visits:
            if time.monotonic() > ends_at:
                raise TimeoutError(f"{len(self._visits)} connections got no answer in {PATIENCE_S:.0f} s")
            self._serve(MOST_WAIT_S)

    def _begin_all(self) -> float:
        """How long to wait then at most, in seconds."""
        now = now_ns()
        while self._free:
            self._begin(now)
        return MOST_WAIT_S

    def _begin_due(self, schedule: Schedule) -> float:
        due = schedule.due(now_ns())
        while self._free and self._begun < due:
            self._begin(schedule.intended_ns(self._begun))
        if not self._free:
            return MOST_WAIT_S
        return min(max((schedule.intended_ns(self._begun) - now_ns()) / SECOND, 0.0), MOST_WAIT_S)

    def _begin(self, begun_ns: int) -> None:
        slot = self._free.pop()
        way = self._begun % len(self._ways)
        self._begun += 1
        visit = _Visit(slot, way, self._ways[way], begun_ns)
        connection = visit.socket
        connection.setblocking(False)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # an address for each client: the ports of one would be used up by those that wait out their end
        connection.setsockopt(socket.IPPROTO_IP, _BIND_ADDRESS_NO_PORT, 1)
        connection.bind((f"127.0.{1 + slot // 250}.{1 + slot % 250}", 0))
        connection.connect_ex(self._address)
        self._visits[connection.fileno()] = visit
        self._poll.register(connection.fileno(), select.EPOLLOUT)

    def _serve(self, timeout_s: float) -> None:
        for fd, _ in self._poll.poll(timeout_s):
            visit = self._visits[fd]
            if visit.step < 0:
                error = visit.socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
                if error:
                    raise ConnectionError(error, "the server does not take a connection")
                self._poll.modify(fd, select.EPOLLIN)
            else:
                data = visit.socket.recv(1 << 16)
                if not data:
                    raise ConnectionError("the server closed a connection")
                visit.left -= len(data)
                if visit.left < 0:
                    raise RuntimeError(f"an answer is {-visit.left} bytes longer than the right one")
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
        self.finished[visit.way] += 1
        now = now_ns()
        if now >= self._timed_from_ns and not self._is_over:
            self.times.record(now - visit.begun_ns)


def _address(spec: dict[str, Any]) -> tuple[str, int]:
    host, _, port = spec["bootstrap"].partition(",")[0].rpartition(":")
    return host, int(port)
