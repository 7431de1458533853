"""What the node core asks its shell to do: slow work for threads, the timer, words for the log, the end.

Shape: plain frozen records; the shell performs them in order and reports results as events.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..protocol.errors import KafkaError
    from ..protocol.messages.control import AlterPartitionRequest
    from ..protocol.messages.data import FetchRequest
    from ..protocol.messages.envelope import Api
    from .embedded.coordinator_read import CoordinatorRead
    from .log.future_log import FutureLog
    from .log.log import Log
    from .log.retired import Removal
    from .replica.catch_up import PageAdvice
    from .replica.cold_reads import ColdRead
    from .replica.offset_lookup import OffsetLookup
    from .replica.partition import Partition, PartitionKey
    from .replica.recompressor import QueuedBatch


@dataclass(frozen=True, slots=True)
class FlushLog:
    """Bring the log of `partition` to the disk on a thread; then `flushed` or `flush_failed`.

    `is_awaited`: producers wait for it; other flushes must not delay it.
    """

    partition: Partition
    is_awaited: bool


@dataclass(frozen=True, slots=True)
class DeleteLog:
    """Free the space of a log that was taken out of its name: `run` on a thread; nobody else uses it."""

    log: Log

    def run(self) -> None:
        """Remove its folder."""
        self.log.delete()


@dataclass(frozen=True, slots=True)
class RemoveFiles:
    """Free the space of segments that have left their logs: `run` on the thread that does this."""

    removal: Removal

    def run(self) -> None:
        """Remove their files."""
        self.removal.run()


@dataclass(frozen=True, slots=True)
class CheckpointStarts:
    """Write down soon where logs start: `checkpoints_begin`, its tasks on threads, `checkpoints_end`."""


@dataclass(frozen=True, slots=True)
class LookUpOffsets:
    """Run the lookup on a thread; then `looked_up`."""

    lookup: OffsetLookup


@dataclass(frozen=True, slots=True)
class ReadCold:
    """Run the read on a thread that may wait for the disk; then `cold_read`."""

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
    """Run the advice on such a thread, in no hurry; nobody waits for it."""

    advice: PageAdvice


@dataclass(frozen=True, slots=True)
class CopyLog:
    """Run a step of the move of a partition between log dirs on a thread, in no hurry; then `copied`."""

    key: PartitionKey
    move: FutureLog


@dataclass(frozen=True, slots=True)
class SendFetch:
    """Send a follower's fetch to the leader, `where`[0], after those before; then `replica_fetched` or
    `replica_fetch_failed` with `where` and `number`."""

    where: tuple[int, int]  # leader, number of the fetcher
    number: int
    request: FetchRequest


@dataclass(frozen=True, slots=True)
class ProposeIsr:
    """Ask the controller to change ISRs; then `isr_answered` or `isr_failed`."""

    request: AlterPartitionRequest


@dataclass(frozen=True, slots=True)
class AskPeer:
    """Send a request to another server: to node `node_id`, this one included, or with NO_NODE to the
    controller. Then call `answered` once, with the response body, or with the error when there is none
    (NetworkError, RequestTimedOutError after `timeout_ms`)."""

    node_id: int
    api: Api
    body: Any
    timeout_ms: int
    answered: Callable[[Any, int, int], None]  # body or KafkaError, now_ms, wall_ms


@dataclass(frozen=True, slots=True)
class TellController:
    """Something happened to a disk that the controller shall hear at once: beat without waiting for the
    time."""


@dataclass(frozen=True, slots=True)
class WakeAt:
    """Call `expire` at this monotonic time, in ms; replaces the deadline of an earlier one."""

    deadline_ms: int


@dataclass(frozen=True, slots=True)
class Note:
    """Words for the operator's log; `level` is logging's."""

    level: int
    text: str


@dataclass(frozen=True, slots=True)
class EndTurn:
    """Call `StorageNode.end_turn` when the event loop has passed on all requests that have arrived: the
    coordinators decide on the requests of one turn together."""


@dataclass(frozen=True, slots=True)
class EndNode:
    """The node cannot go on: the shell fails with this error."""

    error: KafkaError


Effect = (
    FlushLog
    | DeleteLog
    | RemoveFiles
    | CheckpointStarts
    | LookUpOffsets
    | ReadCold
    | Recompress
    | ReadCoordinatorLog
    | AdvisePages
    | CopyLog
    | SendFetch
    | ProposeIsr
    | AskPeer
    | TellController
    | WakeAt
    | Note
    | EndTurn
    | EndNode
)
