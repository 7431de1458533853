"""Fetches the batches of all replicas of partitions and compares them: `headrace partition verify`."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from ..protocol.errors import (
    BrokerIdNotRegisteredError,
    HeadraceError,
    KafkaError,
    OffsetNotAvailableError,
    OffsetOutOfRangeError,
    error_from_code,
)
from ..protocol.messages.data import FetchPartition, FetchRequest
from ..protocol.messages.registry import FETCH
from ..runtime.clock_io import monotonic_ms
from .replica_comparison import BatchSum, Mismatch, batch_sums, compare

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..clients.cluster.network import Address
    from ..clients.cluster.network_io import ZmqNetwork
    from ..protocol.messages.data import FetchPartitionResponse
    from ..protocol.model import TopicPartition
    from ..protocol.records.header import Buffer

FETCH_BYTES = 4 << 20  # Bound: of one partition in one response
_WAIT_MS = 500
_POLL_S = 0.05


@dataclass(frozen=True, slots=True)
class Place:
    """A partition to verify."""

    partition: TopicPartition
    topic_id: bytes
    leader: int
    replicas: tuple[int, ...]
    is_compacted: bool


@dataclass(slots=True)
class Verdict:
    """The result for a partition. `state`: equal, different, lagging (a replica did not reach `end`), or
    error."""

    place: Place
    start: int = -1
    end: int = -1  # high watermark of the leader at the start
    compared_to: int = -1
    batches: int = 0
    state: str = "equal"
    mismatch: Mismatch | None = None
    errors: dict[int, str] = field(default_factory=dict)  # by node


class _Head(NamedTuple):
    """The start of a replica's log, and the high watermark that the replica knows, -1 if it knows none."""

    log_start_offset: int
    high_watermark: int


class ReplicaVerifier:
    """Compares one partition at a time, all replicas up to the leader's high watermark.

    `timeout_s`: how long a replica may make no progress.
    """

    def __init__(self, network: ZmqNetwork, addresses: Mapping[int, Address], timeout_s: float) -> None:
        self._network, self._addresses = network, addresses
        self._timeout_ms = int(timeout_s * 1000)

    async def verify(self, place: Place) -> Verdict:
        """Errors are in the verdict."""
        verdict = Verdict(place)
        try:
            await self._verify(verdict)
        except HeadraceError as error:  # of the leader
            verdict.state = "error"
            verdict.errors[place.leader] = str(error)
        return verdict

    async def _verify(self, verdict: Verdict) -> None:
        place = verdict.place
        heads = await asyncio.gather(*(self._head(place, node) for node in place.replicas))
        known: dict[int, _Head] = {}
        for node, head in zip(place.replicas, heads, strict=True):
            if isinstance(head, KafkaError):
                verdict.errors[node] = str(head)
            else:
                known[node] = head
        if place.leader not in known:
            verdict.state = "error"
            return
        verdict.start = offset = max(head.log_start_offset for head in known.values())
        verdict.end = known[place.leader].high_watermark
        deadline_ms = monotonic_ms() + self._timeout_ms
        while offset < verdict.end and len(known) > 1:
            sums = await self._batches(verdict, known, offset)
            if sums is None:
                if monotonic_ms() >= deadline_ms:
                    verdict.state = "lagging"
                    break
                await asyncio.sleep(_POLL_S)
                continue
            deadline_ms = monotonic_ms() + self._timeout_ms
            step = compare(sums, is_compacted=place.is_compacted)
            verdict.batches += step.batches
            offset = step.next_offset
            if step.mismatch is not None:
                verdict.mismatch = step.mismatch
                verdict.state = "different"
                break
        verdict.compared_to = min(offset, verdict.end)
        if verdict.errors and verdict.state == "equal":
            verdict.state = "error"

    async def _batches(
        self, verdict: Verdict, known: dict[int, _Head], offset: int
    ) -> dict[int, list[BatchSum]] | None:
        """The batches from `offset` on, by node; None if a replica has none yet. A replica that fails is
        left out of `known` and noted."""
        nodes = list(known)
        asked = (self._fetch(verdict.place, node, offset) for node in nodes)
        found: dict[int, list[BatchSum]] = {}
        is_complete = True
        for node, answer in zip(nodes, await asyncio.gather(*asked), strict=True):
            if isinstance(answer, (OffsetOutOfRangeError, OffsetNotAvailableError)):
                is_complete = False  # a follower that lags, or records that were deleted meanwhile
            elif isinstance(answer, KafkaError):
                if node == verdict.place.leader:
                    raise answer
                verdict.errors[node] = str(answer)
                del known[node]
            else:
                found[node] = batch_sums(answer)
                is_complete = is_complete and bool(found[node])
        return found if is_complete else None

    async def _head(self, place: Place, node: int) -> _Head | KafkaError:
        """The bounds of a replica's log."""
        offset = 0
        while True:
            answer = await self._answer(place, node, offset, 0)
            if isinstance(answer, KafkaError):
                return answer
            head, _ = answer
            if head.error_code == OffsetNotAvailableError.code:  # a follower that has to catch up
                return _Head(head.log_start_offset, -1)
            if head.error_code != OffsetOutOfRangeError.code or head.log_start_offset <= offset:
                return _error_of(head) or _Head(head.log_start_offset, head.high_watermark)
            offset = head.log_start_offset  # the high watermark is in responses without an error only

    async def _fetch(self, place: Place, node: int, offset: int) -> tuple[Buffer, ...] | KafkaError:
        """The frames of a response without an error."""
        answer = await self._answer(place, node, offset, _WAIT_MS)
        return answer if isinstance(answer, KafkaError) else _error_of(answer[0]) or answer[1]

    async def _answer(
        self, place: Place, node: int, offset: int, wait_ms: int
    ) -> tuple[FetchPartitionResponse, tuple[Buffer, ...]] | KafkaError:
        address = self._addresses.get(node)
        if address is None:
            return BrokerIdNotRegisteredError(f"node {node} is not registered, or fenced")
        wanted = FetchPartition(place.topic_id, place.partition.partition, offset, FETCH_BYTES)
        request = FetchRequest(wait_ms, 1, FETCH_BYTES, 0, (wanted,), may_follow=True)
        try:
            timeout_ms = self._timeout_ms + wait_ms
            reply = await self._network.request(address, FETCH, request, timeout_ms=timeout_ms)
        except KafkaError as error:
            return error
        (answer,) = reply.body.partitions
        return answer, tuple(reply.frames)


def _error_of(answer: FetchPartitionResponse) -> KafkaError | None:
    return error_from_code(answer.error_code, answer.error_detail) if answer.error_code else None
