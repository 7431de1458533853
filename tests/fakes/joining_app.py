"""The application of the fault scenario with joins: a windowed left join of two streams and two windowed
aggregations behind it, with standbys and snapshots.

Its output does not depend on when records arrive: a task waits until both its partitions have records
(max.task.idle.ms), and takes the one with the lower timestamp. So the pairs in JOINED have one order in every
run, and CHAINED has for each user and window a hash of all pairs in their order. When a record without a
partner is forwarded depends on restarts, as in Java: they have no defined position, but the last input
record forwards all of them (no interval between two searches). COUNTED is behind a repartition topic, whose
records mix in any order: its counts of a category and window are 1, 2, 3, ...
"""

from __future__ import annotations

import logging
import os
import zlib
from dataclasses import replace
from typing import Any

from headrace import int64, stream, utf8

NAME = "joining"
LEFT, RIGHT = "left", "right"
JOINED, CHAINED, COUNTED = "joined", "chained", "counted"
CHAINS, COUNTS = "chains", "counts"
JOIN_MS, JOIN_GRACE_MS = 2_000, 3_000
CHAIN_MS, COUNT_MS = 10_000, 60_000
GRACE_MS = 60_000  # above the wait of a record without a partner
EVER_MS = 24 * 3_600_000
SNAPSHOTS = "JOINING_SNAPSHOTS"
CATEGORIES = 4


def chained(value: str, before: int) -> int:
    """The hash of the previous hash and a value."""
    return (before * 1_000_003 + zlib.crc32(value.encode())) & 0x7FFF_FFFF_FFFF_FFFF


def is_alone(value: str) -> bool:
    """Whether a record of the join has no right value."""
    return value.endswith("+None")


def category(user: str) -> str:
    """The category of a user, such as "user-7"."""
    return f"category-{int(user.removeprefix('user-')) % CATEGORIES}"


class _App(stream.App):
    """Searches for records without a partner at every record, not once a second."""

    def _settings(self, config: Any) -> Any:
        return replace(super()._settings(config), outer_join_emit_interval_ms=0)


def app() -> stream.App:
    """Reads the snapshot folder from the environment; logs tasks and their moves."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    snapshots = os.environ.get(SNAPSHOTS)
    made = _App(
        NAME,
        key=utf8,
        value=utf8,
        guarantee="exactly_once_v2",
        standby_replicas=1,
        commit_interval_ms=100,
        cache_bytes=0,
        max_task_idle_ms=EVER_MS,
        config={
            "producer.transaction.timeout.ms": 10_000,
            "producer.linger.ms": 5,
            "log.summary.interval.ms": 10_000,
            **({"snapshot.dir": snapshots, "snapshot.interval.ms": 5_000} if snapshots else {}),
        },
    )
    joined = made.stream(LEFT).left_join(
        made.stream(RIGHT),
        lambda left, right: f"{left}+{right}",
        window=stream.join_window(JOIN_MS, grace=JOIN_GRACE_MS),
    )
    joined.to(JOINED)
    (
        joined.filter(lambda _user, value: not is_alone(value))
        .group_by_key()
        .windowed_by(stream.tumbling(CHAIN_MS, grace=GRACE_MS))
        .aggregate(
            lambda: 0,
            lambda _key, value, hashed: chained(value, hashed),
            store=stream.Store(CHAINS, value=int64, retention=EVER_MS),
        )
        .to_stream(lambda window, _hashed: f"{window.key}@{window.window.start}")
        .to(CHAINED, value=int64)
    )
    (
        joined.group_by(lambda user, _value: category(user))
        .windowed_by(stream.tumbling(COUNT_MS, grace=EVER_MS))
        .count(store=COUNTS)
        .to_stream(lambda window, _count: f"{window.key}@{window.window.start}")
        .to(COUNTED, value=int64)
    )
    return made
