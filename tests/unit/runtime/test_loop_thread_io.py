"""An event loop on a thread: results, failures and ends reach their waiters."""

import asyncio
import threading
from collections.abc import Iterator

import pytest
from headrace.protocol.errors import ClosedError
from headrace.runtime.loop_thread_io import LoopThread

WAIT_S = 60.0


class Owner:
    """Remembers how the loop ended."""

    def __init__(self) -> None:
        self.failure: BaseException | None = None
        self.ended = threading.Event()
        self.closing = asyncio.Event()
        self.started = threading.Event()

    async def main(self) -> None:
        self.started.set()
        await self.closing.wait()

    def on_end(self, failure: BaseException | None) -> None:
        self.failure = failure
        self.ended.set()


@pytest.fixture
def owner() -> Owner:
    return Owner()


@pytest.fixture
def loop_thread(owner: Owner) -> Iterator[LoopThread]:
    thread = LoopThread("test", owner.main, owner.on_end)
    thread.start()
    assert owner.started.wait(WAIT_S)
    yield thread
    thread.wake(owner.closing.set)
    assert thread.join(WAIT_S)


async def value_of(value: int) -> int:
    return value


async def fail() -> None:
    raise ValueError("on purpose")


async def never() -> None:
    await asyncio.Event().wait()


def test_call_returns_the_result_or_raises(loop_thread: LoopThread) -> None:
    assert loop_thread.call(value_of(5), WAIT_S) == 5
    with pytest.raises(ValueError, match="on purpose"):
        loop_thread.call(fail(), WAIT_S)


def test_call_raises_after_its_timeout(loop_thread: LoopThread) -> None:
    """The coroutine never ends."""
    with pytest.raises(TimeoutError):
        loop_thread.call(never(), 0.01)


def test_owner_is_notified_of_a_clean_end(owner: Owner, loop_thread: LoopThread) -> None:
    """`main` returned: no failure is reported, and nothing runs any more."""
    loop_thread.wake(owner.closing.set)
    assert owner.ended.wait(WAIT_S)
    assert owner.failure is None
    assert loop_thread.has_ended
    with pytest.raises(ClosedError):
        loop_thread.call(value_of(1), WAIT_S)
    loop_thread.wake(owner.closing.set)  # too late, and harmless


def test_owner_is_notified_of_a_failure(owner: Owner) -> None:
    """With the exception that `main` raised."""
    thread = LoopThread("test", fail, owner.on_end)
    thread.start()
    assert owner.ended.wait(WAIT_S)
    assert isinstance(owner.failure, ValueError)
    assert thread.join(WAIT_S)


def test_calls_in_flight_raise_closed_error(owner: Owner, loop_thread: LoopThread) -> None:
    """The loop has ended."""
    waiting = loop_thread.submit(never())
    loop_thread.wake(owner.closing.set)
    assert owner.ended.wait(WAIT_S)
    assert waiting.cancelled()
