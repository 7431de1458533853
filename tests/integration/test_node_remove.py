"""`headrace node remove` to the end, its refusals, its continuation, and a node that dies meanwhile."""

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from command_line import CommandLine
from headrace.clients.admin.admin_types import NewTopic, NodeState
from headrace.clients.sync.admin_io import Admin
from headrace.services.balance import removal
from headrace.services.balance.execution import Execution
from headrace.services.cli import node_remove
from headrace.services.local_io import LocalCluster, local
from waiting import wait_for

IN_SYNC = "all replicas are in sync"


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    """Four nodes; node 4 is removed at the end."""
    with local(nodes=4, broker_session_timeout_ms=1_500) as cluster:
        yield cluster


@pytest.fixture
def shell(cluster: LocalCluster, command_line: CommandLine) -> CommandLine:
    return command_line.at(cluster.bootstrap.split(",")[0])


@pytest.fixture
def admin(cluster: LocalCluster) -> Admin:
    return Admin(cluster.bootstrap.split(",")[0])


def topic(
    cluster: LocalCluster, admin: Admin, name: str, *places: tuple[int, ...], records: int = 60
) -> None:
    made = NewTopic(name, assignments=dict(enumerate(places)))
    admin.create_topics(made).raise_for_errors()
    with cluster.producer() as producer:
        for number in range(records):
            producer.send(name, b"%d" % number + b"x" * 1000, partition=number % len(places))


def on_node(admin: Admin, node_id: int) -> int:
    names = [each.name for each in admin.list_topics(internal=True)]
    found = admin.describe_topics(*names)
    return sum(node_id in part.replicas for name in names for part in found[name].partitions)


def state(admin: Admin, node_id: int) -> NodeState | None:
    nodes = admin.describe_cluster(include_fenced=True).nodes
    return next((node.state for node in nodes if node.node_id == node_id), None)


def cordon(shell: CommandLine, node_id: int) -> list[str]:
    rows = shell.json("config", "describe", "--node", str(node_id))
    return [row["value"] for row in rows if row["key"] == removal.CORDON]


def test_a_removal_that_would_break_a_replication_factor_names_the_topics(
    cluster: LocalCluster, shell: CommandLine, admin: Admin
) -> None:
    """Four replicas need four nodes: nothing moves, and the node is not cordoned."""
    topic(cluster, admin, "wide", (1, 2, 3, 4))
    topic(cluster, admin, "narrow", (4, 1))
    for arguments in (("--dry-run",), ("--yes",)):
        code, _, err = shell("node", "remove", "4", *arguments)
        assert (code, "of the topics wide; wide-0: 4 replicas need 4 nodes, 3 would remain" in err) == (
            1,
            True,
        )
    assert on_node(admin, 4) == 2
    assert cordon(shell, 4) == []
    admin.delete_topics("wide", "narrow").raise_for_errors()
    assert shell("node", "remove", "9", "--yes")[0] == 3


def test_a_node_that_dies_during_the_removal_stops_it_in_a_clean_state(
    cluster: LocalCluster, shell: CommandLine, admin: Admin
) -> None:
    """Copies to node 3 crawl when it dies: after the patience its moves are cancelled, nothing else is begun,
    throttles and cordon are gone; the message has the reason."""
    topic(cluster, admin, "dying", (4,), (4,), (4,), records=300)
    for node_id in (1, 2):  # only node 3 may get something
        assert shell("config", "alter", "--node", str(node_id), "--set", "cordoned.log.dirs=*")[0] == 0
    wait_for(lambda: all(shell.json("node", "list")), "the nodes answer")

    def dies() -> None:
        wait_for(lambda: admin.list_partition_reassignments() != {}, "a copy has begun")
        cluster.kill_node(2)

    killer = threading.Thread(target=dies)
    killer.start()
    slow = ("--throttle", "1000", "--patience", "2", "--max-concurrent", "1")
    code, _, err = shell("node", "remove", "4", "--yes", *slow)
    killer.join()
    assert (code, "node 3 is fenced" in err) == (4, True), err
    assert admin.list_partition_reassignments() == {}
    assert (on_node(admin, 4), cordon(shell, 4)) == (3, [])
    rows = shell.json("config", "describe", "--topic", "dying")
    assert [row for row in rows if "throttled" in row["key"]] == []
    cluster.restart_node(2)
    for node_id in (1, 2):
        assert shell("config", "alter", "--node", str(node_id), "--delete", "cordoned.log.dirs")[0] == 0
    admin.delete_topics("dying").raise_for_errors()


def test_removal_to_the_end(
    cluster: LocalCluster, shell: CommandLine, admin: Admin, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Interrupted once after some moves, then repeated: every record is still there, the node has no replica,
    is stopped when the command says so, and is not registered any more."""
    places = [(4, 1), (1, 4), (4, 2), (3, 4), (4, 3)]
    topic(cluster, admin, "moving", *places, records=200)
    wait_for(lambda: on_node(admin, 4) == 5, "the topic is there")
    step = Execution._conclude

    def interrupted(run: Execution, ended: list[Any]) -> Iterator[object]:
        yield from step(run, ended)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Execution, "_conclude", interrupted)
        code, _, err = shell("node", "remove", "4", "--yes", "--max-concurrent", "2")
    assert (code, "`headrace node remove 4` continues" in err) == (130, True), err
    assert (admin.list_partition_reassignments(), cordon(shell, 4)) == ({}, [])
    assert 0 < on_node(admin, 4) < 5, "some have moved"

    plan = shell.json("node", "remove", "4", "--dry-run")
    assert {move["goal"] for move in plan["moves"]} == {"evacuate"}
    assert len(plan["moves"]) == on_node(admin, 4)

    operator = threading.Thread(target=cluster.stop_node, args=(3,))

    def noted(text: str) -> None:
        note(text)
        if "stop its process now" in text:
            assert on_node(admin, 4) == 0
            operator.start()

    note = node_remove.note
    monkeypatch.setattr(node_remove, "note", noted)
    code, _, err = shell("node", "remove", "4", "--yes")
    assert code == 0, err
    operator.join()
    assert state(admin, 4) is None
    assert len(shell("consume", "moving", "-o", "beginning", "-e")[1].split()) == 200
    factors = [len(part.replicas) for part in admin.describe_topics("moving")["moving"].partitions]
    assert factors == [len(place) for place in places]
