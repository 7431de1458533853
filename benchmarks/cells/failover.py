"""The cell of a fail-over: an open loop while a leader's node is killed, and a check of all records. Pure."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, cast

from ..constants import DUPLICATES, GAP, OF_SERVERS, RATE
from ..harness import ChildError, LostDataError
from .cell import Cell
from .outage import outage_ms

if TYPE_CHECKING:
    from ..harness import Cluster, Harness, Process, Report

READY_TIMEOUT_S, LOAD_TIMEOUT_S, READ_TIMEOUT_S = 30.0, 120.0, 60.0


class FailoverCell(Cell):
    """The longest time without acknowledgements after SIGKILL of a node that leads partitions."""

    reports = OF_SERVERS | {RATE, GAP, DUPLICATES}

    def run(self, harness: Harness) -> dict[str, Any]:
        cluster = cast("Cluster", harness.system(self.system))
        with harness.topic(self.system, self.spec["partition_count"]) as topic:
            report, killed_ns, led = self._kill_and_restart(harness, cluster, topic)
        if report["lost"]:
            lost, acked = report["lost"], report["acked"]
            raise LostDataError(f"{self.system}: lost {lost} of {acked} acknowledged records")
        gap = outage_ms([report["gaps"][partition] for partition in led], killed_ns)
        if gap is None:
            raise ChildError(f"{self.system}: a partition of the killed node was never acknowledged again")
        # no CPU time of the servers: one of the processes was killed
        figures = {name: value for name, value in report.items() if name != "server_cpu_s"}
        return {**figures, RATE: report["records"] / report["seconds"], GAP: gap, "led": len(led)}

    def _kill_and_restart(
        self, harness: Harness, cluster: Cluster, topic: str
    ) -> tuple[Report, int, list[int]]:
        """The client's report, the time of the kill, and the partitions that the killed node led."""
        order = {**self.spec, "loop": "failover", "system": cluster.name, "bootstrap": cluster.bootstrap,
                 "topic": topic, "server_pids": []}  # fmt: skip
        with harness.client(order) as client:
            node, is_dead = cluster.node_to_kill(topic), False
            try:
                _expect_ready(client, READY_TIMEOUT_S)
                leaders = [replicas.leader for replicas in cluster.replicas_of(topic)]
                client.send("go")
                harness.sleep(self.spec["warm_s"])
                killed_ns, is_dead = harness.now_ns(), True
                cluster.kill(node)
                _expect_ready(client, LOAD_TIMEOUT_S)
                cluster.restart(node)
                is_dead = False
                cluster.wait_in_sync(topic, self.spec["partition_count"])
                client.send("go")
                report = json.loads(client.line(READ_TIMEOUT_S))
            finally:
                if is_dead:
                    cluster.restart(node)
        return report, killed_ns, [number for number, leader in enumerate(leaders) if leader == node]


def _expect_ready(client: Process, timeout_s: float) -> None:
    line = client.line(timeout_s)
    if line != "ready":
        raise ChildError(f"the client printed {line!r} instead of ready")
