"""Effects of the node core, performed by its shell: work on threads, the timer, requests, log lines, failure.

The shell performs them in order and reports results by calls of the core.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ..protocol.errors import KafkaError
    from ..protocol.messages.control import AlterPartitionRequest
    from ..protocol.messages.data import FetchRequest, TracedBatch
    from ..protocol.messages.envelope import Api
    from ..protocol.model import TopicPartition
    from ..protocol.records.header import Buffer
    from .embedded.coordinator_read import CoordinatorRead
    from .log.future_log import FutureLog
    from .log.log import Log
    from .log.retired import Removal
    from .replica.catch_up import PageAdvice
    from .replica.cold_reads import ColdRead
    from .replica.count_work import CountWork
    from .replica.offset_lookup import OffsetLookup
    from .replica.partition import Partition, PartitionKey
    from .replica.recompressor import QueuedBatch


@dataclass(frozen=True, slots=True)
class FlushLog:
    """Flush the partition's log on a thread; then `flushed` or `flush_failed`.

    `is_awaited`: producers wait for it, so that other flushes must not delay it.
    """

    partition: Partition
    is_awaited: bool


@dataclass(frozen=True, slots=True)
class DeleteLog:
    """Call `run` on a thread: remove the files of a log that was renamed to be deleted and is not used any
    more."""

    log: Log

    def run(self) -> None:
        """Delete its folder."""
        self.log.delete()


@dataclass(frozen=True, slots=True)
class RemoveFiles:
    """Call `run` on the thread that removes files: those of segments that were removed from their logs."""

    removal: Removal

    def run(self) -> None:
        """Delete the files."""
        self.removal.run()


@dataclass(frozen=True, slots=True)
class CheckpointStarts:
    """Write the checkpoints of log start offsets soon: `checkpoints_begin`, its tasks on threads,
    `checkpoints_end`."""


@dataclass(frozen=True, slots=True)
class LookUpOffsets:
    """Run the lookup on a thread; then `looked_up`."""

    lookup: OffsetLookup


@dataclass(frozen=True, slots=True)
class CountRecords:
    """Run one step of the count on a thread; then `counted`."""

    work: CountWork


@dataclass(frozen=True, slots=True)
class ReadCold:
    """Run the read on a thread for reads from disks; then `cold_read`."""

    read: ColdRead


@dataclass(frozen=True, slots=True)
class Recompress:
    """Run the recompression of a batch on a thread; then `recompressed`."""

    item: QueuedBatch


@dataclass(frozen=True, slots=True)
class ReadCoordinatorLog:
    """Run the read on a thread; then `coordinator_read`."""

    read: CoordinatorRead


@dataclass(frozen=True, slots=True)
class AdvisePages:
    """Run the advice on a thread for reads from disks, with low priority and without a result."""

    advice: PageAdvice


@dataclass(frozen=True, slots=True)
class CopyLog:
    """Run a step of a partition's move between log dirs on a thread, with low priority; then `copied`."""

    key: PartitionKey
    move: FutureLog


@dataclass(frozen=True, slots=True)
class SendFetch:
    """Send a follower's fetch to the leader, `where`[0], behind earlier ones; then `replica_fetched` or
    `replica_fetch_failed` with `where` and `number`."""

    where: tuple[int, int]  # leader id, number of the fetcher
    number: int
    request: FetchRequest


@dataclass(frozen=True, slots=True)
class ProposeIsr:
    """Send ISR proposals to the controller; then `isr_answered` or `isr_failed`."""

    request: AlterPartitionRequest


@dataclass(frozen=True, slots=True)
class AskPeer:
    """Send a request to node `node_id`, which may be this one, or with NO_NODE to the controller. `answered`
    is called once, with the response body or with an error (NetworkError, RequestTimedOutError after
    `timeout_ms`)."""

    node_id: int
    api: Api
    body: Any
    timeout_ms: int
    answered: Callable[[Any, int, int], None]  # body or KafkaError, now_ms, wall_ms
    frames: Sequence[Buffer] = ()


@dataclass(frozen=True, slots=True)
class SendHeartbeat:
    """The state of a disk changed: send a heartbeat at once."""


@dataclass(frozen=True, slots=True)
class WakeAt:
    """Call `expire` at this monotonic time, in ms; replaces the deadline set before."""

    deadline_ms: int


@dataclass(frozen=True, slots=True)
class Note:
    """A line of the node's log; `level` is logging's."""

    level: int
    text: str


@dataclass(frozen=True, slots=True)
class NoteSpan:
    """Make spans of an operation that ends now, one for each context of the batch. `began_ms`: monotonic."""

    operation: str
    topic_partition: TopicPartition
    batch: TracedBatch
    began_ms: int
    client_id: str = ""
    acks: int | None = None
    error_code: int = 0


@dataclass(frozen=True, slots=True)
class EndTurn:
    """Call `StorageNode.end_turn` when the event loop has passed on all requests that have arrived: the
    coordinators decide on the requests of one turn together."""


@dataclass(frozen=True, slots=True)
class EndNode:
    """Fail the node with this error."""

    error: KafkaError


Effect = (
    FlushLog
    | DeleteLog
    | RemoveFiles
    | CheckpointStarts
    | LookUpOffsets
    | CountRecords
    | ReadCold
    | Recompress
    | ReadCoordinatorLog
    | AdvisePages
    | CopyLog
    | SendFetch
    | ProposeIsr
    | AskPeer
    | SendHeartbeat
    | WakeAt
    | Note
    | NoteSpan
    | EndTurn
    | EndNode
)
