"""The commands for operators, against three nodes that replicate: describe, elect, reassign, drain, list."""

from pathlib import Path
from typing import Any

from command_line import CommandLine
from headrace.services.local_io import LocalCluster, local
from waiting import wait_for


def partitions(shell: CommandLine, topic: str) -> Any:
    return shell.json("topic", "describe", topic)[0]["partitions"]


def test_drain_reassignment_and_a_dead_node(tmp_path: Path, command_line: CommandLine) -> None:
    """A topic with three replicas; a node is drained and returns; a partition moves to two nodes and is read
    there; a node dies, is listed as missing, and returns."""
    with local(nodes=3, data_dir=str(tmp_path), broker_session_timeout_ms=3_000) as cluster:
        shell = command_line.at(cluster.bootstrap)
        made = shell.json("topic", "create", "t", "-p", "3", "-r", "3", "-X", "min.insync.replicas=2")
        assert made[0]["replication_factor"] == 3
        wait_for(lambda: all(len(p["isr"]) == 3 for p in partitions(shell, "t")), "all replicas are in sync")
        assert shell("produce", "t", data=b"1\n2\n3\n")[0] == 0
        assert shell.json("topic", "describe", "--under-replicated") == []
        drain_and_return(shell)
        move(shell, tmp_path)
        lose_and_regain(shell, cluster)
        assert sorted(shell("consume", "t", "-o", "beginning", "-e")[1].split()) == ["1", "2", "3"]


def drain_and_return(shell: CommandLine) -> None:
    """The drained node leads nothing and is not elected until the drain is taken back."""
    drained = shell.json("node", "drain", "1", "--wait", "--timeout", "60")
    assert drained == {"node_id": 1, "state": "drained", "leaders_left": 0, "below_min_isr": 0}
    wait_for(lambda: shell.json("node", "list")[0]["state"] == "shutting_down", "the node is draining")
    wait_for(lambda: shell.json("node", "list")[0]["leaders"] == 0, "the drained node leads nothing")
    first = next(p for p in partitions(shell, "t") if p["replicas"][0] == 1)
    place = ("-t", "t", "-p", str(first["partition"]))
    code, _, err = shell("partition", "elect", "--preferred", *place)
    assert (code, "PreferredLeaderNotAvailableError" in err) == (1, True)
    assert shell.json("node", "drain", "1", "--cancel")["state"] == "active"
    elect = ("partition", "elect", "--preferred", *place)
    wait_for(lambda: shell(*elect)[0] == 0, "node 1 is in sync again")

    def leads_again() -> bool:
        now = partitions(shell, "t")[first["partition"]]
        return now["leader"] == 1 and all(
            now[name] > first[name] for name in ("leader_epoch", "partition_epoch")
        )

    wait_for(leads_again, "the preferred leader leads")
    assert shell.json(*elect) == [{"topic": "t", "partition": first["partition"], "result": "not needed"}]


def move(shell: CommandLine, folder: Path) -> None:
    """A reassignment plan, from its generation to its completion."""
    code, text, _ = shell("partition", "reassign", "--generate", "-t", "t", "--nodes", "2,3", "-r", "2")
    assert code == 0
    plan = folder / "plan.json"
    plan.write_text(text)
    code, back, err = shell("partition", "reassign", "--execute", str(plan), "--throttle", "100000000")
    assert code == 0, err
    wait_for(
        lambda: shell("partition", "reassign", "--verify", str(plan))[0] == 0, "the reassignment is complete"
    )
    assert shell.json("partition", "reassign", "--list") == []
    wait_for(lambda: replicas(shell) == [[2, 3]] * 3, "every node has the metadata")
    code, _, err = shell("partition", "reassign", "--cancel", str(plan))
    assert (code, "NoReassignmentInProgressError" in err) == (1, True)
    assert shell("partition", "reassign", "--execute", back)[0] == 0
    wait_for(
        lambda: shell("partition", "reassign", "--verify", back)[0] == 0,
        "the partition has its original replicas",
    )
    wait_for(lambda: replicas(shell) == [[1, 2, 3]] * 3, "every node has the metadata")


def replicas(shell: CommandLine) -> list[list[int]]:
    return [sorted(part["replicas"]) for part in partitions(shell, "t")]


def lose_and_regain(shell: CommandLine, cluster: LocalCluster) -> None:
    """A dead node is fenced, and its partitions are listed with missing replicas; it cannot be
    unregistered."""
    cluster.kill_node(2)
    wait_for(lambda: shell.json("node", "list")[2]["state"] == "fenced", "node 3 is fenced")

    def offline(name: str) -> Any:
        found = shell.json("topic", "describe", name)
        return [part["offline_replicas"] for topic in found for part in topic["partitions"]]

    for name in ("--at-min-isr", "--under-replicated"):
        wait_for(lambda name=name: offline(name) == [[3]] * 3, f"two of three are in sync: {name}")
    assert shell.json("topic", "describe", "--under-min-isr", "--unavailable") == []
    status = cluster.status()["controllers"][0]["metrics"]
    assert (status["FencedBrokerCount"], status["ActiveBrokerCount"]) == (1, 2)
    assert (status["ActiveControllerCount"], status["OfflinePartitionsCount"]) == (1, 0)
    assert status["LeaderElectionRateAndTimeMs"]["count"] > 0
    assert status["UncleanLeaderElectionsPerSec"] == {"count": 0}

    def counted(name: str) -> int:
        alive = [node for node in cluster.status()["nodes"] if node["node_id"] != 3]
        return sum(node["metrics"][name] for node in alive)

    for name in ("AtMinIsrPartitionCount", "UnderReplicatedPartitions"):
        wait_for(lambda name=name: counted(name) == 3, f"the leaders know it: {name}")
    code, _, err = shell("node", "unregister", "3", "--yes")
    assert (code, "replicas" in err) == (1, True)
    cluster.restart_node(2)
    wait_for(lambda: all(len(p["isr"]) == 3 for p in partitions(shell, "t")), "node 3 is in sync again")
    assert sum(node["metrics"]["IsrExpandsPerSec"]["count"] for node in cluster.status()["nodes"]) >= 3
