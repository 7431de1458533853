"""aiokafka: consume, transform and produce in transactions.

Run: python examples/kafka_clients/aio_kafka.py
"""

from __future__ import annotations

import asyncio

import headrace
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

COUNT = 1_000


async def main(bootstrap: str) -> None:
    """An ordinary aiokafka program, without headrace's client."""
    async with AIOKafkaProducer(bootstrap_servers=bootstrap, enable_idempotence=True) as producer:
        for number in range(COUNT):
            await producer.send("numbers", b"%d" % number)
    reader = AIOKafkaConsumer(
        "numbers",
        bootstrap_servers=bootstrap,
        group_id="squares",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    )
    async with reader, AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id="squares-1") as writer:
        done = 0
        while done < COUNT:
            batches = await reader.getmany(timeout_ms=1_000)
            async with writer.transaction():
                for tp, records in batches.items():
                    for record in records:
                        await writer.send("squares", b"%d" % (int(record.value) ** 2))
                    await writer.send_offsets_to_transaction({tp: records[-1].offset + 1}, "squares")
                    done += len(records)
    found: list[int] = []
    async with AIOKafkaConsumer(
        "squares",
        bootstrap_servers=bootstrap,
        auto_offset_reset="earliest",
        isolation_level="read_committed",
    ) as checker:
        while len(found) < COUNT:
            for records in (await checker.getmany(timeout_ms=1_000)).values():
                found += [int(record.value) for record in records]
    print(f"aiokafka: {len(found)} squares, sum {sum(found)}")


if __name__ == "__main__":
    with headrace.local(nodes=3, listeners="PLAINTEXT://127.0.0.1:0") as cluster:
        asyncio.run(main(cluster.kafka_bootstrap))
