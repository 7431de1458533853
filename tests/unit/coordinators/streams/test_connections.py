"""Members of streams groups whose connections end."""

from __future__ import annotations

from typing import Any

import pytest
from headrace.coordinators.streams.connections import INTERVALS, LEAST_MS
from headrace.coordinators.streams.streams_heartbeats import STEADY_MS

from tests.fakes.streams_group_rig import SESSION_MS, StreamsGroupRig, StreamsMember, run_app

LEFT_MS = INTERVALS * STEADY_MS


@pytest.fixture
def rig() -> StreamsGroupRig:
    rig = StreamsGroupRig()
    rig.set_topics(events=6)
    return rig


def joined(rig: StreamsGroupRig, **of_second: Any) -> tuple[StreamsMember, StreamsMember]:
    """Two members with their tasks, whose intervals are long again. Each has a connection."""
    first, second = StreamsMember(rig, "a", session=1), StreamsMember(rig, "b", session=2, **of_second)
    first.beat()
    second.beat()
    rig.create_topics()
    run_app(first, second)
    rig.advance(10_000)
    assert [each.beat().heartbeat_interval_ms for each in (first, second)] == [STEADY_MS] * 2
    return first, second


def gone(rig: StreamsGroupRig, session: int) -> None:
    rig.shard.on_peer_gone(session, rig.now)


def test_member_whose_connection_ends_is_removed_soon(rig: StreamsGroupRig) -> None:
    """Not the one of another connection; it has all tasks with its next heartbeats."""
    first, _ = joined(rig)
    gone(rig, 2)
    rig.advance(LEFT_MS - 1)
    assert sorted(rig.app.members) == ["a", "b"]
    rig.advance(1)
    assert list(rig.app.members) == ["a"]
    run_app(first)
    assert len(first.tasks()) == 6


def test_member_that_sends_a_heartbeat_over_another_connection_stays(rig: StreamsGroupRig) -> None:
    """With a full session; the old connection is nothing to it any more."""
    first, second = joined(rig)
    gone(rig, 2)
    second.session = 3
    second.beat()
    gone(rig, 2)
    rig.advance(SESSION_MS - 1)
    first.beat()
    assert "b" in rig.app.members
    gone(rig, 3)
    rig.advance(1)
    assert "b" not in rig.app.members, "the end of a connection lengthens no session"


def test_members_with_short_intervals_have_time_to_connect_again(rig: StreamsGroupRig) -> None:
    """While tasks move a member is to send a heartbeat every 100 ms."""
    first = StreamsMember(rig, "a")
    assert first.beat().heartbeat_interval_ms == 100
    gone(rig, 1)
    rig.advance(LEAST_MS - 1)
    assert not rig.app.is_empty
    rig.advance(1)
    assert rig.app.is_empty


def test_static_member_keeps_its_session(rig: StreamsGroupRig) -> None:
    """It may be away for a while."""
    member = StreamsMember(rig, "a")
    member.beat(instance_id="i")
    gone(rig, 1)
    rig.advance(SESSION_MS - 1)
    assert not rig.app.is_empty
    rig.advance(1)
    assert rig.app.is_empty


def test_connection_of_a_member_that_left_is_forgotten(rig: StreamsGroupRig) -> None:
    """Another member on the same connection keeps its session."""
    first, second = joined(rig)
    first.session = 2
    first.beat()
    second.leave()
    gone(rig, 2)
    rig.advance(LEFT_MS)
    assert rig.app.is_empty
