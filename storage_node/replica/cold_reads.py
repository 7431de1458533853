"""Schedules reads from disks for fetches (cold reads), and keeps their results until a fetch takes them.

Pure; the reads run on threads. A result is kept as bytes: in the page cache alone it could be evicted before
the client fetches again, and the client would never get it.

Bound: `max_running` reads run at a time, and `max_bytes` are being read or not taken yet; other reads wait,
one of each connection in turn. A connection has at most `_MAX_PER_SESSION`. When space is needed, a result is
dropped at once if its client has fetched another offset of the partition since, else after `_UNCLAIMED_MS`;
`next_deadline_ms` says when, because no other event may come until then.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ...protocol.errors import KafkaError, ThrottlingQuotaExceededError

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..log.log import Log
    from ..log.reads import Run
    from .partition import Partition, PartitionKey

_MAX_PER_SESSION = 64
_UNCLAIMED_MS = 1_000
# Bound: one read, unless its first batch is larger. Disks reach full throughput with it.
MAX_READ_BYTES = 4 * 1024 * 1024

_Place = tuple["PartitionKey", int]  # partition and offset


@dataclass(slots=True, eq=False)
class ColdRead:
    """One read. `run` goes on a thread; then `ColdReads.finished`."""

    session: int
    partition: Partition
    log: Log
    offset: int
    max_bytes: int
    upto_offset: int
    ahead_bytes: int
    leader_epoch: int = field(init=False)
    cuts: int = field(init=False)
    run_found: Run | None = None
    error: KafkaError | None = None
    is_done: bool = False
    done_ms: int = 0
    is_left: bool = False  # its connection has fetched another offset of the partition since
    held_bytes: int = 0  # bytes that count for the bound

    def __post_init__(self) -> None:
        self.leader_epoch, self.cuts = self.partition.leader_epoch, self.log.reader.invalidations

    @property
    def place(self) -> _Place:
        """The partition and offset that it reads."""
        return self.partition.key, self.offset

    @property
    def is_valid(self) -> bool:
        """Whether the records may be returned: same log, same leader epoch, neither truncated nor cleaned
        since."""
        partition = self.partition
        return (
            partition.log is self.log
            and partition.leader_epoch == self.leader_epoch
            and self.log.reader.invalidations == self.cuts
        )

    def run(self) -> None:
        """Read from the disk; errors are kept."""
        try:
            self.run_found = self.log.reader.read_one_run(
                self.offset, self.max_bytes, upto_offset=self.upto_offset, ahead_bytes=self.ahead_bytes
            )
        except KafkaError as error:
            self.error = error
        except MemoryError:
            # the disk is fine: the client retries
            self.error = ThrottlingQuotaExceededError(f"no memory to read {self.max_bytes} bytes")


class ColdReads:
    """The reads of all connections."""

    def __init__(self, begin: Callable[[ColdRead], None], *, max_running: int, max_bytes: int) -> None:
        """`begin` has a thread run the read; then `finished`."""
        self._begin = begin
        self._max_running = max_running
        self._max_bytes = max_bytes
        self.running = 0
        self.held_bytes = 0
        self._sessions: dict[int, dict[_Place, ColdRead]] = {}
        self._queues: OrderedDict[int, deque[ColdRead]] = OrderedDict()  # connections with waiting reads
        self._done: OrderedDict[ColdRead, None] = OrderedDict()  # results not taken yet, oldest first

    def find(self, session: int, partition: Partition, offset: int, now_ms: int) -> ColdRead | None:
        """The connection's read of this offset, finished or not; an invalid one is dropped."""
        mine = self._sessions.get(session)
        if mine is None:
            return None
        for other in mine.values():
            # Only marked: two readers may share a connection, and both must make progress.
            if other.partition.key == partition.key:
                other.is_left = other.offset != offset
        read = mine.get((partition.key, offset))
        if read is not None and not (read.partition is partition and read.is_valid):
            self.drop(read, now_ms)
            return None
        return read

    def ask(self, read: ColdRead, now_ms: int) -> None:
        """Queue the read. Ignored if the connection has too many: the client will fetch again."""
        mine = self._sessions.setdefault(read.session, {})
        assert read.place not in mine, "queued only once"
        if len(mine) >= _MAX_PER_SESSION:
            self._drop_unclaimed(read.session, now_ms)
        if len(mine) >= _MAX_PER_SESSION:
            return
        self._sessions.setdefault(read.session, mine)[read.place] = read
        self._queues.setdefault(read.session, deque()).append(read)
        self._start(now_ms)

    def drop(self, read: ColdRead, now_ms: int) -> None:
        """The result was taken or is not needed any more."""
        if not self._is_wanted(read):
            return
        mine = self._sessions[read.session]
        del mine[read.place]
        if not mine:
            del self._sessions[read.session]
        if read.is_done:
            self._let_go(read)
            self._start(now_ms)

    def finished(self, read: ColdRead, now_ms: int) -> None:
        """A thread has finished the read. Order: the fetches that wait for it take it before
        `start_waiting`, which may drop it for another one."""
        self.running -= 1
        self.held_bytes -= read.held_bytes
        read.is_done, read.done_ms, read.held_bytes = True, now_ms, 0
        if self._is_wanted(read):
            read.held_bytes = 0 if read.run_found is None else read.run_found.held_bytes
            self.held_bytes += read.held_bytes
            self._done[read] = None

    def forget(self, session: int, now_ms: int) -> None:
        """The client has disconnected."""
        self._queues.pop(session, None)
        for read in list(self._sessions.get(session, {}).values()):
            self.drop(read, now_ms)

    def start_waiting(self, now_ms: int) -> None:
        """Start waiting reads; unclaimed results may be dropped for them."""
        self._start(now_ms)

    def next_deadline_ms(self) -> int | None:
        """When an unclaimed result may be dropped for a waiting read; None if no read waits for that."""
        if not self._queues or not self._done or self.running >= self._max_running:
            return None
        return next(iter(self._done)).done_ms + _UNCLAIMED_MS

    def check(self) -> None:
        """Assert the bound and the counts; for tests."""
        reads = [read for mine in self._sessions.values() for read in mine.values()]
        assert self.running <= self._max_running
        assert set(self._done) == {read for read in reads if read.is_done}
        assert all(self._sessions.values()), "every connection has a read"

    # --- inside ----------------------------------------------------------------------------------------

    def _is_wanted(self, read: ColdRead) -> bool:
        return self._sessions.get(read.session, {}).get(read.place) is read

    def _let_go(self, read: ColdRead) -> None:
        del self._done[read]
        self.held_bytes -= read.held_bytes
        read.held_bytes = 0

    def _start(self, now_ms: int) -> None:
        """Start reads within the bounds, one of each connection in turn."""
        while self.running < self._max_running and self._queues:
            session, queue = next(iter(self._queues.items()))
            while queue and not self._is_wanted(queue[0]):
                queue.popleft()
            if not queue:
                del self._queues[session]
                continue
            if not self._has_room(queue[0].max_bytes, now_ms):
                return
            self._queues.move_to_end(session)
            read = queue.popleft()
            self.running += 1
            read.held_bytes = read.max_bytes
            self.held_bytes += read.held_bytes
            self._begin(read)

    def _has_room(self, size_bytes: int, now_ms: int) -> bool:
        while self.held_bytes and self.held_bytes + size_bytes > self._max_bytes:
            unclaimed = next((read for read in self._done if _is_unclaimed(read, now_ms)), None)
            if unclaimed is None:
                return False
            self._drop_quietly(unclaimed)
        return True

    def _drop_unclaimed(self, session: int, now_ms: int) -> None:
        for read in list(self._sessions.get(session, {}).values()):
            if _is_unclaimed(read, now_ms):
                self._drop_quietly(read)

    def _drop_quietly(self, read: ColdRead) -> None:
        mine = self._sessions[read.session]
        del mine[read.place]
        if not mine:
            del self._sessions[read.session]
        self._let_go(read)


def _is_unclaimed(read: ColdRead, now_ms: int) -> bool:
    return read.is_done and (read.is_left or now_ms - read.done_ms >= _UNCLAIMED_MS)
