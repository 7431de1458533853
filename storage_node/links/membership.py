"""A storage node's standing with the controller: find it, register, stay alive, leave. Step shape, pure.

Events come from the shell, which talks to the controller; effects tell it what to say next. One registration
at a time; heartbeats go out every interval, whether the ones before are answered or not: the answer waits for
the metadata log's disk, and a slow disk must not make a live node silent. The broker epoch outlives
connections: after a lost one the node goes on with heartbeats, and registers again only when the controller
no longer knows it. Source: Kafka BrokerLifecycleManager.

Invariant: heartbeats and metadata fetches are asked for only while registered and connected.
Invariant: `lease` is granted by nothing but answered heartbeats, from when they were sent.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import TYPE_CHECKING

from ...protocol.errors import (
    BrokerIdNotRegisteredError,
    InconsistentClusterIdError,
    KafkaError,
    StaleBrokerEpochError,
    error_from_code,
)
from .lease import Lease

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ...protocol.messages.control import BrokerHeartbeatResponse, BrokerRegistrationResponse


class MembershipState(Enum):
    """Where the node stands."""

    SEARCHING = "searching"  # for the controller; may hold a broker epoch from before
    REGISTERING = "registering"
    FENCED = "fenced"  # registered, but may not lead
    ACTIVE = "active"
    LEAVING = "leaving"
    LEFT = "left"
    FAILED = "failed"


_S = MembershipState
TRANSITIONS: Mapping[MembershipState, frozenset[MembershipState]] = MappingProxyType(
    {
        _S.SEARCHING: frozenset((_S.REGISTERING, _S.FENCED, _S.LEAVING, _S.LEFT, _S.FAILED)),
        _S.REGISTERING: frozenset((_S.SEARCHING, _S.FENCED, _S.LEFT, _S.FAILED)),
        _S.FENCED: frozenset((_S.SEARCHING, _S.REGISTERING, _S.ACTIVE, _S.LEAVING, _S.LEFT, _S.FAILED)),
        _S.ACTIVE: frozenset((_S.SEARCHING, _S.REGISTERING, _S.FENCED, _S.LEAVING, _S.LEFT, _S.FAILED)),
        _S.LEAVING: frozenset((_S.LEFT, _S.FAILED)),
        _S.LEFT: frozenset(),
        _S.FAILED: frozenset(),
    }
)

# --- events ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Connected:
    """The controller was found and the handshake is done."""


@dataclass(frozen=True, slots=True)
class Disconnected:
    """No controller, or the connection to it broke. `is_electing`: controllers answer, but none leads yet."""

    is_electing: bool = False


@dataclass(frozen=True, slots=True)
class RegistrationAnswered:
    """The controller answered a registration."""

    response: BrokerRegistrationResponse


@dataclass(frozen=True, slots=True)
class HeartbeatAnswered:
    """The controller answered the heartbeat that was sent at `sent_ms`."""

    response: BrokerHeartbeatResponse
    sent_ms: int


@dataclass(frozen=True, slots=True)
class HeartbeatFailed:
    """There is no answer to a heartbeat in time; the connection is kept, because other answers come on it."""


@dataclass(frozen=True, slots=True)
class MetadataApplied:
    """The node's image now contains this offset."""

    offset: int


@dataclass(frozen=True, slots=True)
class StopAsked:
    """The node wants to shut down."""


@dataclass(frozen=True, slots=True)
class NewsCame:
    """The next heartbeat has something to tell that must not wait."""


@dataclass(frozen=True, slots=True)
class TimeCame:
    """A SetTimer effect is due."""

    key: str


Event = (
    Connected
    | Disconnected
    | RegistrationAnswered
    | HeartbeatAnswered
    | HeartbeatFailed
    | MetadataApplied
    | StopAsked
    | NewsCame
    | TimeCame
)

# --- effects -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class FindController:
    """Locate the controller and connect; answer with Connected or Disconnected."""


@dataclass(frozen=True, slots=True)
class SendRegistration:
    """Ask to join with the node's identity; `node_id` -1 asks for a generated one."""


@dataclass(frozen=True, slots=True)
class AdoptIdentity:
    """Write node id and cluster id into every log dir before anything else is done under them."""

    node_id: int
    cluster_id: str


@dataclass(frozen=True, slots=True)
class SendHeartbeat:
    """Say that the node lives; `sent_ms` is for the answer."""

    broker_epoch: int
    want_shutdown: bool
    sent_ms: int


@dataclass(frozen=True, slots=True)
class FollowMetadata:
    """Fetch metadata in a loop until the connection breaks."""


@dataclass(frozen=True, slots=True)
class SetTimer:
    """Come back with TimeCame(key) at this time; replaces the timer of the same key."""

    key: str
    deadline_ms: int


@dataclass(frozen=True, slots=True)
class Left:
    """The node may shut down now: nothing depends on it, or waiting has no use."""


@dataclass(frozen=True, slots=True)
class Failed:
    """The node cannot be part of this cluster."""

    error: KafkaError


Effect = (
    FindController
    | SendRegistration
    | AdoptIdentity
    | SendHeartbeat
    | FollowMetadata
    | SetTimer
    | Left
    | Failed
)

SEARCH_TIMER = "search"
REGISTER_TIMER = "register"
HEARTBEAT_TIMER = "heartbeat"
LEAVE_TIMER = "leave"

_LOST_REGISTRATION = frozenset((StaleBrokerEpochError.code, BrokerIdNotRegisteredError.code))
_FATAL = frozenset((InconsistentClusterIdError.code,))
_DUPLICATE_RETRY_MS = 100  # a restarted node waits for its own old session to run out
# Of the session that begins at the controller when it hears a heartbeat, which is after it was sent. The rest
# is for clocks that do not run alike, and for a controller that does not know yet that another one leads.
LEASE_SHARE = 1 / 3
MAX_HEARTBEATS = 20  # Bound: heartbeats without an answer; later ones wait
_LEAVE_RETRY_MS = 20  # a stopping node asks often: each question is small and the wait is the user's


@dataclass(frozen=True, slots=True)
class MembershipTimes:
    """All in ms. `heartbeat_ms` 0 takes the controller's wish."""

    heartbeat_ms: int
    backoff_ms: int
    backoff_max_ms: int
    registration_timeout_ms: int
    shutdown_timeout_ms: int


class Membership:
    """See the module's docstring. `check` asserts the laws.

    Invariant: the state changes only along TRANSITIONS.
    Invariant: `broker_epoch` is -1 until the first registration, and grows with each later one.
    """

    def __init__(self, times: MembershipTimes) -> None:
        self.state = MembershipState.SEARCHING
        self.broker_epoch = -1
        self.metadata_offset = -1
        self.is_connected = False
        self._times = times
        self._heartbeat_ms = times.heartbeat_ms or 1_000
        self.lease = Lease()
        self._failures = 0
        self._refused_since_ms: int | None = None
        self._unanswered = 0  # heartbeats
        self._has_news = False  # since the last heartbeat

    def start(self) -> tuple[Effect, ...]:
        """The first thing to do."""
        return (FindController(),)

    def step(self, event: Event, now_ms: int) -> tuple[Effect, ...]:
        """One event; the effects are performed in their order."""
        if self.state in (MembershipState.LEFT, MembershipState.FAILED):
            return ()
        effects: tuple[Effect, ...]
        match event:
            case Connected():
                effects = self._on_connected(now_ms)
            case Disconnected(is_electing):
                effects = self._on_disconnected(now_ms, is_electing=is_electing)
            case RegistrationAnswered(response):
                effects = self._on_registration(response, now_ms)
            case HeartbeatFailed():
                self._unanswered = max(0, self._unanswered - 1)
                effects = ()
            case HeartbeatAnswered(response, sent_ms):
                effects = self._on_heartbeat(response, sent_ms, now_ms)
            case MetadataApplied(offset):
                effects = self._on_metadata(offset, now_ms)
            case StopAsked():
                effects = self._on_stop(now_ms)
            case NewsCame():
                effects = self._on_news(now_ms)
            case TimeCame(key):
                effects = self._on_timer(key, now_ms)
        return effects

    def check(self) -> None:
        """Assert the laws of this object."""
        if self.state in (MembershipState.FENCED, MembershipState.ACTIVE):
            assert self.broker_epoch >= 0, "registered without a broker epoch"
            assert self.is_connected, "registered and in touch, but not connected"

    # --- the controller comes and goes -----------------------------------------------------------------

    def _on_connected(self, now_ms: int) -> tuple[Effect, ...]:
        self.is_connected = True
        self._failures = 0
        self._unanswered = 0
        if self.state is MembershipState.LEAVING:
            return self._heartbeat(now_ms)
        if self.broker_epoch < 0:
            self._become(MembershipState.REGISTERING)
            return (SendRegistration(),)
        self._become(MembershipState.FENCED)  # until a heartbeat says better
        return (FollowMetadata(), *self._heartbeat(now_ms))

    def _on_disconnected(self, now_ms: int, *, is_electing: bool) -> tuple[Effect, ...]:
        self.is_connected = False
        self._unanswered = 0
        if self.state not in (MembershipState.SEARCHING, MembershipState.LEAVING):
            self._become(MembershipState.SEARCHING)
        if is_electing:
            self._failures = 0  # an election is short: whoever waits longer and longer is late for the leader
        wait_ms = min(self._times.backoff_ms << min(self._failures, 16), self._times.backoff_max_ms)
        self._failures += 1
        return (SetTimer(SEARCH_TIMER, now_ms + wait_ms),)

    # --- registration ----------------------------------------------------------------------------------

    def _on_registration(self, response: BrokerRegistrationResponse, now_ms: int) -> tuple[Effect, ...]:
        if self.state is not MembershipState.REGISTERING:
            return ()
        if response.error_code:
            return self._on_refused(error_from_code(response.error_code, response.error_detail), now_ms)
        self._refused_since_ms = None
        self.broker_epoch = response.broker_epoch
        self._heartbeat_ms = self._times.heartbeat_ms or response.heartbeat_interval_ms or self._heartbeat_ms
        self.lease.length_ms = int(response.session_timeout_ms * LEASE_SHARE)
        self._become(MembershipState.FENCED)
        identity = AdoptIdentity(response.node_id, response.cluster_id)
        if self.metadata_offset >= self.broker_epoch:
            return (identity, FollowMetadata(), *self._heartbeat(now_ms))
        # the first heartbeat follows the metadata that makes it useful; the timer is for when that is late
        return (identity, FollowMetadata(), SetTimer(HEARTBEAT_TIMER, now_ms + self._heartbeat_ms))

    def _on_refused(self, error: KafkaError, now_ms: int) -> tuple[Effect, ...]:
        """Another live process under our id may be ourselves before a crash: its session runs out soon."""
        if error.code in _FATAL:
            return self._fail(error)
        if self._refused_since_ms is None:
            self._refused_since_ms = now_ms
        waited_ms = now_ms - self._refused_since_ms
        if not error.retriable and waited_ms >= self._times.registration_timeout_ms:
            return self._fail(error)
        return (SetTimer(REGISTER_TIMER, now_ms + _DUPLICATE_RETRY_MS),)

    # --- heartbeats ------------------------------------------------------------------------------------

    def _on_heartbeat(
        self, response: BrokerHeartbeatResponse, sent_ms: int, now_ms: int
    ) -> tuple[Effect, ...]:
        self._unanswered = max(0, self._unanswered - 1)
        if self.state is MembershipState.LEAVING:
            # a refusal means that we are not registered any more: there is nothing left to leave
            if response.error_code or response.should_shutdown:
                return self._leave()
            return (SetTimer(HEARTBEAT_TIMER, now_ms + _LEAVE_RETRY_MS),)
        if self.state not in (MembershipState.FENCED, MembershipState.ACTIVE):
            return ()
        if response.error_code in _LOST_REGISTRATION | _FATAL:
            return self._on_unknown(response)
        if not response.error_code:
            wanted = MembershipState.FENCED if response.is_fenced else MembershipState.ACTIVE
            if wanted is not self.state:
                self._become(wanted)
            if not response.is_fenced and response.metadata_offset >= 0:
                self.lease.granted(sent_ms, response.metadata_offset)
        return self._heartbeat(now_ms) if self._has_news and not self._unanswered else ()

    def _on_unknown(self, response: BrokerHeartbeatResponse) -> tuple[Effect, ...]:
        """The controller does not know this registration any more, or is of another cluster."""
        if response.error_code in _FATAL:
            return self._fail(error_from_code(response.error_code, response.error_detail))
        self._become(MembershipState.REGISTERING)
        return (SendRegistration(),)

    def _on_metadata(self, offset: int, now_ms: int) -> tuple[Effect, ...]:
        """A fenced node is let in once it has caught up: say so at once instead of at the next beat."""
        had_own_registration = self.metadata_offset >= self.broker_epoch
        self.metadata_offset = max(self.metadata_offset, offset)
        has_own_registration = self.metadata_offset >= self.broker_epoch
        if self.state is MembershipState.FENCED and has_own_registration and not had_own_registration:
            return self._heartbeat(now_ms)
        return ()

    def _heartbeat(self, now_ms: int) -> tuple[Effect, ...]:
        """One heartbeat, and the time of the next."""
        if not self.is_connected:
            return ()
        next_one = SetTimer(HEARTBEAT_TIMER, now_ms + self._heartbeat_ms)
        if self._unanswered >= MAX_HEARTBEATS:
            return (next_one,)
        self._unanswered, self._has_news = self._unanswered + 1, False
        return (SendHeartbeat(self.broker_epoch, self.state is MembershipState.LEAVING, now_ms), next_one)

    def _on_news(self, now_ms: int) -> tuple[Effect, ...]:
        """What is not told now, every later heartbeat tells."""
        if self.state not in (_S.FENCED, _S.ACTIVE):
            return ()
        if self._unanswered:
            self._has_news = True  # the next answer, or the next heartbeat, brings it
            return ()
        return self._heartbeat(now_ms)

    # --- leaving and timers ----------------------------------------------------------------------------

    def _on_stop(self, now_ms: int) -> tuple[Effect, ...]:
        if self.state is MembershipState.LEAVING:
            return ()
        if self.broker_epoch < 0 or self.state is MembershipState.REGISTERING or not self.is_connected:
            return self._leave()
        self._become(MembershipState.LEAVING)
        return (SetTimer(LEAVE_TIMER, now_ms + self._times.shutdown_timeout_ms), *self._heartbeat(now_ms))

    def _on_timer(self, key: str, now_ms: int) -> tuple[Effect, ...]:
        if key == LEAVE_TIMER:
            return self._leave()
        if key == SEARCH_TIMER and not self.is_connected:
            return (FindController(),)
        if key == REGISTER_TIMER and self.state is MembershipState.REGISTERING:
            return (SendRegistration(),)
        if key == HEARTBEAT_TIMER and self.state in (_S.FENCED, _S.ACTIVE, _S.LEAVING):
            return self._heartbeat(now_ms)
        return ()

    def _leave(self) -> tuple[Effect, ...]:
        self._become(MembershipState.LEFT)
        return (Left(),)

    def _fail(self, error: KafkaError) -> tuple[Effect, ...]:
        self._become(MembershipState.FAILED)
        return (Failed(error),)

    def _become(self, state: MembershipState) -> None:
        assert state in TRANSITIONS[self.state], f"{self.state.value} -> {state.value} is not legal"
        self.state = state
