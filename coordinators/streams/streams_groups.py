"""Streams groups (KIP-1071) of a shard: requests, records and sessions after a load. Pure.

streams_heartbeats.py decides on heartbeats, streams_members.py on expired sessions and delayed assignments.
Source: Kafka GroupMetadataManager.java.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.records.streams_group_records import StreamsGroupMemberMetadataKey, StreamsGroupMetadataKey
from ..runtime.ports import Outcome
from .streams_descriptions import describe_groups
from .streams_group import StreamsGroup
from .streams_heartbeats import StreamsHeartbeats
from .streams_members import StreamsMembers

if TYPE_CHECKING:
    from ...protocol.messages.streams_groups import StreamsGroupDescribeRequest, StreamsGroupHeartbeatRequest
    from ...storage_node.embedded.contract import Now
    from ..group.group import Group
    from ..runtime.ports import Record, ShardContext, Token


class StreamsGroups:
    """Dispatches requests and records to the streams groups among `groups`."""

    def __init__(self, groups: dict[str, Group], context: ShardContext) -> None:
        self._groups = groups
        self._members = StreamsMembers(groups, context)
        self._heartbeats = StreamsHeartbeats(self._members)

    def heartbeat(self, body: StreamsGroupHeartbeatRequest, token: Token, now: Now) -> Outcome:
        """Join, heartbeat or leave. Errors: KafkaErrors, which change nothing."""
        return self._heartbeats.heartbeat(body, token, now)

    def describe(self, body: StreamsGroupDescribeRequest, token: Token, now: Now) -> Outcome:
        del now
        outcome = Outcome()
        outcome.answer(token, describe_groups(body, self._members))
        return outcome

    def replay(self, record: Record) -> None:
        """Apply a record of one of the seven types."""
        key = record.key
        group = self._groups.get(key.group)
        if not isinstance(group, StreamsGroup):
            if record.value is None:
                return
            group = self._groups[key.group] = StreamsGroup(key.group)
        group.apply(record)
        if record.value is not None:
            return
        if isinstance(key, StreamsGroupMemberMetadataKey):
            self._members.member_removed(group, key.member_id)
        elif isinstance(key, StreamsGroupMetadataKey):
            del self._groups[key.group]
            self._members.group_removed(key.group)
            self._heartbeats.forget(key.group)

    def on_peer_gone(self, session: int, now: Now) -> None:
        """A connection was closed."""
        self._members.connections.closed(session, now)

    def on_loaded(self, now: Now) -> None:
        """Start a new session for every member, and a full rebalance timeout for those that have to
        revoke."""
        for group in self._groups.values():
            if isinstance(group, StreamsGroup):
                for member in group.members.values():
                    self._members.begin_session(group.group_id, member, now)
