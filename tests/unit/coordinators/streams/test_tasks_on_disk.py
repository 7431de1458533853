"""Tasks whose stores lie on the disk of a process that does not have them: they go back there."""

from __future__ import annotations

from headrace.coordinators.streams.configured_topology import SubtopologyTasks
from headrace.coordinators.streams.sticky_assignor import MemberSpec
from headrace.coordinators.streams.tasks import Role, Task, Tasks
from headrace.coordinators.streams.warmups import AssignmentConfigs, assign
from headrace.protocol.messages.streams_groups import TaskOffset

from tests.fakes.streams_group_rig import END, StreamsGroupRig, StreamsMember, run_app, tasks_of

COUNTS = {"0": SubtopologyTasks(6, is_stateful=True)}


def on_disk(*partitions: int, lag: int = 0) -> dict[Task, int]:
    return {("0", partition): lag for partition in partitions}


def active(tasks: Tasks) -> list[int]:
    return [partition for (_, partition), role in tasks.items() if role is Role.ACTIVE]


def standbys(tasks: Tasks) -> list[int]:
    return [partition for (_, partition), role in tasks.items() if role is Role.STANDBY]


def test_after_a_restart_of_all_each_process_gets_its_tasks() -> None:
    """Of two disks with the stores of a task, the one with the least lag has it as active task."""
    members = {
        "a": MemberSpec("p", {}, lags=on_disk(1, 3, 5) | on_disk(0, lag=40)),
        "b": MemberSpec("q", {}, lags=on_disk(0, 2, 4) | on_disk(1, lag=40)),
    }
    found = assign(members, COUNTS, AssignmentConfigs(standby_replicas=1, warmup_replicas=2))
    assert (active(found["a"]), active(found["b"])) == ([1, 3, 5], [0, 2, 4])


def test_standby_is_assigned_to_the_process_with_its_stores() -> None:
    """Of three processes with equal load, that with the stores on its disk."""
    members = {
        "a": MemberSpec("p", {("0", 0): Role.ACTIVE}),
        "b": MemberSpec("q", {("0", 1): Role.ACTIVE}),
        "c": MemberSpec("r", {("0", 2): Role.ACTIVE}, lags=on_disk(0)),
    }
    three = {"0": SubtopologyTasks(3, is_stateful=True)}
    found = assign(members, three, AssignmentConfigs(standby_replicas=1))
    assert 0 in standbys(found["c"])


def test_restarted_process_gets_the_tasks_on_its_disk_at_once() -> None:
    """Not others, which it would have to restore: of the six tasks, the other member gives up those three."""
    rig = StreamsGroupRig()
    rig.set_topics(events=6, **{"app-counts-changelog": 6})
    stays = StreamsMember(rig, "a", lag_of=lambda _task, _role: 0)
    returns = StreamsMember(rig, "b", process_id="disk", lag_of=lambda _task, _role: 0)
    run_app(stays, returns)
    before = returns.tasks()
    assert len(before) == 3
    returns.leave()
    run_app(stays)
    assert stays.tasks() == tasks_of("0", range(6))
    again = StreamsMember(rig, "c", process_id="disk", lag_of=lambda _task, _role: 0)
    stored = tuple(TaskOffset(*task, END - 5) for task in sorted(before))
    again.beat(task_offsets=stored, task_end_offsets=tuple(TaskOffset(*task, END) for task in before))
    run_app(stays, again)
    assert again.tasks() == before
    assert again.tasks(Role.WARMUP) == set()
