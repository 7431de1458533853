"""Sockets behind one epoll descriptor: readiness callbacks, accepting, and running out of descriptors."""

import asyncio
import errno
import os
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from headrace.services.kafka_listener.sockets_io import PolledSocket, Sockets
from kafka_listener_rig import ListenerRig
from node_rig import until


class Recorder:
    """Fulfils Owner and counts its calls."""

    def __init__(self, sockets: Sockets, near: socket.socket) -> None:
        self.reads = self.writes = 0
        self.on_read: Callable[[], None] = self.take
        self.got = b""
        self.socket = PolledSocket(sockets, near.detach(), self)

    def readable(self) -> None:
        self.reads += 1
        self.on_read()

    def take(self) -> None:
        room = memoryview(bytearray(100))
        count = self.socket.read(room)
        if count:
            self.got += room[:count]
        elif count == 0:
            self.socket.set_reading(False)

    def writable(self) -> None:
        self.writes += 1
        self.socket.set_writing(False)


class Rig:
    """Connections and their remote ends."""

    def __init__(self, count: int) -> None:
        self.failures: list[Exception] = []
        self.sockets = Sockets(self._guarded)
        self.sockets.start(asyncio.get_running_loop())
        pairs = [socket.socketpair() for _ in range(count)]
        for near, _ in pairs:
            near.setblocking(False)
        self.far = [far for _, far in pairs]
        self.recorders = [Recorder(self.sockets, near) for near, _ in pairs]

    def _guarded(self, action: Callable[..., None], *args: Any) -> None:
        try:
            action(*args)
        except Exception as error:  # noqa: BLE001 -- the test looks
            self.failures.append(error)

    def close(self) -> None:
        for each in self.recorders:
            each.socket.close()
        for far in self.far:
            far.close()
        self.sockets.close()
        assert not self.failures


@contextmanager
def connected(count: int) -> Iterator[Rig]:
    """Open until the end of the block."""
    rig = Rig(count)
    try:
        yield rig
    finally:
        rig.close()


async def test_readiness_is_level_triggered() -> None:
    """Without polled events nothing is reported, also not the end of the stream."""
    with connected(2) as rig:
        one, other = rig.recorders
        rig.far[0].send(b"a" * 250)
        await until(lambda: len(one.got) == 250)
        one.socket.set_reading(False)
        rig.far[0].send(b"b")
        rig.far[0].close()
        reads = one.reads
        rig.far[1].send(b"c")
        await until(lambda: other.got == b"c")
        assert one.reads == reads
        one.socket.set_reading(True)
        await until(lambda: one.got.endswith(b"b") and not one.socket.events)
        assert other.writes == one.writes == 0


async def test_writability_alone_is_reported() -> None:
    """Reading is switched separately."""
    with connected(1) as rig:
        (one,) = rig.recorders
        one.socket.set_reading(False)
        rig.far[0].send(b"x")
        one.socket.set_writing(True)
        await until(lambda: one.writes == 1)
        assert one.reads == 0
        one.socket.set_reading(True)
        await until(lambda: one.got == b"x")
        assert one.writes == 1


async def test_a_socket_closed_by_an_earlier_event_is_not_notified() -> None:
    """Two are readable, and the first one closes the second one."""
    with connected(2) as rig:
        for one, other in (rig.recorders, rig.recorders[::-1]):
            one.on_read = other.socket.close
        for far in rig.far:
            far.send(b"x")
        await until(lambda: any(each.socket.is_closed for each in rig.recorders))
        assert sum(each.reads > 0 for each in rig.recorders) == 1
        assert sum(each.socket.is_closed for each in rig.recorders) == 1


async def test_all_waiting_connections_are_accepted(rig: ListenerRig) -> None:
    """200 connect at once."""
    clients = [socket.create_connection(("127.0.0.1", rig.port)) for _ in range(200)]
    try:
        await until(lambda: rig.listener.status()["connections"] == 200)
    finally:
        for client in clients:
            client.close()
    await until(lambda: rig.listener.status()["connections"] == 0)


async def test_accepting_pauses_without_free_descriptors() -> None:
    """It resumes later, and the loop does not spin meanwhile."""

    class Exhausted:
        """A listening socket of a process that has no descriptors for a while."""

        def __init__(self, real: socket.socket) -> None:
            self.real, self.refusals = real, 2
            self.asked = 0

        def fileno(self) -> int:
            return self.real.fileno()

        def close(self) -> None:
            self.real.close()

        def _accept(self) -> Any:
            self.asked += 1
            if self.refusals:
                self.refusals -= 1
                raise OSError(errno.EMFILE, "too many open files")
            return self.real._accept()  # type: ignore[attr-defined]

    with connected(0) as rig, socket.create_server(("127.0.0.1", 0)) as real:
        real.setblocking(False)
        server: Any = Exhausted(real)
        taken: list[int] = []
        rig.sockets.listen(server, lambda descriptor, _far: taken.append(descriptor) is None)
        with socket.create_connection(real.getsockname()):
            await until(lambda: bool(taken))
        assert server.asked == 4  # the last lookup finds no controller
        assert not os.get_blocking(taken[0])
        os.close(taken[0])
