"""The shell of the Raft core: sockets, disk thread and timer. It decides nothing.

Order: effects are performed in the order in which the core returns them, and what must be durable before a
message is durable when the step returns. Appended batches are flushed on the disk thread, any number of them
by one flush. A disk failure ends the process: no waiting request gets a response.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from typing import TYPE_CHECKING, Any, Protocol

from ..protocol.errors import UnsupportedVersionError
from ..protocol.messages.quorum import RaftVoterResponse
from ..runtime.clock_io import monotonic_ms
from ..runtime.effect_performer import EffectPerformer, on
from .metrics import QuorumFacts
from .quorum import events
from .quorum.roles import Role
from .quorum_times import QuorumTimes

if TYPE_CHECKING:
    from collections.abc import Mapping
    from concurrent.futures import Executor

    from ..protocol.metadata.image import MetadataImage
    from ..protocol.model import FeatureRange
    from ..protocol.records.control import VoterSet
    from ..protocol.transport.dealer_io import Response
    from ..protocol.transport.router_io import Request, Router
    from ..runtime.shell_io import TaskOwner
    from ..storage_node.log.flush import Flush
    from .peers_io import Peers
    from .quorum.metadata_log import MetadataLog
    from .quorum.raft import Raft
    from .quorum.voters import Endpoint, ReplicaKey

log = logging.getLogger("headrace.controller")


class Listener(Protocol):
    """The state machine over the log: gets committed records and changes of leadership, in order."""

    def on_committed(self, end_offset: int) -> None:
        """The records below `end_offset` are committed."""

    def on_snapshot(self, image: MetadataImage) -> None:
        """The log now begins after this image."""

    def on_leader(self) -> None:
        """This controller is active; all earlier records were committed before."""

    def on_resigned(self) -> None:
        """This controller resigned; its uncommitted records may be lost."""


class Quorum:
    """Drives one Raft core. `start` comes first, `close` last."""

    def __init__(
        self,
        raft: Raft,
        stored: MetadataLog,
        router: Router,
        disk: Executor,
        tasks: TaskOwner,
        listener: Listener,
    ) -> None:
        self._raft, self._log, self._router, self._disk = raft, stored, router, disk
        self._tasks, self._listener = tasks, listener
        self.times = QuorumTimes()
        self._peers: Peers
        self._events: deque[events.Event] = deque()
        self._refusal = ""  # the last reason that was logged
        self._is_stepping = False
        self._is_over = False
        self._timer: asyncio.TimerHandle | None = None
        self._flushing: tuple[Flush, asyncio.Future[None]] | None = None
        self._performer = EffectPerformer(
            events.Effect,
            on(events.Send, lambda e: self._peers.send(e.target, e.correlation_id, e.body)),
            on(events.Reply, lambda e: router.reply(e.token, e.body, e.frames)),
            on(events.Flush, lambda _: self._start_flush()),
            on(events.Committed, self._committed),
            on(events.LoadSnapshot, lambda e: listener.on_snapshot(stored.snapshots.read(e.snapshot)[0])),
            on(events.BecameLeader, lambda _: listener.on_leader()),
            on(events.Resigned, lambda _: self._resigned()),
            on(events.LeaderChanged, self._log_leader),
            on(events.Campaigning, self._log_campaign),
            on(events.SetTimer, lambda e: self._set_timer(e.deadline_ms)),
        )

    def start(self, peers: Peers) -> None:
        """Process the first event."""
        self._peers = peers
        self._step(events.TimerFired())

    def close(self) -> None:
        """Stop: events have no effect any more."""
        self._is_over = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    async def finish_flush(self) -> None:
        """After `close`: wait for the flush in progress. Errors: KafkaStorageError."""
        if self._flushing is not None:
            flush, done = self._flushing
            self._flushing = None
            await done
            self._log.finish_flush(flush)

    # --- state ------------------------------------------------------------------------------------------

    @property
    def key(self) -> ReplicaKey:
        """This controller's id and directory id."""
        return self._raft.context.key

    @property
    def voters(self) -> tuple[ReplicaKey, ...]:
        """The latest voter set in this controller's log."""
        return self._raft.context.voters

    @property
    def is_alone(self) -> bool:
        """Whether this controller is the only voter."""
        return self.voters == (self.key,)

    @property
    def is_leading(self) -> bool:
        """Whether this controller was elected; it may not be active yet."""
        return self._raft.role is Role.LEADER

    @property
    def epoch(self) -> int:
        return self._raft.context.epoch

    @property
    def leader(self) -> tuple[int, Endpoint | None]:
        """(id of the leader, -1 if unknown; its endpoint)."""
        context = self._raft.context
        leader_id = context.leader_id
        if leader_id == context.key.replica_id:
            return leader_id, context.endpoint
        return leader_id, context.endpoint_of(leader_id) if leader_id >= 0 else None

    def endpoint_of(self, controller_id: int) -> Endpoint | None:
        """Where another controller listens; None if unknown."""
        return self._raft.context.endpoint_of(controller_id)

    def supported(self) -> Mapping[int, tuple[FeatureRange, ...] | None]:
        """The feature levels that the other voters support, while this controller leads."""
        leader = self._raft.quorum.leader
        return {} if leader is None else leader.supported()

    def facts(self) -> QuorumFacts:
        """For the status and the metrics of the controller."""
        return QuorumFacts(
            role=self._raft.role.value if self.key in self.voters else "observer",
            leader_id=self._raft.quorum.current_leader,
            epoch=self.epoch,
            high_watermark=self._log.high_watermark,
            log_end_offset=self._log.end_offset,
            voters=tuple(key.replica_id for key in self.voters),
        )

    def set_cluster_id(self, cluster_id: str) -> None:
        """Reject requests of other clusters from now on."""
        self._raft.context.cluster_id = cluster_id

    # --- events in --------------------------------------------------------------------------------------

    def receive(self, request: Request) -> None:
        """Pass a request to the core, which responds."""
        self._guarded_step(events.RequestReceived(request, request.body))

    def append(self, batches: tuple[bytes, ...]) -> None:
        """Append decisions of the active controller. Errors: KafkaStorageError, and the process must end."""
        assert not self._is_stepping, "no appends from within an effect"
        self._step(events.AppendRequested(batches))
        self.times.appended(self._log.end_offset, monotonic_ms())

    def bootstrap(self, voters: VoterSet) -> None:
        """Begin a quorum with these voters, on a blank disk. Errors: KafkaStorageError."""
        self._step(events.BootstrapRequested(voters))

    async def resign(self) -> None:
        """If this controller leads others, resign, so that they do not wait for a timeout."""
        if self.is_leading and not self.is_alone:
            self._step(events.StopRequested())
            await self._peers.settled()

    def on_response(self, correlation_id: int, response: Response | None) -> None:
        """The response to a request to another controller; None if there will be none."""
        if response is None:
            self._guarded_step(events.RequestFailed(correlation_id))
        else:
            self._log_refusal(response.body)
            self._guarded_step(events.ResponseReceived(correlation_id, response.body, response.frames))

    async def checkpoint(self) -> None:
        """Store the committed and durable end, on the disk thread: a slow disk must not block the event loop.
        Order: committed records are never truncated, so the log cannot end before the stored offset."""
        end_offset = min(self._log.high_watermark, self._log.flushed_offset)
        await asyncio.get_running_loop().run_in_executor(
            self._disk, self._log.checkpoint_committed, end_offset
        )

    def _guarded_step(self, event: events.Event) -> None:
        """`_step` from a callback of the loop, which would drop an exception."""
        try:
            self._step(event)
        except BaseException as error:  # noqa: BLE001 - the process must end
            self._tasks.fail(error)

    def _step(self, event: events.Event) -> None:
        """Step the core and perform the effects; an event that an effect causes is processed after them."""
        self._events.append(event)
        if self._is_stepping:
            return
        self._is_stepping = True
        try:
            while self._events and not self._is_over:
                self._performer.perform_all(self._raft.step(self._events.popleft(), monotonic_ms()))
        except BaseException:
            self._is_over = True  # the core must not be used again
            raise
        finally:
            self._is_stepping = False

    # --- effects out ------------------------------------------------------------------------------------

    def _start_flush(self) -> None:
        flush = self._log.start_flush()
        if flush is None:
            self._finish_flush(None)
            return
        future = asyncio.get_running_loop().run_in_executor(self._disk, flush.sync)
        self._flushing = flush, future
        future.add_done_callback(lambda done: self._flushed(flush, done))

    def _flushed(self, flush: Flush, done: asyncio.Future[None]) -> None:
        if self._is_over or done.cancelled():
            return
        self._flushing = None
        error = done.exception()
        if error is not None:
            self._is_over = True
            self._tasks.fail(error)
            return
        self._tasks.guarded(self._finish_flush)(flush)

    def _finish_flush(self, flush: Flush | None) -> None:
        self._log.finish_flush(flush)
        self._step(events.Flushed())

    def _set_timer(self, deadline_ms: int) -> None:
        if self._timer is not None:
            self._timer.cancel()
        delay_s = max(deadline_ms - monotonic_ms(), 0) / 1000
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(delay_s, self._guarded_step, events.TimerFired())

    def _log_refusal(self, answer: Any) -> None:
        """This controller may not become a voter; it asks again, and each reason is logged once."""
        is_refused = (
            isinstance(answer, RaftVoterResponse) and answer.error_code == UnsupportedVersionError.code
        )
        if is_refused and answer.error_detail != self._refusal:
            self._refusal = answer.error_detail
            log.warning("controller %d cannot be a voter: %s", self.key.replica_id, self._refusal)

    def _committed(self, effect: events.Committed) -> None:
        self.times.committed(effect.end_offset, monotonic_ms())
        self._listener.on_committed(effect.end_offset)

    def _resigned(self) -> None:
        self.times.resigned()
        self._listener.on_resigned()

    def _log_leader(self, effect: events.LeaderChanged) -> None:
        self.times.leader_known(effect.leader_id, monotonic_ms())
        leader = f"leader is controller {effect.leader_id}" if effect.leader_id >= 0 else "leader is unknown"
        log.info(
            "controller %d: %s in quorum epoch %d (%s)",
            self.key.replica_id,
            leader,
            effect.epoch,
            effect.reason,
        )

    def _log_campaign(self, effect: events.Campaigning) -> None:
        self.times.campaigning(monotonic_ms())
        log.info(
            "controller %d: requesting pre-votes in quorum epoch %d (%s)",
            self.key.replica_id,
            effect.epoch,
            effect.reason,
        )
