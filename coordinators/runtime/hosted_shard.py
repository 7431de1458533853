"""One partition of an internal topic while this node leads it in one epoch: load, then decide, append, apply,
answer.

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
from ...storage_node.embedded.contract import LogPiece
from .batches import JointBatch, batches_of
from .failures import as_seen
from .loading import Digest, digest
from .ports import NO_STAMP, Answer, Now, Outcome, ShardMetrics
from .timers import ShardTimers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from ...protocol.messages.envelope import Api
    from ...protocol.metadata.image import MetadataDelta, MetadataImage
    from ...protocol.model import TopicPartition
    from ...storage_node.embedded.contract import GuestHost, LiveNodeConfig, PartitionKey
    from .loading import Replayed
    from .metrics import CoordinatorMetrics
    from .ports import Shard, Stamp, Surroundings
    from .timers import Wheel
    from .waiting import Waiting

    Encode = Callable[[Any, Any], tuple[bytes, bytes | None]]
    MakeShard = Callable[[int, Surroundings], Shard]

PIECE_BYTES = 1024 * 1024  # of the log, read and decoded on a thread at a time
HANDOVER_LOOK_MS = 10  # how often to look whether the last leader has heard
REPLAY_STEP = 1_000  # records that are replayed before the loop may turn to others
_LOADING = "loading"
_ANSWERS = "answers"


class RecordCodec(NamedTuple):
    """How records of internal topics become bytes and back; None: of a type that is not known here."""

    encode: Encode
    decode: Callable[[bytes, bytes | None], tuple[Any, Any] | None]


class Parts(NamedTuple):
    """What the shards of one node share."""

    host: GuestHost
    codec: RecordCodec
    wheel: Wheel
    next_producer_id: Callable[[], int]
    metrics: Mapping[str, CoordinatorMetrics]  # by topic
    has_work: Callable[[HostedShard], None]  # have `work` called at the end of this turn
    restart: Callable[[HostedShard], None]  # drop it, and read its log anew


class ShardState(Enum):
    """Where a shard is in its life."""

    LOADING = "loading"
    ACTIVE = "active"
    FAILED = "failed"
    CLOSED = "closed"


SHARD_TRANSITIONS: dict[ShardState, dict[ShardState, str]] = {
    ShardState.LOADING: {
        ShardState.ACTIVE: "all of the log is applied, and no earlier leader may answer",
        ShardState.FAILED: "the log cannot be read",
        ShardState.CLOSED: "the node does not lead the partition in this epoch",
    },
    ShardState.ACTIVE: {ShardState.CLOSED: "the node does not lead the partition in this epoch"},
    ShardState.FAILED: {ShardState.CLOSED: "the node does not lead the partition in this epoch"},
    ShardState.CLOSED: {},
}


class _Held(NamedTuple):
    """An answer that tells of what is not committed yet."""

    end_offset: int
    deadline_ms: int
    answer: Answer


class _Asked(NamedTuple):
    """A request of this turn."""

    api: Api
    body: Any
    token: Waiting


class HostedShard:
    """Runs one Shard; gives it its Surroundings.

    Invariant: while ACTIVE the shard has applied exactly the records below `applied_end`, and between two
    events these are what its log has.
    Invariant: no answer that waits leaves before the high watermark has reached what was applied when it
    was decided.
    Invariant: no answer that waits leaves unless this node led the partition when it was decided: it held a
    lease then, or what was appended with it is committed.
    """

    def __init__(
        self, key: PartitionKey, name: TopicPartition, epoch: int, make: MakeShard, parts: Parts
    ) -> None:
        self.key = key
        self.name = name
        self.epoch = epoch
        self.state = ShardState.LOADING
        self.waiting: dict[Waiting, None] = {}  # in the order of their coming
        self.applied_end = 0
        self.skipped = 0  # records of unknown types
        self._replayed = 0  # those of the load
        self._load_began_ms = parts.host.now_ms
        self._parts = parts
        self._host = parts.host
        self._timers = ShardTimers(parts.wheel, self._run)
        self._own_timers = ShardTimers(parts.wheel, self._run)
        self._held: deque[_Held] = deque()
        self._next: deque[tuple[int, Callable[[Now], Outcome]]] = deque()  # by the offset to be committed
        self._to_replay: deque[Replayed] = deque()
        self._fault = ""
        self._asked: list[_Asked] = []  # within this turn
        self._shard = make(name.partition, self)

    # --- Surroundings ----------------------------------------------------------------------------------

    @property
    def config(self) -> LiveNodeConfig:
        """Keys of coordinators."""
        return self._host.config

    @property
    def timers(self) -> ShardTimers:
        """Of this shard."""
        return self._timers

    @property
    def image(self) -> MetadataImage:
        """Topics, partitions, racks."""
        return self._host.image

    @property
    def node_id(self) -> int:
        """Of this node."""
        return self._host.node_id

    def ask(
        self,
        node_id: int,
        api: Api,
        body: Any,
        timeout_ms: int,
        answered: Callable[[Any, Now], Outcome],
    ) -> None:
        """Send a request; `answered` decides on the answer, unless the shard was dropped meanwhile."""

        def decide(outcome: Any) -> None:
            if self.state is ShardState.ACTIVE:
                self._run(lambda now: answered(outcome, now), self._now())

        self._host.ask(node_id, api, body, timeout_ms, decide)

    def next_producer_id(self) -> int:
        """An id that nobody had. Errors: CoordinatorLoadInProgressError."""
        return self._parts.next_producer_id()

    # --- life ------------------------------------------------------------------------------------------

    def load(self) -> None:
        """Read the log from its start; `ACTIVE` follows, or `FAILED`."""
        start, _ = self._host.bounds(self.key)
        self.applied_end = start
        self._load_began_ms = self._host.now_ms
        self._load_on()

    def close(self) -> None:
        """This node does not lead the partition any more, in this epoch: nothing here counts."""
        was_active = self.state is ShardState.ACTIVE
        self._move(ShardState.CLOSED)
        error = NotCoordinatorError(f"node {self.node_id} does not lead {self.name} any more")
        self._timers.clear()
        self._own_timers.clear()
        left: list[Any] = self._shard.close() if was_active else []
        for token in dict.fromkeys((*left, *self.waiting)):
            token.deliver(error)

    def _move(self, state: ShardState) -> None:
        assert state in SHARD_TRANSITIONS[self.state], f"{self.name}: {state} does not follow {self.state}"
        self.state = state

    def _load_on(self) -> None:
        _, end = self._host.bounds(self.key)
        if self.applied_end >= end:
            self._loaded()
            return
        decode = self._parts.codec.decode
        piece = LogPiece(
            self.key, self.applied_end, PIECE_BYTES, lambda data: digest(data, decode), self._piece_read
        )
        self._host.read(piece)

    def _piece_read(self, piece: LogPiece) -> None:
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
        self._replay_some(self._now())

    def _replay_some(self, now: Now) -> Outcome:
        """Apply some of what was read; the rest when others had their turn."""
        try:
            for _ in range(min(REPLAY_STEP, len(self._to_replay))):
                self._replay(self._to_replay.popleft())
        except Exception as error:  # noqa: BLE001 - one bad record must not end every node that leads
            self._fail(repr(error))
            return Outcome()
        if self._to_replay:
            self._own_timers.set(_LOADING, now.ms, self._replay_some)
        else:
            self._load_on()
        return Outcome()

    def _replay(self, item: Replayed) -> None:
        if item.record is None:
            self._shard.replay_marker(item.stamp, is_commit=item.is_commit, offset=item.offset)
        else:
            self._shard.replay(item.record, item.offset, item.stamp)

    def _loaded(self) -> None:
        """All of the log is known. Whoever led before must be out of the way before anything is shown."""
        if not self._host.is_handed_over(self.key):
            self._own_timers.set(_LOADING, self._host.now_ms + HANDOVER_LOOK_MS, self._look_again)
            return
        self._move(ShardState.ACTIVE)
        took_ms = self._host.now_ms - self._load_began_ms
        self._parts.metrics[self.name.topic].load_times.record(took_ms)
        if self._replayed:
            text = f"{self.name} is coordinated here: {self._replayed} records read in {took_ms} ms"
            self._host.note(logging.INFO, text)
        if self.skipped:
            text = f"{self.name}: {self.skipped} records of types that are not known here were skipped"
            self._host.note(logging.WARNING, text)
        self._run(self._shard.on_loaded, self._now())

    def _look_again(self, _now: Now) -> Outcome:
        self._load_on()
        return Outcome()

    def _fail(self, fault: str) -> None:
        """Nothing is decided on half a state."""
        self._move(ShardState.FAILED)
        self._fault = f"{self.name} cannot be read: {fault}"
        self._to_replay.clear()
        self._host.note(logging.ERROR, f"no coordinator: {self._fault}")

    # --- for operators ---------------------------------------------------------------------------------

    def metrics(self) -> ShardMetrics:
        """Of the shard; nothing as long as it is not known whole."""
        return self._shard.metrics() if self.state is ShardState.ACTIVE else ShardMetrics({}, {})

    def committed_offsets(self) -> Iterator[tuple[str, TopicPartition, int]]:
        """See Shard; none before it is loaded."""
        return self._shard.committed_offsets() if self.state is ShardState.ACTIVE else iter(())

    # --- events ----------------------------------------------------------------------------------------

    def handle(self, api: Api, body: Any, token: Waiting) -> None:
        """One request; its token is delivered now or later."""
        if self.state is ShardState.LOADING:
            token.deliver(CoordinatorLoadInProgressError(f"node {self.node_id} is reading {self.name}"))
        elif self.state is not ShardState.ACTIVE:
            token.deliver(CoordinatorNotAvailableError(self._fault))
        else:
            token.wait_in(self.waiting)
            self._asked.append(_Asked(api, body, token))
            if len(self._asked) == 1:
                self._parts.has_work(self)

    def work(self) -> None:
        """Decide on what was asked within this turn: the decisions become one batch, as far as they can."""
        asked, self._asked = self._asked, []
        if self.state is not ShardState.ACTIVE:
            return  # its end has answered them
        now = self._now()
        requests = [each for each in asked if each.token.is_open]
        joint = self._joint() if len(requests) > 1 else None
        for each in requests:
            if self.state is ShardState.ACTIVE:
                self._run(partial(self._decide, each), now, each.token, joint)
        if joint is not None and self.state is ShardState.ACTIVE:
            self._write(joint)

    def _decide(self, asked: _Asked, now: Now) -> Outcome:
        return self._shard.handle(asked.api, asked.body, asked.token, now)

    def on_metadata(self, image: MetadataImage, delta: MetadataDelta | None) -> None:
        """The cluster has changed."""
        if self.state is ShardState.ACTIVE:
            self._run(lambda now: self._shard.on_metadata(image, delta, now), self._now())

    def on_peer_gone(self, session: int) -> None:
        """A connection with waiting requests is gone."""
        if self.state is ShardState.ACTIVE:
            self._run(lambda now: self._shard.on_peer_gone(session, now), self._now())

    def ended_transaction(self, stamp: Stamp, *, is_commit: bool, offset: int) -> None:
        """A marker was appended. While the log is read it comes with the rest of it."""
        if self.state is ShardState.ACTIVE:
            self._shard.replay_marker(stamp, is_commit=is_commit, offset=offset)
            self.applied_end = offset + 1

    def committed(self) -> None:
        """The high watermark has moved: what tells of what is below it leaves, what waited for it goes on."""
        if not self._held and not self._next:
            return
        high_watermark = self._host.high_watermark(self.key)
        while self._held and self._held[0].end_offset <= high_watermark:
            _, _, answer = self._held.popleft()
            answer.token.deliver(answer.body)
        while self._next and self._next[0][0] <= high_watermark:
            _, decide = self._next.popleft()
            self._run(decide, self._now())

    # --- decide, append, apply, answer -----------------------------------------------------------------

    def _run(
        self,
        decide: Callable[[Now], Outcome],
        now: Now,
        asker: Waiting | None = None,
        joint: JointBatch | None = None,
    ) -> None:
        """Have something decided and carry it out. An error of the decision is the asker's answer. Records
        become a part of the joint batch, if there is one and they may."""
        try:
            outcome = decide(now)
        except KafkaError as error:
            if asker is None:
                raise
            if self._host.holds_lease:
                asker.deliver(error)
                return
            outcome = Outcome(answers=[Answer(asker, error)])
        is_shown = any(answer.waits for answer in outcome.answers)
        is_alone = not outcome.records and (joint is None or not joint.count)
        if is_shown and is_alone and not self._host.holds_lease:
            outcome.records.append(self._shard.nothing)
        if outcome.records and not (joint is not None and self._join(joint, outcome, now)):
            if joint is not None and not self._write(joint):
                return  # it was read anew, and its end has answered all
            try:
                self._append(outcome, now)
            except KafkaError as error:
                self._refused(outcome, error, now, asker)
                return
        self._answer(outcome.answers, now)
        if outcome.on_committed is not None:
            self._next.append((self.applied_end, outcome.on_committed))
            self.committed()

    def _joint(self) -> JointBatch | None:
        """What the decisions of a turn become; None while each is to hear by itself why it is refused."""
        try:
            self._host.check_append(self.key, self.epoch)
        except KafkaError:
            return None
        return JointBatch(self._parts.codec.encode, self._host.max_batch_bytes(self.key))

    def _join(self, joint: JointBatch, outcome: Outcome, now: Now) -> bool:
        """Make the records part of the joint batch and apply them; False if they cannot be."""
        if outcome.stamp != NO_STAMP or outcome.is_divisible or not joint.add(outcome.records, now.wall_ms):
            return False
        for offset, record in enumerate(outcome.records, self.applied_end):
            self._shard.replay(record, offset, NO_STAMP)
        self.applied_end += len(outcome.records)
        return True

    def _write(self, joint: JointBatch) -> bool:
        """Append the joint batch, whose records are applied already; no answer has left yet that rests on
        them. If that fails, which was looked after before, what is known here counts for nothing."""
        batch, count = joint.take()
        if not count:
            return True
        try:
            base_offset = self._host.append(self.key, self.epoch, batch)
        except KafkaError as error:
            self._host.note(logging.WARNING, f"{self.name} is read anew: {error}")
            self._parts.restart(self)
            return False
        assert base_offset + count == self.applied_end, "nobody else appends unseen"
        return True

    def _append(self, outcome: Outcome, now: Now) -> None:
        """All records in one batch, or none; several batches if it is divisible. Errors: KafkaError."""
        assert self.state is ShardState.ACTIVE, "only what is known whole is added to"
        limit, encode = self._host.max_batch_bytes(self.key), self._parts.codec.encode
        for batch, records in batches_of(outcome, encode, limit, now.wall_ms):
            base_offset = self._host.append(self.key, self.epoch, batch)
            assert base_offset == self.applied_end, "nobody else appends unseen"
            for offset, record in enumerate(records, base_offset):
                self._shard.replay(record, offset, outcome.stamp)
            self.applied_end = base_offset + len(records)

    def _refused(self, outcome: Outcome, error: KafkaError, now: Now, asker: Waiting | None) -> None:
        """Nothing was applied. The shard may know who is to hear what; others hear the error."""
        seen = as_seen(error)
        if outcome.on_failed is not None:
            undone = outcome.on_failed(error, now)
            assert not undone.records, "what undoes soft state needs no record"
            told = {answer.token for answer in undone.answers}
            self._answer(undone.answers, now)
            unheard = [answer.token for answer in outcome.answers if answer.token not in told]
        else:
            unheard = [answer.token for answer in outcome.answers]
            if asker is not None:
                asker.deliver(seen)
        for token in unheard:
            token.deliver(seen)

    def _answer(self, answers: Sequence[Answer], now: Now) -> None:
        if not answers:
            return
        is_committed = not self._held and self.applied_end <= self._host.high_watermark(self.key)
        for answer in answers:
            if is_committed or not answer.waits:
                answer.token.deliver(answer.body)
            else:
                deadline_ms = now.ms + self.config.now.offsets_commit_timeout_ms
                self._held.append(_Held(self.applied_end, deadline_ms, answer))
        if self._held and self._own_timers.deadline_of(_ANSWERS) is None:
            self._own_timers.set(_ANSWERS, self._held[0].deadline_ms, self._give_up)

    def _give_up(self, now: Now) -> Outcome:
        """Answers have waited for too long: what they tell may be committed yet, or never."""
        while self._held and self._held[0].deadline_ms <= now.ms:
            _, _, answer = self._held.popleft()
            answer.token.deliver(
                CoordinatorNotAvailableError(f"{self.name} was not committed up to where it was decided")
            )
        if self._held:
            self._own_timers.set(_ANSWERS, self._held[0].deadline_ms, self._give_up)
        return Outcome()

    def _now(self) -> Now:
        return Now(self._host.now_ms, self._host.wall_ms)
