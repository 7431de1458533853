"""Makes up the requests of one consumer: by node, within the bounds of requests and bytes under way. Pure."""

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
from ..cluster.silence import Stake
from .effects import Asked, Request, SendEpochs, SendFetch, SendLookup

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

MAX_REQUESTS_PER_NODE = 8
READ_UNCOMMITTED, READ_COMMITTED = 0, 1


def stakes_of(sent: Request) -> list[Stake]:
    """What it is about, for who watches whether its answer can still come."""
    questions: Sequence[FetchPartition | ListOffsetsPartition | EpochQuestion] = sent.request.partitions
    return [
        Stake(asked.state.tp.topic, question.topic_id, question.partition, asked.leader_epoch)
        for asked, question in zip(sent.asked, questions, strict=True)
    ]


class FetchLimits(NamedTuple):
    """The consumer's keys that shape fetches."""

    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    max_partition_bytes: int
    rack: str = ""  # of the consumer; a replica there is read rather than the leader (KIP-392)
    follower_max_age_ms: int = 300_000  # ask the leader anew whom to read after this
    isolation: int = READ_UNCOMMITTED


class Desk:
    """What is under way."""

    def __init__(self) -> None:
        self.reserved_bytes = 0  # the answers may bring this much
        self.per_node: dict[int, int] = {}
        self.fetches_sent = 0

    def started(self, node_id: int, asked: list[Asked]) -> tuple[Asked, ...]:
        """One more request to a node, for these."""
        self.per_node[node_id] = self.per_node.get(node_id, 0) + 1
        for each in asked:
            each.state.is_in_flight = True
        return tuple(asked)

    def ended(self, sent: Request) -> None:
        """A request has its answer, or will have none."""
        self.per_node[sent.node_id] -= 1
        if isinstance(sent, SendFetch):
            self.reserved_bytes -= sent.request.max_bytes


class Wanted:
    """What one poll asks for, by node."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        # (node id, whether a replica nearer than the leader is welcome)
        self.fetches: dict[tuple[int, bool], list[tuple[Asked, FetchPartition]]] = {}
        self.lookups: dict[int, list[tuple[Asked, ListOffsetsPartition]]] = {}
        self.questions: dict[int, list[tuple[Asked, EpochQuestion]]] = {}
        self._node_ids: dict[int, None] = {}  # an ordered set

    def may_ask(self, node_id: int) -> bool:
        """Bound: requests per node; what finds none free is asked for when an answer comes."""
        is_new = node_id not in self._node_ids
        if is_new and self._desk.per_node.get(node_id, 0) >= MAX_REQUESTS_PER_NODE:
            return False
        self._node_ids[node_id] = None
        return True

    def requests(self, limits: FetchLimits, free_bytes: Callable[[], int]) -> list[Request]:
        """All of it in one request a node and kind; fetches only while there are `free_bytes`."""
        made: list[Request] = []
        for node_id, lookups in self.lookups.items():
            where = ListOffsetsRequest(limits.isolation, tuple(lookup for _, lookup in lookups))
            made.append(SendLookup(node_id, where, self._desk.started(node_id, [a for a, _ in lookups])))
        for node_id, questions in self.questions.items():
            ends = OffsetForLeaderEpochRequest(tuple(question for _, question in questions))
            made.append(SendEpochs(node_id, ends, self._desk.started(node_id, [a for a, _ in questions])))
        for (node_id, may_follow), pairs in self.fetches.items():
            room = free_bytes()
            if room <= 0:
                break  # asked for again when the user has taken something
            # Half of the room, so that a long poll of many idle partitions never holds all of it.
            least = min(room, limits.max_partition_bytes)
            share = min(max(room // 2, least), limits.max_partition_bytes * len(pairs))
            self._desk.reserved_bytes += share
            fetch = FetchRequest(
                limits.max_wait_ms,
                limits.min_bytes,
                share,
                limits.isolation,
                tuple(partition for _, partition in pairs),
                rack=limits.rack if may_follow else "",
            )
            made.append(SendFetch(node_id, fetch, self._desk.started(node_id, [a for a, _ in pairs])))
            self._desk.fetches_sent += 1
        return made
