"""Decides what a consumer requests and processes the responses. Step shape, pure.

A partition is in at most one request in flight; a node has at most `MAX_REQUESTS_PER_NODE`, so that busy
partitions do not wait behind the long poll of idle ones. A partition is fetched again when less than half of
max.partition.fetch.bytes of it is buffered. All that is buffered stays within fetch.max.bytes; the batches of
paused partitions do not count, or they would starve the others.

A position is validated under each new leader epoch before it is fetched from (validation.py). When the log
has lost records that were read, the buffered batches are returned first; then the reset policy decides.
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
from ...protocol.model import EARLIEST_TIMESTAMP, NO_EPOCH, NO_NODE, NO_OFFSET, READ_COMMITTED
from .completed_fetch import AbortedTransactions, buffer_batches
from .effects import (
    Effect,
    NotifyReader,
    RefreshMetadata,
    Request,
    RequestedPartition,
    SendFetch,
    SendListOffsets,
    SendOffsetForLeaderEpoch,
    Truncated,
    UpdateLeader,
)
from .fetch_state import PartitionState
from .requests import FetchLimits, InFlightRequests, RequestBuilder

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ...protocol.model import TopicPartition
    from ...protocol.records.header import Buffer
    from ..cluster.backoff import Backoff
    from ..cluster.metadata import ClusterView
    from .fetch_state import FetchedBatch


class Fetcher:
    """The partitions of one consumer. `reset_policy` is the ListOffsets timestamp for partitions without a
    position, None to raise NoOffsetError instead.

    Invariant: `buffered_bytes` is the size of all buffered batches.
    """

    def __init__(self, limits: FetchLimits, backoff: Backoff, reset_policy: int | None) -> None:
        self._limits, self._backoff, self.reset_policy = limits, backoff, reset_policy
        self.states: dict[TopicPartition, PartitionState] = {}
        self.buffered_bytes = 0
        self.needs_poll = False  # a partition can be fetched again
        self._paused_bytes = 0  # of `buffered_bytes`, at the last poll, in paused partitions
        self._in_flight = InFlightRequests()
        self._due_ms: int | None = None
        self._turn: list[TopicPartition] = []  # round-robin order of requests
        self.records_fetch_bytes = 0

    @property
    def fetches_sent(self) -> int:
        """Fetch requests so far."""
        return self._in_flight.fetches_sent

    # --- assignment and positions -----------------------------------------------------------------------

    def add(self, tp: TopicPartition, reset: int | None) -> None:
        """Assign a partition, with the position that the lookup of `reset` gives; None: NoOffsetError."""
        if tp in self.states:
            return
        state = self.states[tp] = PartitionState(tp)
        self._turn.append(tp)
        self._reset(state, reset)
        self.needs_poll = True

    def await_start(self, tp: TopicPartition) -> int | None:
        """Assign a partition that waits for `start` or a seek; its version, None if it is assigned
        already."""
        if tp in self.states:
            return None
        state = self.states[tp] = PartitionState(tp, awaits_start=True)
        self._turn.append(tp)
        return state.version

    def start(self, tp: TopicPartition, version: int, offset: int | None, leader_epoch: int) -> None:
        """Start an awaited partition at the committed offset of the group; None: by the reset policy."""
        state = self.states.get(tp)
        if state is None or state.version != version or not state.awaits_start:
            return  # removed or sought since
        if offset is None:
            self._reset(state, self.reset_policy)
        else:
            self.buffered_bytes -= state.move(offset, None)
            if leader_epoch != NO_EPOCH and offset > 0:
                state.validation.epochs.note(leader_epoch, offset - 1)  # of the record before
        self.needs_poll = True

    def remove(self, tp: TopicPartition) -> None:
        """Unassign a partition and drop its buffered batches."""
        state = self.states.pop(tp, None)
        if state is not None:
            self._turn.remove(tp)
            self.buffered_bytes -= state.move(None, None)

    def seek(self, tp: TopicPartition, offset: int | None, reset: int | None = None) -> None:
        """Move the position to an offset, or to what the lookup of `reset` gives. Errors: KeyError."""
        state = self.states[tp]
        if state.validation.is_at_divergence(offset):
            self.buffered_bytes -= state.move_back(offset, None)
        else:
            self.buffered_bytes -= state.move(offset, reset)
        self.needs_poll = True

    def rewind(self, tp: TopicPartition, offset: int) -> None:
        """Return the records from `offset` on again, as far as they are still in the log."""
        state = self.states[tp]
        position = state.next_position()
        self.buffered_bytes -= state.move_back(offset if position is None else min(offset, position), None)
        self.needs_poll = True

    def pause(self, tps: Iterable[TopicPartition]) -> None:
        """Neither return nor fetch records of these; buffered batches are kept. Errors: KeyError."""
        for state in [self.states[tp] for tp in tps]:
            state.is_paused = True
            for batch in state.batches:
                batch.is_active = False
        self.needs_poll = True  # other partitions may use the bytes

    def resume(self, tps: Iterable[TopicPartition]) -> None:
        """Undo `pause`. Errors: KeyError."""
        for state in [self.states[tp] for tp in tps]:
            state.is_paused = False
            for batch in state.batches:
                batch.is_active = True
        self.needs_poll = True

    # --- steps ------------------------------------------------------------------------------------------

    def poll(self, view: ClusterView, now_ms: int) -> tuple[Effect, ...]:
        """All requests that can be sent now."""
        self.needs_poll = False
        self._due_ms = None
        self._paused_bytes = sum(state.buffered_bytes for state in self.states.values() if state.is_paused)
        builder, effects = RequestBuilder(self._in_flight, view, now_ms), list[Effect]()
        for tp in self._turn:
            state = self.states[tp]
            if state.is_in_flight or state.awaits_start or state.error is not None:
                continue
            if not self._is_same_topic(state, view, effects) or not self._needs_request(state):
                continue
            has_found_leader = state.lacks_leader and view.leader_of(tp.topic, tp.partition) is not None
            if state.retry_at_ms > now_ms and not has_found_leader:
                self._due(state.retry_at_ms)
                continue
            self._request(state, builder, effects)
        effects += builder.build(self._limits, self._free_bytes)
        if builder.fetches:  # round-robin: requested partitions come last next time
            requested = {state.tp for state in self.states.values() if state.is_in_flight}
            self._turn.sort(key=requested.__contains__)
        return tuple(effects)

    def next_due_ms(self) -> int | None:
        """When `poll` must be called without any other cause; None for never."""
        return self._due_ms

    def on_fetched(
        self, sent: SendFetch, response: FetchResponse, frames: Sequence[Buffer], now_ms: int
    ) -> tuple[Effect, ...]:
        """The response to a fetch."""
        self._in_flight.remove(sent)
        effects: list[Effect] = [NotifyReader()]
        counts = [each.frame_count for each in response.partitions]
        if len(counts) != len(sent.partitions) or sum(counts) != len(frames) or min(counts) < 0:
            fault = CorruptMessageError(
                f"{len(counts)} partitions and {len(frames)} frames do not match the fetch request"
            )
            return (*effects, *self._all_failed(sent.partitions, fault, now_ms))
        first = 0
        for requested, fetched in zip(sent.partitions, response.partitions, strict=True):
            own = frames[first : first + fetched.frame_count]
            first += fetched.frame_count
            if requested.state.version == requested.version:
                requested.state.is_in_flight = False
                self._partition_fetched(requested, fetched, own, now_ms, effects)
        return tuple(effects)

    def on_offsets_listed(
        self, sent: SendListOffsets, response: ListOffsetsResponse, now_ms: int
    ) -> tuple[Effect, ...]:
        """The response to a lookup of positions."""
        effects: list[Effect] = [NotifyReader()]
        for requested, offset in self._valid_pairs(sent, response.partitions, now_ms, effects):
            requested.state.on_offset_listed(offset, requested.leader_epoch)
        return tuple(effects)

    def on_epoch_ends(
        self, sent: SendOffsetForLeaderEpoch, response: OffsetForLeaderEpochResponse, now_ms: int
    ) -> tuple[Effect, ...]:
        """The response to a validation of positions."""
        effects: list[Effect] = [NotifyReader()]
        for requested, end in self._valid_pairs(sent, response.partitions, now_ms, effects):
            requested.state.failures = 0
            requested.state.on_epoch_end(requested.leader_epoch, end.leader_epoch, end.end_offset)
        return tuple(effects)

    def _valid_pairs(
        self,
        sent: SendListOffsets | SendOffsetForLeaderEpoch,
        responses: Sequence[Any],
        now_ms: int,
        effects: list[Effect],
    ) -> Iterator[tuple[RequestedPartition, Any]]:
        """Partitions with their responses, without stale ones and errors; the errors are processed."""
        self._in_flight.remove(sent)
        if len(responses) != len(sent.partitions):
            fault = CorruptMessageError(
                f"the response has {len(responses)} of {len(sent.partitions)} partitions"
            )
            effects += self._all_failed(sent.partitions, fault, now_ms)
            return
        for requested, response in zip(sent.partitions, responses, strict=True):
            if requested.state.version != requested.version:
                continue
            requested.state.is_in_flight = False
            if response.error_code:
                error = error_from_code(response.error_code, response.error_detail)
                self._failed(requested, error, now_ms, effects)
            else:
                yield requested, response

    def on_failure(self, sent: Request, error: HeadraceError, now_ms: int) -> tuple[Effect, ...]:
        """The request got no response, or one error for all of its partitions."""
        self._in_flight.remove(sent)
        return (NotifyReader(), *self._all_failed(sent.partitions, error, now_ms))

    def batch_consumed(self, batch: FetchedBatch) -> None:
        """All of the first batch of a partition was taken (or skipped)."""
        state = batch.state
        assert state.batches[0] is batch, "batches are consumed in order"
        state.position = batch.next_offset
        state.buffered_bytes -= batch.size_bytes
        self.buffered_bytes -= batch.size_bytes
        if state.buffered_bytes * 2 < self._limits.max_partition_bytes:
            self.needs_poll = True
        # Order: the only call comes last. Python raises an interrupt after a call, and one in the middle
        # would leave bytes counted for ever, or a partition that is never fetched again.
        state.batches.popleft()

    def check(self) -> None:
        """Assert the invariants; for tests."""
        assert self.buffered_bytes == sum(state.buffered_bytes for state in self.states.values())
        for state in self.states.values():
            state.check()
        self._in_flight.check()
        assert len(self._turn) == len(self.states)
        assert self.states.keys() == set(self._turn)

    # --- requests ---------------------------------------------------------------------------------------

    def _request(self, state: PartitionState, builder: RequestBuilder, effects: list[Effect]) -> None:
        tp = state.tp
        leader = builder.view.leader_of(tp.topic, tp.partition)
        state.lacks_leader = leader is None
        if leader is None:
            _once(effects, RefreshMetadata())
            self._back_off(state, builder.now_ms)
            return
        topic_id, node_id, epoch = leader
        state.retry_at_ms = 0  # ends the wait for the leader, for later requests too
        state.topic_id = topic_id
        requested = RequestedPartition(state, state.version, epoch)
        if state.position is None:
            assert state.reset is not None, "a partition without position and reset has an error"
            if builder.may_request(node_id):
                lookup = ListOffsetsPartition(topic_id, tp.partition, state.reset, epoch)
                builder.lookups.setdefault(node_id, []).append((requested, lookup))
            return
        if state.validation.leader_epoch != epoch:
            state.follower = None  # the new leader names the preferred replica
        unvalidated = state.validation.epoch_to_request(epoch)
        if unvalidated != NO_EPOCH:
            if builder.may_request(node_id):
                end = EpochQuestion(topic_id, tp.partition, unvalidated, epoch)
                builder.epoch_ends.setdefault(node_id, []).append((requested, end))
        elif self._has_valid_position(state, epoch, effects):
            self._request_fetch(requested, topic_id, node_id, builder, effects)

    def _request_fetch(
        self,
        requested: RequestedPartition,
        topic_id: bytes,
        leader: int,
        builder: RequestBuilder,
        effects: list[Effect],
    ) -> None:
        state, now_ms = requested.state, builder.now_ms
        if state.follower is not None and state.follower not in builder.view.nodes:
            state.leave_follower(now_ms)
            _once(effects, RefreshMetadata())
        elif now_ms >= state.follower_until_ms:
            state.follower = None
        node_id = leader if state.follower is None else state.follower
        if builder.may_request(node_id):
            fetch = FetchPartition(
                topic_id,
                state.tp.partition,
                state.fetch_offset,
                self._limits.max_partition_bytes,
                requested.leader_epoch,
                state.validation.epochs.last(),
            )
            key = (node_id, now_ms >= state.leader_only_until_ms)
            requested = requested._replace(is_follower=state.follower is not None)
            builder.fetches.setdefault(key, []).append((requested, fetch))

    def _needs_request(self, state: PartitionState) -> bool:
        if state.validation.has_diverged and state.batches:
            return False  # the batches from before the divergence come first
        if state.position is None:
            return True
        is_at_end = state.until is not None and state.fetch_offset >= state.until
        is_low = state.buffered_bytes * 2 < self._limits.max_partition_bytes
        return is_low and not is_at_end and not state.is_paused and self._free_bytes() > 0

    def _free_bytes(self) -> int:
        used = self.buffered_bytes - self._paused_bytes + self._in_flight.reserved_bytes
        return self._limits.max_bytes - used

    # --- responses --------------------------------------------------------------------------------------

    def _partition_fetched(
        self,
        requested: RequestedPartition,
        response: FetchPartitionResponse,
        frames: Sequence[Buffer],
        now_ms: int,
        effects: list[Effect],
    ) -> None:
        state, tp = requested.state, requested.state.tp
        if response.error_code:
            if response.leader_id >= 0:
                effects.append(UpdateLeader(*tp, response.leader_id, response.leader_epoch))
            error = error_from_code(response.error_code, response.error_detail)
            self._failed(requested, error, now_ms, effects)
            return
        if response.diverging_epoch != NO_EPOCH:
            self._diverged(requested, response, now_ms)
            return
        if response.preferred_read_replica != NO_NODE and not requested.is_follower:
            state.follower = response.preferred_read_replica
            state.follower_until_ms = now_ms + self._limits.follower_max_age_ms
        state.failures = 0
        is_committed_only = self._limits.isolation == READ_COMMITTED
        state.high_watermark = response.last_stable_offset if is_committed_only else response.high_watermark
        state.log_start_offset = response.log_start_offset
        aborted = AbortedTransactions(response.aborted)
        for frame in frames:
            added, fault = buffer_batches(state, frame, aborted)
            self.buffered_bytes += added
            self.records_fetch_bytes += added
            if fault is not None:
                state.error = _at(state, fault)
                return

    def _diverged(self, requested: RequestedPartition, response: FetchPartitionResponse, now_ms: int) -> None:
        """A fetch found a divergence; that of a follower is ignored."""
        state = requested.state
        if requested.is_follower:
            state.leave_follower(now_ms)
        else:
            epoch, end_offset = response.diverging_epoch, response.diverging_end_offset
            state.on_epoch_end(requested.leader_epoch, epoch, end_offset)
            state.validation.leader_epoch = None
            self._back_off(state, now_ms)

    def _has_valid_position(self, state: PartitionState, leader_epoch: int, effects: list[Effect]) -> bool:
        """Complete the validation under this leader epoch: without a divergence the position is valid, else
        the reset policy decides. False if the partition cannot be fetched now."""
        validation, position = state.validation, state.position
        divergence = validation.divergence
        assert position is not None, "only positions are validated"
        if divergence is None:
            validation.leader_epoch = leader_epoch
            return True
        assert not state.batches, "the batches from before the divergence come first"
        effects.append(NotifyReader())
        if self.reset_policy is None:
            state.error = LogTruncationError(
                f"{state.tp} at {position}: the log lost the records read from offset {divergence.offset} on"
                f" (-1: unknown)",
                *state.tp,
                position,
                divergence.offset,
            )
            return False
        effects.append(Truncated(state.tp, position, divergence.offset))
        if divergence.offset == NO_OFFSET:
            self._reset(state, self.reset_policy)
            self.needs_poll = True
            return False
        # The version stays, so that taken records are still rewound to before them: see `rewind`.
        state.position = state.fetch_offset = divergence.offset
        validation.truncate(divergence.offset)
        validation.leader_epoch = leader_epoch
        return True

    def _all_failed(
        self, partitions: Sequence[RequestedPartition], error: HeadraceError, now_ms: int
    ) -> list[Effect]:
        effects: list[Effect] = []
        for each in partitions:
            if each.state.version == each.version:
                each.state.is_in_flight = False
                self._failed(each, error, now_ms, effects)
        return effects

    def _failed(
        self, requested: RequestedPartition, error: HeadraceError, now_ms: int, effects: list[Effect]
    ) -> None:
        state = requested.state
        if error.refresh_metadata:
            _once(effects, RefreshMetadata())
        if requested.is_follower:
            state.leave_follower(now_ms)  # it may lag: only an error of the leader counts
        elif isinstance(error, OffsetOutOfRangeError):
            self._out_of_range(state, error, now_ms)
        elif error.retriable and not isinstance(error, CorruptMessageError):
            self._back_off(state, now_ms)
        else:
            state.error = _at(state, error)

    def _out_of_range(self, state: PartitionState, error: HeadraceError, now_ms: int) -> None:
        """Retention deleted the position, or the log was truncated: reset by policy, or raise."""
        if state.batches:
            self._back_off(state, now_ms)  # the buffered batches are valid, and come first
        elif self.reset_policy is None or state.position is None:
            state.error = _at(state, error)
        else:
            self._reset(state, self.reset_policy)

    def _reset(self, state: PartitionState, reset: int | None) -> None:
        self.buffered_bytes -= state.move(None, reset)
        if reset is None:
            state.error = NoOffsetError(f"{state.tp} has no position, and auto.offset.reset is 'none'")

    def _is_same_topic(self, state: PartitionState, view: ClusterView, effects: list[Effect]) -> bool:
        """A topic that was deleted and created again is read from its start. False while the buffered batches
        of the old topic come first."""
        topic = view.topics.get(state.tp.topic)
        if topic is None or state.topic_id is None or topic.topic_id == state.topic_id:
            return True
        if state.batches:
            return False
        state.topic_id = topic.topic_id
        if state.position is not None:
            self._reset(state, None if self.reset_policy is None else EARLIEST_TIMESTAMP)
            effects.append(NotifyReader())
        return state.error is None

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
    """The same error with partition and offset."""
    cls = type(error) if isinstance(error, KafkaError) else CorruptMessageError
    return cls(f"{state.tp} at offset {state.fetch_offset}: {error}")
