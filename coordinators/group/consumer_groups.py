"""Consumer-protocol groups (KIP-848) of a shard: requests, records and sessions after a load. Pure.

consumer_heartbeats.py decides on heartbeats, consumer_members.py on expired sessions, classic_consumers.py on
members that use the classic protocol. Source: Kafka GroupMetadataManager.java.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.records.group_records import ConsumerGroupMemberMetadataKey, ConsumerGroupMetadataKey
from ..runtime.ports import Outcome
from .classic_consumers import ClassicConsumers
from .consumer_descriptions import describe_groups
from .consumer_group import ConsumerGroup
from .consumer_heartbeats import ConsumerHeartbeats
from .consumer_members import ConsumerMembers

if TYPE_CHECKING:
    from ...protocol.messages.groups import (
        ConsumerGroupDescribeRequest,
        ConsumerGroupHeartbeatRequest,
        HeartbeatRequest,
        JoinGroupRequest,
        LeaveGroupRequest,
        SyncGroupRequest,
    )
    from ...protocol.metadata.image import MetadataDelta, MetadataImage
    from ...storage_node.embedded.contract import Now
    from ..runtime.ports import Record, ShardContext, Token
    from .classic_groups import ClassicGroups
    from .group import Group


class ConsumerGroups:
    """Dispatches requests and records to the consumer-protocol groups among `groups`."""

    def __init__(self, groups: dict[str, Group], context: ShardContext, classic: ClassicGroups) -> None:
        self._groups = groups
        self._members = ConsumerMembers(groups, context, classic.adopt)
        self._heartbeats = ConsumerHeartbeats(self._members)
        self._classic = ClassicConsumers(self._members, self._heartbeats, classic.ids)

    # --- requests ---------------------------------------------------------------------------------------

    def consumer_group_heartbeat(
        self, body: ConsumerGroupHeartbeatRequest, token: Token, now: Now
    ) -> Outcome:
        """Join, heartbeat or leave. Errors: KafkaErrors, which change nothing."""
        return self._heartbeats.heartbeat(body, token, now)

    def consumer_group_describe(self, body: ConsumerGroupDescribeRequest, token: Token, now: Now) -> Outcome:
        del now
        outcome = Outcome()
        members = self._members
        outcome.answer(token, describe_groups(body, self._groups, members.topics, members.assignor_names))
        return outcome

    # --- members that use the classic protocol --------------------------------------------------------------

    def join(self, body: JoinGroupRequest, token: Token, now: Now) -> Outcome:
        """JoinGroup to a consumer-protocol group that has members."""
        return self._classic.join(body, token, now)

    def sync(self, body: SyncGroupRequest, token: Token, now: Now) -> Outcome:
        return self._classic.sync(body, token, now)

    def heartbeat(self, body: HeartbeatRequest, token: Token, now: Now) -> Outcome:
        return self._classic.heartbeat(body, token, now)

    def leave(self, body: LeaveGroupRequest, token: Token, now: Now) -> Outcome:
        return self._classic.leave(body, token, now)

    # --- records and events -----------------------------------------------------------------------------

    def replay(self, record: Record) -> None:
        """Apply a record of one of the protocol's seven types."""
        group = self._groups.get(record.key.group)
        if not isinstance(group, ConsumerGroup):
            if record.value is None:
                return
            group = self._groups[record.key.group] = ConsumerGroup(record.key.group)
        group.apply(record)
        if isinstance(record.key, ConsumerGroupMemberMetadataKey) and record.value is None:
            self._members.reported.pop((group.group_id, record.key.member_id), None)
        if isinstance(record.key, ConsumerGroupMetadataKey) and record.value is None:
            del self._groups[group.group_id]
            self._heartbeats.forget(group.group_id)

    def on_loaded(self, now: Now) -> Outcome:
        """Start a new session for every member, and a full rebalance timeout for those that have to
        revoke."""
        for group in self._groups.values():
            if isinstance(group, ConsumerGroup):
                for member in group.members.values():
                    self._members.begin_session(group.group_id, member, now)
        return Outcome()

    def on_metadata(self, image: MetadataImage, delta: MetadataDelta | None, now: Now) -> Outcome:
        """Groups check their topics at the next heartbeat of any member."""
        del now
        if delta is None or delta.topics_created or delta.topics_removed:
            self._heartbeats.topics_changed_at = image.offset
        return Outcome()
