"""A member of a group whose coordinator assigns: a consumer group (KIP-848, modern.py) or a streams group
(KIP-1071, streams.py). Pure.

A heartbeat has the fields that changed since the last acknowledged one. A response may have a new target
assignment. The member first revokes what the target lacks, and reports that at once, so that it can be
assigned to other members; then it adopts what the target adds. After a failed heartbeat the next one has all
fields.
Source: Kafka AbstractMembershipManager.java, AbstractHeartbeatRequestManager.java.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any

import msgspec

from ...protocol.errors import (
    CoordinatorLoadInProgressError,
    FencedInstanceIdError,
    FencedMemberEpochError,
    GroupIdNotFoundError,
    HeadraceError,
    KafkaError,
    UnknownMemberIdError,
    error_from_code,
)
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
    from collections.abc import Sequence

    from ...protocol.messages.envelope import Api
    from ..cluster.backoff import Backoff

S = MemberState
NOT_A_MEMBER = (UnknownMemberIdError, FencedMemberEpochError, GroupIdNotFoundError)
JOIN_EPOCH, LEAVE_EPOCH, LEAVE_STATIC_EPOCH = 0, -1, -2


class HeartbeatMember(MemberCore):
    """`member_id` is a UUID in text that the client has chosen. Subclasses build the requests, read the
    responses, and set `pending` on the way to the target."""

    transitions = MODERN_TRANSITIONS
    api: Api
    sent_on_change: Sequence[tuple[str, ...]]
    """Fields that are null in a heartbeat unless one of the same group changed."""

    def __init__(self, config: MemberConfig, member_id: str, backoff: Backoff) -> None:
        super().__init__(config)
        self.member_id = member_id
        self._backoff, self._failures = backoff, 0
        self._is_first = True  # the next assignment is adopted even if it adds nothing
        self._acknowledged: Any = None  # the fields of the last acknowledged heartbeat
        self._heartbeat: SendRequest | None = None
        self._heartbeat_at_ms = 0
        self._interval_ms = config.heartbeat_interval_ms
        self._polled_at_ms = 0

    # --- what the protocols differ in -------------------------------------------------------------------

    @property
    @abstractmethod
    def _is_subscribed(self) -> bool:
        """Whether the consumer wants to be a member."""

    @property
    @abstractmethod
    def _can_join(self) -> bool:
        """Whether the first heartbeat can be sent."""

    @property
    @abstractmethod
    def _has_assignment(self) -> bool:
        """Whether there is something to lose with the membership."""

    @abstractmethod
    def _full_request(self) -> Any:
        """A heartbeat with all fields."""

    @abstractmethod
    def _leave_request(self, epoch: int) -> Any:
        """The heartbeat that ends the membership."""

    @abstractmethod
    def _take_response(self, response: Any) -> None:
        """Read the target and further fields of a response."""

    @abstractmethod
    def _reconcile(self) -> None:
        """Set `pending` to the next change on the way to the target, and the state."""

    @abstractmethod
    def _change_done(self, change: OwnershipChange) -> None:
        """The consumer has performed this change."""

    @abstractmethod
    def _drop_target(self) -> None:
        """The membership has ended."""

    @abstractmethod
    def _drop_subscription(self) -> None:
        """The consumer has unsubscribed."""

    # --- calls of the consumer --------------------------------------------------------------------------

    def unsubscribe(self, *, leave: bool, reason: str) -> tuple[Effect, ...]:
        """As `MemberCore.unsubscribe`, also while the first heartbeat is in flight. A static member that does
        not leave announces its return."""
        effects: tuple[Effect, ...] = ()
        is_known = self.is_member or self._heartbeat is not None  # the first heartbeat may have joined
        if is_known and (leave or self.config.group_instance_id is not None):
            effects = (self._leaving(LEAVE_EPOCH if leave else LEAVE_STATIC_EPOCH),)
        self.error = None
        self._drop_subscription()
        self._reset()
        self._become(S.UNJOINED)
        return effects

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
        self._change_done(self._apply_pending())
        if self.state is S.REVOKING and not self.is_member:
            self._rejoin()
        elif self.state in (S.REVOKING, S.ADOPTING):
            self._heartbeat_at_ms = 0
            self._reconcile()
        return self.poll(now_ms)

    # --- events -----------------------------------------------------------------------------------------

    def poll(self, now_ms: int) -> tuple[Effect, ...]:
        if not self._is_subscribed or self.state in (S.FAILED, S.LATE):
            return ()
        if self.is_member and now_ms - self._polled_at_ms >= self.config.max_poll_interval_ms:
            return self._poll_timed_out()
        if self.state is S.UNJOINED:
            self._rejoin()
        if self._heartbeat is not None or not self._may_send_heartbeat or now_ms < self._heartbeat_at_ms:
            return ()
        full, known = self._full_request(), self._acknowledged
        request = full if known is None or not self.is_member else _changes(full, known, self.sent_on_change)
        self._heartbeat = SendRequest(self.api, request)
        return (self._heartbeat,)

    def next_due_ms(self) -> int | None:
        if not self._is_subscribed or self.state in (S.FAILED, S.LATE):
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
        self._acknowledged = _merged(self._acknowledged, request.request, self.sent_on_change)
        self.generation_id = response.member_epoch
        self._interval_ms = response.heartbeat_interval_ms or self._interval_ms
        self._heartbeat_at_ms = now_ms + self._interval_ms
        self._take_response(response)
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

    # --- heartbeats -------------------------------------------------------------------------------------

    @property
    def _may_send_heartbeat(self) -> bool:
        return self.is_member or (self.state is S.JOINING and self._can_join)

    def _leaving(self, epoch: int) -> SendRequest:
        return SendRequest(self.api, self._leave_request(epoch))

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
        """Join again; the assignment of the lost membership is reported as lost first."""
        if self.is_changing:
            self._become(S.REVOKING)  # `on_done` comes first, and calls this again
        elif self._has_assignment:
            self.pending = OwnershipChange(ChangeKind.LOST, self.owned)
            self._become(S.REVOKING)
        else:
            self._heartbeat_at_ms = 0 if not self._failures else self._heartbeat_at_ms
            self._become(S.JOINING)

    def _reset(self) -> None:
        self._remember_membership()
        self.generation_id, self._acknowledged, self._heartbeat = -1, None, None
        self._is_first = True
        self._drop_target()
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


def _changes(full: Any, known: Any, groups: Sequence[tuple[str, ...]]) -> Any:
    """The heartbeat without the fields that are in `known`; group and member id stay."""
    changes: dict[str, Any] = {}
    for names in groups:
        if all(getattr(full, name) == getattr(known, name) for name in names):
            changes.update(dict.fromkeys(names))
    if full.rebalance_timeout_ms == known.rebalance_timeout_ms:
        changes["rebalance_timeout_ms"] = -1
    return msgspec.structs.replace(full, **changes)


def _merged(known: Any, sent: Any, groups: Sequence[tuple[str, ...]]) -> Any:
    """The fields that the coordinator has after one more heartbeat."""
    if known is None:
        return sent
    kept: dict[str, Any] = {
        name: getattr(known, name) for names in groups for name in names if getattr(sent, name) is None
    }
    if sent.rebalance_timeout_ms == -1:
        kept["rebalance_timeout_ms"] = known.rebalance_timeout_ms
    return msgspec.structs.replace(sent, **kept)
