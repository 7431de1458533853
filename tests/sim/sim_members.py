"""Members of groups in simulation: production member cores and fetchers, driven by applications that read and
commit.

A `SimMember` commits the offsets of the records that it has read. A `Copier` copies records of one topic into
another and commits their offsets in the same transaction: each record must be copied exactly once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.clients.cluster.backoff import Backoff
from headrace.clients.group.assignors import RangeAssignor, Topic
from headrace.clients.group.classic import ClassicMember
from headrace.clients.group.member import (
    AssignPartitions,
    ChangeKind,
    Effect,
    ForgetCoordinator,
    MemberConfig,
    MemberCore,
    SendRequest,
)
from headrace.clients.group.modern import ModernMember
from headrace.clients.group.sticky import CooperativeStickyAssignor
from headrace.protocol.errors import KafkaError, error_from_code
from headrace.protocol.messages.groups import (
    GROUP_KEY,
    CommittedOffset,
    OffsetCommitRequest,
    OffsetFetchGroup,
    OffsetFetchRequest,
    TopicNamePartitions,
)
from headrace.protocol.messages.registry import OFFSET_COMMIT, OFFSET_FETCH, TXN_OFFSET_COMMIT
from headrace.protocol.messages.transactions import TxnOffsetCommitRequest
from headrace.protocol.model import EARLIEST_TIMESTAMP, READ_COMMITTED, TopicPartition
from headrace.protocol.records.codec import active_codec
from headrace.runtime.effect_performer import EffectPerformer, on
from sim_clients import SimClient, SimConsumer
from sim_scripts import CoordinatorLink, ask, first_error, run, sleep
from sim_streams import member_core
from sim_transactions import COPY, SOURCE, TIMEOUT_MS, TransactionalApp, TransactionalProducer

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cluster import SimCluster
    from sim_scripts import Steps

COPY_OF = b" copies "
COPIERS, READERS = "copiers", "readers"  # the groups
Reads = dict[TopicPartition, list[tuple[int, bytes]]]


class SimMember(SimConsumer):
    """A member that reads SOURCE and commits the offsets of what it read."""

    topic = SOURCE

    def __init__(self, cluster: SimCluster, name: str, group: str) -> None:
        super().__init__(cluster, name, may_seek=False, isolation=READ_COMMITTED)
        self.fetcher.reset_policy = EARLIEST_TIMESTAMP
        self.group = group
        self.kind = kind = cluster.plan.groups
        is_static = group == READERS and (
            cluster.plan.static_threads if kind == "streams" else self.random.random() < 0.3
        )
        self.config = config = MemberConfig(
            group,
            f"instance-{name}" if is_static else None,
            session_timeout_ms=cluster.plan.session_ms,
            heartbeat_interval_ms=300,
            max_poll_interval_ms=1_200,
        )
        backoff = Backoff(20, 300, self.random)
        is_modern = kind == "modern" or (kind == "mixed" and self.random.random() < 0.5)
        is_eager = self.random.random() < 0.5
        assignor = RangeAssignor() if is_eager else CooperativeStickyAssignor()
        self.core: MemberCore = (
            ModernMember(config, f"member-{name}", backoff)
            if is_modern
            else ClassicMember(config, (assignor,), backoff)
        )
        self._lives = 0
        if kind == "streams":
            self._become_thread()
        self.coordinator = CoordinatorLink(self, GROUP_KEY, group)
        self.is_reading = True
        self._counts: dict[str, int] = {}
        self._member_performer = EffectPerformer(
            Effect,
            on(SendRequest, lambda effect: run(self._ask_group(effect))),
            on(AssignPartitions, self._assign),
            on(ForgetCoordinator, lambda _: self.coordinator.forget()),
        )

    def _become_thread(self) -> None:
        """Start as a new thread of a streams application, which is not a member of the group yet."""
        self._lives += 1
        self.core = member_core(
            self.cluster, self.config, self.name, self.topic, self._lives, is_stateful=self.group == READERS
        )

    def die(self) -> None:
        """End the thread without a LeaveGroup request, and start it again. A static member may unsubscribe
        first, and the group keeps its tasks."""
        if self.config.group_instance_id is not None and self.random.random() < 0.7:
            self._perform(self.core.unsubscribe(leave=False, reason="restarts"))
            self.cluster.rules.marks["static thread restarted"] += 1
        for tp in list(self.fetcher.states):
            self.fetcher.remove(tp)
        self._become_thread()
        self.core.topics_changed(self._counts, {})
        self.core.subscribe((self.topic,))
        self.cluster.rules.marks["thread died"] += 1
        self._poll()

    # --- the member ---------------------------------------------------------------------------------------

    def start(self) -> None:
        """Join the group."""
        self.core.subscribe((self.topic,))
        self._poll()
        run(self._read_and_commit())

    def stop(self) -> None:
        """Leave the group."""
        self.is_reading = False
        self._perform(self.core.unsubscribe(leave=True, reason="over"))
        for tp in list(self.fetcher.states):
            self.fetcher.remove(tp)

    def _poll(self) -> None:
        self._look()
        self._learn()
        self._perform(self.core.poll(self.world.now_ms))
        self._do(self.fetcher.poll(self.view, self.world.now_ms))
        due = [each for each in (self.fetcher.next_due_ms(), self.core.next_due_ms()) if each is not None]
        self._poll_in(min(due, default=None))

    def _learn(self) -> None:
        counts = {name: len(topic.partitions) for name, topic in self.view.topics.items()}
        if counts != self._counts:
            self._counts = counts
            self.core.topics_changed(
                counts, {topic.topic_id: name for name, topic in self.view.topics.items()}
            )
        if self.core.has_unknown_topics:
            self.refresh()

    def _perform(self, effects: Iterable[Effect]) -> None:
        self._member_performer.perform_all(effects)
        self.cluster.groups.check_owners(self)

    def _assign(self, effect: AssignPartitions) -> None:
        topics = {name: Topic(self._counts[name]) for name in effect.topics if name in self._counts}
        self._perform(self.core.assign_partitions(effect.generation_id, topics, self.world.now_ms))

    def _ask_group(self, ask: SendRequest) -> Steps:
        answer = yield from self.coordinator.ask(ask.api, ask.request, ask.wait_ms)
        now_ms = self.world.now_ms
        if isinstance(answer, KafkaError):
            self._perform(self.core.on_failure(ask, answer, now_ms))
        else:
            self._perform(self.core.on_response(ask, answer, now_ms))
        self._poll()

    # --- the application ----------------------------------------------------------------------------------

    def _read_and_commit(self) -> Steps:
        """The poll loop: apply changes of the assignment, then take the fetched records and commit."""
        while self.is_reading:
            self.apply_assignment()
            reads = self.take()
            if reads:
                self.cluster.groups.read_by(reads)
                yield from self._commit(reads)
            if self.kind == "streams" and self.random.random() < 0.003 and self.cluster.groups.may_die:
                self.die()
            busy_ms = 2_500 if self.random.random() < 0.01 else 100
            yield from sleep(self, 1 + self.random.randrange(busy_ms))

    def apply_assignment(self) -> None:
        """Perform the pending assignments and revocations of the group."""
        core, now_ms = self.core, self.world.now_ms
        core.polled(now_ms)
        if core.error is not None:
            core.error_raised()
        while (work := core.begin()) is not None:
            if work.kind is ChangeKind.ASSIGNED:
                versions = {tp: self.fetcher.await_start(tp) for tp in work.partitions}
                new = {tp: version for tp, version in versions.items() if version is not None}
                if new:
                    run(self._start_at_committed(new))
            else:
                for tp in work.partitions:
                    self.fetcher.remove(tp)
            self._perform(core.on_done(now_ms))
            self.cluster.rules.marks[f"work {work.kind.value}"] += 1
        self._poll()

    def _start_at_committed(self, versions: dict[TopicPartition, int]) -> Steps:
        topics = (TopicNamePartitions(self.topic, tuple(tp.partition for tp in versions)),)
        request = OffsetFetchRequest((OffsetFetchGroup(self.group, topics),), True)
        floors = {tp: self.cluster.groups.floor(self.group, tp) for tp in versions}
        answer = yield from self.coordinator.insist(
            OFFSET_FETCH, request, _fetch_error, lambda: not self.is_reading
        )
        if isinstance(answer, KafkaError):
            assert not self.is_reading, f"{self.name} gets no offsets: {answer}"
            return
        for found in answer.groups[0].offsets:
            tp = TopicPartition(found.topic, found.partition)
            self.cluster.groups.check_fetched(self.group, tp, found.offset, floors[tp])
            self.fetcher.start(
                tp, versions[tp], None if found.offset < 0 else found.offset, found.leader_epoch
            )
        self._poll()

    def take(self) -> Reads:
        """Take the fetched records; the positions advance."""
        reads: Reads = {}
        for tp, state in self.fetcher.states.items():
            assert state.error is None, f"ConsistentRead: {self.name}: {state.error!r}"
            while state.batches:
                batch = state.batches[0]
                found = [] if batch.is_skipped else active_codec().decode(batch.data)
                for record in found:
                    if record.offset >= (state.position or 0):
                        reads.setdefault(tp, []).append((record.offset, record.value or b""))
                self.fetcher.batch_consumed(batch)
        return reads

    def positions_of(self, tps: Iterable[TopicPartition]) -> tuple[CommittedOffset, ...]:
        """The offsets to commit for these partitions."""
        states = self.fetcher.states
        return tuple(CommittedOffset(*tp, states[tp].position or 0) for tp in tps if tp in states)

    def _commit(self, reads: Reads) -> Steps:
        metadata, offsets = self.core.metadata, self.positions_of(reads)
        body = OffsetCommitRequest(
            self.group, metadata.generation_id, metadata.member_id, offsets, metadata.group_instance_id
        )
        self.cluster.groups.asked(self, offsets)
        answer = yield from self.coordinator.ask(OFFSET_COMMIT, body)
        error = answer if isinstance(answer, KafkaError) else first_error(answer)
        if error is None:
            self.cluster.groups.committed(self.group, offsets)
        elif not isinstance(answer, KafkaError) and not error.retriable:
            self._perform(self.core.commit_rejected(error, self.world.now_ms))


def _fetch_error(answer: Any) -> KafkaError | None:
    (found,) = answer.groups
    codes = [found.error_code, *(each.error_code for each in found.offsets)]
    return next((error_from_code(code) for code in codes if code), None)


class OffsetPoller(SimClient):
    """Sends OffsetFetch to any node, coordinator or not: a response without an error must be correct."""

    def __init__(self, cluster: SimCluster) -> None:
        super().__init__(cluster, "asker")
        self._is_polling = True

    def start(self) -> None:
        """Begin to poll."""
        run(self._poll_offsets())

    def stop(self) -> None:
        """Stop sending requests."""
        self._is_polling = False

    def _poll_offsets(self) -> Steps:
        while self._is_polling:
            yield from sleep(self, 1 + self.random.randrange(200 if self.cluster.plan.is_brisk else 60))
            source = self.cluster.rules.image.topics.get(SOURCE)
            if source is not None:
                run(self._ask(self.random.choice((COPIERS, READERS)), len(source.partitions)))

    def _ask(self, group: str, partitions: int) -> Steps:
        tps = [TopicPartition(SOURCE, number) for number in range(partitions)]
        request = OffsetFetchRequest(
            (OffsetFetchGroup(group, (TopicNamePartitions(SOURCE, tuple(range(partitions))),)),), True
        )
        floors = {tp: self.cluster.groups.floor(group, tp) for tp in tps}
        node_id = self.random.choice(sorted(self.cluster.nodes))
        answer = yield from ask(self, node_id, OFFSET_FETCH, request)
        if isinstance(answer, KafkaError) or answer.groups[0].error_code:
            return
        for found in answer.groups[0].offsets:
            tp = TopicPartition(found.topic, found.partition)
            if not found.error_code:
                self.cluster.groups.check_fetched(group, tp, found.offset, floors[tp])


class Copier(TransactionalProducer):
    """A transactional producer that copies SOURCE into COPY, as a member of COPIERS."""

    def __init__(self, app: TransactionalApp, name: str) -> None:
        super().__init__(app, name)
        self.member = _CopyingMember(app.cluster, f"{name}-member", COPIERS)
        self._reads: Reads = {}

    def start(self) -> None:
        """Join the group and begin transactions."""
        self.member.start()
        super().start()

    def _end(self) -> None:
        self.member.stop()
        super()._end()

    def _live(self) -> Steps:
        yield from self._become_producer()
        while self.is_usable and self.app.may_begin(self):
            self.member.apply_assignment()
            self._reads = self.member.take()
            if self._reads:
                yield from self._transact()
            if not self.is_usable:
                break
            yield from sleep(self, 1 + self.random.randrange(4 * self.app.gap_ms))
        self._end()

    def _fill(self) -> Steps:
        """Send copies of the records that were taken, and their offsets."""
        member, metadata = self.member, self.member.core.metadata
        for tp, reads in self._reads.items():
            for _, value in reads:
                copy = f"{self.name}/{self.sent}".encode() + COPY_OF + value  # each value is unique
                while not self.put(COPY, tp.partition, copy):
                    if not self.transactions.is_open or self.transactions.error is not None:
                        return
                    yield from sleep(self, 20)
        self._poll()
        if self.random.random() < 0.15:  # a rebalance may assign the partitions to other members before that
            yield from sleep(self, self.random.randrange(500, TIMEOUT_MS))
        if self.transactions.error is not None:
            return
        self.transactions.has_begun = True
        assert self.sender.sequences is not None
        identity = self.sender.sequences.identity
        assert identity is not None
        self._offsets = member.positions_of(self._reads)
        body = TxnOffsetCommitRequest(
            self.transactional_id or "",
            COPIERS,
            *identity,
            self._offsets,
            metadata.generation_id,
            metadata.member_id,
        )
        answer = yield from member.coordinator.insist(
            TXN_OFFSET_COMMIT, body, first_error, lambda: self.transactions.error is not None
        )
        if isinstance(answer, KafkaError):
            self._refused(answer)

    def put(self, topic: str, partition: int, value: bytes) -> bool:
        """Append one record; False while the topic is unknown or the buffer is full."""
        return topic in self.view.topics and super().put(topic, partition, value)

    def _commit(self) -> Steps:
        yield from super()._commit()
        if self._op.outcome.value == "ok":
            self.cluster.groups.committed(COPIERS, self._offsets)

    def _abort(self) -> Steps:
        yield from super()._abort()
        for tp, reads in self._reads.items():
            if tp in self.member.fetcher.states:
                self.member.fetcher.seek(tp, reads[0][0])


class _CopyingMember(SimMember):
    """The member of a `Copier`; the copier takes the records itself."""

    def _read_and_commit(self) -> Steps:
        yield from ()


class CopyingApp(TransactionalApp):
    """The application of a transactional id whose producers copy records."""

    make = Copier
