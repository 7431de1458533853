"""Asks the cluster what a plan needs: which partitions there are, and offsets by time. One round trip a kind.

A `Planner` belongs to the driver; it may be used from any thread, and holds no connection between its calls.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, TypeVar

from ...protocol.errors import ApiTimeoutError, KafkaError
from ...protocol.messages.data import MetadataRequest
from ...protocol.messages.registry import METADATA
from ...protocol.model import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, TopicPartition
from ..cluster.backoff import Backoff
from ..config import AdminConfig, resolve
from ..consumer.offsets_io import all_found, list_offsets
from ..consumer.requests import READ_COMMITTED, READ_UNCOMMITTED
from .planning import Places, places_of, plan_batch, plan_between, settled, subscribed, times
from .pool_io import keep_topics, shared_cluster
from .splitting import new_offsets, rate_limited

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Mapping
    from typing import Any

    from ..cluster.cluster_io import ClusterIo
    from .offsets import Offsets
    from .ranges import Plan
    from .source_options import Limits, ReadOptions

T = TypeVar("T")


class Planner:
    """Plans what tasks read. Errors of all calls: ApiTimeoutError, KafkaError, ClosedError, NoClusterError.

    A batch needs `batch` alone. A stream begins at `initial_offsets`; each micro-batch goes from where the
    one before ended to `latest_offsets`, by `between`.
    """

    def __init__(self, options: ReadOptions) -> None:
        self.options = options
        self._config = resolve(AdminConfig, dict(options.client), {})
        self._isolation = READ_COMMITTED if options.is_read_committed else READ_UNCOMMITTED
        self._waiting_since_s: float | None = None  # for minOffsetsPerTrigger

    def batch(self) -> Plan:
        """All that the options speak of. Errors: ConfigError, DataLossError, UnknownTopicOrPartitionError."""
        options = self.options

        async def ask(io: ClusterIo) -> Plan:
            places = await self._places(io)
            earliest, latest, starts, ends = await asyncio.gather(
                self._offsets(io, dict.fromkeys(places, EARLIEST_TIMESTAMP)),
                self._offsets(io, dict.fromkeys(places, LATEST_TIMESTAMP)),
                self._offsets(io, times(options.starting, places)),
                self._offsets(io, times(options.ending, places)),
            )
            or_latest = options.strategy_latest
            first = settled(options.starting, starts, earliest, latest, or_latest=or_latest)
            last = settled(options.ending, ends, earliest, latest, or_latest=True)
            return plan_batch(options, first, last, earliest, latest, places)

        return self._run(ask)

    def initial_offsets(self) -> Offsets:
        """Where a stream begins, exact. Errors: ConfigError, UnknownTopicOrPartitionError."""
        starting, or_latest = self.options.starting, self.options.strategy_latest

        async def ask(io: ClusterIo) -> Offsets:
            places = await self._places(io)
            earliest, latest, starts = await asyncio.gather(
                self._offsets(io, dict.fromkeys(places, EARLIEST_TIMESTAMP)),
                self._offsets(io, dict.fromkeys(places, LATEST_TIMESTAMP)),
                self._offsets(io, times(starting, places)),
            )
            return settled(starting, starts, earliest, latest, or_latest=or_latest)

        return self._run(ask)

    def latest_offsets(
        self, start: Mapping[TopicPartition, int] | None = None, limits: Limits | None = None
    ) -> Offsets:
        """Where the next micro-batch ends that begins at `start`, within `limits` (those of the options).

        It is `start` itself while fewer than minOffsetsPerTrigger are new, for up to maxTriggerDelay. Without
        `start`: the ends of the logs. Errors: UnknownTopicOrPartitionError.
        """

        async def ask(io: ClusterIo) -> tuple[Offsets, Offsets]:
            places = await self._places(io)
            latest = await self._offsets(io, dict.fromkeys(places, LATEST_TIMESTAMP))
            new = {} if start is None else dict.fromkeys(places.keys() - start.keys(), EARLIEST_TIMESTAMP)
            return latest, await self._offsets(io, new)

        latest, firsts = self._run(ask)
        if start is None:
            return latest
        limits = self.options.limits if limits is None else limits
        starts = {**start, **firsts}
        if self._waits(limits, new_offsets(starts, latest)):
            return dict(start)
        return latest if limits.max_offsets is None else rate_limited(limits.max_offsets, starts, latest)

    def between(self, start: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int]) -> Plan:
        """The ranges of a micro-batch. Offsets are exact, of `initial_offsets` and `latest_offsets`, perhaps
        of another process; the same ones give the same rows again. Errors: DataLossError."""

        async def ask(io: ClusterIo) -> Plan:
            places = await self._places_of(io, sorted({tp.topic for tp in [*start, *end]}))
            alive = [tp for tp in end if tp in places]
            firsts = await self._offsets(io, dict.fromkeys(alive, EARLIEST_TIMESTAMP))
            return plan_between(self.options, start, {tp: end[tp] for tp in alive}, firsts, places)

        return self._run(ask)

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

    async def _places(self, io: ClusterIo) -> Places:
        wanted = self.options.subscription
        names = (
            None if wanted.pattern is not None else {*wanted.topics, *(tp.topic for tp in wanted.partitions)}
        )
        return subscribed(wanted, await self._places_of(io, names and sorted(names)))

    async def _places_of(self, io: ClusterIo, names: Iterable[str] | None) -> Places:
        request = MetadataRequest(None if names is None else tuple(names))
        reply = await io.hub.metadata.ask_any(
            METADATA,
            request,
            deadline_ms=self._deadline_ms(io),
            attempt_ms=self._config.request_timeout_ms,
        )
        return places_of(reply.body, with_internal=names is not None)

    async def _offsets(self, io: ClusterIo, wanted: Mapping[TopicPartition, int]) -> Offsets:
        if not wanted:
            return {}
        keep_topics(io, *{tp.topic for tp in wanted})
        config, hub = self._config, io.hub
        found = await list_offsets(
            hub,
            wanted,
            deadline_ms=self._deadline_ms(io),
            request_timeout_ms=config.request_timeout_ms,
            backoff=Backoff(config.retry_backoff_ms, config.retry_backoff_max_ms, hub.random),
            isolation=self._isolation,
        )
        return {tp: value.offset for tp, value in all_found(found).items()}

    def _deadline_ms(self, io: ClusterIo) -> int:
        return io.hub.now_ms() + self._config.api_timeout_ms

    def _run(self, ask: Callable[[ClusterIo], Coroutine[Any, Any, T]]) -> T:
        """Asked again as fetchOffset.numRetries says: what fails here has been retried for long already, or
        met a topic in the middle of a change."""
        options = self.options
        with shared_cluster(options.bootstrap, options.client) as cluster:
            io = cluster.io

            async def asked() -> T:
                left = options.fetch_retries
                while True:
                    try:
                        return await ask(io)
                    except (KafkaError, ApiTimeoutError) as error:
                        if not left or not getattr(error, "retriable", False):
                            raise
                    left -= 1
                    await asyncio.sleep(options.fetch_retry_ms / 1000)

            return io.call(asked())
