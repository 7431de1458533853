"""JoinGroup of the classic protocol: who may become a member, and whether the group rebalances for it. Pure.

Source: Kafka GroupMetadataManager.java (classicGroupJoin...), KIP-345 (static members), KIP-394 (member ids),
KIP-814 (a leader that comes back skips assigning).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from ...protocol.errors import (
    GroupMaxSizeReachedError,
    InconsistentGroupProtocolError,
    InvalidRequestError,
    InvalidSessionTimeoutError,
    MemberIdRequiredError,
    UnknownMemberIdError,
)
from ...runtime.config import MAX_INT
from ..runtime.failures import as_seen
from ..runtime.ports import Outcome
from ..runtime.routing import MAX_ID_LENGTH
from .classic_group import ClassicGroup
from .classic_member import ClassicMember
from .classic_states import ClassicState
from .group import fenced_instance
from .rebalances import answer_join_error, answer_sync_error, join_error, join_response, wait_with_join

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...protocol.errors import KafkaError
    from ...protocol.messages.groups import JoinGroupRequest
    from ...storage_node.configs.coordinator_config import CoordinatorConfig
    from ..runtime.ports import Now, Surroundings, Token
    from .group import Group
    from .member_ids import MemberIds
    from .rebalances import Rebalances

_S = ClassicState
# Bound: each id that was given away takes memory for a session timeout, and costs the asker nothing.
MAX_PENDING_JOINS = 10_000
# Bounds: of one member, which is kept before a record has to hold it; a batch of the log takes 1 MiB, if its
# max.message.bytes was not raised, for all members together.
MAX_PROTOCOLS = 100
MAX_METADATA_BYTES = 1024 * 1024


class _Join(NamedTuple):
    """One request that may be decided, and what is decided on it."""

    group: ClassicGroup
    body: JoinGroupRequest
    token: Token
    now: Now
    outcome: Outcome


class Joining:
    """JoinGroup, to classic groups and to groups that it makes."""

    def __init__(
        self, groups: dict[str, Group], around: Surroundings, rebalances: Rebalances, ids: MemberIds
    ) -> None:
        self._groups = groups
        self._around = around
        self._rebalances = rebalances
        self._ids = ids
        self._founding: dict[str, ClassicGroup] = {}  # made by a request whose records are not applied yet

    def join(self, body: JoinGroupRequest, token: Token, now: Now) -> Outcome:
        """Answered when the group has rebalanced, or at once if it need not."""
        check_join(body, token, self._around.config.now)
        before = self._groups.get(body.group_id)
        group = before if isinstance(before, ClassicGroup) else ClassicGroup(body.group_id, now.wall_ms)
        if group is not before and before is not None and not before.is_empty:
            raise InconsistentGroupProtocolError(f"the members of {body.group_id} speak the new protocol")
        if group is not before and body.member_id:
            raise UnknownMemberIdError(f"there is no group {body.group_id}")
        join = _Join(group, body, token, now, Outcome())
        if not self._has_room(group, body):
            self._refuse(join)
            return join.outcome
        if not group.supports(body.protocol_type, body.protocols):
            raise InconsistentGroupProtocolError(f"{body.group_id} shares no assignor with the member")
        if group is not before:
            self._found(join, before)
        if body.member_id:
            self._join_known(join)
        else:
            self._join_new(join)
        return join.outcome

    def founded(self, group_id: str) -> ClassicGroup | None:
        """The group that a request has made, once: its first record is in the log."""
        return self._founding.pop(group_id, None)

    def _has_room(self, group: ClassicGroup, body: JoinGroupRequest) -> bool:
        """While the group rebalances those count that have joined already, so that the last ones are turned
        away if the limit was lowered. A static member that comes back is none more."""
        if not body.member_id and len(group.pending_joins) >= MAX_PENDING_JOINS:
            return False
        if group.is_empty:
            return True
        limit = self._around.config.now.group_max_size
        member = group.members.get(
            body.member_id or group.static_members.get(body.group_instance_id or "", "")
        )
        if group.state is _S.PREPARING_REBALANCE:
            return (member is not None and member.joining is not None) or group.joining_count < limit
        return member is not None or group.member_count < limit

    def _refuse(self, join: _Join) -> None:
        group, body, token, now, outcome = join
        full = GroupMaxSizeReachedError(f"{body.group_id} has {group.member_count} members")
        outcome.answer(token, join_error(full))
        member = group.members.get(body.member_id)
        if member is not None:
            self._rebalances.remove(group, member, outcome)
            self._rebalances.complete_if_all_joined(group, now, outcome)

    def _found(self, join: _Join, before: Group | None) -> None:
        """The group is there once its first record is; one of the other protocol, which is empty, goes."""
        group, token, outcome = join.group, join.token, join.outcome
        outcome.records += before.tombstones() if before is not None else []
        outcome.records.append(group.as_record({}))
        self._founding[group.group_id] = group

        def failed(error: KafkaError, now: Now) -> Outcome:
            del now
            del self._founding[group.group_id]
            self._rebalances.forget(group)
            return _told(token, error)

        outcome.on_failed = failed

    # --- who is not known --------------------------------------------------------------------------------

    def _join_new(self, join: _Join) -> None:
        """A dynamic member is given an id, and joins with it: else one whose answer was lost would leave a
        member behind with each attempt."""
        group, body, token, now, outcome = join
        instance_id = body.group_instance_id
        member_id = self._ids.new(instance_id or body.client_id or token.client_id, now)
        if instance_id is not None and instance_id in group.static_members:
            self._replace(join, group.members[group.static_members[instance_id]], member_id)
        elif instance_id is None and body.requires_member_id:
            group.pending_joins.add(member_id)
            self._rebalances.expect(group.group_id, member_id, body.session_timeout_ms, now)
            again = MemberIdRequiredError("join again with this member id")
            outcome.answer(token, join_error(again, member_id))
        else:
            self._add(join, member_id)

    def _add(self, join: _Join, member_id: str) -> None:
        group, body, token, now, outcome = join
        member = ClassicMember(
            member_id,
            body.group_instance_id,
            body.client_id or token.client_id,
            body.client_host or token.client_host,
            body.rebalance_timeout_ms,
            body.session_timeout_ms,
            body.protocols,
            joining=token,
            is_new=True,
        )
        if group.state is _S.PREPARING_REBALANCE and group.previous_state is _S.EMPTY:
            group.member_was_added = True
        group.add(member, body.protocol_type)
        self._rebalances.begin_session(group, member, now)
        self._rebalances.prepare_or_complete(group, now, outcome)

    # --- who is known ------------------------------------------------------------------------------------

    def _join_known(self, join: _Join) -> None:
        group, body, token, now, outcome = join
        if body.member_id in group.pending_joins:
            if body.group_instance_id is not None:
                raise InvalidRequestError("a member with an instance id is given no member id to join with")
            self._add(join, body.member_id)
            return
        member = group.check_member(body.member_id, body.group_instance_id)
        if _need_not_rebalance(group, member, body):
            outcome.answer(token, join_response(group, member))
            return
        _update(member, body)
        wait_with_join(member, token, outcome)
        self._rebalances.prepare_or_complete(group, now, outcome)

    # --- static members that come back -------------------------------------------------------------------

    def _replace(self, join: _Join, member: ClassicMember, new_id: str) -> None:
        """The member goes on under a new id, which fences who had the old one. In a stable group it keeps its
        assignment, without a rebalance, as long as the assignor stays the same."""
        group, body, token, now, outcome = join
        before = replace(member)
        fenced = fenced_instance(body.group_instance_id, new_id)
        answer_join_error(member, fenced, outcome)
        answer_sync_error(member, fenced, outcome)
        self._rebalances.end_session(group.group_id, member.member_id)
        group.rename(member, new_id)
        _update(member, body)
        self._rebalances.begin_session(group, member, now)
        if group.state is _S.STABLE and group.vote() == group.protocol:
            assignments = {each.member_id: each.assignment for each in group.members.values()}
            outcome.records.append(group.as_record(assignments))
            outcome.answer(token, join_response(group, member, skip_assignment=group.leader == new_id))
            outcome.on_failed = self._undo_replacing(join, member, before)
            return
        member.joining = token
        if group.state is _S.COMPLETING_REBALANCE:
            self._rebalances.prepare(group, now, outcome)  # the leader assigns to the old id
        else:
            self._rebalances.prepare_or_complete(group, now, outcome)

    def _undo_replacing(
        self, join: _Join, member: ClassicMember, before: ClassicMember
    ) -> Callable[[KafkaError, Now], Outcome]:
        """It is not in the log: who had the place still has it."""
        group = join.group

        def failed(error: KafkaError, now: Now) -> Outcome:
            self._rebalances.end_session(group.group_id, member.member_id)
            group.rename(member, before.member_id)
            member.protocols = before.protocols
            member.rebalance_timeout_ms = before.rebalance_timeout_ms
            member.session_timeout_ms = before.session_timeout_ms
            self._rebalances.begin_session(group, member, now)
            return _told(join.token, error)

        return failed


def _need_not_rebalance(group: ClassicGroup, member: ClassicMember, body: JoinGroupRequest) -> bool:
    """It wants what it wanted before: its answer was lost, and the generation is still good. A leader of a
    stable group that joins again has seen topics change, and is to assign anew."""
    if group.state not in (_S.STABLE, _S.COMPLETING_REBALANCE) or member.protocols != body.protocols:
        return False
    return group.state is _S.COMPLETING_REBALANCE or group.leader != member.member_id


def _update(member: ClassicMember, body: JoinGroupRequest) -> None:
    member.protocols = body.protocols
    member.rebalance_timeout_ms = body.rebalance_timeout_ms
    member.session_timeout_ms = body.session_timeout_ms


def _told(token: Token, error: KafkaError) -> Outcome:
    """The request could not be written."""
    outcome = Outcome()
    outcome.answer(token, as_seen(error))
    return outcome


def check_join(body: JoinGroupRequest, token: Token, config: CoordinatorConfig) -> None:
    """What a record can hold, of groups of either protocol: what it cannot would stop the whole group.

    Errors: InvalidSessionTimeoutError, InvalidRequestError.
    """
    low, high = config.group_min_session_timeout_ms, config.group_max_session_timeout_ms
    if not low <= body.session_timeout_ms <= high:
        raise InvalidSessionTimeoutError(f"{body.session_timeout_ms} ms is not within {low}..{high} ms")
    if not 0 <= body.rebalance_timeout_ms <= MAX_INT:
        raise InvalidRequestError(f"a rebalance timeout of {body.rebalance_timeout_ms} ms")
    if len(body.protocols) > MAX_PROTOCOLS:
        raise InvalidRequestError(f"{len(body.protocols)} assignors, at most {MAX_PROTOCOLS} are allowed")
    if sum(len(each.metadata) for each in body.protocols) > MAX_METADATA_BYTES:
        raise InvalidRequestError(f"more than {MAX_METADATA_BYTES} bytes for the assignors of one member")
    names = (
        body.member_id,
        body.group_instance_id or "",
        body.client_id or token.client_id,
        body.client_host or token.client_host,
        body.protocol_type,
        *(each.name for each in body.protocols),
    )
    if max(map(len, names)) > MAX_ID_LENGTH:
        raise InvalidRequestError(f"a name of a member has at most {MAX_ID_LENGTH} characters")
