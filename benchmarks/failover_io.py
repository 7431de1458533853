"""One round of fail-over: an open loop, SIGKILL of a leader's node, its return, the check of every record."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any, cast

from headrace.runtime.waiting_io import let_pass

from .children_io import ChildError, LostDataError
from .clusters_io import wait_in_sync
from .group import GAP
from .outage import outage_ms

if TYPE_CHECKING:
    from .clusters_io import Cluster
    from .group import Cell
    from .session_io import Session

READY_TIMEOUT_S, LOAD_TIMEOUT_S, READ_TIMEOUT_S = 30.0, 120.0, 60.0


def fail_over(session: Session, cell: Cell, spec: dict[str, Any]) -> dict[str, Any]:
    """The client's report with `gap_ms`. Errors: LostDataError; ChildError when writes never went on."""
    cluster = cast("Cluster", session.systems[cell.system])
    topic = session.new_topic(cell.system, spec["partition_count"])
    try:
        found, killed_ns, led = _round(session, cluster, topic, spec)
    finally:
        cluster.delete_topic(topic)
    if found["lost"]:
        raise LostDataError(
            f"{cell.system}: {found['lost']} of {found['acked']} acknowledged records are gone"
        )
    gap = outage_ms([found["gaps"][partition] for partition in led], killed_ns)
    if gap is None:
        raise ChildError(f"{cell.system}: a partition of the killed node was never acknowledged again")
    # The server's CPU time is no figure here: one of its processes is killed.
    kept = {name: value for name, value in found.items() if name != "server_cpu_s"}
    return {**kept, "records_per_s": found["records"] / found["seconds"], GAP: gap, "led": len(led)}


def _round(
    session: Session, cluster: Cluster, topic: str, spec: dict[str, Any]
) -> tuple[dict[str, Any], int, list[int]]:
    """The client's report, when the node was killed, and the partitions that it led."""
    server = {"system": cluster.name, "bootstrap": cluster.bootstrap, "server_pids": []}
    order = {**spec, **server, "loop": "failover", "topic": topic}
    client = session.children.start("failover", "worker", json.dumps(order), cores=session.client_cores)
    victim, killed = cluster.victim(topic), False
    try:
        _expect_ready(client.line(READY_TIMEOUT_S))
        led = [number for number, place in enumerate(cluster.places(topic)) if place.leader == victim]
        client.tell("go")
        let_pass(spec["warm_s"])
        killed_ns, killed = time.monotonic_ns(), True
        cluster.kill(victim)
        _expect_ready(client.line(LOAD_TIMEOUT_S))
        cluster.bring_back(victim)
        killed = False
        wait_in_sync(cluster, topic, spec["partition_count"])
        client.tell("go")
        return json.loads(client.line(READ_TIMEOUT_S)), killed_ns, led
    finally:
        session.children.end(client)
        if killed:
            cluster.bring_back(victim)


def _expect_ready(line: str) -> None:
    if line != "ready":
        raise ChildError(f"the client said {line!r}")
