"""A member of a consumer group (KIP-848): it sends its subscription and its partitions. Pure.

The protocol that it shares with members of streams groups is in heartbeat_member.py. Source: Kafka
ConsumerMembershipManager.java, ConsumerHeartbeatRequestManager.java.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...protocol.errors import ConfigError
from ...protocol.messages.groups import ConsumerGroupHeartbeatRequest, TopicIdPartitions
from ...protocol.messages.registry import CONSUMER_GROUP_HEARTBEAT
from ...protocol.model import TopicPartition
from .heartbeat_member import JOIN_EPOCH, HeartbeatMember
from .member import ChangeKind, MemberConfig, OwnershipChange
from .states import MemberState

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ..cluster.backoff import Backoff

S = MemberState


class ModernMember(HeartbeatMember):
    """`member_id` is a UUID in text that the client has chosen."""

    api = CONSUMER_GROUP_HEARTBEAT
    sent_on_change = (
        ("rack_id",),
        ("subscribed_topic_names",),
        ("subscribed_topic_regex",),
        ("server_assignor",),
        ("owned",),
    )

    def __init__(self, config: MemberConfig, member_id: str, backoff: Backoff) -> None:
        super().__init__(config, member_id, backoff)
        self._topics: tuple[str, ...] | None = None  # None: not subscribed
        self._regex: str | None = None
        self._names: dict[bytes, str] = {}  # topic id -> name, from the metadata
        self._ids: dict[TopicPartition, bytes] = {}  # topic ids of `owned`
        self._adopting_ids: dict[TopicPartition, bytes] = {}  # topic ids of an ASSIGNED `pending`
        self._target: frozenset[tuple[bytes, int]] = frozenset()

    # --- calls of the consumer --------------------------------------------------------------------------

    def subscribe(self, topics: Iterable[str], regex: str | None = None) -> None:
        wanted = () if regex is not None else tuple(sorted(set(topics)))
        if (wanted, regex) != (self._topics, self._regex):
            self._topics, self._regex = wanted, regex
            self._heartbeat_at_ms = 0

    def enforce_rebalance(self, reason: str) -> None:
        """Errors: ConfigError, always."""
        raise ConfigError("under group.protocol=consumer the coordinator alone decides when to rebalance")

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

    # --- the target -------------------------------------------------------------------------------------

    def _take_response(self, response: Any) -> None:
        if response.assignment is not None:
            self._target = frozenset(
                (topic.topic_id, partition) for topic in response.assignment for partition in topic.partitions
            )

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
            self.pending = OwnershipChange(ChangeKind.ASSIGNED, tuple(sorted(new)))
            self._become(S.ADOPTING)
        else:
            self.pending = None
            is_reported = self._acknowledged is not None and self._acknowledged.owned == self._owned_by_id()
            self._become(S.STABLE if is_reported else S.ACKNOWLEDGING)

    def _change_done(self, change: OwnershipChange) -> None:
        if change.kind is ChangeKind.ASSIGNED:
            self._ids |= self._adopting_ids
            self._is_first = False
        self._ids = {tp: topic_id for tp, topic_id in self._ids.items() if tp in self.owned}

    def _drop_target(self) -> None:
        self._target = frozenset()

    # --- heartbeats -------------------------------------------------------------------------------------

    @property
    def _is_subscribed(self) -> bool:
        return self._topics is not None

    @property
    def _can_join(self) -> bool:
        """The first heartbeat needs topics, or a regular expression: it waits until a pattern matches one."""
        return bool(self._topics or self._regex)

    @property
    def _has_assignment(self) -> bool:
        return bool(self.owned)

    def _drop_subscription(self) -> None:
        self._topics = self._regex = None

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

    def _full_request(self) -> ConsumerGroupHeartbeatRequest:
        config = self.config
        return ConsumerGroupHeartbeatRequest(
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

    def _leave_request(self, epoch: int) -> ConsumerGroupHeartbeatRequest:
        config = self.config
        return ConsumerGroupHeartbeatRequest(config.group_id, self.member_id, epoch, config.group_instance_id)
