"""From the assignment that the assignor wants to one that keeps processing: warm-up tasks. Pure.

The sticky assignor decides where tasks belong. A stateful task whose new member does not have its state yet
stays with a member that is caught up, and the new member gets a warm-up task, which restores the state, as
far as `replicas` allows; with the assignment after the report that it has caught up, the task moves. So

- a task does not move to a member beyond the acceptable lag while a member that is caught up lives;
- at most `replicas` warm-up tasks exist; those that exist already are the last to be given up;
- while all warm-ups catch up, every assignment comes nearer to what the assignor wants, and the last one is
  that.

Only members that report offsets get warm-up tasks: to others, such as Kafka Streams 4.3, tasks move at once.
Source for the aims: KIP-441, KIP-1071.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from .sticky_assignor import assign_sticky
from .tasks import Role

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .configured_topology import SubtopologyTasks
    from .sticky_assignor import MemberSpec
    from .tasks import Task, Tasks


class AssignmentConfigs(NamedTuple):
    """Standby tasks of each stateful task, warm-up tasks of the group, and the lag, in offsets, up to which a
    member is caught up. No warm-up tasks: tasks move at once."""

    standby_replicas: int = 0
    warmup_replicas: int = 0
    acceptable_lag: int = 0


class _Move(NamedTuple):
    """A task that has to wait for its destination, and the member that has it until then."""

    is_new: bool
    task: Task
    destination: str
    keeper: str


def assign(
    members: Mapping[str, MemberSpec],
    subtopologies: Mapping[str, SubtopologyTasks],
    configs: AssignmentConfigs,
) -> dict[str, Tasks]:
    """The tasks of every member. A function of its arguments alone; without new offsets it leaves the active
    and warm-up tasks of its last result where they are."""
    wanted = assign_sticky(members, subtopologies, configs.standby_replicas)
    if not configs.warmup_replicas:
        return wanted
    stateful = {name for name, each in subtopologies.items() if each.is_stateful}
    view = _View(members, configs.acceptable_lag)
    moves = sorted(
        _Move(members[member].target.get(task) is not Role.WARMUP, task, member, keeper)
        for member, tasks in wanted.items()
        for task, role in tasks.items()
        if role is Role.ACTIVE and task[0] in stateful and (keeper := view.keeper(task, member)) is not None
    )
    found = {member: dict(tasks) for member, tasks in wanted.items()}
    left = configs.warmup_replicas
    for move in moves:
        was_standby = members[move.destination].target.get(move.task) is Role.STANDBY
        for member in view.members_beside(move.keeper):
            found[member].pop(move.task, None)
        found[move.keeper][move.task] = Role.ACTIVE
        if left:
            found[move.destination][move.task] = Role.WARMUP
            left -= 1
        elif was_standby:
            found[move.destination][move.task] = Role.STANDBY
        else:
            del found[move.destination][move.task]
    return {member: dict(sorted(tasks.items())) for member, tasks in found.items()}


class _View:
    """The members with what they have and how far they are."""

    def __init__(self, members: Mapping[str, MemberSpec], acceptable_lag: int) -> None:
        self._members = members
        self._acceptable_lag = acceptable_lag
        self._by_process: dict[str, list[str]] = {}
        self._active: dict[Task, str] = {}
        self._caught_up: dict[Task, list[tuple[int, str]]] = {}
        for member, spec in sorted(members.items()):
            self._by_process.setdefault(spec.process_id, []).append(member)
            for task, lag in (spec.lags or {}).items():
                if lag <= acceptable_lag:
                    self._caught_up.setdefault(task, []).append((lag, member))
            for task, role in spec.target.items():
                if role is Role.ACTIVE:
                    self._active[task] = member

    def members_beside(self, member: str) -> list[str]:
        """The members of its process, which share a state directory."""
        return self._by_process[self._members[member].process_id]

    def keeper(self, task: Task, destination: str) -> str | None:
        """The member that has to keep the task until the destination is caught up; None: it can move now."""
        if self._members[destination].lags is None:
            return None
        beside = self.members_beside(destination)
        active, caught_up = self._active.get(task), sorted(self._caught_up.get(task, ()))
        if active in beside or any(member in beside for _, member in caught_up):
            return None
        if active is not None:
            lag = (self._members[active].lags or {}).get(task, 0)
            if lag <= self._acceptable_lag:
                return active
        return caught_up[0][1] if caught_up else None
