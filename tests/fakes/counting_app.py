"""The streams application that fault tests kill: it counts records by value, without a cache.

Without a cache each input gives one output: the counts of a value are 1, 2, 3, ... in its partition, so a
lost record or one that was counted twice is visible. FUNCTIONS "async": words and counts pass through async
functions; "arrow": words pass through an Arrow section.
"""

from __future__ import annotations

import asyncio
import logging
import os

from headrace import int64, stream, utf8

GUARANTEE, SOURCE, TARGET = "COUNTING_GUARANTEE", "lines", "counts"
FUNCTIONS = "COUNTING_FUNCTIONS"


async def echo(value: str) -> str:
    """Return the value after a delay."""
    await asyncio.sleep(0.001 * int(value.removeprefix("word-")))
    return value


async def echo_count(count: int) -> int:
    """Return the count after a delay."""
    await asyncio.sleep(0.001 * (count % 20))
    return count


def app() -> stream.App:
    """Reads the processing guarantee and the state directory from the environment; logs tasks and counts."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    made = stream.App(
        "counting",
        key=utf8,
        value=utf8,
        guarantee=os.environ.get(GUARANTEE, "exactly_once_v2"),
        commit_interval_ms=50,
        cache_bytes=0,
        config={
            "producer.transaction.timeout.ms": 10_000,
            "producer.linger.ms": 5,
            "log.summary.interval.ms": 5_000,
        },
    )
    lines = made.stream(SOURCE, key=utf8, value=utf8)
    functions = os.environ.get(FUNCTIONS)
    if functions == "async":
        lines = lines.map_values_async(echo)
    elif functions == "arrow":
        lines = lines.arrow(lambda batch: batch)
    counts = lines.group_by(lambda _key, value: value).count(store="per-line").to_stream()
    if functions == "async":
        counts = counts.map_values_async(echo_count, ordered=False)
    counts.to(TARGET, value=int64)
    return made
