"""Asks the cluster what a plan needs: which partitions there are, and offsets by time. One round trip a kind.

A `Planner` belongs to the driver; it may be used from any thread, and holds no connection between its calls.
"""

from __future__ import annotations

import asyncio
import time
from itertools import chain
from typing import TYPE_CHECKING, TypeVar

from ...protocol.errors import DataLossError, KafkaError, NetworkError, UnknownTopicOrPartitionError
from ...protocol.messages.data import MetadataRequest
from ...protocol.messages.registry import METADATA
from ...protocol.model import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, TopicPartition
from ..admin.asking_io import Asking
from ..admin.log_dirs_io import LogDirsEngine
from ..cluster.backoff import Backoff
from ..config import AdminConfig, ConnectionConfig, resolve
from ..consumer.offsets_io import list_offsets, offsets_or_raise
from ..consumer.requests import READ_COMMITTED, READ_UNCOMMITTED
from .filters import Filters
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

    A batch needs `batch` alone. A stream begins at `initial_offsets`; each micro-batch goes from where the
    one before ended to `latest_offsets`, by `between`.

    A cluster of which no node answers is given up with NoClusterError after
    socket.connection.setup.timeout.ms. One that has answered once, or `is_known` to be there, is failing over
    then, and is waited for as long as default.api.timeout.ms.
    """

    def __init__(self, options: ReadOptions, *, is_known: bool = False) -> None:
        self.options = options
        self._config = resolve(AdminConfig, dict(options.client), {})
        self._connecting = resolve(ConnectionConfig, dict(options.client), {})
        self._is_known = is_known
        self._isolation = READ_COMMITTED if options.is_read_committed else READ_UNCOMMITTED
        self.last_ends: Offsets | None = None  # of the logs, as `latest_offsets` found them the last time
        self._waiting_since_s: float | None = None  # for minOffsetsPerTrigger

    def batch(self, filters: Filters | None = None) -> Plan:
        """All that the options speak of, but for what the `filters` leave out for sure: give these to
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
        """Where a stream begins, exact. Errors: ConfigError, UnknownTopicOrPartitionError."""
        starting, or_latest = self.options.starting, self.options.strategy_latest

        async def ask(io: ClusterIo) -> Position:
            places, logs, (starts,) = await self._edges(io, starting)
            return Position(settled(starting, starts, logs, or_latest=or_latest), ids_of(places))

        return self._run(ask)

    def latest_offsets(
        self, start: Mapping[TopicPartition, int] | None = None, limits: Limits | None = None
    ) -> Position:
        """Where the next micro-batch ends that begins at `start`, within `limits` (those of the options).

        It is `start` itself while fewer than minOffsetsPerTrigger are new, for up to maxTriggerDelay. Without
        `start`: the ends of the logs. Errors: UnknownTopicOrPartitionError, DataLossError for a topic that
        was created again; neither of them with `start` and without failOnDataLoss: `between` tells what is
        lost.
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
                f"topic {', '.join(renewed)} was created again since offsets of it were planned; what the old"
                " one had is lost. With failOnDataLoss=false it goes on at the new one's first record"
            )
        limits = self.options.limits if limits is None else limits
        starts = {
            tp: first if tp.topic in renewed else start.get(tp, first) for tp, first in earliest.items()
        }
        if self._waits(limits, new_offsets(starts, latest)):
            return before
        most = limits.max_offsets
        if limits.max_bytes is not None:
            found = offsets_within(limits.max_bytes, starts, latest, self._sizes(earliest, latest))
            most = found if most is None else min(most, found)
        return Position(latest if most is None else rate_limited(most, starts, latest), ids)

    def between(self, start: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int]) -> Plan:
        """The ranges of a micro-batch. Offsets are exact, of `initial_offsets` and `latest_offsets`, perhaps
        of another process; the same ones give the same rows again. Errors: DataLossError."""

        async def ask(io: ClusterIo) -> Plan:
            found = await self._places_of(io, sorted({tp.topic for tp in [*start, *end]}), position_of(end))
            places, logs = await self._logs(io, {tp: at for tp, at in found.items() if tp in end})
            return plan_between(self.options, start, end, logs, places)

        return self._run(ask)

    def _sizes(self, earliest: Offsets, latest: Offsets) -> dict[TopicPartition, tuple[int, int]]:
        """(bytes, offsets) of whole logs, as far as nodes tell. A replica may lag behind its leader."""

        async def ask(io: ClusterIo) -> Results[int, tuple[LogDirInfo, ...]]:
            engine = LogDirsEngine(Asking(io.hub, self._config))
            return await engine.describe(None, list(latest), timeout=None)

        found, sizes = self._run(ask), dict[TopicPartition, int]()
        for log_dir in chain.from_iterable(found[node] for node in found if node not in found.errors):
            for each in log_dir.replicas:
                tp = TopicPartition(each.topic, each.partition)
                sizes[tp] = max(sizes.get(tp, 0), each.size_bytes)
        return {tp: (size, latest[tp] - earliest[tp]) for tp, size in sizes.items() if tp in latest}

    # --- inside -----------------------------------------------------------------------------------------

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
        """What some node says of topics; what all of them do, if that is not as expected."""
        asking = Asking(io.hub, self._config)
        request = MetadataRequest(None if names is None else tuple(names))
        answer = await asking.ask(METADATA, request, asking.call(None))
        found = places_of(answer, with_internal=names is not None)
        return found if agrees(found, expected) else await self._places_of_all(io, names)

    async def _places_of_all(self, io: ClusterIo, names: Iterable[str] | None) -> Places:
        """What all nodes say, when they say the same: a node that knows less than the others would have what
        is there lost, or unknown."""
        asking = Asking(io.hub, self._config)
        call, request = asking.call(None), MetadataRequest(None if names is None else tuple(names))

        async def ask() -> Places | KafkaError:
            nodes = sorted(await asking.nodes(call))
            try:
                answers = [asking.ask_node(node, METADATA, request, call) for node in nodes]
                told = [
                    places_of(each, with_internal=names is not None)
                    for each in await asyncio.gather(*answers)
                ]
            except KafkaError as error:
                return NetworkError(f"a node does not say which topics there are: {error}")
            ids = [{tp: at.topic_id for tp, at in each.items()} for each in told]
            if any(each != ids[0] for each in ids):
                return NetworkError("not all nodes know yet which topics there are")
            return told[0]

        return await asking.one("the topics", ask, call)

    async def _edges(self, io: ClusterIo, *edges: Edge) -> tuple[Places, Logs, list[Offsets]]:
        """What `_logs` finds of what is subscribed, and for each edge the offsets of its timestamps."""
        places = await self._places(io, Position())
        of_edges = asyncio.gather(*(self._offsets(io, times(edge, places)) for edge in edges))
        (places, logs), found = await asyncio.gather(self._logs(io, places), of_edges)
        return places, logs, [{tp: each.offset for tp, each in by_time.items()} for by_time in found]

    async def _logs(self, io: ClusterIo, places: Places) -> tuple[Places, Logs]:
        """Where the logs start and end, and the places with the leader epochs in which they do: a node that
        knows less may have told of the places."""
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
        """Asked again as fetchOffset.numRetries says: what fails here has been retried for long already, or
        met a topic in the middle of a change."""
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
