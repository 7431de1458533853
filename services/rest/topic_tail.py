"""The records of a topic for all tails of one user: one consumer, events that are encoded once, and the
latest of them for tails that are a little behind (a ring)."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple

from ...protocol.errors import ApiTimeoutError, HeadraceError, NetworkError, NoClusterError
from ...protocol.model import TopicPartition
from ..web.calls_io import chunk_of, encode
from .v3_read import document

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from ...clients.aio.consumer_io import AsyncConsumer
    from ...clients.records import Record
    from ..web.client_pool_io import UserClients
    from .restrictions import MaskedRecords

    # Writes a chunk of a response; False if it did not, because the client reads slowly or has gone.
    Write = Callable[[bytes], bool]

log = logging.getLogger("headrace.web")
# Bounds of the ring of one topic.
RING_EVENTS, RING_BYTES = 2000, 4 * 1024 * 1024
# Bound: bytes of events that are sent at once.
PART_BYTES = 64 * 1024
POLL_S, POLL_RECORDS = 5.0, 500
HEARTBEAT = b": \n\n"
# An event has one line of data: embedded JSON may have line ends between its tokens, and some clients divide
# lines at line ends of Unicode, which JSON has in strings only.
_LINE_ENDS = (
    (b"\r", b" "),
    (b"\n", b" "),
    *((char.encode(), b"\\u%04x" % ord(char)) for char in "\u0085\u2028\u2029"),
)
OPTIONS: dict[str, Any] = {
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


class Position:
    """The offset of the next event of each partition that a tail reads."""

    def __init__(self, offsets: Mapping[int, int]) -> None:
        self.offsets = dict(offsets)

    def parts(self, events: Iterable[Event]) -> Iterator[bytes]:
        """The events of these partitions, without those before the position, which moves behind each part."""
        offsets, lines, size = self.offsets, list[bytes](), 0
        for event in events:
            if event.offset < offsets.get(event.partition, 1 << 63):
                continue
            offsets[event.partition] = event.offset + 1
            lines += (b"id: ", self.id(), b"\n", event.lines)
            size += len(event.lines)
            if size >= PART_BYTES:
                yield b"".join(lines)
                lines, size = [], 0
        if lines:
            yield b"".join(lines)

    def id(self) -> bytes:
        """The id of an event after which this is the position: a client that connects again continues
        there."""
        return ",".join(f"{partition}:{offset}" for partition, offset in self.offsets.items()).encode()


class Follower:
    """A client that has every event so far. `left` is done with the number of the event to continue with,
    once the shared consumer no longer writes to it."""

    def __init__(self, position: Position, write: Write) -> None:
        self.position, self.write = position, write
        self.left: asyncio.Future[int] = asyncio.get_running_loop().create_future()


class Audience:
    """Clients that have every event so far and read the same partitions: what they get is made once, and
    written to their connections in one turn of the event loop, without a task of theirs.

    A client that has not read what was written before leaves: its own task waits for it then.
    """

    def __init__(self, position: Position) -> None:
        self._position = Position(position.offsets)
        self.followers: dict[Follower, None] = {}

    def send(self, events: Iterable[Event], number: int) -> None:
        """Write the events; `number` is that of the first."""
        before = dict(self._position.offsets)
        for part in self._position.parts(events):
            self._write(part, number, before)
            before = dict(self._position.offsets)

    def beat(self, number: int) -> None:
        """Write a heartbeat; `number` is that of the next event."""
        self._write(HEARTBEAT, number, self._position.offsets)

    def dismiss(self, follower: Follower, number: int) -> None:
        """No longer write to a client; it continues with the event of this number."""
        if self.followers.pop(follower, 0) is None:
            self._end(follower, number, self._position.offsets)

    def dismiss_all(self, number: int) -> None:
        """No longer write to any client."""
        for follower in list(self.followers):
            self.dismiss(follower, number)

    def _write(self, part: bytes, number: int, before: Mapping[int, int]) -> None:
        chunk = chunk_of(part)
        slow = [each for each in self.followers if not each.write(chunk)]
        for follower in slow:
            del self.followers[follower]
            self._end(follower, number, before)

    @staticmethod
    def _end(follower: Follower, number: int, offsets: Mapping[int, int]) -> None:
        follower.position.offsets = dict(offsets)
        if not follower.left.done():
            follower.left.set_result(number)


class TopicTail:
    """The consumer of a topic and its latest records, for all tails of one user."""

    def __init__(
        self,
        clients: UserClients,
        topic: str,
        wanted: str,
        settings: TailSettings,
        masked: MaskedRecords,
    ) -> None:
        self.clients, self.topic, self._masked = clients, topic, masked
        self._wanted, self._settings = wanted, settings
        self.tails = 0
        self.failure: BaseException | None = None
        self._ring: deque[Event] = deque()
        self._ring_bytes = 0
        self.first = 0  # the number of the first event in the ring
        self.base: dict[int, int] = {}  # position before the first event in the ring, by partition
        self.positions: dict[int, int] = {}  # position after the last event
        self._waiting: list[asyncio.Future[None]] = []
        self._audiences: dict[tuple[int, ...], Audience] = {}
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

    def is_at(self, position: Position) -> bool:
        """Whether the position is that after the last event, in each of its partitions."""
        return all(self.positions[each] == offset for each, offset in position.offsets.items())

    def join(self, position: Position, write: Write) -> Follower:
        """From now on write each event to this client, which has all events up to now; `leave` with the
        result. Errors: the failure of the consumer."""
        if self.failure is not None:
            raise self.failure
        assert self.is_at(position)
        read = tuple(position.offsets)
        audience = self._audiences.get(read)
        if audience is None:
            audience = self._audiences[read] = Audience(position)
        follower = Follower(position, write)
        audience.followers[follower] = None
        return follower

    def leave(self, follower: Follower) -> None:
        """No longer write to a client; its position is that after the last event that was written to it."""
        read = tuple(follower.position.offsets)
        audience = self._audiences.get(read)
        if audience is not None:
            audience.dismiss(follower, self.end)
            if not audience.followers:
                del self._audiences[read]

    def event(self, record: Record[bytes, bytes]) -> Event:
        """The event of a record; large keys and values are left out."""
        shown = document(record, self._wanted, self._masked)
        for each in (shown.key, shown.value):
            if each is not None and each.size > self._settings.max_event_bytes:
                each.data = None
        data = encode(shown)
        for line_end, escaped in _LINE_ENDS:
            data = data.replace(line_end, escaped)
        return Event(record.partition, record.offset, b"data: " + data + b"\n\n")

    async def close(self) -> None:
        """End the consumer."""
        self._is_ready.set()  # a task that is cancelled before it begins does not
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _run(self) -> None:
        consumer = self.clients.cluster.consumer(**OPTIONS)
        try:
            await self._follow(consumer)
        except asyncio.CancelledError:
            raise
        except Exception as error:  # noqa: BLE001 - every tail of the topic gets it
            self.failure = error
        finally:
            self._is_ready.set()
            for audience in self._audiences.values():
                audience.dismiss_all(self.end)
            self._wake()
            await consumer.close()

    async def _follow(self, consumer: AsyncConsumer) -> None:
        partitions = await self._partitions()
        ends = await consumer.end_offsets(*(TopicPartition(self.topic, each) for each in partitions))
        await assign_at(consumer, ends)
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
                    raise MorePartitionsError

    async def _partitions(self) -> list[int]:
        found = (await self.clients.admin.describe_topics(self.topic))[self.topic]
        return [each.partition for each in found.partitions]

    def _add(self, records: list[Record[bytes, bytes]]) -> None:
        number, events = self.end, [self.event(record) for record in records]
        for event in events:
            self._ring.append(event)
            self._ring_bytes += len(event.lines)
            self.positions[event.partition] = event.offset + 1
        for audience in self._audiences.values():
            audience.send(events, number)
        while len(self._ring) > RING_EVENTS or self._ring_bytes > RING_BYTES:
            oldest = self._ring.popleft()
            self._ring_bytes -= len(oldest.lines)
            self.base[oldest.partition] = oldest.offset + 1
            self.first += 1
        self._wake()

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(self._settings.heartbeat_s)
            for audience in self._audiences.values():
                audience.beat(self.end)
            self._wake()

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, []
        for changed in waiting:
            resolve(changed)


def resolve(future: asyncio.Future[None]) -> None:
    """Set the result, unless the future is done."""
    if not future.done():
        future.set_result(None)


class MorePartitionsError(HeadraceError):
    """The topic has new partitions; clients connect again and get them, too."""


async def assign_at(consumer: AsyncConsumer, positions: Mapping[TopicPartition, int]) -> None:
    """Read these partitions from these offsets on."""
    await consumer.assign(list(positions))
    for tp, offset in positions.items():
        await consumer.seek(tp, offset)
