"""Clients in simulation: the production cores of producer and consumer, over the simulated network.

Sends and reads go into a history, which is checked at the end. An idempotent producer writes each value once.
A retry of another producer may append a value again, at a higher offset.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cluster_losses import is_unclean
from headrace.clients.cluster.backoff import Backoff
from headrace.clients.cluster.metadata import ClusterView
from headrace.clients.consumer import effects as f
from headrace.clients.consumer.fetcher import Fetcher
from headrace.clients.consumer.requests import FetchLimits
from headrace.clients.producer import effects as p
from headrace.clients.producer.accumulator import Accumulator, AccumulatorLimits
from headrace.clients.producer.batches import Batch, Identity
from headrace.clients.producer.requests import frames_of
from headrace.clients.producer.sender import Sender
from headrace.clients.producer.sequences import Sequences
from headrace.clients.producer.splitting import split_batch
from headrace.protocol.errors import KafkaError, LogTruncationError, NetworkError, OffsetOutOfRangeError
from headrace.protocol.messages import registry
from headrace.protocol.messages.data import (
    MetadataRequest,
    ProducePartition,
    ProduceRequest,
)
from headrace.protocol.model import EARLIEST_TIMESTAMP, READ_UNCOMMITTED, TopicPartition
from headrace.protocol.records.codec import active_codec
from headrace.runtime.effect_performer import EffectPerformer, ignore, on
from history import Outcome

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from cluster import SimCluster
    from headrace.protocol.messages.envelope import Api
    from history import Process
    from sim_transport import Link

REQUEST_TIMEOUT_MS = 2_000
DELIVERY_TIMEOUT_MS = 10_000
METADATA_MAX_AGE_MS = 5_000


class SimClient:
    """The base of all clients: links to nodes, a view of the cluster, one timer."""

    def __init__(self, cluster: SimCluster, name: str) -> None:
        self.cluster, self.world, self.name = cluster, cluster.world, name
        self.random = cluster.world.stream(name)
        self.life = 1
        self.is_alive = True
        self.view = ClusterView()
        self.process: Process = cluster.history.process(name)
        self._links: dict[str, Link] = {}
        self._is_asking = False
        self._wants_view = True
        self._view_at_ms = -1
        self._timer: Any = None

    def awake(self, _label: str, action: Callable[[], None]) -> None:
        """Run `action` now: clients are never paused."""
        action()

    def ask(
        self,
        node_id: int,
        api: Any,
        body: Any,
        frames: Sequence[bytes],
        done: Callable[[Any, Sequence[bytes]], None],
        timeout_ms: int = 0,
    ) -> None:
        """Send a request to a node. A network error closes the connection, as in the production shell.
        `timeout_ms` 0: REQUEST_TIMEOUT_MS."""
        target = f"n{node_id}"
        link = self._links.get(target)
        if link is None or not link.is_usable:
            link = self._links[target] = self.cluster.transport.open(self, target)

        def answered(response: Any, answer_frames: Sequence[bytes]) -> None:
            if isinstance(response, NetworkError):
                link.close()
            done(response, answer_frames)

        link.ask(api, body, frames, timeout_ms or REQUEST_TIMEOUT_MS, answered)

    def refresh(self) -> None:
        """Request new metadata with the next poll."""
        self._wants_view = True

    def _take_hint(self, hint: p.TakeHint | f.UpdateLeader) -> None:
        self.view = self.view.with_leader(hint.topic, hint.partition, hint.leader, hint.leader_epoch)

    def _look(self) -> None:
        """Send a metadata request if one is due and none is pending."""
        now_ms = self.world.now_ms
        is_old = now_ms - self._view_at_ms >= METADATA_MAX_AGE_MS
        if self._is_asking or not (self._wants_view or is_old) or now_ms - self._view_at_ms < 20:
            return
        self._is_asking, self._wants_view, self._view_at_ms = True, False, now_ms
        node_id = self.random.choice(sorted(self.cluster.nodes))
        self.ask(node_id, registry.METADATA, MetadataRequest(None), (), self._seen)

    def _seen(self, response: Any, _frames: Sequence[bytes]) -> None:
        self._is_asking = False
        if isinstance(response, KafkaError):
            self._wants_view = True
        else:
            self.view = self.view.merged(response)
        self._poll()

    def _poll_in(self, due_ms: int | None) -> None:
        """Poll at `due_ms`, at the latest in 200 ms."""
        wait_ms = 200 if due_ms is None else min(max(due_ms - self.world.now_ms, 1), 200)
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self.world.after(wait_ms, f"{self.name} polls", self._poll)

    def start(self) -> None:
        """Begin to poll."""
        self._poll()

    def _poll(self) -> None:
        raise NotImplementedError


class SimProducer(SimClient):
    """Sends unique values to random partitions while `is_sending`. `acks` is -1 or 1; with acks=1 an
    acknowledged record may be lost, so its outcomes stay unknown. With a producer id it is idempotent; with a
    transactional id it gets the producer id from the coordinator."""

    def __init__(
        self,
        cluster: SimCluster,
        name: str,
        acks: int,
        gap_ms: int,
        producer_id: int = -1,
        transactional_id: str | None = None,
    ) -> None:
        super().__init__(cluster, name)
        self.transactional_id = transactional_id
        is_transactional = transactional_id is not None
        self.acks, self.gap_ms = acks, gap_ms
        self.is_idempotent = producer_id >= 0
        self.topics = cluster.topics
        self.is_sending = True
        self.sent = 0
        limits = AccumulatorLimits(
            linger_ms=self.random.choice((0, 5, 50)),
            batch_bytes=self.random.choice((200, 1000)),
            max_batch_bytes=10_000,
            buffer_bytes=1 << 16,
            delivery_timeout_ms=DELIVERY_TIMEOUT_MS,
            is_adaptive=True,
        )
        self.accumulator = Accumulator(limits, self._builder, lambda _: list[Any](), self.random)
        self.sender = Sender(
            self.accumulator,
            Backoff(50, 500, self.random),
            self._split,
            self._without,
            acks=acks,
            retries=1 << 30,
            max_in_flight=5,
            max_request_bytes=100_000,
            sequences=Sequences(is_transactional=is_transactional)
            if self.is_idempotent or is_transactional
            else None,
        )
        if self.is_idempotent:
            self.sender.on_identity(Identity(producer_id, 0), self.world.now_ms)
        self.acknowledged = 0
        self._performer = EffectPerformer(
            p.Effect,
            on(p.SendProduce, self._produce),
            on(p.Resolve, self._resolve),
            on(p.RecordsRefused, ignore),
            on(p.TakeHint, self._take_hint),
            on(p.RefreshMetadata, lambda _: self.refresh()),
            on(p.MemoryFreed, ignore),
            on(p.RequestProducerId, ignore),
        )

    def _without(self, batch: Batch, record_errors: dict[int, BaseException]) -> Batch:
        raise AssertionError(f"the leader refused records of {batch.queue.topic.name}: {record_errors}")

    @property
    def is_done(self) -> bool:
        """Whether the producer has stopped and every record has an outcome."""
        return not self.is_sending and not self.accumulator.live

    def start(self) -> None:
        """Begin to poll and to send."""
        super().start()
        self._send_on()

    def _send_on(self) -> None:
        if not self.is_sending:
            return
        topics = [name for name in self.view.topics if name in self.topics]
        if not topics and self.cluster.plan.is_brisk:
            self.refresh()  # the topic was not created at the last metadata request
        if topics and self.world.now_ms >= self.cluster.silent_until_ms:
            for _ in range(self.random.randrange(1, 6)):
                self._send(self.random.choice(topics))
            self._poll()
        self.world.after(1 + self.random.randrange(2 * self.gap_ms), f"{self.name} sends", self._send_on)

    def _send(self, topic: str) -> None:
        count = len(self.view.topics[topic].partitions)
        queues = self.accumulator.set_topic(topic, count)
        partition = self.random.randrange(count)
        queue = queues.queues[partition]
        if queue.open is None and not self.accumulator.open_batch(queue, self.world.now_ms):
            return
        value = f"{self.name}/{self.sent}".encode()
        padding = b" " * self.random.choice((0, 0, 30, 300))
        if self.accumulator.try_append(queue, self.world.wall_ms, None, value + padding, ()) < 0:
            if not self.accumulator.open_batch(queue, self.world.now_ms):
                return
            self.accumulator.try_append(queue, self.world.wall_ms, None, value + padding, ())
        self.sent += 1
        batch = queue.open or queue.batches[-1]
        # A value may be read, be lost in an unclean election, and be appended again.
        may_repeat = not self.is_idempotent or is_unclean((topic, partition))
        send = self.process.send((topic, partition), value, may_repeat=may_repeat)
        batch.delivery.append(send)

    def _poll(self) -> None:
        self._look()
        self._do(self.sender.poll(self.view, self.world.now_ms))
        self._poll_in(self.sender.next_due_ms())

    def _do(self, effects: tuple[p.Effect, ...]) -> None:
        self._performer.perform_all(effects)
        self.accumulator.check()

    def _produce(self, send: p.SendProduce) -> None:
        frames = [bytes(frame) for frame in frames_of(send)]
        entries = tuple(ProducePartition(*target) for target in send.targets)
        body = ProduceRequest(self.acks, 1_000, entries, self.transactional_id)

        def done(response: Any, _frames: Sequence[bytes]) -> None:
            now_ms = self.world.now_ms
            if isinstance(response, KafkaError):
                effects = self.sender.on_failure(send.request_id, response, now_ms)
            else:
                effects = self.sender.on_response(send.request_id, response, now_ms)
            self._performer.perform_all(effects)
            self._poll()

        self.ask(send.node_id, registry.PRODUCE, body, frames, done)

    def _resolve(self, resolved: p.Resolve) -> None:
        batch, sends = resolved.batch, resolved.batch.delivery
        for index, send in enumerate(sends):
            if resolved.error is None:
                self.acknowledged += 1
                if self.acks == -1:
                    send.ok(resolved.base_offset + index)
            elif self.acks == -1 and batch.attempts <= 1:
                send.ended(resolved.error)
                if send.outcome is Outcome.OK:
                    raise AssertionError("a failed batch has a successful record")
        if resolved.error is None and self.acks == -1:
            topic, partition = batch.queue.topic.name, batch.queue.partition
            values = {resolved.base_offset + index: send.value for index, send in enumerate(sends)}
            self.cluster.rules.on_acknowledged((topic, partition), values)

    @staticmethod
    def _builder(max_bytes: int) -> Any:
        return active_codec().builder(max_bytes=max_bytes)

    def _split(self, batch: Batch, max_bytes: int) -> list[Batch]:
        def deliveries(_: Batch, first_indexes: list[int]) -> list[object]:
            ends = [*first_indexes[1:], len(batch.delivery)]
            return [batch.delivery[a:b] for a, b in zip(first_indexes, ends, strict=True)]

        return split_batch(batch, max_bytes, active_codec(), self._builder, deliveries)


class SimConsumer(SimClient):
    """Reads all partitions from the beginning; with `may_seek` it sometimes seeks back. `limits` are random
    by default: in a brisk run fetches wait longer, and are seldom limited to one batch."""

    def __init__(
        self,
        cluster: SimCluster,
        name: str,
        *,
        may_seek: bool,
        isolation: int = READ_UNCOMMITTED,
        limits: FetchLimits | None = None,
    ) -> None:
        super().__init__(cluster, name)
        if limits is None:
            is_brisk = cluster.plan.is_brisk
            limits = FetchLimits(
                max_wait_ms=self.random.choice((100, 500, 1_000) if is_brisk else (20, 50, 500)),
                min_bytes=self.random.choice((1, 1_000)) if is_brisk else 1,
                max_bytes=self.random.choice((12_000, 100_000)),
                max_partition_bytes=self.random.choice((300, 10_000, 10_000) if is_brisk else (300, 10_000)),
                isolation=isolation,
            )
        self.fetcher = Fetcher(limits, Backoff(20, 300, self.random), None)
        self.may_seek = may_seek
        self._out_of_range: dict[TopicPartition, int] = {}  # positions that retention had deleted
        self.is_reading = True  # pending requests still get their responses after it stops
        self.topics = cluster.topics
        self._added_of: ClusterView | None = None  # the view whose partitions of `topics` are all added
        self._performer = EffectPerformer(
            f.Effect,
            on(f.SendFetch, self._send(registry.FETCH, self.fetcher.on_fetched)),
            on(f.SendListOffsets, self._send(registry.LIST_OFFSETS, self._looked_up)),
            on(
                f.SendOffsetForLeaderEpoch,
                self._send(registry.OFFSET_FOR_LEADER_EPOCH, self._epochs_ended),
            ),
            on(f.UpdateLeader, self._take_hint),
            on(f.RefreshMetadata, lambda _: self.refresh()),
            on(f.Truncated, ignore),
            on(f.NotifyReader, ignore),
        )

    def positions(self) -> dict[tuple[str, int], int]:
        """The next offset of each partition."""
        return {tuple(tp): state.position or 0 for tp, state in self.fetcher.states.items()}  # type: ignore[misc]

    def position_of(self, key: tuple[str, int]) -> int:
        """The next offset of a partition, 0 while it is unknown."""
        state = self.fetcher.states.get(key)  # type: ignore[call-overload]
        return 0 if state is None else state.position or 0

    def _poll(self) -> None:
        if not self.is_reading:
            return
        self._look()
        if self._added_of is not self.view:
            self._add_partitions()
        self._take()
        self._do(self.fetcher.poll(self.view, self.world.now_ms))
        self._poll_in(self.fetcher.next_due_ms())

    def _add_partitions(self) -> None:
        self._added_of = self.view
        for name in self.topics:
            found = self.view.topics.get(name)
            if found is None:
                self._added_of = None
                if self.cluster.plan.is_brisk:
                    self.refresh()  # the topic was not created at the last metadata request
                continue
            for number in range(len(found.partitions)):
                self.fetcher.add(TopicPartition(name, number), EARLIEST_TIMESTAMP)

    def _do(self, effects: tuple[f.Effect, ...]) -> None:
        self._performer.perform_all(effects)
        self.fetcher.check()

    def _send(self, api: Api, took: Callable[..., Any]) -> Callable[[Any], None]:
        """Perform an effect that sends a request; `took` gets the response."""
        return lambda sent: self.ask(sent.node_id, api, sent.request, (), self._done(sent, took))

    def _looked_up(self, sent: Any, response: Any, _frames: Any, now_ms: int) -> tuple[Any, ...]:
        return self.fetcher.on_offsets_listed(sent, response, now_ms)

    def _epochs_ended(self, sent: Any, response: Any, _frames: Any, now_ms: int) -> tuple[Any, ...]:
        return self.fetcher.on_epoch_ends(sent, response, now_ms)

    def _done(self, sent: Any, took: Callable[..., Any]) -> Callable[[Any, Sequence[bytes]], None]:
        def done(response: Any, frames: Sequence[bytes]) -> None:
            if isinstance(response, KafkaError):
                effects = self.fetcher.on_failure(sent, response, self.world.now_ms)
            else:
                effects = took(sent, response, frames, self.world.now_ms)
            self._performer.perform_all(effects)
            self._poll()

        return done

    def _start_over(self, tp: TopicPartition, error: Exception) -> None:
        """ConsistentRead: a position is invalid only after deletions or an unclean election. Seek to the
        divergent offset, or to the log start."""
        is_deleted = self.cluster.may_erase and isinstance(error, OffsetOutOfRangeError)
        is_cut = isinstance(error, LogTruncationError | OffsetOutOfRangeError) and is_unclean(tp)
        assert is_deleted or is_cut, f"ConsistentRead: {self.name}: {error!r}"
        if is_deleted and "retain" in self.cluster.plan.faults:
            self._out_of_range[tp] = self.position_of(tuple(tp))
        offset = error.divergent_offset if isinstance(error, LogTruncationError) else -1
        self.fetcher.seek(tp, None if offset < 0 else offset, EARLIEST_TIMESTAMP)
        if is_cut:
            self.cluster.rules.marks["reader got truncation error"] += 1
            self.process.move(tuple(tp))  # not noted after a deletion: reads continue at the log start offset

    def _take(self) -> None:
        """Take all fetched records, like one poll of an application."""
        for tp, state in self.fetcher.states.items():
            if state.error is not None:
                self._start_over(tp, state.error)
            reads: list[tuple[int, bytes]] = []
            while state.batches:
                batch = state.batches[0]
                if not batch.is_skipped:
                    for record in active_codec().decode(batch.data):
                        if record.offset >= (state.position or 0):
                            reads.append((record.offset, (record.value or b"").rstrip(b" ")))
                self.fetcher.batch_consumed(batch)
            if reads:
                # Retention deletes on the leader first: a new leader may still have the records, as in Kafka.
                if reads[0][0] < self._out_of_range.pop(tp, 0):
                    self.process.move(tuple(tp))
                self.process.poll(tuple(tp), reads)
            if reads and self.may_seek and self.random.random() < 0.02:
                self.fetcher.seek(tp, self.random.randrange(reads[-1][0] + 1))
                self.process.move(tuple(tp))
