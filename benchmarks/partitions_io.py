"""What many partitions cost at rest and at a fail-over: three nodes of one machine, one topic, no clients.

Each count has a fresh cluster. Three replicas; where a cluster does not get that many in sync, one, and told.
"""

from __future__ import annotations

import contextlib
import shutil
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace.runtime.waiting_io import let_pass, until

from . import machine_io
from .clusters_io import HeadraceCluster, KafkaCluster, wait_in_sync
from .group import HEADRACE, KAFKA
from .replicated import NODES

if TYPE_CHECKING:
    from collections.abc import Callable

    from .clusters_io import Cluster
    from .session_io import Session

SETTLE_S, IDLE_S = 10.0, 5.0  # a JVM still compiles seconds after its topic is made
FAIL_OVER_TIMEOUT_S = 60.0
TOPIC = "many"
FULL = ((HEADRACE, 1000), (HEADRACE, 5000), (KAFKA, 1000))
QUICK = ((HEADRACE, 1000),)


def measure(session: Session, say: Callable[[str], None], *, is_quick: bool) -> list[dict[str, Any]]:
    """A row per system and count; one that fails says why under "error"."""
    rows = []
    for name, count in QUICK if is_quick else FULL:
        row = {"system": name, "partitions": count, **_with_replicas(session, name, count)}
        rows.append(row)
        say(f"{count} partitions: {row}")
    return rows


def _with_replicas(session: Session, name: str, count: int) -> dict[str, Any]:
    whole = one_cluster(session, name, count, NODES)
    if "error" not in whole or name == KAFKA:
        return whole
    return {"with_three": whole["error"], **one_cluster(session, name, count, 1)}


def one_cluster(session: Session, name: str, count: int, replicas: int) -> dict[str, Any]:
    """A cluster of its own with one topic: what it costs, or why that could not be told."""
    folder = Path(tempfile.mkdtemp(prefix="partitions-", dir=session.scratch))
    try:
        with contextlib.ExitStack() as ends:
            ends.callback(shutil.rmtree, folder, ignore_errors=True)
            cluster: Cluster = (
                HeadraceCluster(session.children, folder, session.server_cores)
                if name == HEADRACE
                else KafkaCluster(folder, session.server_cores)
            )
            ends.callback(cluster.stop)
            return cost(cluster, count, replicas)
    except Exception as error:  # noqa: BLE001 - the row tells it, whatever it is
        return {"error": f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"}


def cost(cluster: Cluster, count: int, replicas: int) -> dict[str, Any]:
    """Seconds to create; MB and % of a core at rest; ms until all leaders of a killed node have moved."""
    empty_mb = memory_mb(cluster.node_pids)
    began = time.monotonic()
    cluster.create_topic(TOPIC, count, replicas)
    created_s = time.monotonic() - began
    let_pass(SETTLE_S)
    before = [machine_io.sample_all(pids).cpu_s for pids in _parts(cluster)]
    let_pass(IDLE_S)
    after = [machine_io.sample_all(pids).cpu_s for pids in _parts(cluster)]
    cpu = [round(100 * (late - early) / IDLE_S, 1) for early, late in zip(before, after, strict=True)]
    usage = machine_io.sample_all(cluster.node_pids)
    found = {
        "replicas": replicas,
        "created_s": round(created_s, 2),
        "empty_nodes_mb": empty_mb,
        "nodes_mb": memory_mb(cluster.node_pids),
        "controllers_mb": memory_mb(cluster.controller_pids),
        "nodes_cpu_percent": cpu[0],
        "controllers_cpu_percent": cpu[1] if len(cpu) > 1 else None,
        "fds": usage.fds,
        "threads": usage.threads,
    }
    return found if replicas == 1 else {**found, **fail_over(cluster, count)}


def fail_over(cluster: Cluster, count: int) -> dict[str, Any]:
    """Kill a leader's node: ms until no partition is led by it, seconds until it is in sync again."""
    victim = cluster.victim(TOPIC)
    led = sum(place.leader == victim for place in cluster.places(TOPIC))
    began = time.monotonic()
    cluster.kill(victim)

    def has_moved() -> bool:
        # the answer may have been asked from the dead one
        with contextlib.suppress(Exception):
            return all(place.leader not in (victim, -1) for place in cluster.places(TOPIC))
        return False

    if not until(has_moved, FAIL_OVER_TIMEOUT_S):
        raise TimeoutError(f"the leaders did not move within {FAIL_OVER_TIMEOUT_S:.0f} s")
    moved_s = time.monotonic() - began
    began = time.monotonic()
    cluster.bring_back(victim)
    wait_in_sync(cluster, TOPIC, count)
    return {
        "leaders": led,
        "moved_ms": round(1000 * moved_s),
        "in_sync_again_s": round(time.monotonic() - began, 2),
    }


def memory_mb(pids: list[int]) -> float | None:
    """Resident, of some processes together; None without any."""
    return round(machine_io.sample_all(pids).rss / 1e6, 1) if pids else None


def _parts(cluster: Cluster) -> list[list[int]]:
    return [pids for pids in (cluster.node_pids, cluster.controller_pids) if pids]
