"""The contract between a storage node and the group and transaction coordinators in its event loop. Pure.

Coordinators act on partitions of internal topics that this node leads. They are a layer above the storage
node, which therefore knows only this contract. A node without coordinators serves all other APIs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from ...protocol.messages import registry
from ...protocol.model import CONSUMER_OFFSETS, TRANSACTION_STATE

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ...protocol.errors import KafkaError
    from ...protocol.messages.envelope import Api
    from ...protocol.metadata.image import MetadataDelta, MetadataImage
    from ...protocol.model import TopicPartition
    from ...protocol.records.header import Buffer
    from ...protocol.security.acls import Authorizer
    from ...protocol.transport.replies import Incoming, Replies
    from ...runtime.telemetry.samples import Samples
    from ..configs.node_config import NodeConfig

PartitionKey = tuple[bytes, int]  # topic id and partition, as the node's partitions have it
COORDINATOR_TOPICS = frozenset((CONSUMER_OFFSETS, TRANSACTION_STATE))
COORDINATOR_APIS: tuple[Api, ...] = (
    registry.FIND_COORDINATOR,
    *registry.GROUP_APIS,
    *registry.TRANSACTION_APIS,
)


class Now(NamedTuple):
    """The time of the current event."""

    ms: int  # monotonic, for deadlines
    wall_ms: int  # wall time, for records


@dataclass(slots=True, eq=False)
class LogPiece:
    """A read of a led partition's log for a coordinator, and then its result."""

    key: PartitionKey
    offset: int  # the piece begins with the batch that holds it
    max_bytes: int  # unless the first batch is larger
    digest: Callable[[Sequence[Buffer]], Any]  # runs on a thread, over whole batches; errors: KafkaError
    done: Callable[[LogPiece, Now], None]
    found: Any = None
    error: KafkaError | None = None  # of the log or of the digest
    next_offset: int = field(init=False)

    def __post_init__(self) -> None:
        self.next_offset = self.offset


class LiveNodeConfig(Protocol):
    """The node's configuration while it runs."""

    @property
    def now(self) -> NodeConfig:
        """The present configuration."""


class CoordinatorHost(Protocol):
    """What coordinators use of the node."""

    @property
    def config(self) -> LiveNodeConfig:
        """The node's configuration while it runs."""

    @property
    def image(self) -> MetadataImage:
        """The metadata that the node follows."""

    @property
    def is_caught_up(self) -> bool:
        """Whether the image has all records up to this node's registration: what it lacks does not exist."""

    @property
    def node_id(self) -> int:
        """The id of this node."""

    @property
    def broker_epoch(self) -> int:
        """The broker epoch of this node's registration."""

    @property
    def replies(self) -> Replies:
        """Takes the responses; each request gets exactly one."""

    @property
    def authorizer(self) -> Authorizer | None:
        """The rules of the cluster; None if everything is allowed."""

    def holds_lease(self, now_ms: int) -> bool:
        """Whether no other node can lead this node's partitions yet; see links/lease.py."""

    def is_handed_over(self, key: PartitionKey, now_ms: int) -> bool:
        """Whether no previous leader of the partition may still act as its leader. Becomes true with time."""

    def schedule_end_turn(self) -> None:
        """Request one call of `end_turn`, after the requests that have arrived by now."""

    def check_append(self, key: PartitionKey, leader_epoch: int) -> None:
        """Errors: those of `append` that are known before it."""

    def bounds(self, key: PartitionKey) -> tuple[int, int]:
        """Log start offset and log end offset of a led partition."""

    def high_watermark(self, key: PartitionKey) -> int:
        """The high watermark of a led partition."""

    def max_batch_bytes(self, key: PartitionKey) -> int:
        """max.message.bytes of a led partition."""

    def append(self, key: PartitionKey, leader_epoch: int, batch: Buffer, now: Now) -> int:
        """Append one batch with acks=all; its base offset.

        Errors: NotLeaderOrFollowerError, FencedLeaderEpochError, NotEnoughReplicasError, KafkaStorageError,
        RecordBatchTooLargeError: nothing was appended.
        """

    def read(self, piece: LogPiece) -> None:
        """Read on a thread, then call `piece.done`, unless the leadership has ended meanwhile.

        A failed disk takes the partition offline: `resigned` is called.
        """

    def ask(
        self,
        node_id: int,
        api: Api,
        body: Any,
        timeout_ms: int,
        answered: Callable[[Any, Now], None],
    ) -> None:
        """Send a request to a node, or with NO_NODE to the controller. `answered` gets the response body or a
        KafkaError, once."""

    def note(self, level: int, text: str) -> None:
        """A line for the operator's log; `level` is logging's."""


class EmbeddedCoordinators(Protocol):
    """What the node core calls. After each call it completes the requests that wait for appended records."""

    def handle(self, request: Incoming, now: Now) -> None:
        """One request of COORDINATOR_APIS, answered now or later. Errors: KafkaError, as its response."""

    def end_turn(self, now: Now) -> None:
        """All requests of this turn have arrived; called if `schedule_end_turn` was."""

    def elected(self, key: PartitionKey, name: TopicPartition, leader_epoch: int, now: Now) -> None:
        """This node leads a partition of COORDINATOR_TOPICS; `resigned` of an earlier epoch came before."""

    def resigned(self, key: PartitionKey) -> None:
        """This node no longer leads the partition in that leader epoch."""

    def committed(self, key: PartitionKey, now: Now) -> None:
        """The high watermark of a led partition may have advanced."""

    def metadata_changed(self, image: MetadataImage, delta: MetadataDelta | None, now: Now) -> None:
        """The image has changed; `elected` and `resigned` came before. Without a delta any part of it may
        have changed."""

    def ended_transaction(
        self, key: PartitionKey, producer_id: int, producer_epoch: int, *, is_commit: bool, offset: int
    ) -> None:
        """A transaction marker was appended at `offset` to a led partition."""

    def connection_gone(self, session: int, now: Now) -> None:
        """A client has disconnected."""

    def expire(self, now: Now) -> None:
        """A deadline may have passed."""

    def next_deadline_ms(self) -> int | None:
        """When `expire` must be called; None: not before the next request."""

    def status(self) -> dict[str, Any]:
        """JSON-able status."""

    def metric_pieces(self, samples: Samples) -> Iterator[None]:
        """Add the values of the coordinators' metrics; other work runs between two pieces."""


CoordinatorFactory = Callable[[CoordinatorHost, int], EmbeddedCoordinators]
"""With now_ms at the start."""
