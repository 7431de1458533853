"""Recompression of producers' batches for topics with another `compression.type`. Pure.

Recompression runs on threads. Each partition has a queue of batches in the order of their arrival: those
being recompressed, and those that arrived behind them and need no other codec. A batch is appended when it is
the first of its queue and its bytes are ready, so recompression changes neither the order of a producer's
batches nor its sequences. Leader epoch, min.insync.replicas, transaction guard and producer state are checked
by that append.

Bound: at most `MAX_UNAPPENDED` batches are being recompressed or hold a result that is not appended yet; the
others keep the bytes of their requests, which count as request memory until the response.
Source: Kafka LogValidator.java, UnifiedLog.java append.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...protocol.errors import InvalidRecordError, KafkaError, ThrottlingQuotaExceededError
from ...protocol.records.recompressing import recompress
from ..log.record_errors import located

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...protocol.records.codec import BatchFacts
    from ...protocol.records.header import Buffer, Compression
    from .partition import PartitionKey

# Threads that recompress; they release the GIL while a codec library works.
RECOMPRESSION_THREADS = 2
# Bound: started and not appended; more than threads, so that none idles while the loop appends.
MAX_UNAPPENDED = 2 * RECOMPRESSION_THREADS


@dataclass(slots=True, eq=False)
class QueuedBatch:
    """One batch of a produce request in the queue of its partition.

    `target` None: the batch is stored unchanged and only waits for its turn. `append` is called once, with
    this batch, now_ms and wall_ms, when it is the first of its queue and ready; `error` says why not.
    """

    key: PartitionKey
    batch: Buffer  # as received; after `run` in the target codec
    target: Compression | None
    level: int | None
    append: Callable[[QueuedBatch, int, int], None]
    facts: BatchFacts | None = None
    error: KafkaError | None = None
    is_ready: bool = False

    def run(self) -> None:
        """Recompress, on a worker thread. Errors are kept in `error`."""
        assert self.target is not None, "the batch is stored unchanged"
        try:
            self.batch, self.facts = recompress(self.batch, self.target, self.level)
        except InvalidRecordError as error:
            self.error = located(self.batch, error)
        except KafkaError as error:
            self.error = error
        except MemoryError:
            self.error = ThrottlingQuotaExceededError(f"no memory to recompress {len(self.batch)} bytes")


class Recompressor:
    """The queues of all partitions of one node.

    Invariant: batches are started in the order in which they came, so the oldest one that is not appended is
    the first of its queue: batches that are ready never wait for one that cannot start.
    """

    def __init__(self, begin: Callable[[QueuedBatch], None]) -> None:
        """`begin` has a thread run the recompression; then `finished`."""
        self._begin = begin
        self.queues: dict[PartitionKey, deque[QueuedBatch]] = {}
        self._to_start: deque[QueuedBatch] = deque()
        self._unappended = 0
        self._queued = 0

    def __len__(self) -> int:
        """Batches that are not appended yet."""
        return self._queued

    def add(self, item: QueuedBatch) -> None:
        """Queue a batch behind those of its partition; recompression starts within the bound."""
        item.is_ready = item.target is None
        queue = self.queues.setdefault(item.key, deque())
        assert queue or not item.is_ready, "a batch that waits for nothing is appended by its handler"
        queue.append(item)
        self._queued += 1
        if not item.is_ready:
            self._to_start.append(item)
            self._start()

    def finished(self, item: QueuedBatch, now_ms: int, wall_ms: int) -> None:
        """A Recompress effect is done: append what is ready at the front of the partition's queue."""
        item.is_ready = True
        queue = self.queues[item.key]
        while queue and queue[0].is_ready:
            first = queue.popleft()
            self._queued -= 1
            self._unappended -= first.target is not None
            if not queue:
                del self.queues[item.key]
            first.append(first, now_ms, wall_ms)
        self._start()

    def _start(self) -> None:
        while self._to_start and self._unappended < MAX_UNAPPENDED:
            self._unappended += 1
            self._begin(self._to_start.popleft())

    def check(self) -> None:
        """Assert the bound and the invariants; for tests."""
        items = [item for queue in self.queues.values() for item in queue]
        assert all(self.queues.values()), "every queue has a batch"
        assert len(items) == self._queued
        assert 0 <= self._unappended <= MAX_UNAPPENDED
        recompressed = sum(item.target is not None for item in items)
        assert recompressed == self._unappended + len(self._to_start)
        assert not any(queue[0].is_ready for queue in self.queues.values()), "the first one is not ready"
