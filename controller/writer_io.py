"""The decision writer of the active controller: handles requests one at a time and answers once they are
committed.

Order, for every decision: append it; wait until it is durable here and at a majority; publish it to readers;
answer. So no response and no reader ever has a decision that a crash or another leader could take back.
Flushes and the fetches of other controllers cover everything appended meanwhile: one serves many decisions. A
response without records waits for earlier decisions, because it may depend on them. A failure ends the task
and the process: nothing is answered then. A follower applies what is committed, and so has the image when it
becomes the leader. A leader that resigns drops the core with everything that is not committed: requests
without records are refused with NOT_CONTROLLER, because they did not run; the outcome of the others is
unknown.
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
            """Write decisions to the log; `DecisionWriter.on_committed` is called when they are committed."""


log = logging.getLogger("headrace.controller")

# Bound: decisions that are appended together.
MAX_GROUP = 200
# Bound: how long decisions may keep the event loop busy. One decision may take a tenth of a second (10,000
# partitions), so that a bound of their number alone would delay heartbeats by more than a session timeout.
MAX_GROUP_MS = 10
# Bound: records that a follower applies at once, beyond one decision: a new follower may have tens of MB, and
# must go on fetching from the leader meanwhile.
MAX_FOLLOWED = 1_000
# Bound: responses that wait for a commit; further requests wait for their decision.
MAX_UNDECIDED = 10 * MAX_GROUP


_URGENT = (BrokerHeartbeatRequest, BrokerRegistrationRequest, AlterPartitionRequest)


class _Waiting(NamedTuple):
    request: Request
    arrival_ms: int  # sessions count a heartbeat from its arrival


class _Decided(NamedTuple):
    """A decision that is appended and not yet committed."""

    end_offset: int
    records: Sequence[MetadataRecord]
    image: MetadataImage  # the image with the decision
    since_ms: int  # when the request arrived, or the expiry was noticed


class _Response(NamedTuple):
    """A response that is sent once everything below `end_offset` is committed."""

    end_offset: int
    request: Request
    reply: Any
    has_records: bool


class DecisionWriter:
    """Applies committed records to the feed; decides between `on_leader` and `on_resigned`."""

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
        self._timed_out_before = 0  # in earlier terms
        self._waiting: deque[_Waiting] = deque()
        # Heartbeats and the like are handled first: a queue of slow requests must not get nodes fenced.
        self._urgent: deque[_Waiting] = deque()
        self._has_work = asyncio.Event()
        self._is_idle = asyncio.Event()
        self._is_idle.set()
        self._decided: deque[_Decided] = deque()
        self._answers: deque[_Response] = deque()
        self._group: list[bytes] = []  # decided, and to be appended together
        self._committed_end = 0  # committed records that a follower has not applied yet
        # Bound: incarnation ids of registered nodes. The core has not been given the new ones yet.
        self._ended: frozenset[bytes] = frozenset()
        self._newly_ended: frozenset[bytes] = frozenset()
        # By node id the connection of its last heartbeat, and its broker epoch. Bound: nodes that were
        # registered.
        self._heartbeat_peers: dict[int, tuple[bytes, int]] = {}

    def __len__(self) -> int:
        return len(self._waiting) + len(self._urgent) + len(self._answers)

    @property
    def image(self) -> MetadataImage:
        """The image with all decisions of this controller, committed or not; else what is committed."""
        return self._feed.image if self._core is None else self._core.image

    @property
    def is_active(self) -> bool:
        """Whether this controller is active."""
        return self._core is not None

    @property
    def timed_out_nodes(self) -> int:
        """How many nodes this controller has fenced because no heartbeat came in time."""
        return self._timed_out_before + (0 if self._core is None else self._core.timed_out_nodes)

    # --- requests ---------------------------------------------------------------------------------------

    def submit(self, request: Request) -> None:
        """Queue a request. Errors: ThrottlingQuotaExceededError when too many wait."""
        queue = self._urgent if isinstance(request.body, _URGENT) else self._waiting
        if len(queue) >= self._max_waiting:
            raise ThrottlingQuotaExceededError(f"{self._max_waiting} requests are waiting for the controller")
        queue.append(_Waiting(request, monotonic_ms()))
        if isinstance(request.body, BrokerHeartbeatRequest):
            self._note_heartbeat_peer(request.body, request.peer)
        self.wake()

    def wake(self) -> None:
        """Look for work: a request arrived, or sessions may have expired."""
        self._is_idle.clear()
        self._has_work.set()

    def tick(self, now_ms: int) -> None:
        """The clock has reached `now_ms`."""
        if self._core is not None:
            self._core.tick(now_ms)
            self.wake()

    def note_ended(self, deaths: Deaths) -> None:
        """A supervisor reports that processes have ended. Kept for a later term: the next leader need not
        wait for their sessions either."""
        registered = {broker.incarnation_id for broker in self._feed.image.brokers.values()}
        ended = frozenset(each for each in registered if deaths.covers(each))
        if ended:
            self._ended = (self._ended & registered) | ended
            self._newly_ended |= ended
            self.wake()

    def _note_heartbeat_peer(self, heartbeat: BrokerHeartbeatRequest, peer: Peer) -> None:
        """Remember the connection of a registered node; heartbeats of other processes are refused."""
        broker = self._feed.image.brokers.get(heartbeat.node_id)
        if broker is not None and broker.broker_epoch == heartbeat.broker_epoch:
            self._heartbeat_peers[heartbeat.node_id] = peer.key, heartbeat.broker_epoch

    def peer_gone(self, peer: Peer) -> None:
        """A connection has closed: if a node sent its last heartbeat on it, its session ends sooner."""
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
        """Decide on waiting requests and on what is due by time, and append the records together."""
        self._note_control_records(core, self._log.end_offset)
        if not core.image.cluster_id:
            self._record(core, core.decide_format(self._new_cluster_id()), monotonic_ms())
        now_ms = monotonic_ms()
        core.learn_wall_clock(now_ms, wall_ms())
        end_ms = now_ms + MAX_GROUP_MS
        for _ in range(MAX_GROUP):
            if queue := self._urgent or self._waiting:
                self._decide(core, *queue.popleft())
            if not queue or monotonic_ms() >= end_ms:
                break
        if not self._urgent and not self._waiting:
            # Order: sessions expire only after every heartbeat that arrived was counted, and after the core
            # knows of the time in which the loop was stalled.
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
            self._answers.append(_Response(core.image.offset + 1, request, error, has_records=False))
            return
        self._record(core, decision.records, arrival_ms)
        answer = _Response(core.image.offset + 1, request, decision.reply, bool(decision.records))
        self._answers.append(answer)

    def _check_room(self, request: Request) -> None:
        """Errors: ThrottlingQuotaExceededError for a small request with a large response while too many
        responses are unread: it was accepted before the requests ahead of it were answered."""
        is_reading = isinstance(request.body, DescribeConfigsRequest)
        if is_reading and self._router.pending_response_bytes > self._max_unread_bytes:
            raise ThrottlingQuotaExceededError("too many response bytes wait to be read by clients")

    def _record(self, core: Controller, records: Sequence[MetadataRecord], since_ms: int) -> None:
        if records:
            self._group.append(encode_batch(records, wall_ms()))
            self._apply(core, records, since_ms)

    def _apply(self, core: Controller, records: Sequence[MetadataRecord], since_ms: int) -> None:
        core.apply(core.image.offset + 1, records)
        self._decided.append(_Decided(core.image.offset + 1, records, core.image, since_ms))

    def _note_control_records(self, core: Controller, end_offset: int) -> None:
        """Records of the quorum between the decisions only advance the image's offset."""
        count = end_offset - (core.image.offset + 1)
        if count > 0:
            self._apply(core, (NoOpRecord(),) * count, monotonic_ms())

    # --- events of the quorum ---------------------------------------------------------------------------

    def on_committed(self, end_offset: int) -> None:
        """Publish and answer everything below `end_offset`."""
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
        """Decide from now on. Active nodes get one session timeout to send a heartbeat."""
        while self._is_behind:
            self._follow()
        assert self._feed.image.offset + 1 == self._log.high_watermark, "all that is committed is applied"
        self._core = self._new_core(self._feed.image)
        self._newly_ended = self._ended
        self.wake()

    def on_resigned(self) -> None:
        """Stop deciding and drop what is not committed."""
        self._timed_out_before = self.timed_out_nodes
        self._core = None
        self._decided.clear()
        self._group.clear()
        refusal = NotControllerError("this controller is not active any more")
        unknown = RequestTimedOutError("the controller resigned: the request may have been executed or not")
        answers, self._answers = self._answers, deque()
        for answer in answers:
            self._router.reply_error(answer.request, unknown if answer.has_records else refusal)
        for queue in (self._urgent, self._waiting):
            while queue:
                self._router.reply_error(queue.popleft().request, refusal)
        self._note_idle()

    @property
    def _is_behind(self) -> bool:
        """Whether this follower has committed records to apply."""
        return self._core is None and self._feed.image.offset + 1 < self._committed_end

    def _follow(self) -> None:
        """Apply some of the committed records; `run` does the rest."""
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
