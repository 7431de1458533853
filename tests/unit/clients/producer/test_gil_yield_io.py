"""Yields of the GIL: the IO thread runs although another thread is busy, which waits for nothing else."""

import asyncio
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from headrace.clients.producer import gil_yield_io
from headrace.clients.producer.gil_yield_io import STEPS, GilYield, Turn
from headrace.runtime.loop_io import new_event_loop, work_descriptor

NEVER_S = 3600.0


@pytest.fixture
def no_switch(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The interpreter never takes the GIL from a thread: another thread runs only after a yield."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(NEVER_S)
    monkeypatch.setattr(gil_yield_io, "LONGEST_S", 60)
    yield
    sys.setswitchinterval(before)


@pytest.fixture(params=[new_event_loop, asyncio.SelectorEventLoop], ids=["uvloop", "asyncio"])
def loop(request: pytest.FixtureRequest) -> Iterator[asyncio.AbstractEventLoop]:
    """A loop that runs in another thread."""
    made: asyncio.AbstractEventLoop = request.param()
    thread = threading.Thread(target=made.run_forever)
    thread.start()
    yield made
    made.call_soon_threadsafe(made.stop)
    thread.join()
    made.close()


def on(loop: asyncio.AbstractEventLoop, work: Callable[..., Any], *arguments: Any) -> None:
    """Run it on the loop, and wait until that is done."""

    async def run() -> None:
        work(*arguments)

    asyncio.run_coroutine_threadsafe(run(), loop).result(60)


@pytest.mark.usefixtures("no_switch")
def test_loop_with_a_readable_descriptor_runs_within_some_steps(loop: asyncio.AbstractEventLoop) -> None:
    """The switch interval is an hour: without yields the loop would not read it."""
    ours, theirs = socket.socketpair()
    seen: list[int] = []

    def see() -> None:
        # no read here: a system call would let the other thread run before this one has finished
        seen.append(ours.fileno())
        loop.remove_reader(ours.fileno())

    on(loop, loop.add_reader, ours.fileno(), see)
    way = GilYield(loop, Turn(threading.Lock()))
    theirs.send(b"x")
    for _ in range(2 * STEPS):  # a round that had begun may be over before it comes to this
        way.step()
    assert seen == [ours.fileno()]
    ours.close()
    theirs.close()


@pytest.mark.usefixtures("no_switch")
def test_a_loop_that_waits_for_the_lock_gets_it_at_the_next_step(loop: asyncio.AbstractEventLoop) -> None:
    """No descriptor is readable, but the loop waits for the lock that the other thread had."""
    lock = threading.Lock()
    turn = Turn(lock)
    way = GilYield(loop, turn)
    waits, taken = threading.Event(), threading.Event()

    def take() -> None:
        waits.set()
        with turn:
            taken.set()

    lock.acquire()
    loop.call_soon_threadsafe(take)
    waits.wait(60)
    lock.release()
    way.step()
    assert taken.is_set()
    assert not turn.is_waiting


@pytest.mark.parametrize("make", [new_event_loop, asyncio.SelectorEventLoop])
def test_no_yield_to_an_idle_loop(
    make: Callable[[], asyncio.AbstractEventLoop], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A step costs one poll of a descriptor."""
    loop = make()
    way = GilYield(loop, Turn(threading.Lock()))
    monkeypatch.setattr(way, "_yield", lambda: pytest.fail("the loop was idle"))
    for _ in range(10 * STEPS):
        way.step()
    loop.close()


def test_steps_after_the_end_of_the_loop() -> None:
    """A producer is used after its loop has ended; the error is raised elsewhere."""
    loop = new_event_loop()
    turn = Turn(threading.Lock())
    way = GilYield(loop, turn)
    loop.close()
    turn.is_waiting = True
    for _ in range(2 * STEPS):
        way.step()


def test_no_yield_to_a_loop_without_a_descriptor() -> None:
    """A loop of another kind."""

    class Other:
        pass

    loop: Any = Other()
    assert work_descriptor(loop) is None
    way = GilYield(loop, Turn(threading.Lock()))
    for _ in range(2 * STEPS):
        way.step()
