"""SyncGroup of the classic protocol: the leader's assignments are appended, then every member gets its own.
Pure.

Source: Kafka GroupMetadataManager.java (classicGroupSync...).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.errors import InconsistentGroupProtocolError, RebalanceInProgressError
from ...protocol.messages.groups import SyncGroupResponse
from ..runtime.ports import Outcome
from .classic_states import ClassicState
from .rebalances import park_sync

if TYPE_CHECKING:
    from ...protocol.errors import KafkaError
    from ...protocol.messages.groups import SyncGroupRequest
    from ...storage_node.embedded.contract import Now
    from ..runtime.ports import Token
    from .classic_group import ClassicGroup
    from .rebalances import Rebalances


class SyncGroupHandler:
    """Handles SyncGroup for classic groups."""

    def __init__(self, rebalances: Rebalances) -> None:
        self._rebalances = rebalances

    def sync(self, group: ClassicGroup, body: SyncGroupRequest, token: Token, now: Now) -> Outcome:
        """A follower's request waits until the leader's assignments are in the log."""
        member = group.check_member(body.member_id, body.group_instance_id)
        group.check_generation(body.generation_id)
        _check_same(body.protocol_type, group.protocol_type)
        _check_same(body.protocol_name, group.protocol)
        if group.state is ClassicState.PREPARING_REBALANCE:
            raise RebalanceInProgressError(f"group {group.group_id!r} is rebalancing: rejoin")
        outcome = Outcome()
        self._rebalances.on_sync(group, member)
        if group.state is ClassicState.STABLE:
            outcome.answer(token, _response(group, member.assignment))
            return outcome
        park_sync(member, token, outcome)
        if group.leader == member.member_id:
            self._take_assignments(group, body, now, outcome)
        return outcome

    def _take_assignments(
        self, group: ClassicGroup, body: SyncGroupRequest, now: Now, outcome: Outcome
    ) -> None:
        """Append the assignments; members without one get an empty assignment. The group is stable once the
        record is applied."""
        assignments = {each.member_id: each.assignment for each in body.assignments}
        outcome.records.append(group.as_record(assignments))
        for member in group.members.values():
            if member.syncing is not None:
                outcome.answer(member.syncing, _response(group, assignments.get(member.member_id, b"")))
                member.syncing = None
                self._rebalances.begin_session(group, member, now)
        generation = group.generation

        def failed(error: KafkaError, then: Now) -> Outcome:
            """Answer all waiting requests with the error, and rebalance again."""
            del error
            refused = Outcome()
            if group.state is ClassicState.COMPLETING_REBALANCE and group.generation == generation:
                self._rebalances.prepare(group, then, refused)
            return refused

        outcome.on_failed = failed


def _check_same(given: str | None, held: str | None) -> None:
    if given is not None and held is not None and given != held:
        raise InconsistentGroupProtocolError(f"the group uses {held!r}, the request says {given!r}")


def _response(group: ClassicGroup, assignment: bytes) -> SyncGroupResponse:
    return SyncGroupResponse(0, group.protocol_type, group.protocol, assignment)
