"""Tails: records of topics as server-sent events, as they are appended.

All tails of a topic by one user share one consumer, and its records are encoded once. They are kept for a
while (a ring): a tail that starts earlier, or whose client is slow, reads by a consumer of its own until it
has caught up; the number of these is bounded, the others wait.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from ...protocol.errors import ApiTimeoutError, HeadraceError, NetworkError, NoClusterError
from ...protocol.model import TopicPartition
from ..web.calls_io import encode
from ..web.problems import Problem, problem_of, text_of_error
from .v3_read import document

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Mapping

    from ...clients.aio.consumer_io import AsyncConsumer
    from ...clients.records import Record
    from ..web.client_pool_io import ClientPool, UserClients

log = logging.getLogger("headrace.web")
# Bounds of the ring of one topic.
RING_EVENTS, RING_BYTES = 2000, 4 * 1024 * 1024
# Bound: bytes of events that are sent at once.
PART_BYTES = 64 * 1024
# Bound: consumers of tails that catch up.
MAX_CATCHING_UP = 16
POLL_S, POLL_RECORDS = 5.0, 500
# An event has one line of data: embedded JSON may have line ends between its tokens, and some clients divide
# lines at line ends of Unicode, which JSON has in strings only.
_LINE_ENDS = (
    (b"\r", b" "),
    (b"\n", b" "),
    *((char.encode(), b"\\u%04x" % ord(char)) for char in "\u0085\u2028\u2029"),
)
_OPTIONS: dict[str, Any] = {
    "enable_auto_commit": False,
    "auto_offset_reset": "earliest",
    "fetch_max_wait_ms": 500,
}


class Event(NamedTuple):
    """A record as the lines of an event, without its id."""

    partition: int
    offset: int
    lines: bytes


class TailSettings(NamedTuple):
    """Limits of tails."""

    max_tails: int
    max_event_bytes: int
    heartbeat_s: float


class Tails:
    """All tails of the server."""

    def __init__(self, pool: ClientPool, settings: TailSettings) -> None:
        self._pool, self.settings = pool, settings
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
            shared = self._topics[key] = TopicTail(clients, topic, wanted, self.settings)
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
            consumer = clients.cluster.consumer(**_OPTIONS)
            try:
                await _assign(consumer, positions)
                yield consumer
            finally:
                await consumer.close()

    async def close(self) -> None:
        """End all tails."""
        self.ending.set()
        for shared in list(self._topics.values()):
            await shared.close()


class TopicTail:
    """The consumer of a topic and its latest records, for all tails of one user."""

    def __init__(self, clients: UserClients, topic: str, wanted: str, settings: TailSettings) -> None:
        self.clients, self.topic = clients, topic
        self._wanted, self._settings = wanted, settings
        self.tails = 0
        self.failure: BaseException | None = None
        self._ring: deque[Event] = deque()
        self._ring_bytes = 0
        self.first = 0  # the number of the first event in the ring
        self.base: dict[int, int] = {}  # position before the first event in the ring, by partition
        self.positions: dict[int, int] = {}  # position after the last event
        self._waiting: list[asyncio.Future[None]] = []
        self._is_ready = asyncio.Event()
        loop = asyncio.get_running_loop()
        self._tasks = [loop.create_task(self._run()), loop.create_task(self._beat())]

    @property
    def end(self) -> int:
        """The number of the next event."""
        return self.first + len(self._ring)

    async def until_ready(self) -> None:
        """Wait until the consumer has its positions. Errors: its failure."""
        await self._is_ready.wait()
        if self.failure is not None:
            raise self.failure

    def since(self, number: int) -> Iterable[Event]:
        """The events from a number on, which is in the ring."""
        ring = self._ring
        return [ring[index] for index in range(number - self.first, len(ring))]

    def change(self) -> asyncio.Future[None]:
        """Is done with the next event or heartbeat. Errors: the failure of the consumer."""
        if self.failure is not None:
            raise self.failure
        changed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(changed)
        return changed

    def event(self, record: Record[bytes, bytes]) -> Event:
        """The event of a record; large keys and values are left out."""
        shown = document(record, self._wanted)
        for each in (shown.key, shown.value):
            if each is not None and each.size > self._settings.max_event_bytes:
                each.data = None
        data = encode(shown)
        for line_end, escaped in _LINE_ENDS:
            data = data.replace(line_end, escaped)
        return Event(record.partition, record.offset, b"data: " + data + b"\n\n")

    async def close(self) -> None:
        """End the consumer."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _run(self) -> None:
        consumer = self.clients.cluster.consumer(**_OPTIONS)
        try:
            await self._follow(consumer)
        except asyncio.CancelledError:
            raise
        except Exception as error:  # noqa: BLE001 - every tail of the topic gets it
            self.failure = error
        finally:
            self._is_ready.set()
            self._wake()
            await consumer.close()

    async def _follow(self, consumer: AsyncConsumer) -> None:
        partitions = await self._partitions()
        ends = await consumer.end_offsets(*(TopicPartition(self.topic, each) for each in partitions))
        await _assign(consumer, ends)
        self.base = {tp.partition: offset for tp, offset in ends.items()}
        self.positions = dict(self.base)
        self._is_ready.set()
        while True:
            records = await consumer.poll(POLL_S, POLL_RECORDS)
            if records:
                self._add(records)
                continue
            try:
                now = await self._partitions()
            except (ApiTimeoutError, NetworkError, NoClusterError) as error:
                log.warning("tail of %s: the cluster does not respond: %s", self.topic, error)
            else:
                if len(now) > len(partitions):
                    raise _MorePartitionsError

    async def _partitions(self) -> list[int]:
        found = (await self.clients.admin.describe_topics(self.topic))[self.topic]
        return [each.partition for each in found.partitions]

    def _add(self, records: list[Record[bytes, bytes]]) -> None:
        for record in records:
            event = self.event(record)
            self._ring.append(event)
            self._ring_bytes += len(event.lines)
            self.positions[event.partition] = event.offset + 1
        while len(self._ring) > RING_EVENTS or self._ring_bytes > RING_BYTES:
            oldest = self._ring.popleft()
            self._ring_bytes -= len(oldest.lines)
            self.base[oldest.partition] = oldest.offset + 1
            self.first += 1
        self._wake()

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(self._settings.heartbeat_s)
            self._wake()

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, []
        for changed in waiting:
            _resolve(changed)


def _resolve(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


class _MorePartitionsError(HeadraceError):
    """The topic has new partitions; clients connect again and get them, too."""


class Tail:
    """The tail of one client, from these positions on: iterate over the parts of its response, and close it.
    It ends with the client (`gone`), with the server, or by an error, which is the last event."""

    def __init__(
        self,
        tails: Tails,
        shared: TopicTail,
        positions: Mapping[int, int],
        gone: asyncio.Future[None],
    ) -> None:
        self._tails, self._shared, self._gone = tails, shared, gone
        self._positions = dict(positions)
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
                if number == shared.end:
                    await self._until_changed()
                    if number == shared.end:
                        yield b": \n\n"  # a heartbeat
                    continue
                events = shared.since(number)
                number = shared.end
                for part in self._parts_of(events):
                    yield part

    async def _until_changed(self) -> None:
        """Wait for an event, a heartbeat, or the end."""
        changed = self._shared.change()

        def on_gone(_gone: asyncio.Future[None]) -> None:
            _resolve(changed)

        self._gone.add_done_callback(on_gone)
        try:
            await changed
        finally:
            self._gone.remove_done_callback(on_gone)

    def _opening(self) -> bytes:
        """The first event: clients of browsers wait so long before they connect again, and then from here."""
        return b"retry: 2000\nid: " + self._id() + b"\nevent: open\ndata: {}\n\n"

    def _is_behind(self) -> bool:
        """Whether records are missing between the positions and the ring."""
        base = self._shared.base
        return any(offset < base.get(partition, 0) for partition, offset in self._positions.items())

    async def _catch_up(self) -> AsyncIterator[bytes]:
        """Events that are not in the ring any more, up to those that are."""
        shared = self._shared
        positions = {TopicPartition(shared.topic, each): offset for each, offset in self._positions.items()}
        async with self._tails.own_consumer(shared.clients, positions) as consumer:
            while self._is_behind():
                records = await consumer.poll(self._tails.settings.heartbeat_s, POLL_RECORDS)
                if not records:
                    yield b": \n\n"
                    for tp in positions:  # transaction markers and compacted records have no event
                        self._positions[tp.partition] = await consumer.position(tp)
                for part in self._parts_of([shared.event(record) for record in records]):
                    yield part
                if self._is_over:
                    return

    def _parts_of(self, events: Iterable[Event]) -> Iterable[bytes]:
        """The events of partitions that are read, without those that were sent."""
        positions, lines, size = self._positions, list[bytes](), 0
        for event in events:
            if event.offset < positions.get(event.partition, 1 << 63):
                continue
            positions[event.partition] = event.offset + 1
            lines += (b"id: ", self._id(), b"\n", event.lines)
            size += len(event.lines)
            if size >= PART_BYTES:
                yield b"".join(lines)
                lines, size = [], 0
        if lines:
            yield b"".join(lines)

    def _id(self) -> bytes:
        """The positions after the event: a client that connects again continues there."""
        return ",".join(f"{partition}:{offset}" for partition, offset in self._positions.items()).encode()


async def _assign(consumer: AsyncConsumer, positions: Mapping[TopicPartition, int]) -> None:
    await consumer.assign(list(positions))
    for tp, offset in positions.items():
        await consumer.seek(tp, offset)


def error_event(error: BaseException) -> bytes:
    """The last event of a tail that fails; the client may connect again."""
    if isinstance(error, _MorePartitionsError):
        return b": the topic has more partitions\n\n"
    problem = problem_of(error) or Problem(500, text_of_error(error), 50002)
    return b"event: error\ndata: " + msgspec.json.encode(problem.body()) + b"\n\n"
