"""asyncio: one task sends lines, another counts their words; both share one cluster connection.

Run: python examples/pipeline_asyncio.py
"""

from __future__ import annotations

import asyncio
from collections import Counter

import headrace
from headrace import aio

LINES = ["the water runs to the wheel", "the wheel turns the stone", "the stone grinds the grain"]


async def send_lines(cluster: aio.AsyncCluster) -> None:
    """Send all lines; awaiting their futures flushes the producer."""
    async with cluster.producer(value=headrace.utf8) as producer:
        await asyncio.gather(*(producer.send("lines", line) for line in LINES))


async def count_words(cluster: aio.AsyncCluster) -> Counter[str]:
    """Count words until all lines have arrived."""
    words: Counter[str] = Counter()
    seen = 0
    async with cluster.consumer("lines", value=headrace.utf8, auto_offset_reset="earliest") as consumer:
        async for record in consumer:
            words.update(record.value.split())
            seen += 1
            if seen == len(LINES):
                break
    return words


async def main() -> None:
    """Run both tasks concurrently."""
    with headrace.local() as local:
        local.admin().create_topics(headrace.NewTopic("lines", 2)).raise_for_errors()
        async with aio.connect(local.bootstrap) as cluster:
            _, words = await asyncio.gather(send_lines(cluster), count_words(cluster))
    for word, count in words.most_common(3):
        print(f"{word:6} {count}")


if __name__ == "__main__":
    asyncio.run(main())
