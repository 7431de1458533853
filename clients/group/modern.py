"""A member of a group under the new protocol (KIP-848): it beats, the coordinator assigns. Pure.

The member tells what it wants and what it has, whenever that changed; an answer may bring a new target. What
the target lacks is given up first, and reported at once, so that others may have it; then what is new is
taken over. A heartbeat without an answer is sent again in full: the coordinator does not mind.
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
from .member import Ask, Effect, Forget, MemberConfig, MemberCore, Work, WorkKind
from .states import MODERN_TRANSITIONS, MemberState

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ..cluster.backoff import Backoff

S = MemberState
# Fields that a heartbeat has only when they changed.
TOLD_ONCE = ("rack_id", "subscribed_topic_names", "subscribed_topic_regex", "server_assignor", "owned")
NOT_A_MEMBER = (UnknownMemberIdError, FencedMemberEpochError, GroupIdNotFoundError)
JOIN_EPOCH, LEAVE_EPOCH, LEAVE_STATIC_EPOCH = 0, -1, -2


class ModernMember(MemberCore):
    """One member. `member_id` is its own choice, a UUID in text."""

    transitions = MODERN_TRANSITIONS

    def __init__(self, config: MemberConfig, member_id: str, backoff: Backoff) -> None:
        super().__init__(config)
        self.member_id = member_id
        self._backoff, self._failures = backoff, 0
        self._topics: tuple[str, ...] | None = None  # None: does not want to be a member
        self._regex: str | None = None
        self._names: dict[bytes, str] = {}  # of the topics that are known, by id
        self._ids: dict[TopicPartition, bytes] = {}  # of what is owned
        self._taking: dict[TopicPartition, bytes] = {}  # of what is being taken over
        self._target: frozenset[tuple[bytes, int]] = frozenset()
        self._is_first = True  # the first share since joining is told even if it is empty
        self._told: ConsumerGroupHeartbeatRequest | None = None  # what the coordinator knows of this member
        self._beat: Ask | None = None
        self._beat_at_ms = 0
        self._interval_ms = config.heartbeat_interval_ms
        self._polled_at_ms = 0

    # --- what the user wants and does -------------------------------------------------------------------

    def subscribe(self, topics: Iterable[str], regex: str | None = None) -> None:
        """Be a member that reads these topics, or those that match the coordinator's regular expression."""
        wanted = () if regex is not None else tuple(sorted(set(topics)))
        if (wanted, regex) != (self._topics, self._regex):
            self._topics, self._regex = wanted, regex
            self._beat_at_ms = 0

    def unsubscribe(self, *, leave: bool, reason: str) -> tuple[Effect, ...]:
        """Stop being a member, or becoming one; a static one that does not leave for good is told to come
        back."""
        effects: tuple[Effect, ...] = ()
        is_known = self.is_member or self._beat is not None  # which may be the one that joins
        if is_known and (leave or self.config.group_instance_id is not None):
            effects = (self._leaving(LEAVE_EPOCH if leave else LEAVE_STATIC_EPOCH),)
        self._topics = self._regex = self.error = None
        self._reset()
        self._become(S.UNJOINED)
        return effects

    def enforce_rebalance(self, reason: str) -> None:
        """The coordinator decides when it shares out anew. Errors: ConfigError."""
        raise ConfigError("under group.protocol=consumer the coordinator alone decides when to rebalance")

    def polled(self, now_ms: int) -> None:
        """The user asks for records, or has asked since the last call."""
        self._polled_at_ms = now_ms
        if self.state is S.LATE:
            self._begin_anew()

    def heard_error(self) -> None:
        """The user was told `error`. Being fenced stays; after anything else the member tries anew."""
        if not isinstance(self.error, FencedInstanceIdError):
            self.error = None
            self._begin_anew()

    def on_done(self, now_ms: int) -> tuple[Effect, ...]:
        """The user's side has done its work."""
        work = self._done()
        if work.kind is WorkKind.ASSIGNED:
            self._ids |= self._taking
        self._ids = {tp: topic_id for tp, topic_id in self._ids.items() if tp in self.owned}
        if self.state is S.REVOKING and not self.is_member:
            self._begin_anew()
        elif self.state in (S.REVOKING, S.ADOPTING):
            self._beat_at_ms = 0
            self._reconcile()
        return self.poll(now_ms)

    @property
    def watched(self) -> tuple[str, ...]:
        """Topics that the member must know."""
        return self._topics or ()

    @property
    def lacks_topics(self) -> bool:
        """Whether something was assigned of topics that are not known yet."""
        return any(topic_id not in self._names for topic_id, _ in self._target)

    def topics_changed(self, counts: Mapping[str, int], names: Mapping[bytes, str]) -> None:
        """The topics that are known, by id: an assignment waits for those that are not."""
        if names != self._names:
            self._names = dict(names)
            if self.state in (S.STABLE, S.ACKNOWLEDGING):
                self._reconcile()

    # --- steps ------------------------------------------------------------------------------------------

    def poll(self, now_ms: int) -> tuple[Effect, ...]:
        """All that can be asked now."""
        if self._topics is None or self.state in (S.FAILED, S.LATE):
            return ()
        if self.is_member and now_ms - self._polled_at_ms >= self.config.max_poll_interval_ms:
            return self._be_late()
        if self.state is S.UNJOINED:
            self._begin_anew()
        if not self._is_due(now_ms):
            return ()
        return (self._beat_now(),)

    def next_due_ms(self) -> int | None:
        """When `poll` should be called although nothing was reported; None for never."""
        if self._topics is None or self.state in (S.FAILED, S.LATE):
            return None
        due = [self._polled_at_ms + self.config.max_poll_interval_ms] if self.is_member else []
        if self._beat is None and self._may_beat:
            due.append(self._beat_at_ms)
        return min(due, default=None)

    def on_answer(self, asked: Ask, answer: Any, now_ms: int) -> tuple[Effect, ...]:
        """The coordinator's answer."""
        if asked is not self._beat:
            return ()  # of another life
        self._beat = None
        if answer.error_code:
            return self._refused(error_from_code(answer.error_code, answer.error_detail), now_ms)
        self._failures = 0
        self._told = _merged(self._told, asked.request)
        self.generation_id = answer.member_epoch
        self._interval_ms = answer.heartbeat_interval_ms or self._interval_ms
        self._beat_at_ms = now_ms + self._interval_ms
        if answer.assignment is not None:
            self._target = frozenset(
                (topic.topic_id, partition) for topic in answer.assignment for partition in topic.partitions
            )
        if self.state is S.JOINING:
            self._become(S.ACKNOWLEDGING)
        self._reconcile()
        return self.poll(now_ms)

    def on_failure(self, asked: Ask, error: KafkaError, now_ms: int) -> tuple[Effect, ...]:
        """No answer came."""
        if asked is not self._beat:
            return ()
        self._beat = None
        return self._refused(error, now_ms)

    def refused(self, error: KafkaError, now_ms: int) -> tuple[Effect, ...]:
        """A commit was refused because of who the member is."""
        return self._refused(error, now_ms) if self.is_member else ()

    # --- reconciling ------------------------------------------------------------------------------------

    def _reconcile(self) -> None:
        """What the user's side has to do to come to the target, as far as its topics are known."""
        if self.is_working or not self.is_member:
            return
        owned = {(self._ids[tp], tp.partition): tp for tp in self.owned}
        gone = tuple(tp for place, tp in owned.items() if place not in self._target)
        new = {
            TopicPartition(self._names[topic_id], partition): topic_id
            for topic_id, partition in sorted(self._target - owned.keys())
            if topic_id in self._names
        }
        if gone:
            self.work = Work(WorkKind.REVOKED, gone)
            self._become(S.REVOKING)
        elif new or self._is_first:
            self._taking = new
            self._is_first = False
            self.work = Work(WorkKind.ASSIGNED, tuple(sorted(new)))
            self._become(S.ADOPTING)
        else:
            self.work = None
            is_told = self._told is not None and self._told.owned == self._owned_by_id()
            self._become(S.STABLE if is_told else S.ACKNOWLEDGING)

    def _owned_by_id(self) -> tuple[TopicIdPartitions, ...]:
        """With what the user's side takes over just now: it goes on with that, whatever the target becomes.

        Hazard: of what is not told here the coordinator takes for granted that it was given back.
        """
        ids = {tp: self._ids[tp] for tp in self.owned}
        if self.is_working and self.work is not None and self.work.kind is WorkKind.ASSIGNED:
            ids |= self._taking
        found: dict[bytes, list[int]] = {}
        for tp, topic_id in sorted(ids.items()):
            found.setdefault(topic_id, []).append(tp.partition)
        return tuple(TopicIdPartitions(topic_id, tuple(found[topic_id])) for topic_id in sorted(found))

    # --- heartbeats -------------------------------------------------------------------------------------

    def _is_due(self, now_ms: int) -> bool:
        return self._beat is None and self._may_beat and now_ms >= self._beat_at_ms

    @property
    def _may_beat(self) -> bool:
        """Who joins must name something to read: a pattern that matches nothing yet waits for it."""
        return self.is_member or (self.state is S.JOINING and bool(self._topics or self._regex))

    def _beat_now(self) -> Ask:
        config, told = self.config, self._told
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
        request = full if told is None or not self.is_member else _news(full, told)
        self._beat = Ask(CONSUMER_GROUP_HEARTBEAT, request)
        return self._beat

    def _leaving(self, epoch: int) -> Ask:
        config = self.config
        return Ask(
            CONSUMER_GROUP_HEARTBEAT,
            ConsumerGroupHeartbeatRequest(config.group_id, self.member_id, epoch, config.group_instance_id),
        )

    def _refused(self, error: KafkaError, now_ms: int) -> tuple[Effect, ...]:
        self._told = None  # the next one says everything again
        if isinstance(error, NOT_A_MEMBER) and self.is_member:
            self._reset()
            self._begin_anew()
            return self.poll(now_ms)
        if not error.retriable:
            return self._fail(error)
        self._failures += 1
        self._beat_at_ms = now_ms + self._backoff.wait_ms(self._failures)
        return () if isinstance(error, CoordinatorLoadInProgressError) else (Forget(),)

    # --- beginning and ending ---------------------------------------------------------------------------

    def _begin_anew(self) -> None:
        """Join; what is owned still from an earlier life is lost first."""
        if self.is_working:
            self._become(S.REVOKING)  # what the user's side began goes on; then again
        elif self.owned:
            self.work = Work(WorkKind.LOST, self.owned)
            self._become(S.REVOKING)
        else:
            self._beat_at_ms = 0 if not self._failures else self._beat_at_ms
            self._become(S.JOINING)

    def _reset(self) -> None:
        self._note_former()
        self.generation_id, self._told, self._beat = -1, None, None
        self._target, self._is_first = frozenset(), True
        if not self.is_working:
            self.work = None

    def _be_late(self) -> tuple[Effect, ...]:
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


def _news(
    full: ConsumerGroupHeartbeatRequest, told: ConsumerGroupHeartbeatRequest
) -> ConsumerGroupHeartbeatRequest:
    """Only what the coordinator was not told yet; who the member is stays."""
    changes: dict[str, Any] = {name: None for name in TOLD_ONCE if getattr(full, name) == getattr(told, name)}
    if full.rebalance_timeout_ms == told.rebalance_timeout_ms:
        changes["rebalance_timeout_ms"] = -1
    return msgspec.structs.replace(full, **changes)


def _merged(
    told: ConsumerGroupHeartbeatRequest | None, sent: ConsumerGroupHeartbeatRequest
) -> ConsumerGroupHeartbeatRequest:
    """What the coordinator knows after one more heartbeat."""
    if told is None:
        return sent
    kept: dict[str, Any] = {name: getattr(told, name) for name in TOLD_ONCE if getattr(sent, name) is None}
    if sent.rebalance_timeout_ms == -1:
        kept["rebalance_timeout_ms"] = told.rebalance_timeout_ms
    return msgspec.structs.replace(sent, **kept)
