"""ListGroups, DescribeGroups and DeleteGroups. Pure.

Source: Kafka GroupCoordinatorShard.java, GroupMetadataManager.java.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.errors import GroupIdNotFoundError, KafkaError
from ...protocol.messages.groups import (
    DeletedGroup,
    DeleteGroupsResponse,
    DescribedGroup,
    DescribedMember,
    DescribeGroupsResponse,
    ListGroupsResponse,
)
from ..runtime.ports import Outcome
from .classic_group import ClassicGroup
from .classic_states import ClassicState
from .group import as_listed, is_in_states

if TYPE_CHECKING:
    from ...protocol.messages.groups import DeleteGroupsRequest, DescribeGroupsRequest, ListGroupsRequest
    from ...storage_node.embedded.contract import Now
    from ..runtime.ports import ShardContext, Token
    from .group import Group
    from .group_counters import GroupCounters
    from .offset_store import OffsetStore


class GroupAdmin:
    """Handlers of the admin requests of one group shard."""

    def __init__(
        self, groups: dict[str, Group], context: ShardContext, store: OffsetStore, counters: GroupCounters
    ) -> None:
        self._groups = groups
        self._context = context
        self._store = store
        self._counters = counters

    def list_groups(self, body: ListGroupsRequest, token: Token, now: Now) -> Outcome:
        """The groups of this shard that match the filters of the request."""
        del now
        states = frozenset(state.lower() for state in body.states)
        types = frozenset(kind.lower() for kind in body.types)
        listed = tuple(
            as_listed(group)
            for group in self._groups.values()
            if is_in_states(group, states) and (not types or group.group_type.value in types)
        )
        outcome = Outcome()
        outcome.answer(token, ListGroupsResponse(0, listed))
        return outcome

    def describe(self, body: DescribeGroupsRequest, token: Token, now: Now) -> Outcome:
        del now
        outcome = Outcome()
        outcome.answer(token, DescribeGroupsResponse(tuple(self._described(each) for each in body.group_ids)))
        return outcome

    def _described(self, group_id: str) -> DescribedGroup:
        group = self._groups.get(group_id)
        if not isinstance(group, ClassicGroup):
            missing = GroupIdNotFoundError(f"there is no classic group {group_id}")
            return DescribedGroup(missing.code, group_id, ClassicState.DEAD.value, error_detail=str(missing))
        # until then the members have not agreed on an assignor
        is_stable = group.state is ClassicState.STABLE
        members = tuple(
            DescribedMember(
                member.member_id,
                member.group_instance_id,
                member.client_id,
                member.client_host,
                member.metadata(group.protocol) if is_stable else b"",
                member.assignment if is_stable else b"",
            )
            for member in group.members.values()
        )
        protocol = group.protocol if is_stable else None
        return DescribedGroup(0, group_id, group.state_name, group.protocol_type, protocol or "", members)

    def delete(self, body: DeleteGroupsRequest, token: Token, now: Now) -> Outcome:
        """Delete groups without members, with all their offsets, including those of open transactions."""
        del now
        # the group's own tombstone is the last one: after a partial append the delete can be repeated
        outcome = Outcome(is_divisible=True)
        results = tuple(self._deleted(group_id, outcome) for group_id in body.group_ids)
        outcome.answer(token, DeleteGroupsResponse(results))
        return outcome

    def _deleted(self, group_id: str, outcome: Outcome) -> DeletedGroup:
        group = self._groups.get(group_id)
        try:
            if group is None:
                raise GroupIdNotFoundError(f"there is no group {group_id}")
            group.check_group_delete()
        except KafkaError as error:
            return DeletedGroup(group_id, error.code, str(error))
        offsets = self._store.tombstones(group_id)
        self._counters.offset_deletions += len(offsets)
        outcome.records += [*offsets, *group.tombstones()]
        return DeletedGroup(group_id, 0)
