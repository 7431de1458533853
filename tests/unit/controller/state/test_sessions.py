"""Sessions, on a clock that the test moves."""

from typing import Any

from headrace.controller.state.heartbeat_delays import HeartbeatDelays
from headrace.controller.state.sessions import SessionExpiry, Sessions


def sessions_of(floor_ms: int = 100, ceiling_ms: int = 100, interval_ms: int = 20) -> Sessions:
    return Sessions(HeartbeatDelays(interval_ms, floor_ms, ceiling_ms))


def expiry_of(sessions: Sessions, node_id: int, now_ms: int) -> SessionExpiry:
    expiry = sessions.expiry(node_id, now_ms)
    assert expiry is not None
    return expiry


def test_a_session_lives_for_the_timeout() -> None:
    """Heartbeat at 0 with a timeout of 100: live at 99, expired at 100, live after the next heartbeat."""
    sessions = sessions_of()
    assert not sessions.is_live(1, 0)
    sessions.touch(1, 0)
    assert sessions.is_live(1, 99)
    assert not sessions.expired(99)
    assert not sessions.is_live(1, 100)
    assert sessions.expired(100) == [1]
    sessions.touch(1, 100)
    assert sessions.is_live(1, 199)


def test_expired_sessions_are_sorted_and_stay_until_dropped() -> None:
    """Two of three nodes sent nothing."""
    sessions = sessions_of()
    for node_id, heartbeat_ms in ((3, 0), (1, 0), (2, 50)):
        sessions.touch(node_id, heartbeat_ms)
    assert sessions.expired(100) == [1, 3]
    sessions.forget(1)
    sessions.forget(9)
    sessions.expire(9)
    assert sessions.expired(100) == [3]
    assert len(sessions) == 2


def test_a_stall_of_the_controller_extends_sessions() -> None:
    """It was stalled for 500 ms and could receive nothing: neither the silence of nodes nor a closed
    connection counts for that time."""
    sessions = sessions_of()
    sessions.restart([1, 2], 0)
    sessions.disconnected(2, 0)
    sessions.extend(500)
    assert sessions.is_live(1, 599)
    assert not sessions.expired(599)
    assert not sessions.is_live(1, 600)
    assert sessions.expired(600) == [1, 2]


def test_extensions_are_bounded_per_session() -> None:
    """Each of its ticks extends by 30 ms a session of 100; a node with heartbeats keeps all extensions."""
    sessions = sessions_of()
    sessions.restart([1, 2], 0)
    now_ms = 0
    while 1 in (expired := sessions.expired(now_ms)) or not expired:
        assert now_ms <= 300, "a dead node is missed in the end"
        now_ms += 30
        sessions.extend(30)
        if not now_ms % 90:
            sessions.touch(1, now_ms)
    assert expired == [2]
    sessions.extend(1_000)  # a single long stall is compensated in full
    assert sessions.expired(now_ms + 1_000) == [2]


def test_the_session_of_a_dead_process_ends() -> None:
    """An extension does not restore it, a heartbeat does; a notice creates no session."""
    sessions = sessions_of()
    sessions.touch(1, 1_000)
    sessions.end(1)
    sessions.end(2)
    sessions.extend(10_000)
    assert sessions.expired(1_000) == [1]
    assert expiry_of(sessions, 1, 11_000).is_reported_dead
    assert len(sessions) == 1
    sessions.touch(1, 1_001)
    assert sessions.is_live(1, 1_100)
    assert not sessions.expired(1_100)


def busy(sessions: Sessions, **options: Any) -> int:
    """Node 1 sends a heartbeat every 20 ms, one of them 60 ms late; the time of the last."""
    at_ms = options.get("begin_ms", 0)
    for step_ms in (0, 20, 20, 80, 20):
        at_ms += step_ms
        sessions.touch(1, at_ms)
    return at_ms


def test_a_node_with_late_heartbeats_gets_a_longer_session() -> None:
    """60 ms late: 20 + 3 * 60 ms from then on, for this node alone, up to the ceiling."""
    sessions = sessions_of(ceiling_ms=500)
    last_ms = busy(sessions)
    sessions.touch(2, last_ms)
    assert sessions.timeout_ms(1, last_ms) == 200
    assert sessions.timeout_ms(2, last_ms) == 100
    assert sessions.expired(last_ms + 199) == [2]
    assert sessions.expired(last_ms + 200) == [1, 2]
    assert expiry_of(sessions, 1, last_ms + 200) == SessionExpiry(200, 200, 60)
    bounded = sessions_of(ceiling_ms=150)
    assert bounded.timeout_ms(1, busy(bounded)) == 150


def test_another_process_may_register_after_the_floor() -> None:
    """The previous process has released its lock, and sent nothing for the floor."""
    sessions = sessions_of(ceiling_ms=500)
    last_ms = busy(sessions)
    assert sessions.is_live(1, last_ms + 99)
    assert not sessions.is_live(1, last_ms + 100)
    assert not sessions.expired(last_ms + 100)


def test_a_closed_connection_ends_the_longer_session() -> None:
    """The process is dead, or reconnects: its late heartbeats before do not count."""
    sessions = sessions_of(ceiling_ms=500)
    last_ms = busy(sessions)
    sessions.disconnected(1, last_ms + 10)
    sessions.disconnected(9, last_ms + 10)
    assert not sessions.expired(last_ms + 109)
    assert sessions.expired(last_ms + 110) == [1]
    assert expiry_of(sessions, 1, last_ms + 110).disconnected_ms == 100
    sessions.touch(1, last_ms + 110)
    assert not sessions.expired(last_ms + 110)


def test_timeouts_are_computed_for_silent_nodes_only() -> None:
    """The controller checks sessions after every group of decisions, with up to 1,000 nodes: those with a
    heartbeat within the floor must cost next to nothing."""
    asked: list[int] = []

    class Counting(HeartbeatDelays):
        def timeout_ms(self, node_id: int, now_ms: int) -> int:
            asked.append(node_id)
            return super().timeout_ms(node_id, now_ms)

    sessions = Sessions(Counting(20, 100, 500))
    for node_id in range(1_000):
        sessions.touch(node_id, 0 if node_id == 7 else 50)
    assert sessions.expired(120) == [7]
    assert asked == [7]


def test_a_heartbeat_from_before_the_disconnect_does_not_undo_it() -> None:
    """It waited for its turn at the controller while the process was killed."""
    sessions = sessions_of(ceiling_ms=500)
    last_ms = busy(sessions)
    sessions.disconnected(1, last_ms + 20)
    sessions.touch(1, last_ms + 10)
    assert not sessions.expired(last_ms + 119)
    assert sessions.expired(last_ms + 120) == [1]
    assert expiry_of(sessions, 1, last_ms + 120).disconnected_ms == 100


def test_a_wrongly_fenced_node_gets_a_longer_session() -> None:
    """Its session expired, and the next heartbeat came 130 ms after the last: it was late, not dead."""
    sessions = sessions_of(ceiling_ms=500)
    sessions.touch(1, 0)
    assert sessions.expired(100) == [1]
    sessions.expire(1)
    assert not sessions.expired(100)
    sessions.touch(1, 130)
    assert sessions.timeout_ms(1, 130) == 20 + 3 * 110


def test_the_first_heartbeat_is_never_late() -> None:
    """After a registration, and after the start of a new controller."""
    sessions = sessions_of(ceiling_ms=500)
    sessions.restart([2], 0)
    sessions.register(1, 0)
    for node_id in (1, 2):
        sessions.touch(node_id, 90)
        assert sessions.timeout_ms(node_id, 90) == 100
        sessions.touch(node_id, 180)
        assert sessions.timeout_ms(node_id, 180) == 20 + 3 * 70


def test_the_next_process_starts_without_lateness() -> None:
    """Neither the delays of a dead process nor the time between the two count."""
    sessions = sessions_of(ceiling_ms=500)
    last_ms = busy(sessions)
    sessions.expire(1)
    sessions.forget(1)
    sessions.touch(1, last_ms + 300)
    assert sessions.timeout_ms(1, last_ms + 300) == 100
