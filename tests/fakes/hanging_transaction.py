"""A transaction that no coordinator will end."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from group_client import CoordinatorClient
from headrace.protocol.messages import registry
from headrace.protocol.messages.data import ProducePartition, ProduceRequest
from headrace.protocol.records.codec import active_codec

if TYPE_CHECKING:
    from headrace.services.local_io import LocalCluster

LONG_AGO_MS = 1_700_000_000_000


def hang(cluster: LocalCluster, topic: str, producer_id: int) -> None:
    """A record of a transaction that is unknown to every coordinator."""

    async def write() -> None:
        client = CoordinatorClient(cluster.bootstrap)
        topic_id, address = await client.leader(topic)
        builder = active_codec().builder(
            max_bytes=1 << 20,
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=0,
            is_transactional=True,
        )
        builder.append(LONG_AGO_MS, None, b"lost")
        entries = (ProducePartition(topic_id, 0),)
        body = ProduceRequest(-1, 10_000, entries, "forgotten", adds_partitions=False)
        (answer,) = (await client.send(address, registry.PRODUCE, body, [builder.build()])).partitions
        assert answer.error_code == 0, answer
        client.close()

    asyncio.run(write())
