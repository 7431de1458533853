"""All fetchers of a node. Pure.

Invariant: a partition is in a fetcher exactly while it is online and another node leads it: in a fetcher of
its present leader, in its present leader epoch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.model import NO_NODE
from ..effects import SendFetch
from .follower import ReplicaFetcher

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ...protocol.messages.data import FetchResponse
    from ...protocol.records.header import Buffer
    from ..configs.live_config import LiveConfig
    from .followed import Followed
    from .follower_parts import FollowerLimits, FollowerParts
    from .partition import Partition, PartitionKey

FetcherKey = tuple[int, int]  # leader, number of the fetcher


class Fetchers:
    """Assigns partitions to fetchers as leaders change, and passes requests and responses through."""

    def __init__(self, parts: FollowerParts, limits: FollowerLimits, config: LiveConfig) -> None:
        self._parts = parts
        self._limits = limits
        self._config = config
        self._per_leader = config.now.num_replica_fetchers
        self._fetchers: dict[FetcherKey, ReplicaFetcher] = {}
        self._places: dict[PartitionKey, ReplicaFetcher] = {}

    def __bool__(self) -> bool:
        return bool(self._fetchers)

    def place(self, partition: Partition, now_ms: int) -> None:
        """Fetch the partition from its leader, if that is another node and the partition is online."""
        key, leader = partition.key, partition.leader
        fetcher = self._places.get(key)
        is_follower = partition.is_online and leader not in (NO_NODE, partition.node_id)
        if fetcher is not None:
            followed = fetcher.partitions[key]
            if (
                is_follower
                and fetcher.leader_id == leader
                and followed.leader_epoch == partition.leader_epoch
                and followed.partition is partition
            ):
                return
            fetcher.remove(key)
            del self._places[key]
        if is_follower:
            where = (leader, (key[0][-1] + key[1]) % self._per_leader)
            fetcher = self._fetchers.get(where)
            if fetcher is None:
                fetcher = self._fetchers[where] = ReplicaFetcher(*where, self._parts, self._limits)
            fetcher.add(partition, now_ms)
            self._places[key] = fetcher

    def _spread(self, now_ms: int) -> None:
        """num.replica.fetchers has changed: assign all partitions again."""
        for key, fetcher in list(self._places.items()):
            partition = fetcher.partitions[key].partition
            self.drop(key)
            self.place(partition, now_ms)

    def drop(self, key: PartitionKey) -> None:
        """Stop fetching the partition."""
        fetcher = self._places.pop(key, None)
        if fetcher is not None:
            fetcher.remove(key)

    def flushed(self, key: PartitionKey, now_ms: int) -> None:
        """A flush of the partition's log has ended; called before the next one may begin."""
        fetcher = self._places.get(key)
        if fetcher is not None:
            fetcher.flushed(key, now_ms)

    def start_moved(self, key: PartitionKey, now_ms: int) -> None:
        """The partition's log start has moved: report it to its leader."""
        fetcher = self._places.get(key)
        if fetcher is not None:
            fetcher.start_moved(key, now_ms)

    def retry_truncations(self, now_ms: int) -> None:
        """Checkpoints or a cleaning have ended: do the truncations that waited for that."""
        for fetcher in self._fetchers.values():
            fetcher.retry_truncations(now_ms)

    def send(self, broker_epoch: int, now_ms: int) -> None:
        """Send the fetches that are due."""
        if self._per_leader != self._config.now.num_replica_fetchers:
            self._per_leader = self._config.now.num_replica_fetchers
            self._spread(now_ms)
        for where, fetcher in self._fetchers.items():
            while (request := fetcher.next_request(broker_epoch, now_ms)) is not None:
                self._parts.output.effects.append(SendFetch(where, *request))

    def answered(
        self,
        where: FetcherKey,
        number: int,
        response: FetchResponse,
        frames: Sequence[Buffer],
        now_ms: int,
        wall_ms: int,
    ) -> None:
        """The response of a SendFetch effect."""
        self._fetchers[where].answered(number, response, frames, now_ms, wall_ms)

    def failed(self, where: FetcherKey, number: int, now_ms: int) -> None:
        """A SendFetch effect failed."""
        self._fetchers[where].failed(number, now_ms)

    def next_deadline_ms(self) -> int | None:
        """When `send` may have a fetch to send, unless a response or a flush comes before."""
        earliest: int | None = None
        for fetcher in self._fetchers.values():
            deadline = fetcher.next_deadline_ms()
            if deadline is not None and (earliest is None or deadline < earliest):
                earliest = deadline
        return earliest

    @property
    def followed(self) -> Iterator[Followed]:
        """All followed partitions."""
        return (followed for fetcher in self._fetchers.values() for followed in fetcher.partitions.values())

    def check(self) -> None:
        """Assert the invariants."""
        for key, fetcher in self._places.items():
            assert key in fetcher.partitions
        assert len(self._places) == sum(len(fetcher.partitions) for fetcher in self._fetchers.values())
        for fetcher in self._fetchers.values():
            fetcher.check()
