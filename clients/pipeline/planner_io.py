"""Requests the metadata of a plan: partitions, log bounds, and offsets by timestamp. One round trip for each.

A `Planner` belongs to the driver; it is thread-safe, and keeps no connection between calls.
"""

from __future__ import annotations

import asyncio
import time
from itertools import chain
from typing import TYPE_CHECKING, TypeVar

from ...protocol.errors import DataLossError, KafkaError, NetworkError, UnknownTopicOrPartitionError
from ...protocol.messages.data import MetadataRequest
from ...protocol.messages.registry import METADATA
from ...protocol.model import (
    EARLIEST_TIMESTAMP,
    LATEST_TIMESTAMP,
    READ_COMMITTED,
    READ_UNCOMMITTED,
    TopicPartition,
)
from ..admin.log_dirs_io import LogDirsEngine
from ..admin.requester_io import AdminRequester
from ..cluster.backoff import Backoff
from ..config import AdminConfig, ConnectionConfig, resolve
from ..consumer.offsets_io import list_offsets, offsets_or_raise
from .filters import Filters
from .measures_io import pipelines
from .offsets import Position, position_of
from .planning import (
    Logs,
    Places,
    agrees,
    ids_of,
    narrowing,
    places_of,
    plan_batch,
    plan_between,
    settled,
    subscribed,
    times,
)
from .pool_io import keep_topics, shared_cluster
from .splitting import new_offsets, offsets_within, rate_limited

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Mapping
    from typing import Any

    from ..admin.admin_types import LogDirInfo, Results
    from ..cluster.cluster_io import ClusterIo
    from ..records import OffsetAndTimestamp
    from .offsets import Offsets
    from .ranges import Plan
    from .source_options import Edge, Limits, ReadOptions

T = TypeVar("T")


class Planner:
    """Plans what tasks read. Errors of all calls: ApiTimeoutError, KafkaError, ClosedError, NoClusterError.

    A batch needs `batch` only. A stream starts at `initial_offsets`; each micro-batch goes from the end of
    the previous one to `latest_offsets`, by `between`.

    If no node of a cluster answers, calls fail with NoClusterError after socket.connection.setup.timeout.ms.
    For a cluster that has answered before, or `is_known` to exist, they retry for default.api.timeout.ms,
    because it is failing over.
    """

    def __init__(self, options: ReadOptions, *, is_known: bool = False) -> None:
        self.options = options
        self._config = resolve(AdminConfig, dict(options.client), {})
        self._connecting = resolve(ConnectionConfig, dict(options.client), {})
        self._is_known = is_known
        self._isolation = READ_COMMITTED if options.is_read_committed else READ_UNCOMMITTED
        self.last_ends: Offsets | None = None  # log end offsets of the last `latest_offsets`
        self._waiting_since_s: float | None = None  # for minOffsetsPerTrigger

    def batch(self, filters: Filters | None = None) -> Plan:
        """All ranges of the options, without parts that certainly have no row of `filters`: pass these to
        `fetch_arrow` too. Errors: ConfigError, DataLossError, UnknownTopicOrPartitionError."""
        options = self.options
        filters = Filters() if filters is None else filters
        since = filters.since()

        async def ask(io: ClusterIo) -> Plan:
            edges = (options.starting, options.ending, *(() if since is None else (since,)))
            places, logs, (starts, ends, *new) = await self._edges(io, *edges)
            first = settled(options.starting, starts, logs, or_latest=options.strategy_latest)
            last = settled(options.ending, ends, logs, or_latest=True)
            narrow = narrowing(filters, new[0] if new else {})
            return plan_batch(options, first, last, logs, places, narrow)

        return self._run(ask)

    def initial_offsets(self) -> Position:
        """The exact start offsets of a stream. Errors: ConfigError, UnknownTopicOrPartitionError."""
        starting, or_latest = self.options.starting, self.options.strategy_latest

        async def ask(io: ClusterIo) -> Position:
            places, logs, (starts,) = await self._edges(io, starting)
            return Position(settled(starting, starts, logs, or_latest=or_latest), ids_of(places))

        return self._run(ask)

    def latest_offsets(
        self, start: Mapping[TopicPartition, int] | None = None, limits: Limits | None = None
    ) -> Position:
        """The end of the next micro-batch that starts at `start`, within `limits` (default: those of the
        options).

        Equal to `start` while fewer than minOffsetsPerTrigger are new, for up to maxTriggerDelay. Without
        `start`: the log end offsets. Errors: UnknownTopicOrPartitionError, DataLossError for a topic that was
        created again; neither of them with `start` and without failOnDataLoss, where `between` reports the
        loss.
        """

        is_strict = self.options.fail_on_data_loss
        before = position_of({} if start is None else start)

        async def ask(io: ClusterIo) -> tuple[dict[str, bytes], Logs]:
            places = await self._places(io, before, is_lax=start is not None and not is_strict)
            return ids_of(places), (await self._logs(io, places))[1]

        ids, (earliest, latest) = self._run(ask)
        self.last_ends = latest
        if start is None:
            return Position(latest, ids)
        renewed = before.renewed(ids)
        if renewed and is_strict:
            raise DataLossError(
                f"topic {', '.join(renewed)} was created again after its offsets were planned; the records"
                " of the old"
                " topic are lost. With failOnDataLoss=false the stream continues at the new topic's first"
                " record"
            )
        limits = self.options.limits if limits is None else limits
        starts = {
            tp: first if tp.topic in renewed else start.get(tp, first) for tp, first in earliest.items()
        }
        pipelines.planned(self, starts, latest)
        if self._waits(limits, new_offsets(starts, latest)):
            return before
        most = limits.max_offsets
        if limits.max_bytes is not None:
            found = offsets_within(limits.max_bytes, starts, latest, self._sizes(earliest, latest))
            most = found if most is None else min(most, found)
        return Position(latest if most is None else rate_limited(most, starts, latest), ids)

    def between(self, start: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int]) -> Plan:
        """The ranges of a micro-batch. Offsets are exact, from `initial_offsets` and `latest_offsets`,
        possibly of another process; the same offsets give the same rows. Errors: DataLossError."""

        async def ask(io: ClusterIo) -> Plan:
            found = await self._places_of(io, sorted({tp.topic for tp in [*start, *end]}), position_of(end))
            places, logs = await self._logs(io, {tp: at for tp, at in found.items() if tp in end})
            return plan_between(self.options, start, end, logs, places)

        return self._run(ask)

    def _sizes(self, earliest: Offsets, latest: Offsets) -> dict[TopicPartition, tuple[int, int]]:
        """(bytes, offsets) of whole logs, from nodes that answer. A replica may lag behind its leader."""

        async def ask(io: ClusterIo) -> Results[int, tuple[LogDirInfo, ...]]:
            engine = LogDirsEngine(AdminRequester(io.hub, self._config))
            return await engine.describe(None, list(latest), timeout=None)

        found, sizes = self._run(ask), dict[TopicPartition, int]()
        for log_dir in chain.from_iterable(found[node] for node in found if node not in found.errors):
            for each in log_dir.replicas:
                tp = TopicPartition(each.topic, each.partition)
                sizes[tp] = max(sizes.get(tp, 0), each.size_bytes)
        return {tp: (size, latest[tp] - earliest[tp]) for tp, size in sizes.items() if tp in latest}

    # --- requests -------------------------------------------------------------------------------------------

    def _waits(self, limits: Limits, count: int) -> bool:
        if limits.min_offsets is None or count >= limits.min_offsets:
            self._waiting_since_s = None
            return False
        now_s = time.monotonic()
        if self._waiting_since_s is None:
            self._waiting_since_s = now_s
        if (now_s - self._waiting_since_s) * 1000 >= limits.max_delay_ms:
            self._waiting_since_s = None
            return False
        return True

    async def _places(self, io: ClusterIo, before: Position, *, is_lax: bool = False) -> Places:
        wanted = self.options.subscription
        names = sorted({*wanted.topics, *(tp.topic for tp in wanted.partitions)}) or None
        found = await self._places_of(io, names, before)
        try:
            return subscribed(wanted, found, is_lax=is_lax)
        except UnknownTopicOrPartitionError:
            found = await self._places_of_all(io, names)
            return subscribed(wanted, found, is_lax=is_lax, known=await io.hub.metadata.topic_names())

    async def _places_of(self, io: ClusterIo, names: Iterable[str] | None, expected: Position) -> Places:
        """The topics as one node knows them; as all nodes do, if that differs from `expected`."""
        requester = AdminRequester(io.hub, self._config)
        request = MetadataRequest(None if names is None else tuple(names))
        answer = await requester.ask(METADATA, request, requester.call(None))
        found = places_of(answer, with_internal=names is not None)
        return found if agrees(found, expected) else await self._places_of_all(io, names)

    async def _places_of_all(self, io: ClusterIo, names: Iterable[str] | None) -> Places:
        """The topics as all nodes know them: a node with older metadata would make existing topics look lost
        or unknown."""
        requester = AdminRequester(io.hub, self._config)
        call, request = requester.call(None), MetadataRequest(None if names is None else tuple(names))

        async def ask() -> Places | KafkaError:
            nodes = sorted(await requester.nodes(call))
            try:
                answers = [requester.ask_node(node, METADATA, request, call) for node in nodes]
                places = [
                    places_of(each, with_internal=names is not None)
                    for each in await asyncio.gather(*answers)
                ]
            except KafkaError as error:
                return NetworkError(f"a node did not answer the metadata request: {error}")
            ids = [{tp: at.topic_id for tp, at in each.items()} for each in places]
            if any(each != ids[0] for each in ids):
                return NetworkError("the nodes have different metadata: retry")
            return places[0]

        return await requester.one("the topics", ask, call)

    async def _edges(self, io: ClusterIo, *edges: Edge) -> tuple[Places, Logs, list[Offsets]]:
        """The result of `_logs` for subscribed partitions, and for each edge the offsets of its
        timestamps."""
        places = await self._places(io, Position())
        of_edges = asyncio.gather(*(self._offsets(io, times(edge, places)) for edge in edges))
        (places, logs), found = await asyncio.gather(self._logs(io, places), of_edges)
        return places, logs, [{tp: each.offset for tp, each in by_time.items()} for by_time in found]

    async def _logs(self, io: ClusterIo, places: Places) -> tuple[Places, Logs]:
        """The log bounds, and the places with the leader epochs of these responses: the places may be from a
        node with older metadata."""
        earliest, latest = await asyncio.gather(
            self._offsets(io, dict.fromkeys(places, EARLIEST_TIMESTAMP)),
            self._offsets(io, dict.fromkeys(places, LATEST_TIMESTAMP)),
        )
        newest = {
            tp: at._replace(leader_epoch=max(at.leader_epoch, latest[tp].leader_epoch))
            for tp, at in places.items()
        }
        starts, ends = ({tp: each.offset for tp, each in side.items()} for side in (earliest, latest))
        return newest, Logs(starts, ends)

    async def _offsets(
        self, io: ClusterIo, wanted: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndTimestamp]:
        if not wanted:
            return {}
        keep_topics(io, *{tp.topic for tp in wanted})
        config, hub = self._config, io.hub
        return offsets_or_raise(
            await list_offsets(
                hub,
                wanted,
                deadline_ms=self._deadline_ms(io),
                request_timeout_ms=config.request_timeout_ms,
                backoff=Backoff(config.retry_backoff_ms, config.retry_backoff_max_ms, hub.random),
                isolation=self._isolation,
            )
        )

    def _deadline_ms(self, io: ClusterIo) -> int:
        return io.hub.now_ms() + self._config.api_timeout_ms

    def _run(self, ask: Callable[[ClusterIo], Coroutine[Any, Any, T]]) -> T:
        """Retried by fetchOffset.numRetries: failures here were already retried by the client, or a topic was
        changing."""
        options = self.options
        with shared_cluster(options.bootstrap, options.client) as cluster:
            io = cluster.io

            async def asked() -> T:
                if not self._is_known:
                    await io.hub.metadata.wait_for_cluster(self._connecting.connection_setup_timeout_ms)
                    self._is_known = True
                left = options.fetch_retries
                while True:
                    try:
                        return await ask(io)
                    except KafkaError as error:
                        if not left or not error.retriable:
                            raise
                    left -= 1
                    await asyncio.sleep(options.fetch_retry_ms / 1000)

            return io.call(asked())
