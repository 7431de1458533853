"""The cost of many partitions, idle and during a fail-over: three nodes, one topic, no clients.

Each count has a fresh cluster with three replicas; headrace falls back to one replica if those do not get in
sync, and the row says so.
"""

from __future__ import annotations

import contextlib
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace.runtime.waiting_io import let_pass, until

from . import machine_io
from .cells.figures import BYTES_PER_MB
from .constants import HEADRACE, KAFKA, NODES
from .servers.headrace_io import HeadraceCluster
from .servers.kafka_systems_io import KafkaCluster

if TYPE_CHECKING:
    from collections.abc import Callable

    from .harness import Cluster
    from .session_io import Session

SETTLE_S, IDLE_S = 10.0, 5.0  # a JVM still compiles some seconds after the topic was created
FAIL_OVER_TIMEOUT_S = 60.0
TOPIC = "many"
FULL = ((HEADRACE, 1000), (HEADRACE, 5000), (KAFKA, 1000))
QUICK = ((HEADRACE, 1000),)


def measure(session: Session, say: Callable[[str], None], *, is_quick: bool) -> list[dict[str, Any]]:
    """A row per system and count; a failed one has "error"."""
    rows = []
    for name, count in QUICK if is_quick else FULL:
        row = {"system": name, "partitions": count, **_with_fallback(session, name, count)}
        rows.append(row)
        say(f"{count} partitions: {row}")
    return rows


def _with_fallback(session: Session, name: str, count: int) -> dict[str, Any]:
    row = _one_cluster(session, name, count, NODES)
    if "error" not in row or name == KAFKA:
        return row
    return {"with_three": row["error"], **_one_cluster(session, name, count, 1)}


def _one_cluster(session: Session, name: str, count: int, replicas: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(
        prefix="partitions-", dir=session.scratch, ignore_cleanup_errors=True
    ) as folder:
        try:
            cluster: Cluster = (
                HeadraceCluster(session.children, Path(folder), session.server_cores)
                if name == HEADRACE
                else KafkaCluster(Path(folder), session.server_cores)
            )
            try:
                return _cost(cluster, count, replicas)
            finally:
                cluster.stop()
        except Exception as error:  # noqa: BLE001 - the row reports it
            return {"error": f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"}


def _cost(cluster: Cluster, count: int, replicas: int) -> dict[str, Any]:
    """Seconds to create the topic; MB and % of a core when idle; the fail-over of one node."""
    empty_mb = _memory_mb(cluster.node_pids)
    began = time.monotonic()
    cluster.create_topic(TOPIC, count, replicas)
    created_s = time.monotonic() - began
    let_pass(SETTLE_S)
    parts = [pids for pids in (cluster.node_pids, cluster.controller_pids) if pids]
    before = [machine_io.sample_all(pids).cpu_s for pids in parts]
    let_pass(IDLE_S)
    after = [machine_io.sample_all(pids).cpu_s for pids in parts]
    cpu = [round(100 * (late - early) / IDLE_S, 1) for early, late in zip(before, after, strict=True)]
    usage = machine_io.sample_all(cluster.node_pids)
    found = {
        "replicas": replicas,
        "created_s": round(created_s, 2),
        "empty_nodes_mb": empty_mb,
        "nodes_mb": _memory_mb(cluster.node_pids),
        "controllers_mb": _memory_mb(cluster.controller_pids),
        "nodes_cpu_percent": cpu[0],
        "controllers_cpu_percent": cpu[1] if len(cpu) > 1 else None,
        "fds": usage.fds,
        "threads": usage.threads,
    }
    return found if replicas == 1 else {**found, **_fail_over(cluster, count)}


def _fail_over(cluster: Cluster, count: int) -> dict[str, Any]:
    """SIGKILL of a node: ms until its partitions have other leaders, seconds until all are in sync again."""
    killed = cluster.node_to_kill(TOPIC)
    led = sum(leader == killed for leader, _ in cluster.replicas_of(TOPIC))
    began = time.monotonic()
    cluster.kill(killed)

    def has_moved() -> bool:
        # the request may have been sent to the killed node
        with contextlib.suppress(Exception):
            return all(leader not in (killed, -1) for leader, _ in cluster.replicas_of(TOPIC))
        return False

    if not until(has_moved, FAIL_OVER_TIMEOUT_S):
        raise TimeoutError(f"the leaders did not move within {FAIL_OVER_TIMEOUT_S:.0f} s")
    moved_s = time.monotonic() - began
    began = time.monotonic()
    cluster.restart(killed)
    cluster.wait_in_sync(TOPIC, count)
    return {
        "leaders": led,
        "moved_ms": round(1000 * moved_s),
        "in_sync_again_s": round(time.monotonic() - began, 2),
    }


def _memory_mb(pids: list[int]) -> float | None:
    """Resident, in sum; None without processes."""
    return round(machine_io.sample_all(pids).rss / BYTES_PER_MB, 1) if pids else None
