"""Fetch by consumers: read below the high watermark, or with read_committed below the last stable offset.

The event loop never waits for a disk. Records in memory or in the page cache are returned at once; others are
read by a thread and returned by this response or by the client's next fetch. A request that finds only such
partitions waits for the first of them, even beyond its own max_wait_ms (as with Kafka, which reads inside the
request), but at most `COLD_WAIT_MS`; the read continues and serves the next fetch.

With a replica.selector.class, a client that names its rack is directed to a replica there. Followers serve
such clients, and those that may fetch from followers, below the high watermark that they know (KIP-392).
Source: Kafka ReplicaManager.fetchMessages, DelayedFetch; DESIGN 5.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from ...protocol.errors import (
    CorruptMessageError,
    InvalidRequestError,
    KafkaError,
    KafkaStorageError,
    OffsetNotAvailableError,
    OffsetOutOfRangeError,
    ThrottlingQuotaExceededError,
)
from ...protocol.messages.data import FetchPartitionResponse, FetchResponse
from ...protocol.model import NO_NODE
from ..edge.gateway import OwnRequest
from .near_replica import near_replica

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

    from ...protocol.messages.data import FetchPartition, FetchRequest, ListOffsetsPartition
    from ...protocol.messages.lag import CountRecordsPartition
    from ...protocol.records.header import Buffer
    from ...protocol.transport.replies import Incoming, Replies
    from ...runtime.purgatory import Purgatory
    from ..counters import NodeCounters
    from ..log.lending import Part
    from ..log.log import Log
    from .batch_traces import BatchTraces
    from .cold_reads import ColdRead
    from .disk_failures import DiskFailures
    from .partition import Partition, PartitionKey
    from .partition_table import PartitionTable
    from .reading import RecordReader

READ_COMMITTED = 1
ISOLATION_LEVELS = (0, READ_COMMITTED)  # read_uncommitted
# Clients wait 30 s or more for a response; a slower disk serves their next fetch.
COLD_WAIT_MS = 5_000


@dataclass(frozen=True, slots=True)
class FetchLimits:
    """Limits of the node. `room()` is how many response bytes it may still queue."""

    max_bytes: int
    max_wait_ms: int
    max_partitions: int
    room: Callable[[], int]
    selects_replicas: bool = False  # replica.selector.class is set


@dataclass(slots=True)
class _FetchEntry:
    """One entry of the request and its partition."""

    entry: FetchPartition
    partition: Partition | None
    error: KafkaError | None = None
    may_follow: bool = False  # the client may read from this node as a follower
    preferred: int = NO_NODE  # the node that the client should read from
    is_committed: bool = False  # isolation level read_committed

    def end_of(self, partition: Partition, log: Log) -> int:
        """The end offset for this client."""
        return log.last_stable_offset if self.is_committed else partition.high_watermark


class FetchHandler:
    """Reads, and parks requests that wait for more bytes."""

    def __init__(
        self,
        table: PartitionTable,
        disks: DiskFailures,
        purgatory: Purgatory,
        replies: Replies,
        counters: NodeCounters,
        limits: FetchLimits,
        reader: RecordReader,
        traces: BatchTraces | None = None,
    ) -> None:
        self._table = table
        self._disks = disks
        self._purgatory = purgatory
        self._replies = replies
        self._counters = counters
        self._limits = limits
        self.cold = reader.cold
        self.reader = reader
        self._traces = traces
        # By connection: a partition whose records had no space in the last response; it is read first.
        self._starved: dict[int, PartitionKey] = {}

    def handle(self, request: Incoming, now_ms: int) -> None:
        """Respond at once if there are enough bytes or errors, or max_wait_ms is 0; otherwise park.

        Errors: InvalidRequestError; ThrottlingQuotaExceededError when no request can be parked or queued.
        """
        body: FetchRequest = request.body
        check_read_request(body.isolation, body.partitions, self._limits.max_partitions)
        if self._limits.room() <= 0:
            raise ThrottlingQuotaExceededError("too many response bytes are queued")
        is_committed = body.isolation == READ_COMMITTED
        entries = [self._look_up(entry, is_committed=is_committed) for entry in body.partitions]
        has_choice = bool(body.rack) and self._limits.selects_replicas
        if body.may_follow or has_choice:
            for item in entries:
                item.may_follow = True
        if has_choice:
            self._select(entries, body.rack)
        wait_ms = min(body.max_wait_ms, self._limits.max_wait_ms)
        delayed = DelayedFetch(request, entries, min(body.min_bytes, body.max_bytes), self)
        delayed.began_ms, delayed.until_ms = now_ms, now_ms + max(wait_ms, COLD_WAIT_MS)
        if wait_ms <= 0 or delayed.min_bytes <= 0 or not entries:
            self.wait_for_disk(delayed, now_ms)
        else:
            self._purgatory.park(delayed, delayed.keys(), now_ms + wait_ms, now_ms)

    def wait_for_disk(self, delayed: DelayedFetch, now_ms: int) -> None:
        """Respond with what is readable; wait only if all of it must be read from a disk."""
        delayed.min_bytes = 0
        delayed.is_last = True
        if self.answer(delayed, now_ms):
            return
        try:
            self._purgatory.park(delayed, delayed.keys(), delayed.until_ms, now_ms)
        except ThrottlingQuotaExceededError:
            self.answer(delayed, now_ms, is_last=True)

    def cold_read(self, read: ColdRead, now_ms: int) -> None:
        """A ReadCold effect is done: complete the fetches that wait for it."""
        self.cold.finished(read, now_ms)
        self._purgatory.check(read.session, now_ms)
        self.cold.start_waiting(now_ms)

    def next_deadline_ms(self) -> int | None:
        """When `expire` must be called for the cold reads."""
        return self.cold.next_deadline_ms()

    def expire(self, now_ms: int) -> None:
        """A deadline may have passed."""
        self._purgatory.expire(now_ms)
        self.cold.start_waiting(now_ms)

    def connection_gone(self, session: int, now_ms: int) -> None:
        """Drop the requests and the reads of a client that has disconnected."""
        self._purgatory.check(session, now_ms)
        self.cold.forget(session, now_ms)
        self._starved.pop(session, None)
        self.reader.catch_up.forget(session)

    def _look_up(self, entry: FetchPartition, *, is_committed: bool) -> _FetchEntry:
        try:
            partition = self._table.find(entry.topic_id, entry.partition)
        except KafkaError as error:
            return _FetchEntry(entry, None, error)
        return _FetchEntry(entry, partition, is_committed=is_committed)

    def _select(self, entries: list[_FetchEntry], rack: str) -> None:
        brokers = self._table.image.brokers
        for item in entries:
            if item.partition is not None:
                item.preferred = near_replica(item.partition, rack, item.entry.fetch_offset, brokers)

    def is_ready(self, entries: list[_FetchEntry], min_bytes: int) -> bool:
        """Whether a response is due: enough bytes, or an error."""
        available = 0
        for item in entries:
            partition = item.partition
            if partition is None or item.preferred != NO_NODE:
                return True
            try:
                log = partition.leader_log(item.entry.current_leader_epoch, may_follow=item.may_follow)
                end = item.end_of(partition, log)
                if _has_readable(partition, log, item.entry, end):
                    # Bound: counting bytes may cost a read, and one byte is what most readers wait for
                    available += 1 if min_bytes - available <= 1 else _readable_bytes(log, item.entry, end)
            except KafkaError:
                return True  # `answer` raises it again, for the response
            if available >= min_bytes:
                return True
        return False

    def abandon(self, request: Incoming) -> None:
        """The client has disconnected."""
        self._replies.no_reply(request)

    def answer(self, delayed: DelayedFetch, now_ms: int, *, is_last: bool = False) -> bool:
        """Read within the limits and respond. False if all records must be read from disks, unless `is_last`.

        The first batch is returned however large it is.
        """
        request, entries = delayed.request, delayed.entries
        body: FetchRequest = request.body
        left = min(body.max_bytes, self._limits.max_bytes, self._limits.room())
        answers: list[FetchPartitionResponse | None] = [None] * len(entries)
        parts: list[list[Part]] = [[]] * len(entries)
        total = 0
        self.reader.begin_answer()
        lends = isinstance(request, OwnRequest) and request.takes_runs
        is_cold = has_found = has_failed = False
        starved: PartitionKey | None = None
        for index in self._turns(entries, request.peer.session):
            item = entries[index]
            data: list[Part] | None = []
            try:
                answer, data = self._read(
                    item, request.peer.session, left - total, now_ms, is_first=not has_found, lends=lends
                )
            except KafkaError as error:
                answer, has_failed = self._failed(item, error), True
            answers[index] = answer
            if item.preferred != NO_NODE:
                has_failed = True  # the client reads elsewhere
            elif data is None:
                is_cold = True
            elif data:
                has_found, parts[index] = True, data
                size = sum(map(len, data))
                total += size
                assert item.partition is not None, "it has data"
                item.partition.fetched_bytes += size
                item.partition.traffic.fetched_bytes += size
            elif starved is None and item.partition is not None and _is_behind(item, answer):
                starved = item.partition.key
        if is_cold and not (has_found or has_failed or is_last):
            return False
        if self._traces is not None and has_found:
            self._trace(self._traces, delayed, parts)
        self._note_starved(request.peer.session, starved)
        self._counters.fetched_bytes += total
        response = FetchResponse(tuple(answer for answer in answers if answer is not None))
        # only requests with `takes_runs` get runs among their buffers
        frames = cast("list[Buffer]", [part for data in parts for part in data])
        self._replies.reply(request, response, frames)
        return True

    def _trace(self, traces: BatchTraces, delayed: DelayedFetch, parts: list[list[Part]]) -> None:
        client_id = delayed.request.peer.client_id
        for item, data in zip(delayed.entries, parts, strict=True):
            if data and item.partition is not None:
                offset = item.entry.fetch_offset
                traces.fetched(item.partition, offset, data, delayed.began_ms, client_id)

    def _turns(self, entries: list[_FetchEntry], session: int) -> Sequence[int]:
        """The order in which entries are read: as requested, beginning with the one that was starved last
        time."""
        key = self._starved.get(session)
        if key is not None:
            for start, item in enumerate(entries):
                if item.partition is not None and item.partition.key == key:
                    return (*range(start, len(entries)), *range(start))
        return range(len(entries))

    def _note_starved(self, session: int, key: PartitionKey | None) -> None:
        if key is not None:
            self._starved[session] = key
        else:
            self._starved.pop(session, None)

    def _read(
        self, item: _FetchEntry, session: int, max_bytes: int, now_ms: int, *, is_first: bool, lends: bool
    ) -> tuple[FetchPartitionResponse, list[Part] | None]:
        """The response of one partition and its records, None if they must be read from a disk. The only
        place that reads records for consumers."""
        partition, entry = item.partition, item.entry
        if partition is None:
            assert item.error is not None, "an entry has a partition or an error"
            raise item.error
        log = partition.leader_log(entry.current_leader_epoch, may_follow=item.may_follow)
        # Order: read once; they bound the read and are returned in the response
        watermark, stable = partition.high_watermark, log.last_stable_offset
        end = stable if item.is_committed else watermark
        data: list[Part] | None = []
        limit = max(min(entry.max_bytes, max_bytes), 0)
        try:
            is_due = _has_readable(partition, log, entry, end) and (is_first or limit > 0)
            if is_due and item.preferred == NO_NODE:
                data = self.reader.records(
                    partition,
                    log,
                    entry.fetch_offset,
                    end,
                    limit,
                    now_ms,
                    session=session,
                    asked_bytes=entry.max_bytes,
                    is_first=is_first,
                    lends=lends,
                )
        except KafkaStorageError as error:
            self._disks.failed(partition, error, now_ms)
            raise
        except CorruptMessageError as error:
            self._disks.found_damage(partition, error)
            raise
        frame_count = 0 if data is None else len(data)
        answer = FetchPartitionResponse(
            0,
            watermark,
            stable,
            log.log_start_offset,
            frame_count,
            preferred_read_replica=item.preferred,
            aborted=log.reader.aborted_in(entry.fetch_offset, data) if item.is_committed and data else (),
        )
        return answer, data

    def _failed(self, item: _FetchEntry, error: KafkaError) -> FetchPartitionResponse:
        self._counters.failed_fetch_entries += 1
        if item.partition is not None:
            item.partition.traffic.failed_fetch_entries += 1
        leader, epoch = self._table.leader_hint(item.entry.topic_id, item.entry.partition)
        start = -1
        if item.partition is not None and item.partition.log is not None:
            start = item.partition.log.log_start_offset
        return FetchPartitionResponse(
            error.code,
            log_start_offset=start,
            error_detail=error.detail,
            leader_id=leader,
            leader_epoch=epoch,
        )


def check_read_request(
    isolation: int,
    entries: Sequence[FetchPartition | ListOffsetsPartition | CountRecordsPartition],
    max_partitions: int,
) -> None:
    """Validate a Fetch, ListOffsets or CountRecords request. Errors: InvalidRequestError.

    Each partition at most once: a small request must not make this node read the same records many times.
    """
    if isolation not in ISOLATION_LEVELS:
        raise InvalidRequestError(f"isolation level {isolation}: must be 0 or 1")
    if len(entries) > max_partitions:
        raise InvalidRequestError(f"{len(entries)} partitions, at most {max_partitions} are allowed")
    if len({(entry.topic_id, entry.partition) for entry in entries}) != len(entries):
        raise InvalidRequestError("a partition occurs twice")


def _has_readable(partition: Partition, log: Log, entry: FetchPartition, end_offset: int) -> bool:
    """Whether there is a record at or after the fetch offset, below `end_offset`.

    Errors: OffsetOutOfRangeError outside of log start offset .. log end offset; OffsetNotAvailableError from
    a follower above its log end, or above its high watermark if it is not in the ISR.
    """
    offset = entry.fetch_offset
    if offset >= partition.high_watermark and partition.leader != partition.node_id:
        end = log.log_end_offset
        if offset > end or partition.node_id not in partition.isr:
            raise OffsetNotAvailableError(
                f"{partition.topic_partition}: fetch offset {offset}, this follower's log ends at {end}"
            )
    if not log.log_start_offset <= offset <= log.log_end_offset:
        raise OffsetOutOfRangeError(
            f"{partition.topic_partition}: fetch offset {offset}, the log has {log.log_start_offset} to"
            f" {log.log_end_offset}"
        )
    return offset < end_offset


def _is_behind(item: _FetchEntry, answer: FetchPartitionResponse) -> bool:
    """Whether there are records at the fetch offset."""
    end = answer.last_stable_offset if item.is_committed else answer.high_watermark
    return not answer.error_code and item.entry.fetch_offset < end


def _readable_bytes(log: Log, entry: FetchPartition, end_offset: int) -> int:
    """About how many bytes the entry could return now; at least 1."""
    available = log.reader.bytes_about(entry.fetch_offset, end_offset)
    return max(1, min(available, entry.max_bytes))


class DelayedFetch:
    """A fetch in purgatory. It watches its connection and all of its partitions.

    `is_last`: its max_wait_ms is over; it waits only for cold reads, until `until_ms`.
    """

    __slots__ = ("_handler", "began_ms", "entries", "is_last", "min_bytes", "request", "until_ms")

    def __init__(
        self, request: Incoming, entries: list[_FetchEntry], min_bytes: int, handler: FetchHandler
    ) -> None:
        self.request = request
        self.entries = entries
        self.min_bytes = min_bytes
        self.began_ms = self.until_ms = 0
        self.is_last = False
        self._handler = handler

    def keys(self) -> tuple[Hashable, ...]:
        """Its watch keys."""
        partitions = dict.fromkeys(item.partition.key for item in self.entries if item.partition is not None)
        return (self.request.peer.session, *partitions)

    def try_complete(self, now_ms: int) -> bool:
        """Respond if there are enough bytes or errors."""
        if not self.request.peer.is_connected:
            self._handler.abandon(self.request)
            return True
        if not self.is_last and not self._handler.is_ready(self.entries, self.min_bytes):
            return False
        return self._handler.answer(self, now_ms)

    def on_expire(self, now_ms: int) -> None:
        """The wait is over: respond with what is readable."""
        if self.is_last:
            self._handler.answer(self, now_ms, is_last=True)
        else:
            self._handler.wait_for_disk(self, now_ms)
