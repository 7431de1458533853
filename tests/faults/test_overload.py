"""An overloaded machine: more processes than cores and slow disks, with three nodes and three controllers. A
slow leader keeps its partitions; a dead one is replaced as fast as on an idle machine."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from detection import PARTITIONS, TOPIC, Load, Writes, end_offset, failover_s, since
from disturbance import Disturbance
from fault_cluster import SESSION_S, hold

OVERLOAD_S = 120
# The delay of every fsync of the controllers: heartbeat responses take longer than the session timeout.
DISK_STALL_MS = 700
# The session timeout, a tick of the controller and the metadata update take 2 s on an idle machine. Here
# every process waits for the processors; the longest adaptive session and Kafka's are 9 s.
FAILOVER_S = SESSION_S + 5.0
LOG_WORDS = ("fencing node", "was fenced")


@pytest.mark.faults
def test_s25_overload_moves_no_leader_and_a_killed_node_is_replaced(
    make_cluster: Any, tmp_path: Path, record_property: Callable[[str, str], None]
) -> None:
    """Two minutes of overload, with a topic created twice a second to write to the metadata log: no node is
    fenced, no leader changes, the active controller stays. Then a node is killed under the same load; the
    logs name the fenced node and the reason."""
    cluster = make_cluster(nodes=3, controllers=3, proxied=False)
    cluster.create_topic(TOPIC, PARTITIONS, 3, min_insync_replicas=2)
    with Load(cluster.bootstrap) as load:
        cluster.until(lambda: len(load.acked_s) > 100, "records are acknowledged")
        offset, begun_s = end_offset(cluster), time.monotonic()
        with Disturbance(["cpu", "fsync", "dirty"], tmp_path, OVERLOAD_S + 300) as disturbance:
            with Writes(cluster, 0.5):
                cluster.stall_controllers_disks(DISK_STALL_MS)
                hold(OVERLOAD_S)
                cluster.stall_controllers_disks(0)
            assert disturbance.is_running, "the machine was not overloaded all the time"
            found = since(cluster, offset)
            logs = "\n".join(_lines(cluster))
            assert (found.fenced, found.leaders_moved, len(found.epochs)) == ([], 0, 1), f"{found}\n{logs}"
            pause_s = load.longest_pause_s(begun_s, time.monotonic())
            took_s = failover_s(cluster, 2)
            assert took_s < FAILOVER_S, f"{took_s:.1f} s\n" + "\n".join(_lines(cluster))
    assert load.failures == []
    assert any("fencing node 2 (broker epoch " in line for line in _lines(cluster))
    record_property(
        "faults", f"{found}; longest pause of acks {pause_s:.1f} s; killed node replaced after {took_s:.1f} s"
    )


def _lines(cluster: Any) -> list[str]:
    """The log lines of all servers about fencing."""
    return [
        f"{server.name}: {line}"
        for server in cluster.servers.values()
        for line in server.log_path.read_text(errors="replace").splitlines()
        if any(words in line for words in LOG_WORDS)
    ]
