"""Fail-over: the order of its steps, the outage, and acknowledged records that are lost."""

import json
from typing import Any

import pytest
from bench_harness import FakeHarness, costs
from headrace.benchmarks.cells.failover import FailoverCell
from headrace.benchmarks.harness import ChildError, LostDataError

SPEC = {"partition_count": 2, "warm_s": 2.0, "size": 100, "rate": 10, "after_s": 1.0}
MS = 1_000_000
# of partition 0, which the killed node led: 300 ms around the kill at 2 s; and of partition 1
GAPS = [[[1900 * MS, 300.0]], [[0, 5000.0]]]


def harness(*lines: str, **more: Any) -> FakeHarness:
    report = {**costs(records=30, bytes=3000, acked=30, lost=0, doubled=1, gaps=GAPS), **more}
    found = FakeHarness(nodes=3)
    found.lines["failover"] = [*(lines or ("ready", "ready")), json.dumps(report)]
    return found


def run(fake: FakeHarness) -> dict[str, Any]:
    return FailoverCell("headrace", "headrace", SPEC).run(fake)


def test_failover_cell_reports_the_outage_of_the_killed_leader() -> None:
    """Other partitions do not count; nor does the CPU time of a killed process."""
    fake = harness()
    figures = run(fake)
    assert (figures["gap_ms"], figures["led"], figures["doubled"]) == (300.0, 1, 1)
    assert "server_cpu_s" not in figures
    assert fake.system("headrace").calls == ["kill 1", "restart 1", "in sync"]
    (client,) = fake.processes
    assert client.sent == ["go", "go"]
    assert fake.clock_ns == 2_000 * MS


def test_lost_acknowledged_record_fails_the_cell() -> None:
    """However short the outage was."""
    with pytest.raises(LostDataError, match="lost 2 of 30 acknowledged"):
        run(harness(lost=2))


def test_partition_without_acknowledgements_after_the_kill_fails_the_cell() -> None:
    """Its outage has no end."""
    with pytest.raises(ChildError, match="never acknowledged again"):
        run(harness(gaps=[[[0, 100.0]], [[0, 5000.0]]]))


def test_killed_node_is_restarted_when_the_client_fails() -> None:
    """The next cell needs it."""
    fake = harness("ready", "no broker")
    with pytest.raises(ChildError, match="no broker"):
        run(fake)
    assert fake.system("headrace").calls == ["kill 1", "restart 1"]
    assert fake.topics == []
