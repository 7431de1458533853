"""What else may live in a node's event loop: the contract between the node and its guest.

The coordinators are the guest: they act over partitions that this node leads, and the floor they live on is
above this one, so the node knows them by this contract alone. Pure. A node without a guest serves everything
but the guest's apis.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from ...protocol.messages import registry
from ...protocol.model import CONSUMER_OFFSETS, TRANSACTION_STATE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...protocol.errors import KafkaError
    from ...protocol.messages.envelope import Api
    from ...protocol.metadata.image import MetadataDelta, MetadataImage
    from ...protocol.model import TopicPartition
    from ...protocol.records.header import Buffer
    from ...protocol.transport.replies import Incoming, Replies
    from ..configs.node_config import NodeConfig

PartitionKey = tuple[bytes, int]  # topic id and partition, as the node's partitions have it
GUEST_TOPICS = frozenset((CONSUMER_OFFSETS, TRANSACTION_STATE))
GUEST_APIS: tuple[Api, ...] = (
    registry.FIND_COORDINATOR,
    *registry.GROUP_APIS,
    *registry.TRANSACTION_APIS,
)


@dataclass(slots=True, eq=False)
class LogPiece:
    """A part of a led partition's log that the guest wants to know, and after the read what was found."""

    key: PartitionKey
    offset: int  # the piece begins with the batch that holds it
    max_bytes: int  # unless the first batch is larger
    digest: Callable[[Sequence[Buffer]], Any]  # runs on a thread, over whole batches; errors: KafkaError
    done: Callable[[LogPiece], None]
    found: Any = None
    error: KafkaError | None = None  # of the log or of the digest
    next_offset: int = field(init=False)

    def __post_init__(self) -> None:
        self.next_offset = self.offset


class LiveNodeConfig(Protocol):
    """The node's configuration while it runs."""

    @property
    def now(self) -> NodeConfig:
        """As it is now."""


class GuestHost(Protocol):
    """What the guest may use of the node. All times are those of the event that is being handled."""

    @property
    def now_ms(self) -> int:
        """Monotonic."""

    @property
    def wall_ms(self) -> int:
        """For records."""

    @property
    def config(self) -> LiveNodeConfig:
        """The node's configuration while it runs."""

    @property
    def image(self) -> MetadataImage:
        """The metadata that the node follows."""

    @property
    def is_caught_up(self) -> bool:
        """Whether the image may be asked what does not exist."""

    @property
    def node_id(self) -> int:
        """Of this node."""

    @property
    def broker_epoch(self) -> int:
        """Of this node's registration."""

    @property
    def replies(self) -> Replies:
        """Where answers go; each request is answered exactly once."""

    @property
    def holds_lease(self) -> bool:
        """Whether nobody else can lead yet what this node leads, as it knows without asking anybody."""

    def is_handed_over(self, key: PartitionKey) -> bool:
        """Whether nobody who led this partition before may believe that it still does. It comes true by
        itself."""

    def soon(self) -> None:
        """Have `end_turn` called once, when all that has come by now was handed over."""

    def check_append(self, key: PartitionKey, leader_epoch: int) -> None:
        """Errors: those of `append` that can be told before it."""

    def bounds(self, key: PartitionKey) -> tuple[int, int]:
        """Start and end of the log of a partition that is led."""

    def high_watermark(self, key: PartitionKey) -> int:
        """Of a partition that is led: what is below is committed."""

    def known_end(self, key: PartitionKey) -> int | None:
        """The high watermark of any partition, as far as this node knows it; None if it has no replica."""

    def max_batch_bytes(self, key: PartitionKey) -> int:
        """What max.message.bytes says of the partition."""

    def append(self, key: PartitionKey, leader_epoch: int, batch: Buffer) -> int:
        """Append one batch by the rules of acks=all; its base offset. Nothing else is appended meanwhile.

        Errors: NotLeaderOrFollowerError, FencedLeaderEpochError, NotEnoughReplicasError, KafkaStorageError,
        RecordBatchTooLargeError: nothing was appended.
        """

    def read(self, piece: LogPiece) -> None:
        """Read on a thread, then call `piece.done`; never if the partition is not led any more as it is now.

        A disk that fails takes the partition offline, and the guest hears `left`.
        """

    def ask(
        self,
        node_id: int,
        api: Api,
        body: Any,
        timeout_ms: int,
        answered: Callable[[Any], None],
    ) -> None:
        """Send a request to a node, or with NO_NODE to the controller; `answered` gets the body or the
        KafkaError, once."""

    def note(self, level: int, text: str) -> None:
        """Words for the operator's log; `level` is logging's."""


class Guest(Protocol):
    """What the node core calls. After each of these calls the node looks for what was appended."""

    def handle(self, request: Incoming) -> None:
        """One request of GUEST_APIS, answered now or later. Errors: KafkaError, which is its answer."""

    def end_turn(self) -> None:
        """What `soon` asked for."""

    def led(self, key: PartitionKey, name: TopicPartition, leader_epoch: int) -> None:
        """This node leads a partition of GUEST_TOPICS; `left` came before if it did so in another epoch."""

    def left(self, key: PartitionKey) -> None:
        """It does not lead it any more, in that epoch or at all."""

    def committed(self, key: PartitionKey) -> None:
        """The high watermark of a led partition has moved."""

    def followed(self, image: MetadataImage, delta: MetadataDelta | None) -> None:
        """The metadata has moved on; `led` and `left` came before. Delta None: by more than is told."""

    def ended_transaction(
        self, key: PartitionKey, producer_id: int, producer_epoch: int, *, is_commit: bool, offset: int
    ) -> None:
        """A marker was appended at `offset` to a led partition."""

    def connection_gone(self, session: int) -> None:
        """A client is gone."""

    def expire(self) -> None:
        """A deadline may have passed."""

    def next_deadline_ms(self) -> int | None:
        """When `expire` has work."""

    def status(self) -> dict[str, Any]:
        """JSON-able facts."""


GuestFactory = Callable[[GuestHost], Guest]
