"""Scenarios 22 to 24 of RELIABILITY 1.8: partitions that move, a topic made again, leaders that change."""

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
    """Ask for these replicas of t-0, preferred leader first; None cancels."""
    topic = control.ReassignableTopic("t", (control.ReassignablePartition(0, replicas),))
    answer = cluster.ask_controller(
        registry.ALTER_PARTITION_REASSIGNMENTS, control.AlterPartitionReassignmentsRequest((topic,))
    )
    assert answer.error_code == 0, answer
    assert all(result.error_code == 0 for result in answer.results), answer


def until_moved(cluster: FaultCluster, replicas: tuple[int, ...]) -> None:
    """These are the replicas, all in sync, and nothing is under way."""

    def is_so() -> bool:
        found = cluster.partition("t")
        is_quiet = not found.adding_replicas and not found.removing_replicas
        return is_quiet and found.replicas == replicas and set(found.isr) == set(replicas)

    cluster.until(is_so, f"t-0 is on {replicas}")


def holders(cluster: FaultCluster) -> set[int]:
    """The nodes that have a folder of t-0."""
    return set(cluster.logs_of("t"))


def test_s22_replicas_are_moved_under_load(make_cluster: Any, measured: Any) -> None:
    """3 to 1 to 3, then a move during which the new node is killed, then one that is cancelled and leaves
    nothing behind."""
    cluster = make_cluster(nodes=4)
    cluster.create_topic("t", min_insync_replicas=1)
    reassign(cluster, (1, 2, 3))
    until_moved(cluster, (1, 2, 3))
    work = Workload(cluster, "t").start()
    begun_s = time.monotonic()
    reassign(cluster, (2,))
    until_moved(cluster, (2,))
    cluster.until(lambda: holders(cluster) == {2}, "the replicas that were taken away are deleted")
    work.more()
    reassign(cluster, (2, 1, 3))
    until_moved(cluster, (2, 1, 3))
    work.more()

    newcomer = cluster.servers["node-4"]
    cluster.network.freeze(between([newcomer.name], [node.name for node in cluster.nodes]))
    reassign(cluster, (1, 3, 4))
    cluster.until(lambda: cluster.partition("t").adding_replicas == (4,), "the move has begun")
    newcomer.kill()
    work.more()
    cluster.network.heal()
    newcomer.start()
    until_moved(cluster, (1, 3, 4))
    cluster.until(lambda: holders(cluster) == {1, 3, 4}, "the replica that was left is deleted")
    work.more()

    cluster.network.freeze(between(["node-2"], [node.name for node in cluster.nodes]))
    reassign(cluster, (2, 3, 4))
    cluster.until(lambda: 2 in holders(cluster), "the new replica is made")
    reassign(cluster, None)
    cluster.until(lambda: holders(cluster) == {1, 3, 4}, "a cancelled move leaves nothing behind")
    cluster.network.heal()
    until_moved(cluster, (3, 4, 1))  # as they were, those that should have stayed first: as in Kafka
    work.more()
    measured(work, begun_s)
    work.finish()
    cluster.until_replicas_agree("t")


def test_s23_a_topic_is_made_again_while_a_node_is_away(make_cluster: Any) -> None:
    """The node comes back with the files of the topic that was deleted: they are gone before it holds the new
    one, and no record of the old is ever read as one of the new."""
    cluster = make_cluster()
    cluster.create_topic("t", min_insync_replicas=2)
    Workload(cluster, "t").start().finish()
    old_id = cluster.image().topics["t"].topic_id
    away = cluster.node(cluster.leader("t"))
    away.kill()
    cluster.until(lambda: cluster.is_fenced(away.id), "the node is missed")
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
    work.finish()  # the records of the first workload were never sent, for this history
    cluster.until_replicas_agree("t")


def test_s24_the_preferred_leader_moves_all_the_time(make_cluster: Any, measured: Any) -> None:
    """Every second the next replica is preferred and elected, for a minute, under load."""
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
