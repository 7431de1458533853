"""Offsets by time, of any partitions, asked of their leaders; for the consumer and the admin client."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ...protocol.errors import (
    ApiTimeoutError,
    KafkaError,
    LeaderNotAvailableError,
    UnknownTopicOrPartitionError,
    error_from_code,
)
from ...protocol.messages.data import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsResponse
from ...protocol.messages.registry import LIST_OFFSETS
from ..records import OffsetAndTimestamp
from .requests import READ_UNCOMMITTED

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ...protocol.errors import HeadraceError
    from ...protocol.model import TopicPartition
    from ..cluster.backoff import Backoff
    from ..cluster.hub_io import Hub
    from ..cluster.network import Address

Found = dict["TopicPartition", "OffsetAndTimestamp | HeadraceError"]


async def list_offsets(
    hub: Hub,
    wanted: Mapping[TopicPartition, int],
    *,
    deadline_ms: int,
    request_timeout_ms: int,
    backoff: Backoff,
) -> Found:
    """For each partition the first offset at or after its timestamp (-1: none), or the error.

    Special timestamps: -2 earliest, -1 latest, -3 the record with the largest one. Retries what is
    retriable until the deadline; what is left then has ApiTimeoutError.
    """
    topics = sorted({tp.topic for tp in wanted})
    hub.metadata.watch(topics)
    try:
        return await _Lookup(hub, wanted, deadline_ms, request_timeout_ms, backoff).run()
    finally:
        hub.metadata.unwatch(topics)


class _Lookup:
    def __init__(
        self,
        hub: Hub,
        wanted: Mapping[TopicPartition, int],
        deadline_ms: int,
        request_timeout_ms: int,
        backoff: Backoff,
    ) -> None:
        self._hub, self._wanted, self._deadline_ms = hub, wanted, deadline_ms
        self._request_timeout_ms, self._backoff = request_timeout_ms, backoff
        self._left = dict(wanted)
        self._found: Found = {}
        self._last: dict[TopicPartition, KafkaError] = {}

    async def run(self) -> Found:
        await self._check_topics()
        failures = 0
        while self._left:
            await asyncio.gather(*(self._ask(*group) for group in self._groups().items()))
            if not self._left:
                break
            failures += 1
            wait_ms = self._backoff.wait_ms(failures)
            if self._hub.now_ms() + wait_ms >= self._deadline_ms:
                self._give_up()
                break
            self._hub.metadata.refresh_soon()
            await asyncio.sleep(wait_ms / 1000)
        return {tp: self._found[tp] for tp in self._wanted}

    async def _check_topics(self) -> None:
        """Partitions that do not exist have their outcome at once."""
        most: dict[str, int] = {}
        for tp in self._wanted:
            most[tp.topic] = max(most.get(tp.topic, 0), tp.partition + 1)
        for topic, count in most.items():
            try:
                view = await self._hub.metadata.topic(topic, self._deadline_ms, min_partitions=count)
                known = len(view.partitions)
            except KafkaError as error:
                view_now = self._hub.metadata.view.topics.get(topic)
                known = len(view_now.partitions) if view_now is not None else 0
                self._refuse(topic, known, error)
            except ApiTimeoutError as error:
                self._refuse(topic, 0, error)
            else:
                self._refuse(topic, known, UnknownTopicOrPartitionError(f"a partition of {topic!r} below 0"))

    def _refuse(self, topic: str, known: int, error: HeadraceError) -> None:
        for tp in [tp for tp in self._left if tp.topic == topic and not 0 <= tp.partition < known]:
            self._found[tp] = error
            del self._left[tp]

    def _groups(self) -> dict[Address, list[tuple[TopicPartition, ListOffsetsPartition]]]:
        view = self._hub.metadata.view
        groups: dict[Address, list[tuple[TopicPartition, ListOffsetsPartition]]] = {}
        for tp, timestamp in self._left.items():
            leader = view.leader_of(tp.topic, tp.partition)
            if leader is None:
                self._last[tp] = LeaderNotAvailableError(f"{tp} has no leader now")
                continue
            topic_id, node_id, epoch = leader
            asked = ListOffsetsPartition(topic_id, tp.partition, timestamp, epoch)
            groups.setdefault(view.nodes[node_id].address, []).append((tp, asked))
        return groups

    async def _ask(self, address: Address, group: list[tuple[TopicPartition, ListOffsetsPartition]]) -> None:
        request = ListOffsetsRequest(READ_UNCOMMITTED, tuple(asked for _, asked in group))
        timeout_ms = min(self._request_timeout_ms, max(self._deadline_ms - self._hub.now_ms(), 1))
        try:
            reply = await self._hub.network.request(address, LIST_OFFSETS, request, timeout_ms=timeout_ms)
        except KafkaError as error:
            for tp, _ in group:
                self._settle(tp, error)
            return
        response: ListOffsetsResponse = reply.body
        for (tp, _), answer in zip(group, response.partitions, strict=False):
            if answer.error_code:
                self._settle(tp, error_from_code(answer.error_code, answer.error_detail))
            else:
                self._found[tp] = OffsetAndTimestamp(answer.offset, answer.timestamp, answer.leader_epoch)
                del self._left[tp]

    def _settle(self, tp: TopicPartition, error: KafkaError) -> None:
        if error.retriable:
            self._last[tp] = error
        else:
            self._found[tp] = error
            del self._left[tp]

    def _give_up(self) -> None:
        for tp in self._left:
            cause = self._last.get(tp)
            error = ApiTimeoutError(f"{tp}: no offset in time" + (f": {cause}" if cause else ""))
            error.__cause__ = cause
            self._found[tp] = error
