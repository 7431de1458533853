"""Membership: every answer of the controller, and every way to lose it, leads somewhere sensible."""

from __future__ import annotations

from typing import Any

import pytest
from headrace.protocol.errors import (
    BrokerIdNotRegisteredError,
    DuplicateBrokerRegistrationError,
    InconsistentClusterIdError,
    InvalidRequestError,
    NotControllerError,
    StaleBrokerEpochError,
)
from headrace.protocol.messages.control import BrokerHeartbeatResponse, BrokerRegistrationResponse
from headrace.storage_node.links import membership as m

TIMES = m.MembershipTimes(
    heartbeat_ms=0,
    backoff_ms=50,
    backoff_max_ms=400,
    registration_timeout_ms=1_000,
    shutdown_timeout_ms=2_000,
)
REGISTERED = m.RegistrationAnswered(
    BrokerRegistrationResponse(0, "", 7, 12, "c", heartbeat_interval_ms=300, session_timeout_ms=1_500)
)


def refused(error: type[Any]) -> m.RegistrationAnswered:
    return m.RegistrationAnswered(BrokerRegistrationResponse(error.code, "no"))


def beat(
    *, error: int = 0, fenced: bool = False, shutdown: bool = False, offset: int = -1, sent_ms: int = 0
) -> m.HeartbeatAnswered:
    return m.HeartbeatAnswered(BrokerHeartbeatResponse(error, "", fenced, shutdown, offset), sent_ms)


def say(broker_epoch: int, sent_ms: int = 0, *, want_shutdown: bool = False) -> m.SendHeartbeat:
    return m.SendHeartbeat(broker_epoch, want_shutdown, sent_ms)


def said(broker_epoch: int, sent_ms: int = 0, *, want_shutdown: bool = False) -> tuple[m.Effect, ...]:
    """A heartbeat, and the timer of the next."""
    heartbeat = say(broker_epoch, sent_ms, want_shutdown=want_shutdown)
    return heartbeat, m.SetTimer(m.HEARTBEAT_TIMER, sent_ms + 300)


class Driver:
    """Feeds a membership and checks its laws after every event."""

    def __init__(self) -> None:
        self.core = m.Membership(TIMES)
        assert self.core.start() == (m.FindController(),)

    def __call__(self, event: m.Event, now_ms: int = 0) -> tuple[m.Effect, ...]:
        effects = self.core.step(event, now_ms)
        self.core.check()
        return effects


@pytest.fixture
def node() -> Driver:
    return Driver()


@pytest.fixture
def active(node: Driver) -> Driver:
    node(m.Connected())
    node(REGISTERED)
    node(m.MetadataApplied(12))
    node(beat())
    assert node.core.state is m.MembershipState.ACTIVE
    return node


def test_a_new_node_registers_follows_the_metadata_and_is_let_in(node: Driver) -> None:
    """The happy path: the heartbeat goes out as soon as the node knows its own registration."""
    assert node(m.Connected()) == (m.SendRegistration(),)
    assert node(REGISTERED, 1_000) == (
        m.AdoptIdentity(7, "c"),
        m.FollowMetadata(),
        m.SetTimer(m.HEARTBEAT_TIMER, 1_300),
    )
    assert node(m.MetadataApplied(11)) == ()
    assert node(m.MetadataApplied(12)) == said(12)
    assert node(beat(), 2_000) == ()
    assert node.core.state is m.MembershipState.ACTIVE


def test_metadata_that_overtakes_the_registration_is_not_forgotten(node: Driver) -> None:
    """On re-registration the follow loop runs on and may apply the new epoch before its answer comes."""
    node(m.Connected())
    node(m.MetadataApplied(12))
    assert say(12) in node(REGISTERED)


def test_heartbeats_do_not_wait_for_answers(active: Driver) -> None:
    """The answers wait for the disk of the metadata log; heartbeats go out all the same, up to a bound, and
    an answer makes no further one."""
    for number in range(m.MAX_HEARTBEATS):
        at_ms = 300 * number
        assert active(m.TimeCame(m.HEARTBEAT_TIMER), at_ms) == said(12, at_ms)
    full_ms = 300 * m.MAX_HEARTBEATS
    assert active(m.TimeCame(m.HEARTBEAT_TIMER), full_ms) == (m.SetTimer(m.HEARTBEAT_TIMER, full_ms + 300),)
    assert active(beat(), full_ms) == ()
    assert active(m.TimeCame(m.HEARTBEAT_TIMER), full_ms + 300) == said(12, full_ms + 300)
    assert active(m.HeartbeatFailed(), full_ms + 400) == ()
    assert active(m.TimeCame(m.HEARTBEAT_TIMER), full_ms + 600) == said(12, full_ms + 600)


def test_a_heartbeat_that_was_heard_is_a_lease_from_when_it_was_sent(active: Driver) -> None:
    """By a third of the session, for a node that has the metadata of then; not while it is fenced, and not
    from a controller that says nothing about its metadata."""
    lease = active.core.lease
    lease.learned(70)
    assert active(m.TimeCame(m.HEARTBEAT_TIMER), 2_000) == said(12, 2_000)
    active(beat(offset=70, sent_ms=2_000), 2_400)
    assert lease.holds(2_499)
    assert not lease.holds(2_500)
    stale = StaleBrokerEpochError.code
    for without in (beat(fenced=True, offset=70, sent_ms=3_000), beat(sent_ms=3_000)):
        active(without, 3_000)
    active(beat(error=stale, offset=70, sent_ms=3_000), 3_000)
    assert not lease.holds(2_500)


def test_news_do_not_wait_for_the_next_heartbeat(active: Driver) -> None:
    """A disk failed: told at once; while a heartbeat is under way, right behind its answer."""
    assert active(m.NewsCame()) == said(12)
    assert active(m.NewsCame()) == ()
    assert active(beat(), 500) == said(12, 500)
    assert active(beat(), 600) == ()
    active(m.Disconnected())
    assert active(m.NewsCame()) == (), "the first heartbeat of the next connection tells it"


def test_a_fenced_node_comes_back(active: Driver) -> None:
    """The controller fenced us, for example after a pause; the next good answer lets us in again."""
    active(beat(fenced=True))
    assert active.core.state is m.MembershipState.FENCED
    active(beat())
    assert active.core.state is m.MembershipState.ACTIVE


def test_a_lost_controller_is_searched_with_growing_pauses(active: Driver) -> None:
    """Back-off doubles to its limit and starts anew after a success."""
    waits = []
    for _ in range(6):
        (timer,) = active(m.Disconnected(), 10_000)
        assert isinstance(timer, m.SetTimer)
        waits.append(timer.deadline_ms - 10_000)
        assert active(m.TimeCame(m.SEARCH_TIMER)) == (m.FindController(),)
    assert waits == [50, 100, 200, 400, 400, 400]
    active(m.Connected())
    assert active(m.Disconnected(), 0) == (m.SetTimer(m.SEARCH_TIMER, 50),)


def test_an_election_is_not_backed_off_from(active: Driver) -> None:
    """Controllers answer and none leads: asked again in short, even pauses, also after longer ones."""
    for _ in range(5):
        active(m.Disconnected())
    for _ in range(5):
        assert active(m.Disconnected(is_electing=True), 0) == (m.SetTimer(m.SEARCH_TIMER, 50),)
        active(m.TimeCame(m.SEARCH_TIMER))


def test_after_a_reconnect_the_old_registration_is_used_on(active: Driver) -> None:
    """A restarted controller knows us from its log: no new registration, no new epoch."""
    active(m.Disconnected())
    assert active(m.Connected()) == (m.FollowMetadata(), *said(12))
    active(beat())
    assert active.core.state is m.MembershipState.ACTIVE


@pytest.mark.parametrize("error", [StaleBrokerEpochError, BrokerIdNotRegisteredError])
def test_a_lost_registration_is_made_anew(active: Driver, error: type[Any]) -> None:
    """The controller no longer accepts our epoch: register, take the new one."""
    assert active(beat(error=error.code)) == (m.SendRegistration(),)
    effects = active(
        m.RegistrationAnswered(BrokerRegistrationResponse(0, "", 7, 40, "c", heartbeat_interval_ms=300))
    )
    assert m.AdoptIdentity(7, "c") in effects
    assert active(m.MetadataApplied(40)) == said(40)


def test_a_duplicate_is_asked_again_until_the_time_is_over(node: Driver) -> None:
    """It may be ourselves before a crash. A session that does not run out belongs to a living node."""
    node(m.Connected())
    assert node(refused(DuplicateBrokerRegistrationError), 5_000) == (m.SetTimer(m.REGISTER_TIMER, 5_100),)
    assert node(m.TimeCame(m.REGISTER_TIMER), 5_100) == (m.SendRegistration(),)
    (failed,) = node(refused(DuplicateBrokerRegistrationError), 6_000)
    assert isinstance(failed, m.Failed)
    assert isinstance(failed.error, DuplicateBrokerRegistrationError)


def test_a_duplicate_that_goes_away_is_forgiven(node: Driver) -> None:
    """The old session ran out: we are in, and a later refusal starts its own time."""
    node(m.Connected())
    node(refused(DuplicateBrokerRegistrationError), 0)
    node(m.TimeCame(m.REGISTER_TIMER), 100)
    node(REGISTERED, 200)
    node(beat(error=StaleBrokerEpochError.code), 90_000)
    assert node(refused(DuplicateBrokerRegistrationError), 90_001) == (m.SetTimer(m.REGISTER_TIMER, 90_101),)


def test_another_cluster_ends_the_node_at_once(node: Driver) -> None:
    """The disks belong to another cluster: waiting would not help."""
    node(m.Connected())
    (failed,) = node(refused(InconsistentClusterIdError))
    assert isinstance(failed, m.Failed)
    assert node(m.Connected()) == ()


def test_a_retriable_refusal_is_asked_again_without_end(node: Driver) -> None:
    """The controller is starting: that is no reason to give up."""
    node(m.Connected())
    for now_ms in range(0, 100_000, 10_000):
        assert node(refused(NotControllerError), now_ms) == (m.SetTimer(m.REGISTER_TIMER, now_ms + 100),)


def test_a_final_refusal_ends_the_node_in_time(node: Driver) -> None:
    """The controller does not like what we say: after the registration timeout the node ends."""
    node(m.Connected())
    node(refused(InvalidRequestError), 0)
    (failed,) = node(refused(InvalidRequestError), 1_000)
    assert isinstance(failed, m.Failed)


def test_a_stopping_node_waits_until_nothing_depends_on_it(active: Driver) -> None:
    """Controlled shutdown: heartbeats with want_shutdown until the controller agrees."""
    assert active(m.StopAsked(), 100) == (
        m.SetTimer(m.LEAVE_TIMER, 2_100),
        *said(12, 100, want_shutdown=True),
    )
    assert active(beat(), 150) == (m.SetTimer(m.HEARTBEAT_TIMER, 170),)
    assert active(m.TimeCame(m.HEARTBEAT_TIMER), 170) == said(12, 170, want_shutdown=True)
    assert active(beat(shutdown=True)) == (m.Left(),)
    assert active(beat()) == ()


def test_a_stopping_node_does_not_wait_for_ever(active: Driver) -> None:
    """The controller is away or does not agree: leave when the time is over."""
    active(m.StopAsked(), 0)
    active(m.Disconnected(), 10)
    assert active(m.TimeCame(m.SEARCH_TIMER)) == (m.FindController(),)
    assert active(m.TimeCame(m.LEAVE_TIMER)) == (m.Left(),)


def test_a_stopping_node_that_was_forgotten_leaves_at_once(active: Driver) -> None:
    """A stale epoch while leaving: nothing of ours is registered any more."""
    active(m.StopAsked())
    assert active(beat(error=StaleBrokerEpochError.code)) == (m.Left(),)


@pytest.mark.parametrize("events", [[], [m.Connected()], [m.Connected(), REGISTERED, m.Disconnected()]])
def test_a_node_out_of_touch_leaves_at_once(node: Driver, events: list[m.Event]) -> None:
    """Never registered, or no controller to tell: stopping does not hang."""
    for event in events:
        node(event)
    assert node(m.StopAsked()) == (m.Left(),)


def test_late_answers_of_a_lost_connection_change_nothing(active: Driver) -> None:
    """An answer that was under way when the connection broke is ignored."""
    active(m.Disconnected())
    assert active(beat()) == ()
    assert active(REGISTERED) == ()
    assert active(m.TimeCame(m.HEARTBEAT_TIMER)) == ()


def test_the_configured_heartbeat_wins() -> None:
    """broker.heartbeat.interval.ms of the node overrides the controller's wish."""
    times = m.MembershipTimes(40, 50, 400, 1_000, 2_000)
    core = m.Membership(times)
    core.step(m.Connected(), 0)
    effects = core.step(REGISTERED, 0)
    assert m.SetTimer(m.HEARTBEAT_TIMER, 40) in effects
