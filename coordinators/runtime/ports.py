"""What a coordinator's state machine gives to the runtime, and what it gets from it.

A shard is the state machine of one partition of an internal topic. Its handlers *decide*: they look at the
state and return an `Outcome`. The runtime appends the outcome's records as one batch, then the shard
*applies* them, one by one, in the same way in which a restart replays them; each answer leaves once
everything that the shard has applied is committed. If the append fails nothing was applied and the asker gets
the error. If the node stops leading the partition, the shard is dropped whole: what was not committed is then
never shown.

Requests that come within one turn of the loop are decided one after the other, each knowing those before, and
their records become one batch: they are applied first, and nothing is shown that rests on them before it is
written and committed. If it cannot be written, which the runtime looks after before, the shard is dropped and
its log read anew.

An answer that needs no records rests on what this node remembers, which counts only as long as nobody else
leads the partition. While the node cannot know that (it stood still, or the controller is away), the runtime
appends a record that says nothing: its commit shows it, like that of any other.

So: nothing that must survive is changed by a handler, only by `replay`. Soft state (who waits, timers,
sessions) may be changed by handlers, but only after everything that can be refused was checked. Only `handle`
may raise: what timers, answers of other servers, commits and changes of the cluster decide has nobody to be
told, so an error there is a bug and ends the node.
Pure: time comes as an argument. Source: Kafka CoordinatorRuntime.java, CoordinatorShard.java,
CoordinatorResult.java.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from ...protocol.model import NO_EPOCH

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator, Mapping

    from ...protocol.errors import KafkaError
    from ...protocol.messages.envelope import Api
    from ...protocol.metadata.image import MetadataDelta, MetadataImage
    from ...protocol.model import TopicPartition
    from ...storage_node.configs.coordinator_config import CoordinatorConfig

NO_PRODUCER_ID = -1


class Now(NamedTuple):
    """The time of the event that is being handled."""

    ms: int  # monotonic: deadlines
    wall_ms: int  # what records say


class Token(Protocol):
    """One waiting request, or the part of one that is this shard's business. It is hashable, and answered
    once: what comes for it later is not sent."""

    @property
    def session(self) -> int:
        """The connection that it came over, as in `on_peer_gone`."""

    @property
    def client_id(self) -> str:
        """What the client called itself in the handshake."""

    @property
    def client_host(self) -> str:
        """Where the connection comes from; empty if that is not known."""

    def deliver(self, body: Any) -> None:
        """For the runtime alone: send the answer."""


class Record(NamedTuple):
    """One record of the internal topic, key and value as in protocol/records/; the value None deletes."""

    key: Any
    value: Any


class Stamp(NamedTuple):
    """Who wrote a batch: set for offsets that a transaction commits."""

    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_EPOCH


NO_STAMP = Stamp()


class Answer(NamedTuple):
    """What one waiting request gets: a response struct, or an error that says that it never ran."""

    token: Token
    body: Any
    waits: bool = True  # until all that the shard has applied is committed; False only if it shows none of it


@dataclass(slots=True)
class Outcome:
    """What was decided. The answers may be to other requests than the one that was handled.

    If the records cannot be appended nothing was applied, `on_failed` decides what else comes of it (without
    records), and whoever it does not answer of the outcome's answers gets the error, as clients are to see
    it. Without `on_failed` so does the request that was handled, answered here or not.
    """

    records: list[Record] = field(default_factory=list)
    answers: list[Answer] = field(default_factory=list)
    stamp: Stamp = NO_STAMP  # the batch is part of this producer's transaction
    # Each record counts by itself: more than fit into one batch become several, and those that were appended
    # before one was refused stay.
    is_divisible: bool = False
    on_failed: Callable[[KafkaError, Now], Outcome] | None = None  # undo soft state: the append was refused
    # Decides on, once all that the shard had applied then is committed, however long that takes: for what
    # others must not see before. Never if the shard was dropped.
    on_committed: Callable[[Now], Outcome] | None = None

    def answer(self, token: Token, body: Any, *, waits: bool = True) -> None:
        """One more answer."""
        self.answers.append(Answer(token, body, waits))


class ShardMetrics(NamedTuple):
    """What a shard tells of itself, under Kafka's names where it has them; what is behind a slash in a name
    tells apart several of them. Cheap to ask for, however much the shard holds."""

    gauges: Mapping[str, int]  # what there is now
    counts: Mapping[str, int]  # what has happened since the load; they go only up


class Timers(Protocol):
    """One shard's timers, by key: setting one anew replaces it. They are gone with the shard."""

    def set(self, key: Hashable, deadline_ms: int, action: Callable[[Now], Outcome]) -> None:
        """Have `action` decide at `deadline_ms` (monotonic)."""

    def cancel(self, key: Hashable) -> None:
        """Forget it, if it is there."""

    def deadline_of(self, key: Hashable) -> int | None:
        """When it is due, None if it is not set."""


class LiveCoordinatorConfig(Protocol):
    """The node's configuration while it runs."""

    @property
    def now(self) -> CoordinatorConfig:
        """As it is now."""


class Surroundings(Protocol):
    """What a shard can use of its node."""

    @property
    def config(self) -> LiveCoordinatorConfig:
        """Keys of coordinators."""

    @property
    def timers(self) -> Timers:
        """Of this shard."""

    @property
    def image(self) -> MetadataImage:
        """Topics, partitions, racks."""

    @property
    def node_id(self) -> int:
        """Of this node."""

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
        on the response body or on the KafkaError (NetworkError when there was no answer); never after the
        shard was dropped."""

    def next_producer_id(self) -> int:
        """An id that nobody had. Errors: CoordinatorLoadInProgressError while a block of them is fetched."""


class Shard(Protocol):
    """The state machine of one partition."""

    @property
    def nothing(self) -> Record:
        """A record that changes nothing, here as in Kafka: the deletion of what can never be there."""

    def handle(self, api: Api, body: Any, token: Token, now: Now) -> Outcome:
        """One request; answered in this outcome or in a later one. Errors: KafkaError, which is answered as
        such; nothing was changed then."""

    def replay(self, record: Record, offset: int, stamp: Stamp) -> None:
        """Apply a record, just appended or read at the load."""

    def replay_marker(self, stamp: Stamp, *, is_commit: bool, offset: int) -> None:
        """A transaction that wrote into this partition has ended."""

    def on_loaded(self, now: Now) -> Outcome:
        """All records are replayed: set timers, go on with what was under way."""

    def on_metadata(self, image: MetadataImage, delta: MetadataDelta | None, now: Now) -> Outcome:
        """The cluster has changed; delta None: by more than is told."""

    def on_peer_gone(self, session: int, now: Now) -> Outcome:
        """A connection is gone: its waiting requests need no answer."""

    def metrics(self) -> ShardMetrics:
        """For operators; the node's are the sums over its shards."""

    def committed_offsets(self) -> Iterator[tuple[str, TopicPartition, int]]:
        """By group and partition, those of topics that are there; for a moment only: nothing may be changed
        before the next is asked for. Nothing, if it is not about groups."""

    def close(self) -> list[Token]:
        """The shard is dropped: the tokens of all that wait; the runtime answers them NOT_COORDINATOR."""
