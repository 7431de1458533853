"""The cell that measures rebalances: members join and leave until all have their assignment. Pure."""

from __future__ import annotations

import contextlib
import json
import statistics
from typing import TYPE_CHECKING, Any

from ..constants import JOIN, LEAVE, OF_SERVERS, REJOIN
from ..harness import ChildError
from .assignments import Assignments
from .cell import Cell

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from ..harness import Harness, Order, Process, Report

READY_TIMEOUT_S, CHANGE_TIMEOUT_S = 30.0, 60.0
NS_PER_MS, NS_PER_S = 1e6, 1e9


class RebalanceCell(Cell):
    """Milliseconds until all members of a group have their final assignment: when all `members` join, when
    half of them leave, and when that half joins again.

    The mean of `rounds`, which start at different moments between two heartbeats.
    """

    reports = OF_SERVERS | {JOIN, LEAVE, REJOIN}

    def run(self, harness: Harness) -> dict[str, Any]:
        system, spec = harness.system(self.system), self.spec
        everyone, processes, rounds = range(spec["members"]), spec["processes"], spec["rounds"]
        half, step_s = everyone[::2], spec["heartbeat_ms"] / 1000 / rounds if rounds > 1 else 0.0
        times: dict[str, list[float]] = {JOIN: [], LEAVE: [], REJOIN: []}
        with harness.profiled(system), harness.topic(self.system, spec["partition_count"]) as topic:
            common = {**spec, "loop": "members", "group": f"of-{topic}", "system": system.name,
                      "bootstrap": system.bootstrap, "topic": topic,
                      "server_pids": system.cpu_pids}  # fmt: skip
            orders = [{**common, "numbers": list(everyone[part::processes])} for part in range(processes)]
            with _group_members(harness, orders) as members:
                for number in range(rounds):
                    times[JOIN].append(members.change("join", everyone, everyone))
                    harness.sleep(step_s * number)
                    times[LEAVE].append(members.change("leave", half, everyone[1::2]))
                    harness.sleep(step_s * number)
                    times[REJOIN].append(members.change("join", half, everyone))
                    members.change("leave", everyone, ())
                reports = members.end()
        failures = [failure for report in reports for failure in report["failures"]]
        if failures:
            raise ChildError(f"{self.name}: {failures[0]}")
        return {
            **{name: statistics.mean(values) for name, values in times.items()},
            **{f"{name}_all": values for name, values in times.items()},
            **{name: max(report[name] for report in reports) for name in ("seconds", "server_cpu_s")},
        }


@contextlib.contextmanager
def _group_members(harness: Harness, orders: list[Order]) -> Iterator[_GroupMembers]:
    """The client processes of the members, connected and not yet in the group."""
    with contextlib.ExitStack() as stack:
        processes = [stack.enter_context(harness.client(order)) for order in orders]
        for process in processes:
            if process.line(READY_TIMEOUT_S) != "ready":
                raise ChildError(f"{process.name} did not get ready")
        for process in processes:
            process.send("go")
        yield _GroupMembers(harness, processes, orders)


class _GroupMembers:
    """Members of one group in several processes, and the assignments that they report."""

    def __init__(self, harness: Harness, processes: list[Process], orders: list[Order]) -> None:
        self._harness, self._processes = harness, processes
        self._numbers = [set(order["numbers"]) for order in orders]
        self._quiet_s: float = orders[0]["quiet_s"]
        self._assignments = Assignments(orders[0]["partition_count"])

    def change(self, command: str, numbers: Collection[int], members: Collection[int]) -> float:
        """`join` or `leave` of members `numbers`: ms until `members` have their final assignment.

        It is final when nothing changes for `quiet_s`; an empty group when the last member has left.
        Errors: ChildError.
        """
        start_ns = self._harness.now_ns()
        for process, own in zip(self._processes, self._numbers, strict=True):
            process.send(" ".join([command, *map(str, sorted(own.intersection(numbers)))]))
        leaving = set(numbers) if command == "leave" else set()
        for event in self._events(command):
            if event is not None and event.get("has_left"):
                leaving.discard(event["member"])
            is_settled = event is None or not members
            if is_settled and not leaving and self._assignments.is_complete(members):
                return (self._assignments.last_change_ns(members) - start_ns) / NS_PER_MS
        raise AssertionError("unreachable: _events ends with an error")

    def end(self) -> list[Report]:
        """End all processes; their reports. Errors: ChildError."""
        for process in self._processes:
            process.send("end")
        return [self._report(process) for process in self._processes]

    @staticmethod
    def _report(process: Process) -> Report:
        """The last line, after those of members that leave."""
        report: Report = {}
        while "failures" not in report:
            report = json.loads(process.line(CHANGE_TIMEOUT_S))
        return report

    def _events(self, command: str) -> Iterator[dict[str, Any] | None]:
        """What the members print; None after `quiet_s` of silence. Errors: ChildError, also on timeout."""
        deadline_ns = self._harness.now_ns() + CHANGE_TIMEOUT_S * NS_PER_S
        while self._harness.now_ns() < deadline_ns:
            found = self._harness.next_line(self._processes, self._quiet_s)
            event = None if found is None else json.loads(found[1])
            if event is not None and "failure" in event:
                raise ChildError(f"member {event['member']}: {event['failure']}")
            if event is not None and "partitions" in event:
                self._assignments.changed(event["member"], event["partitions"], event["at_ns"])
            yield event
        raise ChildError(f"not all members had an assignment {CHANGE_TIMEOUT_S:.0f} s after `{command}`")
