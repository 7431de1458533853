"""Sessions with real servers and client processes, headrace only: what cells count, and lost records."""

import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO

import pytest
from forking import Forked, start_server
from headrace.benchmarks.cells.cleaner import CleanCell
from headrace.benchmarks.cells.connections import ConnectionMemoryCell
from headrace.benchmarks.cells.latency import OpenLoopCell, PingCell
from headrace.benchmarks.cells.preload import ProducePreload
from headrace.benchmarks.cells.throughput import ConsumeCell, ProduceCell, RawCell, WindowCell
from headrace.benchmarks.constants import (
    CLEANED_MB,
    COLD_MB,
    CONNECTION_KB,
    CONNECTIONS,
    DELETED_SEGMENTS,
    DISK_MB,
    HEADRACE,
    PARTITIONS,
)
from headrace.benchmarks.group import Group
from headrace.benchmarks.harness import LostDataError
from headrace.benchmarks.session_io import Session
from headrace.benchmarks.worker import LOOPS

OF_WORKERS = sorted({f"headrace.benchmarks.loops.{name}" for name in LOOPS.values()})
COUNT, WARM = 20_000, 2_000  # WARM: records that a producer sends before its clock starts


def producing(api: str) -> ProduceCell:
    return ProduceCell(api, HEADRACE, {"api": api, "size": 100, "count": COUNT})


def consuming(api: str) -> ConsumeCell:
    return ConsumeCell(api, HEADRACE, {"api": api, "size": 100})


OPEN_LOOP = {"size": 100, "rate": 500, "seconds": 0.4, "warm_s": 0.1, "linger_ms": 0, "partition_count": 2}
PING = {"size": 100, "count": 20, "warm": 2, "linger_ms": 0, "partition_count": 1}
WINDOW = {"size": 100, "seconds": 1.0, "linger_ms": 0, "producers": 2}
PRODUCE = Group("p", "p", tuple(map(producing, ("send", "send_many", "send_arrow"))))
CONSUME = Group(
    "c",
    "c",
    tuple(map(consuming, ("poll", "iterate", "arrow_batches"))),
    preload=ProducePreload(100, 0, COUNT),
)
PINGS = Group("o", "o", (PingCell("ping", HEADRACE, PING),))
OTHERS = Group(
    "o",
    "o",
    (
        OpenLoopCell("open loop", HEADRACE, OPEN_LOOP),
        PingCell("ping", HEADRACE, PING),
        WindowCell("window", HEADRACE, WINDOW),
        RawCell("raw", HEADRACE, {"size": 8_192, "count": 50, "batches": 2, "window": 4}),
    ),
)


CLEAN = {"size": 100, "count": COUNT, "compression": "none", "records_per_key": 4}
CLEANERS = tuple(CleanCell(loop, HEADRACE, {**CLEAN, "loop": loop}) for loop in ("clean", "codec"))
CLEANER = Group("k", "k", CLEANERS, nodes=0)
UPKEEP = {"keys": 2_000, "size": 1000, "filling": 400, "rate": 1_000}
BUSY = {**OPEN_LOOP, "seconds": 4.0, "cold": True, "upkeep": UPKEEP}
COLD = ProducePreload(1000, 0, 10_000)  # more than the tail cache of its node holds
OWN = (
    ("log.retention.check.interval.ms", "100"),
    ("log.cleaner.backoff.ms", "1"),
    ("log.tail.cache.bytes", "1048576"),
)


def at_upkeep(**more: object) -> Group:
    """On a node of its own."""
    cell = OpenLoopCell("busy", HEADRACE, {**BUSY, "upkeep": {**UPKEEP, **more}})
    return Group("u", "u", (cell,), preload=COLD, settings=OWN)


def spawn_fork(command: list[str], errors: IO[bytes], environment: Mapping[str, str]) -> Forked:
    """A worker or server, whose modules are imported already."""
    interpreter, *program = command
    assert interpreter == sys.executable
    start_server("headrace.benchmarks.servers.server_process", *OF_WORKERS)
    return Forked(program, log=errors, environment=environment, given=subprocess.PIPE)


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """headrace's two server processes, without Kafka."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HEADRACE_CACHE", str(tmp_path_factory.mktemp("cache")))
        before = signal.getsignal(signal.SIGTERM)
        with Session(is_quick=False, say=lambda _: None, spawn=spawn_fork) as running:
            running.prepare([PRODUCE], warm=False)
            yield running
        assert signal.getsignal(signal.SIGTERM) is before
        assert not running.scratch.exists()


def test_produce_cells_send_and_verify_all_records(session: Session) -> None:
    """By every API."""
    session.runs.clear()
    session.run_group(PRODUCE, 1)
    assert [run["cell"] for run in session.runs if run["is_used"]] == [cell.name for cell in PRODUCE.cells]
    for run in session.runs:
        assert run["records"] == COUNT
        assert run["bytes"] == COUNT * 100
        assert run["records_per_s"] > 0
        assert run["failed"] == 0


def test_consume_cells_count_all_but_the_first_record(session: Session) -> None:
    """Every API reads the whole topic, in both orders of a pair; the first record starts the clock."""
    session.runs.clear()
    session.run_group(CONSUME, 2)
    assert len([run for run in session.runs if run["is_used"]]) == 2 * len(CONSUME.cells)
    for run in session.runs:
        assert (run["first"], run["read"]) == (1, COUNT + WARM)
        assert run["bytes"] == (COUNT + WARM - 1) * 100


def test_latency_cells_time_their_records(session: Session) -> None:
    """The open loop its timed part, the ping each record, the window acknowledged ones."""
    session.runs.clear()
    session.run_group(OTHERS, 1)
    runs = {run["cell"]: run for run in session.runs if run["is_used"]}
    assert runs["open loop"]["timed"] == 200
    assert runs["open loop"]["e2e_p99_ms"] >= runs["open loop"]["e2e_p50_ms"] > 0
    assert runs["ping"]["records"] == 20
    assert runs["ping"]["e2e_p50_ms"] >= runs["ping"]["ack_p50_ms"] > 0
    assert runs["window"]["records"] > 0
    assert runs["raw"]["requests"] == 50


def test_no_more_pairs_after_the_time_limit(session: Session) -> None:
    """One always runs."""
    session.runs.clear()
    ping = Group("o", "o", (PingCell("ping", HEADRACE, PING),))
    session.run_group(ping, 3, is_over=lambda: True)
    assert len({run["pair"] for run in session.runs}) == 1


def test_lost_or_changed_record_fails_the_run(session: Session) -> None:
    """The readers find one record less than expected, or other bytes."""
    system = session.harness.system(HEADRACE)
    order = {"loop": "produce", "api": "send_many", "size": 100, "count": COUNT}
    with session.harness.topic(HEADRACE, PARTITIONS) as topic:
        (report,) = session.harness.run_clients([order], system, topic)
        for name in ("count", "checksum"):
            expected = {**report["expected"], name: report["expected"][name] + 1}
            with pytest.raises(LostDataError, match="sent"):
                session.harness.verify(system, topic, expected)


def test_preload_lasts_until_a_group_has_another_one(session: Session) -> None:
    """Then its topic is deleted."""
    session.run_group(CONSUME, 1)
    folder = session.harness.node_dir(HEADRACE)

    def topics() -> set[str]:
        return {path.name.rpartition("-")[0] for path in folder.glob("bench*-*")}

    loaded = topics()
    session.run_group(CONSUME, 1)
    assert topics() == loaded
    session.run_group(PINGS, 1)
    assert not loaded & topics()


def test_upkeep_cleans_deletes_and_reads_the_disk(session: Session) -> None:
    """On servers of its own, which stop before the next group; each has its own preload."""
    session.runs.clear()
    session.run_group(PINGS, 1)
    session.run_group(at_upkeep(), 1)
    (own,) = session.pool.systems.values()
    session.run_group(PINGS, 1)
    (lasting,) = session.pool.systems.values()
    assert own is not lasting
    (busy,) = (run for run in session.runs if run["group"] == "u" and run["is_used"])
    assert busy["timed"] == 2_000
    assert min(busy[name] for name in (CLEANED_MB, DELETED_SEGMENTS, DISK_MB, COLD_MB)) > 0
    assert not any(Path(f"/proc/{pid}").exists() for pid in own.cpu_pids)


BUSY_BESIDE = {"idle": {"loop": "idle", "count": 20}, "churn": {"loop": "churn", "count": 5}}
KAFKA_CLIENTS = Group(
    "w",
    "w",
    tuple(
        OpenLoopCell(
            name,
            HEADRACE,
            {
                **OPEN_LOOP,
                "rate": 100,
                "seconds": 2.0,
                "client": "kafka",
                "acks": "all",
                "connections": beside,
            },
        )
        for name, beside in BUSY_BESIDE.items()
    ),
)


def test_connections_of_kafka_clients_with_a_producer(session: Session) -> None:
    """Idle and short ones, through headrace's listener; what the short ones produced is stored."""
    session.runs.clear()
    session.run_group(KAFKA_CLIENTS, 1)
    runs = {run["cell"]: run for run in session.runs if run["is_used"]}
    assert {run["timed"] for run in runs.values()} == {200}
    assert runs["churn"][CONNECTIONS] > 0
    assert runs["churn"]["visit_p99_ms"] > 0
    assert CONNECTIONS not in runs["idle"]


def test_memory_of_an_idle_connection_is_measured_on_a_fresh_node(session: Session) -> None:
    """Whose files are deleted."""
    session.runs.clear()
    session.run_group(
        Group("m", "m", (ConnectionMemoryCell("m", HEADRACE, {"connections": 50}),), nodes=0), 1
    )
    (run,) = (run for run in session.runs if run["is_used"])
    assert "rss_mb" not in run
    assert CONNECTION_KB in run
    assert not list(session.scratch.glob("extra-*"))


def test_log_is_cleaned_without_servers(session: Session) -> None:
    """One record of each key remains."""
    session.runs.clear()
    session.run_group(CLEANER, 1)
    assert {run["cell"] for run in session.runs} == {"clean", "codec"}
    for run in session.runs:
        assert 0.2 < run["kept_bytes"] / run["bytes"] < 0.3
        assert run["mb_per_s"] > 0
        assert "rss_mb" not in run
