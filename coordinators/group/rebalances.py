"""Sessions and rebalances of classic groups. Pure.

All of it is soft state: after a load only the last complete generation is known, and every member gets a new
session. Each function adds to the given outcome. Source: Kafka GroupMetadataManager.java.

1. prepare: all members have to rejoin. The first rebalance of an empty group waits for more members.
2. complete_join: all members have joined, or the rebalance timeout passed and the missing ones are removed.
   All members get the new generation; the leader has to send assignments.
3. The leader's SyncGroup writes the assignments (syncing.py). Members that do not sync in time are removed,
   and the group rebalances again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.errors import KafkaError, RebalanceInProgressError, UnknownMemberIdError
from ...protocol.messages.groups import JoinGroupResponse, SyncGroupResponse
from ..runtime.ports import Outcome
from .classic_group import ClassicGroup
from .classic_states import ClassicState

if TYPE_CHECKING:
    from ...storage_node.embedded.contract import Now
    from ..runtime.ports import ShardContext, Token
    from .classic_member import ClassicMember
    from .group import Group
    from .group_state_counts import GroupStateCounts

# A new member cannot heartbeat while its JoinGroup waits, and a client that timed out rejoins under another
# member id: a longer wait means that the member has been abandoned. Source: Kafka's constant.
NEW_MEMBER_JOIN_TIMEOUT_MS = 5 * 60 * 1000
# Members may ask for a rebalance timeout of 0: with no joined member the timer repeats at most this often.
MIN_WAIT_MS = 1_000


class Rebalances:
    """Timers and waiting requests of the classic groups among `groups`."""

    def __init__(
        self, groups: dict[str, Group], context: ShardContext, state_counts: GroupStateCounts
    ) -> None:
        self._groups = groups
        self._context = context
        self._state_counts = state_counts

    def _group(self, group_id: str) -> ClassicGroup | None:
        group = self._groups.get(group_id)
        return group if isinstance(group, ClassicGroup) else None

    # --- sessions ----------------------------------------------------------------------------------------

    def begin_session(self, group: ClassicGroup, member: ClassicMember, now: Now) -> None:
        """Start or renew the member's session."""
        timeout_ms = NEW_MEMBER_JOIN_TIMEOUT_MS if member.is_new else member.session_timeout_ms
        self.expect(group.group_id, member.member_id, timeout_ms, now)

    def expect(self, group_id: str, member_id: str, timeout_ms: int, now: Now) -> None:
        """Remove the member or pending member id after `timeout_ms`, unless its session is renewed."""
        self._context.timers.set(
            ("session", group_id, member_id),
            now.ms + timeout_ms,
            lambda then: self._on_session_expired(group_id, member_id, then),
        )

    def end_session(self, group_id: str, member_id: str) -> None:
        self._context.timers.cancel(("session", group_id, member_id))

    def _on_session_expired(self, group_id: str, member_id: str, now: Now) -> Outcome:
        outcome = Outcome()
        group = self._group(group_id)
        if group is None:
            return outcome
        member = group.members.get(member_id)
        if member is not None and not member.waits:
            self.remove(group, member, outcome)
            self.on_member_removed(group, now, outcome)
        elif member_id in group.pending_joins:
            group.remove(member_id)
            if group.state is ClassicState.PREPARING_REBALANCE and group.all_have_joined:
                self._complete_join(group, now, outcome)
        return outcome

    def remove(self, group: ClassicGroup, member: ClassicMember, outcome: Outcome) -> None:
        """Remove the member; a waiting request gets UNKNOWN_MEMBER_ID, on which the client rejoins."""
        gone = UnknownMemberIdError(f"member {member.member_id!r} was removed from group {group.group_id!r}")
        answer_join_error(member, gone, outcome)
        answer_sync_error(member, gone, outcome)
        self.end_session(group.group_id, member.member_id)
        group.remove(member.member_id)
        self._state_counts.changed(group.group_id)

    def forget(self, group: ClassicGroup) -> None:
        """Cancel all timers of a group that is no longer, or has not become, a classic one."""
        for member_id in [*group.members, *sorted(group.pending_joins)]:
            self.end_session(group.group_id, member_id)
        for kind in ("join", "sync"):
            self._context.timers.cancel((kind, group.group_id))

    def on_member_removed(self, group: ClassicGroup, now: Now, outcome: Outcome) -> None:
        """Rebalance after a member was removed, or complete the join phase if it was the last one missing."""
        if group.can_rebalance and not group.is_empty:
            self.prepare(group, now, outcome)
        elif group.state is ClassicState.PREPARING_REBALANCE and group.all_have_joined:
            self._complete_join(group, now, outcome)

    # --- join phase -----------------------------------------------------------------------------------------

    def prepare_or_complete_rebalance(self, group: ClassicGroup, now: Now, outcome: Outcome) -> None:
        """After a JoinGroup: start a rebalance, or complete the join phase if all have joined."""
        self._state_counts.changed(group.group_id)
        if group.can_rebalance:
            self.prepare(group, now, outcome)
        else:
            self.complete_if_all_joined(group, now, outcome)

    def complete_if_all_joined(self, group: ClassicGroup, now: Now, outcome: Outcome) -> None:
        """The initial rebalance of a group does not complete early: it waits for members that are not known
        yet."""
        is_first = group.previous_state is ClassicState.EMPTY
        if group.state is ClassicState.PREPARING_REBALANCE and not is_first and group.all_have_joined:
            self._complete_join(group, now, outcome)

    def prepare(self, group: ClassicGroup, now: Now, outcome: Outcome) -> None:
        """Start a rebalance: waiting SyncGroup requests get REBALANCE_IN_PROGRESS, other members get it with
        their next heartbeat."""
        if group.state is ClassicState.COMPLETING_REBALANCE:
            self._refuse_syncs(group, now, outcome)
        group.pending_syncs = {}
        self._context.timers.cancel(("sync", group.group_id))
        is_first = group.is_empty
        group.become(ClassicState.PREPARING_REBALANCE, now.wall_ms)
        self._state_counts.changed(group.group_id)
        if is_first:
            delay_ms = self._context.config.now.group_initial_rebalance_delay_ms
            left_ms = max(group.rebalance_timeout_ms - delay_ms, 0)
            group.member_was_added = False
            self._wait_for_first_members(group.group_id, delay_ms, left_ms, now)
        elif group.all_have_joined:
            self._complete_join(group, now, outcome)
        else:
            self._wait_for_joins(group, now)

    def _refuse_syncs(self, group: ClassicGroup, now: Now, outcome: Outcome) -> None:
        again = RebalanceInProgressError(f"group {group.group_id!r} is rebalancing: rejoin")
        for member in group.members.values():
            member.assignment = b""
            if member.syncing is not None:
                answer_sync_error(member, again, outcome)
                self.begin_session(group, member, now)

    def _wait_for_joins(self, group: ClassicGroup, now: Now, least_ms: int = 0) -> None:
        group_id = group.group_id
        self._context.timers.set(
            ("join", group_id),
            now.ms + max(group.rebalance_timeout_ms, least_ms),
            lambda then: self._on_join_timeout(group_id, then),
        )

    def _on_join_timeout(self, group_id: str, now: Now) -> Outcome:
        outcome = Outcome()
        group = self._group(group_id)
        if group is not None and group.state is ClassicState.PREPARING_REBALANCE:
            self._complete_join(group, now, outcome)
        return outcome

    def _wait_for_first_members(self, group_id: str, delay_ms: int, left_ms: int, now: Now) -> None:
        """Wait `delay_ms`, and repeat while new members join, for at most `left_ms` more."""

        def over(then: Now) -> Outcome:
            group = self._group(group_id)
            if group is None or not group.member_was_added or not left_ms:
                return self._on_join_timeout(group_id, then)
            group.member_was_added = False
            next_ms = min(self._context.config.now.group_initial_rebalance_delay_ms, left_ms)
            self._wait_for_first_members(group_id, next_ms, max(left_ms - delay_ms, 0), then)
            return Outcome()

        self._context.timers.set(("join", group_id), now.ms + delay_ms, over)

    def _complete_join(self, group: ClassicGroup, now: Now, outcome: Outcome) -> None:
        """Remove dynamic members that have not joined, and start the next generation. If no member has
        joined, the remaining static members have until their sessions expire."""
        self._context.timers.cancel(("join", group.group_id))
        for member in list(group.members.values()):
            if member.joining is None and member.group_instance_id is None:
                self.remove(group, member, outcome)
        if not group.elect_joined_leader() and group.members:
            self._wait_for_joins(group, now, MIN_WAIT_MS)
            return
        group.next_generation(now.wall_ms)
        self._state_counts.changed(group.group_id)
        if group.is_empty:
            # If the append fails, a load restores the old generation, whose members then expire.
            outcome.records.append(group.as_record({}))
            return
        for member in group.members.values():
            if member.joining is not None:
                outcome.answer(member.joining, join_response(group, member))
                member.joining = None
            member.is_new = False
            self.begin_session(group, member, now)
            group.pending_syncs[member.member_id] = None
        self._wait_for_syncs(group, now)

    # --- sync phase -----------------------------------------------------------------------------------------

    def _wait_for_syncs(self, group: ClassicGroup, now: Now) -> None:
        group_id, generation = group.group_id, group.generation
        self._context.timers.set(
            ("sync", group_id),
            now.ms + group.rebalance_timeout_ms,
            lambda then: self._on_sync_timeout(group_id, generation, then),
        )

    def on_sync(self, group: ClassicGroup, member: ClassicMember) -> None:
        """The member's SyncGroup has arrived."""
        group.pending_syncs.pop(member.member_id, None)
        if not group.pending_syncs:
            self._context.timers.cancel(("sync", group.group_id))

    def _on_sync_timeout(self, group_id: str, generation: int, now: Now) -> Outcome:
        """Remove members without SyncGroup: they would own partitions without reading them (KAFKA-12890)."""
        outcome = Outcome()
        group = self._group(group_id)
        if group is None or group.generation != generation or not group.pending_syncs:
            return outcome
        for member_id in list(group.pending_syncs):
            self.remove(group, group.members[member_id], outcome)
        self.prepare(group, now, outcome)
        return outcome


def join_response(
    group: ClassicGroup, member: ClassicMember, *, skip_assignment: bool = False
) -> JoinGroupResponse:
    """JoinGroup response of the current generation; the leader's lists all members."""
    return JoinGroupResponse(
        0,
        group.generation,
        group.protocol_type,
        group.protocol,
        group.leader or "",
        member.member_id,
        group.joined_members() if group.leader == member.member_id else (),
        skip_assignment,
    )


def join_error(error: KafkaError, member_id: str = "") -> JoinGroupResponse:
    """JoinGroup response of a failed join."""
    return JoinGroupResponse(error.code, member_id=member_id, error_detail=str(error))


def answer_join_error(member: ClassicMember, error: KafkaError, outcome: Outcome) -> None:
    """Answer the member's waiting JoinGroup, if any."""
    if member.joining is not None:
        outcome.answer(member.joining, join_error(error))
        member.joining = None


def answer_sync_error(member: ClassicMember, error: KafkaError, outcome: Outcome) -> None:
    """Answer the member's waiting SyncGroup, if any."""
    if member.syncing is not None:
        outcome.answer(member.syncing, SyncGroupResponse(error.code, error_detail=str(error)))
        member.syncing = None


def park_join(member: ClassicMember, token: Token, outcome: Outcome) -> None:
    """Park the JoinGroup; an earlier one is answered, as the client has timed it out."""
    answer_join_error(member, RebalanceInProgressError("replaced by a newer request of the member"), outcome)
    member.joining = token


def park_sync(member: ClassicMember, token: Token, outcome: Outcome) -> None:
    """Park the SyncGroup; an earlier one is answered, as the client has timed it out."""
    answer_sync_error(member, RebalanceInProgressError("replaced by a newer request of the member"), outcome)
    member.syncing = token
