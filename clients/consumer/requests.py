"""Builds the requests of one consumer, by node, within the bounds of requests and bytes in flight. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ...protocol.messages.data import (
    EpochQuestion,
    FetchPartition,
    FetchRequest,
    ListOffsetsPartition,
    ListOffsetsRequest,
    OffsetForLeaderEpochRequest,
)
from ...protocol.model import READ_UNCOMMITTED
from ..cluster.silence import ExpectedLeader
from .effects import Request, RequestedPartition, SendFetch, SendListOffsets, SendOffsetForLeaderEpoch

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ..cluster.metadata import ClusterView

MAX_REQUESTS_PER_NODE = 8


def leaders_of(sent: Request) -> list[ExpectedLeader]:
    """The partitions and leader epochs of a request, by which a silent leader is detected."""
    entries: Sequence[FetchPartition | ListOffsetsPartition | EpochQuestion] = sent.request.partitions
    return [
        ExpectedLeader(requested.state.tp.topic, entry.topic_id, entry.partition, requested.leader_epoch)
        for requested, entry in zip(sent.partitions, entries, strict=True)
    ]


class FetchLimits(NamedTuple):
    """The consumer's configuration keys that shape fetches."""

    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    max_partition_bytes: int
    rack: str = ""  # of the consumer; a replica in it is preferred to the leader (KIP-392)
    follower_max_age_ms: int = 300_000  # then ask the leader again for the preferred replica
    isolation: int = READ_UNCOMMITTED


class InFlightRequests:
    """Counts the requests in flight and the bytes that their responses may bring."""

    def __init__(self) -> None:
        self.reserved_bytes = 0
        self.per_node: dict[int, int] = {}
        self.fetches_sent = 0

    def add(self, node_id: int, partitions: list[RequestedPartition]) -> tuple[RequestedPartition, ...]:
        """One more request to a node, for these partitions."""
        self.per_node[node_id] = self.per_node.get(node_id, 0) + 1
        for each in partitions:
            each.state.is_in_flight = True
        return tuple(partitions)

    def remove(self, sent: Request) -> None:
        """The request was answered or has failed."""
        self.per_node[sent.node_id] -= 1
        if isinstance(sent, SendFetch):
            self.reserved_bytes -= sent.request.max_bytes

    def check(self) -> None:
        """Assert that no count is negative."""
        assert self.reserved_bytes >= 0
        assert min(self.per_node.values(), default=0) >= 0


class RequestBuilder:
    """Gathers the partitions of one poll into one request per node and kind."""

    def __init__(self, in_flight: InFlightRequests, view: ClusterView, now_ms: int) -> None:
        self._in_flight, self.view, self.now_ms = in_flight, view, now_ms
        # (node id, whether the leader may name a preferred replica)
        self.fetches: dict[tuple[int, bool], list[tuple[RequestedPartition, FetchPartition]]] = {}
        self.lookups: dict[int, list[tuple[RequestedPartition, ListOffsetsPartition]]] = {}
        self.epoch_ends: dict[int, list[tuple[RequestedPartition, EpochQuestion]]] = {}
        self._node_ids: dict[int, None] = {}  # an ordered set

    def may_request(self, node_id: int) -> bool:
        """Bound: requests in flight per node; a partition that finds none free waits for the next
        response."""
        is_new = node_id not in self._node_ids
        if is_new and self._in_flight.per_node.get(node_id, 0) >= MAX_REQUESTS_PER_NODE:
            return False
        self._node_ids[node_id] = None
        return True

    def build(self, limits: FetchLimits, free_bytes: Callable[[], int]) -> list[Request]:
        """The requests; fetches only while there are `free_bytes`."""
        requests: list[Request] = []
        add = self._in_flight.add
        for node_id, lookups in self.lookups.items():
            offsets = ListOffsetsRequest(limits.isolation, tuple(entry for _, entry in lookups))
            requests.append(SendListOffsets(node_id, offsets, add(node_id, [each for each, _ in lookups])))
        for node_id, ends in self.epoch_ends.items():
            epochs = OffsetForLeaderEpochRequest(tuple(entry for _, entry in ends))
            requests.append(
                SendOffsetForLeaderEpoch(node_id, epochs, add(node_id, [each for each, _ in ends]))
            )
        for (node_id, may_follow), fetches in self.fetches.items():
            free = free_bytes()
            if free <= 0:
                break  # fetched once the application has consumed something
            # At most half of what is free, so that a long poll of idle partitions never reserves all of it.
            least = min(free, limits.max_partition_bytes)
            max_bytes = min(max(free // 2, least), limits.max_partition_bytes * len(fetches))
            self._in_flight.reserved_bytes += max_bytes
            fetch = FetchRequest(
                limits.max_wait_ms,
                limits.min_bytes,
                max_bytes,
                limits.isolation,
                tuple(entry for _, entry in fetches),
                rack=limits.rack if may_follow else "",
            )
            requests.append(SendFetch(node_id, fetch, add(node_id, [each for each, _ in fetches])))
            self._in_flight.fetches_sent += 1
        return requests
