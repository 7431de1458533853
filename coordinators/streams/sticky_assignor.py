"""The sticky task assignor: balanced active tasks that stay where they are, and standby tasks. Pure.

Active tasks first, stateful subtopologies before the others: each member gets an equal share, give or take
one, of the stateful tasks and of all tasks. A task goes, within these shares, to

1. the member that has it as its active task, or, if it is about to move, as a warm-up task,
2. a member that has it in another role, or another member of a process with its state,
3. the member with the fewest tasks, in the process with the least load per member.

Then every stateful task gets `standby_replicas` standby tasks, in processes that do not have the task yet. Of
these, processes in other racks and with other client tags than those that have the task come first, then
those that have its state, unless that exceeds their share, then those with the least load.

A function of its arguments alone: the same members get the same assignment in every process. Source:
KIP-1071, KIP-708; Kafka StickyTaskAssignor.java has the same aims with other rules.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from .tasks import Role

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from .configured_topology import SubtopologyTasks
    from .tasks import Task, Tasks


class MemberSpec(NamedTuple):
    """One member: its process, its current target, the failure domains of its process, and the lags of its
    tasks, None if it reports none."""

    process_id: str
    target: Tasks
    domains: frozenset[tuple[str, str]] = frozenset()  # rack and client tags
    lags: Mapping[Task, int] | None = None


def assign_sticky(
    members: Mapping[str, MemberSpec], subtopologies: Mapping[str, SubtopologyTasks], standby_replicas: int
) -> dict[str, Tasks]:
    """The tasks of every member."""
    if not members:
        return {}
    stateful, stateless = (
        [
            (name, each)
            for name, it in sorted(subtopologies.items())
            if it.is_stateful is kind
            for each in range(it.task_count)
        ]
        for kind in (True, False)
    )
    placement = _Placement.of(members)
    placement.assign_active(stateful)
    placement.assign_active(stateless)
    placement.assign_standbys(stateful, standby_replicas)
    return {member_id: dict(sorted(it.tasks.items())) for member_id, it in placement.members.items()}


@dataclass(slots=True, eq=False)
class _Process:
    """The members of one process, which share a state directory."""

    domains: frozenset[tuple[str, str]]
    members: list[_Member] = field(default_factory=list)
    tasks: set[Task] = field(default_factory=set)

    @property
    def load(self) -> float:
        """Tasks per member."""
        return len(self.tasks) / len(self.members)


@dataclass(slots=True, eq=False)
class _Member:
    member_id: str
    process: _Process
    tasks: dict[Task, Role] = field(default_factory=dict)
    by_subtopology: dict[str, int] = field(default_factory=dict)

    def add(self, task: Task, role: Role) -> None:
        self.tasks[task] = role
        self.process.tasks.add(task)
        self.by_subtopology[task[0]] = self.by_subtopology.get(task[0], 0) + 1

    def rank(self, task: Task) -> tuple[int, float, int, str]:
        """Lower first: fewest tasks, least loaded process, fewest tasks of the same subtopology."""
        return len(self.tasks), self.process.load, self.by_subtopology.get(task[0], 0), self.member_id


@dataclass(slots=True)
class _Share:
    """The members' share of tasks: `size` each, and one more for `extra` of them."""

    size: int
    extra: int

    def has_room(self, member: _Member) -> bool:
        return len(member.tasks) < self.size + (self.extra > 0)

    def taken(self, member: _Member) -> None:
        """Account for a task that the member got."""
        self.extra -= len(member.tasks) > self.size


@dataclass(slots=True)
class _Placement:
    """The assignment so far, and the members that had each task before."""

    members: dict[str, _Member]
    processes: list[_Process]
    had_active: dict[Task, _Member]  # of a task that moves, the member with its warm-up task
    had_state: dict[Task, list[_Member]]
    had_in_process: dict[Task, list[_Process]]

    @classmethod
    def of(cls, specs: Mapping[str, MemberSpec]) -> _Placement:
        warming = {
            task for spec in specs.values() for task, role in spec.target.items() if role is Role.WARMUP
        }
        processes: dict[str, _Process] = {}
        placement = cls({}, [], {}, {}, {})
        for member_id, spec in sorted(specs.items()):
            process = processes.setdefault(spec.process_id, _Process(spec.domains))
            member = placement.members[member_id] = _Member(member_id, process)
            process.members.append(member)
            for task, role in spec.target.items():
                if role is Role.WARMUP or (role is Role.ACTIVE and task not in warming):
                    placement.had_active[task] = member
                if role is not Role.ACTIVE or task in warming:
                    placement.had_state.setdefault(task, []).append(member)
                placement.had_in_process.setdefault(task, []).append(process)
        placement.processes = [processes[name] for name in sorted(processes)]
        return placement

    # --- active tasks ---------------------------------------------------------------------------------------

    def assign_active(self, tasks: list[Task]) -> None:
        """Assign these tasks in addition to those that are assigned already."""
        total = len(tasks) + sum(len(member.tasks) for member in self.members.values())
        size, extra = divmod(total, len(self.members))
        share = _Share(size, extra - sum(len(each.tasks) > size for each in self.members.values()))
        left = []
        for task in tasks:
            before = self.had_active.get(task)
            if before is None or not self._take(task, [before], share):
                left.append(task)
        tasks, left = left, []
        for task in tasks:
            in_process = [each for process in self.had_in_process.get(task, ()) for each in process.members]
            if not self._take(task, self.had_state.get(task, ()), share) and not self._take(
                task, in_process, share
            ):
                left.append(task)
        for task in left:
            is_taken = self._take(task, self.members.values(), share)
            assert is_taken, "the shares add up to all tasks"

    def _take(self, task: Task, candidates: Iterable[_Member], share: _Share) -> bool:
        """Assign the task to the best candidate that has room; False: none has."""
        allowed = [member for member in candidates if share.has_room(member)]
        if not allowed:
            return False
        member = min(allowed, key=lambda each: each.rank(task))
        member.add(task, Role.ACTIVE)
        share.taken(member)
        return True

    # --- standby tasks --------------------------------------------------------------------------------------

    def assign_standbys(self, tasks: list[Task], replicas: int) -> None:
        """As many as there are processes for; one per task and round, so that a lack of processes affects
        all tasks alike."""
        replicas = min(replicas, len(self.processes) - 1)
        total = sum(len(member.tasks) for member in self.members.values()) + replicas * len(tasks)
        room = -(-total // len(self.members))
        for _ in range(replicas):
            for task in tasks:
                member = self._standby_member(task, room)
                member.add(task, Role.STANDBY)

    def _standby_member(self, task: Task, room: int) -> _Member:
        having = [process for process in self.processes if task in process.tasks]
        domains = frozenset().union(*(process.domains for process in having))
        before = self.had_in_process.get(task, ())

        def rank(process: _Process) -> tuple[int, bool, float]:
            is_sticky = process in before and any(len(each.tasks) < room for each in process.members)
            return len(process.domains & domains), not is_sticky, process.load

        process = min((each for each in self.processes if task not in each.tasks), key=rank)
        own = [each for each in self.had_state.get(task, ()) if each.process is process]
        with_room = [each for each in own if len(each.tasks) < room]
        return min(with_room or process.members, key=lambda each: each.rank(task))
