"""Decides what a consumer fetches and takes the answers in. Step shape, pure.

Every partition is in at most one request at a time; a node has at most `MAX_REQUESTS_PER_NODE`, so that data
of busy partitions does not wait behind the long poll of idle ones. A partition is fetched again when less
than half of max.partition.fetch.bytes of it is left, and all that is fetched and not handed out stays within
fetch.max.bytes; what paused partitions hold does not count, or they would starve the others.
Source: Kafka Fetcher.java, OffsetFetcher.java.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from ...protocol.errors import (
    CorruptMessageError,
    HeadraceError,
    KafkaError,
    NoOffsetError,
    OffsetOutOfRangeError,
    error_from_code,
)
from ...protocol.messages.data import (
    FetchPartition,
    FetchPartitionResponse,
    FetchRequest,
    FetchResponse,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
)
from ...protocol.model import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, NO_OFFSET
from ...protocol.records.header import read_batch_header
from .fetch_state import Chunk, PartitionState

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ...protocol.model import TopicPartition
    from ...protocol.records.header import Buffer
    from ..cluster.backoff import Backoff
    from ..cluster.metadata import ClusterView

MAX_REQUESTS_PER_NODE = 8
READ_UNCOMMITTED = 0


class FetchLimits(NamedTuple):
    """The consumer's keys that shape fetches."""

    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    max_partition_bytes: int


class Asked(NamedTuple):
    """One partition in a request, and the version of it that asked."""

    state: PartitionState
    version: int


@dataclass(frozen=True, slots=True)
class SendFetch:
    """Effect: send it; report `on_fetched` or `on_failure`."""

    node_id: int
    request: FetchRequest
    asked: tuple[Asked, ...]


@dataclass(frozen=True, slots=True)
class SendLookup:
    """Effect: find positions by time; report `on_looked_up` or `on_failure`."""

    node_id: int
    request: ListOffsetsRequest
    asked: tuple[Asked, ...]


@dataclass(frozen=True, slots=True)
class TakeHint:
    """Effect: a node named a newer leader."""

    topic: str
    partition: int
    leader: int
    leader_epoch: int


@dataclass(frozen=True, slots=True)
class RefreshMetadata:
    """Effect: the view is stale."""


@dataclass(frozen=True, slots=True)
class Notify:
    """Effect: whoever waits for records, positions or errors should look."""


Effect = SendFetch | SendLookup | TakeHint | RefreshMetadata | Notify


class Fetcher:
    """The partitions of one consumer. `reset_policy` is the timestamp looked up where there is no position,
    None to raise NoOffsetError instead."""

    def __init__(self, limits: FetchLimits, backoff: Backoff, reset_policy: int | None) -> None:
        self._limits, self._backoff, self.reset_policy = limits, backoff, reset_policy
        self.states: dict[TopicPartition, PartitionState] = {}
        self.buffered_bytes = 0  # over all partitions
        self.needs_wake = False  # a partition may be fetched again
        self._paused_bytes = 0  # of these, at the last poll, of paused partitions
        self._reserved_bytes = 0  # the answers under way may bring this much
        self._per_node: dict[int, int] = {}
        self._due_ms: int | None = None
        self._turn: list[TopicPartition] = []  # round-robin order of requests
        self.fetches_sent = self.records_fetch_bytes = 0

    # --- assignment and positions -----------------------------------------------------------------------

    def add(self, tp: TopicPartition, reset: int | None) -> None:
        """Read a partition too, from where `reset` leads; None asks the user by NoOffsetError."""
        if tp in self.states:
            return
        state = self.states[tp] = PartitionState(tp)
        self._turn.append(tp)
        self._start_over(state, reset)
        self.needs_wake = True

    def remove(self, tp: TopicPartition) -> None:
        """Stop reading it; what was fetched of it is dropped."""
        state = self.states.pop(tp, None)
        if state is not None:
            self._turn.remove(tp)
            self.buffered_bytes -= state.move(None, None)

    def seek(self, tp: TopicPartition, offset: int | None, reset: int | None = None) -> None:
        """Go on at an offset, or where the lookup of the timestamp `reset` leads. Errors: KeyError."""
        self.buffered_bytes -= self.states[tp].move(offset, reset)
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
        fetches: dict[int, list[tuple[PartitionState, FetchPartition]]] = {}
        lookups: dict[int, list[tuple[PartitionState, ListOffsetsPartition]]] = {}
        effects: list[Effect] = []
        for tp in self._turn:
            state = self.states[tp]
            if state.is_in_flight or state.error is not None:
                continue
            self._check_topic_id(state, view, effects)
            if not self._wants_anything(state):
                continue
            found_one = state.lacks_leader and view.leader_of(tp.topic, tp.partition) is not None
            if state.retry_at_ms > now_ms and not found_one:
                self._due(state.retry_at_ms)
                continue
            self._ask(state, view, now_ms, fetches, lookups, effects)
        effects += self._requests(fetches, lookups)
        if fetches:  # those that were served now come last next time; not those that found no room
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
        self._ended(sent)
        effects: list[Effect] = [Notify()]
        frame_counts = [answer.frame_count for answer in response.partitions]
        if len(frame_counts) != len(sent.asked) or sum(frame_counts) != len(frames) or min(frame_counts) < 0:
            fault = CorruptMessageError(
                f"{len(frame_counts)} answers, {len(frames)} frames: they do not match"
            )
            return (*effects, *self._all_failed(sent.asked, fault, now_ms))
        first = 0
        for (state, version), answer in zip(sent.asked, response.partitions, strict=True):
            own = frames[first : first + answer.frame_count]
            first += answer.frame_count
            if state.version == version:
                state.is_in_flight = False
                self._take_in(state, answer, own, now_ms, effects)
        return tuple(effects)

    def on_looked_up(
        self, sent: SendLookup, response: ListOffsetsResponse, now_ms: int
    ) -> tuple[Effect, ...]:
        """The answer to a lookup of positions."""
        self._ended(sent)
        effects: list[Effect] = [Notify()]
        if len(response.partitions) != len(sent.asked):
            fault = CorruptMessageError(f"{len(response.partitions)} answers to {len(sent.asked)} lookups")
            return (*effects, *self._all_failed(sent.asked, fault, now_ms))
        for (state, version), answer in zip(sent.asked, response.partitions, strict=True):
            if state.version != version:
                continue
            state.is_in_flight = False
            if answer.error_code:
                self._failed(state, error_from_code(answer.error_code, answer.error_detail), now_ms, effects)
            elif answer.offset == NO_OFFSET and state.reset not in (EARLIEST_TIMESTAMP, LATEST_TIMESTAMP):
                state.reset = LATEST_TIMESTAMP  # nothing is that new: what comes next is
            else:
                state.position, state.reset = max(answer.offset, 0), None
                state.fetch_offset, state.failures = state.position, 0
        return tuple(effects)

    def on_failure(
        self, sent: SendFetch | SendLookup, error: HeadraceError, now_ms: int
    ) -> tuple[Effect, ...]:
        """No answer came, or one error for the whole request."""
        self._ended(sent)
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
        self,
        state: PartitionState,
        view: ClusterView,
        now_ms: int,
        fetches: dict[int, list[tuple[PartitionState, FetchPartition]]],
        lookups: dict[int, list[tuple[PartitionState, ListOffsetsPartition]]],
        effects: list[Effect],
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
        # Bound: per node; what finds none free is asked for when an answer comes.
        is_new = node_id not in fetches and node_id not in lookups
        if is_new and self._per_node.get(node_id, 0) >= MAX_REQUESTS_PER_NODE:
            return
        state.topic_id = topic_id
        if state.position is None:
            assert state.reset is not None, "a partition without both has an error"
            wanted = ListOffsetsPartition(topic_id, tp.partition, state.reset, epoch)
            lookups.setdefault(node_id, []).append((state, wanted))
        else:
            share = self._limits.max_partition_bytes
            fetch = FetchPartition(topic_id, tp.partition, state.fetch_offset, share, epoch)
            fetches.setdefault(node_id, []).append((state, fetch))

    def _requests(
        self,
        fetches: dict[int, list[tuple[PartitionState, FetchPartition]]],
        lookups: dict[int, list[tuple[PartitionState, ListOffsetsPartition]]],
    ) -> list[Effect]:
        effects: list[Effect] = []
        limits = self._limits
        for node_id, looking in lookups.items():
            request = ListOffsetsRequest(READ_UNCOMMITTED, tuple(wanted for _, wanted in looking))
            effects.append(SendLookup(node_id, request, self._started(node_id, [s for s, _ in looking])))
        for node_id, pairs in fetches.items():
            room = self._free_bytes()
            if room <= 0:
                break  # asked for again when the user has taken something
            # Half of the room, so that a long poll of many idle partitions never holds all of it.
            least = min(room, limits.max_partition_bytes)
            share = min(max(room // 2, least), limits.max_partition_bytes * len(pairs))
            self._reserved_bytes += share
            wanted = tuple(fetch for _, fetch in pairs)
            fetch = FetchRequest(limits.max_wait_ms, limits.min_bytes, share, READ_UNCOMMITTED, wanted)
            effects.append(SendFetch(node_id, fetch, self._started(node_id, [s for s, _ in pairs])))
            self.fetches_sent += 1
        return effects

    def _started(self, node_id: int, states: list[PartitionState]) -> tuple[Asked, ...]:
        self._per_node[node_id] = self._per_node.get(node_id, 0) + 1
        for state in states:
            state.is_in_flight = True
        return tuple(Asked(state, state.version) for state in states)

    def _ended(self, sent: SendFetch | SendLookup) -> None:
        self._per_node[sent.node_id] -= 1
        if isinstance(sent, SendFetch):
            self._reserved_bytes -= sent.request.max_bytes

    def _wants_anything(self, state: PartitionState) -> bool:
        if state.error is not None:
            return False
        return state.position is None or (not state.is_paused and self._has_room(state))

    def _has_room(self, state: PartitionState) -> bool:
        limits = self._limits
        is_low = state.buffered_bytes * 2 < limits.max_partition_bytes
        return is_low and self._free_bytes() > 0

    def _free_bytes(self) -> int:
        held = self.buffered_bytes - self._paused_bytes + self._reserved_bytes
        return self._limits.max_bytes - held

    # --- answers ----------------------------------------------------------------------------------------

    def _take_in(
        self,
        state: PartitionState,
        answer: FetchPartitionResponse,
        frames: Sequence[Buffer],
        now_ms: int,
        effects: list[Effect],
    ) -> None:
        if answer.error_code:
            tp = state.tp
            if answer.leader_id >= 0:
                effects.append(TakeHint(tp.topic, tp.partition, answer.leader_id, answer.leader_epoch))
            error = error_from_code(answer.error_code, answer.error_detail)
            self._failed(state, error, now_ms, effects)
            return
        state.failures = 0
        state.high_watermark, state.log_start_offset = answer.high_watermark, answer.log_start_offset
        try:
            for frame in frames:
                self._add_batches(state, frame)
        except CorruptMessageError as fault:
            state.error = _at(state, fault)

    def _add_batches(self, state: PartitionState, frame: Buffer) -> None:
        view, position = memoryview(frame), 0
        while position < len(view):
            header = read_batch_header(view, position)
            end = position + header.size_bytes
            if end > len(view):
                raise CorruptMessageError(f"a batch of {header.size_bytes} bytes is cut short")
            batch, position = view[position:end], end
            if header.next_offset <= state.fetch_offset:
                continue  # the fetch started inside a compacted range, or the node repeats itself
            chunk = Chunk(state, batch, header.next_offset, header.is_control, header.record_count)
            chunk.is_active = not state.is_paused
            state.chunks.append(chunk)
            state.fetch_offset = header.next_offset
            state.buffered_bytes += chunk.size_bytes
            self.buffered_bytes += chunk.size_bytes
            self.records_fetch_bytes += chunk.size_bytes

    def _all_failed(self, asked: Sequence[Asked], error: HeadraceError, now_ms: int) -> list[Effect]:
        effects: list[Effect] = []
        for state, version in asked:
            if state.version == version:
                state.is_in_flight = False
                self._failed(state, error, now_ms, effects)
        return effects

    def _failed(
        self, state: PartitionState, error: HeadraceError, now_ms: int, effects: list[Effect]
    ) -> None:
        if error.refresh_metadata:
            _once(effects, RefreshMetadata())
        if isinstance(error, OffsetOutOfRangeError):
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

    def _check_topic_id(self, state: PartitionState, view: ClusterView, effects: list[Effect]) -> None:
        """A topic that was deleted and created again: its offsets start over, and all of it is new."""
        topic = view.topics.get(state.tp.topic)
        if topic is None or state.topic_id is None or topic.topic_id == state.topic_id or state.chunks:
            return
        state.topic_id = topic.topic_id
        if state.position is not None:
            self._start_over(state, None if self.reset_policy is None else EARLIEST_TIMESTAMP)
            effects.append(Notify())

    def _back_off(self, state: PartitionState, now_ms: int) -> None:
        state.failures += 1
        state.retry_at_ms = now_ms + self._backoff.wait_ms(state.failures)
        self._due(state.retry_at_ms)

    def _due(self, due_ms: int) -> None:
        if self._due_ms is None or due_ms < self._due_ms:
            self._due_ms = due_ms


def _once(effects: list[Effect], effect: Effect) -> None:
    if effect not in effects:
        effects.append(effect)


def _at(state: PartitionState, error: HeadraceError) -> HeadraceError:
    """The same error, saying where."""
    cls = type(error) if isinstance(error, KafkaError) else CorruptMessageError
    return cls(f"{state.tp} at offset {state.fetch_offset}: {error}")
