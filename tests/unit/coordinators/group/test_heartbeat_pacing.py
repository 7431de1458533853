"""Heartbeat intervals of members during rebalances."""

from __future__ import annotations

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


def test_soon_for_one_interval_after_a_move(pacing: HeartbeatPacing) -> None:
    """Whichever heartbeat moved the group; another move begins another interval."""
    assert interval(pacing, "a", 0, 1, 0) == 100
    assert interval(pacing, "a", 1, 1, 4_999) == 100
    assert interval(pacing, "a", 1, 1, 5_000) == LONGEST_MS
    assert interval(pacing, "a", 1, 2, 6_000) == 100
    assert interval(pacing, "a", 2, 3, 8_000) == 100
    assert interval(pacing, "a", 3, 3, 12_999) == 100
    assert interval(pacing, "a", 3, 3, 13_000) == LONGEST_MS


def test_a_move_between_two_heartbeats_is_seen_by_the_next(pacing: HeartbeatPacing) -> None:
    """A member that left or was taken out is not answered with an interval."""
    interval(pacing, "a", 4, 4, 0)
    assert interval(pacing, "a", 5, 5, 1_000) == 100


def test_a_group_that_was_not_seen_before_has_not_moved(pacing: HeartbeatPacing) -> None:
    """Else a coordinator that takes over a thousand groups would hear all of them at once."""
    assert interval(pacing, "a", 7, 7, 0) == LONGEST_MS
    assert interval(pacing, "b", 7, 8, 0) == 100


def test_many_members_are_heard_more_rarely_whatever_their_groups(pacing: HeartbeatPacing) -> None:
    """A hundred a second, of all that move; a move of one group again does not count it twice."""
    assert interval(pacing, "a", 0, 1, 0, members=30) == 300
    assert interval(pacing, "a", 1, 2, 100, members=31) == 310
    assert interval(pacing, "b", 0, 1, 200, members=20) == 510
    assert interval(pacing, "a", 2, 2, 200, members=31) == 510
    assert interval(pacing, "c", 3, 3, 300, members=1_000) == LONGEST_MS
    assert interval(pacing, "b", 1, 1, 5_150, members=20) == 200
    assert interval(pacing, "c", 3, 4, 5_160, members=1_000) == LONGEST_MS


def test_never_more_rarely_than_without_a_move(pacing: HeartbeatPacing) -> None:
    """A short interval stays."""
    assert interval(pacing, "a", 0, 1, 0, longest_ms=50) == 50


def test_a_group_that_is_gone_counts_no_more(pacing: HeartbeatPacing) -> None:
    """And is a new one when it comes again."""
    interval(pacing, "a", 0, 1, 0, members=400)
    pacing.forget("a")
    pacing.forget("a")
    assert interval(pacing, "b", 0, 1, 0, members=2) == 100
    assert interval(pacing, "a", 1, 1, 0) == LONGEST_MS
