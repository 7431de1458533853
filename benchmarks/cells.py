"""What is measured: groups of cells that run interleaved, and the comparisons drawn from them. Pure.

A group runs its cells in order, then backwards (A B, B A, ...); each time through is one pair for every two
of them. Groups with a goal run first and all their pairs; the others take what is left of the time. Counts
are those of the full run; QUICK takes the share `QUICK_SHARE` of them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from .cleaner import CLEANER
from .coordinated import COORDINATED
from .group import (
    ACK_P50,
    ACK_P99,
    BARE,
    CLEANED_MB,
    CPU_PER_GB,
    E2E_P50,
    E2E_P99,
    HEADRACE,
    KAFKA,
    MB,
    PARTITIONS,
    QUICK_SHARE,
    RATE,
    RECEIVE,
    RECEIVE_AND_WRITE,
    Cell,
    Comparison,
    Group,
)
from .kafka_clients import KAFKA_CLIENTS, KAFKA_CLIENTS_OF_THREE
from .replicated import REPLICATED


def order(group: Group, pair: int) -> list[Cell]:
    """The cells in the order of one pair: forwards, backwards, forwards, ..."""
    return list(group.cells if pair % 2 == 0 else reversed(group.cells))


def _producing(size: int, count: int, more: int, *, workload: str, title: str) -> Group:
    """headrace's cells send `more` records: rates are compared, and a fast run must last long enough too."""

    def cell(name: str, system: str) -> Cell:
        spec = {"face": name, "size": size, "count": count if system == KAFKA else more}
        return Cell(name, system, "produce", spec)

    faces = (
        cell("produce", KAFKA),
        cell("produce+callback", KAFKA),
        cell("send", HEADRACE),
        cell("send_many", HEADRACE),
        cell("send_arrow", HEADRACE),
    )

    def rate(face: str, goal: float) -> tuple[Comparison, Comparison]:
        made = Comparison(
            face, "produce", RATE, goal, title=f"`{face}`, {title}: records/s", ceiling=RECEIVE_AND_WRITE
        )
        return made, replace(made, below="produce+callback", is_beside=True)

    def cpu(face: str) -> Comparison:
        return Comparison(face, "produce", CPU_PER_GB, 1.0, at_least=False, title=_cpu(f"`{face}`", title))

    return Group(
        workload,
        f"produce as fast as it goes, {title}",
        faces,
        (
            *rate("send", 2.0), *rate("send_many", 5.0), *rate("send_arrow", 5.0),
            cpu("send"), cpu("send_many"), cpu("send_arrow"),
        ),
    )  # fmt: skip


def _cpu(what: str, title: str) -> str:
    return f"{what}, {title}: server CPU s per GB"


def _reading(
    size: int, count: int, more: int, *, workload: str, title: str, has_defaults: bool = False
) -> Group:
    def cell(name: str, system: str) -> Cell:
        return Cell(name, system, "consume", {"face": name, "size": size})

    consuming = {"face": "consume", "size": size}

    def rate(face: str, goal: float, *, is_beside: bool = False) -> Comparison:
        what = f"`{face}`, {title}: records/s"
        return Comparison(face, "consume", RATE, goal, title=what, is_beside=is_beside, ceiling=RECEIVE)

    def cpu(face: str) -> Comparison:
        return Comparison(face, "consume", CPU_PER_GB, 1.0, at_least=False, title=_cpu(f"`{face}`", title))

    return Group(
        workload,
        f"catch up from the page cache, one consumer, {title}",
        (
            cell("consume", KAFKA),
            *((Cell("consume-defaults", KAFKA, "consume", {**consuming, "defaults": True}),) * has_defaults),
            cell("poll-one", KAFKA),
            cell("poll", HEADRACE),
            cell("iterate", HEADRACE),
            cell("arrow_batches", HEADRACE),
        ),
        (
            rate("iterate", 2.0),
            rate("poll", 2.0, is_beside=True),
            rate("arrow_batches", 10.0),
            cpu("iterate"),
            cpu("poll"),
            cpu("arrow_batches"),
            *((Comparison("poll", "consume-defaults", RATE),) * has_defaults),
            Comparison("iterate", "poll-one", RATE),
        ),
        preload={"size": size, "count": count, "more": more},
    )


def _reading_together(consumers: int) -> Group:
    spec = {"size": 1000, "consumers": consumers}
    return Group(
        f"w9-1k-{consumers}",
        f"catch up from the page cache, {consumers} consumers in processes of their own, 1 KB",
        (
            Cell("consume", KAFKA, "consume", {**spec, "face": "consume"}),
            Cell("poll", HEADRACE, "consume", {**spec, "face": "poll"}),
            Cell("arrow_batches", HEADRACE, "consume", {**spec, "face": "arrow_batches"}),
        ),
        (Comparison("poll", "consume", RATE), Comparison("arrow_batches", "consume", RATE)),
        preload={"size": 1000, "count": 1_200_000, "more": 1_800_000},
        in_quick=False,
    )


def _large_batches() -> Group:
    spec = {"size": 1000, "count": 1_000_000, "batch_bytes": 1_000_000}
    return Group(
        "w2-1mb",
        "produce as fast as it goes, 1 KB, batch.size 1 MB",
        (
            Cell("produce", KAFKA, "produce", {**spec, "face": "produce"}),
            Cell("send", HEADRACE, "produce", {**spec, "face": "send"}),
            Cell("send_many", HEADRACE, "produce", {**spec, "face": "send_many"}),
        ),
        (Comparison("send", "produce", RATE), Comparison("send_many", "produce", RATE)),
        in_quick=False,
    )


def _both(kind: str, spec: dict[str, Any], name: str = "") -> tuple[Cell, Cell]:
    suffix = f" {name}" if name else ""
    return Cell(f"kafka{suffix}", KAFKA, kind, spec), Cell(f"headrace{suffix}", HEADRACE, kind, spec)


def _open_loop(
    identity: str, title: str, spec: dict[str, Any], *, is_goal: bool = False, in_quick: bool = True
) -> Group:
    goal = 1.0 if is_goal else None
    percentiles = ((E2E_P50, "p50"), (E2E_P99, "p99"))
    return Group(
        identity,
        f"open loop, {title}",
        _both("openloop", {"size": 1000, "linger_ms": 5, "partition_count": PARTITIONS, **spec}),
        (
            *(
                Comparison(
                    "headrace", "kafka", metric, goal, at_least=False, title=f"latency {name}, {title}"
                )
                for metric, name in percentiles
            ),
            Comparison("headrace", "kafka", ACK_P50, at_least=False),
            Comparison("headrace", "kafka", ACK_P99, at_least=False),
            Comparison("headrace", "kafka", CPU_PER_GB, at_least=False),
        ),
        in_quick=in_quick,
    )


def _large(size: int, count: int, title: str) -> Group:
    spec = {"size": size, "count": count}
    return Group(
        f"w3-{title.replace(' ', '').lower()}",
        f"large records, {title}, acks=all (one replica: the same as acks=1)",
        (
            Cell("produce", KAFKA, "produce", {**spec, "face": "produce", "acks": "all"}),
            Cell("send", HEADRACE, "produce", {**spec, "face": "send", "acks": "all"}),
        ),
        (Comparison("send", "produce", MB), Comparison("send", "produce", CPU_PER_GB, at_least=False)),
    )


def _small(producers: int, *, in_quick: bool = True) -> Group:
    spec = {"size": 100, "seconds": 2.0, "linger_ms": 0, "producers": producers}
    return Group(
        f"w4-{producers}",
        f"small batches: linger 0, at most 5 records under way, {producers} producer processes",
        _both("window", spec),
        (
            Comparison("headrace", "kafka", RATE),
            Comparison("headrace", "kafka", ACK_P50, at_least=False),
            Comparison("headrace", "kafka", ACK_P99, at_least=False),
        ),
        in_quick=in_quick,
    )


def _compressed(name: str, count: int, *, in_quick: bool = True) -> Group:
    spec = {"size": 1000, "count": count, "compression": name, "json": True}
    return Group(
        f"w5-{name}",
        f"compression {name}, rows of JSON of 1 KB",
        (
            Cell("produce", KAFKA, "produce", {**spec, "face": "produce"}),
            Cell("send", HEADRACE, "produce", {**spec, "face": "send"}),
        ),
        (Comparison("send", "produce", MB), Comparison("send", "produce", CPU_PER_GB, at_least=False)),
        in_quick=in_quick,
    )


def _tail(readers: int, *, in_quick: bool = True) -> Group:
    spec = {"size": 1000, "share": 0.25, "seconds": 3.0, "warm_s": 1.0, "linger_ms": 5}
    return Group(
        f"w8-{readers}",
        f"tail consumers without groups: {readers} readers of all partitions behind one producer at 25 %",
        _both("openloop", {**spec, "partition_count": PARTITIONS, "readers": readers}),
        (Comparison("headrace", "kafka", "fan_out_mb_per_s"),
         Comparison("headrace", "kafka", E2E_P99, at_least=False),
         Comparison("headrace", "kafka", CPU_PER_GB, at_least=False)),
        in_quick=in_quick,
    )  # fmt: skip


# Compaction of a hundred megabytes over and over, and four megabytes a second of which two stay.
_UPKEEP = {"keys": 100_000, "size": 1000, "filling": 400, "rate": 500}
# Retention looks every second; the cleaner again soon, should a cleaning have found nothing due.
_LOOKING_OFTEN = (("log.retention.check.interval.ms", "1000"), ("log.cleaner.backoff.ms", "100"))


def _beside(
    identity: str,
    title: str,
    what: str,
    rate: dict[str, Any],
    beside: dict[str, Any],
    *,
    is_goal: bool = False,
    **more: Any,
) -> Group:
    """A live producer, quiet and then with `what` at work `beside` it, which reads what is loaded cold."""
    spec = {"size": 1000, "seconds": 6.0, "warm_s": 1.0, "linger_ms": 5, "partition_count": PARTITIONS,
            **rate}  # fmt: skip
    quiet = _both("openloop", spec, "quiet")
    busy = _both("openloop", {**spec, "cold": True, **beside}, f"with {what}")
    ours, theirs = (f"{name} with {what}" for name in (HEADRACE, KAFKA))
    figures = ("cold_mb_per_s", *((CLEANED_MB,) if beside else ()))
    return Group(
        identity,
        f"live produce at {title}",
        (*quiet, *busy),
        (
            Comparison(ours, f"{HEADRACE} quiet", ACK_P99, 2.0, at_least=False, title=f"ack p99 at {title}",
                       is_beside=not is_goal),
            Comparison(theirs, f"{KAFKA} quiet", ACK_P99, at_least=False),
            Comparison(ours, theirs, ACK_P99, at_least=False),
            *(Comparison(ours, theirs, figure) for figure in figures),
        ),
        # that of w9-1k, so that it need not be made again
        preload={"size": 1000, "count": 1_200_000, "more": 1_800_000},
        **more,
    )  # fmt: skip


def _cold(identity: str, title: str, rate: dict[str, Any], *, is_goal: bool = False) -> Group:
    return _beside(
        identity,
        f"{title} while a reader catches up from the disk",
        "a cold reader",
        rate,
        {},
        is_goal=is_goal,
        pairs=None if is_goal else (3, 1),
    )


def _upkeep() -> Group:
    return _beside(
        "w10-upkeep",
        "10,000 records/s of 1 KB while the cleaner, retention and a cold reader work",
        "upkeep",
        {"rate": 10_000},
        {"upkeep": _UPKEEP},
        is_goal=True,
        pairs=(3, 1),
        in_quick=False,  # servers of its own, and so a warm-up of its own
        settings=_LOOKING_OFTEN,
    )


def _many(partitions: int, *, in_quick: bool = True) -> Group:
    spec = {"size": 100, "rate": 50_000, "seconds": 3.0, "warm_s": 1.0, "linger_ms": 5}
    return Group(
        f"w11-{partitions}",
        f"{partitions} partitions at 50,000 records/s of 100 B",
        _both("openloop", {**spec, "partition_count": partitions}),
        (Comparison("headrace", "kafka", ACK_P99, at_least=False),
         Comparison("headrace", "kafka", "rss_mb", at_least=False),
         Comparison("headrace", "kafka", "fds", at_least=False),
         Comparison("headrace", "kafka", CPU_PER_GB, at_least=False)),
        in_quick=in_quick,
    )  # fmt: skip


def _bare() -> tuple[Group, ...]:
    def bare(name: str, mode: str, size: int, count: int, batches: int = 1) -> Cell:
        spec = {"mode": mode, "size": size, "count": count, "batches": batches, "window": 32 // batches}
        return Cell(name, BARE, "bare", spec)

    def raw(name: str, count: int, batches: int) -> Cell:
        spec = {"size": 65_536, "count": count, "batches": batches, "window": 32 // batches}
        return Cell(name, HEADRACE, "raw", spec)

    many = Cell("send_many", HEADRACE, "produce", {"face": "send_many", "size": 1000, "count": 1_000_000})
    arrow = Cell("send_arrow", HEADRACE, "produce", {"face": "send_arrow", "size": 1000, "count": 1_000_000})
    what = "64-KB batches: MB/s"
    of_six = " x6"
    return (
        Group(
            "bare-64k",
            "bare ceilings at 64 KB, and headrace under them",
            (bare(RECEIVE_AND_WRITE, "write", 65_536, 24_000), bare("receive", "drop", 65_536, 24_000),
             raw("raw produce", 24_000, 1), many, arrow),
            (Comparison("raw produce", RECEIVE_AND_WRITE, MB, 0.6, title=f"produce requests, {what}"),
             *(Comparison(face, RECEIVE_AND_WRITE, MB, 0.6, title=f"`{face}`, {what}", is_beside=True)
               for face in ("send_many", "send_arrow")),
             Comparison("raw produce", RECEIVE_AND_WRITE, CPU_PER_GB, at_least=False)),
        ),
        Group(
            "bare-6x64k",
            "messages of six 64-KB batches, as a producer of six busy partitions sends them",
            (bare(RECEIVE_AND_WRITE + of_six, "write", 65_536, 4_000, 6),
             raw("raw produce" + of_six, 4_000, 6)),
            (Comparison("raw produce" + of_six, RECEIVE_AND_WRITE + of_six, MB, 0.6,
                        title=f"produce requests of six batches, {what}", is_beside=True),
             Comparison("raw produce" + of_six, RECEIVE_AND_WRITE + of_six, CPU_PER_GB, at_least=False)),
        ),
        Group(
            "bare-1m",
            "bare ceilings at 1 MB, the page cache and the checksum",
            (bare("receive and write", "write", 1 << 20, 1_000), bare("receive", "drop", 1 << 20, 1_900),
             Cell("page cache", BARE, "local", {"loop": "pagecache"}),
             Cell("CRC-32C", BARE, "local", {"loop": "crc", "count": 100_000})),
            in_quick=False,
        ),
    )  # fmt: skip


def _unpinned() -> Group:
    def cell(name: str, system: str) -> Cell:
        return Cell(name, system, "produce", {"face": name, "size": 1000, "count": 1_000_000})

    return Group(
        "w2-unpinned",
        "produce as fast as it goes, 1 KB, nothing pinned to cores",
        (cell("produce", KAFKA), cell("send", HEADRACE), cell("send_many", HEADRACE)),
        (Comparison("send", "produce", RATE), Comparison("send_many", "produce", RATE)),
        is_pinned=False,
    )


GROUPS: tuple[Group, ...] = (
    _producing(100, 3_000_000, 12_000_000, workload="w1", title="100 B"),
    _producing(1000, 1_000_000, 1_800_000, workload="w2", title="1 KB"),
    _large_batches(),
    _unpinned(),
    _large(10_000, 100_000, "10 KB"),
    _large(100_000, 10_000, "100 KB"),
    _small(1),
    _small(8, in_quick=False),
    _small(32, in_quick=False),
    _compressed("lz4", 600_000),
    _compressed("zstd", 600_000, in_quick=False),
    _compressed("snappy", 600_000, in_quick=False),
    _compressed("gzip", 100_000, in_quick=False),
    _reading(100, 4_000_000, 15_000_000, workload="w9-100", title="100 B"),
    _reading(1000, 1_200_000, 1_800_000, workload="w9-1k", title="1 KB", has_defaults=True),
    # three client processes share the cores: at a high rate they wait for each other, not for the server
    _cold("w10", "10,000 records/s of 1 KB", {"rate": 10_000}, is_goal=True),
    _cold("w10-25", "25 % of the slower system's most", {"share": 0.25}),
    _upkeep(),
    _reading_together(3),
    _open_loop("w6-10k", "10,000 records/s of 1 KB, linger 5 ms",
               {"rate": 10_000, "seconds": 5.0, "warm_s": 1.0}, is_goal=True),
    _open_loop("w6-10k-linger0", "10,000 records/s of 1 KB, linger 0",
               {"rate": 10_000, "seconds": 5.0, "warm_s": 1.0, "linger_ms": 0}, is_goal=True),
    _open_loop("w6-25", "25 % of the slower system's most", {"share": 0.25, "seconds": 5.0, "warm_s": 1.0},
               in_quick=False),
    _open_loop("w6-50", "50 % of the slower system's most", {"share": 0.5, "seconds": 5.0, "warm_s": 1.0}),
    _open_loop("w6-75", "75 % of the slower system's most", {"share": 0.75, "seconds": 5.0, "warm_s": 1.0},
               in_quick=False),
    Group("w7", "ping: one record of 100 B under way, linger 0",
          _both("ping", {"size": 100, "count": 5_000, "warm": 500, "linger_ms": 0, "partition_count": 1}),
          (Comparison("headrace", "kafka", E2E_P50, at_least=False),
           Comparison("headrace", "kafka", E2E_P99, at_least=False))),
    _tail(1),
    _tail(3, in_quick=False),
    _tail(10, in_quick=False),
    _many(1),
    _many(100, in_quick=False),
    _many(1000, in_quick=False),
    *_bare(),
    *KAFKA_CLIENTS,
    *COORDINATED,
    *CLEANER,
    *REPLICATED,
    *KAFKA_CLIENTS_OF_THREE,
)  # fmt: skip

# What is measured without cells, for headrace alone.
APART = ("startup", "partitions")
LATER = {
    "W14, W16, W17": "share groups, start-up with large logs and streams wait for those features",
}


def chosen(only: set[str], *, is_quick: bool) -> list[Group]:
    """The groups of a run: those whose id or workload is in `only`, or all of this mode. Errors: KeyError."""
    if not only:
        found = [group for group in GROUPS if group.in_quick or not is_quick]
        return sorted(found, key=lambda group: not group.has_goal)  # else as they stand
    found = [group for group in GROUPS if {group.id, group.workload.lower()} & only]
    unknown = only - {group.id for group in found} - {group.workload.lower() for group in found}
    if unknown - set(APART):
        known = ", ".join((*(group.id for group in GROUPS), *APART))
        raise KeyError(f"no group {', '.join(sorted(unknown))}; there are {known}, and w1 ... w11, r3")
    return found


def parts(only: set[str], *, is_quick: bool) -> set[str]:
    """What of APART runs: what is asked for, or all; QUICK has no time for partitions."""
    return set(APART) & only if only else set(APART) - ({"partitions"} if is_quick else set())


def scaled(spec: dict[str, Any], *, is_quick: bool) -> dict[str, Any]:
    """A cell's spec as this mode runs it. What readers find is as much in both: less is over at once."""
    if not is_quick:
        return dict(spec)
    scaled_down = {
        name: type(spec[name])(spec[name] * QUICK_SHARE) for name in ("count", "seconds") if name in spec
    }
    return {**spec, **scaled_down}
