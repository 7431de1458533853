"""The interface between a coordinator's state machine and the runtime.

A shard is the state machine of one partition of an internal topic. Its handlers *decide*: they read the state
and return an `Outcome`. The runtime appends the outcome's records as one batch, then the shard *applies* them
one by one, in the same way in which a load replays them; each response is sent once everything that the shard
has applied is committed. If the append fails, nothing was applied and the client gets the error. If the node
stops leading the partition, the shard is dropped whole: uncommitted state is never shown.

Requests of one turn of the event loop are decided one after the other, each with the earlier ones applied,
and their records become one batch, which is appended at the end of the turn. No response that depends on it
is sent before it is committed. If that append fails, although `check_append` passed, the shard is dropped and
its log loaded again.

A response without records depends on this node's memory, which is valid only while no other node leads the
partition. While the node cannot know that (its process was paused, or the controller is unreachable), the
runtime appends a record without effect: its commit proves the leadership.

So hard state is changed only by `replay`, never by a handler. Handlers may change soft state (waiting
requests, timers, sessions), but only after all checks have passed. Only `handle` may raise: decisions of
timers, responses of other servers, commits and metadata changes have no client to report to, so an error
there is a bug and ends the node.
Pure: time comes as an argument. Source: Kafka CoordinatorRuntime.java, CoordinatorShard.java,
CoordinatorResult.java.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from ...protocol.model import NO_EPOCH

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping

    from ...protocol.errors import KafkaError
    from ...protocol.messages.envelope import Api
    from ...protocol.metadata.image import MetadataDelta, MetadataImage
    from ...protocol.model import TopicPartition
    from ...protocol.security.acls import Authorizer
    from ...storage_node.configs.coordinator_config import CoordinatorConfig
    from ...storage_node.embedded.contract import Now

NO_PRODUCER_ID = -1


class Token(Protocol):
    """A waiting request, or the part of one that concerns this shard. Hashable; only the first response is
    sent."""

    @property
    def session(self) -> int:
        """The id of its connection, as in `on_peer_gone`."""

    @property
    def client_id(self) -> str:
        """The client id of the handshake."""

    @property
    def client_host(self) -> str:
        """The client's address; empty if unknown."""

    def deliver(self, body: Any) -> None:
        """Send the response. Only for the runtime."""


class Record(NamedTuple):
    """One record of the internal topic, key and value as in protocol/records/; the value None is a
    tombstone."""

    key: Any
    value: Any


class ProducerIdAndEpoch(NamedTuple):
    """The producer of a batch: set for transactional offset commits."""

    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_EPOCH


NO_PRODUCER = ProducerIdAndEpoch()


class Answer(NamedTuple):
    """The response to one waiting request: a response struct, or the error of a request that had no
    effect."""

    token: Token
    body: Any
    # until all applied records are committed; False only if the response shows none of them
    waits: bool = True


@dataclass(slots=True)
class Outcome:
    """The result of a decision. It may answer other requests than the one that was handled.

    If the append fails, nothing was applied: `on_failed` decides on the consequences (without records), and
    every response of the outcome that it does not answer becomes the error, as clients see it. Without
    `on_failed` this includes the request that was handled, whether it was to be answered now or later.
    """

    records: list[Record] = field(default_factory=list)
    answers: list[Answer] = field(default_factory=list)
    producer: ProducerIdAndEpoch = NO_PRODUCER  # the batch is part of this producer's transaction
    # Records are independent: they may be split over several batches, and batches before a failed one stay
    # appended.
    is_divisible: bool = False
    on_failed: Callable[[KafkaError, Now], Outcome] | None = None  # undo soft state after a failed append
    # A decision that runs once all records that were applied by then are committed, however long that takes;
    # never if the shard was dropped. For actions that must not precede the commit, such as markers.
    on_committed: Callable[[Now], Outcome] | None = None

    def answer(self, token: Token, body: Any, *, waits: bool = True) -> None:
        self.answers.append(Answer(token, body, waits))


class ShardMetrics(NamedTuple):
    """Metrics of a shard, under Kafka's names where they exist; a slash separates the name from a label.
    Cheap, however large the shard is."""

    gauges: Mapping[str, int]  # current values
    counts: Mapping[str, int]  # counts since the load; they only increase


class Timers(Protocol):
    """The timers of one shard by key: setting a key again replaces its timer. Dropped with the shard."""

    def set(self, key: Hashable, deadline_ms: int, action: Callable[[Now], Outcome]) -> None:
        """Run the decision `action` at `deadline_ms` (monotonic)."""

    def cancel(self, key: Hashable) -> None:
        """Remove the timer, if it is set."""

    def deadline_of(self, key: Hashable) -> int | None:
        """The timer's deadline; None if it is not set."""


class LiveCoordinatorConfig(Protocol):
    """The node's configuration, which may change while it runs."""

    @property
    def now(self) -> CoordinatorConfig:
        """The current values."""


class ShardContext(Protocol):
    """The services of the node for a shard."""

    @property
    def config(self) -> LiveCoordinatorConfig:
        """Configuration keys of coordinators."""

    @property
    def timers(self) -> Timers:
        """The timers of this shard."""

    @property
    def image(self) -> MetadataImage:
        """The current metadata image."""

    @property
    def node_id(self) -> int:
        """The id of this node."""

    @property
    def authorizer(self) -> Authorizer | None:
        """The rules of the cluster; None if everything is allowed."""

    @property
    def epoch(self) -> int:
        """The coordinator epoch: the leader epoch of the shard's partition."""

    def ask(
        self,
        node_id: int,
        api: Api,
        body: Any,
        timeout_ms: int,
        answered: Callable[[Any, Now], Outcome],
    ) -> None:
        """Send a request to a node (itself included), or with NO_NODE to the controller. `answered` decides
        on the response body or the KafkaError (NetworkError without a response); it is not called after the
        shard was dropped."""

    def next_producer_id(self, now_ms: int) -> int:
        """A producer id that was never issued before. Errors: CoordinatorLoadInProgressError while a block of
        ids is being fetched."""


class Shard(Protocol):
    """The state machine of one partition."""

    @property
    def noop_record(self) -> Record:
        """A record without effect, here as in Kafka: the tombstone of a key that cannot exist."""

    def handle(self, api: Api, body: Any, token: Token, now: Now) -> Outcome:
        """Decide on one request; this outcome or a later one answers it. Errors: KafkaError, which is the
        response; nothing was changed."""

    def replay(self, record: Record, offset: int, producer: ProducerIdAndEpoch) -> None:
        """Apply a record that was appended or loaded."""

    def replay_marker(self, producer: ProducerIdAndEpoch, *, is_commit: bool, offset: int) -> None:
        """Apply the end of a transaction that wrote into this partition."""

    def on_loaded(self, now: Now) -> Outcome:
        """The load is complete: set timers, resume pending work."""

    def on_metadata(self, image: MetadataImage, delta: MetadataDelta | None, now: Now) -> Outcome:
        """The metadata image has changed; delta None: every part may have changed."""

    def on_peer_gone(self, session: int, now: Now) -> Outcome:
        """A connection was closed, perhaps one that the shard has no request of: its waiting requests need
        no response."""

    def metrics(self) -> ShardMetrics:
        """Metrics of this shard; the runtime adds them up per node."""

    def offset_groups(self) -> list[str]:
        """The ids of groups with committed offsets; none for transactions."""

    def committed_offsets(self, group_id: str) -> list[tuple[TopicPartition, int]]:
        """The committed offsets of a group in existing topics."""

    def close(self) -> list[Token]:
        """The shard is dropped. Returns its waiting requests, which the runtime answers with
        NOT_COORDINATOR."""
