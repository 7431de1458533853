"""The handlers of requests about partitions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..protocol.messages import registry
from .replica.count_records import CountRecordsHandler
from .replica.delete_records import DeleteRecordsHandler
from .replica.describing import describe_replicas
from .replica.epoch_ends import answer_epoch_ends
from .replica.fetch import FetchHandler, FetchLimits
from .replica.list_offsets import ListOffsetsHandler
from .replica.log_dirs import LogDirsHandler
from .replica.produce import ProduceHandler
from .replica.reading import RecordReader
from .replica.replica_fetch import ReplicaFetchHandler
from .replica.transactions import TransactionsHandler
from .replica.verifying import TransactionVerifier

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from ..protocol.transport.replies import Incoming, Replies
    from ..runtime.purgatory import Purgatory
    from .configs.live_config import LiveConfig
    from .counters import NodeCounters
    from .log.log_manager import LogManager
    from .replica.replica_manager import ReplicaManager


class Handlers:
    """All handlers of one node. `produces` is the purgatory of requests that wait for acks, `fetches` of
    others."""

    def __init__(
        self,
        replicas: ReplicaManager,
        manager: LogManager,
        live_config: LiveConfig,
        counters: NodeCounters,
        replies: Replies,
        produces: Purgatory,
        fetches: Purgatory,
        *,
        room: Callable[[], int],
        settle: Callable[[int], None],
        metadata_key: Hashable,
    ) -> None:
        config = live_config.now
        max_wait_ms, max_partitions = config.fetch_max_wait_ms, config.max_request_partitions
        limits = FetchLimits(
            config.fetch_max_bytes,
            max_wait_ms,
            max_partitions,
            room,
            selects_replicas=bool(config.replica_selector_class),
        )
        self.purgatories = produces, fetches
        table, output, disks = replicas.table, replicas.output, replicas.disks
        reader = RecordReader(
            output,
            cold_threads=config.fetch_cold_threads,
            cold_max_bytes=config.fetch_cold_max_bytes,
            read_ahead_bytes=config.fetch_read_ahead_bytes,
            max_bytes=config.fetch_max_bytes,
        )
        self._table, self._replies, self._max_partitions = table, replies, max_partitions
        self.produce = ProduceHandler(
            table,
            output,
            replicas.appender,
            produces,
            replies,
            counters,
            max_wait_ms=max_wait_ms,
            max_partitions=max_partitions,
            max_waiting=config.purgatory_max_requests,
            verifier=TransactionVerifier(table, output, live_config, fetches, settle, metadata_key),
        )
        self.produce.traces = replicas.traces
        self.fetch = FetchHandler(table, disks, fetches, replies, counters, limits, reader, replicas.traces)
        self.replica_fetch = ReplicaFetchHandler(
            table,
            replicas.isr_manager,
            disks,
            replicas.throttles.leader,
            fetches,
            replies,
            counters,
            limits,
            reader,
            replicas.traces,
        )
        self.list_offsets = ListOffsetsHandler(table, disks, output, replies, max_partitions=max_partitions)
        self.count_records = CountRecordsHandler(table, disks, output, replies, max_partitions=max_partitions)
        self.delete_records = DeleteRecordsHandler(
            table,
            replicas.log_starts,
            fetches,
            replies,
            max_wait_ms=max_wait_ms,
            max_partitions=max_partitions,
            metadata_key=metadata_key,
        )
        self.log_dirs = LogDirsHandler(table, replicas.moves, manager, replies, max_partitions=max_partitions)
        self.transactions = TransactionsHandler(
            table,
            replicas.appender,
            produces,
            replies,
            max_wait_ms=max_wait_ms,
            max_partitions=max_partitions,
        )

    def handle(self, request: Incoming, now_ms: int, wall_ms: int) -> bool:
        """Whether a handler here serves the request. Errors: KafkaError, as its response."""
        key = request.api.key
        if key == registry.PRODUCE.key:
            self.produce.handle(request, now_ms, wall_ms)
        elif key == registry.FETCH.key:
            if request.body.replica_id < 0:
                self.fetch.handle(request, now_ms)
            else:
                self.replica_fetch.handle(request, now_ms)
        elif key == registry.LIST_OFFSETS.key:
            self.list_offsets.handle(request)
        elif key == registry.COUNT_RECORDS.key:
            self.count_records.handle(request, wall_ms)
        elif key == registry.DELETE_RECORDS.key:
            self.delete_records.handle(request, now_ms)
        elif key == registry.OFFSET_FOR_LEADER_EPOCH.key:
            answer = answer_epoch_ends(self._table, request.body, self._max_partitions)
            self._replies.reply(request, answer)
        elif key in (registry.DESCRIBE_LOG_DIRS.key, registry.ALTER_REPLICA_LOG_DIRS.key):
            self.log_dirs.handle(request, now_ms)
        elif key == registry.DESCRIBE_REPLICAS.key:
            described = describe_replicas(self._table, request.body, self._max_partitions, now_ms)
            self._replies.reply(request, described)
        elif key in TransactionsHandler.api_keys:
            self.transactions.handle(request, now_ms, wall_ms)
        else:
            return False
        return True
