"""An event loop on a thread: results, failures and ends reach whoever waits for them."""

from __future__ import annotations

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


def test_call_gives_the_result_or_the_error(loop_thread: LoopThread) -> None:
    """A coroutine runs on the loop; what it returns or raises comes back."""
    assert loop_thread.call(value_of(5), WAIT_S) == 5
    with pytest.raises(ValueError, match="on purpose"):
        loop_thread.call(fail(), WAIT_S)


def test_call_does_not_wait_longer_than_told(loop_thread: LoopThread) -> None:
    """A coroutine that never ends costs the caller only its timeout."""
    with pytest.raises(TimeoutError):
        loop_thread.call(never(), 0.01)


def test_a_clean_end_is_told(owner: Owner, loop_thread: LoopThread) -> None:
    """`main` returned: the owner hears of no failure, and nothing runs any more."""
    loop_thread.wake(owner.closing.set)
    assert owner.ended.wait(WAIT_S)
    assert owner.failure is None
    assert loop_thread.has_ended
    with pytest.raises(ClosedError):
        loop_thread.call(value_of(1), WAIT_S)
    loop_thread.wake(owner.closing.set)  # too late, and harmless


def test_a_failure_is_told(owner: Owner) -> None:
    """`main` raised: the owner gets the very exception."""
    thread = LoopThread("test", fail, owner.on_end)
    thread.start()
    assert owner.ended.wait(WAIT_S)
    assert isinstance(owner.failure, ValueError)
    assert thread.join(WAIT_S)


def test_the_end_answers_whoever_still_waits(owner: Owner, loop_thread: LoopThread) -> None:
    """A call under way when the loop ends gets ClosedError instead of waiting for ever."""
    waiting = loop_thread.submit(never())
    loop_thread.wake(owner.closing.set)
    assert owner.ended.wait(WAIT_S)
    assert waiting.cancelled()
