"""New event loops."""

import asyncio
import select
import socket
from collections.abc import Callable

import pytest
from headrace.runtime.loop_io import new_event_loop, work_descriptor


def test_each_call_returns_a_new_loop() -> None:
    """Neither is left as the current one."""
    first, second = new_event_loop(), new_event_loop()
    try:
        assert first is not second
        assert first.run_until_complete(asyncio.sleep(0, "done")) == "done"
        assert second.run_until_complete(asyncio.sleep(0, "done")) == "done"
    finally:
        first.close()
        second.close()


def test_uvloop_is_used_if_installed() -> None:
    """As in the tests' environment."""
    loop = new_event_loop()
    loop.close()
    assert type(loop).__module__.startswith("uvloop")


@pytest.mark.parametrize("make", [new_event_loop, asyncio.SelectorEventLoop])
def test_work_descriptor_is_readable_while_events_are_pending(
    make: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    """Until the loop has handled them."""
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
