"""The common part of group members under both protocols: state, effects, changes of ownership. Pure.

The member runs on the event loop. It does not change the owned partitions itself: it publishes an
`OwnershipChange`, which the consumer performs inside `poll`, between two batches of records. So no record of
a revoked partition is returned, and rebalance callbacks run in the caller's thread or task. Meanwhile the
member sends heartbeats, and waits.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple

from .group_metadata import GroupMetadata
from .states import MemberState

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ...protocol.errors import HeadraceError, KafkaError
    from ...protocol.messages.envelope import Api
    from ...protocol.model import TopicPartition
    from .assignors import Topic

REBALANCE_TIMEOUT_LAPSE_MS = 5_000  # Source: Kafka AbstractCoordinator JOIN_GROUP_TIMEOUT_LAPSE


class ChangeKind(Enum):
    """The kind of an `OwnershipChange`; the values are the names of the callbacks."""

    ASSIGNED = "on_assigned"
    REVOKED = "on_revoked"
    LOST = "on_lost"


class OwnershipChange(NamedTuple):
    """Partitions that the consumer has to adopt or release; it reports the end with `on_done`."""

    kind: ChangeKind
    partitions: tuple[TopicPartition, ...]


class MemberConfig(NamedTuple):
    """The keys of ConsumerConfig that a member needs. Times in ms."""

    group_id: str
    group_instance_id: str | None = None
    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 3_000
    max_poll_interval_ms: int = 300_000
    client_id: str = ""
    rack_id: str | None = None
    server_assignor: str | None = None


@dataclass(frozen=True, slots=True, eq=False)
class SendRequest:
    """Effect: send this request to the coordinator; call `on_response` or `on_failure` with this object."""

    api: Api
    request: Any
    timeout_ms: int | None = None  # None: request.timeout.ms
    wait_ms: int = 0  # the coordinator may hold the request this long


@dataclass(frozen=True, slots=True)
class AssignPartitions:
    """Effect: this member is the group leader; call `assign_partitions` with the metadata of these topics."""

    topics: tuple[str, ...]
    generation_id: int


@dataclass(frozen=True, slots=True)
class ForgetCoordinator:
    """Effect: find the coordinator again before the next request."""


Effect = SendRequest | AssignPartitions | ForgetCoordinator


class MemberCore(ABC):
    """The membership of one consumer in one group.

    `owned` are the partitions that the consumer reads, sorted. `pending` is the change of them that the
    consumer has to perform next; with `is_changing` it has begun. `error` is raised by the next poll.
    """

    transitions: dict[MemberState, dict[MemberState, str]]
    logs_missing_topics = True  # of the subscription

    def __init__(self, config: MemberConfig) -> None:
        self.config = config
        self.state = MemberState.UNJOINED
        self.member_id, self.generation_id = "", -1
        self._lost_membership: GroupMetadata | None = None  # of the last membership that was lost
        self.owned: tuple[TopicPartition, ...] = ()
        self.pending: OwnershipChange | None = None
        self.is_changing = False
        self.error: HeadraceError | None = None

    @property
    def metadata(self) -> GroupMetadata:
        """Group id, generation and member id of now."""
        config = self.config
        return GroupMetadata(
            config.group_id, self.generation_id, self.member_id if self.is_member else "",
            config.group_instance_id,
        )  # fmt: skip

    @property
    def owner_metadata(self) -> GroupMetadata:
        """The metadata under which `owned` was assigned: after a loss those of the lost membership.

        Hazard: the coordinator accepts transactional offsets without a member id, although the partitions
        may be assigned to another member.
        """
        return (
            self._lost_membership
            if self.owned and not self.is_member and self._lost_membership
            else self.metadata
        )

    @property
    def is_member(self) -> bool:
        """Whether the member has joined a generation."""
        return self.generation_id >= 0

    # --- calls of the consumer --------------------------------------------------------------------------

    @abstractmethod
    def subscribe(self, topics: Iterable[str], regex: str | None = None) -> None:
        """Join, or stay, with these topics, or with a regular expression that the coordinator matches."""

    @abstractmethod
    def unsubscribe(self, *, leave: bool, reason: str) -> tuple[Effect, ...]:
        """End the membership. With `leave` the member leaves the group, a static one too."""

    @abstractmethod
    def enforce_rebalance(self, reason: str) -> None:
        """Cause a rebalance (KIP-568)."""

    @abstractmethod
    def polled(self, now_ms: int) -> None:
        """The consumer was polled: max.poll.interval.ms begins again."""

    @abstractmethod
    def error_raised(self) -> None:
        """`error` was raised by a poll."""

    def begin(self) -> OwnershipChange | None:
        """The consumer begins with `pending`, which stays as it is until `on_done`."""
        self.is_changing = self.pending is not None
        return self.pending

    @abstractmethod
    def on_done(self, now_ms: int) -> tuple[Effect, ...]:
        """The consumer has performed `pending`."""

    # --- events ------------------------------------------------------------------------------------------

    @abstractmethod
    def poll(self, now_ms: int) -> tuple[Effect, ...]:
        """The requests that are due."""

    @abstractmethod
    def next_due_ms(self) -> int | None:
        """The time of the next `poll` without an event; None for never."""

    @abstractmethod
    def on_response(self, request: SendRequest, response: Any, now_ms: int) -> tuple[Effect, ...]:
        """The coordinator has responded."""

    @abstractmethod
    def on_failure(self, request: SendRequest, error: KafkaError, now_ms: int) -> tuple[Effect, ...]:
        """The request failed without a response."""

    @abstractmethod
    def commit_rejected(self, error: KafkaError, now_ms: int) -> tuple[Effect, ...]:
        """The coordinator rejected a commit because of member id or generation."""

    def assign_partitions(
        self, generation_id: int, topics: Mapping[str, Topic], now_ms: int
    ) -> tuple[Effect, ...]:
        """As the leader: assign the partitions of these topics."""
        return ()

    @property
    def has_unknown_topics(self) -> bool:
        """Whether the assignment has topic ids that the metadata does not have."""
        return False

    def topics_changed(self, counts: Mapping[str, int], names: Mapping[bytes, str]) -> None:
        """The metadata has changed: partition counts, and topic names by id."""
        return

    @property
    @abstractmethod
    def topics_to_watch(self) -> tuple[str, ...]:
        """Topics whose metadata the member needs."""

    def _remember_membership(self) -> None:
        if self.is_member:
            self._lost_membership = self.metadata

    def _become(self, state: MemberState) -> None:
        if state is not self.state:
            assert state in self.transitions[self.state], f"{self.state.value} --> {state.value}"
            self.state = state

    def _apply_pending(self) -> OwnershipChange:
        change = self.pending
        assert change is not None, "no change was pending"
        self.pending, self.is_changing = None, False
        if change.kind is ChangeKind.ASSIGNED:
            self.owned = tuple(sorted({*self.owned, *change.partitions}))
        else:
            released = set(change.partitions)
            self.owned = tuple(tp for tp in self.owned if tp not in released)
        return change
