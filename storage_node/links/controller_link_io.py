"""The node's connection to the controller: performs what `membership` decides, follows the metadata,
forwards requests.

One connection at a time. Every request on it has a timeout; whatever goes wrong closes it, and the
membership decides when the next one is opened.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ...protocol.errors import (
    HeadraceError,
    KafkaError,
    NetworkError,
    NotControllerError,
    RequestTimedOutError,
    ThrottlingQuotaExceededError,
    error_from_code,
)
from ...protocol.messages import registry
from ...protocol.messages.control import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    BrokerHeartbeatRequest,
    BrokerRegistrationRequest,
    FetchMetadataRequest,
    FetchMetadataResponse,
)
from ...protocol.metadata.records import FenceBrokerRecord
from ...runtime.clock_io import monotonic_ms
from ...runtime.effect_performer import EffectPerformer, on
from ...runtime.limited_log_io import LimitedLog
from ...runtime.stalls import StallMeter
from ..log.losses import PreviousEnd
from ..replica.disk_trouble import DiskNews
from . import membership as m
from .heartbeat_times import HeartbeatTimes, own_records
from .leader_search_io import ControllerLocators, ElectingError, LeaderSearch, fixed_locator

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    import msgspec

    from ...protocol.messages.envelope import Api
    from ...protocol.model import ListenerEndpoint
    from ...protocol.transport.dealer_io import Connection, Response
    from ...runtime.shell_io import TaskOwner
    from ..configs.node_config import NodeConfig

__all__ = ["ControllerLink", "ControllerLocators", "LinkEvents", "NodeIdentity", "fixed_locator"]

log = logging.getLogger("headrace.storage_node")

# How long a forwarded request waits for a controller that leads: several elections, and less than its time.
MAX_SEARCH_S = 5.0
SEARCH_SHARE = 0.8
# Bound: forwarded requests under way; each holds a task and its request.
MAX_FORWARDS = 500
# Heartbeats, registration, ISR changes and the metadata poll share the connection with forwarded requests.
_RESERVED_IN_FLIGHT = 3 + m.MAX_HEARTBEATS
LOOK_INTERVAL_MS = 100  # at the clock, to notice that the loop stood still


@dataclass(slots=True)
class NodeIdentity:
    """Who this node is: what the disks say, completed by the controller."""

    node_id: int
    cluster_id: str
    incarnation_id: bytes
    host: str
    port: int
    rack: str | None
    log_dir_ids: tuple[bytes, ...]
    previous_end: PreviousEnd = field(default_factory=PreviousEnd)
    listeners: tuple[ListenerEndpoint, ...] = ()


@dataclass(frozen=True, slots=True)
class LinkEvents:
    """What the owner of the link does when the controller speaks.

    `adopted` gets node id, cluster id and controller id before any metadata. `metadata` applies records
    and returns the offset of the image then; `metadata_offset` is the image's offset now. `disks` tells how
    the node's disks are.
    """

    adopted: Callable[[int, str, int], None]
    metadata: Callable[[FetchMetadataResponse], Awaitable[int]]
    metadata_offset: Callable[[], int]
    disks: Callable[[], DiskNews] = DiskNews


class ControllerLink:
    """The shell around one Membership."""

    def __init__(
        self,
        config: NodeConfig,
        locators: ControllerLocators,
        identity: NodeIdentity,
        events: LinkEvents,
        tasks: TaskOwner,
    ) -> None:
        self.membership = m.Membership(
            m.MembershipTimes(
                heartbeat_ms=config.heartbeat_interval_ms,
                backoff_ms=config.controller_backoff_ms,
                backoff_max_ms=config.controller_backoff_max_ms,
                registration_timeout_ms=config.registration_timeout_ms,
                shutdown_timeout_ms=config.controlled_shutdown_timeout_ms,
            )
        )
        self._config = config
        self._timeout_s = config.controller_request_timeout_ms / 1000
        self._search = LeaderSearch(locators, self._timeout_s)
        self._identity = identity
        self._events = events
        self._tasks = tasks
        self._log = LimitedLog(log)
        self._connection: Connection | None = None
        self._following: Connection | None = None
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._forwards = 0
        self._is_closed = False
        now_ms = monotonic_ms()
        self._heartbeats = HeartbeatTimes()
        self._stalls = StallMeter(LOOK_INTERVAL_MS, now_ms)
        self._answered_ms = now_ms  # when any request on the connection was answered
        self.is_active = asyncio.Event()  # set for good the first time that the node may lead
        self.has_left = asyncio.Event()
        self._is_connected = asyncio.Event()
        self._performer = EffectPerformer(
            m.Effect,
            on(m.FindController, lambda _: tasks.spawn(self._find(), "find the controller")),
            on(m.SendRegistration, lambda _: tasks.spawn(self._register(), "register")),
            on(m.AdoptIdentity, self._adopt),
            on(m.SendHeartbeat, lambda effect: tasks.spawn(self._beat(effect), "heartbeat")),
            on(m.FollowMetadata, self._start_following),
            on(m.SetTimer, self._set_timer),
            on(m.Left, lambda _: self.has_left.set()),
            on(m.Failed, self._fail),
        )

    @property
    def broker_epoch(self) -> int:
        """Of the current registration, -1 before the first."""
        return self.membership.broker_epoch

    def start(self) -> None:
        """Begin to look for the controller."""
        lost = self._identity.previous_end.lost
        if lost:
            names = ", ".join(map(str, lost[:10]))
            log.warning("cut, removed or exchanged while the node was down: %d logs: %s", len(lost), names)
        self._tasks.every(LOOK_INTERVAL_MS / 1000, self._look_at_clock, "stalls of the loop")
        self._performer.perform_all(self.membership.start())

    def ask_to_leave(self) -> None:
        """Begin the controlled shutdown; `has_left` is set when it is done or has no use."""
        self._submit(m.StopAsked())

    def beat_now(self) -> None:
        """Send a heartbeat without waiting for its time: there is news that it brings."""
        self._submit(m.NewsCame())

    def close(self) -> None:
        """Drop the connection and all timers; nothing is sent any more."""
        self._is_closed = True
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    async def forward(self, api: Api, body: bytes, timeout_s: float) -> Response:
        """Send a client's request on to the active controller; its answer, or the error it gave. One that did
        not run because its controller leads no more goes to the next one, as long as there is time.

        Errors: NotControllerError when no controller leads in time; RequestTimedOutError when it may have
        run; ThrottlingQuotaExceededError; what else the controller answers.
        """
        connection = self._connection
        allowed = MAX_FORWARDS
        if connection is not None:
            allowed = min(allowed, connection.hello.max_in_flight - _RESERVED_IN_FLIGHT)
        if self._forwards >= allowed:
            raise ThrottlingQuotaExceededError(f"{self._forwards} requests wait for the controller already")
        self._forwards += 1
        try:
            return await self._forward(api, body, timeout_s)
        finally:
            self._forwards -= 1

    async def alter_partition(self, request: AlterPartitionRequest) -> AlterPartitionResponse | None:
        """Ask for changes of ISRs; None if nobody knows whether they were done."""
        response = await self._ask(registry.ALTER_PARTITION, request, self._timeout_s, waits_for_log=True)
        return None if response is None else response.body

    async def _forward(self, api: Api, body: bytes, timeout_s: float) -> Response:
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + timeout_s
        # Order: the client hears why before it gives up by itself, and may try again.
        search_end_s = loop.time() + min(MAX_SEARCH_S, SEARCH_SHARE * timeout_s)
        while True:
            connection = await self._connected(search_end_s)
            try:
                return await connection.request(api, body, timeout_s=max(deadline_s - loop.time(), 0.001))
            except NotControllerError:
                self._lost(connection)  # the next is found at once, or waited for
            except NetworkError as error:
                # Another error: for the client, a network error is one of its connection to this node.
                raise RequestTimedOutError(f"no answer from the controller: {error}") from error

    async def _connected(self, deadline_s: float) -> Connection:
        """The connection to the active controller. Errors: NotControllerError when there is none in time."""
        try:
            async with asyncio.timeout_at(deadline_s):
                await self._is_connected.wait()
        except TimeoutError:
            raise NotControllerError("no controller leads, or it cannot be reached now") from None
        if self._connection is None:
            raise NotControllerError("this node is stopping")
        return self._connection

    # --- feeding the membership ------------------------------------------------------------------------

    def _submit(self, event: m.Event) -> None:
        if self._is_closed or self._tasks.is_stopping:
            return
        self._performer.perform_all(self.membership.step(event, monotonic_ms()))
        if self.membership.state is m.MembershipState.ACTIVE:
            self.is_active.set()

    def _start_following(self, _: m.FollowMetadata) -> None:
        if self._following is not self._connection:
            self._following = self._connection
            self._tasks.spawn(self._follow(), "follow the metadata")

    def _set_timer(self, timer: m.SetTimer) -> None:
        old = self._timers.pop(timer.key, None)
        if old is not None:
            old.cancel()
        delay_s = max(timer.deadline_ms - monotonic_ms(), 0) / 1000
        on_timer = self._tasks.guarded(self._on_timer)
        self._timers[timer.key] = asyncio.get_running_loop().call_later(delay_s, on_timer, timer.key)

    def _fail(self, failed: m.Failed) -> None:
        self._tasks.fail(failed.error)
        self.has_left.set()

    def _on_timer(self, key: str) -> None:
        self._timers.pop(key, None)
        self._submit(m.TimeCame(key))

    def _adopt(self, adopted: m.AdoptIdentity) -> None:
        node_id, cluster_id = adopted.node_id, adopted.cluster_id
        identity = self._identity
        controller_id = self._connection.hello.node_id if self._connection is not None else -1
        try:
            self._events.adopted(node_id, cluster_id, controller_id)
        except KafkaError as error:
            self._tasks.fail(error)
            return
        identity.node_id, identity.cluster_id = node_id, cluster_id

    # --- talking to the controller ---------------------------------------------------------------------

    async def _find(self) -> None:
        try:
            connection = await self._search.find(f"node-{self._identity.node_id}")
        except ElectingError:
            self._submit(m.Disconnected(is_electing=True))
            return
        except HeadraceError as error:
            self._log.warning("no controller found", "no controller is found: %r", error)
            self._submit(m.Disconnected())
            return
        if self._is_closed:
            connection.close()
            return
        connection.on_close = lambda: self._lost(connection)
        self._connection = connection
        self._answered_ms = monotonic_ms()
        self._is_connected.set()
        self._submit(m.Connected())

    def _lost(self, connection: Connection) -> None:
        """Give the connection up, once; late failures of requests on it change nothing."""
        if self._connection is not connection:
            return
        self._connection = None
        self._is_connected.clear()
        connection.close()
        self._submit(m.Disconnected())

    async def _ask(
        self, api: Api, body: msgspec.Struct, timeout_s: float, *, waits_for_log: bool = False
    ) -> Response | None:
        """A request on the present connection; None if it failed, which gives the connection up.

        `waits_for_log`: its answer comes after a flush of the metadata log. Such a request that times out
        while others are answered says that the controllers' disks are slow: the connection is kept.
        """
        connection = self._connection
        if connection is None:
            return None
        try:
            response = await connection.request(api, body, timeout_s=timeout_s)
        except RequestTimedOutError as error:
            if waits_for_log and monotonic_ms() - self._answered_ms < 1000 * self._timeout_s:
                self._warn_of_slow_log(api)
                return None
            if self._connection is connection:
                kind = f"{api.name} failed at the controller"
                self._log.warning(kind, "%s failed at the controller: %r", api.name, error)
            self._lost(connection)
            return None
        except KafkaError as error:
            if self._connection is connection and not isinstance(error, (NetworkError, NotControllerError)):
                kind = f"{api.name} failed at the controller"
                self._log.warning(kind, "%s failed at the controller: %r", api.name, error)
            self._lost(connection)
            return None
        if response.body.error_code == NotControllerError.code:
            self._lost(connection)
            return None
        self._answered_ms = monotonic_ms()
        return response

    def _warn_of_slow_log(self, api: Api) -> None:
        self._log.warning(
            "no answer from the metadata log",
            "no answer to %s within %g s, but to other requests: the controllers' disks are slow, or "
            "most of the controllers are away",
            api.name,
            self._timeout_s,
        )

    def _look_at_clock(self) -> None:
        if stall_ms := self._stalls.look(monotonic_ms()):
            log.warning(
                "node %d stood still for %d ms: no heartbeat was sent and no request answered meanwhile",
                self._identity.node_id,
                stall_ms,
            )

    def _note_own(self, response: FetchMetadataResponse) -> None:
        """Log what the controller decided on this very process."""
        if response.is_snapshot:
            return
        node_id, broker_epoch = self._identity.node_id, self.broker_epoch
        for offset, record in own_records(response.base_offset, response.records, node_id, broker_epoch):
            is_fence = isinstance(record, FenceBrokerRecord)
            now_ms = monotonic_ms()
            log.log(
                logging.WARNING if is_fence and not self._is_leaving else logging.INFO,
                "this node (node %d, broker epoch %d) was %s at metadata offset %d: %s; its event loop stood "
                "still for up to %d ms",
                node_id,
                broker_epoch,
                "fenced" if is_fence else "unfenced",
                offset,
                self._heartbeats.describe(now_ms),
                self._stalls.longest_ms(now_ms),
            )

    @property
    def _is_leaving(self) -> bool:
        return self.membership.state in (m.MembershipState.LEAVING, m.MembershipState.LEFT)

    async def _register(self) -> None:
        me = self._identity
        # this process has lost nothing since it was registered before
        end = PreviousEnd(self.broker_epoch) if self.broker_epoch >= 0 else me.previous_end
        request = BrokerRegistrationRequest(
            me.node_id,
            me.cluster_id,
            me.incarnation_id,
            me.host,
            me.port,
            me.rack,
            me.log_dir_ids,
            end.broker_epoch,
            end.lost,
            me.listeners,
        )
        response = await self._ask(registry.BROKER_REGISTRATION, request, self._timeout_s)
        if response is not None:
            if response.body.error_code:
                self._log.warning(
                    "registration refused",
                    "the controller refused node %d: %r",
                    me.node_id,
                    error_from_code(response.body.error_code, response.body.error_detail),
                )
            self._submit(m.RegistrationAnswered(response.body))

    async def _beat(self, heartbeat: m.SendHeartbeat) -> None:
        news = self._events.disks()
        request = BrokerHeartbeatRequest(
            self._identity.node_id,
            heartbeat.broker_epoch,
            self._events.metadata_offset(),
            want_shutdown=heartbeat.want_shutdown,
            offline_log_dirs=news.offline_dirs,
            offline_replicas=news.offline,
            full_replicas=news.full,
            cordoned_log_dirs=news.cordoned_dirs,
        )
        connection = self._connection
        self._heartbeats.sent(monotonic_ms())
        response = await self._ask(registry.BROKER_HEARTBEAT, request, self._timeout_s, waits_for_log=True)
        if response is not None:
            self._heartbeats.answered(heartbeat.sent_ms, monotonic_ms())
            self._submit(m.HeartbeatAnswered(response.body, heartbeat.sent_ms))
        elif connection is not None and connection is self._connection:
            self._submit(m.HeartbeatFailed())

    async def _follow(self) -> None:
        """Apply metadata as it comes, until this connection is given up."""
        connection = self._connection
        wait_ms = self._config.metadata_max_wait_ms
        while connection is not None and self._connection is connection:
            request = FetchMetadataRequest(self._identity.node_id, self._events.metadata_offset(), wait_ms)
            response = await self._ask(registry.FETCH_METADATA, request, wait_ms / 1000 + self._timeout_s)
            if response is None:
                return
            if response.body.error_code:
                answer = response.body
                self._log.warning(
                    "FetchMetadata refused", "metadata: error %d %s", answer.error_code, answer.error_detail
                )
                self._lost(connection)
                return
            self._note_own(response.body)
            offset = await self._events.metadata(response.body)
            self._submit(m.MetadataApplied(offset))
