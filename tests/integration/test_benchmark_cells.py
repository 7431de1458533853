"""The harness itself, on headrace alone: its cells run, count what they should, and tell lost data."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from headrace.benchmarks import connections_io, upkeep_io
from headrace.benchmarks.cells import HEADRACE, Cell, Group
from headrace.benchmarks.children_io import ChildError
from headrace.benchmarks.group import CLEANED_MB, CONNECTION_KB, CONNECTIONS, DELETED_SEGMENTS
from headrace.benchmarks.session_io import LostDataError, Session

if TYPE_CHECKING:
    from collections.abc import Iterator

COUNT, WARM = 20_000, 2_000  # WARM: what a producer sends before its clock starts


def producing(face: str) -> Cell:
    return Cell(face, HEADRACE, "produce", {"face": face, "size": 100, "count": COUNT})


def reading(face: str) -> Cell:
    return Cell(face, HEADRACE, "consume", {"face": face, "size": 100})


OPEN_LOOP = {"size": 100, "rate": 500, "seconds": 0.4, "warm_s": 0.1, "linger_ms": 0, "partition_count": 2}
PING = {"size": 100, "count": 20, "warm": 2, "linger_ms": 0, "partition_count": 1}
WINDOW = {"size": 100, "seconds": 1.0, "linger_ms": 0, "producers": 2}
PRODUCE = Group("p", "p", tuple(map(producing, ("send", "send_many", "send_arrow"))))
CONSUME = Group(
    "c",
    "c",
    tuple(map(reading, ("poll", "iterate", "arrow_batches"))),
    preload={"size": 100, "count": 0, "more": COUNT},
)
OTHERS = Group(
    "o",
    "o",
    (
        Cell("open loop", HEADRACE, "openloop", OPEN_LOOP),
        Cell("ping", HEADRACE, "ping", PING),
        Cell("window", HEADRACE, "window", WINDOW),
        Cell("raw", HEADRACE, "raw", {"size": 8_192, "count": 50, "batches": 2, "window": 4}),
    ),
)


CLEAN = {"size": 100, "count": COUNT, "compression": "none", "records_per_key": 4}
CLEANERS = tuple(Cell(loop, HEADRACE, "clean", {**CLEAN, "loop": loop}) for loop in ("clean", "codec"))
CLEANER = Group("k", "k", CLEANERS, nodes=0)
UPKEEP = {"keys": 2_000, "size": 1000, "filling": 400, "rate": 1_000}
BUSY = {**OPEN_LOOP, "seconds": 8.0, "cold": True, "upkeep": UPKEEP}
COLD = {"size": 1000, "count": 0, "more": 100_000}  # more than a node has of it in memory
OWN = (("log.retention.check.interval.ms", "100"), ("log.cleaner.backoff.ms", "1"))


def at_upkeep(**more: object) -> Group:
    """A node of its own."""
    cell = Cell("busy", HEADRACE, "openloop", {**BUSY, "upkeep": {**UPKEEP, **more}})
    return Group("u", "u", (cell,), preload=COLD, settings=OWN)


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """headrace's two server processes, no Kafka."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HEADRACE_CACHE", str(tmp_path_factory.mktemp("cache")))
        before = signal.getsignal(signal.SIGTERM)
        with Session(is_quick=False, say=lambda _: None) as running:
            running.prepare([PRODUCE], warm=False)
            yield running
        assert signal.getsignal(signal.SIGTERM) is before
        assert not running.scratch.exists()


def test_producing_sends_reads_back_and_times(session: Session) -> None:
    """Every face: as many records as asked for, in a time above zero."""
    session.runs.clear()
    session.run_group(PRODUCE, 1)
    assert [run["cell"] for run in session.runs if run["is_used"]] == [cell.name for cell in PRODUCE.cells]
    for run in session.runs:
        assert run["records"] == COUNT
        assert run["bytes"] == COUNT * 100
        assert run["records_per_s"] > 0
        assert run["failed"] == 0


def test_reading_counts_all_but_the_record_that_starts_the_clock(session: Session) -> None:
    """Every face reads the whole topic; its clock leaves out one record, in both orders of a pair."""
    session.runs.clear()
    session.run_group(CONSUME, 2)
    assert len([run for run in session.runs if run["is_used"]]) == 2 * len(CONSUME.cells)
    for run in session.runs:
        assert (run["first"], run["read"]) == (1, COUNT + WARM)
        assert run["bytes"] == (COUNT + WARM - 1) * 100


def test_latency_cells_time_what_they_say(session: Session) -> None:
    """The open loop its timed part, the ping each record, the window what was acknowledged."""
    session.runs.clear()
    session.run_group(OTHERS, 1)
    runs = {run["cell"]: run for run in session.runs if run["is_used"]}
    assert runs["open loop"]["timed"] == 200
    assert runs["open loop"]["e2e_p99_ms"] >= runs["open loop"]["e2e_p50_ms"] > 0
    assert runs["ping"]["records"] == 20
    assert runs["ping"]["e2e_p50_ms"] >= runs["ping"]["ack_p50_ms"] > 0
    assert runs["window"]["records"] > 0
    assert runs["raw"]["requests"] == 50


def test_no_more_pairs_when_the_time_is_over(session: Session) -> None:
    """But one is always run."""
    session.runs.clear()
    ping = Group("o", "o", (Cell("ping", HEADRACE, "ping", PING),))
    session.run_group(ping, 3, is_over=lambda: True)
    assert len({run["pair"] for run in session.runs}) == 1


def test_a_lost_record_fails_the_run(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    """One less than was sent, or other bytes."""
    work = session.work
    for name in ("count", "checksum"):

        def lying(*arguments: object, name: str = name, **more: object) -> list[dict[str, object]]:
            reports = work(*arguments, **more)  # type: ignore[arg-type]
            for report in reports:
                if "expected" in report:
                    report["expected"][name] += 1
            return reports

        monkeypatch.setattr(session, "work", lying)
        with pytest.raises(LostDataError, match="sent"):
            session.run_group(Group("p", "p", (producing("send_many"),)), 1)


def test_what_is_loaded_stays_for_the_next_group_that_reads_the_same(session: Session) -> None:
    """And goes before one that does not."""
    session.run_group(CONSUME, 1)
    folder = session.systems[HEADRACE].data_dir / "node"

    def topics() -> set[str]:
        return {path.name.rpartition("-")[0] for path in folder.glob("bench*-*")}

    loaded = topics()
    session.run_group(CONSUME, 1)
    assert topics() == loaded
    session.run_group(Group("o", "o", (Cell("ping", HEADRACE, "ping", PING),)), 1)
    assert not loaded & topics()


def test_a_node_at_its_upkeep_cleans_deletes_and_reads_its_disk(session: Session) -> None:
    """On servers of its own, gone before the next group; what was loaded on either is not mistaken."""
    session.runs.clear()
    session.run_group(CONSUME, 1)
    session.run_group(at_upkeep(), 1)
    (own,) = (system for system in session.systems.values())
    session.run_group(CONSUME, 1)
    (lasting,) = (system for system in session.systems.values())
    assert own is not lasting
    (busy,) = (run for run in session.runs if run["group"] == "u" and run["is_used"])
    assert busy["timed"] == 4_000
    assert min(busy[name] for name in (CLEANED_MB, DELETED_SEGMENTS, "disk_mb_per_s", "cold_mb_per_s")) > 0
    assert not any(Path(f"/proc/{pid}").exists() for pid in own.cpu_pids)


BUSY_BESIDE = {"idle": {"loop": "idle", "count": 20}, "churn": {"loop": "churn", "count": 5}}
KAFKA_CLIENTS = Group(
    "w",
    "w",
    tuple(
        Cell(
            name,
            HEADRACE,
            "openloop",
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


def test_kafkas_clients_come_and_go_beside_a_producer(session: Session) -> None:
    """Through the listener for them; what the visitors produced is there."""
    session.runs.clear()
    session.run_group(KAFKA_CLIENTS, 1)
    runs = {run["cell"]: run for run in session.runs if run["is_used"]}
    assert {run["timed"] for run in runs.values()} == {200}
    assert runs["churn"][CONNECTIONS] > 0
    assert runs["churn"]["visit_p99_ms"] > 0
    assert CONNECTIONS not in runs["idle"]


def test_a_record_that_a_visitor_produced_and_nobody_has_fails_the_run(session: Session) -> None:
    """One more than there is."""
    system, topic = session.systems[HEADRACE], session.new_topic(HEADRACE, 1)
    with pytest.raises(LostDataError, match="visitors"):
        connections_io.figures(system, {"topic": topic}, {"produced": 1})
    system.delete_topic(topic)


def test_what_an_idle_connection_costs_is_told_by_a_node_of_its_own(session: Session) -> None:
    """The one of the session is not touched, and none is left."""
    session.runs.clear()
    session.run_group(Group("m", "m", (Cell("m", HEADRACE, "memory", {"connections": 50}),), nodes=0), 1)
    (run,) = (run for run in session.runs if run["is_used"])
    assert "rss_mb" not in run
    assert CONNECTION_KB in run
    assert not list(session.scratch.glob("memory-*"))


@pytest.mark.parametrize("idle", ["cleaned_bytes", "deleted_bytes", "disk_bytes", "bytes"])
def test_upkeep_that_did_not_happen_fails_the_run(idle: str) -> None:
    """Each of the three, and the disk that the cold reader is there for."""
    kept = {
        "cleaned_bytes": 1,
        "deleted_bytes": 1,
        "deleted_segments": 1,
        "disk_bytes": 1,
        "bytes": 1,
        idle: 0,
    }
    with pytest.raises(ChildError, match="nothing was"):
        upkeep_io.figures("busy", kept, 1.0, kept["bytes"])


def test_a_log_is_cleaned_with_no_server(session: Session) -> None:
    """One record of each key that was drawn stays; the time is that of both passes."""
    session.runs.clear()
    session.run_group(CLEANER, 1)
    assert {run["cell"] for run in session.runs} == {"clean", "codec"}
    for run in session.runs:
        assert 0.2 < run["kept_bytes"] / run["bytes"] < 0.3
        assert run["mb_per_s"] > 0
        assert "rss_mb" not in run
