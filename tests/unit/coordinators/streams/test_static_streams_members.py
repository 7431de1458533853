"""Static members of streams groups: they keep their tasks while they are away."""

from __future__ import annotations

from typing import Any

import pytest
from headrace.coordinators.streams.streams_group import GroupState
from headrace.coordinators.streams.tasks import Role
from headrace.protocol.errors import (
    FencedInstanceIdError,
    InvalidRequestError,
    UnknownMemberIdError,
    UnreleasedInstanceIdError,
)

from tests.fakes.consumer_group_rig import with_config
from tests.fakes.streams_group_rig import SESSION_MS, StreamsGroupRig, StreamsMember, run_app, tasks_of

AWAY = -2


class Static(StreamsMember):
    """A member with the instance id "i"."""

    def request(self, *, is_full: bool = False, **changes: Any) -> Any:
        return super().request(is_full=is_full, **{"instance_id": "i", **changes})

    def go(self) -> Any:
        """Leave for a moment."""
        return self.rig.send(self.request(member_epoch=AWAY, active=None, standby=None, warmup=None))


@pytest.fixture
def rig() -> StreamsGroupRig:
    rig = StreamsGroupRig()
    rig.set_topics(events=4, **{"app-counts-changelog": 4})
    return rig


def both(rig: StreamsGroupRig) -> tuple[Static, StreamsMember]:
    static, other = Static(rig, "a", process_id="p"), StreamsMember(rig, "b")
    run_app(static, other)
    assert (len(static.owned), len(other.owned)) == (2, 2)
    return static, other


@pytest.mark.parametrize("reload", [False, True])
@pytest.mark.parametrize("name", ["a", "c"], ids=["same id", "another id"])
def test_member_that_returns_has_its_tasks_again(rig: StreamsGroupRig, name: str, reload: bool) -> None:
    """At once, in its first response, and no task has moved meanwhile."""
    static, other = both(rig)
    had, group_epoch = static.tasks(), rig.app.epoch
    assert static.go().member_epoch == AWAY
    if reload:
        rig.reload()
    run_app(other, rounds=3)
    assert (len(other.owned), rig.app.epoch) == (2, group_epoch)
    again = Static(rig, name, process_id="p")
    again.beat()
    assert again.tasks() == had
    assert again.epoch == rig.app.assignment_epoch
    assert sorted(rig.app.members) == sorted({"b", name})
    run_app(again, other)
    assert rig.app.state is GroupState.STABLE
    if name == "c":
        with pytest.raises(FencedInstanceIdError, match="'i' now belongs"):
            static.beat()


def test_tasks_move_when_its_session_expires(rig: StreamsGroupRig) -> None:
    static, other = both(rig)
    rig.advance(SESSION_MS // 2)
    static.go()
    for _ in range(3):
        other.beat()
        rig.advance(SESSION_MS // 2 - 1)
    run_app(other)
    assert other.tasks() == tasks_of("0", range(4))
    with pytest.raises(UnknownMemberIdError):
        static.beat()


def test_static_member_returning_in_another_process_has_no_state(rig: StreamsGroupRig) -> None:
    """Its tasks are assigned again, standby tasks included, and are in no process twice."""
    with_config(rig, group_streams_num_standby_replicas=1)
    static, other = both_with_standbys(rig)
    static.go()
    again = Static(rig, "c", process_id="elsewhere")
    run_app(again, other)
    assert again.tasks() | other.tasks() == tasks_of("0", range(4))
    assert again.tasks(Role.STANDBY) == other.tasks()


def both_with_standbys(rig: StreamsGroupRig) -> tuple[Static, StreamsMember]:
    static, other = Static(rig, "a", process_id="p"), StreamsMember(rig, "b")
    run_app(static, other)
    assert static.tasks(Role.STANDBY) == other.tasks()
    return static, other


def test_taken_instance_id_is_refused(rig: StreamsGroupRig) -> None:
    """As long as its member lives; a leave for good frees it."""
    static, other = both(rig)
    with pytest.raises(UnreleasedInstanceIdError, match="'i' is taken by member 'a'"):
        Static(rig, "c").beat()
    static.beat()
    static.leave(instance_id="i")
    run_app(other)
    assert len(other.owned) == 4
    Static(rig, "c").beat()
    assert rig.app.members["c"].instance_id == "i"


def test_dynamic_member_cannot_leave_for_a_moment(rig: StreamsGroupRig) -> None:
    _, other = both(rig)
    with pytest.raises(InvalidRequestError, match="epoch -2"):
        rig.send(other.request(member_epoch=AWAY, active=None, standby=None, warmup=None))


def test_task_of_an_absent_member_that_moves_is_free_at_once(rig: StreamsGroupRig) -> None:
    """It has closed all its tasks: no revocation is awaited on its return."""
    static, other = both(rig)
    static.go()
    third = StreamsMember(rig, "d")
    run_app(other, third)
    again = Static(rig, "c", process_id="p")
    run_app(again, other, third)
    assert again.tasks() | other.tasks() | third.tasks() == tasks_of("0", range(4))
    assert rig.app.state is GroupState.STABLE
