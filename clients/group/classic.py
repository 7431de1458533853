"""A member of a group under the classic protocol: joins, shares out as the leader, takes over, beats. Pure.

Eager members give up everything before they join again; cooperative ones (KIP-429) keep what they have, give
up what the new share lacks, and join once more. While the user is busy nothing is taken from it: the member
waits, and beats. A member whose user does not come back for max.poll.interval.ms leaves.
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
    Ask,
    Divide,
    Effect,
    Forget,
    MemberConfig,
    MemberCore,
    Work,
    WorkKind,
)
from .states import CLASSIC_TRANSITIONS, MemberState

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ...protocol.messages.groups import JoinedMember, JoinGroupResponse
    from ...protocol.model import TopicPartition
    from ..cluster.backoff import Backoff
    from .assignors import Assignor, Topic

S = MemberState
BEATING = (S.REVOKING, S.SYNCING, S.ADOPTING, S.STABLE)


class ClassicMember(MemberCore):
    """One member. `assignors` in the order of preference; cooperative only if all of them are."""

    transitions = CLASSIC_TRANSITIONS

    def __init__(self, config: MemberConfig, assignors: tuple[Assignor, ...], backoff: Backoff) -> None:
        super().__init__(config)
        self._assignors = {assignor.name: assignor for assignor in assignors}
        self.is_cooperative = all(assignor.is_cooperative for assignor in assignors)
        self._backoff, self._failures, self._retry_at_ms = backoff, 0, 0
        self._topics: tuple[str, ...] | None = None  # None: does not want to be a member
        self._asked: Ask | None = None  # a join or sync whose answer is waited for
        self._beat: Ask | None = None
        self._beat_at_ms = 0  # the next heartbeat
        self._heard_at_ms = 0  # the last sign of the coordinator
        self._polled_at_ms = 0
        self._must_join = False
        self._reason = ""
        self._assignor: Assignor | None = None  # the group's
        self._share: tuple[TopicPartition, ...] = ()  # from the last sync
        self._divided: tuple[str, ...] = ()  # as the leader: topics that the group reads
        self._counts: Mapping[str, int] | None = None  # and their partitions, when they were shared out
        self._members: dict[str, MemberSubscription] = {}
        self._skips = False  # as the leader: nothing is to be shared out (KIP-814)

    # --- what the user wants ----------------------------------------------------------------------------

    def subscribe(self, topics: Iterable[str], regex: str | None = None) -> None:
        """Be a member that reads these topics; `regex` is for coordinators, and not used here."""
        wanted = tuple(sorted(set(topics)))
        if wanted != self._topics:
            self._topics = wanted
            self._join_again("the subscription changed")

    def refused(self, error: KafkaError, now_ms: int) -> tuple[Effect, ...]:
        """A commit was refused because of who the member is."""
        if not self.is_member:
            return ()
        return self._fail(error) if isinstance(error, FencedInstanceIdError) else self._lose(now_ms)

    def enforce_rebalance(self, reason: str) -> None:
        """Join again although nothing asks for it (KIP-568)."""
        self._join_again(reason)

    def polled(self, now_ms: int) -> None:
        """The user asks for records, or has asked since the last call."""
        self._polled_at_ms = now_ms
        if self.state is S.LATE:
            self._prepare()

    def heard_error(self) -> None:
        """The user was told `error`. Being fenced stays; after anything else the member tries anew."""
        if not isinstance(self.error, FencedInstanceIdError):
            self.error = None
            self._prepare()

    def unsubscribe(self, *, leave: bool, reason: str) -> tuple[Effect, ...]:
        """Stop being a member; with `leave` the group is told. What is owned still is reported as work."""
        effects = (self._leaving(reason),) if leave and self.member_id else ()
        self._topics = self.error = None
        self._reset()
        self._become(S.UNJOINED)
        return effects

    def topics_changed(self, counts: Mapping[str, int], names: Mapping[bytes, str]) -> None:
        """How many partitions topics have now; the leader shares out anew if that is news."""
        if self._counts is not None and self._counts != {
            name: counts[name] for name in self._divided if name in counts
        }:
            self._counts = None
            self._join_again("partitions of subscribed topics changed")

    @property
    def watched(self) -> tuple[str, ...]:
        """Topics that the member must know: its own, as the leader those of all."""
        return tuple(sorted({*(self._topics or ()), *self._divided}))

    # --- steps ------------------------------------------------------------------------------------------

    def poll(self, now_ms: int) -> tuple[Effect, ...]:
        """All that can be asked now."""
        if self._topics is None or self.state in (S.FAILED, S.LATE):
            return ()
        if self._is_late(now_ms):
            return self._be_late()
        if self.state in (S.UNJOINED, S.STABLE) and (self._must_join or self.state is S.UNJOINED):
            self._prepare()
        effects: list[Effect] = []
        if self.state is S.JOINING and self._asked is None and now_ms >= self._retry_at_ms:
            effects.append(self._join())
        if self.is_member and self.state in BEATING and self._beat is None and now_ms >= self._beat_at_ms:
            if now_ms - self._heard_at_ms >= self.config.session_timeout_ms:
                effects.append(Forget())
                self._heard_at_ms = now_ms
            effects.append(self._beat_now(now_ms))
        return tuple(effects)

    def next_due_ms(self) -> int | None:
        """When `poll` should be called although nothing was reported; None for never."""
        if self._topics is None or self.state in (S.FAILED, S.LATE):
            return None
        due = [self._polled_at_ms + self.config.max_poll_interval_ms] if self.is_member else []
        if self.is_member and self.state in BEATING and self._beat is None:
            due.append(self._beat_at_ms)
        if self.state is S.JOINING and self._asked is None:
            due.append(self._retry_at_ms)
        return min(due, default=None)

    def on_answer(self, asked: Ask, answer: Any, now_ms: int) -> tuple[Effect, ...]:
        """The coordinator's answer."""
        error = error_from_code(answer.error_code, answer.error_detail) if answer.error_code else None
        if asked is self._beat:
            self._beat = None
            if error is None:
                self._heard_at_ms, self._failures = now_ms, 0
                return self.poll(now_ms)
            return self._beat_refused(error, now_ms)
        if asked is not self._asked:
            return ()  # of another life
        self._asked = None
        if asked.api is JOIN_GROUP:
            return self._joined(answer, error, now_ms)
        return self._synced(answer, error, now_ms)

    def on_failure(self, asked: Ask, error: KafkaError, now_ms: int) -> tuple[Effect, ...]:
        """No answer came."""
        if asked is self._beat:
            self._beat = None
            return self._beat_refused(error, now_ms)
        if asked is not self._asked:
            return ()
        self._asked = None
        return self._refused(error, now_ms)

    def on_done(self, now_ms: int) -> tuple[Effect, ...]:
        """The user's side has done its work."""
        work = self._done()
        if self.state is S.REVOKING:
            self._prepare()
        elif self.state is S.ADOPTING and work.kind is WorkKind.REVOKED:
            self._join_again("others get what was given up")
            self._take_over()
        elif self.state is S.ADOPTING:
            self._become(S.STABLE)
        return self.poll(now_ms)

    def divide(self, generation_id: int, topics: Mapping[str, Topic], now_ms: int) -> tuple[Effect, ...]:
        """As the leader: share out what these topics have now."""
        if self.state is not S.SYNCING or self._asked is not None or generation_id != self.generation_id:
            return ()
        assert self._assignor is not None, "the group chose one"
        self._counts = {name: topic.partitions for name, topic in topics.items()}
        if self._skips:  # the group goes on with what it has
            return (*self._sync({}), *self.poll(now_ms))
        try:
            shares = self._checked(self._assignor.assign(topics, self._members), topics)
        except Exception as error:  # noqa: BLE001 - an assignor of the user raises what it likes
            failure = HeadraceError(f"assignor {self._assignor.name!r} failed: {error!r}")
            failure.__cause__ = error
            return self._fail(failure)
        return (*self._sync(shares), *self.poll(now_ms))

    # --- joining ----------------------------------------------------------------------------------------

    def _join_again(self, reason: str) -> None:
        if not self._must_join:
            self._must_join, self._reason = True, reason

    def _prepare(self) -> None:
        """Before joining: what must be given up first is work of the user's side."""
        assert self._topics is not None, "somebody wants to be a member"
        if self.is_working:
            return  # what it began goes on; then again
        if not self.is_member:
            kind, gone = WorkKind.LOST, self.owned
        elif self.is_cooperative:
            kind, gone = WorkKind.REVOKED, tuple(tp for tp in self.owned if tp.topic not in self._topics)
        else:
            kind, gone = WorkKind.REVOKED, self.owned
        self.work = Work(kind, gone) if gone else None
        self._become(S.REVOKING if gone else S.JOINING)

    def _join(self) -> Ask:
        assert self._topics is not None, "somebody wants to be a member"
        config = self.config
        protocols = []
        for assignor in self._assignors.values():
            told = Subscription(
                MAX_VERSION,
                self._topics,
                assignor.user_data(self._topics),
                self.owned,
                self.generation_id,
                config.rack_id,
            )
            protocols.append(GroupProtocol(assignor.name, encode_subscription(told)))
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
        self._asked = Ask(JOIN_GROUP, request, wait_ms, wait_ms)
        return self._asked

    def _joined(self, answer: JoinGroupResponse, error: KafkaError | None, now_ms: int) -> tuple[Effect, ...]:
        if isinstance(error, MemberIdRequiredError):
            self.member_id = answer.member_id
            return self.poll(now_ms)
        if error is not None:
            return self._refused(error, now_ms)
        if answer.protocol_type not in (None, PROTOCOL_TYPE) or answer.protocol_name not in self._assignors:
            return self._fail(
                InconsistentGroupProtocolError(
                    f"the group chose {answer.protocol_type!r}, {answer.protocol_name!r}"
                )
            )
        self.generation_id, self.member_id = answer.generation_id, answer.member_id
        self._assignor = self._assignors[answer.protocol_name]
        self._heard_at_ms, self._failures = now_ms, 0
        self._beat_at_ms = now_ms + self.config.heartbeat_interval_ms
        self._divided, self._counts, self._members = (), None, {}
        self._become(S.SYNCING)
        if answer.leader != answer.member_id:
            return (*self._sync({}), *self.poll(now_ms))
        try:
            self._members = {each.member_id: _subscription(each) for each in answer.members}
        except KafkaError as bad:
            return self._fail(bad)
        self._divided = tuple(sorted({topic for each in self._members.values() for topic in each.topics}))
        self._skips = answer.skip_assignment
        return (Divide(self._divided, self.generation_id),)

    def _checked(
        self, shares: Mapping[str, Iterable[TopicPartition]], topics: Mapping[str, Topic]
    ) -> dict[str, tuple[TopicPartition, ...]]:
        """Each partition once, to a member; a cooperative one not before its owner has given it up."""
        holders: dict[TopicPartition, str] = {}
        for member_id, share in shares.items():
            if member_id not in self._members:
                raise HeadraceError(f"there is no member {member_id!r}")
            for tp in share:
                if tp.topic not in topics or not 0 <= tp.partition < topics[tp.topic].partitions:
                    raise HeadraceError(f"there is no partition {tp}")
                if holders.setdefault(tp, member_id) != member_id:
                    raise HeadraceError(f"{tp} is given to two members")
        if self._assignor is not None and self._assignor.is_cooperative:
            holders = self._without_transfers(holders)
        found: dict[str, list[TopicPartition]] = {member_id: [] for member_id in self._members}
        for tp, member_id in holders.items():
            found[member_id].append(tp)
        return {member_id: tuple(sorted(share)) for member_id, share in found.items()}

    def _without_transfers(self, holders: dict[TopicPartition, str]) -> dict[TopicPartition, str]:
        """What another member claims to own is given away once that one has given it up; claims of an older
        generation do not count against a newer one."""
        claims: dict[TopicPartition, dict[str, int]] = {}
        for member_id, member in self._members.items():
            for tp in member.owned:
                claims.setdefault(tp, {})[member_id] = member.generation_id
        return {tp: member_id for tp, member_id in holders.items() if _is_free(claims.get(tp, {}), member_id)}

    def _sync(self, shares: Mapping[str, tuple[TopicPartition, ...]]) -> tuple[Effect, ...]:
        assert self._assignor is not None, "the group chose one"
        request = SyncGroupRequest(
            self.config.group_id,
            self.generation_id,
            self.member_id,
            self.config.group_instance_id,
            PROTOCOL_TYPE,
            self._assignor.name,
            tuple(
                MemberAssignment(member_id, encode_assignment(Assignment(MAX_VERSION, share)))
                for member_id, share in shares.items()
            ),
        )
        wait_ms = self.config.max_poll_interval_ms + REBALANCE_TIMEOUT_LAPSE_MS
        self._asked = Ask(SYNC_GROUP, request, wait_ms, wait_ms)
        return (self._asked,)

    def _synced(self, answer: Any, error: KafkaError | None, now_ms: int) -> tuple[Effect, ...]:
        if error is not None:
            return self._refused(error, now_ms)
        try:
            assignment = decode_assignment(answer.assignment)
        except KafkaError as bad:
            return self._fail(bad)
        assert self._assignor is not None, "a member of a generation"
        topics = self._topics or ()
        self._assignor.on_assigned(assignment, self.generation_id)
        self._share = tuple(sorted(tp for tp in assignment.partitions if tp.topic in topics))
        self._heard_at_ms = now_ms
        self._become(S.ADOPTING)
        self._take_over()
        return self.poll(now_ms)

    def _take_over(self) -> None:
        """First what the new share lacks is given up, then what is new is taken, even if that is nothing."""
        gone = tuple(tp for tp in self.owned if tp not in self._share)
        new = tuple(tp for tp in self._share if tp not in self.owned)
        self.work = Work(WorkKind.REVOKED, gone) if gone else Work(WorkKind.ASSIGNED, new)

    # --- refusals ---------------------------------------------------------------------------------------

    def _refused(self, error: KafkaError, now_ms: int) -> tuple[Effect, ...]:
        """A join or sync did not succeed."""
        if isinstance(error, (UnknownMemberIdError, IllegalGenerationError)):
            return self._lose(now_ms)
        if isinstance(error, RebalanceInProgressError):
            self._become(S.JOINING)
            return self.poll(now_ms)
        if not error.retriable:
            return self._fail(error)
        self._failures += 1
        self._retry_at_ms = now_ms + self._backoff.wait_ms(self._failures)
        self._become(S.JOINING)
        return () if isinstance(error, CoordinatorLoadInProgressError) else (Forget(),)

    def _beat_refused(self, error: KafkaError, now_ms: int) -> tuple[Effect, ...]:
        if isinstance(error, RebalanceInProgressError):
            self._heard_at_ms, self._failures = now_ms, 0
            if self.state in (S.STABLE, S.ADOPTING):
                self._join_again("the group rebalances")
            return self.poll(now_ms)
        if isinstance(error, (UnknownMemberIdError, IllegalGenerationError)):
            return self._lose(now_ms)
        if not error.retriable:
            return self._fail(error)
        self._failures += 1
        self._beat_at_ms = now_ms + self._backoff.wait_ms(self._failures)
        return () if isinstance(error, CoordinatorLoadInProgressError) else (Forget(),)

    def _lose(self, now_ms: int) -> tuple[Effect, ...]:
        """Not a member any more: others may have what is owned."""
        self._reset()
        self._prepare()
        if self.is_working:
            self._become(S.REVOKING)
        return self.poll(now_ms)

    def _fail(self, error: HeadraceError) -> tuple[Effect, ...]:
        effects = () if isinstance(error, FencedInstanceIdError) else self._leave(str(error))
        self._reset()
        self.error = error
        self._become(S.FAILED)
        return effects

    def _reset(self) -> None:
        self._note_former()
        self.member_id, self.generation_id = "", -1
        self._asked = self._beat = self._assignor = None
        self._divided, self._counts, self._must_join = (), None, False
        if not self.is_working:
            self.work = None

    # --- beating and leaving ----------------------------------------------------------------------------

    def _beat_now(self, now_ms: int) -> Ask:
        config = self.config
        request = HeartbeatRequest(
            config.group_id, self.generation_id, self.member_id, config.group_instance_id
        )
        self._beat_at_ms = now_ms + config.heartbeat_interval_ms
        self._beat = Ask(HEARTBEAT, request, config.session_timeout_ms)
        return self._beat

    def _is_late(self, now_ms: int) -> bool:
        return self.is_member and now_ms - self._polled_at_ms >= self.config.max_poll_interval_ms

    def _be_late(self) -> tuple[Effect, ...]:
        effects = self._leave("the user did not ask for records for max.poll.interval.ms")
        self._reset()
        self._become(S.LATE)
        return effects

    def _leave(self, reason: str) -> tuple[Effect, ...]:
        """A static member keeps its place."""
        if not self.member_id or self.config.group_instance_id is not None:
            return ()
        return (self._leaving(reason),)

    def _leaving(self, reason: str) -> Ask:
        config = self.config
        who = LeavingMember(self.member_id, config.group_instance_id, reason[:255])
        return Ask(LEAVE_GROUP, LeaveGroupRequest(config.group_id, (who,)))


def _is_free(claims: Mapping[str, int], member_id: str) -> bool:
    """Does no other member have it, by who claims it and for which generation (below 0: not known)?"""
    mine = claims.get(member_id, -1)
    return all(0 <= generation < mine for other, generation in claims.items() if other != member_id)


def _subscription(member: JoinedMember) -> MemberSubscription:
    told = decode_subscription(member.metadata)
    return MemberSubscription(
        told.topics, told.owned, told.generation_id, member.group_instance_id, told.rack_id, told.user_data
    )
