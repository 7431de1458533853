"""`headrace partition recover` as a process: while its question is open, the controller, the replica that it
would elect, and the command are killed, and the cluster changes."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import headrace
import pytest
from fault_cluster import FaultCluster
from operator_command import OperatorCommand
from waiting import PATIENCE_S

ASKS = "Elect it?"


@pytest.fixture
def cluster(make_cluster: Callable[..., FaultCluster]) -> FaultCluster:
    """Nodes 2 and 3 are alive, with 20 and 10 records; node 1, the only one in sync, is dead with 30."""
    cluster = make_cluster(nodes=3)
    cluster.create_topic("t", min_insync_replicas=1)
    order = [cluster.leader("t"), *(n for n in (1, 2, 3) if n != cluster.leader("t"))]
    for first, dies in ((0, order[2]), (10, order[1]), (20, order[0])):
        with headrace.Producer(cluster.bootstrap, client_id="observer-2", acks="all") as producer:
            sent = [producer.send("t", b"%d" % number) for number in range(first, first + 10)]
            assert all(each.result(PATIENCE_S) for each in sent)
        cluster.node(dies).kill()
        cluster.until(lambda dies=dies: cluster.is_fenced(dies), f"node {dies} is fenced")
    for node_id in order[1:]:
        cluster.node(node_id).start()
        cluster.until(lambda n=node_id: not cluster.is_fenced(n), f"node {node_id} is active")
    assert cluster.partition("t").leader == -1
    return cluster


@pytest.fixture
def order(cluster: FaultCluster) -> tuple[int, int, int]:
    """The dead replica, the recommended one, and the short one."""
    (dead,) = (node.id for node in cluster.nodes if not node.is_alive)
    files = cluster.logs_of("t")
    longer, shorter = sorted((n for n in files if n != dead), key=lambda n: -len(files[n]))
    return dead, longer, shorter


def asked(cluster: FaultCluster, folder: Path) -> OperatorCommand:
    """The command with its question open."""
    command = OperatorCommand(cluster, folder, "partition", "recover")
    command.until_says(ASKS)
    return command


def values(cluster: FaultCluster) -> list[int]:
    tp = headrace.TopicPartition("t", 0)
    found: list[Any] = []
    with cluster.clients.consumer("t", auto_offset_reset="earliest") as consumer:
        end = consumer.end_offsets(tp, timeout=PATIENCE_S)[tp]
        while len(found) < end:
            found += consumer.poll(PATIENCE_S)
    return [int(record.value) for record in found]


@pytest.mark.faults
def test_the_controller_is_killed_before_the_answer(
    cluster: FaultCluster, order: tuple[int, int, int], tmp_path: Path
) -> None:
    """The command waits for the next controller, and elects what it has shown."""
    command = asked(cluster, tmp_path)
    assert f"electing node {order[1]} loses 0 records that other replicas have" in command.text
    controller = cluster.active_controller
    controller.kill()
    command.answer("y")
    controller.start()
    assert command.ended() == 0, command.text
    assert cluster.leader("t") == order[1]
    assert values(cluster) == list(range(20))


@pytest.mark.faults
def test_the_leader_returns_before_the_answer(
    cluster: FaultCluster, order: tuple[int, int, int], tmp_path: Path
) -> None:
    """Node 1 has every record and leads again: the answer elects nothing, and loses nothing."""
    command = asked(cluster, tmp_path)
    cluster.node(order[0]).start()
    cluster.until(lambda: cluster.partition("t").leader == order[0], "the last leader leads again")
    cluster.until_in_sync("t")
    command.answer("y")
    assert command.ended() == 0, command.text
    assert "it has a leader again, and nothing was elected" in command.text
    assert values(cluster) == list(range(30))


@pytest.mark.faults
@pytest.mark.parametrize("fault", ["kill", "pause"])
def test_the_shown_replica_dies_before_the_answer(
    cluster: FaultCluster, order: tuple[int, int, int], tmp_path: Path, fault: str
) -> None:
    """Its election is not replaced by one that loses more. The next command shows the remaining replica."""
    command = asked(cluster, tmp_path)
    node = cluster.node(order[1])
    node.kill() if fault == "kill" else node.pause()
    cluster.until(lambda: cluster.is_fenced(node.id), "the recommended replica is fenced")
    command.answer("y")
    assert command.ended() == 1, command.text
    assert "its replicas have changed since they were shown, nothing was elected" in command.text
    assert cluster.partition("t").leader == -1
    again = asked(cluster, tmp_path)
    assert f"electing node {order[2]} loses 0 records that other replicas have, and what only" in again.text
    again.answer("n")
    assert again.ended() == 1
    assert cluster.partition("t").leader == -1


@pytest.mark.faults
def test_the_command_is_killed_before_the_answer(
    cluster: FaultCluster, order: tuple[int, int, int], tmp_path: Path
) -> None:
    """Nothing has happened; the next command asks the same question."""
    asked(cluster, tmp_path).kill()
    assert cluster.partition("t").leader == -1
    command = asked(cluster, tmp_path)
    command.answer("y")
    assert command.ended() == 0, command.text
    assert values(cluster) == list(range(20))
