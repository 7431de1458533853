"""The groups of one node with one replica, each system with its own client: W1 to W11. Pure."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ..cells.cell import both
from ..cells.latency import OpenLoopCell, PingCell
from ..cells.preload import ProducePreload
from ..cells.throughput import ConsumeCell, ProduceCell, WindowCell
from ..constants import (
    ACK_P50,
    ACK_P99,
    CLEANED_MB,
    COLD_MB,
    CPU_PER_GB,
    E2E_P50,
    E2E_P99,
    FAN_OUT_MB,
    FDS,
    HEADRACE,
    KAFKA,
    MB,
    PARTITIONS,
    RATE,
    RSS_MB,
)
from ..group import RECEIVE, RECEIVE_AND_WRITE, Comparison, Group

# Headrace's cells move more records where a run would last less than half a second: rates are compared.
PRELOAD_100 = ProducePreload(100, 4_000_000, 15_000_000)
PRELOAD_1K = ProducePreload(1000, 1_200_000, 1_800_000)
# a cell of the open loop, but for its load
OPEN_LOOP = {"size": 1000, "linger_ms": 5, "partition_count": PARTITIONS, "warm_s": 1.0}


def _produce(api: str, system: str, spec: dict[str, Any]) -> ProduceCell:
    return ProduceCell(api, system, {**spec, "api": api})


def _consume(api: str, system: str, spec: dict[str, Any]) -> ConsumeCell:
    return ConsumeCell(api, system, {**spec, "api": api})


def _less(metric: str, above: str = HEADRACE, below: str = KAFKA) -> Comparison:
    """Without a goal; less is better."""
    return Comparison(above, below, metric, at_least=False)


def _cpu_goal(api: str, below: str, title: str) -> Comparison:
    title = f"`{api}`, {title}: server CPU s per GB"
    return Comparison(api, below, CPU_PER_GB, 1.0, at_least=False, title=title)


def _produce_fast(identity: str, title: str, size: int, kafka_count: int, headrace_count: int) -> Group:
    def rate(api: str, goal: float) -> tuple[Comparison, Comparison]:
        title_of_row = f"`{api}`, {title}: records/s"
        row = Comparison(api, "produce", RATE, goal, title=title_of_row, ceiling=RECEIVE_AND_WRITE)
        return row, replace(row, below="produce+callback", is_beside=True)

    goals = {"send": 2.0, "send_many": 5.0, "send_arrow": 5.0}
    kafka = {"size": size, "count": kafka_count}
    return Group(
        identity,
        f"produce as fast as possible, {title}",
        (
            _produce("produce", KAFKA, kafka),
            _produce("produce+callback", KAFKA, kafka),
            *(_produce(api, HEADRACE, {"size": size, "count": headrace_count}) for api in goals),
        ),
        (
            *(row for api, goal in goals.items() for row in rate(api, goal)),
            *(_cpu_goal(api, "produce", title) for api in goals),
        ),
    )


def _produce_1k(identity: str, title: str, spec: dict[str, Any], **more: Any) -> Group:
    spec = {"size": 1000, "count": 1_000_000, **spec}
    return Group(
        identity,
        f"produce as fast as possible, 1 KB, {title}",
        (_produce("produce", KAFKA, spec), _produce("send", HEADRACE, spec),
         _produce("send_many", HEADRACE, spec)),
        (Comparison("send", "produce", RATE), Comparison("send_many", "produce", RATE)),
        **more,
    )  # fmt: skip


def _produce_mb(identity: str, title: str, spec: dict[str, Any], *, in_quick: bool = True) -> Group:
    return Group(
        identity,
        title,
        (_produce("produce", KAFKA, spec), _produce("send", HEADRACE, spec)),
        (Comparison("send", "produce", MB), _less(CPU_PER_GB, "send", "produce")),
        in_quick=in_quick,
    )


def _large(size: int, count: int, title: str) -> Group:
    return _produce_mb(
        f"w3-{title.replace(' ', '').lower()}",
        f"large records, {title}, acks=all (one replica: the same as acks=1)",
        {"size": size, "count": count, "acks": "all"},
    )


def _compressed(codec: str, count: int, *, in_quick: bool = False) -> Group:
    return _produce_mb(
        f"w5-{codec}",
        f"compression {codec}, rows of JSON of 1 KB",
        {"size": 1000, "count": count, "compression": codec, "json": True},
        in_quick=in_quick,
    )


def _small_batches(producers: int, *, in_quick: bool = False) -> Group:
    return Group(
        f"w4-{producers}",
        f"small batches: linger 0, at most 5 records in flight, {producers} producer processes",
        both(WindowCell, {"size": 100, "seconds": 2.0, "linger_ms": 0, "producers": producers}),
        (Comparison(HEADRACE, KAFKA, RATE), _less(ACK_P50), _less(ACK_P99)),
        in_quick=in_quick,
    )


def _consume_fast(identity: str, title: str, preload: ProducePreload, *, has_defaults: bool = False) -> Group:
    spec = {"size": preload.size}
    kafka = [_consume("consume", KAFKA, spec), _consume("poll-one", KAFKA, spec)]
    defaults: tuple[Comparison, ...] = ()
    if has_defaults:
        kafka.insert(1, replace(kafka[0], name="consume-defaults", spec={**kafka[0].spec, "defaults": True}))
        defaults = (Comparison("poll", "consume-defaults", RATE),)

    def rate(api: str, goal: float, *, is_beside: bool = False) -> Comparison:
        title_of_row = f"`{api}`, {title}: records/s"
        return Comparison(api, "consume", RATE, goal, title=title_of_row, is_beside=is_beside,
                          ceiling=RECEIVE)  # fmt: skip

    apis = ("poll", "iterate", "arrow_batches")
    return Group(
        identity,
        f"catch up from the page cache, one consumer, {title}",
        (*kafka, *(_consume(api, HEADRACE, spec) for api in apis)),
        (
            rate("iterate", 2.0),
            rate("poll", 2.0, is_beside=True),
            rate("arrow_batches", 10.0),
            *(_cpu_goal(api, "consume", title) for api in ("iterate", "poll", "arrow_batches")),
            *defaults,
            Comparison("iterate", "poll-one", RATE),
        ),
        preload=preload,
    )


def _consume_in_parallel(consumers: int) -> Group:
    spec = {"size": 1000, "consumers": consumers}
    return Group(
        f"w9-1k-{consumers}",
        f"catch up from the page cache, {consumers} consumers in processes of their own, 1 KB",
        (_consume("consume", KAFKA, spec), _consume("poll", HEADRACE, spec),
         _consume("arrow_batches", HEADRACE, spec)),
        (Comparison("poll", "consume", RATE), Comparison("arrow_batches", "consume", RATE)),
        preload=PRELOAD_1K,
        in_quick=False,
    )  # fmt: skip


def _open_loop(
    identity: str, title: str, spec: dict[str, Any], *, is_goal: bool = False, in_quick: bool = True
) -> Group:
    def latency(metric: str, name: str) -> Comparison:
        title_of_row = f"latency {name}, {title}"
        goal = 1.0 if is_goal else None
        return Comparison(HEADRACE, KAFKA, metric, goal, at_least=False, title=title_of_row)

    return Group(
        identity,
        f"open loop, {title}",
        both(OpenLoopCell, {**OPEN_LOOP, "seconds": 5.0, **spec}),
        (latency(E2E_P50, "p50"), latency(E2E_P99, "p99"),
         _less(ACK_P50), _less(ACK_P99), _less(CPU_PER_GB)),
        in_quick=in_quick,
    )  # fmt: skip


def _tail(readers: int, *, in_quick: bool = False) -> Group:
    return Group(
        f"w8-{readers}",
        f"tail consumers without groups: {readers} readers of all partitions behind one producer at 25 %",
        both(OpenLoopCell, {**OPEN_LOOP, "share": 0.25, "seconds": 3.0, "readers": readers}),
        (Comparison(HEADRACE, KAFKA, FAN_OUT_MB), _less(E2E_P99), _less(CPU_PER_GB)),
        in_quick=in_quick,
    )


def _many_partitions(partitions: int, *, in_quick: bool = False) -> Group:
    spec = {**OPEN_LOOP, "size": 100, "rate": 50_000, "seconds": 3.0, "partition_count": partitions}
    return Group(
        f"w11-{partitions}",
        f"{partitions} partitions at 50,000 records/s of 100 B",
        both(OpenLoopCell, spec),
        (_less(ACK_P99), _less(RSS_MB), _less(FDS), _less(CPU_PER_GB)),
        in_quick=in_quick,
    )


# Compaction of about 100 MB again and again; 4 MB/s into a topic that retains 2 MB.
UPKEEP = {"keys": 100_000, "size": 1000, "filling": 400, "rate": 500}
# Retention runs every second; the cleaner runs again soon when it found nothing to clean.
FREQUENT_UPKEEP = (("log.retention.check.interval.ms", "1000"), ("log.cleaner.backoff.ms", "100"))


def _disturbed(
    identity: str,
    title: str,
    cause: str,
    load: dict[str, Any],
    disturbance: dict[str, Any],
    *,
    is_goal: bool = False,
    **more: Any,
) -> Group:
    """A live producer, undisturbed ("quiet") and with a reader of cold data and the `disturbance`."""
    spec = {**OPEN_LOOP, "seconds": 6.0, **load}
    headrace, kafka = (f"{name} with {cause}" for name in (HEADRACE, KAFKA))
    return Group(
        identity,
        f"live produce at {title}",
        (
            *both(OpenLoopCell, spec, "quiet"),
            *both(OpenLoopCell, {**spec, "cold": True, **disturbance}, f"with {cause}"),
        ),
        (
            Comparison(headrace, f"{HEADRACE} quiet", ACK_P99, 2.0, at_least=False,
                       title=f"ack p99 at {title}", is_beside=not is_goal),
            _less(ACK_P99, kafka, f"{KAFKA} quiet"),
            _less(ACK_P99, headrace, kafka),
            Comparison(headrace, kafka, COLD_MB),
            *([Comparison(headrace, kafka, CLEANED_MB)] if disturbance else []),
        ),
        preload=PRELOAD_1K,  # that of w9-1k, which is still there
        **more,
    )  # fmt: skip


def _cold_reader(identity: str, load: str, spec: dict[str, Any], **more: Any) -> Group:
    title = f"{load} while a reader catches up from the disk"
    return _disturbed(identity, title, "a cold reader", spec, {}, **more)


_SHARED_LOADS = (
    _open_loop("w6-25", "25 % of the slower system's most", {"share": 0.25}, in_quick=False),
    _open_loop("w6-50", "50 % of the slower system's most", {"share": 0.5}),
    _open_loop("w6-75", "75 % of the slower system's most", {"share": 0.75}, in_quick=False),
)
SINGLE_NODE: tuple[Group, ...] = (
    _produce_fast("w1", "100 B", 100, 3_000_000, 12_000_000),
    _produce_fast("w2", "1 KB", 1000, 1_000_000, 1_800_000),
    _produce_1k("w2-1mb", "batch.size 1 MB", {"batch_bytes": 1_000_000}, in_quick=False),
    _produce_1k("w2-unpinned", "nothing pinned to cores", {}, is_pinned=False),
    _large(10_000, 100_000, "10 KB"),
    _large(100_000, 10_000, "100 KB"),
    _small_batches(1, in_quick=True),
    _small_batches(8),
    _small_batches(32),
    _compressed("lz4", 600_000, in_quick=True),
    _compressed("zstd", 600_000),
    _compressed("snappy", 600_000),
    _compressed("gzip", 100_000),
    _consume_fast("w9-100", "100 B", PRELOAD_100),
    _consume_fast("w9-1k", "1 KB", PRELOAD_1K, has_defaults=True),
    # three client processes share the cores: at a high rate they would wait for each other
    _cold_reader("w10", "10,000 records/s of 1 KB", {"rate": 10_000}, is_goal=True),
    _cold_reader("w10-25", "25 % of the slower system's most", {"share": 0.25}, pairs=(3, 1)),
    _disturbed(
        "w10-upkeep",
        "10,000 records/s of 1 KB while the cleaner, retention and a cold reader work",
        "upkeep",
        {"rate": 10_000},
        {"upkeep": UPKEEP},
        is_goal=True,
        pairs=(3, 1),
        in_quick=False,  # its servers need a warm-up of their own
        settings=FREQUENT_UPKEEP,
    ),
    _consume_in_parallel(3),
    _open_loop("w6-10k", "10,000 records/s of 1 KB, linger 5 ms", {"rate": 10_000}, is_goal=True),
    _open_loop(
        "w6-10k-linger0", "10,000 records/s of 1 KB, linger 0", {"rate": 10_000, "linger_ms": 0}, is_goal=True
    ),
    *_SHARED_LOADS,
    Group(
        "w7",
        "ping: one record of 100 B in flight, linger 0",
        both(PingCell, {"size": 100, "count": 5_000, "warm": 500, "linger_ms": 0, "partition_count": 1}),
        (_less(E2E_P50), _less(E2E_P99)),
    ),
    _tail(1, in_quick=True),
    _tail(3),
    _tail(10),
    _many_partitions(1, in_quick=True),
    _many_partitions(100),
    _many_partitions(1000),
)
