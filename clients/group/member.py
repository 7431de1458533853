"""What the members of both protocols have in common: states, effects, what the user's side has to do. Pure.

A member core decides on the loop; what changes the user's partitions is `Work` that the user's side does
between two batches of records: so no record is handed out of a partition that was given up, and callbacks run
where the user reads. The member waits for it, and goes on beating meanwhile.
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


class WorkKind(Enum):
    """What the user's side has to do; the values are the names of the callbacks."""

    ASSIGNED = "on_assigned"
    REVOKED = "on_revoked"
    LOST = "on_lost"


class Work(NamedTuple):
    """Something to do for the user's side, reported by `on_done`."""

    kind: WorkKind
    partitions: tuple[TopicPartition, ...]


class MemberConfig(NamedTuple):
    """What a member core must know. Times in ms."""

    group_id: str
    group_instance_id: str | None = None
    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 3_000
    max_poll_interval_ms: int = 300_000
    client_id: str = ""
    rack_id: str | None = None
    server_assignor: str | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Ask:
    """Effect: ask the coordinator; report `on_answer` or `on_failure` with this very object."""

    api: Api
    request: Any
    timeout_ms: int | None = None  # None: request.timeout.ms
    wait_ms: int = 0  # the answer may take this long by the request's own wish


@dataclass(frozen=True, slots=True)
class Divide:
    """Effect: this member leads the group; give `divide` what these topics are now."""

    topics: tuple[str, ...]
    generation_id: int


@dataclass(frozen=True, slots=True)
class Forget:
    """Effect: the coordinator may be another node by now."""


Effect = Ask | Divide | Forget


class MemberCore(ABC):
    """What every member has: a state, who it is, what its user has, and what the user has to do or hear."""

    transitions: dict[MemberState, dict[MemberState, str]]

    def __init__(self, config: MemberConfig) -> None:
        self.config = config
        self.state = MemberState.UNJOINED
        self.member_id, self.generation_id = "", -1
        self._former: GroupMetadata | None = None  # who it was before it was lost last
        self.owned: tuple[TopicPartition, ...] = ()  # what the user's side has, sorted
        self.work: Work | None = None
        self.is_working = False  # the user's side has begun with it
        self.error: HeadraceError | None = None  # for the user to hear

    @property
    def metadata(self) -> GroupMetadata:
        """Who the member is now."""
        config = self.config
        return GroupMetadata(
            config.group_id, self.generation_id, self.member_id if self.is_member else "",
            config.group_instance_id,
        )  # fmt: skip

    @property
    def holder(self) -> GroupMetadata:
        """Who the member was when it got what its user has: of what was lost, the one that the group gave up.

        Hazard: in a transaction, offsets in nobody's name are taken, although others have the partitions.
        """
        return self._former if self.owned and not self.is_member and self._former else self.metadata

    @property
    def is_member(self) -> bool:
        """Whether the group counts this member."""
        return self.generation_id >= 0

    # --- what the user wants and does -------------------------------------------------------------------

    @abstractmethod
    def subscribe(self, topics: Iterable[str], regex: str | None = None) -> None:
        """Be a member that reads these topics, or those that match the coordinator's regular expression."""

    @abstractmethod
    def unsubscribe(self, *, leave: bool, reason: str) -> tuple[Effect, ...]:
        """Stop being a member; with `leave` the group is told, static members too."""

    @abstractmethod
    def enforce_rebalance(self, reason: str) -> None:
        """Have the group share out anew although nothing asks for it (KIP-568)."""

    @abstractmethod
    def polled(self, now_ms: int) -> None:
        """The user asks for records, or has asked since the last call."""

    @abstractmethod
    def heard_error(self) -> None:
        """The user was told `error`."""

    def begin(self) -> Work | None:
        """The user's side begins with what there is to do. Nobody changes it from now on."""
        self.is_working = self.work is not None
        return self.work

    @abstractmethod
    def on_done(self, now_ms: int) -> tuple[Effect, ...]:
        """The user's side has done its work."""

    # --- what happens -----------------------------------------------------------------------------------

    @abstractmethod
    def poll(self, now_ms: int) -> tuple[Effect, ...]:
        """All that can be asked now."""

    @abstractmethod
    def next_due_ms(self) -> int | None:
        """When `poll` should be called although nothing was reported; None for never."""

    @abstractmethod
    def on_answer(self, asked: Ask, answer: Any, now_ms: int) -> tuple[Effect, ...]:
        """The coordinator's answer."""

    @abstractmethod
    def on_failure(self, asked: Ask, error: KafkaError, now_ms: int) -> tuple[Effect, ...]:
        """No answer came."""

    @abstractmethod
    def refused(self, error: KafkaError, now_ms: int) -> tuple[Effect, ...]:
        """A commit was refused because of who the member is."""

    def divide(self, generation_id: int, topics: Mapping[str, Topic], now_ms: int) -> tuple[Effect, ...]:
        """As the leader: share out what these topics have now."""
        return ()

    @property
    def lacks_topics(self) -> bool:
        """Whether something was assigned of topics that are not known yet."""
        return False

    def topics_changed(self, counts: Mapping[str, int], names: Mapping[bytes, str]) -> None:
        """How many partitions topics have now, and their names by id."""
        return

    @property
    @abstractmethod
    def watched(self) -> tuple[str, ...]:
        """Topics that the member must know."""

    def _note_former(self) -> None:
        """The membership is about to end."""
        if self.is_member:
            self._former = self.metadata

    def _become(self, state: MemberState) -> None:
        if state is not self.state:
            assert state in self.transitions[self.state], f"{self.state.value} --> {state.value}"
            self.state = state

    def _done(self) -> Work:
        """What was done is taken into account."""
        work = self.work
        assert work is not None, "nothing was to be done"
        self.work, self.is_working = None, False
        if work.kind is WorkKind.ASSIGNED:
            self.owned = tuple(sorted({*self.owned, *work.partitions}))
        else:
            gone = set(work.partitions)
            self.owned = tuple(tp for tp in self.owned if tp not in gone)
        return work
