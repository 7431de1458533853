"""Heartbeat intervals of members during rebalances."""

import pytest
from headrace.coordinators.group.heartbeat_pacing import HeartbeatPacing

LONGEST_MS = 5_000


@pytest.fixture
def pacing() -> HeartbeatPacing:
    return HeartbeatPacing()


def interval(
    pacing: HeartbeatPacing,
    group: str,
    before: int,
    epoch: int,
    now_ms: int,
    members: int = 1,
    longest_ms: int = LONGEST_MS,
) -> int:
    return pacing.interval_ms(
        group, before=before, epoch=epoch, members=members, longest_ms=longest_ms, now_ms=now_ms
    )


def test_short_interval_after_a_group_change(pacing: HeartbeatPacing) -> None:
    """Whichever heartbeat changed the group; another change starts another interval."""
    assert interval(pacing, "a", 0, 1, 0) == 100
    assert interval(pacing, "a", 1, 1, 4_999) == 100
    assert interval(pacing, "a", 1, 1, 5_000) == LONGEST_MS
    assert interval(pacing, "a", 1, 2, 6_000) == 100
    assert interval(pacing, "a", 2, 3, 8_000) == 100
    assert interval(pacing, "a", 3, 3, 12_999) == 100
    assert interval(pacing, "a", 3, 3, 13_000) == LONGEST_MS


def test_change_between_heartbeats_shortens_the_next_interval(pacing: HeartbeatPacing) -> None:
    """A member that left or was removed is not answered with an interval."""
    interval(pacing, "a", 4, 4, 0)
    assert interval(pacing, "a", 5, 5, 1_000) == 100


def test_loaded_group_has_not_changed(pacing: HeartbeatPacing) -> None:
    """Else a coordinator that loads a thousand groups would get heartbeats of all of them at once."""
    assert interval(pacing, "a", 7, 7, 0) == LONGEST_MS
    assert interval(pacing, "b", 7, 8, 0) == 100


def test_heartbeats_after_changes_are_bounded_over_all_groups(pacing: HeartbeatPacing) -> None:
    """A hundred a second over all changed groups; another change of a group does not count it twice."""
    assert interval(pacing, "a", 0, 1, 0, members=30) == 300
    assert interval(pacing, "a", 1, 2, 100, members=31) == 310
    assert interval(pacing, "b", 0, 1, 200, members=20) == 510
    assert interval(pacing, "a", 2, 2, 200, members=31) == 510
    assert interval(pacing, "c", 3, 3, 300, members=1_000) == LONGEST_MS
    assert interval(pacing, "b", 1, 1, 5_150, members=20) == 200
    assert interval(pacing, "c", 3, 4, 5_160, members=1_000) == LONGEST_MS


def test_interval_never_exceeds_the_configured_one(pacing: HeartbeatPacing) -> None:
    assert interval(pacing, "a", 0, 1, 0, longest_ms=50) == 50


def test_deleted_group_is_not_counted(pacing: HeartbeatPacing) -> None:
    """It is a new group when it is created again."""
    interval(pacing, "a", 0, 1, 0, members=400)
    pacing.forget("a")
    pacing.forget("a")
    assert interval(pacing, "b", 0, 1, 0, members=2) == 100
    assert interval(pacing, "a", 1, 1, 0) == LONGEST_MS


def test_members_of_a_small_shard_heartbeat_often_without_changes() -> None:
    """The interval grows with the members of all groups; a deleted group does not count."""
    pacing = HeartbeatPacing(1_000, 50)
    assert interval(pacing, "a", 1, 1, 0, members=2) == 1_000
    assert interval(pacing, "b", 1, 1, 0, members=38) == 2_000
    assert interval(pacing, "a", 1, 1, 0, members=62) == LONGEST_MS
    pacing.forget("b")
    assert interval(pacing, "a", 1, 1, 0, members=22) == 1_100
    assert interval(pacing, "a", 1, 2, 0, members=22) == 220
    assert interval(pacing, "c", 1, 1, 0, members=1, longest_ms=500) == 500
