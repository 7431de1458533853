"""A group member under the classic protocol: JoinGroup, SyncGroup, Heartbeat, LeaveGroup. Pure.

An eager member revokes all its partitions before it joins again. A cooperative member (KIP-429) keeps its
partitions, revokes those that the new assignment lacks, and joins once more. Between two polls the member
sends heartbeats and revokes nothing; it leaves when no poll comes within max.poll.interval.ms.
Source: Kafka AbstractCoordinator.java, ConsumerCoordinator.java, Heartbeat.java; KIP-345, KIP-394, KIP-814.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...protocol.consumer_protocol import (
    MAX_VERSION,
    PROTOCOL_TYPE,
    Assignment,
    Subscription,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from ...protocol.errors import (
    CoordinatorLoadInProgressError,
    FencedInstanceIdError,
    HeadraceError,
    IllegalGenerationError,
    InconsistentGroupProtocolError,
    KafkaError,
    MemberIdRequiredError,
    RebalanceInProgressError,
    UnknownMemberIdError,
    error_from_code,
)
from ...protocol.messages.groups import (
    GroupProtocol,
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    LeavingMember,
    MemberAssignment,
    SyncGroupRequest,
)
from ...protocol.messages.registry import HEARTBEAT, JOIN_GROUP, LEAVE_GROUP, SYNC_GROUP
from .assignors import MemberSubscription
from .member import (
    REBALANCE_TIMEOUT_LAPSE_MS,
    AssignPartitions,
    ChangeKind,
    Effect,
    ForgetCoordinator,
    MemberConfig,
    MemberCore,
    OwnershipChange,
    SendRequest,
)
from .states import CLASSIC_TRANSITIONS, MemberState

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ...protocol.messages.groups import JoinedMember, JoinGroupResponse
    from ...protocol.model import TopicPartition
    from ..cluster.backoff import Backoff
    from .assignors import Assignor, Topic

S = MemberState
HEARTBEAT_STATES = (S.REVOKING, S.SYNCING, S.ADOPTING, S.STABLE)


class ClassicMember(MemberCore):
    """`assignors` in the order of preference; the member is cooperative only if all of them are."""

    transitions = CLASSIC_TRANSITIONS

    def __init__(self, config: MemberConfig, assignors: tuple[Assignor, ...], backoff: Backoff) -> None:
        super().__init__(config)
        self._assignors = {assignor.name: assignor for assignor in assignors}
        self.is_cooperative = all(assignor.is_cooperative for assignor in assignors)
        self._backoff, self._failures, self._retry_at_ms = backoff, 0, 0
        self._topics: tuple[str, ...] | None = None  # None: not subscribed
        self._sent: SendRequest | None = None  # the JoinGroup or SyncGroup in flight
        self._heartbeat: SendRequest | None = None
        self._heartbeat_at_ms = 0
        self._last_response_ms = 0
        self._polled_at_ms = 0
        self._must_join = False
        self._reason = ""
        self._assignor: Assignor | None = None  # the one that the coordinator chose
        self._assignment: tuple[TopicPartition, ...] = ()  # of the last SyncGroup
        self._group_topics: tuple[str, ...] = ()  # as the leader: the topics of all members
        self._partition_counts: Mapping[str, int] | None = None  # at the last assignment
        self._members: dict[str, MemberSubscription] = {}
        self._skips_assignment = False  # as the leader: keep the assignment (KIP-814)

    # --- calls of the consumer --------------------------------------------------------------------------

    def subscribe(self, topics: Iterable[str], regex: str | None = None) -> None:
        """As `MemberCore.subscribe`, without `regex`, which only coordinators of the new protocol match."""
        wanted = tuple(sorted(set(topics)))
        if wanted != self._topics:
            self._topics = wanted
            self._join_again("the subscription changed")

    def commit_rejected(self, error: KafkaError, now_ms: int) -> tuple[Effect, ...]:
        if not self.is_member:
            return ()
        return (
            self._fail(error) if isinstance(error, FencedInstanceIdError) else self._lose_membership(now_ms)
        )

    def enforce_rebalance(self, reason: str) -> None:
        self._join_again(reason)

    def polled(self, now_ms: int) -> None:
        self._polled_at_ms = now_ms
        if self.state is S.LATE:
            self._prepare_join()

    def error_raised(self) -> None:
        """After a fatal fencing the error stays; after any other error the member joins again."""
        if not isinstance(self.error, FencedInstanceIdError):
            self.error = None
            self._prepare_join()

    def unsubscribe(self, *, leave: bool, reason: str) -> tuple[Effect, ...]:
        """As `MemberCore.unsubscribe`; the next `pending` releases the owned partitions."""
        effects = (self._leaving(reason),) if leave and self.member_id else ()
        self._topics = self.error = None
        self._reset()
        self._become(S.UNJOINED)
        return effects

    def topics_changed(self, counts: Mapping[str, int], names: Mapping[bytes, str]) -> None:
        """The leader joins again when partition counts differ from those of the assignment."""
        if self._partition_counts is not None and self._partition_counts != {
            name: counts[name] for name in self._group_topics if name in counts
        }:
            self._partition_counts = None
            self._join_again("partitions of subscribed topics changed")

    @property
    def topics_to_watch(self) -> tuple[str, ...]:
        """Its own topics; of the leader those of all members."""
        return tuple(sorted({*(self._topics or ()), *self._group_topics}))

    # --- steps ------------------------------------------------------------------------------------------

    def poll(self, now_ms: int) -> tuple[Effect, ...]:
        if self._topics is None or self.state in (S.FAILED, S.LATE):
            return ()
        if self._is_poll_overdue(now_ms):
            return self._poll_timed_out()
        if self.state in (S.UNJOINED, S.STABLE) and (self._must_join or self.state is S.UNJOINED):
            self._prepare_join()
        effects: list[Effect] = []
        if self.state is S.JOINING and self._sent is None and now_ms >= self._retry_at_ms:
            effects.append(self._join())
        if (
            self.is_member
            and self.state in HEARTBEAT_STATES
            and self._heartbeat is None
            and now_ms >= self._heartbeat_at_ms
        ):
            if now_ms - self._last_response_ms >= self.config.session_timeout_ms:
                effects.append(ForgetCoordinator())
                self._last_response_ms = now_ms
            effects.append(self._send_heartbeat(now_ms))
        return tuple(effects)

    def next_due_ms(self) -> int | None:
        if self._topics is None or self.state in (S.FAILED, S.LATE):
            return None
        due = [self._polled_at_ms + self.config.max_poll_interval_ms] if self.is_member else []
        if self.is_member and self.state in HEARTBEAT_STATES and self._heartbeat is None:
            due.append(self._heartbeat_at_ms)
        if self.state is S.JOINING and self._sent is None:
            due.append(self._retry_at_ms)
        return min(due, default=None)

    def on_response(self, request: SendRequest, response: Any, now_ms: int) -> tuple[Effect, ...]:
        error = error_from_code(response.error_code, response.error_detail) if response.error_code else None
        if request is self._heartbeat:
            self._heartbeat = None
            if error is None:
                self._last_response_ms, self._failures = now_ms, 0
                return self.poll(now_ms)
            return self._heartbeat_failed(request, error, now_ms)
        if request is not self._sent:
            return ()  # of an earlier membership
        self._sent = None
        if request.api is JOIN_GROUP:
            return self._joined(response, error, now_ms)
        return self._synced(response, error, now_ms)

    def on_failure(self, request: SendRequest, error: KafkaError, now_ms: int) -> tuple[Effect, ...]:
        if request is self._heartbeat:
            self._heartbeat = None
            return self._heartbeat_failed(request, error, now_ms)
        if request is not self._sent:
            return ()
        self._sent = None
        return self._request_failed(error, now_ms)

    def on_done(self, now_ms: int) -> tuple[Effect, ...]:
        change = self._apply_pending()
        if self.state is S.REVOKING:
            self._prepare_join()
        elif self.state is S.ADOPTING and change.kind is ChangeKind.REVOKED:
            self._join_again("revoked partitions can be assigned to other members")
            self._reconcile()
        elif self.state is S.ADOPTING:
            self._become(S.STABLE)
        return self.poll(now_ms)

    def assign_partitions(
        self, generation_id: int, topics: Mapping[str, Topic], now_ms: int
    ) -> tuple[Effect, ...]:
        if self.state is not S.SYNCING or self._sent is not None or generation_id != self.generation_id:
            return ()
        assert self._assignor is not None, "the coordinator chose an assignor"
        self._partition_counts = {name: topic.partitions for name, topic in topics.items()}
        if self._skips_assignment:  # the members keep their assignments
            return (*self._sync({}), *self.poll(now_ms))
        try:
            assignments = self._checked_assignments(self._assignor.assign(topics, self._members), topics)
        except Exception as error:  # noqa: BLE001 - an assignor of the user may raise any error
            failure = HeadraceError(f"assignor {self._assignor.name!r} failed: {error!r}")
            failure.__cause__ = error
            return self._fail(failure)
        return (*self._sync(assignments), *self.poll(now_ms))

    # --- joining ----------------------------------------------------------------------------------------

    def _join_again(self, reason: str) -> None:
        if not self._must_join:
            self._must_join, self._reason = True, reason

    def _prepare_join(self) -> None:
        """Revoke first what a rebalance requires, then join."""
        assert self._topics is not None, "subscribed"
        if self.is_changing:
            return  # `on_done` comes first, and calls this again
        if not self.is_member:
            kind, gone = ChangeKind.LOST, self.owned
        elif self.is_cooperative:
            kind, gone = ChangeKind.REVOKED, tuple(tp for tp in self.owned if tp.topic not in self._topics)
        else:
            kind, gone = ChangeKind.REVOKED, self.owned
        self.pending = OwnershipChange(kind, gone) if gone else None
        self._become(S.REVOKING if gone else S.JOINING)

    def _join(self) -> SendRequest:
        assert self._topics is not None, "subscribed"
        config = self.config
        protocols = []
        for assignor in self._assignors.values():
            subscription = Subscription(
                MAX_VERSION,
                self._topics,
                assignor.user_data(self._topics),
                self.owned,
                self.generation_id,
                config.rack_id,
            )
            protocols.append(GroupProtocol(assignor.name, encode_subscription(subscription)))
        request = JoinGroupRequest(
            config.group_id,
            config.session_timeout_ms,
            config.max_poll_interval_ms,
            self.member_id,
            PROTOCOL_TYPE,
            tuple(protocols),
            config.group_instance_id,
            self._reason[:255],
            config.client_id,
        )
        self._must_join = False
        wait_ms = config.max_poll_interval_ms + REBALANCE_TIMEOUT_LAPSE_MS
        self._sent = SendRequest(JOIN_GROUP, request, wait_ms, wait_ms)
        return self._sent

    def _joined(
        self, response: JoinGroupResponse, error: KafkaError | None, now_ms: int
    ) -> tuple[Effect, ...]:
        if isinstance(error, MemberIdRequiredError):
            self.member_id = response.member_id
            return self.poll(now_ms)
        if error is not None:
            return self._request_failed(error, now_ms)
        if (
            response.protocol_type not in (None, PROTOCOL_TYPE)
            or response.protocol_name not in self._assignors
        ):
            return self._fail(
                InconsistentGroupProtocolError(
                    f"the group chose {response.protocol_type!r}, {response.protocol_name!r}"
                )
            )
        self.generation_id, self.member_id = response.generation_id, response.member_id
        self._assignor = self._assignors[response.protocol_name]
        self._last_response_ms, self._failures = now_ms, 0
        self._heartbeat_at_ms = now_ms + self.config.heartbeat_interval_ms
        self._group_topics, self._partition_counts, self._members = (), None, {}
        self._become(S.SYNCING)
        if response.leader != response.member_id:
            return (*self._sync({}), *self.poll(now_ms))
        try:
            self._members = {each.member_id: _subscription(each) for each in response.members}
        except KafkaError as bad:
            return self._fail(bad)
        self._group_topics = tuple(
            sorted({topic for each in self._members.values() for topic in each.topics})
        )
        self._skips_assignment = response.skip_assignment
        return (AssignPartitions(self._group_topics, self.generation_id),)

    def _checked_assignments(
        self, assignments: Mapping[str, Iterable[TopicPartition]], topics: Mapping[str, Topic]
    ) -> dict[str, tuple[TopicPartition, ...]]:
        """Each partition for one member; a cooperative transfer waits until the owner has revoked it."""
        holders: dict[TopicPartition, str] = {}
        for member_id, assignment in assignments.items():
            if member_id not in self._members:
                raise HeadraceError(f"there is no member {member_id!r}")
            for tp in assignment:
                if tp.topic not in topics or not 0 <= tp.partition < topics[tp.topic].partitions:
                    raise HeadraceError(f"there is no partition {tp}")
                if holders.setdefault(tp, member_id) != member_id:
                    raise HeadraceError(f"{tp} is given to two members")
        if self._assignor is not None and self._assignor.is_cooperative:
            holders = self._without_transfers(holders)
        found: dict[str, list[TopicPartition]] = {member_id: [] for member_id in self._members}
        for tp, member_id in holders.items():
            found[member_id].append(tp)
        return {member_id: tuple(sorted(assignment)) for member_id, assignment in found.items()}

    def _without_transfers(self, holders: dict[TopicPartition, str]) -> dict[TopicPartition, str]:
        """Drop partitions that another member still claims to own; claims of an older generation do not count
        against a newer one."""
        claims: dict[TopicPartition, dict[str, int]] = {}
        for member_id, member in self._members.items():
            for tp in member.owned:
                claims.setdefault(tp, {})[member_id] = member.generation_id
        return {tp: member_id for tp, member_id in holders.items() if _is_free(claims.get(tp, {}), member_id)}

    def _sync(self, assignments: Mapping[str, tuple[TopicPartition, ...]]) -> tuple[Effect, ...]:
        assert self._assignor is not None, "the group chose one"
        data = self._assignor.assignment_data()
        request = SyncGroupRequest(
            self.config.group_id,
            self.generation_id,
            self.member_id,
            self.config.group_instance_id,
            PROTOCOL_TYPE,
            self._assignor.name,
            tuple(
                MemberAssignment(member_id, encode_assignment(Assignment(MAX_VERSION, assignment, data)))
                for member_id, assignment in assignments.items()
            ),
        )
        wait_ms = self.config.max_poll_interval_ms + REBALANCE_TIMEOUT_LAPSE_MS
        self._sent = SendRequest(SYNC_GROUP, request, wait_ms, wait_ms)
        return (self._sent,)

    def _synced(self, response: Any, error: KafkaError | None, now_ms: int) -> tuple[Effect, ...]:
        if error is not None:
            return self._request_failed(error, now_ms)
        try:
            assignment = decode_assignment(response.assignment)
        except KafkaError as bad:
            return self._fail(bad)
        assert self._assignor is not None, "a member of a generation"
        topics = self._topics or ()
        self._assignor.on_assigned(assignment, self.generation_id)
        self._assignment = tuple(sorted(tp for tp in assignment.partitions if tp.topic in topics))
        self._last_response_ms = now_ms
        self._become(S.ADOPTING)
        self._reconcile()
        return self.poll(now_ms)

    def _reconcile(self) -> None:
        """First revoke what the new assignment lacks, then adopt what it adds, even if that is nothing."""
        gone = tuple(tp for tp in self.owned if tp not in self._assignment)
        new = tuple(tp for tp in self._assignment if tp not in self.owned)
        self.pending = (
            OwnershipChange(ChangeKind.REVOKED, gone) if gone else OwnershipChange(ChangeKind.ASSIGNED, new)
        )

    # --- errors -----------------------------------------------------------------------------------------

    def _request_failed(self, error: KafkaError, now_ms: int) -> tuple[Effect, ...]:
        """A JoinGroup or SyncGroup request failed."""
        if isinstance(error, (UnknownMemberIdError, IllegalGenerationError)):
            return self._lose_membership(now_ms)
        if isinstance(error, RebalanceInProgressError):
            self._become(S.JOINING)
            return self.poll(now_ms)
        if not error.retriable:
            return self._fail(error)
        self._failures += 1
        self._retry_at_ms = now_ms + self._backoff.wait_ms(self._failures)
        self._become(S.JOINING)
        return () if isinstance(error, CoordinatorLoadInProgressError) else (ForgetCoordinator(),)

    def _heartbeat_failed(self, request: SendRequest, error: KafkaError, now_ms: int) -> tuple[Effect, ...]:
        """Race: a heartbeat that is resent may reach the coordinator after the JoinGroup of the next
        generation; its error says nothing about that generation."""
        if isinstance(error, RebalanceInProgressError):
            self._last_response_ms, self._failures = now_ms, 0
            if self.state in (S.STABLE, S.ADOPTING):
                self._join_again("the group rebalances")
            return self.poll(now_ms)
        if isinstance(error, (UnknownMemberIdError, IllegalGenerationError)):
            if request.request.generation_id != self.generation_id:
                return self.poll(now_ms)
            return self._lose_membership(now_ms)
        if not error.retriable:
            return self._fail(error)
        self._failures += 1
        self._heartbeat_at_ms = now_ms + self._backoff.wait_ms(self._failures)
        return () if isinstance(error, CoordinatorLoadInProgressError) else (ForgetCoordinator(),)

    def _lose_membership(self, now_ms: int) -> tuple[Effect, ...]:
        """The coordinator has removed the member: its partitions may be assigned to other members."""
        self._reset()
        self._prepare_join()
        if self.is_changing:
            self._become(S.REVOKING)
        return self.poll(now_ms)

    def _fail(self, error: HeadraceError) -> tuple[Effect, ...]:
        effects = () if isinstance(error, FencedInstanceIdError) else self._leave(str(error))
        self._reset()
        self.error = error
        self._become(S.FAILED)
        return effects

    def _reset(self) -> None:
        self._remember_membership()
        self.member_id, self.generation_id = "", -1
        self._sent = self._heartbeat = self._assignor = None
        self._group_topics, self._partition_counts, self._must_join = (), None, False
        if not self.is_changing:
            self.pending = None

    # --- heartbeats and leaving -------------------------------------------------------------------------

    def _send_heartbeat(self, now_ms: int) -> SendRequest:
        config = self.config
        request = HeartbeatRequest(
            config.group_id, self.generation_id, self.member_id, config.group_instance_id
        )
        self._heartbeat_at_ms = now_ms + config.heartbeat_interval_ms
        self._heartbeat = SendRequest(HEARTBEAT, request, config.session_timeout_ms)
        return self._heartbeat

    def _is_poll_overdue(self, now_ms: int) -> bool:
        return self.is_member and now_ms - self._polled_at_ms >= self.config.max_poll_interval_ms

    def _poll_timed_out(self) -> tuple[Effect, ...]:
        effects = self._leave("no poll within max.poll.interval.ms")
        self._reset()
        self._become(S.LATE)
        return effects

    def _leave(self, reason: str) -> tuple[Effect, ...]:
        """A static member does not leave: it keeps its assignment until the session timeout."""
        if not self.member_id or self.config.group_instance_id is not None:
            return ()
        return (self._leaving(reason),)

    def _leaving(self, reason: str) -> SendRequest:
        config = self.config
        leaving = LeavingMember(self.member_id, config.group_instance_id, reason[:255])
        return SendRequest(LEAVE_GROUP, LeaveGroupRequest(config.group_id, (leaving,)))


def _is_free(claims: Mapping[str, int], member_id: str) -> bool:
    """Whether no other member owns the partition; `claims` are generations by member id, below 0 unknown."""
    mine = claims.get(member_id, -1)
    return all(0 <= generation < mine for other, generation in claims.items() if other != member_id)


def _subscription(member: JoinedMember) -> MemberSubscription:
    subscription = decode_subscription(member.metadata)
    return MemberSubscription(
        subscription.topics,
        subscription.owned,
        subscription.generation_id,
        member.group_instance_id,
        subscription.rack_id,
        subscription.user_data,
    )
