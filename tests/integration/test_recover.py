"""`headrace partition recover`: what it shows as lost is what is lost, and nothing else."""

from collections.abc import Iterator

import pytest
from command_line import CommandLine
from headrace.clients.admin.admin_types import NewTopic, PartitionDescription
from headrace.services.local_io import LocalCluster, local
from waiting import wait_for


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with local(nodes=4, broker_session_timeout_ms=1_500) as cluster:
        yield cluster


@pytest.fixture
def shell(cluster: LocalCluster, command_line: CommandLine) -> CommandLine:
    return command_line.at(cluster.bootstrap.split(",")[3])  # node 4 stays alive


def partition(cluster: LocalCluster, name: str) -> PartitionDescription:
    return cluster.admin().describe_topics(name)[name].partitions[0]


def produce(cluster: LocalCluster, name: str, first: int, count: int) -> None:
    with cluster.producer(acks="all") as producer:
        for number in range(first, first + count):
            producer.send(name, str(number).encode())


def without_leader(cluster: LocalCluster, shell: CommandLine, name: str) -> None:
    """A partition on nodes 1, 2, 3: node 3 dies with 10 records, node 2 with 30, node 1 with 50; then 2 and 3
    return, and node 1, the only one in sync, stays dead."""
    made = NewTopic(name, assignments={0: (1, 2, 3)}, configs={"min.insync.replicas": 1})
    cluster.admin().create_topics(made).raise_for_errors()
    for first, count, dies in ((0, 10, 3), (10, 20, 2), (30, 20, 1)):
        produce(cluster, name, first, count)
        alive = list(range(1, dies + 1))
        wait_for(lambda alive=alive: sorted(partition(cluster, name).isr) == alive, f"{alive} are in sync")
        cluster.kill_node(dies - 1)
        if dies > 1:
            wait_for(lambda dies=dies: dies not in partition(cluster, name).isr, f"node {dies} has left")
    wait_for(lambda: partition(cluster, name).leader == -1, "there is no leader")
    cluster.restart_node(1)
    cluster.restart_node(2)
    states = {1: "fenced", 2: "active", 3: "active"}
    wait_for(
        lambda: states.items() <= {n["node_id"]: n["state"] for n in shell.json("node", "list")}.items(),
        "2 and 3 are back",
    )


def heal(cluster: LocalCluster, shell: CommandLine, name: str) -> None:
    cluster.restart_node(0)
    wait_for(lambda: len(partition(cluster, name).isr) == 3, "all are in sync")


def values(shell: CommandLine, name: str) -> list[int]:
    return [int(each) for each in shell("consume", name, "-o", "beginning", "-e")[1].split()]


def test_the_longer_replica_is_recommended_and_keeps_what_it_has(
    cluster: LocalCluster, shell: CommandLine
) -> None:
    """Node 2 has 30 records and node 3 ten: 2 is recommended, loses nothing that 3 has, and names node 1,
    which is silent. After the election the 30 records are there on every replica, also of node 1."""
    without_leader(cluster, shell, "longer")
    (report,) = shell.json("partition", "recover")["partitions"]
    assert (report["topic"], report["recommended"], report["silent"]) == ("longer", 2, [1])
    rows = {row["node"]: row for row in report["replicas"]}
    assert [(rows[n]["end"], rows[n]["lost"], rows[n]["diverges_at"]) for n in (2, 3)] == [
        (30, 0, None),
        (10, 20, 10),
    ]
    assert rows[1]["end"] is None

    code, out, err = shell("partition", "recover", data=b"n\n")
    assert (code, "node 1 is silent" in out, "every acknowledged record" in out) == (1, True, True)
    assert "electing node 2 loses 0 records" in err
    assert partition(cluster, "longer").leader == -1, "no answer, no election"

    code, _, err = shell("partition", "recover", "--yes")
    assert (code, "node 2 leads" in err) == (0, True), err
    wait_for(lambda: partition(cluster, "longer").leader == 2, "the recommended replica leads")
    heal(cluster, shell, "longer")
    assert values(shell, "longer") == list(range(30))
    ends = cluster.admin().describe_replicas([1, 2, 3])
    found = [each for n in (1, 2, 3) for each in ends[n].replicas.values() if each.topic == "longer"]
    assert {each.log_end_offset for each in found} == {30}


def test_the_shown_loss_is_exactly_what_is_lost(cluster: LocalCluster, shell: CommandLine) -> None:
    """Against the recommendation node 3 is elected: the 20 records that were shown are gone, no others; the
    controller logs the election."""
    without_leader(cluster, shell, "shorter")
    refused = shell("partition", "recover", "-t", "shorter", "--elect", "1", "--yes")
    assert (refused[0], "node 1 has no live replica" in refused[2]) == (2, True)
    report = shell.json("partition", "recover", "-t", "shorter", "-p", "0")["partitions"][0]
    (row,) = [row for row in report["replicas"] if row["node"] == 3]
    code, _, err = shell("partition", "recover", "-t", "shorter", "--elect", "3", "--yes")
    assert (code, f"loses {row['lost']} records" in err) == (0, True), err
    wait_for(lambda: partition(cluster, "shorter").leader == 3, "the chosen replica leads")
    heal(cluster, shell, "shorter")
    assert values(shell, "shorter") == list(range(30 - row["lost"]))
    assert values(shell, "shorter")[-1] + 1 == row["diverges_at"]
    assert shell("partition", "recover", "-t", "shorter", "-p", "0")[0] == 2, "it has a leader"
