"""Fetches of followers: read up to the log end, and track the followers' progress by their fetch offsets.

A follower's fetches form a session, which ends with its connection (KIP-227). The session has every partition
that the follower fetches, so a request contains only those whose offset changed, and a response only those
with changes: records, a new high watermark, a diverged log, an error. The work depends on the changed
partitions alone, not on the number of followed ones.

Invariant: after a response that the follower must react to (records, divergence, an error) nothing is sent of
a partition until the follower fetches it again; so no response repeats an earlier one. Invariant: a fetch
whose last epoch diverges from the leader's log does not count as progress. Source: Kafka Partition.scala
fetchRecords, FetchSession.scala; KIP-227, 595, 903, 1166.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, cast

from ...protocol.errors import (
    BrokerIdNotRegisteredError,
    CorruptMessageError,
    FetchSessionIdNotFoundError,
    InvalidFetchSessionEpochError,
    InvalidRequestError,
    KafkaError,
    KafkaStorageError,
    NotLeaderOrFollowerError,
    OffsetOutOfRangeError,
    ThrottlingQuotaExceededError,
)
from ...protocol.messages.data import FetchPartitionResponse, FetchResponse
from ...protocol.model import NO_EPOCH, NO_OFFSET
from .fetch import check_read_request
from .fetch_session import FetchSession, SessionEntry

if TYPE_CHECKING:
    from ...protocol.messages.data import FetchPartition, FetchRequest
    from ...protocol.records.header import Buffer
    from ...protocol.transport.replies import Incoming, Replies
    from ...runtime.purgatory import Purgatory
    from ..counters import NodeCounters
    from ..log.log import Log
    from .batch_traces import BatchTraces
    from .disk_failures import DiskFailures
    from .fetch import FetchLimits
    from .isr_manager import IsrManager
    from .partition import Partition, PartitionKey
    from .partition_table import PartitionTable
    from .reading import RecordReader
    from .throttle import Throttle

# Bound: sessions of one connection, and of all; each has up to max.request.partitions partitions.
_MAX_PER_CONNECTION = 64
_MAX_SESSIONS = 1_000


class _PartitionResponse(NamedTuple):
    """The response of one partition. `is_reaction_due`: the follower must fetch it again first."""

    answer: FetchPartitionResponse
    data: list[Buffer]
    is_reaction_due: bool


class ReplicaFetchHandler:
    """Keeps the sessions, responds to fetches, and parks those without changes."""

    def __init__(
        self,
        table: PartitionTable,
        isr_manager: IsrManager,
        disks: DiskFailures,
        throttle: Throttle,
        purgatory: Purgatory,
        replies: Replies,
        counters: NodeCounters,
        limits: FetchLimits,
        reader: RecordReader,
        traces: BatchTraces | None = None,
    ) -> None:
        self._table = table
        self._isr_manager = isr_manager
        self._disks = disks
        self._throttle = throttle
        self._purgatory = purgatory
        self._replies = replies
        self._counters = counters
        self._limits = limits
        self._reader, self._traces = reader, traces
        self._next_id = 1
        self.sessions: dict[int, FetchSession] = {}
        self._followed: dict[PartitionKey, dict[FetchSession, None]] = {}

    def handle(self, request: Incoming, now_ms: int) -> None:
        """Record the follower's progress; respond if there are changes, otherwise park.

        Errors: InvalidRequestError; ThrottlingQuotaExceededError; BrokerIdNotRegisteredError if the follower
        is not in this node's image yet.
        """
        body: FetchRequest = request.body
        check_read_request(body.isolation, body.partitions, self._limits.max_partitions)
        if self._limits.room() <= 0:
            raise ThrottlingQuotaExceededError("too many response bytes are queued")
        try:
            session = self._session(request, now_ms)
        except (FetchSessionIdNotFoundError, InvalidFetchSessionEpochError) as error:
            self._replies.reply(request, FetchResponse((), error.code))
            return
        if session.parked is not None:  # a newer fetch overtakes it
            self._purgatory.cancel(session.parked)
            session.parked.answer_now(now_ms)
        self._take(session, body, now_ms)
        delayed = session.parked = DelayedReplicaFetch(request, session, self)
        wait_ms = min(body.max_wait_ms, self._limits.max_wait_ms)
        if wait_ms <= 0:
            delayed.answer_now(now_ms)
            return
        keys = (request.peer.session, session.watch_key)
        try:
            self._purgatory.park(delayed, keys, now_ms + wait_ms, now_ms)
        except ThrottlingQuotaExceededError:
            session.parked = None
            raise

    def changed(self, key: PartitionKey, now_ms: int) -> None:
        """A partition may have changed: records, high watermark, leader or an error."""
        sessions = self._followed.get(key)
        if not sessions:
            return
        for session in list(sessions):
            if session.entries[key].awaits_follower:
                continue
            if key not in session.pending:
                self._note_unchanged_fetch(session, key)
                session.pending[key] = None
            if session.parked is not None:
                self._purgatory.check(session.watch_key, now_ms)

    def connection_gone(self, connection: int, now_ms: int) -> None:
        """The follower has disconnected: its sessions end."""
        for session in [s for s in self.sessions.values() if s.connection == connection]:
            self._end(session, now_ms)

    # --- sessions --------------------------------------------------------------------------------------

    def _session(self, request: Incoming, now_ms: int) -> FetchSession:
        body: FetchRequest = request.body
        if body.session_epoch == 0:
            return self._begin(request, now_ms)
        session = self.sessions.get(body.session_id)
        if session is None or session.connection != request.peer.session:
            raise FetchSessionIdNotFoundError(f"fetch session {body.session_id}")
        if body.session_epoch != session.next_epoch or body.replica_id != session.replica_id:
            self._end(session, now_ms)
            raise InvalidFetchSessionEpochError(f"epoch {body.session_epoch}, not {session.next_epoch}")
        session.next_epoch += 1
        return session

    def _begin(self, request: Incoming, now_ms: int) -> FetchSession:
        body: FetchRequest = request.body
        if body.replica_id not in self._table.image.brokers:
            raise BrokerIdNotRegisteredError(f"node {body.replica_id} is not in the metadata of this node")
        if body.replica_id == self._table.node_id:
            raise InvalidRequestError("a node cannot fetch from itself as a follower")
        connection = request.peer.session
        old = self.sessions.get(body.session_id)
        if old is not None and old.connection == connection:
            self._end(old, now_ms)
        mine = [session for session in self.sessions.values() if session.connection == connection]
        if len(mine) >= _MAX_PER_CONNECTION:
            self._end(mine[0], now_ms)  # abandoned by its follower
        if len(self.sessions) >= _MAX_SESSIONS:
            raise ThrottlingQuotaExceededError(f"{len(self.sessions)} fetch sessions exist already")
        session = FetchSession(self._next_id, connection, body.replica_id, body.replica_epoch)
        self._next_id += 1
        self.sessions[session.session_id] = session
        return session

    def _end(self, session: FetchSession, now_ms: int) -> None:
        """Order: the progress of partitions that were not in the last fetch is recorded first."""
        del self.sessions[session.session_id]
        if session.parked is not None:
            self._purgatory.cancel(session.parked)
            session.parked.answer_now(now_ms)
        for key in session.entries:
            self._note_unchanged_fetch(session, key)
            self._unfollow(session, key)

    def _take(self, session: FetchSession, body: FetchRequest, now_ms: int) -> None:
        """Record the follower's progress: of the partitions in the fetch, and of those with changes to
        send."""
        for key in body.forgotten:
            if session.entries.pop(key, None) is not None:
                session.pending.pop(key, None)
                self._unfollow(session, key)
        limit = self._limits.max_partitions
        for asked in body.partitions:
            key = (asked.topic_id, asked.partition)
            entry = session.entries.get(key)
            if entry is None:
                if len(session.entries) >= limit:
                    raise InvalidRequestError(f"more than {limit} partitions in one fetch session")
                session.entries[key] = SessionEntry(asked)
                self._followed.setdefault(key, {})[session] = None
            else:
                entry.asked, entry.awaits_follower = asked, False
            session.pending.pop(key, None)  # at the end of the turn
            session.pending[key] = None
        if session.replica_epoch != body.replica_epoch:
            # The follower has registered again: for each partition check again whether it may join the ISR.
            session.replica_epoch = body.replica_epoch
            session.pending.update(
                {key: None for key, entry in session.entries.items() if not entry.awaits_follower}
            )
        session.last_fetch_ms = now_ms
        for key in list(session.pending):
            self._note_progress(session, session.entries[key], now_ms)

    def _unfollow(self, session: FetchSession, key: PartitionKey) -> None:
        sessions = self._followed[key]
        del sessions[session]
        if not sessions:
            del self._followed[key]

    # --- progress --------------------------------------------------------------------------------------

    def _note_progress(self, session: FetchSession, entry: SessionEntry, now_ms: int) -> None:
        """Errors are raised again, and sent, by `answer`."""
        asked = entry.asked
        partition = self._table.partitions.get((asked.topic_id, asked.partition))
        if partition is None or entry.awaits_follower or asked.wants_producers:
            return  # without producer state it is not in sync
        try:
            log = partition.leader_log(asked.current_leader_epoch)
            if self._divergence(log, asked) is not None:
                return
        except KafkaError:
            return
        self._isr_manager.follower_fetched(
            partition, session.replica_id, asked, session.replica_epoch, now_ms
        )

    def _note_unchanged_fetch(self, session: FetchSession, key: PartitionKey) -> None:
        """The partition was not in the follower's last fetches: its fetch offset has not changed."""
        entry, partition = session.entries[key], self._table.partitions.get(key)
        if partition is None or partition.in_sync is None or entry.awaits_follower or key in session.pending:
            return
        progress = partition.in_sync.followers.get(session.replica_id)
        if progress is not None and progress.broker_epoch == session.replica_epoch:
            progress.repeated_fetch(session.last_fetch_ms)

    def _divergence(self, log: Log, asked: FetchPartition) -> tuple[int, int] | None:
        """(epoch, its end offset) up to which the follower's log may agree with this one; None if all of it
        does.

        Errors: OffsetOutOfRangeError.
        """
        offset = asked.fetch_offset
        if offset < log.log_start_offset:
            raise OffsetOutOfRangeError(f"offset {offset}, the log starts at {log.log_start_offset}")
        if asked.last_fetched_epoch != NO_EPOCH:
            epoch, end_offset = log.end_offset_for_epoch(asked.last_fetched_epoch)
            if epoch == NO_EPOCH:
                raise OffsetOutOfRangeError(f"epoch {asked.last_fetched_epoch} is newer than any in the log")
            # The records below this log's start, and their epochs, are deleted: they cannot be compared.
            is_older = asked.last_fetched_epoch < log.epochs.oldest_epoch
            is_unknown = is_older and asked.log_start_offset < log.log_start_offset
            if epoch < asked.last_fetched_epoch or end_offset < offset or is_unknown:
                return epoch, end_offset
        if offset > log.log_end_offset:
            raise OffsetOutOfRangeError(f"offset {offset}, the log ends at {log.log_end_offset}")
        return None

    # --- answers ---------------------------------------------------------------------------------------

    def is_ready(self, session: FetchSession, min_bytes: int, now_ms: int) -> bool:
        """Whether a response is due. Partitions without changes leave `pending`."""
        found = 0
        for key in list(session.pending):
            entry = session.entries[key]
            asked = entry.asked
            try:
                partition, log = self._led(asked, session.replica_id)
                if asked.wants_producers or self._divergence(log, asked) is not None:
                    return True
            except KafkaError:
                return True
            if self._is_throttled(partition, session.replica_id, now_ms):
                continue  # sent when the wait of this fetch is over
            if asked.fetch_offset < log.log_end_offset:
                found += (
                    1 if min_bytes <= 1 else log.reader.bytes_about(asked.fetch_offset, log.log_end_offset)
                )
                if found >= min_bytes:
                    return True
            elif entry.is_sent(partition.high_watermark, log.log_start_offset):
                del session.pending[key]
            else:
                return True
        return False

    def answer(self, request: Incoming, session: FetchSession, now_ms: int, *, is_last: bool) -> bool:
        """Respond with the changes within the limits. False if all must be read from disks, unless
        `is_last`."""
        body: FetchRequest = request.body
        left = min(body.max_bytes, self._limits.max_bytes, self._limits.room())
        answers: list[FetchPartitionResponse] = []
        keys: list[PartitionKey] = []
        frames: list[Buffer] = []
        self._reader.begin_answer()
        total, is_cold = 0, False
        for key in list(session.pending):
            if total and total >= left:
                break  # the others are first next time
            entry = session.entries[key]
            try:
                part = self._read(entry, session, left - total, now_ms, is_first=not total)
            except KafkaError as error:
                part = self._failed(entry, error)
            if part is None:
                is_cold = True
                continue
            if not part.data and not part.is_reaction_due:
                if entry.asked.fetch_offset >= part.answer.last_stable_offset:
                    del session.pending[key]
                if entry.is_sent(part.answer.high_watermark, part.answer.log_start_offset):
                    continue
            else:
                del session.pending[key]
            if (
                part.is_reaction_due and not part.data
            ):  # a follower whose log may differ ignores the watermark
                entry.sent_high_watermark = entry.sent_log_start = NO_OFFSET
            else:
                entry.sent_high_watermark = part.answer.high_watermark
                entry.sent_log_start = part.answer.log_start_offset
            entry.awaits_follower = part.is_reaction_due
            answers.append(part.answer)
            keys.append(key)
            frames += part.data
            size = sum(map(len, part.data))
            total += size
            if size:
                self._count_throttled(key, session.replica_id, size, now_ms)
        if is_cold and not answers and not is_last:
            return False
        self._counters.replicated_out_bytes += total
        response = FetchResponse(tuple(answers), 0, session.session_id, tuple(keys))
        self._replies.reply(request, response, frames)
        return True

    def abandon(self, request: Incoming) -> None:
        """The follower has disconnected."""
        self._replies.no_reply(request)

    def _is_throttled(self, partition: Partition, replica_id: int, now_ms: int) -> bool:
        """Whether records are held back from the follower by leader.replication.throttled.rate."""
        return _is_under_throttle(partition, replica_id) and not self._throttle.has_room(now_ms)

    def _count_throttled(self, key: PartitionKey, replica_id: int, size_bytes: int, now_ms: int) -> None:
        if _is_under_throttle(self._table.partitions[key], replica_id):
            self._throttle.take(size_bytes, now_ms)

    def _led(self, asked: FetchPartition, replica_id: int) -> tuple[Partition, Log]:
        """Errors: why this node does not serve that follower."""
        partition = self._table.find(asked.topic_id, asked.partition)
        log = partition.leader_log(asked.current_leader_epoch)
        in_sync = partition.in_sync
        if in_sync is None or replica_id not in in_sync.followers:
            raise NotLeaderOrFollowerError(f"node {replica_id} is no replica of {partition.topic_partition}")
        return partition, log

    def _read(
        self, entry: SessionEntry, session: FetchSession, max_bytes: int, now_ms: int, *, is_first: bool
    ) -> _PartitionResponse | None:
        """None if the records must be read from a disk. `last_stable_offset` is the log end offset, for the
        caller.

        Errors: the error of the partition.
        """
        asked = entry.asked
        partition, log = self._led(asked, session.replica_id)
        assert partition.in_sync is not None, "checked in _led"
        if session.replica_epoch < partition.in_sync.followers[session.replica_id].broker_epoch:
            raise NotLeaderOrFollowerError(f"node {session.replica_id} has fetched with a newer broker epoch")
        end, watermark, start = log.log_end_offset, partition.high_watermark, log.log_start_offset
        divergence = self._divergence(log, asked)
        if divergence is not None:
            epoch, end_offset = divergence
            answer = FetchPartitionResponse(
                0, watermark, end, start, diverging_epoch=epoch, diverging_end_offset=end_offset
            )
            return _PartitionResponse(answer, [], is_reaction_due=True)
        if asked.wants_producers:
            answer = FetchPartitionResponse(0, watermark, end, start, 1, has_producers=True)
            return _PartitionResponse(
                answer, [log.producers.snapshot_before(asked.fetch_offset)], is_reaction_due=True
            )
        data: list[Buffer] | None = []
        limit = max(min(asked.max_bytes, max_bytes), 0)
        is_throttled = self._is_throttled(partition, session.replica_id, now_ms)
        if asked.fetch_offset < end and (is_first or limit > 0) and not is_throttled:
            data = self._records(partition, log, asked, session, limit, now_ms, is_first=is_first)
        if data is None:
            return None
        traces = self._traces
        traced = () if traces is None else traces.within(partition.key, asked.fetch_offset, data)
        answer = FetchPartitionResponse(0, watermark, end, start, len(data), traced=traced)
        return _PartitionResponse(answer, data, is_reaction_due=bool(data))

    def _records(
        self,
        partition: Partition,
        log: Log,
        asked: FetchPartition,
        session: FetchSession,
        limit: int,
        now_ms: int,
        *,
        is_first: bool,
    ) -> list[Buffer] | None:
        try:
            found = self._reader.records(
                partition,
                log,
                asked.fetch_offset,
                log.log_end_offset,
                limit,
                now_ms,
                session=session.connection,
                asked_bytes=asked.max_bytes,
                is_first=is_first,
            )
            return cast("list[Buffer] | None", found)  # runs are returned only with `lends`
        except KafkaStorageError as error:
            self._disks.failed(partition, error, now_ms)
            raise
        except CorruptMessageError as error:
            self._disks.found_damage(partition, error)
            raise

    def _failed(self, entry: SessionEntry, error: KafkaError) -> _PartitionResponse:
        asked = entry.asked
        leader, epoch = self._table.leader_hint(asked.topic_id, asked.partition)
        start = end = NO_OFFSET
        partition = self._table.partitions.get((asked.topic_id, asked.partition))
        if isinstance(error, OffsetOutOfRangeError) and partition is not None and partition.log is not None:
            start, end = partition.log.log_start_offset, partition.log.log_end_offset
        answer = FetchPartitionResponse(
            error.code,
            log_start_offset=start,
            error_detail=error.detail,
            leader_id=leader,
            leader_epoch=epoch,
            diverging_end_offset=end,
        )
        return _PartitionResponse(answer, [], is_reaction_due=True)


def _is_under_throttle(partition: Partition, replica_id: int) -> bool:
    return (
        partition.is_throttled_as_leader
        and partition.in_sync is not None
        and replica_id not in partition.in_sync.committed
    )


class DelayedReplicaFetch:
    """A follower's fetch in purgatory, at most one of each session. It watches its connection and session."""

    __slots__ = ("_handler", "_request", "_session")

    def __init__(self, request: Incoming, session: FetchSession, handler: ReplicaFetchHandler) -> None:
        self._request = request
        self._session = session
        self._handler = handler

    def try_complete(self, now_ms: int) -> bool:
        """Respond if there are changes."""
        if not self._request.peer.is_connected:
            self._session.parked = None
            self._handler.abandon(self._request)
            return True
        if not self._handler.is_ready(self._session, self._request.body.min_bytes, now_ms):
            return False
        if not self._handler.answer(self._request, self._session, now_ms, is_last=False):
            return False
        self._session.parked = None
        return True

    def on_expire(self, now_ms: int) -> None:
        """The wait is over: respond with what is readable."""
        self.answer_now(now_ms)

    def answer_now(self, now_ms: int) -> None:
        """Respond with what is readable."""
        self._session.parked = None
        self._handler.answer(self._request, self._session, now_ms, is_last=True)
