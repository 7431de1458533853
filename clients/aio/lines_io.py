"""Records of an asyncio producer that cannot be buffered yet: without metadata of the topic, or free memory.

One line per topic keeps the order of the calls; a task per line appends its records, one after the other.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...protocol.errors import (
    BufferExhaustedError,
    ClosedError,
    HeadraceError,
    UnknownTopicOrPartitionError,
)
from ..losses_io import Unfinished
from ..producer.appending import NO_MEMORY, NO_PARTITION
from ..producer.delivery_io import RecordFuture
from ..producer.record_preparer_io import OVERHEAD_BYTES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..cluster.hub_io import Hub
    from ..config import ProducerConfig
    from ..producer.delivery_io import Delivery
    from ..producer.producer_io import ProducerEngine
    from ..producer.record_preparer_io import PreparedRecord, RecordPreparer


@dataclass(slots=True, eq=False)
class _Waiting:
    prepared: PreparedRecord
    partition: int | None
    future: asyncio.Future[RecordFuture]
    deadline_ms: int
    size_bytes: int


class Lines:
    """The lines of one producer, on the loop of `hub`.

    Bound: buffer.memory bytes of waiting records, beside those that the buffer holds.
    """

    def __init__(
        self, engine: ProducerEngine, hub: Hub, config: ProducerConfig, preparer: RecordPreparer
    ) -> None:
        self._engine, self._hub, self._config, self._preparer = engine, hub, config, preparer
        self._lines: dict[str, deque[_Waiting]] = {}
        self._tasks: dict[str, asyncio.Task[Any] | None] = {}
        self._ended_by: HeadraceError = ClosedError("the client was closed")
        self._waiting_bytes = 0
        self._memory_freed = asyncio.Event()
        engine.add_memory_listener(self._memory_freed.set)
        lines = self._lines  # Order: without a reference to this object, which `Unfinished` must not keep
        self._unfinished = Unfinished(lambda: _counts(lines))

    def __contains__(self, topic: str) -> bool:
        return topic in self._lines

    def __bool__(self) -> bool:
        return bool(self._lines)

    def add(
        self, topic: str, prepared: PreparedRecord, partition: int | None
    ) -> asyncio.Future[RecordFuture]:
        """Add a record to the line of its topic; the result is the record's future, once it is buffered.

        Errors: BufferExhaustedError when the waiting records have buffer.memory bytes.
        """
        key, value, _, _ = prepared
        size_bytes = len(key or b"") + len(value or b"") + OVERHEAD_BYTES
        if self._waiting_bytes + size_bytes > self._config.buffer_memory:
            raise self.buffer_exhausted()
        entered: asyncio.Future[RecordFuture] = asyncio.get_running_loop().create_future()
        waiting = _Waiting(prepared, partition, entered, self.deadline_ms(), size_bytes)
        self._waiting_bytes += size_bytes
        if topic in self._lines:
            self._lines[topic].append(waiting)
        else:
            self._lines[topic] = deque([waiting])
            self._tasks[topic] = self._hub.tasks.spawn(self._serve(topic))
        return entered

    def counts(self) -> Counter[str]:
        """The number of waiting records by topic."""
        return _counts(self._lines)

    async def until_buffered(self) -> None:
        """Wait until all lines are empty."""
        while self._lines:
            await self.until_one_ended()

    async def until_free_memory(self) -> None:
        """Wait until all lines are empty and the buffer has free memory."""
        while self._lines or not self._engine.has_free_memory():
            if self._lines:
                await self.until_one_ended()
            else:
                self._memory_freed.clear()
                await self._memory_freed.wait()

    async def until_one_ended(self) -> None:
        """Wait until the records that are in a line now are buffered. Not gather, which would cancel them."""
        last = [line[-1].future for line in self._lines.values() if line]
        if last:
            await asyncio.wait(last)
        await asyncio.sleep(0)  # the lines' tasks end

    async def wait_for_memory(self, deadline_ms: int) -> None:
        """Wait until the buffer may have free memory. Errors: BufferExhaustedError at `deadline_ms`."""
        left_ms = deadline_ms - self._hub.now_ms()
        if left_ms <= 0:
            raise self.buffer_exhausted()
        self._engine.start_waiting()
        try:
            self._memory_freed.clear()
            async with asyncio.timeout(left_ms / 1000):
                await self._memory_freed.wait()
        except TimeoutError:
            raise self.buffer_exhausted() from None
        finally:
            self._engine.stop_waiting()

    async def end(self, error: HeadraceError) -> None:
        """Fail all waiting records with `error`."""
        self._ended_by = error
        tasks = [task for task in self._tasks.values() if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for topic in list(self._lines):  # its task was cancelled before it began
            self._close(topic)

    def over(self) -> None:
        """The producer is closed: nothing is left to report."""
        self._unfinished.over()

    def deadline_ms(self) -> int:
        """The time until which a record that is added now may wait."""
        return self._hub.now_ms() + self._config.max_block_ms

    def buffer_exhausted(self) -> BufferExhaustedError:
        """The error of a record that has waited too long."""
        return BufferExhaustedError(
            f"the buffer ({self._config.buffer_memory} bytes) is full; await drain() between sends;"
            f" {self._engine.oldest_cause()}"
        )

    async def _serve(self, topic: str) -> None:
        """Append the records of one line, in order, until it is empty."""
        line = self._lines[topic]
        try:
            while line:
                waiting = line[0]
                try:
                    found = await self._append_when_possible(topic, waiting)
                except (HeadraceError, TypeError, ValueError) as error:
                    self._preparer.tell_failed(error)
                    if not waiting.future.done():
                        waiting.future.set_exception(error)
                else:
                    if not waiting.future.done():
                        waiting.future.set_result(future_of(found, waiting.prepared))
                line.popleft()
                self._waiting_bytes -= waiting.size_bytes
        finally:
            # When the loop was closed with the producer open, the garbage collector ends this task, perhaps
            # before `Unfinished` has counted the records.
            if not self._hub.loop.is_closed():
                self._close(topic)

    def _close(self, topic: str) -> None:
        del self._tasks[topic]
        for waiting in self._lines.pop(topic):  # cancelled: the client ends, or the transaction
            self._waiting_bytes -= waiting.size_bytes
            if not waiting.future.done():
                waiting.future.set_exception(self._ended_by)
        self._memory_freed.set()

    async def _append_when_possible(self, topic: str, waiting: _Waiting) -> tuple[Delivery, int]:
        key, value, headers, timestamp_ms = waiting.prepared
        while True:
            found = self._engine.append(topic, key, value, headers, waiting.partition, timestamp_ms)
            if not isinstance(found, str):
                return found
            if found == NO_MEMORY:
                await self.wait_for_memory(waiting.deadline_ms)
                continue
            least = 0
            if found == NO_PARTITION:
                least = (waiting.partition or 0) + 1
                if least < 1:
                    raise UnknownTopicOrPartitionError(f"partition {waiting.partition} of {topic!r}")
            await self._engine.load_topic(topic, waiting.deadline_ms, least)


def future_of(found: tuple[Delivery, int], prepared: PreparedRecord) -> RecordFuture:
    """The future of a record that was appended."""
    key, value, _, timestamp_ms = prepared
    key_size, value_size = -1 if key is None else len(key), -1 if value is None else len(value)
    return RecordFuture(found[0], found[1], timestamp_ms, key_size, value_size)


def _counts(lines: Mapping[str, deque[_Waiting]]) -> Counter[str]:
    return Counter({topic: len(line) for topic, line in lines.items()})
