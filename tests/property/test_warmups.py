"""Warm-up tasks over random groups: no task waits for its state, and all reach the place that the assignor
wants in a bounded number of assignments."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field

from headrace.coordinators.streams.configured_topology import SubtopologyTasks
from headrace.coordinators.streams.sticky_assignor import MemberSpec, assign_sticky
from headrace.coordinators.streams.tasks import Role, Task, Tasks
from headrace.coordinators.streams.warmups import AssignmentConfigs, assign
from hypothesis import given
from hypothesis import strategies as st

ACCEPTABLE = 100
FAR = 10_000


@dataclass
class Group:
    """Members by process; `lags` by process and task: members of a process share their state."""

    processes: dict[str, str]
    subtopologies: dict[str, SubtopologyTasks]
    configs: AssignmentConfigs
    targets: dict[str, Tasks] = field(default_factory=dict)
    lags: dict[tuple[str, Task], int] = field(default_factory=dict)
    silent: frozenset[str] = frozenset()

    def specs(self) -> dict[str, MemberSpec]:
        return {
            member: MemberSpec(process, self.targets.get(member, {}), lags=self.lags_of(member, process))
            for member, process in self.processes.items()
        }

    def lags_of(self, member: str, process: str) -> dict[Task, int] | None:
        """A member reports the tasks that it has."""
        if member in self.silent:
            return None
        tasks = self.targets.get(member, {})
        return {task: lag for (place, task), lag in self.lags.items() if place == process and task in tasks}

    def assign(self) -> dict[str, Tasks]:
        return assign(self.specs(), self.subtopologies, self.configs)

    def wanted(self) -> dict[str, Tasks]:
        return assign_sticky(self.specs(), self.subtopologies, self.configs.standby_replicas)

    def move_on(self) -> None:
        """The next assignment; each member restores what it has, the active task at once."""
        self.targets = self.assign()
        holders = {(self.processes[member], task) for member, tasks in self.targets.items() for task in tasks}
        self.lags = {place: lag for place, lag in self.lags.items() if place in holders}
        for place in holders:
            self.lags.setdefault(place, FAR)
        for member, tasks in self.targets.items():
            for task, role in tasks.items():
                if role is Role.ACTIVE:
                    self.lags[self.processes[member], task] = 0

    def restore(self) -> None:
        """All members catch up."""
        self.lags = dict.fromkeys(self.lags, 0)

    def is_stateful(self, task: Task) -> bool:
        return self.subtopologies[task[0]].is_stateful

    def active(self) -> dict[Task, str]:
        return {
            task: member
            for member, tasks in self.targets.items()
            for task, role in tasks.items()
            if role is Role.ACTIVE
        }


def without_standbys(targets: dict[str, Tasks]) -> dict[str, Tasks]:
    return {
        name: {task: role for task, role in tasks.items() if role is not Role.STANDBY}
        for name, tasks in targets.items()
    }


members = st.dictionaries(st.sampled_from("abcdefgh"), st.sampled_from("pqrst"), min_size=1)
subtopologies = st.dictionaries(
    st.sampled_from("0123"), st.builds(SubtopologyTasks, st.integers(1, 9), st.booleans()), max_size=4
)
configs = st.builds(AssignmentConfigs, st.integers(0, 2), st.integers(1, 3), st.just(ACCEPTABLE))
groups = st.builds(Group, members, subtopologies, configs)


def check(group: Group, found: dict[str, Tasks]) -> None:
    """The laws of every assignment."""
    assert found.keys() == group.processes.keys()
    all_tasks = {(name, at) for name, it in group.subtopologies.items() for at in range(it.task_count)}
    owners = Counter(task for each in found.values() for task, role in each.items() if role is Role.ACTIVE)
    assert owners == dict.fromkeys(all_tasks, 1), "an active task has one owner"
    places = Counter((task, group.processes[member]) for member, each in found.items() for task in each)
    assert set(places.values()) <= {1}, "a process has a task once"
    warm = [task for each in found.values() for task, role in each.items() if role is Role.WARMUP]
    assert len(warm) <= group.configs.warmup_replicas
    assert all(group.is_stateful(task) for task in warm)


def check_no_wait(group: Group, before: dict[Task, str], found: dict[str, Tasks]) -> None:
    """A stateful task that moved to a process beyond the acceptable lag had no other place."""
    specs = group.specs()
    for member, tasks in found.items():
        process = group.processes[member]
        for task, role in tasks.items():
            if role is not Role.ACTIVE or not group.is_stateful(task) or before.get(task) == member:
                continue
            if before.get(task) in group.processes and group.processes[before[task]] == process:
                continue
            if specs[member].lags is None or group.lags.get((process, task), FAR) <= ACCEPTABLE:
                continue
            others = [
                each
                for each, spec in specs.items()
                if each != member and spec.lags is not None and spec.lags.get(task, FAR) <= ACCEPTABLE
            ]
            assert not others, f"{task} moves to {member}, {others} are caught up"


@given(groups, members, st.integers(0, 1 << 20))
def test_tasks_stay_with_members_that_are_caught_up(group: Group, after: dict[str, str], seed: int) -> None:
    """Members come and go, and catch up or not; every assignment obeys the laws."""
    choose = random.Random(seed)
    for processes in (group.processes, after, group.processes):
        group.processes = {name: processes[name] for name in processes}
        group.targets = {name: tasks for name, tasks in group.targets.items() if name in processes}
        for _ in range(3):
            before, found = group.active(), group.assign()
            check(group, found)
            check_no_wait(group, before, found)
            group.move_on()
            for place in sorted(group.lags):
                if choose.random() < 0.5:
                    group.lags[place] = choose.choice((0, ACCEPTABLE, ACCEPTABLE + 1))


@given(groups, members)
def test_all_tasks_reach_their_places(group: Group, after: dict[str, str]) -> None:
    """While all warm-ups catch up, each assignment moves as many tasks as there may be warm-ups; at the end
    there are none, and active tasks are balanced."""
    group.move_on()
    group.restore()
    group.processes = after
    group.targets = {name: tasks for name, tasks in group.targets.items() if name in after}
    tasks = sum(it.task_count for it in group.subtopologies.values())
    for _ in range(tasks // group.configs.warmup_replicas + 3):
        group.move_on()
        group.restore()
    assert group.targets == group.wanted()
    found = group.assign()
    assert found == group.targets, "nothing is left to do"
    counts = [sum(role is Role.ACTIVE for role in each.values()) for each in found.values()]
    assert max(counts) - min(counts) <= 1
    assert all(role is not Role.WARMUP for each in found.values() for role in each.values())


@given(groups)
def test_an_assignment_without_news_is_repeated(group: Group) -> None:
    """Also while warm-ups are under way: a report that changes nothing starts no rebalance."""
    group.move_on()
    group.processes = {**group.processes, "new": "new"}
    group.move_on()
    moving = without_standbys(group.targets)
    for _ in range(3):
        group.targets = group.assign()
        assert without_standbys(group.targets) == moving


@given(groups)
def test_tasks_move_at_once_to_members_that_report_nothing(group: Group) -> None:
    """Kafka Streams 4.3 is one."""
    group.silent = frozenset("abcdefgh") | {"new"}
    group.move_on()
    group.processes = {**group.processes, "new": "new"}
    assert group.assign() == group.wanted()


def moving() -> Group:
    """Six tasks of one member, and one that joins."""
    group = Group(
        {"a": "p"}, {"0": SubtopologyTasks(6, is_stateful=True)}, AssignmentConfigs(0, 2, ACCEPTABLE)
    )
    group.move_on()
    group.processes["b"] = "q"
    return group


def tasks_in(group: Group, member: str, role: Role) -> list[int]:
    return [number for (_, number), held in group.targets[member].items() if held is role]


def test_a_task_moves_when_its_warm_up_is_within_the_acceptable_lag() -> None:
    """Its active task stays until then."""
    group = moving()
    group.move_on()
    assert tasks_in(group, "a", Role.ACTIVE) == [0, 1, 2, 3, 4, 5]
    assert tasks_in(group, "b", Role.WARMUP) == [3, 4]
    group.lags["q", ("0", 3)] = ACCEPTABLE
    group.lags["q", ("0", 4)] = ACCEPTABLE + 1
    group.move_on()
    assert tasks_in(group, "b", Role.ACTIVE) == [3]
    assert tasks_in(group, "b", Role.WARMUP) == [4, 5]


def test_the_standby_that_is_caught_up_takes_over_until_the_warm_up_is() -> None:
    """The member with the task is lost before its warm-up has the state."""
    group = Group(
        {"a": "p", "b": "q", "c": "r"},
        {"0": SubtopologyTasks(3, is_stateful=True)},
        AssignmentConfigs(1, 2, ACCEPTABLE),
    )
    group.move_on()
    group.restore()
    lost = next(task for task in group.targets["a"] if group.targets["a"][task] is Role.ACTIVE)
    standby = next(name for name in "bc" if lost in group.targets[name])
    other = "b" if standby == "c" else "c"
    group.targets[standby] = {**group.targets[standby]}
    group.targets[other] = {**group.targets[other], lost: Role.WARMUP}
    group.lags[group.processes[other], lost] = FAR
    del group.processes["a"], group.targets["a"]
    group.move_on()
    assert group.targets[standby][lost] is Role.ACTIVE
    assert group.targets[other].get(lost) is Role.WARMUP


def test_without_warm_ups_tasks_move_at_once() -> None:
    """num.warmup.replicas is 0."""
    group = moving()
    group.configs = AssignmentConfigs(0, 0, ACCEPTABLE)
    group.move_on()
    assert tasks_in(group, "b", Role.ACTIVE) == [3, 4, 5]
