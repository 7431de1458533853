"""A coordinator of classic groups for `FakeCluster`, by Kafka's rules as far as members see them.

It holds its members to account too: `holders` of tests are told of each assignment.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

from headrace.protocol import errors
from headrace.protocol.messages import groups

GROUP_APIS = {
    "FindCoordinator", "JoinGroup", "SyncGroup", "Heartbeat", "LeaveGroup", "OffsetCommit", "OffsetFetch",
}  # fmt: skip
EMPTY, PREPARING, COMPLETING, STABLE = "Empty", "PreparingRebalance", "CompletingRebalance", "Stable"


@dataclass
class FakeMember:
    member_id: str
    request: groups.JoinGroupRequest
    joining: asyncio.Future[Any] | None = None
    syncing: asyncio.Future[Any] | None = None
    assignment: bytes = b""
    session: asyncio.TimerHandle | None = None


@dataclass
class FakeGroup:
    group_id: str
    state: str = EMPTY
    generation: int = 0
    leader: str = ""
    protocol: str = ""
    members: dict[str, FakeMember] = field(default_factory=dict)
    pending: set[str] = field(default_factory=set)  # ids that were given, and have not joined yet
    statics: dict[str, str] = field(default_factory=dict)
    timer: asyncio.TimerHandle | None = None
    offsets: dict[tuple[str, int], groups.CommittedOffset] = field(default_factory=dict)
    history: list[tuple[str, int, int]] = field(default_factory=list)  # committed (topic, partition, offset)


class FakeCoordinator:
    """The mixin. `coordinator` is the node that answers; the others say that they are not it."""

    def __init__(self) -> None:
        self.coordinator = 0
        self.groups: dict[str, FakeGroup] = {}
        self.initial_delay_ms = 10
        self._ids = 0

    def group(self, group_id: str) -> FakeGroup:
        return self.groups.setdefault(group_id, FakeGroup(group_id))

    def expire(self, group_id: str, member_id: str) -> None:
        """As if its session had run out."""
        self._remove(self.group(group_id), member_id)

    def _do_FindCoordinator(self, body: Any, _node_id: int) -> Any:
        found = [groups.Coordinator(0, key, self.coordinator, "node", 9000) for key in body.keys]
        return groups.FindCoordinatorResponse(tuple(found))

    # --- joining ------------------------------------------------------------------------------------

    async def _do_JoinGroup(self, body: Any, node_id: int) -> Any:
        if node_id != self.coordinator:
            return groups.JoinGroupResponse(errors.NotCoordinatorError.code)
        group, member_id = self.group(body.group_id), body.member_id
        instance = body.group_instance_id
        if instance is not None and not member_id:
            old = group.statics.get(instance)
            member_id = self._new_id(instance)
            if old is not None:
                self._replace(group, old, member_id)
            group.statics[instance] = member_id
        elif instance is not None and group.statics.get(instance) not in (None, member_id):
            return groups.JoinGroupResponse(errors.FencedInstanceIdError.code)
        elif not member_id:
            member_id = self._new_id("member")
            group.pending.add(member_id)
            return groups.JoinGroupResponse(errors.MemberIdRequiredError.code, member_id=member_id)
        elif member_id not in group.members and member_id not in group.pending:
            return groups.JoinGroupResponse(errors.UnknownMemberIdError.code, member_id=member_id)
        group.pending.discard(member_id)
        member = group.members.get(member_id)
        if member is None:
            member = group.members[member_id] = FakeMember(member_id, body)
        member.request = body
        self._prepare(group)
        member.joining = asyncio.get_running_loop().create_future()
        if member.session is not None:
            member.session.cancel()
        self._maybe_complete(group)
        return await member.joining

    def _new_id(self, prefix: str) -> str:
        self._ids += 1
        return f"{prefix}-{self._ids}"

    def _replace(self, group: FakeGroup, old: str, new: str) -> None:
        member = group.members.pop(old, None)
        if member is None:
            return
        fenced = errors.FencedInstanceIdError.code
        if member.joining is not None and not member.joining.done():
            member.joining.set_result(groups.JoinGroupResponse(fenced))
        if member.syncing is not None and not member.syncing.done():
            member.syncing.set_result(groups.SyncGroupResponse(fenced))
        if member.session is not None:
            member.session.cancel()
        group.members[new] = FakeMember(new, member.request, assignment=member.assignment)

    def _prepare(self, group: FakeGroup) -> None:
        if group.state == PREPARING:
            return
        loop = asyncio.get_running_loop()
        delay_ms = self.initial_delay_ms if group.state == EMPTY else 0
        for member in group.members.values():
            if member.syncing is not None and not member.syncing.done():
                code = errors.RebalanceInProgressError.code
                member.syncing.set_result(groups.SyncGroupResponse(code))
        group.state = PREPARING
        most = max((member.request.rebalance_timeout_ms for member in group.members.values()), default=0)
        if delay_ms:
            group.timer = loop.call_later(delay_ms / 1000, self._initial_delay_over, group)
        else:
            group.timer = loop.call_later(most / 1000, self._complete, group)

    def _initial_delay_over(self, group: FakeGroup) -> None:
        group.timer = None
        self._maybe_complete(group)

    def _maybe_complete(self, group: FakeGroup) -> None:
        is_delayed = group.timer is not None and group.generation == 0
        waits = [member for member in group.members.values() if not _waits(member.joining)]
        if group.state == PREPARING and not waits and not group.pending and not is_delayed:
            self._complete(group)

    def _complete(self, group: FakeGroup) -> None:
        """All have joined, or the time is over: the others are out."""
        if group.timer is not None:
            group.timer.cancel()
            group.timer = None
        for member_id, member in list(group.members.items()):
            if not _waits(member.joining) and member.request.group_instance_id is None:
                del group.members[member_id]
        group.generation += 1
        if not group.members:
            group.state = EMPTY
            return
        group.state = COMPLETING
        if group.leader not in group.members:
            group.leader = next(iter(group.members))
        votes = [{each.name for each in member.request.protocols} for member in group.members.values()]
        common = set.intersection(*votes)
        first = group.members[group.leader].request.protocols
        group.protocol = next(each.name for each in first if each.name in common)
        everyone = tuple(
            groups.JoinedMember(
                member.member_id,
                member.request.group_instance_id,
                next(each.metadata for each in member.request.protocols if each.name == group.protocol),
            )
            for member in group.members.values()
        )
        for member in group.members.values():
            if _waits(member.joining):
                is_leader = member.member_id == group.leader
                answer = groups.JoinGroupResponse(
                    *(0, group.generation, "consumer", group.protocol, group.leader, member.member_id),
                    everyone if is_leader else (),
                )
                member.joining.set_result(answer)  # type: ignore[union-attr]
                self._beat(group, member)

    async def _do_SyncGroup(self, body: Any, node_id: int) -> Any:
        if node_id != self.coordinator:
            return groups.SyncGroupResponse(errors.NotCoordinatorError.code)
        group = self.group(body.group_id)
        code = self._fault(group, body.member_id, body.generation_id, body.group_instance_id)
        if code or group.state == PREPARING:
            return groups.SyncGroupResponse(code or errors.RebalanceInProgressError.code)
        member = group.members[body.member_id]
        if group.state == STABLE:
            return groups.SyncGroupResponse(0, assignment=member.assignment)
        member.syncing = asyncio.get_running_loop().create_future()
        if body.member_id == group.leader:
            shares = {share.member_id: share.assignment for share in body.assignments}
            for each in group.members.values():
                each.assignment = shares.get(each.member_id, b"")
                if _waits(each.syncing):
                    answer = groups.SyncGroupResponse(0, assignment=each.assignment)
                    each.syncing.set_result(answer)  # type: ignore[union-attr]
            group.state = STABLE
        return await member.syncing

    # --- living and leaving -------------------------------------------------------------------------

    def _do_Heartbeat(self, body: Any, node_id: int) -> Any:
        if node_id != self.coordinator:
            return groups.HeartbeatResponse(errors.NotCoordinatorError.code)
        group = self.group(body.group_id)
        code = self._fault(group, body.member_id, body.generation_id, body.group_instance_id)
        if not code:
            self._beat(group, group.members[body.member_id])
            code = errors.RebalanceInProgressError.code if group.state == PREPARING else 0
        return groups.HeartbeatResponse(code)

    def _do_LeaveGroup(self, body: Any, node_id: int) -> Any:
        if node_id != self.coordinator:
            return groups.LeaveGroupResponse(errors.NotCoordinatorError.code)
        group = self.group(body.group_id)
        for leaving in body.members:
            self._remove(group, leaving.member_id)
            if leaving.group_instance_id is not None:
                group.statics.pop(leaving.group_instance_id, None)
        return groups.LeaveGroupResponse(0)

    def _beat(self, group: FakeGroup, member: FakeMember) -> None:
        if member.session is not None:
            member.session.cancel()
        member.session = asyncio.get_running_loop().call_later(
            member.request.session_timeout_ms / 1000, self._expired, group, member
        )

    def _expired(self, group: FakeGroup, member: FakeMember) -> None:
        if group.members.get(member.member_id) is member and not _waits(member.joining):
            self._remove(group, member.member_id)

    def _remove(self, group: FakeGroup, member_id: str) -> None:
        member = group.members.pop(member_id, None)
        group.pending.discard(member_id)
        if member is None:
            return
        if member.session is not None:
            member.session.cancel()
        for waiting, answer in (
            (member.joining, groups.JoinGroupResponse),
            (member.syncing, groups.SyncGroupResponse),
        ):
            if _waits(waiting):
                waiting.set_result(answer(errors.UnknownMemberIdError.code))  # type: ignore[union-attr]
        if group.state in (STABLE, COMPLETING):
            self._prepare(group)
        if group.members or group.state == PREPARING:
            self._maybe_complete(group)

    def _fault(self, group: FakeGroup, member_id: str, generation: int, instance: str | None) -> int:
        if instance is not None and group.statics.get(instance, member_id) != member_id:
            return errors.FencedInstanceIdError.code
        if member_id not in group.members:
            return errors.UnknownMemberIdError.code
        return errors.IllegalGenerationError.code if generation != group.generation else 0

    # --- offsets ------------------------------------------------------------------------------------

    def _do_OffsetCommit(self, body: Any, node_id: int) -> Any:
        group = self.group(body.group_id)
        code = errors.NotCoordinatorError.code if node_id != self.coordinator else 0
        if not code and (body.member_id or group.members):
            code = self._fault(
                group, body.member_id, body.generation_id_or_member_epoch, body.group_instance_id
            )
            if not code and group.state == COMPLETING:
                code = errors.RebalanceInProgressError.code
            if not code:
                self._beat(group, group.members[body.member_id])
        results = []
        for each in body.offsets:
            if not code:
                group.offsets[each.topic, each.partition] = each
                group.history.append((each.topic, each.partition, each.offset))
            results.append(groups.PartitionResult(each.topic, each.partition, code))
        return groups.OffsetCommitResponse(tuple(results))

    def _do_OffsetFetch(self, body: Any, node_id: int) -> Any:
        answers = []
        for asked in body.groups:
            if node_id != self.coordinator:
                code = errors.NotCoordinatorError.code
                answers.append(groups.OffsetsOfGroup(code, asked.group_id))
                continue
            group = self.group(asked.group_id)
            found = []
            for topic in asked.topics:
                for partition in topic.partitions:
                    each = group.offsets.get((topic.topic, partition))
                    facts = () if each is None else (each.offset, each.leader_epoch, each.metadata)
                    found.append(groups.FetchedOffset(topic.topic, partition, 0, *facts))
            answers.append(groups.OffsetsOfGroup(0, asked.group_id, tuple(found)))
        return groups.OffsetFetchResponse(tuple(answers))


def _waits(future: asyncio.Future[Any] | None) -> bool:
    return future is not None and not future.done()
