"""Open loops and pings: their load, what runs in parallel, and records that do not arrive."""

from typing import Any

import pytest
from bench_harness import FakeHarness, costs, latencies
from headrace.benchmarks.cells.latency import OpenLoopCell, PingCell
from headrace.benchmarks.harness import ChildError, LostDataError, Preloaded

SPEC = {"size": 1000, "rate": 100, "seconds": 2.0, "warm_s": 1.0, "linger_ms": 5, "partition_count": 6}
FOLLOWED = costs(arrived=200, bytes=4_000_000, span_s=2.0, e2e=latencies(3.0))
SENT = costs(records=300, bytes=300_000, timed=200, ack=latencies(1.0))
DONE = {"cleaned_bytes": 2_000_000, "deleted_bytes": 1, "deleted_segments": 4, "disk_bytes": 6_000_000}
VISITED = costs(visits=40, all_visits=50, visit=latencies(7.0), timed_s=2.0, produced=25)


def harness(**answers: Any) -> FakeHarness:
    found = FakeHarness(follow=FOLLOWED, openloop=SENT, **answers)
    found.loaded["headrace"] = Preloaded("cold", 1000)
    return found


def run(fake: FakeHarness, **more: Any) -> dict[str, Any]:
    return OpenLoopCell("headrace", "headrace", {**SPEC, **more}).run(fake)


def test_open_loop_reports_latencies_fan_out_and_memory() -> None:
    """Readers follow from the end and know how many timed records to expect."""
    fake = harness()
    figures = run(fake)
    assert (figures["ack_p99_ms"], figures["e2e_p99_ms"], figures["curve"]) == (1.0, 3.0, [[50.0, 3.0]])
    assert (figures["fan_out_mb_per_s"], figures["rss_mb"], figures["rate"]) == (2.0, 2.0, 100)
    reader, producer = fake.orders
    assert (reader["loop"], reader["timed"], producer["loop"]) == ("follow", 200, "openloop")
    assert fake.topics == []


def test_several_readers_report_the_worst_latency_and_the_sum_of_bytes() -> None:
    """Over the longest span."""
    values = iter((3.0, 8.0))
    fake = harness()
    fake.answers["follow"] = lambda _: {**FOLLOWED, "e2e": latencies(next(values))}
    figures = run(fake, readers=2)
    assert (figures["e2e_p99_ms"], figures["fan_out_mb_per_s"]) == (8.0, 4.0)


def test_share_of_the_slower_system_is_the_rate() -> None:
    """A quarter of the rate that was measured before."""
    fake = harness()
    fake.rates.produced("kafka", 1, {"size": 1000, "api": "produce+callback"}, 400.0)
    spec = {name: value for name, value in SPEC.items() if name != "rate"}
    assert OpenLoopCell("h", "headrace", {**spec, "share": 0.25}).run(fake)["rate"] == 100


@pytest.mark.parametrize("arrived", [199, 201])
def test_records_that_do_not_arrive_fail_an_open_loop(arrived: int) -> None:
    """So do duplicates."""
    fake = harness()
    fake.answers["follow"] = {**FOLLOWED, "arrived": arrived}
    with pytest.raises(LostDataError, match=f"{arrived} of 200"):
        run(fake)
    assert fake.topics == []


def test_cold_reader_reads_the_preloaded_topic_from_the_disk() -> None:
    """Its pages are dropped first."""
    fake = harness(reread=costs(bytes=8_000_000))
    assert run(fake, cold=True)["cold_mb_per_s"] == 8.0
    assert fake.dropped == ["cold"]
    (order,) = (order for order in fake.orders if order["loop"] == "reread")
    assert (order["topic"], order["count"], order["api"], order["seconds"]) == ("cold", 1000, "poll", 3.0)


def test_upkeep_reports_cleaned_deleted_and_read_bytes() -> None:
    """Per second of the timed part."""
    fake = harness(reread=costs(bytes=1), upkeep=DONE)
    figures = run(fake, cold=True, upkeep={"keys": 5, "rate": 9})
    assert (figures["cleaned_mb_per_s"], figures["deleted_segments"], figures["disk_mb_per_s"]) == (1, 4, 3)
    (order,) = (order for order in fake.orders if order["loop"] == "upkeep")
    assert (order["keys"], order["rate"], order["folder"]) == (5, 9, "/data")
    assert order["compacted"] != order["retained"]


@pytest.mark.parametrize("figure", ["cleaned_bytes", "deleted_bytes", "disk_bytes", "bytes"])
def test_upkeep_that_was_not_done_fails_the_cell(figure: str) -> None:
    """Cleaning, deletion, reads from the disk, and the cold reader."""
    answers = {"reread": costs(bytes=1), "upkeep": DONE}
    loop = "reread" if figure == "bytes" else "upkeep"
    answers[loop] = {**answers[loop], figure: 0}
    with pytest.raises(ChildError, match="no bytes were"):
        run(harness(**answers), cold=True, upkeep={})


def test_connections_report_visits_and_their_cost() -> None:
    """Idle ones report nothing of their own."""
    fake = harness(churn=VISITED, idle=costs(alive=9))
    fake.system("headrace").ends.append(25)
    figures = run(fake, connections={"loop": "churn", "count": 5})
    assert (figures["connections_per_s"], figures["visit_p99_ms"]) == (20.0, 7.0)
    assert figures["cpu_ms_per_visit"] == 10.0
    assert "connections_per_s" not in run(fake, connections={"loop": "idle", "count": 9})
    assert {order["client"] for order in fake.orders if order["loop"] in ("churn", "idle")} == {"kafka"}


def test_missing_record_of_a_visitor_fails_the_cell() -> None:
    """The end offset of their topic shows it."""
    fake = harness(churn=VISITED)
    fake.system("headrace").ends.append(24)
    with pytest.raises(LostDataError, match="visitors produced 25 records, 24 are stored"):
        run(fake, connections={"loop": "churn", "count": 5})


def test_ping_reports_both_latencies() -> None:
    """And the curve for the picture."""
    fake = FakeHarness(ping=costs(records=10, ack=latencies(1.0), e2e=latencies(2.0)))
    figures = PingCell("p", "kafka", {"partition_count": 1}).run(fake)
    assert (figures["ack_p50_ms"], figures["e2e_p50_ms"], figures["curve"]) == (1.0, 2.0, [[50.0, 2.0]])
