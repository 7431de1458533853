"""The groups of transactions (W12) and of consumer groups (W13). Pure."""

from __future__ import annotations

from typing import Any

from .group import CPU_PER_GB, HEADRACE, KAFKA, RATE, Cell, Comparison, Group

GOAL, TIME_GOAL = 1.5, 0.67  # times as many, and of the time
TRANSACTIONS, COMMITS, STORED = "transactions_per_s", "commits_per_s", "stored_commits_per_s"
JOIN, LEAVE, REJOIN = "join_ms", "leave_ms", "rejoin_ms"
MEMBERS, PROCESSES, SHARED_PARTITIONS = 50, 4, 100
CLASSIC, MODERN = "classic", "consumer"

# What members wait for is set low, alike: else a rebalance lasts as long as the next heartbeats are away.
HEARTBEAT_MS = 200
# Between changes, so that the next one meets members who know of none: longer than between two heartbeats. By
# the defaults one and a half times as long: the next ones are half an interval away then, as on average.
QUIET_S, DEFAULT_QUIET_S = 0.5, {CLASSIC: 4.5, MODERN: 7.5}
SOON = (
    ("group.initial.rebalance.delay.ms", "0"),
    ("group.consumer.heartbeat.interval.ms", str(HEARTBEAT_MS)),
)
# Kafka's coordinator holds back what it writes for 5 ms, to write more at once; headrace's writes at once.
SOON_KAFKA = (
    ("group.coordinator.append.linger.ms", "0"),
    ("group.consumer.min.heartbeat.interval.ms", "100"),
)


def _both(kind: str, spec: dict[str, Any], name: str = "") -> tuple[Cell, Cell]:
    suffix = f" {name}" if name else ""
    return Cell(f"{KAFKA}{suffix}", KAFKA, kind, spec), Cell(f"{HEADRACE}{suffix}", HEADRACE, kind, spec)


def _transactions(records: int) -> Group:
    spec = {"size": 100, "records": records, "seconds": 2.0}
    title = f"transactions of {records:,} records of 100 B"
    return Group(
        f"w12-{records}",
        f"{title}, one after another",
        (*_both("transact", spec), *_both("transact", {**spec, "is_spread": True}, "spread")),
        (
            Comparison(HEADRACE, KAFKA, TRANSACTIONS, GOAL, title=f"{title}: transactions/s"),
            Comparison(f"{HEADRACE} spread", f"{KAFKA} spread", TRANSACTIONS, GOAL, is_beside=True,
                       title=f"{title}, each over six partitions: transactions/s"),
            Comparison(HEADRACE, KAFKA, "ack_p99_ms", at_least=False),
        ),
        pairs=(4, 1),
        in_quick=records == 100,
        warm_rounds=2,
    )  # fmt: skip


def _read_committed() -> Group:
    def cell(face: str, system: str) -> Cell:
        spec = {"face": face, "size": 100, "isolation": "read_committed"}
        return Cell(face, system, "consume", spec)

    def rate(face: str, below: str, *, is_beside: bool = False) -> Comparison:
        title = f"read_committed, `{face}`, 100 B: records/s"
        return Comparison(face, below, RATE, GOAL, title=title, is_beside=is_beside)

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
            rate("poll", "consume"),
            rate("iterate", "consume", is_beside=True),
            rate("iterate", "poll-one", is_beside=True),
            rate("arrow_batches", "consume", is_beside=True),
            Comparison("poll", "consume", CPU_PER_GB, at_least=False),
        ),
        preload={"size": 100, "count": 2_000_000, "more": 4_000_000, "records": 1_000, "abort_every": 10},
        pairs=(4, 1),
        in_quick=False,
    )


def _commits(identity: str, title: str, **more: Any) -> Group:
    spec = {"seconds": 2.0, "protocol": CLASSIC, "window": 1, "consumers": 1}
    shapes = (
        ("sync", spec, "one after another"),
        ("async", {**spec, "window": 1000}, "1,000 under way"),
        ("four", {**spec, "consumers": 4}, "four consumers, each one after another"),
    )
    return Group(
        identity,
        f"commits of offsets, {title}",
        tuple(cell for name, shape, _ in shapes for cell in _both("commit", shape, name)),
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
    """With `heartbeat_ms`, which the servers say too, three rounds."""

    def spec(protocol: str) -> dict[str, Any]:
        waits = {"quiet_s": DEFAULT_QUIET_S[protocol], "rounds": 1}
        if heartbeat_ms is not None:
            waits = {"quiet_s": QUIET_S, "rounds": 3, "heartbeat_ms": heartbeat_ms}
        return {"members": MEMBERS, "processes": PROCESSES, "partition_count": SHARED_PARTITIONS,
                "protocol": protocol, **waits}  # fmt: skip

    goal = None if heartbeat_ms is None else TIME_GOAL
    changes = ((JOIN, "all have joined"), (LEAVE, "half have left"), (REJOIN, "half have joined"))
    return Group(
        identity,
        f"rebalances of {MEMBERS} members, {title}",
        tuple(cell for name in protocols for cell in _both("rebalance", spec(name), name)),
        tuple(
            Comparison(f"{HEADRACE} {name}", f"{KAFKA} {name}", metric, goal, at_least=False,
                       title=f"{MEMBERS} members, {title}: ms until {how}" if goal else "")
            for name in protocols
            for metric, how in changes
        ),
        **more,
    )  # fmt: skip


_SOON_ALIKE: dict[str, Any] = {"settings": SOON, "kafka_settings": SOON_KAFKA, "warm_rounds": 2,
                               "in_quick": False}  # fmt: skip

COORDINATED: tuple[Group, ...] = (
    _transactions(100),
    _transactions(1_000),
    _read_committed(),
    _commits("w13-commits", "defaults", pairs=(3, 1)),
    _commits("w13-commits-at-once", "Kafka's written at once too", pairs=(4, 1), **_SOON_ALIKE),
    *(
        _rebalance(
            f"w13-{name}",
            f"{title} protocol, heartbeats every {HEARTBEAT_MS} ms",
            (protocol,),
            heartbeat_ms=HEARTBEAT_MS,
            pairs=(3, 1),
            **_SOON_ALIKE,
        )
        for name, title, protocol in (("classic", "classic", CLASSIC), ("new", "new", MODERN))
    ),
    _rebalance("w13-defaults", "defaults", (CLASSIC, MODERN), pairs=(2, 1), in_quick=False),
)
