"""The one writer of the active controller: takes requests in order, decides, and answers once that counts.

Order, for every decision: append it; have it durable here and with a majority; publish it to readers; answer.
So no answer and no reader ever knows of a decision that a crash or another leader could take back. Flushes
and the others' fetches cover whatever was appended meanwhile: one serves many decisions. An answer
without records waits for what was decided before it, because it may rest on that. A failure ends the task,
and with it the process: nothing is answered then.

A controller that only follows applies what is committed, and so has the image when it becomes the leader. One
that leads no longer drops the core, with everything that is not committed: requests that nothing was recorded
for are refused with NOT_CONTROLLER, so they did not run; the outcome of the others is unknown.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple

from ..protocol.errors import (
    KafkaError,
    NotControllerError,
    RequestTimedOutError,
    ThrottlingQuotaExceededError,
)
from ..protocol.messages.control import (
    AlterPartitionRequest,
    BrokerHeartbeatRequest,
    BrokerRegistrationRequest,
    DescribeConfigsRequest,
)
from ..protocol.metadata.records import NoOpRecord
from ..protocol.metadata.replay import replay
from ..runtime.clock_io import monotonic_ms, wall_ms
from .quorum.record_batches import encode_batch

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Protocol

    from ..protocol.metadata.image import MetadataImage
    from ..protocol.metadata.records import MetadataRecord
    from ..protocol.transport.router_io import Peer, Request, Router
    from ..runtime.incarnation import Deaths
    from .controller import Controller
    from .metadata_feed import MetadataFeed
    from .quorum.metadata_log import MetadataLog

    class Appender(Protocol):
        """What the writer needs of the quorum."""

        def append(self, batches: tuple[bytes, ...]) -> None:
            """Write decisions to the log; `DecisionWriter.on_committed` tells when they count."""


log = logging.getLogger("headrace.controller")

# Bound: decisions that are appended together.
MAX_GROUP = 200
# Bound: how long deciding may keep the loop from its sockets. One decision may take a tenth of a second
# (10,000 partitions), so a count alone would let a client silence every heartbeat for longer than a session.
MAX_GROUP_MS = 10
# Bound: records that a controller applies at once that only follows, beyond one decision: a new one may find
# tens of MB committed, and must go on hearing the leader meanwhile.
MAX_FOLLOWED = 1_000
# Bound: answers that wait for a majority; further requests wait for their decision.
MAX_UNDECIDED = 10 * MAX_GROUP


_URGENT = (BrokerHeartbeatRequest, BrokerRegistrationRequest, AlterPartitionRequest)


class _Waiting(NamedTuple):
    request: Request
    arrival_ms: int  # a heartbeat counts from when it came, not from when its turn came


class _Decided(NamedTuple):
    """A decision that is appended and not yet committed."""

    end_offset: int
    records: Sequence[MetadataRecord]
    image: MetadataImage  # with it
    since_ms: int  # when its reason came, or was noticed


class _Answer(NamedTuple):
    """An answer that counts once everything below `end_offset` is committed."""

    end_offset: int
    request: Request
    reply: Any
    has_records: bool


class DecisionWriter:
    """Applies what is committed to the feed; decides between `on_leader` and `on_resigned`."""

    def __init__(
        self,
        quorum: Appender,
        log: MetadataLog,
        feed: MetadataFeed,
        router: Router,
        new_core: Callable[[MetadataImage], Controller],
        *,
        new_cluster_id: Callable[[], str],
        max_waiting: int,
        max_unread_bytes: int = 1 << 62,
        on_publish: Callable[[], None],
    ) -> None:
        self._quorum, self._log, self._feed, self._router = quorum, log, feed, router
        self._new_core, self._new_cluster_id = new_core, new_cluster_id
        self._max_waiting = max_waiting
        self._max_unread_bytes = max_unread_bytes
        self._on_publish = on_publish
        self._core: Controller | None = None
        self._waiting: deque[_Waiting] = deque()
        # Heartbeats and the like pass the others: a queue full of slow requests must fence nobody.
        self._urgent: deque[_Waiting] = deque()
        self._has_work = asyncio.Event()
        self._is_idle = asyncio.Event()
        self._is_idle.set()
        self._decided: deque[_Decided] = deque()
        self._answers: deque[_Answer] = deque()
        self._group: list[bytes] = []  # decided, and to be appended together
        self._committed_end = 0  # what is committed while this controller follows
        # Bound: incarnation ids of registered nodes. The core was not told of the new ones yet.
        self._ended: frozenset[bytes] = frozenset()
        self._newly_ended: frozenset[bytes] = frozenset()
        # By node id the peer of its last heartbeat, and its broker epoch. Bound: nodes that were registered.
        self._heartbeat_peers: dict[int, tuple[bytes, int]] = {}

    def __len__(self) -> int:
        return len(self._waiting) + len(self._urgent) + len(self._answers)

    @property
    def is_active(self) -> bool:
        """Whether this controller decides."""
        return self._core is not None

    # --- requests ---------------------------------------------------------------------------------------

    def submit(self, request: Request) -> None:
        """Queue a request; it will be answered. Errors: ThrottlingQuotaExceededError when too many wait."""
        queue = self._urgent if isinstance(request.body, _URGENT) else self._waiting
        if len(queue) >= self._max_waiting:
            raise ThrottlingQuotaExceededError(f"{self._max_waiting} requests are waiting for the controller")
        queue.append(_Waiting(request, monotonic_ms()))
        if isinstance(request.body, BrokerHeartbeatRequest):
            self._note_heartbeat_peer(request.body, request.peer)
        self.wake()

    def wake(self) -> None:
        """Look for work: a request came, or time has passed and sessions may have run out."""
        self._is_idle.clear()
        self._has_work.set()

    def tick(self, now_ms: int) -> None:
        """Time has come to here."""
        if self._core is not None:
            self._core.tick(now_ms)
            self.wake()

    def note_ended(self, deaths: Deaths) -> None:
        """Processes have ended, says who supervises them. Kept for a later term: whoever leads next need not
        wait for those either."""
        registered = {broker.incarnation_id for broker in self._feed.image.brokers.values()}
        ended = frozenset(each for each in registered if deaths.covers(each))
        if ended:
            self._ended = (self._ended & registered) | ended
            self._newly_ended |= ended
            self.wake()

    def _note_heartbeat_peer(self, heartbeat: BrokerHeartbeatRequest, peer: Peer) -> None:
        """Remember on which connection a registered node sends; heartbeats of other processes are refused."""
        broker = self._feed.image.brokers.get(heartbeat.node_id)
        if broker is not None and broker.broker_epoch == heartbeat.broker_epoch:
            self._heartbeat_peers[heartbeat.node_id] = peer.key, heartbeat.broker_epoch

    def peer_gone(self, peer: Peer) -> None:
        """A connection has ended: if it is the one on which a node sent its last heartbeat, the session of
        that node depends on another."""
        for node_id, (key, broker_epoch) in list(self._heartbeat_peers.items()):
            if key == peer.key:
                del self._heartbeat_peers[node_id]
                if self._core is not None:
                    self._core.note_disconnected(node_id, broker_epoch, monotonic_ms())

    async def drained(self) -> None:
        """Wait until every queued request is answered."""
        await self._is_idle.wait()

    async def run(self) -> None:
        """Decide until cancelled. Errors: KafkaStorageError; nothing is answered after one."""
        while True:
            await self._has_work.wait()
            self._has_work.clear()
            if self._is_behind:
                self._follow()
                await asyncio.sleep(0)
            if self._core is not None and len(self._answers) < MAX_UNDECIDED:
                self._decide_group(self._core)
                if self._waiting or self._urgent:
                    self._has_work.set()
                    await asyncio.sleep(0)  # let the sockets be read
            self._note_idle()

    # --- deciding ---------------------------------------------------------------------------------------

    def _decide_group(self, core: Controller) -> None:
        """Decide and append what waits, then what time brings."""
        self._note_control_records(core, self._log.end_offset)
        if not core.image.cluster_id:
            self._record(core, core.decide_format(self._new_cluster_id()), monotonic_ms())
        end_ms = monotonic_ms() + MAX_GROUP_MS
        for _ in range(MAX_GROUP):
            if queue := self._urgent or self._waiting:
                self._decide(core, *queue.popleft())
            if not queue or monotonic_ms() >= end_ms:
                break
        if not self._urgent and not self._waiting:
            # Order: sessions run out only once everything that was heard has been counted, and once the core
            # knows of the time in which this loop stood still and could hear nobody.
            now_ms = monotonic_ms()
            core.tick(now_ms)
            if self._newly_ended:
                core.note_ended(self._newly_ended)
                self._newly_ended = frozenset()
            while records := core.decide_expiry(monotonic_ms()):
                self._record(core, records, now_ms)
        for note in core.notes.take():
            log.log(logging.WARNING if note.is_warning else logging.INFO, "%s", note.text)
        if self._group:
            batches, self._group = tuple(self._group), []
            self._quorum.append(batches)
        self._send_answers(self._log.high_watermark)

    def _decide(self, core: Controller, request: Request, arrival_ms: int) -> None:
        try:
            self._check_room(request)
            decision = core.decide(request.body, arrival_ms)
        except KafkaError as error:
            self._answers.append(_Answer(core.image.offset + 1, request, error, has_records=False))
            return
        self._record(core, decision.records, arrival_ms)
        answer = _Answer(core.image.offset + 1, request, decision.reply, bool(decision.records))
        self._answers.append(answer)

    def _check_room(self, request: Request) -> None:
        """Errors: ThrottlingQuotaExceededError for a small question with a large answer while too much lies
        unread: it was let in before those that wait ahead of it were answered."""
        is_reading = isinstance(request.body, DescribeConfigsRequest)
        if is_reading and self._router.pending_response_bytes > self._max_unread_bytes:
            raise ThrottlingQuotaExceededError("too many bytes of answers are waiting to be read")

    def _record(self, core: Controller, records: Sequence[MetadataRecord], since_ms: int) -> None:
        if records:
            self._group.append(encode_batch(records, wall_ms()))
            self._apply(core, records, since_ms)

    def _apply(self, core: Controller, records: Sequence[MetadataRecord], since_ms: int) -> None:
        core.apply(core.image.offset + 1, records)
        self._decided.append(_Decided(core.image.offset + 1, records, core.image, since_ms))

    def _note_control_records(self, core: Controller, end_offset: int) -> None:
        """What the quorum itself has written between the decisions only moves the image's offset."""
        count = end_offset - (core.image.offset + 1)
        if count > 0:
            self._apply(core, (NoOpRecord(),) * count, monotonic_ms())

    # --- what the quorum tells --------------------------------------------------------------------------

    def on_committed(self, end_offset: int) -> None:
        """Everything below counts: publish and answer it."""
        if self._core is None:
            self._committed_end = end_offset
            self._follow()
            return
        self._note_control_records(self._core, end_offset)
        decisions, took_ms = [], []
        image, now_ms = self._feed.image, monotonic_ms()
        while self._decided and self._decided[0].end_offset <= end_offset:
            decided = self._decided.popleft()
            decisions.append(decided.records)
            took_ms.append(now_ms - decided.since_ms)
            image = decided.image
        self._feed.publish(image, decisions, took_ms)
        self._on_publish()
        self._send_answers(end_offset)
        if self._waiting or self._urgent:
            self.wake()
        self._note_idle()

    def on_leader(self) -> None:
        """Decide from now on. Nodes that were active have one session timeout to be heard."""
        while self._is_behind:
            self._follow()
        assert self._feed.image.offset + 1 == self._log.high_watermark, "all that is committed is applied"
        self._core = self._new_core(self._feed.image)
        self._newly_ended = self._ended
        self.wake()

    def on_resigned(self) -> None:
        """Decide no longer, and forget what is not committed."""
        self._core = None
        self._decided.clear()
        self._group.clear()
        refusal = NotControllerError("this controller does not lead any more")
        unknown = RequestTimedOutError("the controller lost its leadership: this may have been done or not")
        answers, self._answers = self._answers, deque()
        for answer in answers:
            self._router.reply_error(answer.request, unknown if answer.has_records else refusal)
        for queue in (self._urgent, self._waiting):
            while queue:
                self._router.reply_error(queue.popleft().request, refusal)
        self._note_idle()

    @property
    def _is_behind(self) -> bool:
        """Whether this controller follows, and has not applied all that is committed."""
        return self._core is None and self._feed.image.offset + 1 < self._committed_end

    def _follow(self) -> None:
        """Apply some of what is committed; `run` does the rest."""
        image, decisions = self._feed.image, []
        end_offset = image.offset + MAX_FOLLOWED
        for base_offset, records in self._log.committed(image.offset + 1, self._committed_end):
            image, _ = replay(image, base_offset, records)
            decisions.append(records)
            if image.offset >= end_offset:
                break
        self._feed.publish(image, decisions)
        self._on_publish()
        if self._is_behind:
            self.wake()

    def _send_answers(self, end_offset: int) -> None:
        while self._answers and self._answers[0].end_offset <= end_offset:
            answer = self._answers.popleft()
            if isinstance(answer.reply, KafkaError):
                self._router.reply_error(answer.request, answer.reply)
            else:
                self._router.reply(answer.request, answer.reply)

    def _note_idle(self) -> None:
        if not len(self) and not self._has_work.is_set():
            self._is_idle.set()
