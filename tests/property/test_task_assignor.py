"""The sticky task assignor over random groups: balance, stickiness, standbys, capacity."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from headrace.coordinators.streams.configured_topology import SubtopologyTasks
from headrace.coordinators.streams.sticky_assignor import MemberSpec, assign_sticky
from headrace.coordinators.streams.tasks import Role, Task, Tasks
from hypothesis import example, given
from hypothesis import strategies as st

ASSIGNED = dict[str, Tasks]


@dataclass
class Group:
    """Members by process, subtopologies, and the number of standby replicas."""

    processes: dict[str, str]
    subtopologies: dict[str, SubtopologyTasks]
    standbys: int
    disks: dict[str, dict[Task, int]] = field(default_factory=dict)  # lags of stores by member

    def assign(self, before: ASSIGNED | None = None) -> ASSIGNED:
        targets = before or {}
        specs = {
            member: MemberSpec(process, targets.get(member, {}), lags=self.disks.get(member))
            for member, process in self.processes.items()
        }
        return assign_sticky(specs, self.subtopologies, self.standbys)

    def tasks(self, *, stateful_only: bool = False) -> set[Task]:
        return {
            (name, partition)
            for name, each in self.subtopologies.items()
            for partition in range(each.task_count)
            if each.is_stateful or not stateful_only
        }


def active(assigned: Tasks) -> set[Task]:
    return {task for task, role in assigned.items() if role is Role.ACTIVE}


members = st.dictionaries(st.sampled_from("abcdefgh"), st.sampled_from("pqrst"), min_size=1)
subtopologies = st.dictionaries(
    st.sampled_from("0123"), st.builds(SubtopologyTasks, st.integers(1, 9), st.booleans()), max_size=4
)
lags = st.dictionaries(st.tuples(st.sampled_from("0123"), st.integers(0, 8)), st.integers(0, 3), max_size=12)
disks = st.dictionaries(st.sampled_from("abcdefgh"), lags)
groups = st.builds(Group, members, subtopologies, st.integers(0, 3), disks)


def check(group: Group, found: ASSIGNED) -> None:
    """The laws of every assignment."""
    assert found.keys() == group.processes.keys()
    owners = Counter(task for each in found.values() for task in active(each))
    assert owners == dict.fromkeys(group.tasks(), 1), "an active task has one owner"
    counts = [len(active(each)) for each in found.values()]
    assert max(counts) - min(counts) <= 1, "active tasks are balanced"
    stateful = group.tasks(stateful_only=True)
    loads = [len(active(each) & stateful) for each in found.values()]
    assert max(loads) - min(loads) <= 1, "stateful tasks are balanced"
    by_process = Counter((task, group.processes[member]) for member, each in found.items() for task in each)
    assert set(by_process.values()) <= {1}, "a process has a task once"
    standbys = Counter(task for each in found.values() for task, role in each.items() if role is Role.STANDBY)
    replicas = min(group.standbys, len(set(group.processes.values())) - 1)
    assert standbys == (dict.fromkeys(stateful, replicas) if replicas > 0 else {})


@example(  # a process with a standby's stores on its disk, whose share is its active task
    Group(
        {"a": "p", "b": "r", "c": "p", "d": "q"},
        {name: SubtopologyTasks(1, is_stateful=True) for name in "01"},
        1,
        {"b": {("0", 0): 0, ("1", 0): 0}},
    )
)
@given(groups)
def test_assignments_obey_the_laws_and_are_stable(group: Group) -> None:
    """A second assignment without a change moves no task."""
    found = group.assign()
    check(group, found)
    assert group.assign(found) == found


@given(groups, groups)
def test_assignments_after_a_change(before: Group, after: Group) -> None:
    """Whatever the members had before, also tasks that are gone."""
    check(after, after.assign(before.assign()))


@given(groups, st.sampled_from("abcdefgh"))
def test_a_leaving_member_moves_few_tasks(group: Group, leaving: str) -> None:
    """The others keep all of their active tasks."""
    if leaving not in group.processes or len(group.processes) == 1:
        return
    before = group.assign()
    group.processes = {each: process for each, process in group.processes.items() if each != leaving}
    found = group.assign(before)
    check(group, found)
    for member, tasks in found.items():
        lost = active(before[member]) - active(tasks)
        assert len(lost) <= len(group.subtopologies), "only to balance stateful tasks"


@given(groups)
def test_a_joining_member_takes_only_its_share(group: Group) -> None:
    """Without stateless tasks, every other move is needed for the balance."""
    group.subtopologies = {
        name: SubtopologyTasks(each.task_count, is_stateful=True)
        for name, each in group.subtopologies.items()
    }
    group.standbys = 0
    before = group.assign()
    group.processes = {**group.processes, "new": "new"}
    found = group.assign(before)
    check(group, found)
    moved = sum(len(active(found[member]) - active(before[member])) for member in before)
    assert moved == 0


def test_standby_gets_the_task_of_a_lost_process() -> None:
    """It has the state."""
    group = Group({"a": "p", "b": "q", "c": "r"}, {"0": SubtopologyTasks(3, is_stateful=True)}, 1)
    before = group.assign()
    (lost,) = active(before["a"])
    (standby,) = (member for member in "bc" if lost in before[member])
    del group.processes["a"]
    found = group.assign(before)
    check(group, found)
    assert lost in active(found[standby])


def test_standbys_are_in_other_racks_and_zones() -> None:
    """Before stickiness: a rack or zone that has the task already is the last choice."""
    tasks = {"0": SubtopologyTasks(6, is_stateful=True)}
    racks = {"a": "1", "b": "1", "c": "2", "d": "2"}
    specs = {member: MemberSpec(member, {}, frozenset({("zone", rack)})) for member, rack in racks.items()}
    found = assign_sticky(specs, tasks, 1)
    for partition in range(6):
        holders = [member for member, each in found.items() if ("0", partition) in each]
        assert sorted(racks[member] for member in holders) == ["1", "2"]


def test_threads_of_one_process_share_its_state() -> None:
    """A task of a stopped thread goes to another thread of the same process."""
    group = Group({"a": "p", "b": "p", "c": "q"}, {"0": SubtopologyTasks(6, is_stateful=True)}, 0)
    before = group.assign()
    del group.processes["a"]
    found = group.assign(before)
    gained = active(found["b"]) - active(before["b"])
    assert len(active(found["b"])) == 3
    assert gained <= active(before["a"])
