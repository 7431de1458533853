"""The committed offsets of a group, from its coordinator."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ...protocol.errors import KafkaError, error_from_code
from ...protocol.messages.groups import OffsetFetchGroup, OffsetFetchRequest, TopicNamePartitions
from ...protocol.messages.registry import OFFSET_FETCH
from ...protocol.model import TopicPartition
from .group_metadata import OffsetAndMetadata

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..cluster.backoff import Backoff
    from ..cluster.hub_io import Hub
    from .coordinator_io import CoordinatorLink

    Committed = dict[TopicPartition, OffsetAndMetadata | None]


class CommittedOffsets:
    """OffsetFetch requests for one group."""

    def __init__(self, hub: Hub, link: CoordinatorLink, backoff: Backoff, group_id: str) -> None:
        self._hub, self._link, self._backoff, self._group_id = hub, link, backoff, group_id

    async def fetch(self, tps: Iterable[TopicPartition], deadline_ms: int) -> Committed:
        """The committed offset of each partition; None without a commit. Errors: one that is not retriable,
        or the last one at the deadline."""
        wanted: dict[str, list[int]] = {}
        for tp in tps:
            wanted.setdefault(tp.topic, []).append(tp.partition)
        if not wanted:
            return {}
        topics = tuple(TopicNamePartitions(topic, tuple(parts)) for topic, parts in wanted.items())
        failures = 0
        while True:
            try:
                return await self._fetch_once(topics, deadline_ms)
            except KafkaError as error:
                failures += 1
                wait_ms = self._backoff.wait_ms(failures)
                if not error.retriable or self._hub.now_ms() + wait_ms >= deadline_ms:
                    raise
                await asyncio.sleep(wait_ms / 1000)

    async def _fetch_once(self, topics: tuple[TopicNamePartitions, ...], deadline_ms: int) -> Committed:
        group = OffsetFetchGroup(self._group_id, topics)
        # The coordinator rejects the request while a transaction is about to commit offsets (KIP-447).
        request = OffsetFetchRequest((group,), require_stable=True)
        response = await self._link.ask(OFFSET_FETCH, request, deadline_ms=deadline_ms)
        (fetched,) = response.groups
        if fetched.error_code:
            error = error_from_code(fetched.error_code, fetched.error_detail)
            if error.refresh_metadata:
                self._link.forget()
            raise error
        offsets: Committed = {}
        for each in fetched.offsets:
            if each.error_code:
                raise error_from_code(each.error_code, f"{each.topic}-{each.partition}")
            offset = OffsetAndMetadata(each.offset, each.metadata, each.leader_epoch)
            offsets[TopicPartition(each.topic, each.partition)] = offset if each.offset >= 0 else None
        return offsets
