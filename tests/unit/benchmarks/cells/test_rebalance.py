"""Rebalances: the time until the last member has its assignment, and members that fail."""

import contextlib
import json
from typing import Any

import pytest
from bench_harness import FakeHarness, FakeProcess
from headrace.benchmarks.cells.rebalance import RebalanceCell
from headrace.benchmarks.harness import ChildError

SPEC = {"members": 2, "processes": 1, "partition_count": 2, "protocol": "classic", "rounds": 1,
        "quiet_s": 0.5}  # fmt: skip
MS = 1_000_000


class Members(FakeHarness):
    """One process with members 0 and 1; each command changes assignments after 10 ms, if at all."""

    def __init__(self, assignments: dict[str, dict[int, list[int]]], failure: str = "") -> None:
        super().__init__()
        self.lines = {"members": ["ready"]}
        self.assignments, self.failure = assignments, failure

    def client(self, order: dict[str, Any]) -> Any:
        return contextlib.nullcontext(MemberProcess(self, order))


class MemberProcess(FakeProcess):
    """Prints the events of each command."""

    def __init__(self, harness: Members, order: dict[str, Any]) -> None:
        super().__init__(order, ["ready"])
        self.harness = harness

    def send(self, line: str) -> None:
        at_ns = self.harness.clock_ns + 10 * MS
        for member, partitions in self.harness.assignments.get(line, {}).items():
            self.print({"member": member, "at_ns": at_ns, "partitions": partitions})
        if line.startswith("leave"):
            for member in line.split()[1:]:
                self.print({"member": int(member), "has_left": True})
        if line == "end":
            failures = [self.harness.failure] if self.harness.failure else []
            self.print({"failures": failures, "seconds": 2.0, "server_cpu_s": 1.0})

    def print(self, event: dict[str, Any]) -> None:
        self.lines.append(json.dumps(event))


ASSIGNED = {
    "join 0 1": {0: [0], 1: [1]},
    "leave 0": {0: [], 1: [0, 1]},
    "join 0": {0: [0], 1: [1]},
    "leave 0 1": {0: [], 1: []},
}


def test_rebalance_cell_reports_the_time_of_each_change() -> None:
    """Until the last callback; the quiet time afterwards does not count."""
    figures = RebalanceCell("headrace classic", "headrace", SPEC).run(Members(ASSIGNED))
    assert [figures[name] for name in ("join_ms", "leave_ms", "rejoin_ms")] == [10.0, 10.0, 10.0]
    assert figures["join_ms_all"] == [10.0]
    assert figures["server_cpu_s"] == 1.0


def test_incomplete_assignment_fails_the_cell() -> None:
    """Partition 1 is assigned to no member, for a minute."""
    incomplete: dict[str, dict[int, list[int]]] = {**ASSIGNED, "join 0 1": {0: [0], 1: []}}
    with pytest.raises(ChildError, match="after `join`"):
        RebalanceCell("headrace classic", "headrace", SPEC).run(Members(incomplete))


def test_failed_member_fails_the_cell() -> None:
    """Also when all assignments were complete."""
    with pytest.raises(ChildError, match="poll failed"):
        RebalanceCell("headrace classic", "headrace", SPEC).run(Members(ASSIGNED, failure="poll failed"))
