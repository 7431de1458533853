"""Warm-up tasks of streams groups: tasks move when the reported offsets say so, in one step."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest
from headrace.coordinators.streams.streams_member import MemberState
from headrace.coordinators.streams.tasks import Role, Task
from headrace.protocol.errors import InvalidRequestError
from headrace.protocol.messages.streams_groups import TaskOffset
from headrace.protocol.metadata.image import GROUP_RESOURCE

from tests.fakes.streams_group_rig import APP, StreamsGroupRig, StreamsMember, run_app, tasks_of


@dataclass
class Stores:
    """How far the stores of a member are behind: active tasks are complete."""

    behind: dict[Task, int] = field(default_factory=dict)
    others: int = 50_000

    def lag_of(self, task: Task, role: Role) -> int:
        return 0 if role is Role.ACTIVE else self.behind.get(task, self.others)


@pytest.fixture
def rig() -> StreamsGroupRig:
    rig = StreamsGroupRig()
    rig.set_topics(events=6, **{"app-counts-changelog": 6})
    return rig


def config_of(rig: StreamsGroupRig, **values: str) -> None:
    """Set configs of the group; underscores for dots."""
    own = {name.replace("_", "."): value for name, value in values.items()}
    rig.image = replace(rig.image, offset=rig.image.offset + 1, configs={(GROUP_RESOURCE, APP): own})


def member(rig: StreamsGroupRig, name: str, stores: Stores) -> StreamsMember:
    return StreamsMember(rig, name, lag_of=stores.lag_of)


def test_a_task_moves_when_its_warm_up_has_caught_up(rig: StreamsGroupRig) -> None:
    """The first member goes on with all tasks until then; two warm-ups at a time."""
    stores = Stores()
    first, second = member(rig, "a", Stores()), member(rig, "b", stores)
    run_app(first, second)
    assert first.tasks() == tasks_of("0", range(6))
    warm = second.tasks(Role.WARMUP)
    assert len(warm) == 2
    assert rig.app.members["b"].state is MemberState.STABLE
    epoch = rig.app.epoch
    run_app(first, second)
    assert rig.app.epoch == epoch, "a report without progress starts no rebalance"
    (ready, late) = sorted(warm)
    stores.behind[ready] = 10_000
    run_app(first, second)
    assert second.tasks() == {ready}
    assert late in second.tasks(Role.WARMUP)
    assert len(second.tasks(Role.WARMUP)) == 2
    stores.others = 10_000
    run_app(first, second)
    assert (len(first.tasks()), len(second.tasks())) == (3, 3)
    assert second.tasks(Role.WARMUP) == set()


def test_a_warm_up_becomes_active_in_one_step(rig: StreamsGroupRig) -> None:
    """It is never closed on the way, and stays a warm-up until the first member has revoked the task."""
    stores = Stores()
    first, second = member(rig, "a", Stores()), member(rig, "b", stores)
    run_app(first, second)
    warm = second.tasks(Role.WARMUP)
    stores.others = 0
    second.beat()
    assert second.tasks(Role.WARMUP) >= warm
    assert rig.app.members["b"].state is MemberState.UNRELEASED_TASKS
    first.beat()
    second.beat()
    assert second.tasks(Role.WARMUP) >= warm, "the first has not said that it has revoked them"
    first.beat()
    second.beat()
    assert second.tasks() == warm


def test_an_active_task_becomes_a_standby_in_one_step(rig: StreamsGroupRig) -> None:
    """The response that revokes it has it as a standby; it is revoked when the member reports that role."""
    config_of(rig, streams_num_standby_replicas="1", streams_num_warmup_replicas="0")
    first, second = StreamsMember(rig, "a"), StreamsMember(rig, "b")
    run_app(first)
    second.beat()
    first.take(first.send())
    moved = {task for task, role in first.wanted.items() if role is Role.STANDBY}
    assert len(moved) == 3
    found = rig.app.members["a"]
    assert (found.state, set(found.pending)) == (MemberState.UNREVOKED_TASKS, moved)
    second.beat()
    assert second.tasks() == set()
    first.settle()
    first.beat()
    second.beat()
    assert second.tasks() == moved
    run_app(first, second)
    assert first.tasks(Role.STANDBY) == moved


def test_a_fail_over_forgets_offsets_and_moves_nothing(rig: StreamsGroupRig) -> None:
    """Warm-ups stay; the next reports complete the move."""
    stores = Stores()
    first, second = member(rig, "a", Stores()), member(rig, "b", stores)
    run_app(first, second)
    rig.reload()
    run_app(first, second)
    assert len(first.tasks()) == 6
    assert len(second.tasks(Role.WARMUP)) == 2
    stores.others = 0
    run_app(first, second)
    assert len(second.tasks()) == 3


def test_configs_of_warm_ups(rig: StreamsGroupRig) -> None:
    """Members receive the lag and the interval; another number of warm-ups starts a rebalance."""
    config_of(
        rig,
        streams_num_warmup_replicas="1",
        streams_acceptable_recovery_lag="7",
        streams_task_offset_interval_ms="20000",
    )
    stores = Stores(others=8)
    first, second = member(rig, "a", Stores()), member(rig, "b", stores)
    run_app(first, second)
    answer = first.beat()
    assert (answer.acceptable_recovery_lag, answer.task_offset_interval_ms) == (7, 20_000)
    assert (len(second.tasks()), len(second.tasks(Role.WARMUP))) == (0, 1)
    config_of(rig, streams_num_warmup_replicas="0")
    run_app(first, second)
    assert (len(second.tasks()), len(second.tasks(Role.WARMUP))) == (3, 0)


def test_the_highest_end_counts(rig: StreamsGroupRig) -> None:
    """A warm-up that has not seen the end of the changelog for long is not caught up; nor is one whose end is
    not known, and tasks that do not exist are left out."""
    first, second = member(rig, "a", Stores()), member(rig, "b", Stores())
    run_app(first, second)
    stale = tuple(TaskOffset(*task, 10) for task in sorted(second.tasks(Role.WARMUP)))
    second.beat(task_offsets=stale, task_end_offsets=stale)
    run_app(first)
    second.beat(task_offsets=(*stale, TaskOffset("9", 9, 1)), task_end_offsets=None)
    assert len(first.tasks()) == 6


def test_offsets_that_cannot_be(rig: StreamsGroupRig) -> None:
    first = member(rig, "a", Stores())
    first.beat()
    with pytest.raises(InvalidRequestError, match="offset -2 of task 1 is negative"):
        first.send(task_end_offsets=(TaskOffset("0", 1, -2),))


def test_offsets_of_a_removed_member_are_dropped(rig: StreamsGroupRig) -> None:
    """A member that rejoins under the same id must report its offsets again."""
    first, second = member(rig, "a", Stores()), member(rig, "b", Stores(others=0))
    run_app(first, second)
    assert len(second.tasks()) == 3
    second.leave()
    second.lag_of = None
    run_app(first, second)
    assert len(second.tasks()) == 3, "a member that reports no offsets has its tasks at once"
