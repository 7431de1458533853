"""Events that are written to the connections of several tails at once."""

import asyncio
from typing import Any, cast

from headrace.services.rest.restrictions import MaskedRecords
from headrace.services.rest.topic_tail import (
    PART_BYTES,
    Audience,
    Event,
    Follower,
    Position,
    TailSettings,
    TopicTail,
)
from headrace.services.web.calls_io import chunk_of

EVENTS = [Event(0, 5, b"data: a\n\n"), Event(1, 0, b"data: b\n\n"), Event(0, 6, b"data: c\n\n")]
TEXT = b"id: 0:6,1:0\ndata: a\n\nid: 0:6,1:1\ndata: b\n\nid: 0:7,1:1\ndata: c\n\n"


class Client:
    """Gets chunks; it takes so many of them."""

    def __init__(self, room: int = 1000) -> None:
        self.chunks: list[bytes] = []
        self._room = room

    def write(self, chunk: bytes) -> bool:
        if len(self.chunks) == self._room:
            return False
        self.chunks.append(chunk)
        return True


def joined(audience: Audience, client: Client) -> Follower:
    follower = Follower(Position({0: 5, 1: 0}), client.write)
    audience.followers[follower] = None
    return follower


async def test_events_are_made_once() -> None:
    """All clients get the same bytes, with the positions of their partitions as ids."""
    clients, audience = [Client(), Client()], Audience(Position({0: 5, 1: 0}))
    followers = [joined(audience, client) for client in clients]
    audience.send(EVENTS, 10)
    audience.beat(13)
    assert clients[0].chunks == [chunk_of(TEXT), chunk_of(b": \n\n")]
    assert all(one is other for one, other in zip(clients[0].chunks, clients[1].chunks, strict=True))
    audience.dismiss_all(13)
    assert [each.left.result() for each in followers] == [13, 13]
    assert [each.position.offsets for each in followers] == [{0: 7, 1: 1}] * 2


async def test_partition_that_is_not_read() -> None:
    """Its events are left out, and no client of another partition is written to."""
    client, audience = Client(), Audience(Position({1: 0}))
    joined(audience, client)
    audience.send(EVENTS, 10)
    assert client.chunks == [chunk_of(b"id: 1:1\ndata: b\n\n")]
    audience.send(EVENTS[2:], 13)
    assert len(client.chunks) == 1


async def test_slow_client_continues_where_it_was() -> None:
    """It leaves at the part that it cannot take, and lacks and repeats nothing by its own task afterwards."""
    large = [Event(0, 5 + number, b"data: %d " % number + b"x" * PART_BYTES + b"\n\n") for number in range(3)]
    clients, audience = [Client(1), Client()], Audience(Position({0: 5, 1: 0}))
    slow, fast = (joined(audience, client) for client in clients)
    audience.send(large, 10)
    assert slow.left.result() == 10
    assert slow.position.offsets == {0: 6, 1: 0}
    assert not fast.left.done()
    rest = [chunk_of(part) for part in slow.position.parts(large)]
    assert clients[0].chunks + rest == clients[1].chunks
    assert list(audience.followers) == [fast]


async def test_consumer_that_is_closed_before_it_begins() -> None:
    """A server that stops then does not wait for requests that wait for the consumer."""
    settings, masked = TailSettings(1, 1, 1.0), MaskedRecords((), "orders")
    shared = TopicTail(cast("Any", None), "orders", "AUTO", settings, masked)
    waiting = asyncio.create_task(shared.until_ready())
    await shared.close()
    await asyncio.wait_for(waiting, 5)
