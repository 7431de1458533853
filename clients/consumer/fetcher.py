"""Decides what a consumer fetches and takes the answers in. Step shape, pure.

Every partition is in at most one request at a time; a node has at most `MAX_REQUESTS_PER_NODE`, so that data
of busy partitions does not wait behind the long poll of idle ones. A partition is fetched again when less
than half of max.partition.fetch.bytes of it is left, and all that is fetched and not handed out stays within
fetch.max.bytes; what paused partitions hold does not count, or they would starve the others.

A position is validated under each new leader epoch before it is fetched from (validation.py). When the log
has lost records that were read, what is fetched already is handed out first; then the policy decides.
Source: Kafka Fetcher.java, OffsetFetcher.java; KIP-320, KIP-392.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...protocol.errors import (
    CorruptMessageError,
    HeadraceError,
    KafkaError,
    LogTruncationError,
    NoOffsetError,
    OffsetOutOfRangeError,
    error_from_code,
)
from ...protocol.messages.data import (
    EpochQuestion,
    FetchPartition,
    FetchPartitionResponse,
    FetchResponse,
    ListOffsetsPartition,
    ListOffsetsResponse,
    OffsetForLeaderEpochResponse,
)
from ...protocol.model import EARLIEST_TIMESTAMP, NO_EPOCH, NO_NODE, NO_OFFSET
from .effects import (
    Asked,
    Effect,
    Notify,
    RefreshMetadata,
    Request,
    SendEpochs,
    SendFetch,
    SendLookup,
    TakeHint,
    Truncated,
)
from .fetch_state import PartitionState
from .intake import Aborted, take_in_batches
from .requests import READ_COMMITTED, Desk, FetchLimits, Wanted
from .validation import compare, epoch_to_ask

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ...protocol.model import TopicPartition
    from ...protocol.records.header import Buffer
    from ..cluster.backoff import Backoff
    from ..cluster.metadata import ClusterView
    from .fetch_state import Chunk

# A follower that failed is left alone this long: the leader is read, and told not to send us there again.
LEADER_ONLY_MS = 5_000


class Fetcher:
    """The partitions of one consumer. `reset_policy` is the timestamp looked up where there is no position,
    None to raise NoOffsetError instead."""

    def __init__(self, limits: FetchLimits, backoff: Backoff, reset_policy: int | None) -> None:
        self._limits, self._backoff, self.reset_policy = limits, backoff, reset_policy
        self.states: dict[TopicPartition, PartitionState] = {}
        self.buffered_bytes = 0  # over all partitions
        self.needs_wake = False  # a partition may be fetched again
        self._paused_bytes = 0  # of these, at the last poll, of paused partitions
        self._desk = Desk()
        self._due_ms: int | None = None
        self._turn: list[TopicPartition] = []  # round-robin order of requests
        self.records_fetch_bytes = 0

    @property
    def fetches_sent(self) -> int:
        """Requests for records, since the start."""
        return self._desk.fetches_sent

    # --- assignment and positions -----------------------------------------------------------------------

    def add(self, tp: TopicPartition, reset: int | None) -> None:
        """Read a partition too, from where `reset` leads; None asks the user by NoOffsetError."""
        if tp in self.states:
            return
        state = self.states[tp] = PartitionState(tp)
        self._turn.append(tp)
        self._start_over(state, reset)
        self.needs_wake = True

    def await_start(self, tp: TopicPartition) -> int | None:
        """Read a partition too once `start` says from where, or a seek; its version, None if it is read."""
        if tp in self.states:
            return None
        state = self.states[tp] = PartitionState(tp, awaits_start=True)
        self._turn.append(tp)
        return state.version

    def start(self, tp: TopicPartition, version: int, offset: int | None, leader_epoch: int) -> None:
        """Where the group is to read on; None: where the reset policy leads."""
        state = self.states.get(tp)
        if state is None or state.version != version or not state.awaits_start:
            return  # given up, or sought elsewhere
        if offset is None:
            self._start_over(state, self.reset_policy)
        else:
            self.buffered_bytes -= state.move(offset, None)
            if leader_epoch != NO_EPOCH and offset > 0:
                state.epochs.note(leader_epoch, offset - 1)  # of the record before
        self.needs_wake = True

    def remove(self, tp: TopicPartition) -> None:
        """Stop reading it; what was fetched of it is dropped."""
        state = self.states.pop(tp, None)
        if state is not None:
            self._turn.remove(tp)
            self.buffered_bytes -= state.move(None, None)

    def seek(self, tp: TopicPartition, offset: int | None, reset: int | None = None) -> None:
        """Go on at an offset, or where the lookup of the timestamp `reset` leads. Errors: KeyError."""
        state = self.states[tp]
        if offset is not None and state.divergence is not None and offset == state.divergence.offset:
            # as a LogTruncationError said: of one log with what was read before
            self.buffered_bytes -= state.go(offset, None)
        else:
            self.buffered_bytes -= state.move(offset, reset)
        self.needs_wake = True

    def go_back(self, tp: TopicPartition, offset: int) -> None:
        """Hand out again what was handed out from `offset` on, as far as it is still in the log."""
        state = self.states[tp]
        position = state.next_position()
        self.buffered_bytes -= state.go(offset if position is None else min(offset, position), None)
        self.needs_wake = True

    def pause(self, tps: Iterable[TopicPartition]) -> None:
        """Hand out nothing of these and fetch nothing more; what is fetched stays. Errors: KeyError."""
        for state in [self.states[tp] for tp in tps]:
            state.is_paused = True
            for chunk in state.chunks:
                chunk.is_active = False
        self.needs_wake = True  # others may have their room

    def resume(self, tps: Iterable[TopicPartition]) -> None:
        """Undo `pause`. Errors: KeyError."""
        for state in [self.states[tp] for tp in tps]:
            state.is_paused = False
            for chunk in state.chunks:
                chunk.is_active = True
        self.needs_wake = True

    # --- steps ------------------------------------------------------------------------------------------

    def poll(self, view: ClusterView, now_ms: int) -> tuple[Effect, ...]:
        """All requests that can be made now."""
        self.needs_wake = False
        self._due_ms = None
        self._paused_bytes = sum(state.buffered_bytes for state in self.states.values() if state.is_paused)
        wanted, effects = Wanted(self._desk), list[Effect]()
        for tp in self._turn:
            state = self.states[tp]
            if state.is_in_flight or state.awaits_start or state.error is not None:
                continue
            if not self._is_same_topic(state, view, effects) or not self._wants_anything(state):
                continue
            found_one = state.lacks_leader and view.leader_of(tp.topic, tp.partition) is not None
            if state.retry_at_ms > now_ms and not found_one:
                self._due(state.retry_at_ms)
                continue
            self._ask(state, view, now_ms, wanted, effects)
        effects += wanted.requests(self._limits, self._free_bytes)
        if wanted.fetches:  # those that were served now come last next time; not those that found no room
            served = {state.tp for state in self.states.values() if state.is_in_flight}
            self._turn.sort(key=served.__contains__)
        return tuple(effects)

    def next_due_ms(self) -> int | None:
        """When `poll` should be called although nothing was reported; None for never."""
        return self._due_ms

    def on_fetched(
        self, sent: SendFetch, response: FetchResponse, frames: Sequence[Buffer], now_ms: int
    ) -> tuple[Effect, ...]:
        """The answer to a fetch."""
        self._desk.ended(sent)
        effects: list[Effect] = [Notify()]
        frame_counts = [answer.frame_count for answer in response.partitions]
        if len(frame_counts) != len(sent.asked) or sum(frame_counts) != len(frames) or min(frame_counts) < 0:
            fault = CorruptMessageError(
                f"{len(frame_counts)} answers, {len(frames)} frames: they do not match"
            )
            return (*effects, *self._all_failed(sent.asked, fault, now_ms))
        first = 0
        for asked, answer in zip(sent.asked, response.partitions, strict=True):
            own = frames[first : first + answer.frame_count]
            first += answer.frame_count
            if asked.state.version == asked.version:
                asked.state.is_in_flight = False
                self._take_in(asked, answer, own, now_ms, effects)
        return tuple(effects)

    def on_looked_up(
        self, sent: SendLookup, response: ListOffsetsResponse, now_ms: int
    ) -> tuple[Effect, ...]:
        """The answer to a lookup of positions."""
        effects: list[Effect] = [Notify()]
        for asked, answer in self._good_answers(sent, response.partitions, now_ms, effects):
            asked.state.found(answer, asked.leader_epoch)
        return tuple(effects)

    def on_epoch_ends(
        self, sent: SendEpochs, response: OffsetForLeaderEpochResponse, now_ms: int
    ) -> tuple[Effect, ...]:
        """The answer to where epochs end."""
        effects: list[Effect] = [Notify()]
        for asked, answer in self._good_answers(sent, response.partitions, now_ms, effects):
            asked.state.failures = 0
            compare(asked.state, asked.leader_epoch, answer.leader_epoch, answer.end_offset)
        return tuple(effects)

    def _good_answers(
        self, sent: SendLookup | SendEpochs, answers: Sequence[Any], now_ms: int, effects: list[Effect]
    ) -> Iterator[tuple[Any, Any]]:
        """What was asked with its answer, where that is current and no error; the others have failed."""
        self._desk.ended(sent)
        if len(answers) != len(sent.asked):
            fault = CorruptMessageError(f"{len(answers)} answers to {len(sent.asked)} questions")
            effects += self._all_failed(sent.asked, fault, now_ms)
            return
        for asked, answer in zip(sent.asked, answers, strict=True):
            if asked.state.version != asked.version:
                continue
            asked.state.is_in_flight = False
            if answer.error_code:
                error = error_from_code(answer.error_code, answer.error_detail)
                self._failed(asked, error, now_ms, effects)
            else:
                yield asked, answer

    def on_failure(self, sent: Request, error: HeadraceError, now_ms: int) -> tuple[Effect, ...]:
        """No answer came, or one error for the whole request."""
        self._desk.ended(sent)
        return (Notify(), *self._all_failed(sent.asked, error, now_ms))

    def chunk_done(self, chunk: Chunk) -> None:
        """The first chunk of its partition was handed out completely (or skipped)."""
        state = chunk.state
        assert state.chunks[0] is chunk, "chunks are handed out in order"
        state.position = chunk.next_offset
        state.buffered_bytes -= chunk.size_bytes
        self.buffered_bytes -= chunk.size_bytes
        if state.buffered_bytes * 2 < self._limits.max_partition_bytes:
            self.needs_wake = True
        # Order: the only call comes last. Python delivers an interrupt after a call, and one in the middle
        # would leave bytes that nobody takes off the account, or a partition that nobody fetches any more.
        state.chunks.popleft()

    def check(self) -> None:
        """Assert the invariants; for tests."""
        assert self.buffered_bytes == sum(state.buffered_bytes for state in self.states.values())
        for state in self.states.values():
            assert state.buffered_bytes == sum(chunk.size_bytes for chunk in state.chunks)
        assert sorted(self._turn) == sorted(self.states)

    # --- requests ---------------------------------------------------------------------------------------

    def _ask(
        self, state: PartitionState, view: ClusterView, now_ms: int, wanted: Wanted, effects: list[Effect]
    ) -> None:
        tp = state.tp
        leader = view.leader_of(tp.topic, tp.partition)
        state.lacks_leader = leader is None
        if leader is None:
            _once(effects, RefreshMetadata())
            self._back_off(state, now_ms)
            return
        topic_id, node_id, epoch = leader
        state.retry_at_ms = 0  # the wait for the leader is over, for the requests behind this one too
        state.topic_id = topic_id
        asked = Asked(state, state.version, epoch)
        if state.position is None:
            assert state.reset is not None, "a partition without both has an error"
            if wanted.may_ask(node_id):
                lookup = ListOffsetsPartition(topic_id, tp.partition, state.reset, epoch)
                wanted.lookups.setdefault(node_id, []).append((asked, lookup))
            return
        if state.validated_epoch != epoch:
            state.follower = None  # the new leader says whom to read
        about = epoch_to_ask(state, epoch)
        if about != NO_EPOCH:
            if wanted.may_ask(node_id):
                question = EpochQuestion(topic_id, tp.partition, about, epoch)
                wanted.questions.setdefault(node_id, []).append((asked, question))
        elif self._settled(state, epoch, effects):
            self._want_fetch(asked, topic_id, node_id, view, now_ms, wanted, effects)

    def _want_fetch(
        self,
        asked: Asked,
        topic_id: bytes,
        leader: int,
        view: ClusterView,
        now_ms: int,
        wanted: Wanted,
        effects: list[Effect],
    ) -> None:
        state = asked.state
        if state.follower is not None and state.follower not in view.nodes:
            _leave_follower(state, now_ms)
            _once(effects, RefreshMetadata())
        elif now_ms >= state.follower_until_ms:
            state.follower = None
        node_id = leader if state.follower is None else state.follower
        if wanted.may_ask(node_id):
            fetch = FetchPartition(
                topic_id,
                state.tp.partition,
                state.fetch_offset,
                self._limits.max_partition_bytes,
                asked.leader_epoch,
                state.epochs.last(),
            )
            key = (node_id, now_ms >= state.leader_only_until_ms)
            asked = asked._replace(is_follower=state.follower is not None)
            wanted.fetches.setdefault(key, []).append((asked, fetch))

    def _wants_anything(self, state: PartitionState) -> bool:
        if state.divergence is not None and state.divergence.is_certain and state.chunks:
            return False  # what was fetched before comes first
        return state.position is None or (not state.is_paused and self._has_room(state))

    def _has_room(self, state: PartitionState) -> bool:
        if state.until is not None and state.fetch_offset >= state.until:
            return False
        is_low = state.buffered_bytes * 2 < self._limits.max_partition_bytes
        return is_low and self._free_bytes() > 0

    def _free_bytes(self) -> int:
        held = self.buffered_bytes - self._paused_bytes + self._desk.reserved_bytes
        return self._limits.max_bytes - held

    # --- answers ----------------------------------------------------------------------------------------

    def _take_in(
        self,
        asked: Asked,
        answer: FetchPartitionResponse,
        frames: Sequence[Buffer],
        now_ms: int,
        effects: list[Effect],
    ) -> None:
        state, tp = asked.state, asked.state.tp
        if answer.error_code:
            if answer.leader_id >= 0:
                effects.append(TakeHint(tp.topic, tp.partition, answer.leader_id, answer.leader_epoch))
            self._failed(asked, error_from_code(answer.error_code, answer.error_detail), now_ms, effects)
            return
        if answer.diverging_epoch != NO_EPOCH:
            self._diverges(asked, answer, now_ms)
            return
        if answer.preferred_read_replica != NO_NODE and not asked.is_follower:
            state.follower = answer.preferred_read_replica
            state.follower_until_ms = now_ms + self._limits.follower_max_age_ms
        state.failures = 0
        is_committed_only = self._limits.isolation == READ_COMMITTED
        state.high_watermark = answer.last_stable_offset if is_committed_only else answer.high_watermark
        state.log_start_offset = answer.log_start_offset
        aborted = Aborted(answer.aborted)
        for frame in frames:
            added, fault = take_in_batches(state, frame, aborted)
            self.buffered_bytes += added
            self.records_fetch_bytes += added
            if fault is not None:
                state.error = _at(state, fault)
                return

    def _diverges(self, asked: Asked, answer: FetchPartitionResponse, now_ms: int) -> None:
        """A fetch was answered as `SendEpochs` is. Only the leader is believed."""
        if asked.is_follower:
            _leave_follower(asked.state, now_ms)
        else:
            state = asked.state
            compare(state, asked.leader_epoch, answer.diverging_epoch, answer.diverging_end_offset)
            state.validated_epoch = None
            self._back_off(state, now_ms)

    def _settled(self, state: PartitionState, leader_epoch: int, effects: list[Effect]) -> bool:
        """Nothing is left to ask about the position under this leader epoch: go by what was found. False if
        nothing can be fetched now."""
        found, position = state.divergence, state.position
        assert position is not None, "only positions are validated"
        if found is None:
            state.validated_epoch = leader_epoch
            return True
        assert not state.chunks, "what was fetched before comes first"
        effects.append(Notify())
        if self.reset_policy is None:
            state.error = LogTruncationError(
                f"{state.tp} at {position}: the log lost what was read from {found.offset} on (-1: unknown)",
                *state.tp,
                position,
                found.offset,
            )
            return False
        effects.append(Truncated(state.tp, position, found.offset))
        if found.offset == NO_OFFSET:
            self._start_over(state, self.reset_policy)
            self.needs_wake = True
            return False
        # The version stays: whoever puts records back goes to before both, see `go_back`.
        state.position = state.fetch_offset = found.offset
        state.epochs.cut(found.offset)
        state.validated_epoch, state.divergence = leader_epoch, None
        return True

    def _all_failed(self, asked: Sequence[Asked], error: HeadraceError, now_ms: int) -> list[Effect]:
        effects: list[Effect] = []
        for each in asked:
            if each.state.version == each.version:
                each.state.is_in_flight = False
                self._failed(each, error, now_ms, effects)
        return effects

    def _failed(self, asked: Asked, error: HeadraceError, now_ms: int, effects: list[Effect]) -> None:
        state = asked.state
        if error.refresh_metadata:
            _once(effects, RefreshMetadata())
        if asked.is_follower:
            _leave_follower(state, now_ms)  # it may lag or lie: the leader's word counts
        elif isinstance(error, OffsetOutOfRangeError):
            self._out_of_range(state, error, now_ms)
        elif error.retriable and not isinstance(error, CorruptMessageError):
            self._back_off(state, now_ms)
        else:
            state.error = _at(state, error)

    def _out_of_range(self, state: PartitionState, error: HeadraceError, now_ms: int) -> None:
        """Retention passed the position, or the log lost its tail: start over by policy, or raise."""
        if state.chunks:
            self._back_off(state, now_ms)  # what was fetched before is good, and comes first
        elif self.reset_policy is None or state.position is None:
            state.error = _at(state, error)
        else:
            self._start_over(state, self.reset_policy)

    def _start_over(self, state: PartitionState, reset: int | None) -> None:
        self.buffered_bytes -= state.move(None, reset)
        if reset is None:
            state.error = NoOffsetError(f"{state.tp} has no position, and auto.offset.reset is 'none'")

    def _is_same_topic(self, state: PartitionState, view: ClusterView, effects: list[Effect]) -> bool:
        """A topic that was deleted and created again: its offsets start over, and all of it is new. False
        while what was fetched of the old one has to be handed out first."""
        topic = view.topics.get(state.tp.topic)
        if topic is None or state.topic_id is None or topic.topic_id == state.topic_id:
            return True
        if state.chunks:
            return False
        state.topic_id = topic.topic_id
        if state.position is not None:
            self._start_over(state, None if self.reset_policy is None else EARLIEST_TIMESTAMP)
            effects.append(Notify())
        return state.error is None

    def _back_off(self, state: PartitionState, now_ms: int) -> None:
        state.failures += 1
        state.retry_at_ms = now_ms + self._backoff.wait_ms(state.failures)
        self._due(state.retry_at_ms)

    def _due(self, due_ms: int) -> None:
        if self._due_ms is None or due_ms < self._due_ms:
            self._due_ms = due_ms


def _leave_follower(state: PartitionState, now_ms: int) -> None:
    """Back to the leader, at once and for a while."""
    state.follower, state.leader_only_until_ms = None, now_ms + LEADER_ONLY_MS


def _once(effects: list[Effect], effect: Effect) -> None:
    if effect not in effects:
        effects.append(effect)


def _at(state: PartitionState, error: HeadraceError) -> HeadraceError:
    """The same error, saying where."""
    cls = type(error) if isinstance(error, KafkaError) else CorruptMessageError
    return cls(f"{state.tp} at offset {state.fetch_offset}: {error}")
