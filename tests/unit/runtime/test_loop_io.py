"""New event loops."""

from __future__ import annotations

import asyncio
import select
import socket
from collections.abc import Callable

import pytest
from headrace.runtime.loop_io import new_event_loop, work_descriptor


def test_each_call_gives_a_fresh_loop_that_runs() -> None:
    """Two loops, independent, and neither is left as the current one."""
    first, second = new_event_loop(), new_event_loop()
    try:
        assert first is not second
        assert first.run_until_complete(asyncio.sleep(0, "done")) == "done"
        assert second.run_until_complete(asyncio.sleep(0, "done")) == "done"
    finally:
        first.close()
        second.close()


def test_uvloop_is_used_where_it_is_installed() -> None:
    """The tests' environment has uvloop, so that is what runs."""
    loop = new_event_loop()
    loop.close()
    assert type(loop).__module__.startswith("uvloop")


@pytest.mark.parametrize("make", [new_event_loop, asyncio.SelectorEventLoop])
def test_the_descriptor_tells_that_something_waits_for_the_loop(
    make: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    """Readable from the moment that there is something to read until the loop has taken it."""
    loop = make()
    ours, theirs = socket.socketpair()

    def is_readable() -> bool:
        descriptor = work_descriptor(loop)
        assert descriptor is not None
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        return bool(poll.poll(0))

    taken: list[bytes] = []
    loop.add_reader(ours.fileno(), lambda: taken.append(ours.recv(1)))
    loop.run_until_complete(asyncio.sleep(0))
    assert not is_readable()
    theirs.send(b"x")
    assert is_readable()
    while not taken:
        loop.run_until_complete(asyncio.sleep(0))
    assert not is_readable()
    loop.remove_reader(ours.fileno())
    ours.close()
    theirs.close()
    loop.close()
