"""The sticky task assignor: balanced active tasks that stay where they are, and standby tasks. Pure.

Active tasks first, stateful subtopologies before the others: each member gets an equal share, give or take
one, of the stateful tasks and of all tasks. A task goes, within these shares, to

1. the member that has it as its active task, or, if it is about to move, as a warm-up task,
2. a member that has it in another role, or another member of a process with its state,
3. a process that reports offsets of its stores, which lie on its disk: that with the least lag,
4. the member with the fewest tasks, in the process with the least load per member.

Of the tasks that a member has above its share, those whose stores lie in another process move first.

Then every stateful task gets `standby_replicas` standby tasks, in processes that do not have the task yet. Of
these, processes in other racks and with other client tags than those that have the task come first, then
those that have its state, then those with its stores on their disk, both unless that exceeds their share,
then those with the least load. Standby tasks that are complete stay where they are unless this gives fewer
shared racks and tags, or a better balance.

A function of its arguments alone, and without a change of the group it returns the targets: the same members
get the same assignment in every process. Source: KIP-1071, KIP-708; Kafka StickyTaskAssignor.java has the
same aims with other rules.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import combinations
from typing import TYPE_CHECKING, NamedTuple

from .tasks import Role

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from .configured_topology import SubtopologyTasks
    from .tasks import Task, Tasks

# Bound: the second pass keeps the active tasks of the first one; each further pass needs a lower cost.
MOST_PASSES = 8


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
    current = {member_id: spec.target for member_id, spec in members.items()}
    for _ in range(MOST_PASSES):
        targets = {member_id: spec._replace(target=current[member_id]) for member_id, spec in members.items()}
        assigned = _assign_once(targets, subtopologies, standby_replicas)
        if _active(assigned) == _active(current):
            cost = _StandbyCost(members, subtopologies, standby_replicas)
            if cost(current) <= cost(assigned):
                break
        current = assigned
    return {member_id: dict(sorted(tasks.items())) for member_id, tasks in current.items()}


def _active(assigned: Mapping[str, Tasks]) -> dict[Task, str]:
    return {
        task: member
        for member, tasks in assigned.items()
        for task, role in tasks.items()
        if role is Role.ACTIVE
    }


class _StandbyCost:
    """How far the standby tasks of an assignment are from the best ones: those missing or too many, pairs of
    one task's processes that share racks or tags, and the squares of the members' loads. Lower is better."""

    def __init__(
        self,
        members: Mapping[str, MemberSpec],
        subtopologies: Mapping[str, SubtopologyTasks],
        standby_replicas: int,
    ) -> None:
        self._members = members
        processes = len({spec.process_id for spec in members.values()})
        replicas = min(standby_replicas, processes - 1)
        self._processes_of_tasks = {
            (name, partition): 1 + (replicas if each.is_stateful else 0)
            for name, each in subtopologies.items()
            for partition in range(each.task_count)
        }

    def __call__(self, assigned: Mapping[str, Tasks]) -> tuple[int, int, int]:
        having: dict[Task, dict[str, frozenset[tuple[str, str]]]] = {}
        wrong = 0
        for member, tasks in assigned.items():
            spec = self._members[member]
            for task, role in tasks.items():
                processes = having.setdefault(task, {})
                wrong += spec.process_id in processes or role is Role.WARMUP
                processes[spec.process_id] = spec.domains
        for task in having.keys() | self._processes_of_tasks.keys():
            wrong += abs(len(having.get(task, ())) - self._processes_of_tasks.get(task, 0))
        shared = sum(
            len(one & other)
            for processes in having.values()
            for one, other in combinations(processes.values(), 2)
        )
        return wrong, shared, sum(len(tasks) ** 2 for tasks in assigned.values())


def _assign_once(
    members: Mapping[str, MemberSpec], subtopologies: Mapping[str, SubtopologyTasks], standby_replicas: int
) -> dict[str, Tasks]:
    """One pass, which moves standby tasks also between equal processes."""
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
    return {member_id: it.tasks for member_id, it in placement.members.items()}


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


def _members_of(processes: Iterable[_Process]) -> list[_Member]:
    return [member for process in processes for member in process.members]


@dataclass(slots=True)
class _Placement:
    """The assignment so far, and the members that had each task before."""

    members: dict[str, _Member]
    processes: list[_Process]
    had_active: dict[Task, _Member]  # of a task that moves, the member with its warm-up task
    had_state: dict[Task, list[_Member]]
    had_in_process: dict[Task, list[_Process]]
    on_disk: dict[Task, dict[_Process, int]]  # the lag of stores in processes that did not have the task

    @classmethod
    def of(cls, specs: Mapping[str, MemberSpec]) -> _Placement:
        warming = {
            task for spec in specs.values() for task, role in spec.target.items() if role is Role.WARMUP
        }
        processes: dict[str, _Process] = {}
        placement = cls({}, [], {}, {}, {}, {})
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
        placement.find_disks(specs)
        return placement

    def find_disks(self, specs: Mapping[str, MemberSpec]) -> None:
        for member_id, spec in sorted(specs.items()):
            process = self.members[member_id].process
            for task, lag in sorted((spec.lags or {}).items()):
                if process not in self.had_in_process.get(task, ()):
                    disks = self.on_disk.setdefault(task, {})
                    disks[process] = min(lag, disks.get(process, lag))

    # --- active tasks ---------------------------------------------------------------------------------------

    def assign_active(self, tasks: list[Task]) -> None:
        """Assign these tasks in addition to those that are assigned already."""
        total = len(tasks) + sum(len(member.tasks) for member in self.members.values())
        size, extra = divmod(total, len(self.members))
        share = _Share(size, extra - sum(len(each.tasks) > size for each in self.members.values()))
        left = []
        for task in sorted(tasks, key=lambda each: each in self.on_disk):
            before = self.had_active.get(task)
            if before is None or not self._take(task, [before], share):
                left.append(task)
        tasks, left = left, []
        for task in tasks:
            processes = [[process] for process in self._by_lag(task)]
            candidates = [
                self.had_state.get(task, ()),
                *(_members_of(some) for some in (self.had_in_process.get(task, ()), *processes)),
            ]
            if not any(self._take(task, some, share) for some in candidates):
                left.append(task)
        for task in left:
            is_taken = self._take(task, self.members.values(), share)
            assert is_taken, "the shares add up to all tasks"

    def _by_lag(self, task: Task) -> list[_Process]:
        """The processes with its stores on their disk, least lag first."""
        disks = self.on_disk.get(task, {})
        return sorted(disks, key=disks.__getitem__)

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
        before, disks = self.had_in_process.get(task, ()), self.on_disk.get(task, {})

        def rank(process: _Process) -> tuple[int, bool, bool, float]:
            has_room = any(len(each.tasks) < room for each in process.members)
            is_sticky, is_on_disk = has_room and process in before, has_room and process in disks
            return len(process.domains & domains), not is_sticky, not is_on_disk, process.load

        process = min((each for each in self.processes if task not in each.tasks), key=rank)
        own = [each for each in self.had_state.get(task, ()) if each.process is process]
        with_room = [each for each in own if len(each.tasks) < room]
        return min(with_room or process.members, key=lambda each: each.rank(task))
