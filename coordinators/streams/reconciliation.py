"""One reconciliation step of a member: tasks to revoke, or newly assigned ones. Pure.

The member first revokes tasks that are not in its target, then moves to the target's epoch and gets the free
tasks; tasks that other members have not revoked yet follow in the same epoch. A task counts as revoked only
when the member reports its tasks without it. An active task is free if no other member has it; besides, no
other member of the same process may have it in any role, because the process has one state directory.

A change of the role is one step, so that the member keeps the stores open: a standby or warm-up task stays
what it is until the task is free, and is active then; an active task is a standby or warm-up task in the same
response that revokes it. Source: Kafka CurrentAssignmentBuilder.java; KIP-1071.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ...protocol.errors import FencedMemberEpochError
from .streams_member import MemberState
from .tasks import Role

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from .streams_member import Member
    from .tasks import Task, Tasks

    # (task) -> members that have it assigned or pending: member id, process id, role
    HoldersOf = Callable[[Task], Iterable[tuple[str, str, Role]]]


def next_step(
    member: Member, target_epoch: int, target: Tasks, holders_of: HoldersOf, owned: Tasks | None
) -> Member:
    """The member after its next step, or unchanged. `owned`: the tasks that it reports, None if it reports
    none.

    Errors: FencedMemberEpochError in the state UNKNOWN, unless it owns nothing.
    """
    if member.is_reconciled_to(target_epoch):
        return member
    epoch = member.epoch
    if member.state is MemberState.UNKNOWN and (owned is None or owned):
        raise FencedMemberEpochError("the member's state is unknown: close all tasks and rejoin")
    if member.state is MemberState.UNREVOKED_TASKS:
        if _still_has(owned, member.pending):
            return member
        epoch += 1
    kept = {
        task: role
        for task, role in member.assigned.items()
        if task in target and (role is not Role.ACTIVE or target[task] is Role.ACTIVE)
    }
    revoked = {task: role for task, role in member.assigned.items() if task not in kept}
    if revoked and _still_has(owned, revoked):
        demoted = {task: target[task] for task in revoked if task in target}
        assigned = {**kept, **demoted}
        return replace(
            member, epoch=epoch, state=MemberState.UNREVOKED_TASKS, assigned=assigned, pending=revoked
        )
    assigned = {}
    for task, role in target.items():
        if kept.get(task) is role or _is_free(member, role, holders_of(task)):
            assigned[task] = role
        elif task in kept:
            assigned[task] = kept[task]
    return replace(
        member,
        epoch=target_epoch,
        state=MemberState.STABLE if assigned == target else MemberState.UNRELEASED_TASKS,
        assigned=assigned,
        pending={},
        since={
            task: member.since.get(task, target_epoch) if kept.get(task) is role else target_epoch
            for task, role in assigned.items()
            if role is Role.ACTIVE
        },
    )


def _still_has(owned: Tasks | None, revoked: Tasks) -> bool:
    """Whether the member may still have any of `revoked`."""
    return owned is None or any(owned.get(task) is role for task, role in revoked.items())


def _is_free(member: Member, role: Role, holders: Iterable[tuple[str, str, Role]]) -> bool:
    """Its own tasks count as free: they are kept, or it has revoked them."""
    return not any(
        process_id == member.process_id or (role is Role.ACTIVE and held is Role.ACTIVE)
        for member_id, process_id, held in holders
        if member_id != member.member_id
    )
