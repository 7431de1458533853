"""Fetch: read below the high watermark, at once or when enough bytes are there.

Source: Kafka ReplicaManager.fetchMessages, DelayedFetch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...protocol.errors import (
    CorruptMessageError,
    InvalidRequestError,
    KafkaError,
    KafkaStorageError,
    OffsetOutOfRangeError,
    ThrottlingQuotaExceededError,
)
from ...protocol.messages.data import FetchPartitionResponse, FetchResponse

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ...protocol.messages.data import FetchPartition, FetchRequest, ListOffsetsPartition
    from ...protocol.records.header import Buffer
    from ...runtime.purgatory import Purgatory
    from ..counters import NodeCounters
    from ..log.log import Log
    from ..replies import Incoming, Replies
    from .partition import Partition
    from .replica_manager import ReplicaManager

ISOLATION_LEVELS = (0, 1)  # read_uncommitted, read_committed


@dataclass(frozen=True, slots=True)
class FetchLimits:
    """What a client cannot raise. `room` says how many response bytes the node may still queue."""

    max_bytes: int
    max_wait_ms: int
    max_partitions: int
    room: Callable[[], int]


@dataclass(slots=True)
class _Wanted:
    """One entry of the request, with its partition looked up once."""

    entry: FetchPartition
    partition: Partition | None
    error: KafkaError | None = None


class FetchHandler:
    """Reads, and parks what must wait for more bytes."""

    def __init__(
        self,
        replicas: ReplicaManager,
        purgatory: Purgatory,
        replies: Replies,
        counters: NodeCounters,
        limits: FetchLimits,
    ) -> None:
        self._replicas = replicas
        self._purgatory = purgatory
        self._replies = replies
        self._counters = counters
        self._limits = limits

    def handle(self, request: Incoming, now_ms: int) -> None:
        """Answer at once if enough is there, something is wrong or no wait was asked for; else park.

        Errors: InvalidRequestError; ThrottlingQuotaExceededError when nothing more can be parked or queued.
        """
        body: FetchRequest = request.body
        check_asked(body.isolation, body.partitions, self._limits.max_partitions)
        if self._limits.room() <= 0:
            raise ThrottlingQuotaExceededError("too many response bytes wait for their readers")
        wanted = [self._look_up(entry) for entry in body.partitions]
        wait_ms = min(body.max_wait_ms, self._limits.max_wait_ms)
        min_bytes = min(body.min_bytes, body.max_bytes)
        if wait_ms <= 0 or min_bytes <= 0 or not wanted:
            self.finish(request, wanted)
            return
        partitions = dict.fromkeys(item.partition.key for item in wanted if item.partition is not None)
        keys = (request.peer.session, *partitions)
        self._purgatory.park(DelayedFetch(request, wanted, min_bytes, self), keys, now_ms + wait_ms)

    def _look_up(self, entry: FetchPartition) -> _Wanted:
        try:
            return _Wanted(entry, self._replicas.find(entry.topic_id, entry.partition))
        except KafkaError as error:
            return _Wanted(entry, None, error)

    def is_ready(self, wanted: list[_Wanted], min_bytes: int) -> bool:
        """Whether an answer is due: enough bytes, or an error that the client must hear at once."""
        found = 0
        for item in wanted:
            partition = item.partition
            if partition is None:
                return True
            try:
                log = partition.leader_log(item.entry.current_leader_epoch)
                if _has_readable(partition, log, item.entry):
                    # Bound: counting bytes may cost a read, and one byte is what most readers wait for
                    found += 1 if min_bytes - found <= 1 else _readable_bytes(partition, log, item.entry)
            except KafkaError:
                return True  # `finish` meets it again and puts it into the answer
            if found >= min_bytes:
                return True
        return False

    def abandon(self, request: Incoming) -> None:
        """Nobody is there any more to hear the answer."""
        self._replies.no_reply(request)

    def finish(self, request: Incoming, wanted: list[_Wanted]) -> None:
        """Read within the limits and answer. The first batch found is returned however large it is."""
        body: FetchRequest = request.body
        left = min(body.max_bytes, self._limits.max_bytes, self._limits.room())
        answers: list[FetchPartitionResponse] = []
        frames: list[Buffer] = []
        total = 0
        for item in wanted:
            try:
                answer, data = self._read(item, left - total, is_first=not frames)
            except KafkaError as error:
                answer, data = self._failed(item, error), []
            answers.append(answer)
            frames += data
            total += sum(len(buffer) for buffer in data)
        self._counters.fetched_bytes += total
        self._replies.reply(request, FetchResponse(tuple(answers)), frames)

    def _read(
        self, item: _Wanted, max_bytes: int, *, is_first: bool
    ) -> tuple[FetchPartitionResponse, list[Buffer]]:
        """One partition's share. The only place that reads records for clients."""
        partition, entry = item.partition, item.entry
        if partition is None:
            assert item.error is not None, "an entry has a partition or an error"
            raise item.error
        log = partition.leader_log(entry.current_leader_epoch)
        watermark = partition.high_watermark  # Order: read once, it bounds the read and goes into the answer
        data: list[Buffer] = []
        limit = min(entry.max_bytes, max_bytes)
        try:
            if _has_readable(partition, log, entry) and (is_first or limit > 0):
                data = log.read(
                    entry.fetch_offset, max(limit, 0), upto_offset=watermark, min_one=is_first
                ).data
        except KafkaStorageError as error:
            self._replicas.disk_failed(partition, error)
            raise
        except CorruptMessageError as error:
            self._replicas.found_damage(partition, error)
            raise
        return FetchPartitionResponse(0, watermark, watermark, log.log_start_offset, len(data)), data

    def _failed(self, item: _Wanted, error: KafkaError) -> FetchPartitionResponse:
        self._counters.failed_fetch_entries += 1
        leader, epoch = self._replicas.leader_hint(item.entry.topic_id, item.entry.partition)
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


def check_asked(
    isolation: int, entries: Sequence[FetchPartition | ListOffsetsPartition], max_partitions: int
) -> None:
    """What reading requests have in common. Errors: InvalidRequestError.

    Each partition once: so a small request cannot make this node do the same reading a thousand times.
    """
    if isolation not in ISOLATION_LEVELS:
        raise InvalidRequestError(f"isolation {isolation}, only 0 and 1 exist")
    if len(entries) > max_partitions:
        raise InvalidRequestError(f"{len(entries)} partitions, at most {max_partitions} are allowed")
    if len({(entry.topic_id, entry.partition) for entry in entries}) != len(entries):
        raise InvalidRequestError("a partition is named twice")


def _has_readable(partition: Partition, log: Log, entry: FetchPartition) -> bool:
    """Whether there is a committed record at the asked offset or after it.

    Errors: OffsetOutOfRangeError outside of log start offset .. log end offset.
    """
    offset = entry.fetch_offset
    if not log.log_start_offset <= offset <= log.log_end_offset:
        raise OffsetOutOfRangeError(
            f"{partition.topic_partition} holds offsets {log.log_start_offset} to {log.log_end_offset},"
            f" asked was {offset}"
        )
    return offset < partition.high_watermark


def _readable_bytes(partition: Partition, log: Log, entry: FetchPartition) -> int:
    """About how many bytes the entry could get now; at least 1."""
    available = log.bytes_between(entry.fetch_offset, partition.high_watermark)
    return max(1, min(available, entry.max_bytes))


class DelayedFetch:
    """A fetch in purgatory. It watches its connection and all of its partitions."""

    __slots__ = ("_handler", "_min_bytes", "_request", "_wanted")

    def __init__(
        self, request: Incoming, wanted: list[_Wanted], min_bytes: int, handler: FetchHandler
    ) -> None:
        self._request = request
        self._wanted = wanted
        self._min_bytes = min_bytes
        self._handler = handler

    def try_complete(self) -> bool:
        """Answer if enough is there now, or something changed that the client must hear."""
        if not self._request.peer.is_connected:
            self._handler.abandon(self._request)
            return True
        if not self._handler.is_ready(self._wanted, self._min_bytes):
            return False
        self._handler.finish(self._request, self._wanted)
        return True

    def on_expire(self) -> None:
        """The wait is over: answer with what there is."""
        self._handler.finish(self._request, self._wanted)
