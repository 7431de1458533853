"""Connects the node core to the embedded coordinators: reports leadership, appends and reads for them. Pure.

Leadership is compared for each changed partition when the node settles an event, whatever has changed it:
metadata, a failed disk or the end of a flush.

Invariant: `elected` was called for exactly the partitions of COORDINATOR_TOPICS that this node leads, in
their present leader epochs, whenever the node has settled.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from ...protocol.errors import (
    CorruptMessageError,
    KafkaStorageError,
    NotLeaderOrFollowerError,
)
from ...runtime.files.file_layer import FileGoneError
from ..effects import AskPeer, EndTurn, Note, ReadCoordinatorLog
from ..links.lease import Lease
from ..log.verification import UNCHECKED
from ..replica.appending import check_in_sync
from .contract import COORDINATOR_APIS, COORDINATOR_TOPICS, Now
from .coordinator_read import CoordinatorRead
from .handover import Handover

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from ...protocol.messages.envelope import Api
    from ...protocol.metadata.image import MetadataDelta, MetadataImage
    from ...protocol.records.header import Buffer
    from ...protocol.security.acls import Authorizer
    from ...protocol.transport.replies import Incoming, Replies
    from ...runtime.telemetry.samples import Samples
    from ..configs.live_config import LiveConfig
    from ..log.log import Log
    from ..replica.appending import LeaderAppender
    from ..replica.disk_failures import DiskFailures
    from ..replica.partition import Partition, PartitionKey
    from ..replica.partition_table import PartitionTable
    from ..replica.step_output import StepOutput
    from .contract import CoordinatorFactory, LogPiece

_API_KEYS = frozenset(api.key for api in COORDINATOR_APIS)


class _Led(NamedTuple):
    """The leadership that the coordinators know."""

    partition: Partition
    leader_epoch: int
    handover: Handover


class NodeCoordinatorHost:
    """StorageNode's calls to the coordinators, and their CoordinatorHost. Without coordinators it does
    nothing."""

    def __init__(
        self,
        table: PartitionTable,
        output: StepOutput,
        appender: LeaderAppender,
        disks: DiskFailures,
        config: LiveConfig,
        replies: Replies,
        settle: Callable[[int], None],
        coordinators: CoordinatorFactory | None,
        now_ms: int,
        authorizer: Authorizer | None = None,
    ) -> None:
        """`settle` is called after a response of another server was passed to a coordinator."""
        self.authorizer = authorizer
        self.config = config
        self.replies = replies
        self._table = table
        self._output = output
        self._appender = appender
        self._disks = disks
        self._settle = settle
        self._topic_ids: frozenset[bytes] = frozenset()
        self._led: dict[PartitionKey, _Led] = {}
        self.lease = Lease()  # replaced by the one of the node's membership
        self._wall_shift_ms = 0
        self._was_called = self._is_turn_scheduled = False
        self._coordinators = None if coordinators is None else coordinators(self, now_ms)

    # --- what the node core calls ----------------------------------------------------------------------

    def _at(self, now_ms: int) -> Now:
        return Now(now_ms, now_ms + self._wall_shift_ms)

    def is_concerned(self, changed: Sequence[PartitionKey]) -> bool:
        """Whether coordinators were called since the last call of this, or one of these keys concerns
        them."""
        was_called, self._was_called = self._was_called, False
        if was_called or not (self._topic_ids or self._led):
            return was_called
        return any(key[0] in self._topic_ids or key in self._led for key in changed)

    def note_time(self, now_ms: int, wall_ms: int) -> None:
        """The time of an event. Events without `wall_ms` derive it from the difference of the clocks."""
        self._wall_shift_ms = wall_ms - now_ms

    def handle(self, request: Incoming, now_ms: int, wall_ms: int) -> bool:
        """Whether coordinators serve the request. Errors: KafkaError, as its response."""
        if self._coordinators is None or request.api.key not in _API_KEYS:
            return False
        self.note_time(now_ms, wall_ms)
        self._was_called = True
        self._coordinators.handle(request, Now(now_ms, wall_ms))
        return True

    def end_turn(self, now_ms: int, wall_ms: int) -> None:
        """An EndTurn effect is due."""
        self.note_time(now_ms, wall_ms)
        self._is_turn_scheduled = False
        if self._coordinators is not None:
            self._was_called = True
            self._coordinators.end_turn(Now(now_ms, wall_ms))

    def learned(self) -> None:
        """The image has changed: look up the topic ids of COORDINATOR_TOPICS."""
        if self._coordinators is not None:
            topics = self._table.image.topics
            self._topic_ids = frozenset(
                topics[name].topic_id for name in COORDINATOR_TOPICS if name in topics
            )

    def metadata_changed(self, delta: MetadataDelta | None, now_ms: int) -> None:
        """The node has settled the event of the new image."""
        self.lease.applied(self._table.image.offset)
        if self._coordinators is not None and self.is_caught_up:
            self._was_called = True
            self._coordinators.metadata_changed(self._table.image, delta, self._at(now_ms))

    def changed(self, key: PartitionKey, now_ms: int) -> None:
        """Leadership, high watermark or log end of a partition may have changed."""
        if key[0] not in self._topic_ids and key not in self._led:
            return
        assert self._coordinators is not None, "it has topics"
        partition = self._table.partitions.get(key)
        led = before = self._led.get(key)
        if led is not None and not _is_led(led, partition):
            del self._led[key]
            self._coordinators.resigned(key)
            led = None
        if partition is None or not partition.is_leader:
            return
        if led is None:
            if before is not None and partition.led_before == partition.node_id:
                handover = before.handover  # to this node, one or more epochs ago
            else:
                handover = Handover(partition, now_ms)
            self._led[key] = _Led(partition, partition.leader_epoch, handover)
            self._coordinators.elected(
                key, partition.topic_partition, partition.leader_epoch, self._at(now_ms)
            )
        else:
            self._coordinators.committed(key, self._at(now_ms))

    def ended_transaction(
        self,
        key: PartitionKey,
        producer_id: int,
        producer_epoch: int,
        now_ms: int,
        *,
        is_commit: bool,
        offset: int,
    ) -> None:
        """A transaction marker was appended to a partition that this node leads."""
        if self._coordinators is not None and key in self._led:
            self._was_called = True
            self._coordinators.ended_transaction(
                key, producer_id, producer_epoch, is_commit=is_commit, offset=offset
            )

    def connection_gone(self, session: int, now_ms: int) -> None:
        """A client has disconnected."""
        if self._coordinators is not None:
            self._was_called = True
            self._coordinators.connection_gone(session, self._at(now_ms))

    def expire(self, now_ms: int) -> None:
        """A deadline may have passed."""
        if self._coordinators is not None:
            self._was_called = True
            self._coordinators.expire(self._at(now_ms))

    def next_deadline_ms(self) -> int | None:
        """When `expire` must be called."""
        return None if self._coordinators is None else self._coordinators.next_deadline_ms()

    def status(self) -> dict[str, Any]:
        """JSON-able status."""
        return {} if self._coordinators is None else {"coordinators": self._coordinators.status()}

    def metric_pieces(self, samples: Samples) -> Iterator[None]:
        """Add the values of the coordinators' metrics, in pieces."""
        return iter(()) if self._coordinators is None else self._coordinators.metric_pieces(samples)

    def was_read(self, read: CoordinatorRead, now_ms: int) -> None:
        """A ReadCoordinatorLog effect is done."""
        self._was_called = True
        piece = read.piece
        led = self._led.get(piece.key)
        if led is None or led is not read.leadership:
            return
        partition = led.partition
        if isinstance(piece.error, FileGoneError) or partition.log is not read.log:
            self.read(piece)  # compaction, or a move between disks, has replaced what was read
        elif isinstance(piece.error, KafkaStorageError):
            self._disks.failed(partition, piece.error, now_ms)
        else:
            if isinstance(piece.error, CorruptMessageError):
                self._disks.found_damage(partition, piece.error)
            piece.done(piece, self._at(now_ms))

    # --- what coordinators use -------------------------------------------------------------------------

    @property
    def image(self) -> MetadataImage:
        return self._table.image

    @property
    def is_caught_up(self) -> bool:
        return self._table.is_caught_up

    @property
    def node_id(self) -> int:
        return self._table.node_id

    @property
    def broker_epoch(self) -> int:
        return self._table.broker_epoch

    def holds_lease(self, now_ms: int) -> bool:
        return self.lease.holds(now_ms)

    def is_handed_over(self, key: PartitionKey, now_ms: int) -> bool:
        return self._led[key].handover.is_done(self.image, now_ms - self.lease.length_ms)

    def bounds(self, key: PartitionKey) -> tuple[int, int]:
        log = self._log_of(key)
        return log.log_start_offset, log.log_end_offset

    def high_watermark(self, key: PartitionKey) -> int:
        return self._led[key].partition.high_watermark

    def max_batch_bytes(self, key: PartitionKey) -> int:
        return self._log_of(key).config.max_message_bytes

    def schedule_end_turn(self) -> None:
        if not self._is_turn_scheduled:
            self._is_turn_scheduled = True
            self._output.effects.append(EndTurn())

    def check_append(self, key: PartitionKey, leader_epoch: int) -> None:
        partition, log = self._to_append(key, leader_epoch)
        check_in_sync(partition)
        log.folder.files.check_room()

    def _to_append(self, key: PartitionKey, leader_epoch: int) -> tuple[Partition, Log]:
        led = self._led.get(key)
        if led is None:
            raise NotLeaderOrFollowerError("this node does not lead the partition")
        return led.partition, led.partition.leader_log(leader_epoch)

    def append(self, key: PartitionKey, leader_epoch: int, batch: Buffer, now: Now) -> int:
        partition, _ = self._to_append(key, leader_epoch)
        info = self._appender.append(
            partition,
            batch,
            now.ms,
            now.wall_ms,
            internal=True,
            guard=UNCHECKED,  # group coordinators verify transactions themselves, and learn of markers
        )
        return info.base_offset

    def read(self, piece: LogPiece) -> None:
        led, log = self._led[piece.key], self._log_of(piece.key)
        piece.error = None
        read = CoordinatorRead(piece, led, log, log.log_end_offset)
        self._output.effects.append(ReadCoordinatorLog(read))

    def ask(
        self, node_id: int, api: Api, body: Any, timeout_ms: int, answered: Callable[[Any, Now], None]
    ) -> None:

        def settle(outcome: Any, now_ms: int, wall_ms: int) -> None:
            self.note_time(now_ms, wall_ms)
            self._was_called = True
            answered(outcome, Now(now_ms, wall_ms))
            self._settle(now_ms)

        self._output.effects.append(AskPeer(node_id, api, body, timeout_ms, settle))

    def note(self, level: int, text: str) -> None:
        self._output.effects.append(Note(level, text))

    def _log_of(self, key: PartitionKey) -> Log:
        log = self._led[key].partition.log
        assert log is not None, "what is led is online"
        return log


def _is_led(led: _Led, partition: Partition | None) -> bool:
    """Whether the known leadership still holds."""
    return partition is led.partition and partition.is_leader and partition.leader_epoch == led.leader_epoch
