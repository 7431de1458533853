"""Membership: every response of the controller, and every loss of the connection."""

from typing import Any

import pytest
from headrace.protocol import errors
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


def heartbeat_effects(
    broker_epoch: int, sent_ms: int = 0, *, want_shutdown: bool = False
) -> tuple[m.Effect, ...]:
    """A heartbeat, and the timer of the next."""
    heartbeat = say(broker_epoch, sent_ms, want_shutdown=want_shutdown)
    return heartbeat, m.SetTimer(m.HEARTBEAT_TIMER, sent_ms + 300)


class Driver:
    """Feeds a membership and checks its invariants after every event."""

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


def test_a_new_node_registers_follows_the_metadata_and_is_unfenced(node: Driver) -> None:
    """The heartbeat is sent as soon as the node has applied its own registration."""
    assert node(m.Connected()) == (m.SendRegistration(),)
    assert node(REGISTERED, 1_000) == (
        m.AdoptIdentity(7, "c"),
        m.FollowMetadata(),
        m.SetTimer(m.HEARTBEAT_TIMER, 1_300),
    )
    assert node(m.MetadataApplied(11)) == ()
    assert node(m.MetadataApplied(12)) == heartbeat_effects(12)
    assert node(beat(), 2_000) == ()
    assert node.core.state is m.MembershipState.ACTIVE


def test_metadata_applied_before_the_registration_response_counts(node: Driver) -> None:
    """When the node registers again, the fetch loop may apply the new epoch before the response."""
    node(m.Connected())
    node(m.MetadataApplied(12))
    assert say(12) in node(REGISTERED)


def test_heartbeats_do_not_wait_for_responses(active: Driver) -> None:
    """The responses wait for the disk of the metadata log; heartbeats are sent up to a bound, and a response
    triggers none."""
    for number in range(m.MAX_HEARTBEATS):
        at_ms = 300 * number
        assert active(m.TimerFired(m.HEARTBEAT_TIMER), at_ms) == heartbeat_effects(12, at_ms)
    full_ms = 300 * m.MAX_HEARTBEATS
    assert active(m.TimerFired(m.HEARTBEAT_TIMER), full_ms) == (m.SetTimer(m.HEARTBEAT_TIMER, full_ms + 300),)
    assert active(beat(), full_ms) == ()
    assert active(m.TimerFired(m.HEARTBEAT_TIMER), full_ms + 300) == heartbeat_effects(12, full_ms + 300)
    assert active(m.HeartbeatFailed(), full_ms + 400) == ()
    assert active(m.TimerFired(m.HEARTBEAT_TIMER), full_ms + 600) == heartbeat_effects(12, full_ms + 600)


def test_heartbeat_response_grants_a_lease_from_the_send_time(active: Driver) -> None:
    """For a third of the session, once the metadata of the response is applied; not to a fenced node, and not
    by a controller that reports no metadata offset."""
    lease = active.core.lease
    lease.applied(70)
    assert active(m.TimerFired(m.HEARTBEAT_TIMER), 2_000) == heartbeat_effects(12, 2_000)
    active(beat(offset=70, sent_ms=2_000), 2_400)
    assert lease.holds(2_499)
    assert not lease.holds(2_500)
    stale = errors.StaleBrokerEpochError.code
    for without in (beat(fenced=True, offset=70, sent_ms=3_000), beat(sent_ms=3_000)):
        active(without, 3_000)
    active(beat(error=stale, offset=70, sent_ms=3_000), 3_000)
    assert not lease.holds(2_500)


def test_a_changed_report_is_sent_at_once(active: Driver) -> None:
    """A disk failed; while a heartbeat is in flight, the report is sent after its response."""
    assert active(m.ReportChanged()) == heartbeat_effects(12)
    assert active(m.ReportChanged()) == ()
    assert active(beat(), 500) == heartbeat_effects(12, 500)
    assert active(beat(), 600) == ()
    active(m.Disconnected())
    assert active(m.ReportChanged()) == (), "the first heartbeat of the next connection reports it"


def test_a_fenced_node_is_unfenced_by_the_next_response(active: Driver) -> None:
    """The controller fenced the node, for example after a pause."""
    active(beat(fenced=True))
    assert active.core.state is m.MembershipState.FENCED
    active(beat())
    assert active.core.state is m.MembershipState.ACTIVE


def test_searches_back_off(active: Driver) -> None:
    """The backoff doubles up to its limit and starts again after a success."""
    waits = []
    for _ in range(6):
        (timer,) = active(m.Disconnected(), 10_000)
        assert isinstance(timer, m.SetTimer)
        waits.append(timer.deadline_ms - 10_000)
        assert active(m.TimerFired(m.SEARCH_TIMER)) == (m.FindController(),)
    assert waits == [50, 100, 200, 400, 400, 400]
    active(m.Connected())
    assert active(m.Disconnected(), 0) == (m.SetTimer(m.SEARCH_TIMER, 50),)


def test_searches_during_an_election_do_not_back_off(active: Driver) -> None:
    """Controllers answer and none leads: short, even pauses, also after longer ones."""
    for _ in range(5):
        active(m.Disconnected())
    for _ in range(5):
        assert active(m.Disconnected(is_electing=True), 0) == (m.SetTimer(m.SEARCH_TIMER, 50),)
        active(m.TimerFired(m.SEARCH_TIMER))


def test_a_reconnect_keeps_the_registration(active: Driver) -> None:
    """A restarted controller has it in its log: no new registration, no new epoch."""
    active(m.Disconnected())
    assert active(m.Connected()) == (m.FollowMetadata(), *heartbeat_effects(12))
    active(beat())
    assert active.core.state is m.MembershipState.ACTIVE


@pytest.mark.parametrize("error", [errors.StaleBrokerEpochError, errors.BrokerIdNotRegisteredError])
def test_an_unknown_registration_is_renewed(active: Driver, error: type[Any]) -> None:
    """The controller refuses the broker epoch: register again under a new one."""
    assert active(beat(error=error.code)) == (m.SendRegistration(),)
    effects = active(
        m.RegistrationAnswered(BrokerRegistrationResponse(0, "", 7, 40, "c", heartbeat_interval_ms=300))
    )
    assert m.AdoptIdentity(7, "c") in effects
    assert active(m.MetadataApplied(40)) == heartbeat_effects(40)


def test_a_duplicate_registration_is_retried_until_the_timeout(node: Driver) -> None:
    """The other process may be this node before a crash; if its session does not expire, it is alive."""
    node(m.Connected())
    assert node(refused(errors.DuplicateBrokerRegistrationError), 5_000) == (
        m.SetTimer(m.REGISTER_TIMER, 5_100),
    )
    assert node(m.TimerFired(m.REGISTER_TIMER), 5_100) == (m.SendRegistration(),)
    (failed,) = node(refused(errors.DuplicateBrokerRegistrationError), 6_000)
    assert isinstance(failed, m.Failed)
    assert isinstance(failed.error, errors.DuplicateBrokerRegistrationError)


def test_a_successful_registration_resets_the_timeout(node: Driver) -> None:
    """The old session expired; a later refusal has a timeout of its own."""
    node(m.Connected())
    node(refused(errors.DuplicateBrokerRegistrationError), 0)
    node(m.TimerFired(m.REGISTER_TIMER), 100)
    node(REGISTERED, 200)
    node(beat(error=errors.StaleBrokerEpochError.code), 90_000)
    assert node(refused(errors.DuplicateBrokerRegistrationError), 90_001) == (
        m.SetTimer(m.REGISTER_TIMER, 90_101),
    )


def test_another_cluster_ends_the_node_at_once(node: Driver) -> None:
    """The log dirs belong to another cluster: a retry would not help."""
    node(m.Connected())
    (failed,) = node(refused(errors.InconsistentClusterIdError))
    assert isinstance(failed, m.Failed)
    assert node(m.Connected()) == ()


def test_a_retriable_refusal_is_retried_without_a_limit(node: Driver) -> None:
    node(m.Connected())
    for now_ms in range(0, 100_000, 10_000):
        assert node(refused(errors.NotControllerError), now_ms) == (
            m.SetTimer(m.REGISTER_TIMER, now_ms + 100),
        )


def test_a_final_refusal_ends_the_node_after_the_timeout(node: Driver) -> None:
    """registration.timeout.ms after the first refusal."""
    node(m.Connected())
    node(refused(errors.InvalidRequestError), 0)
    (failed,) = node(refused(errors.InvalidRequestError), 1_000)
    assert isinstance(failed, m.Failed)


def test_a_controlled_shutdown_waits_for_the_controller(active: Driver) -> None:
    """Heartbeats with want_shutdown until the controller allows it."""
    assert active(m.ShutdownRequested(), 100) == (
        m.SetTimer(m.SHUTDOWN_TIMER, 2_100),
        *heartbeat_effects(12, 100, want_shutdown=True),
    )
    assert active(beat(), 150) == (m.SetTimer(m.HEARTBEAT_TIMER, 170),)
    assert active(m.TimerFired(m.HEARTBEAT_TIMER), 170) == heartbeat_effects(12, 170, want_shutdown=True)
    assert active(beat(shutdown=True)) == (m.ShutdownAllowed(),)
    assert active(beat()) == ()


def test_a_controlled_shutdown_has_a_timeout(active: Driver) -> None:
    """The controller is unreachable or does not allow it in time."""
    active(m.ShutdownRequested(), 0)
    active(m.Disconnected(), 10)
    assert active(m.TimerFired(m.SEARCH_TIMER)) == (m.FindController(),)
    assert active(m.TimerFired(m.SHUTDOWN_TIMER)) == (m.ShutdownAllowed(),)


def test_an_unregistered_node_shuts_down_at_once(active: Driver) -> None:
    """A stale epoch: the controller has no registration of this node."""
    active(m.ShutdownRequested())
    assert active(beat(error=errors.StaleBrokerEpochError.code)) == (m.ShutdownAllowed(),)


@pytest.mark.parametrize("events", [[], [m.Connected()], [m.Connected(), REGISTERED, m.Disconnected()]])
def test_a_node_without_a_controller_shuts_down_at_once(node: Driver, events: list[m.Event]) -> None:
    """Never registered, or not connected."""
    for event in events:
        node(event)
    assert node(m.ShutdownRequested()) == (m.ShutdownAllowed(),)


def test_late_responses_of_a_closed_connection_are_ignored(active: Driver) -> None:
    """They were in flight when the connection broke."""
    active(m.Disconnected())
    assert active(beat()) == ()
    assert active(REGISTERED) == ()
    assert active(m.TimerFired(m.HEARTBEAT_TIMER)) == ()


def test_the_configured_heartbeat_interval_wins() -> None:
    """broker.heartbeat.interval.ms of the node overrides the controller's."""
    times = m.MembershipTimes(40, 50, 400, 1_000, 2_000)
    core = m.Membership(times)
    core.step(m.Connected(), 0)
    effects = core.step(REGISTERED, 0)
    assert m.SetTimer(m.HEARTBEAT_TIMER, 40) in effects


def test_metadata_is_known_up_to_the_last_answered_heartbeat(active: Driver) -> None:
    """In every state, also of a fenced node, and once the metadata of the answer is applied."""
    active(beat(fenced=True, offset=12, sent_ms=400))
    assert active.core.known.until_ms == 400
    active(m.Disconnected(), 500)
    active(beat(offset=13, sent_ms=500), 500)
    active(beat(error=errors.NotControllerError.code, offset=13, sent_ms=600), 600)
    assert active.core.known.until_ms == 400
    active(m.MetadataApplied(13), 700)
    assert active.core.known.until_ms == 500
