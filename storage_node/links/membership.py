"""A storage node's membership in the cluster: registration, heartbeats, fencing, controlled shutdown. Pure.

The shell talks to the controller and reports events; effects are the requests to send. One registration at a
time. Heartbeats are sent at their interval, whether earlier ones are answered or not: a response waits for
the disk of the metadata log, and a slow disk must not fence live nodes. The broker epoch outlives
connections: after a reconnect the node sends heartbeats, and registers again only if the controller does not
know it. Source: Kafka BrokerLifecycleManager.

Invariant: heartbeats and metadata fetches are sent only while registered and connected.
Invariant: `lease` and `known` follow from answered heartbeats alone, from the time they were sent.
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
from .known_metadata import KnownMetadata
from .lease import Lease

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ...protocol.messages.control import BrokerHeartbeatResponse, BrokerRegistrationResponse


class MembershipState(Enum):
    """States of a node."""

    SEARCHING = "searching"  # for the active controller; may hold a broker epoch
    REGISTERING = "registering"
    FENCED = "fenced"  # registered, but may not lead
    ACTIVE = "active"
    SHUTTING_DOWN = "shutting_down"
    SHUT_DOWN = "shut_down"
    FAILED = "failed"


_S = MembershipState
TRANSITIONS: Mapping[MembershipState, frozenset[MembershipState]] = MappingProxyType(
    {
        _S.SEARCHING: frozenset((_S.REGISTERING, _S.FENCED, _S.SHUTTING_DOWN, _S.SHUT_DOWN, _S.FAILED)),
        _S.REGISTERING: frozenset((_S.SEARCHING, _S.FENCED, _S.SHUT_DOWN, _S.FAILED)),
        _S.FENCED: frozenset(
            (_S.SEARCHING, _S.REGISTERING, _S.ACTIVE, _S.SHUTTING_DOWN, _S.SHUT_DOWN, _S.FAILED)
        ),
        _S.ACTIVE: frozenset(
            (_S.SEARCHING, _S.REGISTERING, _S.FENCED, _S.SHUTTING_DOWN, _S.SHUT_DOWN, _S.FAILED)
        ),
        _S.SHUTTING_DOWN: frozenset((_S.SHUT_DOWN, _S.FAILED)),
        _S.SHUT_DOWN: frozenset(),
        _S.FAILED: frozenset(),
    }
)

# --- events ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Connected:
    """Connected to the active controller."""


@dataclass(frozen=True, slots=True)
class Disconnected:
    """There is no connection. `is_electing`: controllers answer, but none leads yet."""

    is_electing: bool = False


@dataclass(frozen=True, slots=True)
class RegistrationAnswered:
    """The response to a registration."""

    response: BrokerRegistrationResponse


@dataclass(frozen=True, slots=True)
class HeartbeatAnswered:
    """The response to the heartbeat that was sent at `sent_ms`."""

    response: BrokerHeartbeatResponse
    sent_ms: int


@dataclass(frozen=True, slots=True)
class HeartbeatFailed:
    """A heartbeat timed out on a connection that is kept, because it delivers other responses."""


@dataclass(frozen=True, slots=True)
class MetadataApplied:
    """The node's image contains this offset."""

    offset: int


@dataclass(frozen=True, slots=True)
class ShutdownRequested:
    """The node is to shut down."""


@dataclass(frozen=True, slots=True)
class ReportChanged:
    """The report of the next heartbeat has changed and must be sent at once."""


@dataclass(frozen=True, slots=True)
class TimerFired:
    """A SetTimer effect is due."""

    key: str


Event = (
    Connected
    | Disconnected
    | RegistrationAnswered
    | HeartbeatAnswered
    | HeartbeatFailed
    | MetadataApplied
    | ShutdownRequested
    | ReportChanged
    | TimerFired
)

# --- effects -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class FindController:
    """Find the active controller and connect; then Connected or Disconnected."""


@dataclass(frozen=True, slots=True)
class SendRegistration:
    """Register with the node's identity; node id -1 asks for a generated one."""


@dataclass(frozen=True, slots=True)
class AdoptIdentity:
    """Write node id and cluster id into every log dir, before anything else is done under them."""

    node_id: int
    cluster_id: str


@dataclass(frozen=True, slots=True)
class SendHeartbeat:
    """Send a heartbeat; `sent_ms` comes back with the response."""

    broker_epoch: int
    want_shutdown: bool
    sent_ms: int


@dataclass(frozen=True, slots=True)
class FollowMetadata:
    """Fetch metadata in a loop until the connection breaks."""


@dataclass(frozen=True, slots=True)
class SetTimer:
    """Report TimerFired(key) at this time; replaces the timer of the same key."""

    key: str
    deadline_ms: int


@dataclass(frozen=True, slots=True)
class ShutdownAllowed:
    """The node may stop: its controlled shutdown is complete, or impossible."""


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
    | ShutdownAllowed
    | Failed
)

SEARCH_TIMER = "search"
REGISTER_TIMER = "register"
HEARTBEAT_TIMER = "heartbeat"
SHUTDOWN_TIMER = "shutdown"

_LOST_REGISTRATION = frozenset((StaleBrokerEpochError.code, BrokerIdNotRegisteredError.code))
_FATAL = frozenset((InconsistentClusterIdError.code,))
_DUPLICATE_RETRY_MS = 100  # a restarted node waits until its own old session expires
# The share of the session timeout that a lease lasts. The controller's session begins later, when it receives
# the heartbeat; the rest allows for clock drift, and for a controller that does not know its successor yet.
LEASE_SHARE = 1 / 3
MAX_HEARTBEATS = 20  # Bound: heartbeats without a response; later ones wait
_SHUTDOWN_RETRY_MS = 20  # the user waits for the shutdown, and each heartbeat is cheap


@dataclass(frozen=True, slots=True)
class MembershipTimes:
    """All in ms. `heartbeat_ms` 0: the interval that the controller asks for."""

    heartbeat_ms: int
    backoff_ms: int
    backoff_max_ms: int
    registration_timeout_ms: int
    shutdown_timeout_ms: int


class Membership:
    """Invariant: the state changes only along TRANSITIONS. Invariant: `broker_epoch` is -1 until the first
    registration, and grows with each later one."""

    def __init__(self, times: MembershipTimes) -> None:
        self.state = MembershipState.SEARCHING
        self.broker_epoch = -1
        self.metadata_offset = -1
        self.is_connected = False
        self._times = times
        self._heartbeat_ms = times.heartbeat_ms or 1_000
        self.lease = Lease()
        self.known = KnownMetadata()
        self._failures = 0
        self._refused_since_ms: int | None = None
        self._unanswered = 0  # heartbeats without a response
        self._has_new_report = False  # the report has changed since the last heartbeat

    def start(self) -> tuple[Effect, ...]:
        """The first effects."""
        return (FindController(),)

    def step(self, event: Event, now_ms: int) -> tuple[Effect, ...]:
        """Handle one event; the effects are to be performed in order."""
        if self.state in (MembershipState.SHUT_DOWN, MembershipState.FAILED):
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
            case ShutdownRequested():
                effects = self._on_stop(now_ms)
            case ReportChanged():
                effects = self._on_report(now_ms)
            case TimerFired(key):
                effects = self._on_timer(key, now_ms)
        return effects

    def check(self) -> None:
        """Assert the invariants."""
        if self.state in (MembershipState.FENCED, MembershipState.ACTIVE):
            assert self.broker_epoch >= 0, "registered without a broker epoch"
            assert self.is_connected, "registered and in touch, but not connected"

    # --- connections ---------------------------------------------------------------------------------

    def _on_connected(self, now_ms: int) -> tuple[Effect, ...]:
        self.is_connected = True
        self._failures = 0
        self._unanswered = 0
        if self.state is MembershipState.SHUTTING_DOWN:
            return self._heartbeat(now_ms)
        if self.broker_epoch < 0:
            self._become(MembershipState.REGISTERING)
            return (SendRegistration(),)
        self._become(MembershipState.FENCED)  # until a heartbeat is answered otherwise
        return (FollowMetadata(), *self._heartbeat(now_ms))

    def _on_disconnected(self, now_ms: int, *, is_electing: bool) -> tuple[Effect, ...]:
        self.is_connected = False
        self._unanswered = 0
        if self.state not in (MembershipState.SEARCHING, MembershipState.SHUTTING_DOWN):
            self._become(MembershipState.SEARCHING)
        if is_electing:
            self._failures = 0  # Elections are short: a longer backoff would only find the leader later.
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
        # The first heartbeat follows the metadata, so that it can unfence the node; the timer is for late
        # metadata.
        return (identity, FollowMetadata(), SetTimer(HEARTBEAT_TIMER, now_ms + self._heartbeat_ms))

    def _on_refused(self, error: KafkaError, now_ms: int) -> tuple[Effect, ...]:
        """The live process with this node id may be this node before a crash: its session expires soon."""
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
        if not response.error_code and response.metadata_offset >= 0:
            self.known.answered(sent_ms, response.metadata_offset)
        if self.state is MembershipState.SHUTTING_DOWN:
            # A refused heartbeat means that the node is not registered any more: there is nothing to shut
            # down.
            if response.error_code or response.should_shutdown:
                return self._allow_shutdown()
            return (SetTimer(HEARTBEAT_TIMER, now_ms + _SHUTDOWN_RETRY_MS),)
        if self.state not in (MembershipState.FENCED, MembershipState.ACTIVE):
            return ()
        if response.error_code in _LOST_REGISTRATION | _FATAL:
            return self._on_unknown(response)
        if not response.error_code:
            state = MembershipState.FENCED if response.is_fenced else MembershipState.ACTIVE
            if state is not self.state:
                self._become(state)
            if not response.is_fenced and response.metadata_offset >= 0:
                self.lease.granted(sent_ms, response.metadata_offset)
        return self._heartbeat(now_ms) if self._has_new_report and not self._unanswered else ()

    def _on_unknown(self, response: BrokerHeartbeatResponse) -> tuple[Effect, ...]:
        """The controller does not know this registration, or belongs to another cluster."""
        if response.error_code in _FATAL:
            return self._fail(error_from_code(response.error_code, response.error_detail))
        self._become(MembershipState.REGISTERING)
        return (SendRegistration(),)

    def _on_metadata(self, offset: int, now_ms: int) -> tuple[Effect, ...]:
        """A fenced node is unfenced once it has caught up: send a heartbeat at once."""
        had_own_registration = self.metadata_offset >= self.broker_epoch
        self.metadata_offset = max(self.metadata_offset, offset)
        self.known.applied(self.metadata_offset)
        has_own_registration = self.metadata_offset >= self.broker_epoch
        if self.state is MembershipState.FENCED and has_own_registration and not had_own_registration:
            return self._heartbeat(now_ms)
        return ()

    def _heartbeat(self, now_ms: int) -> tuple[Effect, ...]:
        """A heartbeat, and the timer of the next."""
        if not self.is_connected:
            return ()
        next_one = SetTimer(HEARTBEAT_TIMER, now_ms + self._heartbeat_ms)
        if self._unanswered >= MAX_HEARTBEATS:
            return (next_one,)
        self._unanswered, self._has_new_report = self._unanswered + 1, False
        return (
            SendHeartbeat(self.broker_epoch, self.state is MembershipState.SHUTTING_DOWN, now_ms),
            next_one,
        )

    def _on_report(self, now_ms: int) -> tuple[Effect, ...]:
        """A report that is not sent now is part of every later heartbeat."""
        if self.state not in (_S.FENCED, _S.ACTIVE):
            return ()
        if self._unanswered:
            self._has_new_report = True  # sent after the next response, or with the next heartbeat
            return ()
        return self._heartbeat(now_ms)

    # --- shutdown and timers ----------------------------------------------------------------------------

    def _on_stop(self, now_ms: int) -> tuple[Effect, ...]:
        if self.state is MembershipState.SHUTTING_DOWN:
            return ()
        if self.broker_epoch < 0 or self.state is MembershipState.REGISTERING or not self.is_connected:
            return self._allow_shutdown()
        self._become(MembershipState.SHUTTING_DOWN)
        return (SetTimer(SHUTDOWN_TIMER, now_ms + self._times.shutdown_timeout_ms), *self._heartbeat(now_ms))

    def _on_timer(self, key: str, now_ms: int) -> tuple[Effect, ...]:
        if key == SHUTDOWN_TIMER:
            return self._allow_shutdown()
        if key == SEARCH_TIMER and not self.is_connected:
            return (FindController(),)
        if key == REGISTER_TIMER and self.state is MembershipState.REGISTERING:
            return (SendRegistration(),)
        if key == HEARTBEAT_TIMER and self.state in (_S.FENCED, _S.ACTIVE, _S.SHUTTING_DOWN):
            return self._heartbeat(now_ms)
        return ()

    def _allow_shutdown(self) -> tuple[Effect, ...]:
        self._become(MembershipState.SHUT_DOWN)
        return (ShutdownAllowed(),)

    def _fail(self, error: KafkaError) -> tuple[Effect, ...]:
        self._become(MembershipState.FAILED)
        return (Failed(error),)

    def _become(self, state: MembershipState) -> None:
        assert state in TRANSITIONS[self.state], f"{self.state.value} -> {state.value} is not legal"
        self.state = state
