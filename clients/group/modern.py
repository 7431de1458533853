"""A group member under the new protocol (KIP-848): it sends heartbeats, the coordinator assigns. Pure.

A heartbeat has the fields that changed since the last acknowledged one: subscription and owned partitions. A
response may have a new target assignment. The member first revokes the partitions that the target lacks, and
reports that at once, so that they can be assigned to other members; then it adopts the added ones. After a
failed heartbeat the next one has all fields.
Source: Kafka AbstractMembershipManager.java, ConsumerHeartbeatRequestManager.java.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from ...protocol.errors import (
    ConfigError,
    CoordinatorLoadInProgressError,
    FencedInstanceIdError,
    FencedMemberEpochError,
    GroupIdNotFoundError,
    HeadraceError,
    KafkaError,
    UnknownMemberIdError,
    error_from_code,
)
from ...protocol.messages.groups import ConsumerGroupHeartbeatRequest, TopicIdPartitions
from ...protocol.messages.registry import CONSUMER_GROUP_HEARTBEAT
from ...protocol.model import TopicPartition
from .member import (
    ChangeKind,
    Effect,
    ForgetCoordinator,
    MemberConfig,
    MemberCore,
    OwnershipChange,
    SendRequest,
)
from .states import MODERN_TRANSITIONS, MemberState

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ..cluster.backoff import Backoff

S = MemberState
# Fields that are null in a heartbeat unless they changed.
SENT_ON_CHANGE = ("rack_id", "subscribed_topic_names", "subscribed_topic_regex", "server_assignor", "owned")
NOT_A_MEMBER = (UnknownMemberIdError, FencedMemberEpochError, GroupIdNotFoundError)
JOIN_EPOCH, LEAVE_EPOCH, LEAVE_STATIC_EPOCH = 0, -1, -2


class ModernMember(MemberCore):
    """`member_id` is a UUID in text that the client has chosen."""

    transitions = MODERN_TRANSITIONS

    def __init__(self, config: MemberConfig, member_id: str, backoff: Backoff) -> None:
        super().__init__(config)
        self.member_id = member_id
        self._backoff, self._failures = backoff, 0
        self._topics: tuple[str, ...] | None = None  # None: not subscribed
        self._regex: str | None = None
        self._names: dict[bytes, str] = {}  # topic id -> name, from the metadata
        self._ids: dict[TopicPartition, bytes] = {}  # topic ids of `owned`
        self._adopting_ids: dict[TopicPartition, bytes] = {}  # topic ids of an ASSIGNED `pending`
        self._target: frozenset[tuple[bytes, int]] = frozenset()
        self._is_first = True  # since joining: the first assignment is adopted even if it is empty
        # The fields of the last acknowledged heartbeat.
        self._acknowledged: ConsumerGroupHeartbeatRequest | None = None
        self._heartbeat: SendRequest | None = None
        self._heartbeat_at_ms = 0
        self._interval_ms = config.heartbeat_interval_ms
        self._polled_at_ms = 0

    # --- calls of the consumer --------------------------------------------------------------------------

    def subscribe(self, topics: Iterable[str], regex: str | None = None) -> None:
        wanted = () if regex is not None else tuple(sorted(set(topics)))
        if (wanted, regex) != (self._topics, self._regex):
            self._topics, self._regex = wanted, regex
            self._heartbeat_at_ms = 0

    def unsubscribe(self, *, leave: bool, reason: str) -> tuple[Effect, ...]:
        """As `MemberCore.unsubscribe`, also while the first heartbeat is in flight. A static member that does
        not leave announces its return."""
        effects: tuple[Effect, ...] = ()
        is_known = self.is_member or self._heartbeat is not None  # the first heartbeat may have joined
        if is_known and (leave or self.config.group_instance_id is not None):
            effects = (self._leaving(LEAVE_EPOCH if leave else LEAVE_STATIC_EPOCH),)
        self._topics = self._regex = self.error = None
        self._reset()
        self._become(S.UNJOINED)
        return effects

    def enforce_rebalance(self, reason: str) -> None:
        """Errors: ConfigError, always."""
        raise ConfigError("under group.protocol=consumer the coordinator alone decides when to rebalance")

    def polled(self, now_ms: int) -> None:
        self._polled_at_ms = now_ms
        if self.state is S.LATE:
            self._rejoin()

    def error_raised(self) -> None:
        """After a fatal fencing the error stays; after any other error the member joins again."""
        if not isinstance(self.error, FencedInstanceIdError):
            self.error = None
            self._rejoin()

    def on_done(self, now_ms: int) -> tuple[Effect, ...]:
        change = self._apply_pending()
        if change.kind is ChangeKind.ASSIGNED:
            self._ids |= self._adopting_ids
        self._ids = {tp: topic_id for tp, topic_id in self._ids.items() if tp in self.owned}
        if self.state is S.REVOKING and not self.is_member:
            self._rejoin()
        elif self.state in (S.REVOKING, S.ADOPTING):
            self._heartbeat_at_ms = 0
            self._reconcile()
        return self.poll(now_ms)

    @property
    def topics_to_watch(self) -> tuple[str, ...]:
        return self._topics or ()

    @property
    def has_unknown_topics(self) -> bool:
        return any(topic_id not in self._names for topic_id, _ in self._target)

    def topics_changed(self, counts: Mapping[str, int], names: Mapping[bytes, str]) -> None:
        """Adopt partitions of topics whose names were missing."""
        if names != self._names:
            self._names = dict(names)
            if self.state in (S.STABLE, S.ACKNOWLEDGING):
                self._reconcile()

    # --- events -----------------------------------------------------------------------------------------

    def poll(self, now_ms: int) -> tuple[Effect, ...]:
        if self._topics is None or self.state in (S.FAILED, S.LATE):
            return ()
        if self.is_member and now_ms - self._polled_at_ms >= self.config.max_poll_interval_ms:
            return self._poll_timed_out()
        if self.state is S.UNJOINED:
            self._rejoin()
        if not self._is_due(now_ms):
            return ()
        return (self._send_heartbeat(),)

    def next_due_ms(self) -> int | None:
        if self._topics is None or self.state in (S.FAILED, S.LATE):
            return None
        due = [self._polled_at_ms + self.config.max_poll_interval_ms] if self.is_member else []
        if self._heartbeat is None and self._may_send_heartbeat:
            due.append(self._heartbeat_at_ms)
        return min(due, default=None)

    def on_response(self, request: SendRequest, response: Any, now_ms: int) -> tuple[Effect, ...]:
        if request is not self._heartbeat:
            return ()  # of an earlier membership
        self._heartbeat = None
        if response.error_code:
            return self._request_failed(error_from_code(response.error_code, response.error_detail), now_ms)
        self._failures = 0
        self._acknowledged = _merged(self._acknowledged, request.request)
        self.generation_id = response.member_epoch
        self._interval_ms = response.heartbeat_interval_ms or self._interval_ms
        self._heartbeat_at_ms = now_ms + self._interval_ms
        if response.assignment is not None:
            self._target = frozenset(
                (topic.topic_id, partition) for topic in response.assignment for partition in topic.partitions
            )
        if self.state is S.JOINING:
            self._become(S.ACKNOWLEDGING)
        self._reconcile()
        return self.poll(now_ms)

    def on_failure(self, request: SendRequest, error: KafkaError, now_ms: int) -> tuple[Effect, ...]:
        if request is not self._heartbeat:
            return ()
        self._heartbeat = None
        return self._request_failed(error, now_ms)

    def commit_rejected(self, error: KafkaError, now_ms: int) -> tuple[Effect, ...]:
        return self._request_failed(error, now_ms) if self.is_member else ()

    # --- reconciling ------------------------------------------------------------------------------------

    def _reconcile(self) -> None:
        """Set `pending` to the next change on the way to the target, as far as topic names are known."""
        if self.is_changing or not self.is_member:
            return
        owned = {(self._ids[tp], tp.partition): tp for tp in self.owned}
        gone = tuple(tp for place, tp in owned.items() if place not in self._target)
        new = {
            TopicPartition(self._names[topic_id], partition): topic_id
            for topic_id, partition in sorted(self._target - owned.keys())
            if topic_id in self._names
        }
        if gone:
            self.pending = OwnershipChange(ChangeKind.REVOKED, gone)
            self._become(S.REVOKING)
        elif new or self._is_first:
            self._adopting_ids = new
            self._is_first = False
            self.pending = OwnershipChange(ChangeKind.ASSIGNED, tuple(sorted(new)))
            self._become(S.ADOPTING)
        else:
            self.pending = None
            is_reported = self._acknowledged is not None and self._acknowledged.owned == self._owned_by_id()
            self._become(S.STABLE if is_reported else S.ACKNOWLEDGING)

    def _owned_by_id(self) -> tuple[TopicIdPartitions, ...]:
        """The owned partitions, and those that the consumer is adopting, which it completes under any target.

        Hazard: the coordinator takes partitions that are missing here for revoked.
        """
        ids = {tp: self._ids[tp] for tp in self.owned}
        if self.is_changing and self.pending is not None and self.pending.kind is ChangeKind.ASSIGNED:
            ids |= self._adopting_ids
        found: dict[bytes, list[int]] = {}
        for tp, topic_id in sorted(ids.items()):
            found.setdefault(topic_id, []).append(tp.partition)
        return tuple(TopicIdPartitions(topic_id, tuple(found[topic_id])) for topic_id in sorted(found))

    # --- heartbeats -------------------------------------------------------------------------------------

    def _is_due(self, now_ms: int) -> bool:
        return self._heartbeat is None and self._may_send_heartbeat and now_ms >= self._heartbeat_at_ms

    @property
    def _may_send_heartbeat(self) -> bool:
        """The first heartbeat needs topics, or a regular expression: it waits until a pattern matches one."""
        return self.is_member or (self.state is S.JOINING and bool(self._topics or self._regex))

    def _send_heartbeat(self) -> SendRequest:
        config, known = self.config, self._acknowledged
        full = ConsumerGroupHeartbeatRequest(
            config.group_id,
            self.member_id,
            max(self.generation_id, JOIN_EPOCH),
            config.group_instance_id,
            config.rack_id,
            config.max_poll_interval_ms,
            self._topics,
            self._regex or "",
            config.server_assignor,
            self._owned_by_id(),
            config.client_id,
        )
        request = full if known is None or not self.is_member else _changes(full, known)
        self._heartbeat = SendRequest(CONSUMER_GROUP_HEARTBEAT, request)
        return self._heartbeat

    def _leaving(self, epoch: int) -> SendRequest:
        config = self.config
        return SendRequest(
            CONSUMER_GROUP_HEARTBEAT,
            ConsumerGroupHeartbeatRequest(config.group_id, self.member_id, epoch, config.group_instance_id),
        )

    def _request_failed(self, error: KafkaError, now_ms: int) -> tuple[Effect, ...]:
        self._acknowledged = None  # the next heartbeat has all fields
        if isinstance(error, NOT_A_MEMBER) and self.is_member:
            self._reset()
            self._rejoin()
            return self.poll(now_ms)
        if not error.retriable:
            return self._fail(error)
        self._failures += 1
        self._heartbeat_at_ms = now_ms + self._backoff.wait_ms(self._failures)
        return () if isinstance(error, CoordinatorLoadInProgressError) else (ForgetCoordinator(),)

    # --- joining and leaving ----------------------------------------------------------------------------

    def _rejoin(self) -> None:
        """Join again; partitions of the lost membership are reported as lost first."""
        if self.is_changing:
            self._become(S.REVOKING)  # `on_done` comes first, and calls this again
        elif self.owned:
            self.pending = OwnershipChange(ChangeKind.LOST, self.owned)
            self._become(S.REVOKING)
        else:
            self._heartbeat_at_ms = 0 if not self._failures else self._heartbeat_at_ms
            self._become(S.JOINING)

    def _reset(self) -> None:
        self._remember_membership()
        self.generation_id, self._acknowledged, self._heartbeat = -1, None, None
        self._target, self._is_first = frozenset(), True
        if not self.is_changing:
            self.pending = None

    def _poll_timed_out(self) -> tuple[Effect, ...]:
        is_static = self.config.group_instance_id is not None
        effects = (self._leaving(LEAVE_STATIC_EPOCH if is_static else LEAVE_EPOCH),)
        self._reset()
        self._become(S.LATE)
        return effects

    def _fail(self, error: HeadraceError) -> tuple[Effect, ...]:
        effects: tuple[Effect, ...] = ()
        if self.is_member and not isinstance(error, FencedInstanceIdError):
            effects = (self._leaving(LEAVE_EPOCH),)
        self._reset()
        self.error = error
        self._become(S.FAILED)
        return effects


def _changes(
    full: ConsumerGroupHeartbeatRequest, known: ConsumerGroupHeartbeatRequest
) -> ConsumerGroupHeartbeatRequest:
    """The heartbeat without the fields that are in `known`; group and member id stay."""
    changes: dict[str, Any] = {
        name: None for name in SENT_ON_CHANGE if getattr(full, name) == getattr(known, name)
    }
    if full.rebalance_timeout_ms == known.rebalance_timeout_ms:
        changes["rebalance_timeout_ms"] = -1
    return msgspec.structs.replace(full, **changes)


def _merged(
    known: ConsumerGroupHeartbeatRequest | None, sent: ConsumerGroupHeartbeatRequest
) -> ConsumerGroupHeartbeatRequest:
    """The fields that the coordinator has after one more heartbeat."""
    if known is None:
        return sent
    kept: dict[str, Any] = {
        name: getattr(known, name) for name in SENT_ON_CHANGE if getattr(sent, name) is None
    }
    if sent.rebalance_timeout_ms == -1:
        kept["rebalance_timeout_ms"] = known.rebalance_timeout_ms
    return msgspec.structs.replace(sent, **kept)
