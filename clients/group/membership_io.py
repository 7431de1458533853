"""The membership of a consumer on the event loop: sends the requests of the member core, and commits offsets.

While `FetchBuffer.has_group_work` is set, the consumer calls `begin`, the rebalance callback, and `done`
before it returns further records. All methods run on the loop, unless they say otherwise.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from ...protocol.errors import (
    ClosedError,
    CoordinatorNotAvailableError,
    HeadraceError,
    KafkaError,
)
from ...runtime.effect_performer import EffectPerformer, on
from ...runtime.limited_log_io import LimitedLog
from ..consumer.positions import await_start, start, start_failed, still_awaiting, versions
from .assignors import Topic
from .commits_io import CommitContext, Committer
from .committed_io import CommittedOffsets
from .coordinator_io import CoordinatorLink
from .member import (
    AssignPartitions,
    ChangeKind,
    Effect,
    ForgetCoordinator,
    MemberCore,
    OwnershipChange,
    SendRequest,
)
from .metrics import GroupMetrics
from .states import MemberState

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from ...protocol.model import TopicPartition
    from ..cluster.backoff import Backoff
    from ..cluster.hub_io import Hub
    from ..cluster.metadata import ClusterView
    from ..config import ConsumerConfig
    from ..consumer.fetcher import Fetcher
    from ..consumer.interceptors import Interceptors
    from ..consumer.positions import Positions
    from ..operation_times import OperationTimes
    from ..tracing.consuming_io import ConsumerTracing
    from .group_metadata import GroupMetadata, OffsetAndMetadata
    from .subscription import Subscription

    Committing = asyncio.Future[dict[TopicPartition, OffsetAndMetadata]]

T = TypeVar("T")

log = logging.getLogger("headrace.client.group")

# Bound: of `close` when the coordinator does not respond. Source: Kafka's Consumer.java.
CLOSE_TIMEOUT_S = 30.0
# The least time that a `poll` waits for the commit before a revocation: a loop of `poll(0)` must end it, too.
MIN_COMMIT_WAIT_MS = 500


class PartitionReader(Protocol):
    """The engine of a consumer, as its membership uses it."""

    @property
    def interceptors(self) -> Interceptors: ...
    @property
    def tracing(self) -> ConsumerTracing | None: ...
    @property
    def operations(self) -> OperationTimes: ...
    def change(self, action: Callable[[Fetcher], T]) -> T: ...
    def positions(self, *, processed: bool) -> Positions: ...
    def drop(self, tps: Iterable[TopicPartition]) -> None: ...
    def progress(self) -> tuple[Any, ...] | None: ...
    def set_group_work(self, has_group_work: bool) -> None: ...


class Membership:
    """The membership of one consumer. Without a subscription it only commits, for `assign`."""

    def __init__(
        self, engine: PartitionReader, hub: Hub, config: ConsumerConfig, core: MemberCore, backoff: Backoff
    ) -> None:
        self._engine, self._hub, self.config, self._backoff = engine, hub, config, backoff
        self._core = core
        self._link = CoordinatorLink(
            hub, core.config.group_id, backoff, request_timeout_ms=config.request_timeout_ms
        )
        self.committed = CommittedOffsets(hub, self._link, backoff, core.config.group_id).fetch
        self._metrics, self._log = GroupMetrics(), LimitedLog(log)
        self._committer = Committer(
            *(hub, self._link, backoff, self._commit_context, self._commit_rejected, self._metrics),
            engine.operations,
        )
        self._change_began_ms = 0
        self._begun_change: OwnershipChange | None = None  # the one that `begin` returned
        self._revocation_commit: asyncio.Task[None] | None = None  # it ends before a revocation
        self.auto_commits = config.enable_auto_commit  # until a transaction commits offsets
        self.subscription: Subscription | None = None
        self._watched: tuple[str, ...] = ()
        self._watches_all = False
        self._seen: Any = None  # `engine.progress` at the last `pump`
        # Owned partitions, each with the number of the assignment that added it. Never modified in place:
        # commits keep a reference.
        self._assignment_numbers: Mapping[TopicPartition, int] = {}
        self._assignment_number = 0
        self._submitted: dict[TopicPartition, tuple[int, int]] = {}  # (version, offset) of the last commit
        self._missing_topics: set[str] = set()  # logged once
        self._timer: asyncio.TimerHandle | None = None
        self._commit_timer: asyncio.TimerHandle | None = None
        self._is_closed = False
        self._perform = EffectPerformer(
            Effect,
            on(SendRequest, lambda ask: hub.tasks.spawn(self._ask(ask))),
            on(AssignPartitions, lambda effect: hub.tasks.spawn(self._assign_partitions(effect))),
            on(ForgetCoordinator, lambda _: self._link.forget()),
        ).perform_all
        hub.metadata.add_listener(self._on_view)

    # --- the subscription -------------------------------------------------------------------------------

    def subscribe(self, subscription: Subscription) -> None:
        """Join the group, or change the subscription."""
        self._watch_all(subscription.pattern is not None)
        self.subscription = subscription
        self._core.polled(self._hub.now_ms())
        self._on_view(self._hub.metadata.view)
        self.pump()
        self._arm_commit()

    async def leaving(self, deadline_ms: int) -> OwnershipChange | None:
        """Commit processed records before `unsubscribe`; gives the change whose callback is to be called."""
        core = self._core
        if self.auto_commits and (core.is_member or self.subscription is None):
            await self._commit_processed(deadline_ms)
        if not core.owned:
            return None
        return OwnershipChange(ChangeKind.REVOKED if core.is_member else ChangeKind.LOST, core.owned)

    async def unsubscribe(self, *, leave: bool, reason: str, deadline_ms: int) -> None:
        """End the membership, after `leaving`; with `leave` send LeaveGroup and wait until `deadline_ms`."""
        core = self._core
        effects = core.unsubscribe(leave=leave, reason=reason)
        self._drop(core.owned)
        core.owned = ()
        self.subscription = None
        self._watch_all(False)
        self._watch(())
        for effect in effects:
            if isinstance(effect, SendRequest):
                # Order: by a task, as earlier requests: a JoinGroup must not reach the coordinator later.
                leaving = self._hub.tasks.spawn(self._send_leave(effect, deadline_ms))
                if leaving is not None:
                    await asyncio.wait([leaving])
        self.pump()

    async def _send_leave(self, ask: SendRequest, deadline_ms: int) -> None:
        try:
            await self._link.ask(ask.api, ask.request, deadline_ms=deadline_ms)
        except HeadraceError as error:
            log.info("LeaveGroup of group %r failed: %s", self._core.config.group_id, error)

    def close(self) -> None:
        """Send no further requests; fail waiting commits."""
        self._is_closed = True
        for timer in (self._timer, self._commit_timer):
            if timer is not None:
                timer.cancel()
        self._hub.metadata.remove_listener(self._on_view)
        if self._hub.failure is None:
            self._watch_all(False)
            self._watch(())
        self._committer.close()

    def enforce_rebalance(self, reason: str) -> None:
        """See `MemberCore.enforce_rebalance`."""
        self._core.enforce_rebalance(reason)
        self.pump()

    def topics(self) -> tuple[str, ...]:
        """The topics of the subscription; with a pattern the current matches."""
        if self.subscription is None:
            return ()
        return self.subscription.topics_in(self._hub.metadata.view)

    @property
    def metadata(self) -> GroupMetadata:
        """See `MemberCore.owner_metadata`."""
        return self._core.owner_metadata

    def metrics(self) -> dict[str, float]:
        """By Kafka's metric names; from any thread."""
        return self._metrics.values(self._hub.now_ms())

    # --- changes of ownership ---------------------------------------------------------------------------

    async def begin(self, timeout_s: float | None) -> OwnershipChange | None:
        """The pending change, the same until `done`; None without one. Errors: what ended the membership.

        Before a revocation processed records are committed. The call waits for that up to `timeout_s`, but at
        least MIN_COMMIT_WAIT_MS; after that it gives None, `is_committing` is set, and the next call waits
        on.
        """
        core = self._core
        core.polled(self._hub.now_ms())
        self.pump()
        if core.error is not None:
            error = core.error
            core.error_raised()
            self.pump()
            raise error
        change = core.begin()
        if change is None:
            return None
        if change is not self._begun_change:
            self._begun_change, self._revocation_commit = change, None
            self._change_began_ms = self._hub.now_ms()
            if change.kind is ChangeKind.ASSIGNED:
                self._adopt(change.partitions)
            elif change.kind is ChangeKind.REVOKED and self.auto_commits:
                deadline_ms = self._hub.now_ms() + self.config.api_timeout_ms
                self._revocation_commit = self._hub.tasks.spawn(self._commit_processed(deadline_ms))
        if self._revocation_commit is not None:
            wait_s = None if timeout_s is None else max(timeout_s, MIN_COMMIT_WAIT_MS / 1000)
            await asyncio.wait([self._revocation_commit], timeout=wait_s)
        return None if self.is_committing else change

    @property
    def is_committing(self) -> bool:
        """Whether partitions cannot be revoked yet, because processed records are being committed."""
        return self._revocation_commit is not None and not self._revocation_commit.done()

    def done(self) -> None:
        """The consumer has performed the change that `begin` returned."""
        core = self._core
        if core.pending is None:
            return
        self._begun_change = self._revocation_commit = None
        now_ms = self._hub.now_ms()
        core.polled(now_ms)
        self._metrics.ownership_changed(core.pending.kind, self._change_began_ms, now_ms)
        if core.pending.kind is not ChangeKind.ASSIGNED:
            self._drop(core.pending.partitions)
        self._perform(core.on_done(now_ms))
        self.pump()

    def _adopt(self, tps: Iterable[TopicPartition]) -> None:
        new = [tp for tp in tps if tp not in self._assignment_numbers]
        self._assignment_number += 1
        self._assignment_numbers = {**self._assignment_numbers, **dict.fromkeys(new, self._assignment_number)}
        self.fetch_positions(new)

    def _drop(self, tps: Iterable[TopicPartition]) -> None:
        gone = frozenset(tps)
        self._assignment_numbers = {
            tp: number for tp, number in self._assignment_numbers.items() if tp not in gone
        }
        for tp in gone:
            self._submitted.pop(tp, None)
        self._engine.drop(gone)

    # --- commits ----------------------------------------------------------------------------------------

    async def commit(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata] | None, deadline_ms: int
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        return await self.start_commit(offsets, deadline_ms)

    def start_commit(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata] | None, deadline_ms: int
    ) -> Committing:
        """Commit these offsets; None: all positions. The future has the offsets. Errors, in the future: see
        `Committer.submit`."""
        if offsets is None:
            offsets = {tp: offset for tp, (_, offset) in self._engine.positions(processed=False).items()}
        at = self._engine.change(lambda fetcher: versions(fetcher, offsets))
        # Order: before the commit ends, or an auto-commit meanwhile would commit older offsets after it.
        submitted = {tp: (version, offsets[tp].offset) for tp, version in at.items()}
        self._submitted.update(submitted)
        future = self._committer.submit(offsets, deadline_ms)
        future.add_done_callback(lambda done: self._commit_ended(done, submitted))
        if self._engine.tracing is not None:
            future.add_done_callback(self._engine.tracing.commit_began())
        return future

    def fetch_positions(self, tps: Iterable[TopicPartition]) -> None:
        """Fetch the committed offsets of these partitions, and read from there."""
        new = self._engine.change(lambda fetcher: await_start(fetcher, tps))
        if new:
            self._hub.tasks.spawn(self._start(new))
        self._arm_commit()

    async def _start(self, versions: Mapping[TopicPartition, int]) -> None:
        left = dict(versions)
        while left:
            outcome: Any = None
            try:
                outcome = await self.committed(left, self._hub.now_ms() + self.config.api_timeout_ms)
            except HeadraceError as error:
                outcome = error
            if self._is_closed:
                return
            if not isinstance(outcome, HeadraceError):
                for tp, offset in outcome.items():
                    if offset is not None:
                        self._submitted[tp] = (versions[tp] + 1, offset.offset)
                self._engine.change(partial(start, awaited=left, committed=outcome))
                return
            if isinstance(outcome, KafkaError) and not outcome.retriable:
                self._engine.change(partial(start_failed, awaited=left, error=outcome))
                return
            self._log.warning(
                "no committed offsets",
                "no committed offsets of %r yet: %s",
                self._core.config.group_id,
                outcome,
            )
            left = self._engine.change(partial(still_awaiting, awaited=left))

    async def _commit_processed(self, deadline_ms: int) -> None:
        """Commit processed records and wait for that; a failure is logged."""
        # Without new offsets an auto-commit of all of them may be in flight: wait for that one.
        future = self._commit_progress(deadline_ms) or self._committer.all_ended(deadline_ms)
        if future is None:
            return
        try:
            async with asyncio.timeout(max(deadline_ms - self._hub.now_ms(), 0) / 1000):
                await asyncio.shield(future)  # the commit in flight has a later deadline
        except HeadraceError as error:
            log.warning("the commit before a revocation or close failed: %s", error)
        except TimeoutError:
            log.warning("the commit before a revocation or close timed out")

    def _commit_progress(self, deadline_ms: int) -> Committing | None:
        news: dict[TopicPartition, OffsetAndMetadata] = {}
        for tp, (version, offset) in self._engine.positions(processed=True).items():
            last = self._submitted.get(tp)
            if last is None or last[0] < version or last[1] < offset.offset:
                news[tp] = offset
        return self.start_commit(news, deadline_ms) if news else None

    def _commit_ended(self, done: Committing, submitted: Mapping[TopicPartition, tuple[int, int]]) -> None:
        """After a failure auto-commit commits these offsets again."""
        if not done.cancelled() and done.exception() is None:
            self._engine.interceptors.committed(done.result())
            return
        for tp, position in submitted.items():
            if self._submitted.get(tp) == position:
                del self._submitted[tp]

    def _arm_commit(self) -> None:
        if self._commit_timer is None and self.auto_commits and not self._is_closed:
            self._commit_timer = self._hub.loop.call_later(
                self.config.auto_commit_interval_ms / 1000, self._auto_commit
            )

    def _auto_commit(self) -> None:
        self._commit_timer = None
        if self._hub.failure is not None or self._is_closed or not self.auto_commits:
            return
        future = self._commit_progress(self._hub.now_ms() + self.config.api_timeout_ms)
        if future is not None:
            future.add_done_callback(self._log_failure)
        self._arm_commit()

    def _commit_context(self) -> CommitContext:
        core = self._core
        if self.subscription is None:
            return CommitContext(core.metadata, True, None)
        is_between = core.is_member and core.state in (MemberState.JOINING, MemberState.SYNCING)
        return CommitContext(
            core.metadata, not is_between, self._assignment_numbers if core.is_member else {}, core.error
        )

    def _commit_rejected(self, error: KafkaError) -> None:
        self._perform(self._core.commit_rejected(error, self._hub.now_ms()))
        self.pump()

    # --- driving the core -------------------------------------------------------------------------------

    def pump(self) -> None:
        """Report polls of the consumer to the core, and send the requests that are due."""
        if self._is_closed or self._hub.failure is not None:
            return
        now_ms = self._hub.now_ms()
        seen = self._engine.progress()
        if seen is None or seen != self._seen:
            self._core.polled(now_ms)
        self._seen = seen
        self._perform(self._core.poll(now_ms))
        self._publish()

    def _publish(self) -> None:
        core = self._core
        self._watch(core.topics_to_watch)
        if core.has_unknown_topics:
            self._hub.metadata.refresh_soon()
        is_late = core.state is MemberState.LATE  # its partitions are lost: no record of them may be returned
        self._engine.set_group_work(core.pending is not None or core.error is not None or is_late)
        self._committer.membership_changed()
        self._metrics.state_changed(core.state, core.is_member, self._hub.now_ms())
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        due_ms = core.next_due_ms()
        if due_ms is not None:
            # Bound: polls of the consumer are reported at each heartbeat interval. One more ms as in the
            # engine.
            delay_ms = min(max(due_ms - self._hub.now_ms(), 0) + 1, core.config.heartbeat_interval_ms)
            self._timer = self._hub.loop.call_later(delay_ms / 1000, self.pump)

    async def _ask(self, ask: SendRequest) -> None:
        now_ms = self._hub.now_ms
        began_ms = now_ms()
        deadline_ms = began_ms + (ask.wait_ms or 0) + self.config.api_timeout_ms
        try:
            response = await self._link.ask(
                ask.api, ask.request, deadline_ms=deadline_ms, timeout_ms=ask.timeout_ms, wait_ms=ask.wait_ms
            )
        except KafkaError as error:
            effects = self._core.on_failure(ask, error, now_ms())
        except HeadraceError as error:
            if self._is_closed or self._hub.failure is not None:
                return
            self._log.warning("group error", "group %r: %s", self._core.config.group_id, error)
            effects = self._core.on_failure(ask, CoordinatorNotAvailableError(str(error)), now_ms())
        else:
            self._metrics.response_received(ask.api, began_ms, now_ms())
            effects = self._core.on_response(ask, response, now_ms())
        if not self._is_closed:
            self._perform(effects)
            self.pump()

    async def _assign_partitions(self, assign_partitions: AssignPartitions) -> None:
        metadata = self._hub.metadata
        self._watch(self._core.topics_to_watch)
        if any(
            name not in metadata.view.topics and name not in metadata.view.missing
            for name in assign_partitions.topics
        ):
            try:
                await metadata.refresh(self._hub.now_ms() + self.config.api_timeout_ms)
            except HeadraceError as error:
                text = "the leader of group %r has no fresh metadata: %s"
                self._log.warning("no fresh metadata", text, self._core.config.group_id, error)
        view = metadata.view
        racks = {node.node_id: node.rack for node in view.nodes.values()}
        topics = {
            name: Topic(
                len(topic.partitions),
                tuple(
                    frozenset(rack for node in part.replicas if (rack := racks.get(node)))
                    for part in topic.partitions
                ),
            )
            for name in assign_partitions.topics
            if (topic := view.topics.get(name)) is not None
        }
        self._perform(
            self._core.assign_partitions(assign_partitions.generation_id, topics, self._hub.now_ms())
        )
        self.pump()

    def _watch_all(self, is_wanted: bool) -> None:
        """Whether the metadata must have all topics, for a pattern."""
        if is_wanted != self._watches_all:
            self._watches_all = is_wanted
            (self._hub.metadata.watch_all if is_wanted else self._hub.metadata.unwatch_all)()

    def _watch(self, topics: tuple[str, ...]) -> None:
        if topics != self._watched:
            old, self._watched = self._watched, topics
            self._hub.metadata.watch(topics)
            self._hub.metadata.unwatch(old)

    def _on_view(self, view: ClusterView) -> None:
        if self.subscription is None or self._is_closed:
            return
        subscription, core = self.subscription, self._core
        for topic in subscription.topics if core.logs_missing_topics else ():
            if topic in view.missing and topic not in self._missing_topics:
                self._missing_topics.add(topic)
                log.warning("group %r waits for topic %r, which does not exist", core.config.group_id, topic)
        core.subscribe(subscription.topics_in(view), subscription.regex)
        core.topics_changed(
            {name: len(topic.partitions) for name, topic in view.topics.items()},
            {topic.topic_id: name for name, topic in view.topics.items()},
        )
        self.pump()

    def _log_failure(self, done: Committing) -> None:
        if done.cancelled() or isinstance(done.exception(), ClosedError):
            return
        if (error := done.exception()) is not None:
            self._log.warning("auto-commit failed", "auto-commit failed: %s", error)
