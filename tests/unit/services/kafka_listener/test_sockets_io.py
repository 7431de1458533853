"""Sockets behind one descriptor of the loop: who is told of what, and when nobody can be let in."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from headrace.services.kafka_listener.sockets_io import Line, Sockets
from kafka_listener_rig import listening
from node_rig import run, until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class Told:
    """An owner that writes down what it is told; fulfils Owner."""

    def __init__(self, sockets: Sockets, near: socket.socket) -> None:
        self.reads = self.writes = 0
        self.on_read: Callable[[], None] = self.take
        self.got = b""
        self.line = Line(sockets, near.detach(), self)

    def readable(self) -> None:
        self.reads += 1
        self.on_read()

    def take(self) -> None:
        room = memoryview(bytearray(100))
        count = self.line.read(room)
        if count:
            self.got += room[:count]
        elif count == 0:
            self.line.want_reading(False)

    def writable(self) -> None:
        self.writes += 1
        self.line.want_writing(False)


class Rig:
    """Some connections, and their far ends."""

    def __init__(self, count: int) -> None:
        self.failures: list[Exception] = []
        self.sockets = Sockets(self._guarded)
        self.sockets.start(asyncio.get_running_loop())
        pairs = [socket.socketpair() for _ in range(count)]
        for near, _ in pairs:
            near.setblocking(False)
        self.far = [far for _, far in pairs]
        self.told = [Told(self.sockets, near) for near, _ in pairs]

    def _guarded(self, action: Callable[..., None], *args: Any) -> None:
        try:
            action(*args)
        except Exception as error:  # noqa: BLE001 -- the test looks
            self.failures.append(error)

    def close(self) -> None:
        for told in self.told:
            told.line.close()
        for far in self.far:
            far.close()
        self.sockets.close()
        assert not self.failures


@contextmanager
def connected(count: int) -> Iterator[Rig]:
    """Both ends, until the end of the block."""
    rig = Rig(count)
    try:
        yield rig
    finally:
        rig.close()


def test_what_is_not_taken_is_told_again() -> None:
    """And nothing while nothing is wanted, also not the end."""

    async def scenario() -> None:
        with connected(2) as rig:
            one, other = rig.told
            rig.far[0].send(b"a" * 250)
            await until(lambda: len(one.got) == 250)
            one.line.want_reading(False)
            rig.far[0].send(b"b")
            rig.far[0].close()
            reads = one.reads
            rig.far[1].send(b"c")
            await until(lambda: other.got == b"c")
            assert one.reads == reads
            one.line.want_reading(True)
            await until(lambda: one.got.endswith(b"b") and not one.line.wanted)
            assert other.writes == one.writes == 0

    run(scenario)


def test_who_waits_to_write_is_told_alone_of_that() -> None:
    """Reading is another matter."""

    async def scenario() -> None:
        with connected(1) as rig:
            (one,) = rig.told
            one.line.want_reading(False)
            rig.far[0].send(b"x")
            one.line.want_writing(True)
            await until(lambda: one.writes == 1)
            assert one.reads == 0
            one.line.want_reading(True)
            await until(lambda: one.got == b"x")
            assert one.writes == 1

    run(scenario)


def test_who_was_closed_by_another_is_not_told() -> None:
    """Of two that can be read at once, the first one closes the second one, and its place is given away."""

    async def scenario() -> None:
        with connected(2) as rig:
            for one, other in (rig.told, rig.told[::-1]):
                one.on_read = other.line.close
            for far in rig.far:
                far.send(b"x")
            await until(lambda: any(told.line.is_closed for told in rig.told))
            assert sum(told.reads > 0 for told in rig.told) == 1
            assert sum(told.line.is_closed for told in rig.told) == 1

    run(scenario)


def test_all_who_wait_are_let_in() -> None:
    """However many came at once."""

    async def scenario() -> None:
        async with listening() as rig:
            clients = [socket.create_connection(("127.0.0.1", rig.port)) for _ in range(200)]
            try:
                await until(lambda: rig.listener.status()["connections"] == 200)
            finally:
                for client in clients:
                    client.close()
            await until(lambda: rig.listener.status()["connections"] == 0)

    run(scenario)


def test_without_descriptors_the_others_wait() -> None:
    """They are let in when there are some again, and the loop does not run in circles meanwhile."""

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

    async def scenario() -> None:
        with connected(0) as rig, socket.create_server(("127.0.0.1", 0)) as real:
            real.setblocking(False)
            server: Any = Exhausted(real)
            taken: list[int] = []
            rig.sockets.listen(server, lambda descriptor, _far: taken.append(descriptor))
            with socket.create_connection(real.getsockname()):
                await until(lambda: bool(taken))
            assert server.asked == 4  # the last one finds nobody
            assert not os.get_blocking(taken[0])
            os.close(taken[0])

    run(scenario)
