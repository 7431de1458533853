"""Refreshes the client's view of the cluster: one request at a time, on demand and by age."""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from ...protocol.errors import (
    ApiTimeoutError,
    ClosedError,
    ConfigError,
    HeadraceError,
    KafkaError,
    LeaderNotAvailableError,
    NetworkError,
    NoClusterError,
    RequestTimedOutError,
    UnknownTopicOrPartitionError,
    error_from_code,
)
from ...protocol.messages.data import MetadataRequest, MetadataResponse
from ...protocol.messages.registry import METADATA
from ...protocol.model import topic_name_fault
from ..bootstrap import resolve_bootstrap
from ..topic_names import check_topic_name, no_topic
from .backoff import Backoff
from .hedging_io import Hedged
from .metadata import UNKNOWN_TOPIC, ClusterView, TopicView
from .network import HOPELESS
from .tasks_io import owned_task

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable
    from random import Random

    from ...protocol.messages.envelope import Api
    from .network import Address, Network, Reply
    from .tasks_io import Tasks

    Listener = Callable[[ClusterView], None]

R = TypeVar("R")

log = logging.getLogger("headrace.client.metadata")

REFRESH_TIMEOUT_MS = 5_000  # one attempt
# The delay after which another node gets the Metadata request as well, so that one that hangs costs little.
HEDGE_MS = 500
# The same for other requests, which may take longer: the controller replicates their changes.
REQUEST_HEDGE_MS = 2_000
# Bound: addresses of earlier nodes that are remembered, the newest.
MAX_EARLIER_NODES = 32
# The names of all topics are requested for suggestions in errors: a slow response must not delay the error,
# and many errors cause one request.
NAMES_TIMEOUT_MS = 500
NAMES_MAX_AGE_MS = 10_000
# After a refresh the next one waits this long, so that many stale partitions cause one request.
MIN_REFRESH_INTERVAL_MS = 100
MAX_BACKOFF_MS = 1_000
# The metadata of a node may lag behind a CreateTopics: a topic counts as missing only after this time.
UNKNOWN_TOPIC_GRACE_MS = 2_000


class MetadataService:
    """The view, the topics that clients watch, and the task that refreshes it. Used on its loop only.

    `view` itself may be read from any thread: it is immutable and replaced as a whole.
    """

    def __init__(
        self,
        network: Network,
        bootstrap: str | None,
        *,
        max_age_ms: int,
        now_ms: Callable[[], int],
        random: Random,
        tasks: Tasks,
    ) -> None:
        self.view = ClusterView()
        self._network, self._bootstrap = network, bootstrap
        self.max_age_ms, self._now_ms, self._random, self._tasks = max_age_ms, now_ms, random, tasks
        self._backoff = Backoff(MIN_REFRESH_INTERVAL_MS, MAX_BACKOFF_MS, random)
        self.silent_nodes: frozenset[Address] = frozenset()  # requests to these are overdue: they come last
        self._unanswered: set[Address] = set()  # nodes that were late to respond to the last request
        self._earlier: dict[Address, None] = {}  # of nodes of earlier views, the newest last
        self._resolving: asyncio.Task[tuple[Address, ...]] | None = None
        # The time of the request, and the names of all topics.
        self._names: tuple[int, frozenset[str]] = (0, frozenset())
        self._has_answer = asyncio.Event()  # a node has responded, perhaps without metadata yet
        self.newest_offset = -1  # of the newest metadata in any response of `request_any`
        self._topics: dict[str, int] = {}  # name -> number of watches
        self._all_wanted = 0  # number of watches of all topics
        self._listeners: dict[Listener, None] = {}
        self._waiters: list[asyncio.Future[None]] = []
        self._wanted = asyncio.Event()
        self._urgent = asyncio.Event()
        self._failures = 0
        self.last_error: HeadraceError | None = None  # of the last refresh
        self._closed: BaseException | None = None

    def start(self) -> None:
        """Start the refresh task on the running loop."""
        self._tasks.spawn(self._run())

    def close(self, reason: BaseException) -> None:
        """Fail all pending calls. The owner ends the task."""
        self._closed = reason
        if self._resolving is not None:
            self._resolving.cancel()
        self._finish_waiters(reason)

    def add_listener(self, listener: Listener) -> None:
        """Call `listener` on the loop with each view that differs from the one before."""
        self._listeners[listener] = None

    def remove_listener(self, listener: Listener) -> None:
        """Undo `add_listener`."""
        self._listeners.pop(listener, None)

    def watch(self, topics: Iterable[str]) -> None:
        """Add a watch to each of these topics; new ones are requested at once.

        Errors: as `plain_name`, before a bad name fails the request for all topics.
        """
        names = tuple(map(plain_name, topics))
        for topic in names:
            is_new = topic not in self._topics
            self._topics[topic] = self._topics.get(topic, 0) + 1
            if is_new:
                self.refresh_soon(is_urgent=True)

    def unwatch(self, topics: Iterable[str]) -> None:
        """Undo one `watch`; topics without watches are removed from the view."""
        gone = []
        for topic in topics:
            count = self._topics.get(topic, 0) - 1
            if count > 0:
                self._topics[topic] = count
            elif self._topics.pop(topic, None) is not None:
                gone.append(topic)
        if gone:
            self._publish(self.view.without_topics(tuple(gone)))

    def watch_all(self) -> None:
        """Add a watch to all topics."""
        self._all_wanted += 1
        self.refresh_soon(is_urgent=True)

    def unwatch_all(self) -> None:
        """Undo one `watch_all`; topics without watches are removed from the view."""
        self._all_wanted -= 1
        if not self._all_wanted:
            self._publish(self.view.without_topics(tuple(self.view.topics.keys() - self._topics.keys())))

    def refresh_soon(self, *, is_urgent: bool = False) -> None:
        """Request a refresh; calls within a short time cause one request, unless one `is_urgent`."""
        self._wanted.set()
        if is_urgent:
            self._urgent.set()

    def take_hint(self, topic: str, partition: int, leader: int, leader_epoch: int) -> None:
        """A response has named a newer leader (KIP-951)."""
        self._publish(self.view.with_leader(topic, partition, leader, leader_epoch))

    async def refresh(self, deadline_ms: int) -> ClusterView:
        """Wait for a refresh that begins after this call. Errors: ApiTimeoutError with the last cause,
        ConfigError without an address, ClosedError."""
        if self._closed is not None:
            raise self._closed
        waiter = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        self.refresh_soon()
        try:
            async with asyncio.timeout(max(deadline_ms - self._now_ms(), 0) / 1000):
                await waiter
        except TimeoutError:
            cause = f": {self.last_error}" if self.last_error is not None else ""
            raise ApiTimeoutError(f"the metadata was not refreshed in time{cause}") from self.last_error
        finally:
            if waiter in self._waiters:
                self._waiters.remove(waiter)
        return self.view

    async def wait_for_cluster(self, timeout_ms: int) -> None:
        """Wait until a node has responded; returns at once if one ever did.

        Errors: NoClusterError when none does within `timeout_ms`; those of `refresh`.
        """
        if self._has_answer.is_set():
            return
        try:
            await self.refresh(self._now_ms() + timeout_ms)
        except ApiTimeoutError:
            if self._has_answer.is_set():
                return
            tried = ", ".join(map(str, await self._bootstrap_addresses()))
            raise NoClusterError(
                f"no cluster responds at {tried}, tried for {timeout_ms / 1000:g} s ({self.last_error}):"
                " is it up? `headrace status` shows one on Ray; bootstrap.servers has its addresses"
            ) from self.last_error

    async def topic(self, name: str, deadline_ms: int, *, min_partitions: int = 0) -> TopicView:
        """A watched topic with at least `min_partitions`. Waits UNKNOWN_TOPIC_GRACE_MS for a new topic.

        Errors: UnknownTopicOrPartitionError, ApiTimeoutError.
        """
        grace_ends_ms = min(self._now_ms() + UNKNOWN_TOPIC_GRACE_MS, deadline_ms)
        found = self.view.topics.get(name)
        if found is None:
            self.refresh_soon(is_urgent=True)
        while found is None or len(found.partitions) < min_partitions:
            try:
                view = await self.refresh(deadline_ms)
            except ApiTimeoutError:
                if found is None and name not in self.view.missing:
                    raise  # no node has responded: the topic may exist
                break
            found = view.topics.get(name)
            if self._now_ms() >= grace_ends_ms:
                break
        if found is None:
            raise await self.unknown_topic(
                name, self.view.missing.get(name, UnknownTopicOrPartitionError.code)
            )
        if len(found.partitions) < min_partitions:
            count = len(found.partitions)
            raise UnknownTopicOrPartitionError(f"topic {name!r} has partitions 0..{count - 1}")
        return found

    async def unknown_topic(self, name: str, code: int = UNKNOWN_TOPIC) -> KafkaError:
        """The error for a missing topic, with the most similar visible name.

        Waits at most NAMES_TIMEOUT_MS for the names.
        """
        is_legal = topic_name_fault(name) is None
        return error_from_code(code, no_topic(name, await self.topic_names() if is_legal else ()))

    async def topic_names(self) -> frozenset[str]:
        """All visible topics, at most NAMES_MAX_AGE_MS old; empty when no node responds."""
        now_ms = self._now_ms()
        names_ms, names = self._names
        if not names or now_ms - names_ms > NAMES_MAX_AGE_MS:
            try:
                reply = await self.request_any(
                    *(METADATA, MetadataRequest(None)),
                    deadline_ms=now_ms + NAMES_TIMEOUT_MS,
                    attempt_ms=NAMES_TIMEOUT_MS,
                )
            except HeadraceError:
                return names
            names = frozenset(topic.name for topic in reply.body.topics if not topic.error_code)
            self._names = now_ms, names
        return names

    async def request_any(
        self,
        api: Api,
        body: Any,
        *,
        deadline_ms: int,
        attempt_ms: int,
        on_lost: Callable[[], None] | None = None,
    ) -> Reply:
        """Send a request that any node can handle. Without a response within REQUEST_HEDGE_MS the next node
        gets it as well, and the first response counts.

        So a request may be executed twice. `on_lost` is called before that can happen, and after each attempt
        without a response: the error of a later attempt, such as TOPIC_ALREADY_EXISTS, may then be caused by
        an earlier one, and the caller has to check the state.

        Errors: ApiTimeoutError with the last cause; the error of the response's header when it is not
        retriable.
        """

        if not self.view.nodes:
            self.refresh_soon()  # the next request may need nodes that are no bootstrap addresses
        ask = partial(self._ask_once, api, body, deadline_ms, attempt_ms, on_lost)
        failures = 0
        reply: Reply | HeadraceError = NetworkError("no node responded")
        while True:
            try:
                async with asyncio.timeout(max(deadline_ms - self._now_ms(), 0) / 1000):
                    reply = await self._hedged(ask, REQUEST_HEDGE_MS, partial(self._late_request, on_lost))
            except TimeoutError:
                raise ApiTimeoutError(f"{api.name}: no node responded in time: {reply}") from None
            if not isinstance(reply, HeadraceError):
                self.newest_offset = max(self.newest_offset, getattr(reply.body, "metadata_offset", -1))
                return reply
            if not isinstance(reply, KafkaError) and not self.view.nodes:
                raise reply  # there is no address
            failures += 1
            self.refresh_soon()  # the nodes may have moved
            wait_ms = self._backoff.wait_ms(failures)
            if self._now_ms() + wait_ms >= deadline_ms:
                raise ApiTimeoutError(f"{api.name}: no node responded in time: {reply}") from reply
            await asyncio.sleep(wait_ms / 1000)

    async def _ask_once(
        self,
        api: Api,
        body: Any,
        deadline_ms: int,
        attempt_ms: int,
        on_lost: Callable[[], None] | None,
        address: Address,
    ) -> Reply | KafkaError:
        timeout_ms = min(max(deadline_ms - self._now_ms(), 1), attempt_ms)
        try:
            reply = await self._network.request(address, api, body, timeout_ms=timeout_ms)
        except KafkaError as error:
            if not error.retriable:
                raise
            if on_lost is not None and isinstance(error, (NetworkError, RequestTimedOutError)):
                on_lost()
            return error
        self._unanswered.discard(address)
        return reply

    def _late_request(self, on_lost: Callable[[], None] | None, addresses: list[Address]) -> None:
        self._late(addresses)
        self.refresh_soon()  # they may have been fenced
        if on_lost is not None:
            on_lost()

    async def _hedged(
        self,
        ask: Callable[[Address], Coroutine[Any, Any, R | KafkaError]],
        hedge_ms: int,
        hedged: Callable[[list[Address]], None],
    ) -> R | HeadraceError:
        """`Hedged.first` over the known nodes in random order, those without recent responses last; then the
        bootstrap addresses and the nodes of earlier views."""
        known = [node.address for node in self.view.nodes.values()]
        self._random.shuffle(known)
        known.sort(key=lambda address: address in self.silent_nodes or address in self._unanswered)
        return await Hedged(known, ask, hedge_ms=hedge_ms, more=self._other_addresses, hedged=hedged).first()

    def _late(self, addresses: list[Address]) -> None:
        self._unanswered.update(addresses)

    async def _other_addresses(self) -> list[Address]:
        """Further addresses, because the view may be stale, or nodes may have moved."""
        try:
            return [*await self._bootstrap_addresses(), *self._earlier]
        except HeadraceError:
            if not self._earlier:
                raise
            return list(self._earlier)

    async def _bootstrap_addresses(self) -> list[Address]:
        if self._bootstrap is not None:
            return list(resolve_bootstrap(self._bootstrap))
        # Bound: a resolver may block for long; one thread waits for it, for any number of requests.
        if self._resolving is None or self._resolving.done():
            self._resolving = owned_task(asyncio.to_thread(resolve_bootstrap, None))
            self._resolving.add_done_callback(_mark_retrieved)
        return list(await asyncio.shield(self._resolving))

    async def _run(self) -> None:
        while True:
            await self._until_wanted()
            self._wanted.clear()
            self._urgent.clear()
            serving, self._waiters = self._waiters, []
            error = await self._refresh_once()
            self.last_error = error
            if error is None:
                self._failures = 0
                self._settle(serving, None)
            elif isinstance(error, (ConfigError, *HOPELESS)):
                # A retry would give the same error: fail the pending calls.
                self._failures += 1
                self._settle(serving, error)
            else:
                self._failures += 1
                self._waiters += [waiter for waiter in serving if not waiter.done()]
                self._wanted.set()
            await self._pause(self._backoff.wait_ms(max(self._failures, 1)))

    async def _until_wanted(self) -> None:
        # Not wait_for, here and below: until Python 3.12 it ignores a cancellation that arrives together with
        # the event, and this task and the close that waits for it would never end.
        try:
            async with asyncio.timeout(self.max_age_ms / 1000):
                await self._wanted.wait()
        except TimeoutError:
            return

    async def _pause(self, wait_ms: int) -> None:
        """Limit the rate of refreshes; after a success only an urgent one ends the pause early."""
        if self._failures:
            await asyncio.sleep(wait_ms / 1000)
            return
        try:
            async with asyncio.timeout(wait_ms / 1000):
                await self._urgent.wait()
        except TimeoutError:
            return

    async def _refresh_once(self) -> HeadraceError | None:
        """Send Metadata to the known nodes, and others; the last error when none responded."""
        try:
            outcome = await self._hedged(self._ask, HEDGE_MS, self._late)
        except HeadraceError as error:
            return error
        return outcome if isinstance(outcome, HeadraceError) else None

    async def _ask(self, address: Address) -> MetadataResponse | KafkaError:
        request = MetadataRequest(None if self._all_wanted else tuple(sorted(self._topics)))
        try:
            reply = await self._network.request(address, METADATA, request, timeout_ms=REFRESH_TIMEOUT_MS)
        except KafkaError as error:
            log.debug("no metadata from %s: %s", address, error)
            return error
        self._has_answer.set()
        self._unanswered.discard(address)
        response: MetadataResponse = reply.body
        if self._accept(response, is_of_all=request.topics is None):
            return response
        return LeaderNotAvailableError(f"{address} has no metadata yet")

    def _accept(self, response: MetadataResponse, *, is_of_all: bool) -> bool:
        """Update the view by a response; False when the node has no metadata yet, because it is starting."""
        if not response.cluster_id or not response.nodes:
            return False
        if self.view.cluster_id and response.cluster_id != self.view.cluster_id:
            log.warning("cluster %s replaced %s at its addresses", response.cluster_id, self.view.cluster_id)
        self._publish(self.view.merged(response, self._topics if is_of_all else None))
        return True

    def _publish(self, view: ClusterView) -> None:
        if view is self.view:
            return
        self._remember_nodes(view)
        self.view = view
        for listener in list(self._listeners):
            listener(view)

    def _remember_nodes(self, view: ClusterView) -> None:
        now = {node.address for node in view.nodes.values()}
        before = {node.address: None for node in self.view.nodes.values()}
        earlier = [address for address in (self._earlier | before) if address not in now]
        self._earlier = dict.fromkeys(earlier[-MAX_EARLIER_NODES:])
        self._unanswered &= now

    def _settle(self, waiters: list[asyncio.Future[None]], error: BaseException | None) -> None:
        for waiter in waiters:
            if waiter.done():
                continue
            if error is None:
                waiter.set_result(None)
            else:
                waiter.set_exception(error)

    def _finish_waiters(self, error: BaseException) -> None:
        waiters, self._waiters = self._waiters, []
        self._settle(waiters, error if isinstance(error, HeadraceError) else ClosedError(str(error)))


def _mark_retrieved(resolving: asyncio.Task[tuple[Address, ...]]) -> None:
    """Read the error of a search that ended after the requests that needed it, so that asyncio logs
    nothing."""
    if not resolving.cancelled():
        resolving.exception()


def plain_name(topic: str) -> str:
    """A topic's name as messages can carry it: not of a subclass of str (an enum, one of NumPy's).

    Errors: TypeError for what is not text, InvalidTopicError for a name that no topic can have.
    """
    if not isinstance(topic, str):
        raise TypeError(f"a topic is given by its name, not {topic!r}")
    check_topic_name(topic)
    return str.__str__(topic)
