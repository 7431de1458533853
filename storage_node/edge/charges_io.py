"""Client quotas on the node's own listener: throttle times in responses, and muted connections.

Requests of a muted connection wait here, within a bound of memory. Records are always returned, unlike on the
Kafka listener: a response above the quota mutes its client for longer. Connections of other nodes have no
quotas: they forward requests that were charged there.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from typing import TYPE_CHECKING, Any

import msgspec

from ...protocol.errors import KafkaError, ThrottlingQuotaExceededError
from ...protocol.messages import registry
from ...protocol.metadata.quotas import (
    CONSUMER_RATE,
    MUTATION_RATE,
    PRODUCER_RATE,
    REQUEST_PERCENTAGE,
)
from ...runtime.client_quotas import largest
from ...runtime.clock_io import monotonic_ms

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ...protocol.metadata.image import MetadataImage
    from ...protocol.records.header import Buffer
    from ...protocol.transport.peers import Peer, Request
    from ...protocol.transport.replies import Replies
    from .node_quotas import NodeQuotas

_NODE = "node-"


class _Muted:
    """A muted connection, and the requests received meanwhile."""

    __slots__ = ("queue", "timer", "until_ms")

    def __init__(self, until_ms: int, timer: asyncio.TimerHandle) -> None:
        self.until_ms, self.timer = until_ms, timer
        self.queue: deque[Request] = deque()


class OwnCharges:
    """Between the node and its own listener; fulfils Replies. Without quotas it passes everything through."""

    def __init__(
        self,
        own: Replies,
        quotas: NodeQuotas,
        image: Callable[[], MetadataImage],
        handle: Callable[[Any], None],
        fail: Callable[[BaseException], None],
    ) -> None:
        """`handle` handles a request; `fail` gets its bugs."""
        self._own, self._quotas, self._image, self._handle, self._fail = own, quotas, image, handle, fail
        self._is_closed = False
        self._turn: Request | None = None  # the request whose handler runs, if its time is charged
        self._since_s = 0.0
        self._muted: dict[int, _Muted] = {}  # by session
        self._waiting_bytes = 0  # of all waiting requests

    # --- requests ----------------------------------------------------------------------------------------

    def take(self, request: Request) -> None:
        """A request of the node's own listener. Errors: KafkaError, its response."""
        if self._muted and (muted := self._muted.get(request.peer.session)) is not None:
            self._keep(muted.queue, request)
        else:
            self._start(request)

    def _keep(self, queue: deque[Request], request: Request) -> None:
        """Errors: ThrottlingQuotaExceededError. Waiting requests count as in flight and must leave room for
        those that need not wait."""
        if self._waiting_bytes + request.queued_bytes > self._quotas.max_waiting_bytes:
            raise ThrottlingQuotaExceededError(
                "the connection is throttled: retry after the throttle time of the last response"
            )
        self._waiting_bytes += request.queued_bytes
        queue.append(request)

    def _start(self, request: Request) -> None:
        if not self._quotas.is_active or self._is_node(request.peer):
            self._handle(request)
            return
        if request.api is registry.FETCH:
            request.body = self._bounded(request)
        self._turn, self._since_s = request, time.perf_counter()
        try:
            self._handle(request)
        finally:
            self._charge_time(request)
            self._turn = None

    def _bounded(self, request: Request) -> Any:
        """A Fetch returns at most what the windows hold: else one response could mute its client for
        minutes."""
        held = self._quotas.meters.of_client(CONSUMER_RATE, _user_of(request.peer), request.peer.client_id)
        if held is None or request.body.replica_id >= 0:
            return request.body
        most = max(int(largest(held, self._quotas.windows)), 1)
        return msgspec.structs.replace(request.body, max_bytes=min(request.body.max_bytes, most))

    def _is_node(self, peer: Peer) -> bool:
        """Without authentication, nodes are known by their client ids."""
        if peer.identity.is_authenticated:
            return peer.identity.is_server
        name, _, number = peer.client_id.partition(_NODE)
        return not name and number.isdecimal() and int(number) in self._image().brokers

    # --- answers -----------------------------------------------------------------------------------------

    def reply(self, request: Request, body: Any, frames: Sequence[Buffer] = ()) -> None:
        """The answer; `frames` ride behind it."""
        if self._quotas.is_active:
            self._charge(request, body, frames)
        self._own.reply(request, body, frames)

    def reply_error(self, request: Request, error: KafkaError) -> None:
        """The request never ran."""
        self._own.reply_error(request, error)

    def no_reply(self, request: Request) -> None:
        """The request is done and wants no answer."""
        if self._quotas.is_active:
            self._charge(request, None, ())
        self._own.no_reply(request)

    def _charge(self, request: Request, body: Any, frames: Sequence[Buffer]) -> None:
        if self._is_node(request.peer):
            return
        wait_ms = self._charge_time(request)
        if request.api is registry.PRODUCE:
            wait_ms = max(wait_ms, self._record(PRODUCER_RATE, request.peer, sum(map(len, request.frames))))
        elif request.api is registry.FETCH and request.body.replica_id < 0:
            wait_ms = max(wait_ms, self._record(CONSUMER_RATE, request.peer, sum(map(len, frames))))
        elif throttle_ms := getattr(body, "throttle_ms", 0):
            self._quotas.count(MUTATION_RATE)
            wait_ms = max(wait_ms, throttle_ms)
        request.throttle_ms = wait_ms
        if wait_ms and request.peer.is_connected and not self._is_closed:
            self._mute(request.peer.session, wait_ms)

    def _charge_time(self, request: Request) -> int:
        """The request time so far."""
        if request is not self._turn:
            return 0
        before_s, self._since_s = self._since_s, time.perf_counter()
        return self._record(REQUEST_PERCENTAGE, request.peer, 100 * (self._since_s - before_s))

    def _record(self, key: str, peer: Peer, value: float) -> int:
        return self._quotas.record(key, _user_of(peer), peer.client_id, value, monotonic_ms())

    # --- requests of muted connections -------------------------------------------------------------------

    def _mute(self, session: int, wait_ms: int) -> None:
        until_ms = monotonic_ms() + wait_ms
        muted = self._muted.get(session)
        if muted is None:
            self._muted[session] = _Muted(until_ms, self._later(session, wait_ms))
        else:
            muted.until_ms = max(muted.until_ms, until_ms)

    def _later(self, session: int, wait_ms: int) -> asyncio.TimerHandle:
        return asyncio.get_running_loop().call_later(wait_ms / 1000, self._unmute, session)

    def _unmute(self, session: int) -> None:
        """Run the waiting requests, until one mutes the connection again."""
        left_ms = self._muted[session].until_ms - monotonic_ms()
        if left_ms > 0:
            self._muted[session].timer = self._later(session, left_ms)
            return
        queue = self._muted.pop(session).queue
        while queue and session not in self._muted and not self._is_closed:
            self._run(self._next(queue))
        if queue and not self._is_closed:
            self._muted[session].queue.extend(queue)

    def _next(self, queue: deque[Request]) -> Request:
        request = queue.popleft()
        self._waiting_bytes -= request.queued_bytes
        return request

    def _run(self, request: Request) -> None:
        """Run a request that waited."""
        try:
            self._start(request)
        except KafkaError as error:
            self._own.reply_error(request, error)
        except Exception as error:  # noqa: BLE001 -- what the listener would end with, too
            self._fail(error)

    def peer_gone(self, peer: Peer) -> None:
        """The connection is closed: its waiting produce requests run at once, the others are dropped."""
        muted = self._muted.pop(peer.session, None)
        if muted is None:
            return
        muted.timer.cancel()
        while muted.queue:
            request = self._next(muted.queue)
            if request.api is registry.PRODUCE:
                self._run(request)
            else:
                self._own.no_reply(request)

    def close(self) -> None:
        """The node stops: waiting requests are dropped."""
        self._is_closed = True
        for muted in self._muted.values():
            muted.timer.cancel()
        self._muted.clear()


def _user_of(peer: Peer) -> str:
    return peer.identity.principal.name
