"""Rebalances: the time until the last member has its assignment, and members that fail."""

from __future__ import annotations

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
    """One process with members 0 and 1; each change takes 10 ms, or never ends."""

    def __init__(self, assignments: dict[str, dict[int, list[int]]], failure: str = "") -> None:
        super().__init__()
        self.lines = {"members": ["ready"]}
        self.assignments, self.failure = assignments, failure

    def next_line(self, processes: Any, timeout_s: float) -> tuple[int, str] | None:
        (process,) = processes
        for command in process.sent:
            self.answer(process, command)
        process.sent.clear()
        return super().next_line(processes, timeout_s)

    def answer(self, process: FakeProcess, command: str) -> None:
        at_ns = self.clock_ns + 10 * MS
        for member, partitions in self.assignments.get(command, {}).items():
            line = {"member": member, "at_ns": at_ns, "partitions": partitions}
            process.lines.append(json.dumps(line))
        if command.startswith("leave"):
            for member in command.split()[1:]:
                process.lines.append(json.dumps({"member": int(member), "has_left": True}))
        if command == "end":
            failures = [self.failure] if self.failure else []
            process.lines.append(json.dumps({"failures": failures, "seconds": 2.0, "server_cpu_s": 1.0}))


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
