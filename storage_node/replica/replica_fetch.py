"""Fetches of followers: read up to the log's end, and learn from what they ask for how far they are.

A follower's fetches form a session, which lives with its connection (KIP-227). The session knows every
partition that the follower has asked for, so a fetch names only those whose offset changed, and its answer
only those with news: records, a high watermark that moved, a diverged log, an error. Work is done for what
changed alone, however many partitions are followed.

Invariant: after news that a follower must react to (records, divergence, an error) a partition is silent
until the follower names it again; so an answer never holds what an earlier one brought already.
Invariant: a fetch whose last epoch diverges from the leader's log never counts as progress.
Source: Kafka Partition.scala fetchRecords, FetchSession.scala; KIP-227, 595, 903, 1166.
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
from .fetch import check_asked
from .fetch_session import FetchSession, SessionEntry

if TYPE_CHECKING:
    from ...protocol.messages.data import FetchPartition, FetchRequest
    from ...protocol.records.header import Buffer
    from ...protocol.transport.replies import Incoming, Replies
    from ...runtime.purgatory import Purgatory
    from ..counters import NodeCounters
    from ..log.log import Log
    from .disk_trouble import DiskTrouble
    from .fetch import FetchLimits
    from .leading import Leading
    from .partition import Partition, PartitionKey
    from .partition_table import PartitionTable
    from .reading import RecordReader
    from .throttle import Throttle

# Bound: sessions of one connection, and of all; each knows up to max.request.partitions partitions.
_MAX_PER_CONNECTION = 64
_MAX_SESSIONS = 1_000


class _Told(NamedTuple):
    """The answer for one partition. `is_reaction_due`: it is silent from now on."""

    answer: FetchPartitionResponse
    data: list[Buffer]
    is_reaction_due: bool


class ReplicaFetchHandler:
    """Keeps the sessions, answers fetches, and parks those with nothing to be told."""

    def __init__(
        self,
        table: PartitionTable,
        leading: Leading,
        disks: DiskTrouble,
        throttle: Throttle,
        purgatory: Purgatory,
        replies: Replies,
        counters: NodeCounters,
        limits: FetchLimits,
        reader: RecordReader,
    ) -> None:
        self._table = table
        self._leading = leading
        self._disks = disks
        self._throttle = throttle
        self._purgatory = purgatory
        self._replies = replies
        self._counters = counters
        self._limits = limits
        self._reader = reader
        self._next_id = 1
        self.sessions: dict[int, FetchSession] = {}
        self._followed: dict[PartitionKey, dict[FetchSession, None]] = {}

    def handle(self, request: Incoming, now_ms: int) -> None:
        """Take in how far the follower is; answer if there are news, else park.

        Errors: InvalidRequestError; ThrottlingQuotaExceededError; BrokerIdNotRegisteredError of a follower
        that this node has not heard of yet.
        """
        body: FetchRequest = request.body
        check_asked(body.isolation, body.partitions, self._limits.max_partitions)
        if self._limits.room() <= 0:
            raise ThrottlingQuotaExceededError("too many response bytes wait for their readers")
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
        """A partition may have news: records, a high watermark, another leader, an error."""
        sessions = self._followed.get(key)
        if not sessions:
            return
        for session in list(sessions):
            if session.entries[key].is_silent:
                continue
            if key not in session.news:
                self._note_heard(session, key)
                session.news[key] = None
            if session.parked is not None:
                self._purgatory.check(session.watch_key, now_ms)

    def connection_gone(self, connection: int, now_ms: int) -> None:
        """The sessions of a connection end with it."""
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
            raise BrokerIdNotRegisteredError(f"node {body.replica_id} is not known here")
        if body.replica_id == self._table.node_id:
            raise InvalidRequestError("a node does not follow itself")
        connection = request.peer.session
        old = self.sessions.get(body.session_id)
        if old is not None and old.connection == connection:
            self._end(old, now_ms)
        mine = [session for session in self.sessions.values() if session.connection == connection]
        if len(mine) >= _MAX_PER_CONNECTION:
            self._end(mine[0], now_ms)  # its follower has given it up
        if len(self.sessions) >= _MAX_SESSIONS:
            raise ThrottlingQuotaExceededError(f"{len(self.sessions)} fetch sessions exist already")
        session = FetchSession(self._next_id, connection, body.replica_id, body.replica_epoch)
        self._next_id += 1
        self.sessions[session.session_id] = session
        return session

    def _end(self, session: FetchSession, now_ms: int) -> None:
        """Order: what its last fetch said of the partitions that it did not name is kept."""
        del self.sessions[session.session_id]
        if session.parked is not None:
            self._purgatory.cancel(session.parked)
            session.parked.answer_now(now_ms)
        for key in session.entries:
            self._note_heard(session, key)
            self._unfollow(session, key)

    def _take(self, session: FetchSession, body: FetchRequest, now_ms: int) -> None:
        """The follower's offsets: of what it names, and of what has news that it was not told yet."""
        for key in body.forgotten:
            if session.entries.pop(key, None) is not None:
                session.news.pop(key, None)
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
                entry.asked, entry.is_silent = asked, False
            session.news.pop(key, None)  # who was served last is served last
            session.news[key] = None
        if session.replica_epoch != body.replica_epoch:
            # It was registered anew: whether it may join an ISR is asked of each partition again.
            session.replica_epoch = body.replica_epoch
            session.news.update({key: None for key, entry in session.entries.items() if not entry.is_silent})
        session.last_fetch_ms = now_ms
        for key in list(session.news):
            self._note_progress(session, session.entries[key], now_ms)

    def _unfollow(self, session: FetchSession, key: PartitionKey) -> None:
        sessions = self._followed[key]
        del sessions[session]
        if not sessions:
            del self._followed[key]

    # --- progress --------------------------------------------------------------------------------------

    def _note_progress(self, session: FetchSession, entry: SessionEntry, now_ms: int) -> None:
        """What goes wrong here is met again, and told, when the answer is made."""
        asked = entry.asked
        partition = self._table.partitions.get((asked.topic_id, asked.partition))
        if partition is None or entry.is_silent or asked.wants_producers:
            return  # without its producers it is not in sync
        try:
            log = partition.leader_log(asked.current_leader_epoch)
            if self._divergence(log, asked) is not None:
                return
        except KafkaError:
            return
        self._leading.follower_fetched(partition, session.replica_id, asked, session.replica_epoch, now_ms)

    def _note_heard(self, session: FetchSession, key: PartitionKey) -> None:
        """The follower did not name the partition in its last fetches: it was where it had been."""
        entry, partition = session.entries[key], self._table.partitions.get(key)
        if partition is None or partition.in_sync is None or entry.is_silent or key in session.news:
            return
        progress = partition.in_sync.followers.get(session.replica_id)
        if progress is not None and progress.broker_epoch == session.replica_epoch:
            progress.heard(session.last_fetch_ms)

    def _divergence(self, log: Log, asked: FetchPartition) -> tuple[int, int] | None:
        """(epoch, its end) up to which the follower's log may agree with this one; None if all of it does.

        Errors: OffsetOutOfRangeError.
        """
        offset = asked.fetch_offset
        if offset < log.log_start_offset:
            raise OffsetOutOfRangeError(f"offset {offset}, the log starts at {log.log_start_offset}")
        if asked.last_fetched_epoch != NO_EPOCH:
            epoch, end_offset = log.end_offset_for_epoch(asked.last_fetched_epoch)
            if epoch == NO_EPOCH:
                raise OffsetOutOfRangeError(f"epoch {asked.last_fetched_epoch} is newer than any in the log")
            # What this log has deleted with its epochs may be something else there, and nobody can tell.
            is_older = asked.last_fetched_epoch < log.epochs.oldest_epoch
            is_unknown = is_older and asked.log_start_offset < log.log_start_offset
            if epoch < asked.last_fetched_epoch or end_offset < offset or is_unknown:
                return epoch, end_offset
        if offset > log.log_end_offset:
            raise OffsetOutOfRangeError(f"offset {offset}, the log ends at {log.log_end_offset}")
        return None

    # --- answers ---------------------------------------------------------------------------------------

    def is_ready(self, session: FetchSession, min_bytes: int, now_ms: int) -> bool:
        """Whether an answer is due. What turns out to have no news is taken off the list."""
        found = 0
        for key in list(session.news):
            entry = session.entries[key]
            asked = entry.asked
            try:
                partition, log = self._led(asked, session.replica_id)
                if asked.wants_producers or self._divergence(log, asked) is not None:
                    return True
            except KafkaError:
                return True
            if self._is_throttled(partition, session.replica_id, now_ms):
                continue  # its next fetch comes when this one has waited long enough
            if asked.fetch_offset < log.log_end_offset:
                found += (
                    1 if min_bytes <= 1 else log.reader.bytes_about(asked.fetch_offset, log.log_end_offset)
                )
                if found >= min_bytes:
                    return True
            elif _is_told(entry, partition, log):
                del session.news[key]
            else:
                return True
        return False

    def answer(self, request: Incoming, session: FetchSession, now_ms: int, *, is_last: bool) -> bool:
        """Tell the news, within the limits; False, unless it `is_last`, if all of them wait for disks."""
        body: FetchRequest = request.body
        left = min(body.max_bytes, self._limits.max_bytes, self._limits.room())
        answers: list[FetchPartitionResponse] = []
        keys: list[PartitionKey] = []
        frames: list[Buffer] = []
        self._reader.begin_answer()
        total, is_cold = 0, False
        for key in list(session.news):
            if total and total >= left:
                break  # the rest comes first next time
            entry = session.entries[key]
            try:
                told = self._tell(entry, session, left - total, now_ms, is_first=not total)
            except KafkaError as error:
                told = self._failed(entry, error)
            if told is None:
                is_cold = True
                continue
            if not told.data and not told.is_reaction_due:
                if not self._has_news(entry, told.answer):
                    if entry.asked.fetch_offset >= told.answer.last_stable_offset:
                        del session.news[key]
                    continue
                if entry.asked.fetch_offset >= told.answer.last_stable_offset:
                    del session.news[key]
            else:
                del session.news[key]
            if told.is_reaction_due and not told.data:  # while its log may differ it believes no watermark
                entry.told_watermark = entry.told_start = NO_OFFSET
            else:
                entry.told_watermark = told.answer.high_watermark
                entry.told_start = told.answer.log_start_offset
            entry.is_silent = told.is_reaction_due
            answers.append(told.answer)
            keys.append(key)
            frames += told.data
            size = sum(map(len, told.data))
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
        """Nobody is there any more to hear the answer."""
        self._replies.no_reply(request)

    def _is_throttled(self, partition: Partition, replica_id: int, now_ms: int) -> bool:
        """Whether that follower must wait for records although there are some."""
        return _is_under_throttle(partition, replica_id) and not self._throttle.has_room(now_ms)

    def _count_throttled(self, key: PartitionKey, replica_id: int, size_bytes: int, now_ms: int) -> None:
        if _is_under_throttle(self._table.partitions[key], replica_id):
            self._throttle.take(size_bytes, now_ms)

    def _has_news(self, entry: SessionEntry, answer: FetchPartitionResponse) -> bool:
        return (entry.told_watermark, entry.told_start) != (answer.high_watermark, answer.log_start_offset)

    def _led(self, asked: FetchPartition, replica_id: int) -> tuple[Partition, Log]:
        """Errors: why this node does not serve that follower."""
        partition = self._table.find(asked.topic_id, asked.partition)
        log = partition.leader_log(asked.current_leader_epoch)
        in_sync = partition.in_sync
        if in_sync is None or replica_id not in in_sync.followers:
            raise NotLeaderOrFollowerError(f"node {replica_id} is no replica of {partition.topic_partition}")
        return partition, log

    def _tell(
        self, entry: SessionEntry, session: FetchSession, max_bytes: int, now_ms: int, *, is_first: bool
    ) -> _Told | None:
        """None if a disk has to be waited for. `last_stable_offset` is the log's end, for the caller.

        Errors: what is to be told instead.
        """
        asked = entry.asked
        partition, log = self._led(asked, session.replica_id)
        assert partition.in_sync is not None, "checked in _led"
        if session.replica_epoch < partition.in_sync.followers[session.replica_id].broker_epoch:
            raise NotLeaderOrFollowerError(f"a newer process of node {session.replica_id} was heard")
        end, watermark, start = log.log_end_offset, partition.high_watermark, log.log_start_offset
        divergence = self._divergence(log, asked)
        if divergence is not None:
            epoch, end_offset = divergence
            answer = FetchPartitionResponse(
                0, watermark, end, start, diverging_epoch=epoch, diverging_end_offset=end_offset
            )
            return _Told(answer, [], is_reaction_due=True)
        if asked.wants_producers:
            answer = FetchPartitionResponse(0, watermark, end, start, 1, has_producers=True)
            return _Told(answer, [log.producers.snapshot_before(asked.fetch_offset)], is_reaction_due=True)
        data: list[Buffer] | None = []
        limit = max(min(asked.max_bytes, max_bytes), 0)
        is_throttled = self._is_throttled(partition, session.replica_id, now_ms)
        if asked.fetch_offset < end and (is_first or limit > 0) and not is_throttled:
            data = self._records(partition, log, asked, session, limit, now_ms, is_first=is_first)
        if data is None:
            return None
        return _Told(
            FetchPartitionResponse(0, watermark, end, start, len(data)), data, is_reaction_due=bool(data)
        )

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
            return cast("list[Buffer] | None", found)  # nothing is lent to who has not asked for it
        except KafkaStorageError as error:
            self._disks.failed(partition, error, now_ms)
            raise
        except CorruptMessageError as error:
            self._disks.found_damage(partition, error)
            raise

    def _failed(self, entry: SessionEntry, error: KafkaError) -> _Told:
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
        return _Told(answer, [], is_reaction_due=True)


def _is_under_throttle(partition: Partition, replica_id: int) -> bool:
    return (
        partition.is_throttled_as_leader
        and partition.in_sync is not None
        and replica_id not in partition.in_sync.committed
    )


def _is_told(entry: SessionEntry, partition: Partition, log: Log) -> bool:
    """Whether the follower knows the high watermark and the log's start."""
    return (entry.told_watermark, entry.told_start) == (partition.high_watermark, log.log_start_offset)


class DelayedReplicaFetch:
    """A follower's fetch in purgatory: at most one of each session. It watches its connection and session."""

    __slots__ = ("_handler", "_request", "_session")

    def __init__(self, request: Incoming, session: FetchSession, handler: ReplicaFetchHandler) -> None:
        self._request = request
        self._session = session
        self._handler = handler

    def try_complete(self, now_ms: int) -> bool:
        """Answer if there are news."""
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
        """The wait is over."""
        self.answer_now(now_ms)

    def answer_now(self, now_ms: int) -> None:
        """Answer with what there is."""
        self._session.parked = None
        self._handler.answer(self._request, self._session, now_ms, is_last=True)
