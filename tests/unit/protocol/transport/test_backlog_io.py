"""Requests wait in order and within bounds."""

import asyncio

import pytest
from headrace.protocol.messages.registry import METADATA
from headrace.protocol.transport.backlog_io import Backlog, ConnectionOptions, ConnectionRequest


def request(number: int, size: int = 1) -> ConnectionRequest:
    return ConnectionRequest(
        asyncio.get_running_loop().create_future(), METADATA, number, [], size, expect_reply=True
    )


def backlog(**options: int) -> Backlog:
    return Backlog(asyncio.get_running_loop(), ConnectionOptions(**options))


async def test_requests_leave_in_order_until_the_wire_is_full() -> None:
    """Five messages wait and the socket takes two: the first two are sent, the rest keeps its order."""
    queue, sent = backlog(), []
    for number in range(5):
        assert queue.append(request(number))
    queue.flush(lambda item: len(sent) < 2 and (sent.append(item.correlation_id) is None))
    assert sent == [0, 1]
    queue.flush(lambda item: sent.append(item.correlation_id) is None)
    assert sent == [0, 1, 2, 3, 4]
    assert len(queue) == 0


async def test_a_caller_that_gave_up_is_skipped() -> None:
    """Cancelled before it was sent: it is never sent."""
    queue, sent = backlog(), []
    given_up = request(1)
    for item in (request(0), given_up, request(2)):
        queue.append(item)
    given_up.recipient.cancel()
    queue.flush(lambda item: sent.append(item.correlation_id) is None)
    assert sent == [0, 2]


@pytest.mark.parametrize("options", [{"max_backlog_requests": 2}, {"max_backlog_bytes": 20}])
async def test_a_full_backlog_refuses_until_there_is_room(options: dict[str, int]) -> None:
    """Two requests of 10 bytes fill the backlog, by number or by bytes; a waiter continues when one is
    sent."""
    queue = backlog(**options)
    assert queue.append(request(0, 10))
    assert queue.append(request(1, 10))
    assert queue.is_full
    assert not queue.append(request(2, 10))
    waiting = asyncio.ensure_future(queue.has_room())
    await asyncio.sleep(0)
    assert not waiting.done()
    taken: list[int] = []
    queue.flush(lambda item: not taken and taken.append(item.correlation_id) is None)
    await waiting
    assert queue.append(request(2, 10))


async def test_a_request_larger_than_the_limit_can_wait() -> None:
    """Bytes are checked before, not after: otherwise it could never be sent."""
    assert backlog(max_backlog_bytes=20).append(request(0, 1000))


async def test_clearing_gives_back_everything_and_wakes_waiters() -> None:
    """After the connection is lost, a sender that waits for room gets the error from its next send."""
    queue = backlog(max_backlog_requests=1)
    item = request(0)
    queue.append(item)
    waiting = asyncio.ensure_future(queue.has_room())
    await asyncio.sleep(0)
    assert queue.clear() == [item]
    await waiting
    assert len(queue) == 0
