"""The node's connection to the active controller: heartbeats, metadata, ISR proposals, forwarded requests.

Performs the effects of `membership`. One connection at a time; every request on it has a timeout. An error
closes the connection, and the membership decides when the next one is opened.
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
from ...protocol.metadata.features import OWN_RANGES
from ...protocol.metadata.records import FenceBrokerRecord
from ...runtime.clock_io import monotonic_ms
from ...runtime.effect_performer import EffectPerformer, on
from ...runtime.limited_log_io import LimitedLog
from ...runtime.stalls import StallMeter
from ..log.losses import PreviousEnd
from ..replica.disk_failures import DiskReport
from . import membership as m
from .heartbeat_times import HeartbeatTimes, own_records
from .leader_search_io import ControllerLocators, ElectingError, LeaderSearch, fixed_locator

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    import msgspec

    from ...protocol.messages.envelope import Api
    from ...protocol.model import ListenerEndpoint
    from ...protocol.transport.dealer_io import Connection, Response
    from ...protocol.transport.security import ConnectionSecurity
    from ...runtime.shell_io import TaskOwner
    from ..configs.node_config import NodeConfig

__all__ = ["ControllerLink", "ControllerLocators", "LinkEvents", "NodeIdentity", "fixed_locator"]

log = logging.getLogger("headrace.storage_node")

# How long a forwarded request waits for an active controller: several elections, and less than its timeout.
MAX_SEARCH_S = 5.0
SEARCH_SHARE = 0.8
# Bound: forwarded requests in flight; each holds a task and its request.
MAX_FORWARDS = 500
# Heartbeats, registration, ISR proposals and the metadata fetch share the connection with forwarded requests.
_RESERVED_IN_FLIGHT = 3 + m.MAX_HEARTBEATS
STALL_CHECK_MS = 100  # to detect stalls of the event loop


@dataclass(slots=True)
class NodeIdentity:
    """The identity of this node, from its log dirs and completed by the controller."""

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
    """Callbacks of the link's owner.

    `adopted` gets node id, cluster id and controller id, before any metadata. `metadata` applies records and
    returns the image's offset afterwards; `metadata_offset` is the image's offset. `disks` returns the report
    of the node's disks for heartbeats.
    """

    adopted: Callable[[int, str, int], None]
    metadata: Callable[[FetchMetadataResponse], Awaitable[int]]
    metadata_offset: Callable[[], int]
    disks: Callable[[], DiskReport] = DiskReport


class ControllerLink:
    """The shell of one Membership."""

    def __init__(
        self,
        config: NodeConfig,
        locators: ControllerLocators,
        identity: NodeIdentity,
        events: LinkEvents,
        tasks: TaskOwner,
        security: ConnectionSecurity | None = None,
    ) -> None:
        self.security = security  # of connections to other servers
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
        self._search = LeaderSearch(locators, self._timeout_s, security=security)
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
        self.stalls = StallMeter(STALL_CHECK_MS, now_ms)
        self._answered_ms = now_ms  # of the last response to any request
        self.is_active = asyncio.Event()  # set once, when the node is unfenced first
        self.may_stop = asyncio.Event()
        self._is_connected = asyncio.Event()
        self._performer = EffectPerformer(
            m.Effect,
            on(m.FindController, lambda _: tasks.spawn(self._find(), "find the controller")),
            on(m.SendRegistration, lambda _: tasks.spawn(self._register(), "register")),
            on(m.AdoptIdentity, self._adopt),
            on(m.SendHeartbeat, lambda effect: tasks.spawn(self._heartbeat(effect), "heartbeat")),
            on(m.FollowMetadata, self._start_following),
            on(m.SetTimer, self._set_timer),
            on(m.ShutdownAllowed, lambda _: self.may_stop.set()),
            on(m.Failed, self._fail),
        )

    @property
    def broker_epoch(self) -> int:
        """The broker epoch of the registration, -1 before the first."""
        return self.membership.broker_epoch

    def silence_ms(self, now_ms: int) -> int:
        """The time since the last response of the controller to any request."""
        return now_ms - self._answered_ms

    def start(self) -> None:
        """Begin to search for the controller."""
        lost = self._identity.previous_end.lost
        if lost:
            names = ", ".join(map(str, lost[:10]))
            log.warning(
                "%d logs were truncated, removed or replaced since the last shutdown: %s", len(lost), names
            )
        self._tasks.every(STALL_CHECK_MS / 1000, self._check_for_stall, "stalls of the loop")
        self._performer.perform_all(self.membership.start())

    def request_shutdown(self) -> None:
        """Begin the controlled shutdown; `may_stop` is set when it is complete or impossible."""
        self._submit(m.ShutdownRequested())

    def heartbeat_now(self) -> None:
        """Send a heartbeat at once, because its report has changed."""
        self._submit(m.ReportChanged())

    def close(self) -> None:
        """Close the connection and cancel all timers; nothing is sent any more."""
        self._is_closed = True
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    async def forward(self, api: Api, body: bytes, timeout_s: float) -> Response:
        """Forward a client's request to the active controller and return its response. A request that was not
        executed because its controller is not active any more is sent to the next one, until the timeout.

        Errors: NotControllerError without an active controller in time; RequestTimedOutError when the request
        may have been executed; ThrottlingQuotaExceededError; the controller's errors.
        """
        connection = self._connection
        allowed = MAX_FORWARDS
        if connection is not None:
            allowed = min(allowed, connection.hello.max_in_flight - _RESERVED_IN_FLIGHT)
        if self._forwards >= allowed:
            raise ThrottlingQuotaExceededError(f"{self._forwards} requests to the controller are in flight")
        self._forwards += 1
        try:
            return await self._forward(api, body, timeout_s)
        finally:
            self._forwards -= 1

    async def alter_partition(self, request: AlterPartitionRequest) -> AlterPartitionResponse | None:
        """Propose ISRs to the controller; None if the outcome is unknown."""
        response = await self._request(registry.ALTER_PARTITION, request, self._timeout_s, waits_for_log=True)
        return None if response is None else response.body

    async def _forward(self, api: Api, body: bytes, timeout_s: float) -> Response:
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + timeout_s
        # Order: the client gets the error before its own timeout, and may retry.
        search_end_s = loop.time() + min(MAX_SEARCH_S, SEARCH_SHARE * timeout_s)
        while True:
            connection = await self._connected(search_end_s)
            try:
                return await connection.request(api, body, timeout_s=max(deadline_s - loop.time(), 0.001))
            except NotControllerError:
                self._lost(connection)  # wait for the next active controller
            except NetworkError as error:
                # Not NetworkError: for the client that would be an error of its connection to this node.
                raise RequestTimedOutError(f"no answer from the controller: {error}") from error

    async def _connected(self, deadline_s: float) -> Connection:
        """The connection to the active controller. Errors: NotControllerError when there is none in time."""
        try:
            async with asyncio.timeout_at(deadline_s):
                await self._is_connected.wait()
        except TimeoutError:
            raise NotControllerError("no active controller can be reached") from None
        if self._connection is None:
            raise NotControllerError("this node is stopping")
        return self._connection

    # --- events and effects ---------------------------------------------------------------------------

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
        self.may_stop.set()

    def _on_timer(self, key: str) -> None:
        self._timers.pop(key, None)
        self._submit(m.TimerFired(key))

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

    # --- requests to the controller --------------------------------------------------------------------

    async def _find(self) -> None:
        try:
            connection = await self._search.find(f"node-{self._identity.node_id}")
        except ElectingError:
            self._submit(m.Disconnected(is_electing=True))
            return
        except HeadraceError as error:
            self._log.warning("no controller found", "cannot find an active controller: %r", error)
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
        """Close the connection, once; later failures of its requests change nothing."""
        if self._connection is not connection:
            return
        self._connection = None
        self._is_connected.clear()
        connection.close()
        self._submit(m.Disconnected())

    async def _request(
        self, api: Api, body: msgspec.Struct, timeout_s: float, *, waits_for_log: bool = False
    ) -> Response | None:
        """Send a request on the current connection; None if it failed, which closes the connection.

        `waits_for_log`: the response comes after a flush of the metadata log. If such a request times out
        while others are answered, the controllers' disks are slow, and the connection is kept.
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
            "no response to %s within %g s, but to other requests: the controllers' disks are slow, or "
            "a majority of the controllers is unreachable",
            api.name,
            self._timeout_s,
        )

    def _check_for_stall(self) -> None:
        if stall_ms := self.stalls.look(monotonic_ms()):
            log.warning(
                "node %d was stalled for %d ms: no heartbeat was sent and no request was handled",
                self._identity.node_id,
                stall_ms,
            )

    def _log_fencing(self, response: FetchMetadataResponse) -> None:
        """Log that the controller fenced or unfenced this process."""
        if response.is_snapshot:
            return
        node_id, broker_epoch = self._identity.node_id, self.broker_epoch
        for offset, record in own_records(response.base_offset, response.records, node_id, broker_epoch):
            is_fence = isinstance(record, FenceBrokerRecord)
            now_ms = monotonic_ms()
            log.log(
                logging.WARNING if is_fence and not self._is_shutting_down else logging.INFO,
                "this node (node %d, broker epoch %d) was %s at metadata offset %d: %s; its event loop was "
                "stalled for up to %d ms",
                node_id,
                broker_epoch,
                "fenced" if is_fence else "unfenced",
                offset,
                self._heartbeats.describe(now_ms),
                self.stalls.longest_ms(now_ms),
            )

    @property
    def _is_shutting_down(self) -> bool:
        return self.membership.state in (m.MembershipState.SHUTTING_DOWN, m.MembershipState.SHUT_DOWN)

    async def _register(self) -> None:
        me = self._identity
        # a process that registers again has lost nothing since
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
            OWN_RANGES,
        )
        response = await self._request(registry.BROKER_REGISTRATION, request, self._timeout_s)
        if response is not None:
            if response.body.error_code:
                self._log.warning(
                    "registration refused",
                    "the controller refused the registration of node %d: %r",
                    me.node_id,
                    error_from_code(response.body.error_code, response.body.error_detail),
                )
            self._submit(m.RegistrationAnswered(response.body))

    async def _heartbeat(self, heartbeat: m.SendHeartbeat) -> None:
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
        response = await self._request(
            registry.BROKER_HEARTBEAT, request, self._timeout_s, waits_for_log=True
        )
        if response is not None:
            self._heartbeats.answered(heartbeat.sent_ms, monotonic_ms())
            self._submit(m.HeartbeatAnswered(response.body, heartbeat.sent_ms))
        elif connection is not None and connection is self._connection:
            self._submit(m.HeartbeatFailed())

    async def _follow(self) -> None:
        """Apply metadata until this connection is closed."""
        connection = self._connection
        wait_ms = self._config.metadata_max_wait_ms
        while connection is not None and self._connection is connection:
            request = FetchMetadataRequest(self._identity.node_id, self._events.metadata_offset(), wait_ms)
            response = await self._request(registry.FETCH_METADATA, request, wait_ms / 1000 + self._timeout_s)
            if response is None:
                return
            if response.body.error_code:
                answer = response.body
                self._log.warning(
                    "FetchMetadata refused",
                    "cannot fetch metadata: error %d %s",
                    answer.error_code,
                    answer.error_detail,
                )
                self._lost(connection)
                return
            self._log_fencing(response.body)
            offset = await self._events.metadata(response.body)
            self._submit(m.MetadataApplied(offset))
