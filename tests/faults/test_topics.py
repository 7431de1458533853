"""Scenarios 22 to 24 of RELIABILITY 1.8: reassignments, a recreated topic, frequent leader elections."""

import itertools
import time
from typing import Any

import headrace
import pytest
from fault_cluster import FaultCluster, hold
from fault_workload import Workload
from headrace.protocol.messages import control, registry
from proxy import between

pytestmark = pytest.mark.faults

PREFERRED = 0
MOVES_S = 60.0


def reassign(cluster: FaultCluster, replicas: tuple[int, ...] | None) -> None:
    """Reassign t-0 to these replicas, preferred leader first; None cancels."""
    topic = control.ReassignableTopic("t", (control.ReassignablePartition(0, replicas),))
    answer = cluster.ask_controller(
        registry.ALTER_PARTITION_REASSIGNMENTS, control.AlterPartitionReassignmentsRequest((topic,))
    )
    assert answer.error_code == 0, answer
    assert all(result.error_code == 0 for result in answer.results), answer


def until_moved(cluster: FaultCluster, replicas: tuple[int, ...]) -> None:
    """Wait until t-0 has these replicas, all in sync, and no reassignment."""

    def is_so() -> bool:
        found = cluster.partition("t")
        is_quiet = not found.adding_replicas and not found.removing_replicas
        return is_quiet and found.replicas == replicas and set(found.isr) == set(replicas)

    cluster.until(is_so, f"t-0 is on {replicas}")


def holders(cluster: FaultCluster) -> set[int]:
    """The ids of nodes with a folder of t-0."""
    return set(cluster.logs_of("t"))


def test_s22_replicas_are_moved_under_load(make_cluster: Any, measured: Any) -> None:
    """From 3 to 1 to 3 replicas, then a reassignment during which the new node is killed, then one that is
    cancelled, whose new replica is deleted."""
    cluster = make_cluster(nodes=4)
    cluster.create_topic("t", min_insync_replicas=1)
    reassign(cluster, (1, 2, 3))
    until_moved(cluster, (1, 2, 3))
    work = Workload(cluster, "t").start()
    begun_s = time.monotonic()
    reassign(cluster, (2,))
    until_moved(cluster, (2,))
    cluster.until(lambda: holders(cluster) == {2}, "the removed replicas are deleted")
    work.more()
    reassign(cluster, (2, 1, 3))
    until_moved(cluster, (2, 1, 3))
    work.more()

    newcomer = cluster.servers["node-4"]
    cluster.network.freeze(between([newcomer.name], [node.name for node in cluster.nodes]))
    reassign(cluster, (1, 3, 4))
    cluster.until(lambda: cluster.partition("t").adding_replicas == (4,), "the reassignment has begun")
    newcomer.kill()
    work.more()
    cluster.network.heal()
    newcomer.start()
    until_moved(cluster, (1, 3, 4))
    cluster.until(lambda: holders(cluster) == {1, 3, 4}, "the old replica is deleted")
    work.more()

    cluster.network.freeze(between(["node-2"], [node.name for node in cluster.nodes]))
    reassign(cluster, (2, 3, 4))
    cluster.until(lambda: 2 in holders(cluster), "the new replica is created")
    reassign(cluster, None)
    cluster.until(
        lambda: holders(cluster) == {1, 3, 4}, "the replica of the cancelled reassignment is deleted"
    )
    cluster.network.heal()
    until_moved(cluster, (3, 4, 1))  # the original replicas, the unchanged ones first: as in Kafka
    work.more()
    measured(work, begun_s)
    work.finish()
    cluster.until_replicas_agree("t")


def test_s23_topic_is_recreated_while_a_node_is_down(make_cluster: Any) -> None:
    """The node restarts with files of the deleted topic: it deletes them before it creates the new topic's
    replica, and no old record is read from the new topic."""
    cluster = make_cluster()
    cluster.create_topic("t", min_insync_replicas=2)
    Workload(cluster, "t").start().finish()
    old_id = cluster.image().topics["t"].topic_id
    away = cluster.node(cluster.leader("t"))
    away.kill()
    cluster.until(lambda: cluster.is_fenced(away.id), "the node is fenced")
    with cluster.clients.admin() as admin:
        admin.delete_topics("t").raise_for_errors()
        everywhere = {0: tuple(node.id for node in cluster.nodes)}
        again = headrace.NewTopic("t", configs={"min.insync.replicas": 2}, assignments=everywhere)
        admin.create_topics(again).raise_for_errors()
    cluster.until_serving("t")
    work = Workload(cluster, "t").start()
    assert cluster.image().topics["t"].topic_id != old_id
    away.start()
    cluster.until_in_sync("t")
    work.more()
    work.finish()  # the second history does not have the records of the first workload
    cluster.until_replicas_agree("t")


def test_s24_the_preferred_leader_changes_every_second(make_cluster: Any, measured: Any) -> None:
    """Every second the next replica becomes the preferred leader and is elected, for a minute, under load."""
    cluster = make_cluster()
    cluster.create_topic("t", min_insync_replicas=2)
    work = Workload(cluster, "t").start()
    begun_s = time.monotonic()
    ask = control.ElectLeadersRequest(PREFERRED, (control.TopicPartitions("t", (0,)),))
    for order in itertools.cycle([(1, 2, 3), (2, 3, 1), (3, 1, 2)]):
        reassign(cluster, order)
        until_moved(cluster, order)
        cluster.ask_controller(registry.ELECT_LEADERS, ask)
        cluster.until(lambda order=order: cluster.leader("t") == order[0], f"node {order[0]} leads")
        hold(1.0)
        if time.monotonic() > begun_s + MOVES_S:
            break
    work.more()
    measured(work, begun_s)
    work.finish()
    assert work.unknown == 0, work.errors
    cluster.until_replicas_agree("t")
