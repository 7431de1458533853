"""The groups of transactions (W12) and of consumer groups (W13). Pure."""

from __future__ import annotations

from typing import Any

from ..cells.cell import both
from ..cells.coordinators import CommitCell, TransactCell
from ..cells.preload import TransactionPreload
from ..cells.rebalance import RebalanceCell
from ..cells.throughput import ConsumeCell
from ..constants import ACK_P99, COMMITS, CPU_PER_GB, HEADRACE, JOIN, KAFKA, LEAVE, RATE, REJOIN, TRANSACTIONS
from ..group import Comparison, Group

GOAL, TIME_GOAL = 1.5, 0.67  # times as many operations; in this share of the time
MEMBERS, PROCESSES, SHARED_PARTITIONS = 50, 4, 100
CLASSIC, MODERN = "classic", "consumer"

# Short and equal in both systems: otherwise a rebalance lasts until the next heartbeats.
HEARTBEAT_MS = 200
# The pause between changes, longer than a heartbeat interval, so that members know the last assignment. With
# the defaults it is 1.5 intervals: the next heartbeats are half an interval away then, as on average.
QUIET_S, DEFAULT_QUIET_S = 0.5, {CLASSIC: 4.5, MODERN: 7.5}
SHORT_INTERVALS = (
    ("group.initial.rebalance.delay.ms", "0"),
    ("group.consumer.heartbeat.interval.ms", str(HEARTBEAT_MS)),
)
# Kafka's coordinator delays its writes by 5 ms to merge them; headrace's writes at once.
SHORT_INTERVALS_KAFKA = (
    ("group.coordinator.append.linger.ms", "0"),
    ("group.consumer.min.heartbeat.interval.ms", "100"),
)
_SHORT: dict[str, Any] = {"settings": SHORT_INTERVALS, "kafka_settings": SHORT_INTERVALS_KAFKA,
                          "warm_rounds": 2, "in_quick": False}  # fmt: skip


def _transactions(records: int) -> Group:
    spec = {"size": 100, "records": records, "seconds": 2.0}
    title = f"transactions of {records:,} records of 100 B"
    return Group(
        f"w12-{records}",
        f"{title}, one after another",
        (*both(TransactCell, spec), *both(TransactCell, {**spec, "is_spread": True}, "spread")),
        (
            Comparison(HEADRACE, KAFKA, TRANSACTIONS, GOAL, title=f"{title}: transactions/s"),
            Comparison(f"{HEADRACE} spread", f"{KAFKA} spread", TRANSACTIONS, GOAL, is_beside=True,
                       title=f"{title}, each over six partitions: transactions/s"),
            Comparison(HEADRACE, KAFKA, ACK_P99, at_least=False),
        ),
        pairs=(4, 1),
        in_quick=records == 100,
        warm_rounds=2,
    )  # fmt: skip


def _read_committed() -> Group:
    def cell(api: str, system: str) -> ConsumeCell:
        return ConsumeCell(api, system, {"api": api, "size": 100, "isolation": "read_committed"})

    def rate(api: str, below: str, *, is_beside: bool = True) -> Comparison:
        title = f"read_committed, `{api}`, 100 B: records/s"
        return Comparison(api, below, RATE, GOAL, title=title, is_beside=is_beside)

    return Group(
        "w12-read",
        "read_committed from the page cache, one consumer, 100 B: transactions of 1,000, every tenth aborted",
        (
            cell("consume", KAFKA),
            cell("poll-one", KAFKA),
            cell("poll", HEADRACE),
            cell("iterate", HEADRACE),
            cell("arrow_batches", HEADRACE),
        ),
        (
            rate("poll", "consume", is_beside=False),
            rate("iterate", "consume"),
            rate("iterate", "poll-one"),
            rate("arrow_batches", "consume"),
            Comparison("poll", "consume", CPU_PER_GB, at_least=False),
        ),
        preload=TransactionPreload(100, 2_000_000, 4_000_000, records=1_000, abort_every=10),
        pairs=(4, 1),
        in_quick=False,
    )


def _commits(identity: str, title: str, **more: Any) -> Group:
    spec = {"seconds": 2.0, "protocol": CLASSIC, "window": 1, "consumers": 1}
    shapes = (
        ("sync", spec, "one after another"),
        ("async", {**spec, "window": 1000}, "1,000 in flight"),
        ("four", {**spec, "consumers": 4}, "four consumers, each one after another"),
    )
    return Group(
        identity,
        f"commits of offsets, {title}",
        tuple(cell for name, shape, _ in shapes for cell in both(CommitCell, shape, name)),
        tuple(
            Comparison(f"{HEADRACE} {name}", f"{KAFKA} {name}", COMMITS, GOAL,
                       title=f"commits, {how}, {title}: commits/s")
            for name, _, how in shapes
        ),
        **more,
    )  # fmt: skip


def _rebalance(
    identity: str, title: str, protocols: tuple[str, ...], *, heartbeat_ms: int | None = None, **more: Any
) -> Group:
    """With `heartbeat_ms`, which the servers are configured with too: three rounds, and goals."""

    def spec(protocol: str) -> dict[str, Any]:
        pauses = {"quiet_s": DEFAULT_QUIET_S[protocol], "rounds": 1}
        if heartbeat_ms is not None:
            pauses = {"quiet_s": QUIET_S, "rounds": 3, "heartbeat_ms": heartbeat_ms}
        return {"members": MEMBERS, "processes": PROCESSES, "partition_count": SHARED_PARTITIONS,
                "protocol": protocol, **pauses}  # fmt: skip

    goal = None if heartbeat_ms is None else TIME_GOAL
    changes = ((JOIN, "all have joined"), (LEAVE, "half have left"), (REJOIN, "half have joined"))
    return Group(
        identity,
        f"rebalances of {MEMBERS} members, {title}",
        tuple(cell for name in protocols for cell in both(RebalanceCell, spec(name), name)),
        tuple(
            Comparison(f"{HEADRACE} {name}", f"{KAFKA} {name}", metric, goal, at_least=False,
                       title=f"{MEMBERS} members, {title}: ms until {how}" if goal else "")
            for name in protocols
            for metric, how in changes
        ),
        **more,
    )  # fmt: skip


COORDINATORS: tuple[Group, ...] = (
    _transactions(100),
    _transactions(1_000),
    _read_committed(),
    _commits("w13-commits", "defaults", pairs=(3, 1)),
    _commits("w13-commits-at-once", "Kafka without append linger", pairs=(4, 1), **_SHORT),
    *(
        _rebalance(
            f"w13-{name}",
            f"{name} protocol, heartbeats every {HEARTBEAT_MS} ms",
            (protocol,),
            heartbeat_ms=HEARTBEAT_MS,
            pairs=(3, 1),
            **_SHORT,
        )
        for name, protocol in (("classic", CLASSIC), ("new", MODERN))
    ),
    _rebalance("w13-defaults", "defaults", (CLASSIC, MODERN), pairs=(2, 1), in_quick=False),
)
