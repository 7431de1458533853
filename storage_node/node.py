"""The storage node without sockets and threads: requests, metadata and finished work go in; responses and
effects come out.

Pure and single-threaded. `handle` is called directly from the socket drain and responds through `Replies`.
Every entry point ends with `_settle`, which tries the waiting requests of all changed partitions: none is
missed, and none is entered twice.

Invariant: between two events the keys in the output are settled, and all effects were taken by the shell.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from ..protocol.errors import (
    InvalidRequestError,
    KafkaError,
    KafkaStorageError,
    LeaderNotAvailableError,
    UnsupportedVersionError,
)
from ..protocol.messages import registry
from ..runtime.authorization.gate import Gate
from ..runtime.purgatory import Purgatory
from ..runtime.timing_wheel import TimingWheel
from .configs.live_config import LiveConfig
from .counters import NodeCounters
from .edge.audit_writer import AuditWriter
from .edge.authorization import NodeAuthorization
from .edge.metadata_view import MetadataView
from .effects import Effect, WakeAt
from .embedded.coordinator_host import NodeCoordinatorHost
from .links.metadata_steps import AwaitingMetadata, MetadataStep, step_of
from .log.tail_cache import TailCache
from .node_handlers import Handlers
from .node_metrics import NodeMetrics
from .node_status import status_of
from .replica.follower_parts import FollowerLimits
from .replica.log_cleaner import LogCleaner
from .replica.producer_expiry import ProducerExpiry
from .replica.replica_manager import ReplicaManager

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ..protocol.errors import HeadraceError
    from ..protocol.messages.control import AlterPartitionResponse, FetchMetadataResponse
    from ..protocol.messages.data import FetchResponse, MetadataRequest
    from ..protocol.metadata.image import MetadataImage
    from ..protocol.records.header import Buffer
    from ..protocol.transport.replies import Incoming, Replies
    from .configs.node_config import NodeConfig
    from .embedded.contract import CoordinatorFactory
    from .embedded.coordinator_read import CoordinatorRead
    from .log.future_log import FutureLog
    from .log.log_manager import LogManager
    from .log.log_tasks import CreateTask
    from .log.offset_checkpoints import CheckpointTask
    from .replica.cold_reads import ColdRead, ColdReads
    from .replica.count_work import CountWork
    from .replica.log_cleaner import CleaningJob
    from .replica.offset_lookup import OffsetLookup
    from .replica.partition import Partition, PartitionKey
    from .replica.recompressor import QueuedBatch, Recompressor
    from .replica.transactions import TransactionsHandler

_METADATA_KEY = "metadata"  # watch key of requests that wait for a newer image


class StorageNode:
    """Routes events to handlers and parts, and completes the requests that they concern."""

    def __init__(
        self,
        config: NodeConfig,
        manager: LogManager,
        replies: Replies,
        *,
        now_ms: int,
        room: Callable[[], int],
        coordinators: CoordinatorFactory | None = None,
    ) -> None:
        self.counters = NodeCounters()
        self.config = LiveConfig(config)
        self.authorization = NodeAuthorization(config)
        self.gate = Gate(self.authorization.authorizer, lambda: self.image)
        self._manager = manager
        tails = TailCache(config.log_tail_cache_bytes, config.log_tail_cache_partition_bytes)
        self.config.on_change(
            ("log.tail.cache.bytes", "log.tail.cache.partition.bytes"),
            lambda now: tails.limit(now.log_tail_cache_bytes, now.log_tail_cache_partition_bytes),
        )
        self.replicas = ReplicaManager(
            manager,
            self.config,
            self.counters,
            tails,
            follower_limits=FollowerLimits.of(config),
            max_lag_ms=config.replica_lag_time_max_ms,
        )
        replicas = self.replicas
        self.table, self._output = replicas.table, replicas.output
        self.cleaner = LogCleaner(
            self.table, self._output, replicas.disks, replicas.moves, self.config, now_ms
        )
        self._shrink_every_ms = config.replica_lag_time_max_ms // 2
        self._next_shrink_ms = now_ms + self._shrink_every_ms
        self._replies = replies
        self._controller_id = -1
        self._view = MetadataView(self.image, self._controller_id)
        limit = config.purgatory_max_requests
        self._produces, self._fetches = (Purgatory(TimingWheel(now_ms=now_ms), limit) for _ in range(2))
        self._handlers = Handlers(
            self.replicas,
            manager,
            self.config,
            self.counters,
            replies,
            self._produces,
            self._fetches,
            room=room,
            settle=self._settle,
            metadata_key=_METADATA_KEY,
        )
        self._fetch, self._replica_fetch = self._handlers.fetch, self._handlers.replica_fetch
        self._producer_expiry = ProducerExpiry(self.table, self.config)
        self._max_request_partitions = config.max_request_partitions
        self._wake_at_ms: int | None = None
        self.coordinators = NodeCoordinatorHost(
            self.table,
            self._output,
            replicas.appender,
            replicas.disks,
            self.config,
            replies,
            self._settle,
            coordinators,
            now_ms,
            self.authorization.authorizer,
        )
        self.metrics = NodeMetrics(
            self.config, replicas, self.cleaner, manager.dirs, self._handlers.purgatories, self.coordinators
        )
        # the parts with deadlines; the last two only while there are replicas on other nodes
        self._waiting = (self._produces, self._fetches, self._fetch, self.coordinators)
        self._waiting_replicated = (*self._waiting, replicas.fetchers, replicas.isr_manager.isr_changes)
        self.audit = AuditWriter(lambda: self.config.now, lambda: self.image, self._emit)
        self._handlers.transactions.on_marker = self.coordinators.ended_transaction

    @property
    def image(self) -> MetadataImage:
        """The metadata image of this node."""
        return self.table.image

    def joined(self, node_id: int, controller_id: int) -> None:
        """The controller has assigned or confirmed this node's id; must come before the first metadata."""
        self.table.node_id = node_id
        self._controller_id = controller_id
        self._view = MetadataView(self.image, controller_id)

    @property
    def transactions(self) -> TransactionsHandler:
        """The handler of transaction markers."""
        return self._handlers.transactions

    # --- events ----------------------------------------------------------------------------------------

    def handle(self, request: Incoming, now_ms: int, wall_ms: int) -> None:
        """One request. It gets exactly one response, now or later."""
        try:
            if not (
                self._handlers.handle(request, now_ms, wall_ms)
                or self.coordinators.handle(request, now_ms, wall_ms)
            ):
                self._handle_metadata(request)
        except KafkaError as error:
            self._refuse(request, error)
        self._settle(now_ms)

    def read_metadata(self, response: FetchMetadataResponse) -> MetadataStep | None:
        """The step to the next image; None if the response is stale or empty.

        Errors: ValueError if the records do not continue the image.
        """
        return step_of(self.image, response)

    def logs_ahead(self, step: MetadataStep, broker_epoch: int) -> list[CreateTask]:
        """Tasks that create the logs that `follow` will need; `follow` with them comes next, or never."""
        if step.image.offset < broker_epoch and not self.table.is_caught_up:
            return []
        is_first = not self.table.is_caught_up
        delta = None if is_first else step.delta
        return self._manager.creation_tasks(self.replicas.logs.new_logs(step.image, delta, is_first=is_first))

    def follow(
        self,
        step: MetadataStep,
        broker_epoch: int,
        tasks: Sequence[CreateTask] = (),
        *,
        now_ms: int,
    ) -> int:
        """Apply a step, with the logs created ahead of it; returns the offset of the image.

        Until the image contains this node's own registration (the record at `broker_epoch`) it is only
        stored: an incomplete image would make strays of logs whose topics come with the next records.
        """
        assert step.old is self.image, "steps are applied in order"
        image, delta = step.image, step.delta
        self.table.broker_epoch = broker_epoch
        self._manager.finish_creating(tasks)
        if image.offset < broker_epoch and not self.table.is_caught_up:
            self.replicas.images.learn(image)
        elif delta is None or not self.table.is_caught_up:
            self.replicas.images.compare_all(image, now_ms, is_first=not self.table.is_caught_up)
            self.table.is_caught_up = True
        else:
            self.replicas.images.apply(image, delta, now_ms)
        self.authorization.follow(image, delta, is_complete=self.table.is_caught_up)
        self._view = MetadataView(image, self._controller_id)
        self.coordinators.learned()
        self._settle(now_ms)
        self.coordinators.metadata_changed(delta, now_ms)
        self._settle(now_ms)
        self._fetches.check(_METADATA_KEY, now_ms)
        return image.offset

    def follow_metadata(self, response: FetchMetadataResponse, broker_epoch: int, now_ms: int) -> int:
        """Read and apply a response; returns the offset of the image."""
        step = self.read_metadata(response)
        return self.image.offset if step is None else self.follow(step, broker_epoch, now_ms=now_ms)

    def when_metadata_reaches(
        self, offset: int, answer: Callable[[], None], wait_ms: int, now_ms: int
    ) -> None:
        """Call `answer` once the image contains `offset`, at the latest after `wait_ms`."""
        self._fetches.park(
            AwaitingMetadata(self.table, offset, answer), (_METADATA_KEY,), now_ms + wait_ms, now_ms
        )
        self._settle(now_ms)

    def flushed(self, partition: Partition, end_offset: int, now_ms: int) -> None:
        """A FlushLog effect is done: the log below `end_offset` is flushed."""
        self.replicas.flushed(partition, end_offset, now_ms)
        self._settle(now_ms)

    def flush_all(self) -> None:
        """Request flushes of all logs, with low priority."""
        self.replicas.flushes.flush_all()

    def tick(self, now_ms: int, wall_ms: int) -> None:
        """Called about each second: flush.ms, high watermarks, retention, disks with free space, and every
        replica.lag.time.max.ms / 2 lagging followers."""
        self.coordinators.note_time(now_ms, wall_ms)
        self.replicas.look_for_space(now_ms)
        self.replicas.moves.try_all_swaps(now_ms)
        self.replicas.flushes.flush_overdue(now_ms)
        self.replicas.isr_manager.advance_all(now_ms)
        if now_ms >= self._next_shrink_ms:
            self._next_shrink_ms = now_ms + self._shrink_every_ms
            self.replicas.isr_manager.shrink_overdue(now_ms)
        self.replicas.log_starts.step(now_ms, wall_ms)
        self._producer_expiry.step(now_ms, wall_ms)
        self.audit.step(self.table.node_id, now_ms)
        self._settle(now_ms)

    # --- replication -----------------------------------------------------------------------------------

    def replica_fetched(
        self,
        where: tuple[int, int],
        number: int,
        response: FetchResponse,
        frames: Sequence[Buffer],
        now_ms: int,
        wall_ms: int,
    ) -> None:
        """The response of a SendFetch effect."""
        self.replicas.fetchers.answered(where, number, response, frames, now_ms, wall_ms)
        self._settle(now_ms)

    def replica_fetch_failed(self, where: tuple[int, int], number: int, now_ms: int) -> None:
        """A SendFetch effect failed, or got an error."""
        self.replicas.fetchers.failed(where, number, now_ms)
        self._settle(now_ms)

    def isr_answered(self, response: AlterPartitionResponse, now_ms: int) -> None:
        """The response of a ProposeIsr effect."""
        self.replicas.isr_manager.isr_answered(response, now_ms)
        self._settle(now_ms)

    def isr_failed(self, now_ms: int) -> None:
        """A ProposeIsr effect failed; whether the proposals were applied is unknown."""
        self.replicas.isr_manager.isr_changes.failed(now_ms)
        self._settle(now_ms)

    def checkpoints_begin(self, *, only_starts: bool = False) -> list[CheckpointTask]:
        """The shell runs these tasks now. Until `checkpoints_end` no log is truncated: the checkpoint
        would name offsets that do not exist any more."""
        self.table.is_checkpointing = True
        return self.replicas.log_starts.checkpoint_tasks(only_starts=only_starts)

    def checkpoints_end(self, tasks: Sequence[CheckpointTask], now_ms: int) -> None:
        """The tasks have ended; starts that were not written stay requested."""
        self.replicas.checkpointed(tasks, now_ms)
        self._settle(now_ms)

    def endpoint_of(self, node_id: int) -> tuple[str, int] | None:
        """Host and port of another node in the image."""
        broker = self.image.brokers.get(node_id)
        return None if broker is None else (broker.host, broker.port)

    def flush_failed(self, partition: Partition, error: KafkaStorageError, now_ms: int) -> None:
        """A FlushLog effect failed."""
        self.replicas.flush_failed(partition, error, now_ms)
        self._settle(now_ms)

    def looked_up(self, lookup: OffsetLookup, now_ms: int) -> None:
        """A LookUpOffsets effect is done."""
        self._handlers.list_offsets.finish(lookup, now_ms)
        self._settle(now_ms)

    def counted(self, work: CountWork, now_ms: int, wall_ms: int) -> None:
        """A CountRecords effect is done."""
        self._handlers.count_records.stepped(work, now_ms, wall_ms)
        self._settle(now_ms)

    def copied(self, key: PartitionKey, move: FutureLog, now_ms: int) -> None:
        """A CopyLog effect is done."""
        self.replicas.moves.stepped(key, move, now_ms)
        self._settle(now_ms)

    def cold_read(self, read: ColdRead, now_ms: int) -> None:
        """A ReadCold effect is done."""
        self._fetch.cold_read(read, now_ms)
        self._settle(now_ms)

    def recompressed(self, item: QueuedBatch, now_ms: int, wall_ms: int) -> None:
        """A Recompress effect is done."""
        self.answered(lambda: self.recompressor.finished(item, now_ms, wall_ms), now_ms)

    def coordinator_log_read(self, read: CoordinatorRead, now_ms: int) -> None:
        """A ReadCoordinatorLog effect is done."""
        self.answered(lambda: self.coordinators.was_read(read, now_ms), now_ms)

    def end_turn(self, now_ms: int, wall_ms: int) -> None:
        """An EndTurn effect is due."""
        self.answered(lambda: self.coordinators.end_turn(now_ms, wall_ms), now_ms)

    def answered(self, act: Callable[[], None], now_ms: int) -> None:
        """Call `act` as an event of its own."""
        act()
        self._settle(now_ms)

    def cleaned(self, job: CleaningJob, error: HeadraceError | None, now_ms: int) -> None:
        """A job of the cleaner has ended."""
        self.cleaner.finished(job, error, now_ms)
        self.replicas.cleaned(job.partition, now_ms)
        self._settle(now_ms)

    def disk_failed(self, error: KafkaStorageError, now_ms: int) -> None:
        """A log dir went offline; the log manager knows which one."""
        self.replicas.disks.lost_dirs(error)
        self._settle(now_ms)

    def connection_gone(self, session: int, now_ms: int) -> None:
        """A client has disconnected: its waiting requests leave purgatory now instead of at their
        deadlines."""
        self._produces.check(session, now_ms)
        self._fetch.connection_gone(session, now_ms)
        self._replica_fetch.connection_gone(session, now_ms)
        self.coordinators.connection_gone(session, now_ms)
        self._settle(now_ms)

    def expire(self, now_ms: int) -> None:
        """A deadline may have passed."""
        self._wake_at_ms = None
        self._produces.expire(now_ms)
        self._fetch.expire(now_ms)
        self.coordinators.expire(now_ms)
        self._settle(now_ms)

    def take_effects(self) -> list[Effect]:
        """The effects that the shell must perform now, in this order; each is returned once."""
        effects = self._output.effects
        if effects:
            self._output.effects = []
        return effects

    @property
    def recompressor(self) -> Recompressor:
        """The queues of batches that are recompressed."""
        return self._handlers.produce.recompressor

    @property
    def cold_reads(self) -> ColdReads:
        return self._fetch.cold

    # --- status ----------------------------------------------------------------------------------------

    @property
    def parked(self) -> int:
        """The number of waiting requests."""
        return len(self._produces) + len(self._fetches)

    def status(self, now_ms: int) -> dict[str, Any]:
        """JSON-able status."""
        return status_of(self.metrics, now_ms) | self.coordinators.status()

    # --- inside ----------------------------------------------------------------------------------------

    def _handle_metadata(self, request: Incoming) -> None:
        """Errors: UnsupportedVersionError, LeaderNotAvailableError, InvalidRequestError."""
        key = request.api.key
        if key == registry.METADATA.key:
            self.check_caught_up()
            self._replies.reply(request, self._view.answer(self._bounded(request.body)))
        elif key == registry.DESCRIBE_CLUSTER.key:
            self.check_caught_up()
            self._replies.reply(request, self._view.cluster(request.body))
        else:
            raise UnsupportedVersionError(f"a storage node does not serve {request.api.name}")

    def check_caught_up(self) -> None:
        """Errors: LeaderNotAvailableError while the image may lack topics that exist."""
        if not self.table.is_caught_up:
            raise LeaderNotAvailableError("this node is starting and has no metadata yet")

    def _bounded(self, asked: MetadataRequest) -> MetadataRequest:
        """Errors: InvalidRequestError if it has more topics than max.request.partitions."""
        named = len(asked.topics or ()) + len(asked.topic_ids)
        if named > self._max_request_partitions:
            raise InvalidRequestError(f"{named} topics, at most {self._max_request_partitions} are allowed")
        return asked

    def _refuse(self, request: Incoming, error: KafkaError) -> None:
        self.counters.refused_requests += 1
        if request.api.key == registry.PRODUCE.key and request.body.acks == 0:
            self._replies.no_reply(request)
        else:
            self._replies.reply_error(request, error)

    def _settle(self, now_ms: int) -> None:
        """Try the waiting requests of all partitions that changed, then set the timer.

        A completed fetch may find a bad disk, and coordinators may append, which changes more partitions:
        hence the loop. It ends, because a disk fails only once and coordinators learn only of appended
        records.
        """
        output, is_replicating = self._output, self.replicas.images.is_replicating
        if not (is_replicating or self.parked or self.coordinators.is_concerned(output.changed)):
            output.changed.clear()
            return
        while output.changed or output.appended:
            appended, output.appended = output.appended, []
            for key in dict.fromkeys(appended):
                self._replica_fetch.changed(key, now_ms)
            keys, output.changed = output.changed, []
            for key in dict.fromkeys(keys):
                self.coordinators.changed(key, now_ms)
                self._produces.check(key, now_ms)
                self._fetches.check(key, now_ms)
                if is_replicating:
                    self._replica_fetch.changed(key, now_ms)
        if is_replicating:
            self.replicas.send_requests(now_ms)
        self._set_timer()

    def _set_timer(self) -> None:
        waiting = self._waiting_replicated if self.replicas.images.is_replicating else self._waiting
        earliest = self._wake_at_ms
        for part in waiting:
            deadline = part.next_deadline_ms()
            if deadline is not None and (earliest is None or deadline < earliest):
                earliest = deadline
        if earliest != self._wake_at_ms:
            assert earliest is not None
            self._wake_at_ms = earliest
            self._output.effects.append(WakeAt(earliest))

    def _emit(self, effect: Effect) -> None:
        self._output.effects.append(effect)

    def note(self, text: str) -> None:
        """A warning in the operator's log."""
        self._output.note(logging.WARNING, text)
