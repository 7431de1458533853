"""JoinGroup of the classic protocol: validation, new and returning members, rebalances. Pure.

Source: Kafka GroupMetadataManager.java (classicGroupJoin...), KIP-345 (static members), KIP-394 (member ids),
KIP-814 (a returning leader skips the assignment).
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
from ..runtime.client_errors import client_error
from ..runtime.ports import Outcome
from ..runtime.routing import MAX_ID_LENGTH
from .classic_group import ClassicGroup
from .classic_member import ClassicMember
from .classic_states import ClassicState
from .group import fenced_instance
from .rebalances import answer_join_error, answer_sync_error, join_error, join_response, park_join

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...protocol.errors import KafkaError
    from ...protocol.messages.groups import JoinGroupRequest
    from ...storage_node.configs.coordinator_config import CoordinatorConfig
    from ...storage_node.embedded.contract import Now
    from ..runtime.ports import ShardContext, Token
    from .group import Group
    from .member_ids import MemberIds
    from .rebalances import Rebalances

_S = ClassicState
# Bound: each pending member id takes memory for a session timeout, at no cost for the client.
MAX_PENDING_JOINS = 10_000
# Bounds of one member's data: the records of all members together must fit into one batch of
# max.message.bytes (default 1 MiB).
MAX_PROTOCOLS = 100
MAX_METADATA_BYTES = 1024 * 1024


class _Join(NamedTuple):
    """A validated request and its outcome so far."""

    group: ClassicGroup
    body: JoinGroupRequest
    token: Token
    now: Now
    outcome: Outcome


class JoinGroupHandler:
    """Handles JoinGroup for classic groups and creates new ones."""

    def __init__(
        self, groups: dict[str, Group], context: ShardContext, rebalances: Rebalances, ids: MemberIds
    ) -> None:
        self._groups = groups
        self._context = context
        self._rebalances = rebalances
        self._ids = ids
        self._new_groups: dict[
            str, ClassicGroup
        ] = {}  # created by requests whose records are not applied yet

    def join(self, body: JoinGroupRequest, token: Token, now: Now) -> Outcome:
        """The response waits until the rebalance completes, unless no rebalance is needed."""
        check_join(body, token, self._context.config.now)
        before = self._groups.get(body.group_id)
        group = before if isinstance(before, ClassicGroup) else ClassicGroup(body.group_id, now.wall_ms)
        if group is not before and before is not None and not before.is_empty:
            raise InconsistentGroupProtocolError(
                f"group {body.group_id!r} uses the {before.group_type.value} protocol"
            )
        if group is not before and body.member_id:
            raise UnknownMemberIdError(f"group {body.group_id!r} does not exist")
        join = _Join(group, body, token, now, Outcome())
        if not self._has_room(group, body):
            self._refuse(join)
            return join.outcome
        if not group.supports(body.protocol_type, body.protocols):
            raise InconsistentGroupProtocolError(
                f"group {body.group_id!r} and the member have no assignor in common"
            )
        if group is not before:
            self._create_group(join, before)
        if body.member_id:
            self._join_known(join)
        else:
            self._join_new(join)
        return join.outcome

    def take_new_group(self, group_id: str) -> ClassicGroup | None:
        """Remove and return the new group: its first record is being applied."""
        return self._new_groups.pop(group_id, None)

    def _has_room(self, group: ClassicGroup, body: JoinGroupRequest) -> bool:
        """Whether group.max.size allows this member. During a rebalance only joined members count, so that a
        lowered limit rejects the last ones. A returning static member replaces itself."""
        if not body.member_id and len(group.pending_joins) >= MAX_PENDING_JOINS:
            return False
        if group.is_empty:
            return True
        limit = self._context.config.now.group_max_size
        member = group.members.get(
            body.member_id or group.static_members.get(body.group_instance_id or "", "")
        )
        if group.state is _S.PREPARING_REBALANCE:
            return (member is not None and member.joining is not None) or group.joining_count < limit
        return member is not None or group.member_count < limit

    def _refuse(self, join: _Join) -> None:
        group, body, token, now, outcome = join
        full = GroupMaxSizeReachedError(
            f"group {body.group_id!r} has {group.member_count} members, the most that group.max.size allows"
        )
        outcome.answer(token, join_error(full))
        member = group.members.get(body.member_id)
        if member is not None:
            self._rebalances.remove(group, member, outcome)
            self._rebalances.complete_if_all_joined(group, now, outcome)

    def _create_group(self, join: _Join, before: Group | None) -> None:
        """Create the group; it exists once its first record is applied. An empty group of
        another protocol is replaced."""
        group, token, outcome = join.group, join.token, join.outcome
        outcome.records += before.tombstones() if before is not None else []
        outcome.records.append(group.as_record({}))
        self._new_groups[group.group_id] = group

        def failed(error: KafkaError, now: Now) -> Outcome:
            del now
            del self._new_groups[group.group_id]
            self._rebalances.forget(group)
            return _error_outcome(token, error)

        outcome.on_failed = failed

    # --- new members ----------------------------------------------------------------------------------------

    def _join_new(self, join: _Join) -> None:
        """Return a member id to a dynamic member, which rejoins with it: a client that retries after a lost
        response must not leave a member behind."""
        group, body, token, now, outcome = join
        instance_id = body.group_instance_id
        member_id = self._ids.new(instance_id or body.client_id or token.client_id, now)
        if instance_id is not None and instance_id in group.static_members:
            self._replace(join, group.members[group.static_members[instance_id]], member_id)
        elif instance_id is None and body.requires_member_id:
            group.pending_joins.add(member_id)
            self._rebalances.expect(group.group_id, member_id, body.session_timeout_ms, now)
            again = MemberIdRequiredError("rejoin with this member id")
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
        self._rebalances.prepare_or_complete_rebalance(group, now, outcome)

    # --- known members --------------------------------------------------------------------------------------

    def _join_known(self, join: _Join) -> None:
        group, body, token, now, outcome = join
        if body.member_id in group.pending_joins:
            if body.group_instance_id is not None:
                raise InvalidRequestError(
                    f"member id {body.member_id!r} was issued to a dynamic member, the request has an"
                    " instance id"
                )
            self._add(join, body.member_id)
            return
        member = group.check_member(body.member_id, body.group_instance_id)
        if _need_not_rebalance(group, member, body):
            outcome.answer(token, join_response(group, member))
            return
        _update(member, body)
        park_join(member, token, outcome)
        self._rebalances.prepare_or_complete_rebalance(group, now, outcome)

    # --- returning static members ---------------------------------------------------------------------------

    def _replace(self, join: _Join, member: ClassicMember, new_id: str) -> None:
        """Replace the member's id, which fences the client with the old id. In a stable group the member
        keeps its assignment without a rebalance if the assignor stays the same.

        A leader that returns takes the present partition counts for those of the assignment (KIP-814), so it
        would not notice partitions that were created while it was away, and no member would read them: then
        the group rebalances, unlike in Kafka."""
        group, body, token, now, outcome = join
        before = replace(member)
        fenced = fenced_instance(body.group_instance_id, new_id)
        answer_join_error(member, fenced, outcome)
        answer_sync_error(member, fenced, outcome)
        self._rebalances.end_session(group.group_id, member.member_id)
        group.rename(member, new_id)
        _update(member, body)
        self._rebalances.begin_session(group, member, now)
        skips = group.leader == new_id
        is_complete = not (skips and group.has_unassigned_partitions(self._context.image.topics))
        if group.state is _S.STABLE and group.vote() == group.protocol and is_complete:
            assignments = {each.member_id: each.assignment for each in group.members.values()}
            outcome.records.append(group.as_record(assignments))
            outcome.answer(token, join_response(group, member, skip_assignment=skips))
            outcome.on_failed = self._undo_replacing(join, member, before)
            return
        member.joining = token
        if group.state is _S.COMPLETING_REBALANCE:
            self._rebalances.prepare(group, now, outcome)  # the leader's assignment is for the old member id
        else:
            self._rebalances.prepare_or_complete_rebalance(group, now, outcome)

    def _undo_replacing(
        self, join: _Join, member: ClassicMember, before: ClassicMember
    ) -> Callable[[KafkaError, Now], Outcome]:
        """Undo `_replace`: the append failed, so the old member id stays valid."""
        group = join.group

        def failed(error: KafkaError, now: Now) -> Outcome:
            self._rebalances.end_session(group.group_id, member.member_id)
            group.rename(member, before.member_id)
            member.protocols = before.protocols
            member.rebalance_timeout_ms = before.rebalance_timeout_ms
            member.session_timeout_ms = before.session_timeout_ms
            self._rebalances.begin_session(group, member, now)
            return _error_outcome(join.token, error)

        return failed


def _need_not_rebalance(group: ClassicGroup, member: ClassicMember, body: JoinGroupRequest) -> bool:
    """The subscription is unchanged and the generation valid: the last response was lost. A leader that
    rejoins a stable group has seen topic changes and must assign again."""
    if group.state not in (_S.STABLE, _S.COMPLETING_REBALANCE) or member.protocols != body.protocols:
        return False
    return group.state is _S.COMPLETING_REBALANCE or group.leader != member.member_id


def _update(member: ClassicMember, body: JoinGroupRequest) -> None:
    member.protocols = body.protocols
    member.rebalance_timeout_ms = body.rebalance_timeout_ms
    member.session_timeout_ms = body.session_timeout_ms


def _error_outcome(token: Token, error: KafkaError) -> Outcome:
    """The response if the append fails."""
    outcome = Outcome()
    outcome.answer(token, client_error(error))
    return outcome


def check_join(body: JoinGroupRequest, token: Token, config: CoordinatorConfig) -> None:
    """Check the request of either protocol against session timeouts and record sizes: an oversized member
    would block every append of the group.

    Errors: InvalidSessionTimeoutError, InvalidRequestError.
    """
    low, high = config.group_min_session_timeout_ms, config.group_max_session_timeout_ms
    if not low <= body.session_timeout_ms <= high:
        raise InvalidSessionTimeoutError(
            f"session timeout {body.session_timeout_ms} ms is not within {low}..{high} ms"
        )
    if not 0 <= body.rebalance_timeout_ms <= MAX_INT:
        raise InvalidRequestError(f"rebalance timeout {body.rebalance_timeout_ms} ms is invalid")
    if len(body.protocols) > MAX_PROTOCOLS:
        raise InvalidRequestError(f"{len(body.protocols)} assignors, at most {MAX_PROTOCOLS} are allowed")
    if sum(len(each.metadata) for each in body.protocols) > MAX_METADATA_BYTES:
        raise InvalidRequestError(
            f"the subscriptions of one member have more than {MAX_METADATA_BYTES} bytes"
        )
    names = (
        body.member_id,
        body.group_instance_id or "",
        body.client_id or token.client_id,
        body.client_host or token.client_host,
        body.protocol_type,
        *(each.name for each in body.protocols),
    )
    if max(map(len, names)) > MAX_ID_LENGTH:
        raise InvalidRequestError(
            f"member ids, client ids and assignor names have at most {MAX_ID_LENGTH} characters"
        )
