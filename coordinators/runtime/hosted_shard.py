"""One partition of an internal topic while this node leads it in one epoch: load, then decide, append, apply,
respond.

    LOADING ──► ACTIVE ──► CLOSED      FAILED: its log cannot be read; closed when the epoch ends
       └──► FAILED ──►┘

Pure. Source: Kafka CoordinatorRuntime.java.
"""

from __future__ import annotations

import logging
from collections import deque
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from ...protocol.errors import (
    CoordinatorLoadInProgressError,
    CoordinatorNotAvailableError,
    KafkaError,
    NotCoordinatorError,
)
from ...storage_node.embedded.contract import LogPiece, Now
from .batches import JointBatch, batches_of
from .client_errors import client_error
from .loading import Digest, digest
from .ports import NO_PRODUCER, Answer, Outcome, ShardMetrics
from .timers import ShardTimers

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ...protocol.messages.envelope import Api
    from ...protocol.metadata.image import MetadataDelta, MetadataImage
    from ...protocol.model import TopicPartition
    from ...protocol.security.acls import Authorizer
    from ...runtime.telemetry.histogram import Histogram
    from ...storage_node.embedded.contract import CoordinatorHost, LiveNodeConfig, PartitionKey
    from .loading import Replayed
    from .pending_requests import PendingRequest
    from .ports import ProducerIdAndEpoch, Shard, ShardContext
    from .timers import Wheel

    Encode = Callable[[Any, Any], tuple[bytes, bytes | None]]
    MakeShard = Callable[[int, ShardContext], Shard]

PIECE_BYTES = 1024 * 1024  # bytes of the log that one read decodes on a thread
HANDOVER_CHECK_MS = 10  # how often to check that the previous leader is fenced
REPLAY_STEP = 1_000  # records replayed per turn of the event loop
_LOADING = "loading"
_ANSWERS = "answers"


class RecordCodec(NamedTuple):
    """Encoding of internal topics' records; `decode` returns None for an unknown record type."""

    encode: Encode
    decode: Callable[[bytes, bytes | None], tuple[Any, Any] | None]


class ShardServices(NamedTuple):
    """The services that the shards of one node share."""

    host: CoordinatorHost
    codec: RecordCodec
    wheel: Wheel
    next_producer_id: Callable[[int], int]
    load_times: Mapping[str, Histogram]  # ms, by topic
    has_work: Callable[[HostedShard], None]  # have `work` called at the end of this turn
    restart: Callable[[HostedShard, Now], None]  # drop the shard and load its log again


class ShardState(Enum):
    """Life cycle of a shard."""

    LOADING = "loading"
    ACTIVE = "active"
    FAILED = "failed"
    CLOSED = "closed"


SHARD_TRANSITIONS: dict[ShardState, dict[ShardState, str]] = {
    ShardState.LOADING: {
        ShardState.ACTIVE: "the whole log is applied, and earlier leaders are fenced",
        ShardState.FAILED: "the log cannot be read",
        ShardState.CLOSED: "the node stopped leading the partition in this epoch",
    },
    ShardState.ACTIVE: {ShardState.CLOSED: "the node stopped leading the partition in this epoch"},
    ShardState.FAILED: {ShardState.CLOSED: "the node stopped leading the partition in this epoch"},
    ShardState.CLOSED: {},
}


class _ParkedResponse(NamedTuple):
    """A response that waits for the high watermark to reach `end_offset`."""

    end_offset: int
    deadline_ms: int
    answer: Answer


class _QueuedRequest(NamedTuple):
    """A request of this turn of the event loop."""

    api: Api
    body: Any
    token: PendingRequest


class HostedShard:
    """Runs one Shard and is its context.

    Invariant: while ACTIVE the shard has applied exactly the records below `applied_end`, and between two
    events these are the records of its log.
    Invariant: a response that waits is sent once the high watermark has reached what was applied when it was
    decided.
    Invariant: a response that waits is sent only if this node led the partition when it was decided: it held
    a lease then, or the records that were appended with it are committed.
    """

    def __init__(
        self, key: PartitionKey, name: TopicPartition, epoch: int, make: MakeShard, parts: ShardServices
    ) -> None:
        self.key = key
        self.name = name
        self.epoch = epoch
        self.state = ShardState.LOADING
        self.waiting: dict[PendingRequest, None] = {}  # in the order of arrival
        self.applied_end = 0
        self.skipped = 0  # records of unknown types
        self._replayed = 0  # records of the load
        self._load_began_ms = 0
        self._parts = parts
        self._host = parts.host
        self._timers = ShardTimers(parts.wheel, self._run)
        self._own_timers = ShardTimers(parts.wheel, self._run)
        self._parked: deque[_ParkedResponse] = deque()
        # by the offset that must be committed first
        self._follow_ups: deque[tuple[int, Callable[[Now], Outcome]]] = deque()
        self._to_replay: deque[Replayed] = deque()
        self._fault = ""
        self._queued: list[_QueuedRequest] = []  # requests of this turn
        self._shard = make(name.partition, self)

    # --- ShardContext ---------------------------------------------------------------------------------------

    @property
    def config(self) -> LiveNodeConfig:
        return self._host.config

    @property
    def timers(self) -> ShardTimers:
        return self._timers

    @property
    def image(self) -> MetadataImage:
        return self._host.image

    @property
    def node_id(self) -> int:
        return self._host.node_id

    @property
    def authorizer(self) -> Authorizer | None:
        return self._host.authorizer

    def ask(
        self,
        node_id: int,
        api: Api,
        body: Any,
        timeout_ms: int,
        answered: Callable[[Any, Now], Outcome],
    ) -> None:
        """Send a request; `answered` decides on the response, unless the shard was dropped meanwhile."""

        def decide(outcome: Any, now: Now) -> None:
            if self.state is ShardState.ACTIVE:
                self._run(lambda now: answered(outcome, now), now)

        self._host.ask(node_id, api, body, timeout_ms, decide)

    def next_producer_id(self, now_ms: int) -> int:
        return self._parts.next_producer_id(now_ms)

    # --- life cycle -----------------------------------------------------------------------------------------

    def load(self, now: Now) -> None:
        """Read the log from its start; the state becomes ACTIVE or FAILED."""
        start, _ = self._host.bounds(self.key)
        self.applied_end = start
        self._load_began_ms = now.ms
        self._load_on(now)

    def close(self) -> None:
        """This node stopped leading the partition in this epoch: waiting requests get NOT_COORDINATOR."""
        was_active = self.state is ShardState.ACTIVE
        self._move(ShardState.CLOSED)
        error = NotCoordinatorError(f"node {self.node_id} no longer leads {self.name}")
        self._timers.clear()
        self._own_timers.clear()
        left: list[Any] = self._shard.close() if was_active else []
        for token in dict.fromkeys((*left, *self.waiting)):
            token.deliver(error)

    def _move(self, state: ShardState) -> None:
        assert state in SHARD_TRANSITIONS[self.state], f"{self.name}: {state} does not follow {self.state}"
        self.state = state

    def _load_on(self, now: Now) -> None:
        _, end = self._host.bounds(self.key)
        if self.applied_end >= end:
            self._loaded(now)
            return
        decode = self._parts.codec.decode
        piece = LogPiece(
            self.key, self.applied_end, PIECE_BYTES, lambda data: digest(data, decode), self._piece_read
        )
        self._host.read(piece)

    def _piece_read(self, piece: LogPiece, now: Now) -> None:
        if self.state is not ShardState.LOADING:
            return
        if piece.error is not None:
            self._fail(str(piece.error))
            return
        found: Digest = piece.found
        self.skipped += found.skipped
        self._replayed += len(found.replayed)
        self._to_replay.extend(found.replayed)
        self.applied_end = piece.next_offset
        self._replay_some(now)

    def _replay_some(self, now: Now) -> Outcome:
        """Apply up to REPLAY_STEP records, and schedule the rest for the next turn."""
        try:
            for _ in range(min(REPLAY_STEP, len(self._to_replay))):
                self._replay(self._to_replay.popleft())
        except Exception as error:  # noqa: BLE001 - an invalid record must not end every node that leads the partition
            self._fail(repr(error))
            return Outcome()
        if self._to_replay:
            self._own_timers.set(_LOADING, now.ms, self._replay_some)
        else:
            self._load_on(now)
        return Outcome()

    def _replay(self, item: Replayed) -> None:
        if item.record is None:
            self._shard.replay_marker(item.producer, is_commit=item.is_commit, offset=item.offset)
        else:
            self._shard.replay(item.record, item.offset, item.producer)

    def _loaded(self, now: Now) -> None:
        """The whole log is applied. Become ACTIVE once no earlier leader can still answer requests."""
        if not self._host.is_handed_over(self.key, now.ms):
            self._own_timers.set(_LOADING, now.ms + HANDOVER_CHECK_MS, self._check_handover)
            return
        self._move(ShardState.ACTIVE)
        took_ms = now.ms - self._load_began_ms
        self._parts.load_times[self.name.topic].record(took_ms)
        if self._replayed:
            text = f"{self.name}: coordinator loaded, {self._replayed} records in {took_ms} ms"
            self._host.note(logging.INFO, text)
        if self.skipped:
            text = f"{self.name}: skipped {self.skipped} records of unknown types, written by a newer version"
            self._host.note(logging.WARNING, text)
        self._run(self._shard.on_loaded, now)

    def _check_handover(self, now: Now) -> Outcome:
        self._load_on(now)
        return Outcome()

    def _fail(self, fault: str) -> None:
        """A partly loaded shard answers every request with an error."""
        self._move(ShardState.FAILED)
        self._fault = f"loading {self.name} failed: {fault}"
        self._to_replay.clear()
        self._host.note(logging.ERROR, f"coordinator unavailable until the next leader epoch: {self._fault}")

    # --- status ---------------------------------------------------------------------------------------------

    def metrics(self) -> ShardMetrics:
        """Metrics of the shard; empty unless it is ACTIVE."""
        return self._shard.metrics() if self.state is ShardState.ACTIVE else ShardMetrics({}, {})

    def offset_groups(self) -> list[str]:
        """The ids of groups with committed offsets; none unless the shard is ACTIVE."""
        return self._shard.offset_groups() if self.state is ShardState.ACTIVE else []

    def committed_offsets(self, group_id: str) -> list[tuple[TopicPartition, int]]:
        """Committed offsets of a group; none unless the shard is ACTIVE."""
        return self._shard.committed_offsets(group_id) if self.state is ShardState.ACTIVE else []

    # --- events ----------------------------------------------------------------------------------------

    def handle(self, api: Api, body: Any, token: PendingRequest) -> None:
        """Queue one request for this turn; its token is delivered now or later."""
        if self.state is ShardState.LOADING:
            token.deliver(CoordinatorLoadInProgressError(f"node {self.node_id} is loading {self.name}"))
        elif self.state is not ShardState.ACTIVE:
            token.deliver(CoordinatorNotAvailableError(self._fault))
        else:
            token.wait_in(self.waiting)
            self._queued.append(_QueuedRequest(api, body, token))
            if len(self._queued) == 1:
                self._parts.has_work(self)

    def work(self, now: Now) -> None:
        """Decide on the requests of this turn; their records become one batch where possible."""
        queued, self._queued = self._queued, []
        if self.state is not ShardState.ACTIVE:
            return  # `close` has answered the requests
        requests = [each for each in queued if each.token.is_open]
        joint = self._joint() if len(requests) > 1 else None
        for each in requests:
            if self.state is ShardState.ACTIVE:
                self._run(partial(self._decide, each), now, each.token, joint)
        if joint is not None and self.state is ShardState.ACTIVE:
            self._write(joint, now)

    def _decide(self, queued: _QueuedRequest, now: Now) -> Outcome:
        return self._shard.handle(queued.api, queued.body, queued.token, now)

    def on_metadata(self, image: MetadataImage, delta: MetadataDelta | None, now: Now) -> None:
        if self.state is ShardState.ACTIVE:
            self._run(lambda now: self._shard.on_metadata(image, delta, now), now)

    def on_peer_gone(self, session: int, now: Now) -> None:
        if self.state is ShardState.ACTIVE:
            self._run(lambda now: self._shard.on_peer_gone(session, now), now)

    def ended_transaction(self, producer: ProducerIdAndEpoch, *, is_commit: bool, offset: int) -> None:
        """A marker was appended. During the load it is replayed with the log."""
        if self.state is ShardState.ACTIVE:
            self._shard.replay_marker(producer, is_commit=is_commit, offset=offset)
            self.applied_end = offset + 1

    def committed(self, now: Now) -> None:
        """The high watermark has advanced: send responses and run follow-ups whose records are committed."""
        if not self._parked and not self._follow_ups:
            return
        high_watermark = self._host.high_watermark(self.key)
        while self._parked and self._parked[0].end_offset <= high_watermark:
            _, _, answer = self._parked.popleft()
            answer.token.deliver(answer.body)
        while self._follow_ups and self._follow_ups[0][0] <= high_watermark:
            _, decide = self._follow_ups.popleft()
            self._run(decide, now)

    # --- decide, append, apply, respond ---------------------------------------------------------------------

    def _run(
        self,
        decide: Callable[[Now], Outcome],
        now: Now,
        request: PendingRequest | None = None,
        joint: JointBatch | None = None,
    ) -> None:
        """Run a decision and carry out its outcome. A KafkaError is the response to `request`. Records join
        the joint batch, if there is one and they fit."""
        try:
            outcome = decide(now)
        except KafkaError as error:
            if request is None:
                raise
            if self._host.holds_lease(now.ms):
                request.deliver(error)
                return
            outcome = Outcome(answers=[Answer(request, error)])
        is_shown = any(answer.waits for answer in outcome.answers)
        is_alone = not outcome.records and (joint is None or not joint.count)
        if is_shown and is_alone and not self._host.holds_lease(now.ms):
            outcome.records.append(self._shard.noop_record)
        if outcome.records and not (joint is not None and self._join(joint, outcome, now)):
            if joint is not None and not self._write(joint, now):
                return  # the shard is being loaded again, and all its requests were answered
            try:
                self._append(outcome, now)
            except KafkaError as error:
                self._refused(outcome, error, now, request)
                return
        self._answer(outcome.answers, now)
        if outcome.on_committed is not None:
            self._follow_ups.append((self.applied_end, outcome.on_committed))
            self.committed(now)

    def _joint(self) -> JointBatch | None:
        """The batch for this turn's decisions; None if appends are refused, so that each decision gets its
        own error."""
        try:
            self._host.check_append(self.key, self.epoch)
        except KafkaError:
            return None
        return JointBatch(self._parts.codec.encode, self._host.max_batch_bytes(self.key))

    def _join(self, joint: JointBatch, outcome: Outcome, now: Now) -> bool:
        """Add the records to the joint batch and apply them; False if they do not fit."""
        if (
            outcome.producer != NO_PRODUCER
            or outcome.is_divisible
            or not joint.add(outcome.records, now.wall_ms)
        ):
            return False
        for offset, record in enumerate(outcome.records, self.applied_end):
            self._shard.replay(record, offset, NO_PRODUCER)
        self.applied_end += len(outcome.records)
        return True

    def _write(self, joint: JointBatch, now: Now) -> bool:
        """Append the joint batch, whose records are applied already; no response that depends on them has
        been sent. If the append fails, although `check_append` passed, the shard is loaded again."""
        batch, count = joint.take()
        if not count:
            return True
        try:
            base_offset = self._host.append(self.key, self.epoch, batch, now)
        except KafkaError as error:
            self._host.note(
                logging.WARNING, f"{self.name}: append failed, loading the coordinator again: {error}"
            )
            self._parts.restart(self, now)
            return False
        assert base_offset + count == self.applied_end, "only this shard and markers append"
        return True

    def _append(self, outcome: Outcome, now: Now) -> None:
        """Append all records in one batch or none; several batches if the outcome is divisible. Errors:
        KafkaError."""
        assert self.state is ShardState.ACTIVE, "appends need the fully loaded state"
        limit, encode = self._host.max_batch_bytes(self.key), self._parts.codec.encode
        for batch, records in batches_of(outcome, encode, limit, now.wall_ms):
            base_offset = self._host.append(self.key, self.epoch, batch, now)
            assert base_offset == self.applied_end, "only this shard and markers append"
            for offset, record in enumerate(records, base_offset):
                self._shard.replay(record, offset, outcome.producer)
            self.applied_end = base_offset + len(records)

    def _refused(self, outcome: Outcome, error: KafkaError, now: Now, request: PendingRequest | None) -> None:
        """The append failed and nothing was applied: `on_failed` may answer requests, all others get the
        error."""
        seen = client_error(error)
        if outcome.on_failed is not None:
            undone = outcome.on_failed(error, now)
            assert not undone.records, "on_failed only undoes soft state"
            answered = {answer.token for answer in undone.answers}
            self._answer(undone.answers, now)
            unanswered = [answer.token for answer in outcome.answers if answer.token not in answered]
        else:
            unanswered = [answer.token for answer in outcome.answers]
            if request is not None:
                request.deliver(seen)
        for token in unanswered:
            token.deliver(seen)

    def _answer(self, answers: Sequence[Answer], now: Now) -> None:
        if not answers:
            return
        is_committed = not self._parked and self.applied_end <= self._host.high_watermark(self.key)
        for answer in answers:
            if is_committed or not answer.waits:
                answer.token.deliver(answer.body)
            else:
                deadline_ms = now.ms + self.config.now.offsets_commit_timeout_ms
                self._parked.append(_ParkedResponse(self.applied_end, deadline_ms, answer))
        if self._parked and self._own_timers.deadline_of(_ANSWERS) is None:
            self._own_timers.set(_ANSWERS, self._parked[0].deadline_ms, self._expire_responses)

    def _expire_responses(self, now: Now) -> Outcome:
        """Responses waited for offsets.commit.timeout.ms: their records may still be committed, or never."""
        while self._parked and self._parked[0].deadline_ms <= now.ms:
            _, _, answer = self._parked.popleft()
            answer.token.deliver(
                CoordinatorNotAvailableError(
                    f"the records of this request were not committed to {self.name} in time: retry"
                )
            )
        if self._parked:
            self._own_timers.set(_ANSWERS, self._parked[0].deadline_ms, self._expire_responses)
        return Outcome()
