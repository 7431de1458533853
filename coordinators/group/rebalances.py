"""The rebalance of a classic group: who is waited for, for how long, and what ends it. Pure.

All of it is soft: a coordinator that takes over knows the last complete generation, and every member has a
fresh session there. Each function adds to the outcome that it is given. Source: Kafka
GroupMetadataManager.java.

1. prepare: all members are to join again. The first rebalance of an empty group waits for more members first.
2. complete_join: all have, or the time is over and who has not is no member any more. Everyone is told the
   new generation; the leader is to bring assignments.
3. Its SyncGroup writes them (syncing.py). Who never syncs is no member any more, and it begins anew.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.errors import KafkaError, RebalanceInProgressError, UnknownMemberIdError
from ...protocol.messages.groups import JoinGroupResponse, SyncGroupResponse
from ..runtime.ports import Outcome
from .classic_group import ClassicGroup
from .classic_states import ClassicState

if TYPE_CHECKING:
    from ..runtime.ports import Now, Surroundings, Token
    from .classic_member import ClassicMember
    from .group import Group
    from .group_state_counts import GroupStateCounts

# A new member cannot heartbeat while it waits, and a client that gave up and came back waits under another
# id: one that waits for longer is taken for such a ghost. Source: Kafka's constant.
NEW_MEMBER_JOIN_TIMEOUT_MS = 5 * 60 * 1000
# Members may ask for a rebalance timeout of nothing: while nobody joins, the group looks no more often.
MIN_WAIT_MS = 1_000


class Rebalances:
    """Sessions and rebalances of the classic groups among `groups`."""

    def __init__(
        self, groups: dict[str, Group], around: Surroundings, state_counts: GroupStateCounts
    ) -> None:
        self._groups = groups
        self._around = around
        self._state_counts = state_counts

    def _group(self, group_id: str) -> ClassicGroup | None:
        group = self._groups.get(group_id)
        return group if isinstance(group, ClassicGroup) else None

    # --- sessions ----------------------------------------------------------------------------------------

    def begin_session(self, group: ClassicGroup, member: ClassicMember, now: Now) -> None:
        """The member was heard."""
        timeout_ms = NEW_MEMBER_JOIN_TIMEOUT_MS if member.is_new else member.session_timeout_ms
        self.expect(group.group_id, member.member_id, timeout_ms, now)

    def expect(self, group_id: str, member_id: str, timeout_ms: int, now: Now) -> None:
        """The member, or who was given this id to join with, is to be heard within this time."""
        self._around.timers.set(
            ("session", group_id, member_id),
            now.ms + timeout_ms,
            lambda then: self._session_over(group_id, member_id, then),
        )

    def end_session(self, group_id: str, member_id: str) -> None:
        """Nobody waits for it any more."""
        self._around.timers.cancel(("session", group_id, member_id))

    def _session_over(self, group_id: str, member_id: str, now: Now) -> Outcome:
        outcome = Outcome()
        group = self._group(group_id)
        if group is None:
            return outcome
        member = group.members.get(member_id)
        if member is not None and not member.waits:
            self.remove(group, member, outcome)
            self.go_on_without(group, now, outcome)
        elif member_id in group.pending_joins:
            group.remove(member_id)
            if group.state is ClassicState.PREPARING_REBALANCE and group.all_have_joined:
                self._complete_join(group, now, outcome)
        return outcome

    def remove(self, group: ClassicGroup, member: ClassicMember, outcome: Outcome) -> None:
        """It is no member any more. If a request of it waits, the client lives and joins anew."""
        gone = UnknownMemberIdError(f"{member.member_id} was taken out of {group.group_id}")
        answer_join_error(member, gone, outcome)
        answer_sync_error(member, gone, outcome)
        self.end_session(group.group_id, member.member_id)
        group.remove(member.member_id)
        self._state_counts.changed(group.group_id)

    def forget(self, group: ClassicGroup) -> None:
        """The group is no classic one any more, or never became one: it waits for nobody."""
        for member_id in [*group.members, *sorted(group.pending_joins)]:
            self.end_session(group.group_id, member_id)
        for kind in ("join", "sync"):
            self._around.timers.cancel((kind, group.group_id))

    def go_on_without(self, group: ClassicGroup, now: Now, outcome: Outcome) -> None:
        """A member is gone."""
        if group.can_rebalance and not group.is_empty:
            self.prepare(group, now, outcome)
        elif group.state is ClassicState.PREPARING_REBALANCE and group.all_have_joined:
            self._complete_join(group, now, outcome)

    # --- joining -----------------------------------------------------------------------------------------

    def prepare_or_complete(self, group: ClassicGroup, now: Now, outcome: Outcome) -> None:
        """Somebody joins: begin a rebalance, or end the waiting of the one that is under way."""
        self._state_counts.changed(group.group_id)
        if group.can_rebalance:
            self.prepare(group, now, outcome)
        else:
            self.complete_if_all_joined(group, now, outcome)

    def complete_if_all_joined(self, group: ClassicGroup, now: Now, outcome: Outcome) -> None:
        """The first rebalance is not over then: it waits for members that nobody knows of yet."""
        is_first = group.previous_state is ClassicState.EMPTY
        if group.state is ClassicState.PREPARING_REBALANCE and not is_first and group.all_have_joined:
            self._complete_join(group, now, outcome)

    def prepare(self, group: ClassicGroup, now: Now, outcome: Outcome) -> None:
        """All members are to join again; whose SyncGroup waits is told so, the others hear it when they
        heartbeat."""
        if group.state is ClassicState.COMPLETING_REBALANCE:
            self._refuse_syncs(group, now, outcome)
        group.pending_syncs = {}
        self._around.timers.cancel(("sync", group.group_id))
        is_first = group.is_empty
        group.become(ClassicState.PREPARING_REBALANCE, now.wall_ms)
        self._state_counts.changed(group.group_id)
        if is_first:
            delay_ms = self._around.config.now.group_initial_rebalance_delay_ms
            left_ms = max(group.rebalance_timeout_ms - delay_ms, 0)
            group.member_was_added = False
            self._wait_for_first_members(group.group_id, delay_ms, left_ms, now)
        elif group.all_have_joined:
            self._complete_join(group, now, outcome)
        else:
            self._wait_for_joins(group, now)

    def _refuse_syncs(self, group: ClassicGroup, now: Now, outcome: Outcome) -> None:
        again = RebalanceInProgressError(f"{group.group_id} rebalances anew")
        for member in group.members.values():
            member.assignment = b""
            if member.syncing is not None:
                answer_sync_error(member, again, outcome)
                self.begin_session(group, member, now)

    def _wait_for_joins(self, group: ClassicGroup, now: Now, least_ms: int = 0) -> None:
        group_id = group.group_id
        self._around.timers.set(
            ("join", group_id),
            now.ms + max(group.rebalance_timeout_ms, least_ms),
            lambda then: self._join_over(group_id, then),
        )

    def _join_over(self, group_id: str, now: Now) -> Outcome:
        outcome = Outcome()
        group = self._group(group_id)
        if group is not None and group.state is ClassicState.PREPARING_REBALANCE:
            self._complete_join(group, now, outcome)
        return outcome

    def _wait_for_first_members(self, group_id: str, delay_ms: int, left_ms: int, now: Now) -> None:
        """For `delay_ms`, and again as long as new ones come, but not longer than `left_ms` beyond it."""

        def over(then: Now) -> Outcome:
            group = self._group(group_id)
            if group is None or not group.member_was_added or not left_ms:
                return self._join_over(group_id, then)
            group.member_was_added = False
            next_ms = min(self._around.config.now.group_initial_rebalance_delay_ms, left_ms)
            self._wait_for_first_members(group_id, next_ms, max(left_ms - delay_ms, 0), then)
            return Outcome()

        self._around.timers.set(("join", group_id), now.ms + delay_ms, over)

    def _complete_join(self, group: ClassicGroup, now: Now, outcome: Outcome) -> None:
        """Who is dynamic and has not joined is no member any more. If that leaves nobody who has, the others,
        all static, have until their sessions end."""
        self._around.timers.cancel(("join", group.group_id))
        for member in list(group.members.values()):
            if member.joining is None and member.group_instance_id is None:
                self.remove(group, member, outcome)
        if not group.elect_joined_leader() and group.members:
            self._wait_for_joins(group, now, MIN_WAIT_MS)
            return
        group.next_generation(now.wall_ms)
        self._state_counts.changed(group.group_id)
        if group.is_empty:
            # Should the append fail: the log says that the old generation goes on, and its members, who are
            # gone, time out where it is loaded.
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

    # --- syncing -----------------------------------------------------------------------------------------

    def _wait_for_syncs(self, group: ClassicGroup, now: Now) -> None:
        group_id, generation = group.group_id, group.generation
        self._around.timers.set(
            ("sync", group_id),
            now.ms + group.rebalance_timeout_ms,
            lambda then: self._sync_over(group_id, generation, then),
        )

    def has_synced(self, group: ClassicGroup, member: ClassicMember) -> None:
        """The member has asked for its assignment."""
        group.pending_syncs.pop(member.member_id, None)
        if not group.pending_syncs:
            self._around.timers.cancel(("sync", group.group_id))

    def _sync_over(self, group_id: str, generation: int, now: Now) -> Outcome:
        """Who never asked for its assignment would hold partitions without reading them (KAFKA-12890)."""
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
    """The generation as the member is to know it; the leader sees all members."""
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
    """It has not joined."""
    return JoinGroupResponse(error.code, member_id=member_id, error_detail=str(error))


def answer_join_error(member: ClassicMember, error: KafkaError, outcome: Outcome) -> None:
    """Answer its JoinGroup, if one waits."""
    if member.joining is not None:
        outcome.answer(member.joining, join_error(error))
        member.joining = None


def answer_sync_error(member: ClassicMember, error: KafkaError, outcome: Outcome) -> None:
    """Answer its SyncGroup, if one waits."""
    if member.syncing is not None:
        outcome.answer(member.syncing, SyncGroupResponse(error.code, error_detail=str(error)))
        member.syncing = None


def wait_with_join(member: ClassicMember, token: Token, outcome: Outcome) -> None:
    """Its JoinGroup waits; one that waited before is answered, as the client has given it up."""
    answer_join_error(member, RebalanceInProgressError("the member has asked again"), outcome)
    member.joining = token


def wait_with_sync(member: ClassicMember, token: Token, outcome: Outcome) -> None:
    """Its SyncGroup waits; one that waited before is answered, as the client has given it up."""
    answer_sync_error(member, RebalanceInProgressError("the member has asked again"), outcome)
    member.syncing = token
