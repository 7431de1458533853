"""The application that fault tests kill: it counts records by their value, without a cache.

Without a cache each input gives one output: the counts of a value are 1, 2, 3, ... in its partition, so a
record that was lost or counted twice shows.
"""

from __future__ import annotations

import os

from headrace import int64, stream, utf8

GUARANTEE, SOURCE, TARGET = "COUNTING_GUARANTEE", "lines", "counts"


def app() -> stream.App:
    """The guarantee and the folder of the stores come from the environment."""
    made = stream.App(
        "counting",
        key=utf8,
        value=utf8,
        guarantee=os.environ.get(GUARANTEE, "exactly_once_v2"),
        commit_interval_ms=50,
        cache_bytes=0,
        config={
            "consumer.session.timeout.ms": 6_000,
            "consumer.heartbeat.interval.ms": 500,
            "producer.transaction.timeout.ms": 10_000,
            "producer.linger.ms": 5,
        },
    )
    counts = made.stream(SOURCE).group_by(lambda _key, value: value).count(store="per-line")
    counts.to_stream().to(TARGET, value=int64)
    return made
