"""Sessions by a clock that the test moves."""

from __future__ import annotations

from headrace.controller.state.sessions import Sessions


def test_a_session_lives_for_the_timeout() -> None:
    """Heard at 0 with a timeout of 100: live at 99, over at 100, live again once heard."""
    sessions = Sessions(100)
    assert not sessions.is_live(1, 0)
    sessions.touch(1, 0)
    assert sessions.is_live(1, 99)
    assert not sessions.is_live(1, 100)
    sessions.touch(1, 100)
    assert sessions.is_live(1, 199)


def test_expired_ones_come_sorted_and_stay_until_forgotten() -> None:
    """Two of three nodes fell silent."""
    sessions = Sessions(100)
    for node_id, heard_ms in ((3, 0), (1, 0), (2, 50)):
        sessions.touch(node_id, heard_ms)
    assert sessions.expired(100) == [1, 3]
    sessions.forget(1)
    sessions.forget(9)
    assert sessions.expired(100) == [3]
    assert len(sessions) == 2


def test_lost_time_is_given_back() -> None:
    """The controller stood still for 500 ms: nobody could be heard."""
    sessions = Sessions(100)
    sessions.restart([1], 0)
    sessions.extend(500)
    assert sessions.is_live(1, 599)
    assert not sessions.is_live(1, 600)


def test_a_controller_that_is_always_late_misses_nodes_all_the_same() -> None:
    """Each of its ticks gives 30 ms back, in a session of 100; whoever is heard meanwhile has all of them."""
    sessions = Sessions(100)
    sessions.restart([1, 2], 0)
    now_ms = 0
    while 1 in (expired := sessions.expired(now_ms)) or not expired:
        assert now_ms <= 300, "a dead node is missed in the end"
        now_ms += 30
        sessions.extend(30)
        if not now_ms % 90:
            sessions.touch(1, now_ms)
    assert expired == [2]
    sessions.extend(1_000)  # one long stop is given back in whole
    assert sessions.expired(now_ms + 1_000) == [2]


def test_an_ended_session_stays_over_until_it_is_heard() -> None:
    """Time that is given back does not bring it back; a heartbeat does. Nobody is made up."""
    sessions = Sessions(100)
    sessions.touch(1, 1_000)
    sessions.end(1)
    sessions.end(2)
    sessions.extend(10_000)
    assert sessions.expired(1_000) == [1]
    assert len(sessions) == 1
    sessions.touch(1, 1_001)
    assert sessions.is_live(1, 1_100)
