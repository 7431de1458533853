"""Cells of the transaction coordinator and of offset commits. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..constants import COMMITS, OF_ACKS, OF_RATES, OF_SERVERS, PARTITIONS, STORED, TRANSACTIONS
from ..harness import LostDataError
from .cell import Cell
from .figures import with_rates

if TYPE_CHECKING:
    from ..harness import Harness, System

OFFSETS_TOPIC = "__consumer_offsets"


class TransactCell(Cell):
    """Consecutive transactions of one producer; what they committed is read back and compared."""

    reports = OF_SERVERS | OF_RATES | OF_ACKS | {TRANSACTIONS}

    def run(self, harness: Harness) -> dict[str, Any]:
        system = harness.system(self.system)
        with harness.profiled(system), harness.topic(self.system, PARTITIONS) as topic:
            (report,) = harness.run_clients([transact_order(self.spec, topic)], system, topic, profile=True)
            verify_committed(harness, system, topic, report["expected"])
        return with_rates(report | {TRANSACTIONS: report["transactions"] / report["seconds"]})


def transact_order(spec: dict[str, Any], topic: str) -> dict[str, Any]:
    """The order of a client that sends transactions under a transactional id of its own."""
    return {**spec, "loop": "transact", "transactional_id": f"of-{topic}"}


def verify_committed(harness: Harness, system: System, topic: str, expected: dict[str, Any]) -> None:
    """A read_committed reader finds the committed records and no others. Errors: LostDataError."""
    orders = [{"loop": "committed", "partitions": list(range(part, PARTITIONS, 2))} for part in range(2)]
    reports = harness.run_clients(orders, system, topic)
    found = {name: sum(report[name] for report in reports) for name in ("count", "checksum")}
    if found != expected:
        raise LostDataError(f"{system.name}: committed {expected}, read {found}")


class CommitCell(Cell):
    """`consumers` in groups of their own commit offsets for `seconds`, with `window` commits in flight."""

    reports = OF_SERVERS | OF_ACKS | {COMMITS, STORED}

    def run(self, harness: Harness) -> dict[str, Any]:
        system = harness.system(self.system)
        before: list[int] = []
        with harness.profiled(system), harness.topic(self.system, 1) as topic:
            orders = [{**self.spec, "loop": "commits", "group": f"of-{topic}-{number}"}
                      for number in range(self.spec["consumers"])]  # fmt: skip
            reports = harness.run_clients(
                orders, system, topic, profile=True,
                when_ready=lambda: before.append(system.end_offset(OFFSETS_TOPIC)),
            )  # fmt: skip
            # each group also writes one record when it becomes empty
            stored = system.end_offset(OFFSETS_TOPIC) - before[0] - len(orders)
        for report in reports:
            if report["committed"] != report["expected"]:
                raise LostDataError(f"{self.name}: {report['expected']} committed, the group has"
                                    f" {report['committed']}")  # fmt: skip
        commits, seconds = sum(r["commits"] for r in reports), max(r["seconds"] for r in reports)
        # concurrent commits of one consumer may be merged into one record; sequential ones may not
        is_sequential = self.spec["window"] == 1
        if stored > commits or (is_sequential and stored != commits):
            raise LostDataError(f"{self.name}: {commits} commits, but {stored} records in {OFFSETS_TOPIC}")
        figures = {
            "seconds": seconds,
            "commits": commits,
            "server_cpu_s": max(r["server_cpu_s"] for r in reports),
            "client_cpu_s": sum(r["client_cpu_s"] for r in reports),
            COMMITS: commits / seconds,
            STORED: stored / seconds,
        }
        if is_sequential:
            for name in ("p50", "p99", "max"):
                figures[f"ack_{name}_ms"] = max(r["ack"][name] for r in reports)
        return figures
