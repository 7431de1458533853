"""Tails: records of topics as server-sent events, as they are appended.

All tails of a topic by one user share one consumer, which writes to their connections. Its records are kept
for a while (a ring): a tail that starts earlier, or whose client is slow, reads by a consumer of its own
until it has caught up; the number of these is bounded, the others wait.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

import msgspec

from ...protocol.errors import HeadraceError
from ...protocol.model import TopicPartition
from ..web.problems import Problem, problem_of, text_of_error
from .topic_tail import (
    HEARTBEAT,
    OPTIONS,
    POLL_RECORDS,
    MorePartitionsError,
    Position,
    TopicTail,
    assign_at,
    resolve,
)

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Mapping

    from ...clients.aio.consumer_io import AsyncConsumer
    from ..web.client_pool_io import ClientPool, UserClients
    from .restrictions import Restrictions
    from .topic_tail import TailSettings, Write

# Bound: consumers of tails that catch up.
MAX_CATCHING_UP = 16


class Tails:
    """All tails of the server."""

    def __init__(self, pool: ClientPool, settings: TailSettings, restrictions: Restrictions) -> None:
        self._pool, self.settings, self._restrictions = pool, settings, restrictions
        self._topics: dict[tuple[int, str, str], TopicTail] = {}
        self._catching_up = asyncio.Semaphore(MAX_CATCHING_UP)
        self.count = 0
        self.ending = asyncio.Event()

    async def join(self, clients: UserClients, topic: str, wanted: str) -> TopicTail:
        """The shared consumer of the topic, which has its positions; `leave` it. Errors: Problem 503 if there
        are too many tails; those of the consumer."""
        if self.count >= self.settings.max_tails:
            raise Problem(
                503, f"{self.count} tails are open, which is max.tails", 50301, {"retry-after": "5"}
            )
        key = (id(clients), topic, wanted)
        shared = self._topics.get(key)
        if shared is None or shared.failure is not None:
            self._pool.keep(clients)  # the request that began ends earlier than the other tails
            masked = self._restrictions.of_topic(topic)
            shared = self._topics[key] = TopicTail(clients, topic, wanted, self.settings, masked)
        shared.tails += 1
        self.count += 1
        try:
            await shared.until_ready()
        except BaseException:
            await self.leave(shared)
            raise
        return shared

    async def leave(self, shared: TopicTail) -> None:
        """End a tail; the last one of a topic closes its consumer."""
        self.count -= 1
        shared.tails -= 1
        if not shared.tails:
            self._topics = {key: each for key, each in self._topics.items() if each is not shared}
            await shared.close()
            self._pool.release(shared.clients)

    @contextlib.asynccontextmanager
    async def own_consumer(
        self, clients: UserClients, positions: Mapping[TopicPartition, int]
    ) -> AsyncIterator[AsyncConsumer]:
        """A consumer for a tail that catches up; it waits for one of the others to end."""
        async with self._catching_up:
            consumer = clients.cluster.consumer(**OPTIONS)
            try:
                await assign_at(consumer, positions)
                yield consumer
            finally:
                await consumer.close()

    async def close(self) -> None:
        """End all tails."""
        self.ending.set()
        for shared in list(self._topics.values()):
            await shared.close()


class Tail:
    """The tail of one client, from these offsets on: iterate over the parts of its response, and close it.
    It ends with the client (`gone`), with the server, or by an error, which is the last event.

    While the tail waits for events, the shared consumer writes them to the connection (`write`). Parts of the
    iteration are what the client still lacks before, and what it did not read in time.
    """

    def __init__(
        self,
        tails: Tails,
        shared: TopicTail,
        offsets: Mapping[int, int],
        gone: asyncio.Future[None],
        write: Write | None,
    ) -> None:
        self._tails, self._shared, self._gone, self._write = tails, shared, gone, write
        self._position = Position(offsets)
        self._is_closed = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async with contextlib.aclosing(self._parts()) as parts:
                async for part in parts:
                    yield part
        except HeadraceError as error:
            yield error_event(error)

    async def aclose(self) -> None:
        """Leave the shared consumer; idempotent."""
        if not self._is_closed:
            self._is_closed = True
            self._gone.cancel()
            await self._tails.leave(self._shared)

    @property
    def _is_over(self) -> bool:
        return self._gone.done() or self._tails.ending.is_set()

    async def _parts(self) -> AsyncGenerator[bytes]:
        """Events and heartbeats."""
        shared = self._shared
        yield self._opening()
        while not self._is_over:
            if self._is_behind():
                async for part in self._catch_up():
                    yield part
            number = shared.first
            while number >= shared.first and not self._is_over:
                if number < shared.end:
                    events = shared.since(number)
                    number = shared.end
                    for part in self._position.parts(events):
                        yield part
                elif self._write is not None and shared.is_at(self._position):
                    number = await self._follow(self._write)
                    if number == shared.end and not self._is_over:
                        yield HEARTBEAT  # which it could not write
                else:
                    await self._until_changed()
                    if number == shared.end:
                        yield HEARTBEAT

    async def _follow(self, write: Write) -> int:
        """Let the shared consumer write to the client, as long as that reads; the number of the event to
        continue with. Errors: the failure of the consumer."""
        follower = self._shared.join(self._position, write)

        def on_gone(_gone: asyncio.Future[None]) -> None:
            self._shared.leave(follower)

        self._gone.add_done_callback(on_gone)
        try:
            return await follower.left
        finally:
            self._gone.remove_done_callback(on_gone)
            self._shared.leave(follower)

    async def _until_changed(self) -> None:
        """Wait for an event, a heartbeat, or the end."""
        changed = self._shared.change()

        def on_gone(_gone: asyncio.Future[None]) -> None:
            resolve(changed)

        self._gone.add_done_callback(on_gone)
        try:
            await changed
        finally:
            self._gone.remove_done_callback(on_gone)

    def _opening(self) -> bytes:
        """The first event: clients of browsers wait so long before they connect again, and then from here."""
        return b"retry: 2000\nid: " + self._position.id() + b"\nevent: open\ndata: {}\n\n"

    def _is_behind(self) -> bool:
        """Whether records are missing between the positions and the ring."""
        base = self._shared.base
        return any(offset < base.get(partition, 0) for partition, offset in self._position.offsets.items())

    async def _catch_up(self) -> AsyncIterator[bytes]:
        """Events that are not in the ring any more, up to those that are."""
        shared = self._shared
        positions = {
            TopicPartition(shared.topic, each): offset for each, offset in self._position.offsets.items()
        }
        async with self._tails.own_consumer(shared.clients, positions) as consumer:
            while self._is_behind():
                records = await consumer.poll(self._tails.settings.heartbeat_s, POLL_RECORDS)
                if not records:
                    yield HEARTBEAT
                    for tp in positions:  # transaction markers and compacted records have no event
                        self._position.offsets[tp.partition] = await consumer.position(tp)
                for part in self._position.parts([shared.event(record) for record in records]):
                    yield part
                if self._is_over:
                    return


def error_event(error: BaseException) -> bytes:
    """The last event of a tail that fails; the client may connect again."""
    if isinstance(error, MorePartitionsError):
        return b": the topic has more partitions\n\n"
    problem = problem_of(error) or Problem(500, text_of_error(error), 50002)
    return b"event: error\ndata: " + msgspec.json.encode(problem.body()) + b"\n\n"
