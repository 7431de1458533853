"""Cells of groups and transactions: rebalances, commits, transactions. Each is checked, to the last one."""

from __future__ import annotations

import json
import queue
import statistics
import threading
import time
from typing import TYPE_CHECKING, Any, cast

from headrace.runtime.waiting_io import let_pass

from .children_io import ChildError, LostDataError
from .coordinated import COMMITS, JOIN, LEAVE, REJOIN, STORED, TRANSACTIONS
from .group import PARTITIONS
from .shares import Shares

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from .children_io import Child
    from .group import Cell
    from .session_io import Session
    from .systems_io import Headrace, Kafka, System

OFFSETS = "__consumer_offsets"
READY_TIMEOUT_S, CHANGE_TIMEOUT_S = 30.0, 60.0
MS = 1e6  # nanoseconds


def transact(session: Session, cell: Cell, spec: dict[str, Any]) -> dict[str, Any]:
    """The client's report with transactions a second. Errors: LostDataError."""
    system, topic = session.systems[cell.system], session.new_topic(cell.system, PARTITIONS)
    try:
        (made,) = session.work([transacting(spec, topic)], system, topic, profile=True)
        read_back(session, system, topic, made["expected"])
    finally:
        system.delete_topic(topic)
    return made | {TRANSACTIONS: made["transactions"] / made["seconds"]}


def transacting(spec: dict[str, Any], topic: str) -> dict[str, Any]:
    """The order for a client that sends transactions; it shares its id with none before."""
    return {**spec, "loop": "transact", "transactional_id": f"of-{topic}"}


def read_back(session: Session, system: System, topic: str, expected: dict[str, Any]) -> None:
    """All that was committed, and nothing else, is what readers of committed records find.

    Errors: LostDataError.
    """
    shares = [list(range(part, PARTITIONS, 2)) for part in range(2)]
    read = session.work([{"loop": "committed", "partitions": share} for share in shares], system, topic)
    found = {name: sum(report[name] for report in read) for name in ("count", "checksum")}
    if found != expected:
        raise LostDataError(f"{system.name}: committed {expected}, read {found}")


def commit(session: Session, cell: Cell, spec: dict[str, Any]) -> dict[str, Any]:
    """Commits a second, of all consumers. Errors: LostDataError when the coordinator wrote other ones."""
    system, topic = session.systems[cell.system], session.new_topic(cell.system, 1)
    orders = [{**spec, "loop": "commits", "group": f"of-{topic}-{number}"}
              for number in range(spec["consumers"])]  # fmt: skip
    before: list[int] = []
    try:
        reports = session.work(
            orders, system, topic, profile=True, when_ready=lambda: before.append(_written(system))
        )
        stored = _written(system) - before[0] - len(orders)  # that a group is empty now is a record, too
    finally:
        system.delete_topic(topic)
    for report in reports:
        if report["committed"] != report["expected"]:
            raise LostDataError(f"{cell.name}: {report['expected']} committed, {report['committed']} kept")
    number, seconds = sum(r["commits"] for r in reports), max(r["seconds"] for r in reports)
    # Those of one consumer under way together may become one; those that wait for each other may not.
    is_each = spec["window"] == 1
    if stored > number or (is_each and stored != number):
        raise LostDataError(f"{cell.name}: {number} commits, and {stored} records of them")
    found = {
        "seconds": seconds,
        "commits": number,
        "server_cpu_s": max(r["server_cpu_s"] for r in reports),
        "client_cpu_s": sum(r["client_cpu_s"] for r in reports),
        COMMITS: number / seconds,
        STORED: stored / seconds,
    }
    if is_each:
        found |= {f"ack_{name}_ms": max(r["ack"][name] for r in reports) for name in ("p50", "p99", "max")}
    return found


def _written(system: System) -> int:
    """How many records the coordinators have written about groups."""
    return cast("Headrace | Kafka", system).end_offset(OFFSETS)


def rebalance(session: Session, cell: Cell, spec: dict[str, Any]) -> dict[str, Any]:
    """Milliseconds until all members of a group have their final shares: when all join at once, when half of
    them leave, and when that half joins again; the mean of some rounds, which begin at as many moments
    between two heartbeats. Errors: ChildError when final shares are not reached."""
    system, topic = session.systems[cell.system], session.new_topic(cell.system, spec["partition_count"])
    everyone, processes = range(spec["members"]), spec["processes"]
    try:
        orders = [
            {**spec, "loop": "members", "group": f"of-{topic}", "numbers": list(everyone[part::processes])}
            for part in range(processes)
        ]
        with _Crowd(session, system, topic, orders) as crowd:
            half, rounds = everyone[::2], spec["rounds"]
            step_s = spec["heartbeat_ms"] / 1000 / rounds if rounds > 1 else 0.0
            taken: dict[str, list[float]] = {JOIN: [], LEAVE: [], REJOIN: []}
            for number in range(rounds):
                taken[JOIN].append(crowd.change("join", everyone, everyone))
                let_pass(step_s * number)
                taken[LEAVE].append(crowd.change("leave", half, everyone[1::2]))
                let_pass(step_s * number)
                taken[REJOIN].append(crowd.change("join", half, everyone))
                crowd.change("leave", everyone, ())
            found: dict[str, Any] = {name: statistics.mean(times) for name, times in taken.items()}
            found |= {f"{name}_all": times for name, times in taken.items()}
            reports = crowd.end()
    finally:
        system.delete_topic(topic)
    failures = [failure for report in reports for failure in report["failures"]]
    if failures:
        raise ChildError(f"{cell.name}: {failures[0]}")
    return found | {name: max(r[name] for r in reports) for name in ("seconds", "server_cpu_s")}


class _Crowd:
    """The processes with the members, and what they tell."""

    def __init__(self, session: Session, system: System, topic: str, orders: list[dict[str, Any]]) -> None:
        self._session = session
        common = {"system": system.name, "bootstrap": system.bootstrap, "topic": topic,
                  "server_pids": system.cpu_pids}  # fmt: skip
        self._quiet_s: float = orders[0]["quiet_s"]
        self._shares = Shares(orders[0]["partition_count"])
        self._numbers = [set(order["numbers"]) for order in orders]
        self._lines: queue.SimpleQueue[dict[str, Any] | ChildError] = queue.SimpleQueue()
        self._children: list[Child] = []
        for number, order in enumerate(orders):
            order = {**common, **order}
            if session.profile:
                order["profile"] = f"{session.profile}.members-{number}"
            cores = session.client_cores
            self._children.append(session.children.start("members", "worker", json.dumps(order), cores=cores))

    def __enter__(self) -> _Crowd:
        for child in self._children:
            if child.line(READY_TIMEOUT_S) != "ready":
                raise ChildError(f"{child.name} did not get ready")
        for child in self._children:
            child.tell("go")
            threading.Thread(target=self._listen, args=(child,), daemon=True).start()
        return self

    def __exit__(self, *error: object) -> None:
        for child in self._children:
            self._session.children.end(child)

    def change(self, command: str, numbers: Collection[int], members: Collection[int]) -> float:
        """Let these join or leave; ms until `members` have their shares, which then stay for `quiet_s`, or
        until nobody is left."""
        began_ns = time.monotonic_ns()
        for child, own in zip(self._children, self._numbers, strict=True):
            child.tell(" ".join([command, *map(str, sorted(own.intersection(numbers)))]))
        leaving = set(numbers) if command == "leave" else set()
        for told in self._until(began_ns / 1e9 + CHANGE_TIMEOUT_S, command):
            if told is not None and told.get("has_left"):
                leaving.discard(told["member"])
            if (told is None or not members) and not leaving and self._shares.is_final(members):
                return (self._shares.changed_ns(members) - began_ns) / MS
        raise AssertionError("unreachable: it ends by an error")

    def end(self) -> list[dict[str, Any]]:
        """What each process reports."""
        for child in self._children:
            child.tell("end")
        reports: list[dict[str, Any]] = []
        for told in self._until(time.monotonic() + CHANGE_TIMEOUT_S, "end"):
            if told is not None and "failures" in told:
                reports.append(told)
            if len(reports) == len(self._children):
                break
        return reports

    def _until(self, ends_at: float, command: str) -> Iterator[dict[str, Any] | None]:
        """What is told, None when nothing was for `quiet_s`. Errors: ChildError, also when time is over."""
        while time.monotonic() < ends_at:
            try:
                told = self._lines.get(timeout=self._quiet_s)
            except queue.Empty:
                yield None
                continue
            if isinstance(told, ChildError):
                raise told
            if "failure" in told:
                raise ChildError(f"member {told['member']}: {told['failure']}")
            if "partitions" in told:
                self._shares.told(told["member"], told["partitions"], told["at_ns"])
            yield told
        raise ChildError(f"not all members had their shares {CHANGE_TIMEOUT_S:.0f} s after `{command}`")

    def _listen(self, child: Child) -> None:
        try:
            while True:
                told = json.loads(child.line(CHANGE_TIMEOUT_S * 3))
                self._lines.put(told)
                if "failures" in told:
                    return
        except (ChildError, OSError, ValueError) as error:
            self._lines.put(ChildError(str(error)))
