"""A consumer in its group: drives the member core on the loop, and the engine by what it decides.

The application checks `FetchBuffer.has_group_work`, then calls `begin`, its callbacks, and `done`; `begin`
and `done` run on the loop. Everything here belongs to that loop.
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
from .commits_io import Committer, Standing
from .committed_io import CommittedOffsets
from .coordinator_io import CoordinatorLink
from .figures import GroupFigures
from .member import Ask, Divide, Effect, Forget, MemberCore, Work, WorkKind
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
    from .group_metadata import GroupMetadata, OffsetAndMetadata
    from .subscription import Subscription

    Committing = asyncio.Future[dict[TopicPartition, OffsetAndMetadata]]

T = TypeVar("T")

log = logging.getLogger("headrace.client.group")

# Bound: how long the end of a consumer takes when nobody answers. Source: Kafka's Consumer.java.
CLOSE_TIMEOUT_S = 30.0
# How long any `poll` may wait for the commit before a revocation, so that a loop of `poll(0)` goes on.
MIN_COMMIT_WAIT_MS = 500


class PartitionReader(Protocol):
    """The engine of a consumer, as its membership uses it."""

    @property
    def interceptors(self) -> Interceptors: ...
    def change(self, action: Callable[[Fetcher], T]) -> T: ...
    def positions(self, *, processed: bool) -> Positions: ...
    def drop(self, tps: Iterable[TopicPartition]) -> None: ...
    def progress(self) -> tuple[Any, ...] | None: ...
    def set_group_work(self, has_group_work: bool) -> None: ...


class Membership:
    """The group side of one consumer. `core` None: no subscription, partitions are assigned by hand."""

    def __init__(
        self, engine: PartitionReader, hub: Hub, config: ConsumerConfig, core: MemberCore, backoff: Backoff
    ) -> None:
        self._engine, self._hub, self.config, self._backoff = engine, hub, config, backoff
        self._core = core
        self._link = CoordinatorLink(
            hub, core.config.group_id, backoff, request_timeout_ms=config.request_timeout_ms
        )
        self._committed = CommittedOffsets(hub, self._link, backoff, core.config.group_id)
        self._figures = GroupFigures()
        self._log = LimitedLog(log)
        self._committer = Committer(
            *(hub, self._link, backoff, self._standing, self._commit_refused, self._figures)
        )
        self._working_since_ms = 0
        self._begun: Work | None = None  # what the user's side was given to do
        self._finishing: asyncio.Task[None] | None = None  # the commit that has to end before it
        self.auto_commits = config.enable_auto_commit  # until transactions do it
        self.subscription: Subscription | None = None
        self._watched: tuple[str, ...] = ()
        self._watches_all = False
        self._seen: Any = None  # the user's progress at the last look
        # Of what is owned: the number of its take-over. Replaced, not changed: commits hold on to it.
        self._serials: Mapping[TopicPartition, int] = {}
        self._serial = 0
        self._wished: dict[TopicPartition, tuple[int, int]] = {}  # version, offset: to be committed last
        self._missed: set[str] = set()  # topics that do not exist: told once
        self._timer: asyncio.TimerHandle | None = None
        self._commit_timer: asyncio.TimerHandle | None = None
        self._is_closed = False
        self._perform = EffectPerformer(
            Effect,
            on(Ask, lambda ask: hub.tasks.spawn(self._ask(ask))),
            on(Divide, lambda divide: hub.tasks.spawn(self._divide(divide))),
            on(Forget, lambda _: self._link.forget()),
        ).perform_all
        hub.metadata.add_listener(self._on_view)

    # --- the subscription -------------------------------------------------------------------------------

    def subscribe(self, subscription: Subscription) -> None:
        """Be a member that reads this."""
        self._watch_all(subscription.pattern is not None)
        self.subscription = subscription
        self._core.polled(self._hub.now_ms())
        self._on_view(self._hub.metadata.view)
        self.pump()
        self._arm_commit()

    async def leaving(self, deadline_ms: int) -> Work | None:
        """Before the end of a membership: what the user's side has to hear. Finished work is committed."""
        core = self._core
        if self.auto_commits and (core.is_member or self.subscription is None):
            await self._commit_finished(deadline_ms)
        if not core.owned:
            return None
        return Work(WorkKind.REVOKED if core.is_member else WorkKind.LOST, core.owned)

    async def unsubscribe(self, *, leave: bool, reason: str, deadline_ms: int) -> None:
        """End the membership, after `leaving`; with `leave` the group is told, if there is the time."""
        core = self._core
        effects = core.unsubscribe(leave=leave, reason=reason)
        self._drop(core.owned)
        core.owned = ()
        self.subscription = None
        self._watch_all(False)
        self._watch(())
        for effect in effects:
            if isinstance(effect, Ask):
                # Order: behind what was asked before, as that is: by a task. A join must not come after it.
                leaving = self._hub.tasks.spawn(self._tell_leaving(effect, deadline_ms))
                if leaving is not None:
                    await asyncio.wait([leaving])
        self.pump()

    async def _tell_leaving(self, ask: Ask, deadline_ms: int) -> None:
        try:
            await self._link.ask(ask.api, ask.request, deadline_ms=deadline_ms)
        except HeadraceError as error:
            log.info("the group was not told that the member left: %s", error)

    def close(self) -> None:
        """Nothing is asked any more."""
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
        """Join again although nothing asks for it."""
        self._core.enforce_rebalance(reason)
        self.pump()

    def topics(self) -> tuple[str, ...]:
        """The topics of the subscription; of a pattern those that match now."""
        if self.subscription is None:
            return ()
        return self.subscription.topics_in(self._hub.metadata.view)

    @property
    def metadata(self) -> GroupMetadata:
        """Who the member is; of partitions that were lost and not given up yet, who it was."""
        return self._core.holder

    def figures(self) -> dict[str, float]:
        """By Kafka's metric names; from any thread."""
        return self._figures.values(self._hub.now_ms())

    # --- the user's side --------------------------------------------------------------------------------

    async def begin(self, timeout_s: float | None) -> Work | None:
        """What the user's side has to do now; again until `done`. Errors: what the user must hear.

        Before partitions are revoked finished work is committed. That is waited for up to `timeout_s`, but at
        least MIN_COMMIT_WAIT_MS: None then, with `is_committing`, and the next call goes on waiting.
        """
        core = self._core
        core.polled(self._hub.now_ms())
        self.pump()
        if core.error is not None:
            error = core.error
            core.heard_error()
            self.pump()
            raise error
        work = core.begin()
        if work is None:
            return None
        if work is not self._begun:
            self._begun, self._finishing = work, None
            self._working_since_ms = self._hub.now_ms()
            if work.kind is WorkKind.ASSIGNED:
                self._take(work.partitions)
            elif work.kind is WorkKind.REVOKED and self.auto_commits:
                deadline_ms = self._hub.now_ms() + self.config.api_timeout_ms
                self._finishing = self._hub.tasks.spawn(self._commit_finished(deadline_ms))
        if self._finishing is not None:
            wait_s = None if timeout_s is None else max(timeout_s, MIN_COMMIT_WAIT_MS / 1000)
            await asyncio.wait([self._finishing], timeout=wait_s)
        return None if self.is_committing else work

    @property
    def is_committing(self) -> bool:
        """Whether partitions cannot be revoked yet, because finished work is being committed."""
        return self._finishing is not None and not self._finishing.done()

    def done(self) -> None:
        """It has done it."""
        core = self._core
        if core.work is None:
            return
        self._begun = self._finishing = None
        now_ms = self._hub.now_ms()
        core.polled(now_ms)
        self._figures.worked(core.work.kind, self._working_since_ms, now_ms)
        if core.work.kind is not WorkKind.ASSIGNED:
            self._drop(core.work.partitions)
        self._perform(core.on_done(now_ms))
        self.pump()

    def _take(self, tps: Iterable[TopicPartition]) -> None:
        new = [tp for tp in tps if tp not in self._serials]
        self._serial += 1
        self._serials = {**self._serials, **dict.fromkeys(new, self._serial)}
        self.fetch_positions(new)

    def _drop(self, tps: Iterable[TopicPartition]) -> None:
        gone = frozenset(tps)
        self._serials = {tp: serial for tp, serial in self._serials.items() if tp not in gone}
        for tp in gone:
            self._wished.pop(tp, None)
        self._engine.drop(gone)

    # --- commits ----------------------------------------------------------------------------------------

    async def commit(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata] | None, deadline_ms: int
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        return await self.start_commit(offsets, deadline_ms)

    def start_commit(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata] | None, deadline_ms: int
    ) -> Committing:
        """Commit these, None: all positions. Gives what was committed. Errors, in the future: see
        `Committer.submit`."""
        if offsets is None:
            offsets = {tp: offset for tp, (_, offset) in self._engine.positions(processed=False).items()}
        at = self._engine.change(lambda fetcher: versions(fetcher, offsets))
        # Order: before it is done, or an auto-commit meanwhile would go back behind it.
        wished = {tp: (version, offsets[tp].offset) for tp, version in at.items()}
        self._wished.update(wished)
        future = self._committer.submit(offsets, deadline_ms)
        future.add_done_callback(lambda done: self._commit_ended(done, wished))
        return future

    async def committed(
        self, tps: Iterable[TopicPartition], deadline_ms: int
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """See `CommittedOffsets.fetch`."""
        return await self._committed.fetch(tps, deadline_ms)

    def fetch_positions(self, tps: Iterable[TopicPartition]) -> None:
        """Read these too, from where the group has committed."""
        new = self._engine.change(lambda fetcher: await_start(fetcher, tps))
        if new:
            self._hub.tasks.spawn(self._start(new))
        self._arm_commit()

    async def _start(self, versions: Mapping[TopicPartition, int]) -> None:
        left = dict(versions)
        while left:
            outcome: Any = None
            try:
                outcome = await self._committed.fetch(left, self._hub.now_ms() + self.config.api_timeout_ms)
            except HeadraceError as error:
                outcome = error
            if self._is_closed:
                return
            if not isinstance(outcome, HeadraceError):
                for tp, offset in outcome.items():
                    if offset is not None:
                        self._wished[tp] = (versions[tp] + 1, offset.offset)
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

    async def _commit_finished(self, deadline_ms: int) -> None:
        """Commit what the user has finished, and wait for it; a failure is logged."""
        # Where nothing is new, an auto-commit may be under way with all of it: it has to end as well.
        future = self._commit_news(deadline_ms) or self._committer.all_ended(deadline_ms)
        if future is None:
            return
        try:
            async with asyncio.timeout(max(deadline_ms - self._hub.now_ms(), 0) / 1000):
                await asyncio.shield(future)  # what is under way has more time than we
        except HeadraceError as error:
            log.warning("finished work was not committed: %s", error)
        except TimeoutError:
            log.warning("finished work was not committed in time")

    def _commit_news(self, deadline_ms: int) -> Committing | None:
        news: dict[TopicPartition, OffsetAndMetadata] = {}
        for tp, (version, offset) in self._engine.positions(processed=True).items():
            last = self._wished.get(tp)
            if last is None or last[0] < version or last[1] < offset.offset:
                news[tp] = offset
        return self.start_commit(news, deadline_ms) if news else None

    def _commit_ended(self, done: Committing, wished: Mapping[TopicPartition, tuple[int, int]]) -> None:
        """What failed is no longer what was wished last, so that auto-commit tries it again."""
        if not done.cancelled() and done.exception() is None:
            self._engine.interceptors.committed(done.result())
            return
        for tp, wish in wished.items():
            if self._wished.get(tp) == wish:
                del self._wished[tp]

    def _arm_commit(self) -> None:
        if self._commit_timer is None and self.auto_commits and not self._is_closed:
            self._commit_timer = self._hub.loop.call_later(
                self.config.auto_commit_interval_ms / 1000, self._auto_commit
            )

    def _auto_commit(self) -> None:
        self._commit_timer = None
        if self._hub.failure is not None or self._is_closed or not self.auto_commits:
            return
        future = self._commit_news(self._hub.now_ms() + self.config.api_timeout_ms)
        if future is not None:
            future.add_done_callback(self._log_failure)
        self._arm_commit()

    def _standing(self) -> Standing:
        core = self._core
        if self.subscription is None:
            return Standing(core.metadata, True, None)
        is_between = core.is_member and core.state in (MemberState.JOINING, MemberState.SYNCING)
        return Standing(core.metadata, not is_between, self._serials if core.is_member else {}, core.error)

    def _commit_refused(self, error: KafkaError) -> None:
        self._perform(self._core.refused(error, self._hub.now_ms()))
        self.pump()

    # --- driving the core -------------------------------------------------------------------------------

    def pump(self) -> None:
        """Let the core go on."""
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
        self._watch(core.watched)
        if core.lacks_topics:
            self._hub.metadata.refresh_soon()
        is_late = core.state is MemberState.LATE  # what the user has is lost: it must not get more of it
        self._engine.set_group_work(core.work is not None or core.error is not None or is_late)
        self._committer.standing_changed()
        self._figures.seen(core.state, core.is_member, self._hub.now_ms())
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        due_ms = core.next_due_ms()
        if due_ms is not None:
            # at least so often, that the user's progress is seen; one more ms as in the engine
            delay_ms = min(max(due_ms - self._hub.now_ms(), 0) + 1, core.config.heartbeat_interval_ms)
            self._timer = self._hub.loop.call_later(delay_ms / 1000, self.pump)

    async def _ask(self, ask: Ask) -> None:
        now_ms = self._hub.now_ms
        began_ms = now_ms()
        deadline_ms = began_ms + (ask.wait_ms or 0) + self.config.api_timeout_ms
        try:
            answer = await self._link.ask(
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
            self._figures.asked(ask.api, began_ms, now_ms())
            effects = self._core.on_answer(ask, answer, now_ms())
        if not self._is_closed:
            self._perform(effects)
            self.pump()

    async def _divide(self, divide: Divide) -> None:
        metadata = self._hub.metadata
        self._watch(self._core.watched)
        if any(
            name not in metadata.view.topics and name not in metadata.view.missing for name in divide.topics
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
            for name in divide.topics
            if (topic := view.topics.get(name)) is not None
        }
        self._perform(self._core.divide(divide.generation_id, topics, self._hub.now_ms()))
        self.pump()

    def _watch_all(self, is_wanted: bool) -> None:
        """Whether all topics must be known, because a pattern chooses among them."""
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
        for topic in subscription.topics:
            if topic in view.missing and topic not in self._missed:
                self._missed.add(topic)
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
