"""`headrace partition recover` with replicas that have diverged, and were wiped, cut, torn and corrupted: the
loss that it shows for each is the loss of its election, counted in values that producers had acknowledged."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from command_line import CommandLine
from headrace.clients.admin.admin_types import NewTopic
from headrace.services.local_io import LocalCluster, local
from waiting import wait_for

REPLICAS = (1, 2, 3, 4)
BASE, ALONE = 6, {1: 9, 2: 3, 3: 5, 4: 2}  # records of all replicas, then of each as the only one in sync


def batch_starts(data: bytes) -> list[int]:
    """The position of each batch, and the end of the last one."""
    starts = [0]
    while starts[-1] < len(data):
        starts.append(starts[-1] + 12 + int.from_bytes(data[starts[-1] + 8 : starts[-1] + 12], "big"))
    return starts


def wipe(folder: Path) -> int:
    shutil.rmtree(folder)
    return 0


def cut(folder: Path) -> int:
    """The log ends earlier, after a whole batch."""
    (log,) = folder.glob("*.log")
    data = log.read_bytes()
    log.write_bytes(data[: batch_starts(data)[BASE + 4]])
    return BASE + 4


def tear(folder: Path) -> int:
    """The last batch is not complete."""
    (log,) = folder.glob("*.log")
    data = log.read_bytes()
    log.write_bytes(data[:-10])
    return len(batch_starts(data)) - 2


def corrupt(folder: Path) -> int:
    """One bit of the last batch is another one."""
    (log,) = folder.glob("*.log")
    data = bytearray(log.read_bytes())
    data[-1] ^= 1
    log.write_bytes(data)
    return len(batch_starts(bytes(data))) - 2


# Node 1 was killed before its first checkpoint: without the folder its log is empty, as on a new disk. Node 3
# knows that it had records, so that its replica is offline.
# topic -> (damaged replica, damage, which returns the number of records that are left), elected replica
CASES: dict[str, tuple[int, Callable[[Path], int] | None, int]] = {
    "whole-1": (1, None, 1),
    "whole-2": (1, None, 2),
    "whole-3": (1, None, 3),
    "wiped": (1, wipe, 3),
    "wiped-elected": (1, wipe, 1),
    "missing": (3, wipe, 2),
    "cut": (1, cut, 1),
    "torn": (2, tear, 2),
    "corrupt": (3, corrupt, 3),
    "corrupt-other": (3, corrupt, 1),
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    """Node 5 has no replica, and is always alive."""
    with local(nodes=5, broker_session_timeout_ms=1_500) as cluster:
        yield cluster


def produce(cluster: LocalCluster, tag: str, count: int) -> None:
    """One batch for each record."""
    with cluster.producer(acks="all", linger_ms=0) as producer:
        for number in range(count):
            sent = [producer.send(name, f"{tag}{number}".encode()) for name in CASES]
            for each in sent:
                each.result(60)


def states(cluster: LocalCluster) -> dict[str, Any]:
    found = cluster.admin().describe_topics(*CASES)
    return {name: found[name].partitions[0] for name in CASES}


def until_led_by(cluster: LocalCluster, leader: int) -> None:
    wait_for(lambda: {part.leader for part in states(cluster).values()} == {leader}, f"{leader} leads all")


def until_active(shell: CommandLine, *node_ids: int) -> None:
    def is_so() -> bool:
        active = {row["node_id"] for row in shell.json("node", "list") if row["state"] == "active"}
        return active.issuperset(node_ids)

    wait_for(is_so, f"{node_ids} are active")


def diverge(cluster: LocalCluster, shell: CommandLine) -> None:
    """Each replica in turn was the only one in sync, and wrote other records after the common ones; in the
    end all are dead."""
    topics = [NewTopic(name, assignments={0: REPLICAS}, configs={"min.insync.replicas": 1}) for name in CASES]
    cluster.admin().create_topics(*topics).raise_for_errors()
    wait_for(lambda: all(len(part.isr) == 4 for part in states(cluster).values()), "all are in sync")
    produce(cluster, "base-", BASE)
    for node_id in (2, 3, 4):
        cluster.kill_node(node_id - 1)
    wait_for(lambda: all(part.isr == (1,) for part in states(cluster).values()), "node 1 is alone")
    for node_id in REPLICAS:
        if node_id > 1:
            cluster.restart_node(node_id - 1)
            until_active(shell, node_id)
            code, _, err = shell("partition", "recover", "--elect", str(node_id), "--yes")
            assert code == 0, err
        until_led_by(cluster, node_id)
        produce(cluster, f"{node_id}-", ALONE[node_id])
        cluster.kill_node(node_id - 1)
        until_led_by(cluster, -1)


def damaged_logs(cluster: LocalCluster) -> dict[str, dict[int, list[str]]]:
    """Damage the files; the values that each of the replicas 1 to 3 has afterwards, by topic."""
    logs: dict[str, dict[int, list[str]]] = {}
    for name, (damaged, damage, _) in CASES.items():
        logs[name] = {
            n: [f"base-{k}" for k in range(BASE)] + [f"{n}-{k}" for k in range(ALONE[n])] for n in (1, 2, 3)
        }
        if damage is not None:
            (folder,) = cluster.data_dir.glob(f"node-{damaged}/{name}-0")
            logs[name][damaged] = logs[name][damaged][: damage(folder)]
    del logs["missing"][3]
    return logs


def test_the_loss_of_each_replica_is_the_one_that_is_shown(
    cluster: LocalCluster, command_line: CommandLine
) -> None:
    """Nodes 1, 2 and 3 return, and node 4, the only one in sync, does not. LOST of each replica is the number
    of values that the others have and it has not; after an election exactly these are gone."""
    shell = command_line.at(cluster.bootstrap.split(",")[4])
    diverge(cluster, shell)
    logs = damaged_logs(cluster)
    for node_id in (1, 2, 3):
        cluster.restart_node(node_id - 1)
    until_active(shell, 1, 2, 3)
    reports = {each["topic"]: each for each in shell.json("partition", "recover")["partitions"]}
    assert reports.keys() == CASES.keys()
    for name, (_, _, elected) in CASES.items():
        known = {value for log in logs[name].values() for value in log}
        rows = {row["node"]: row for row in reports[name]["replicas"]}
        shown = {n: (rows[n]["end"], rows[n]["lost"]) for n in logs[name]}
        assert shown == {n: (len(log), len(known.difference(log))) for n, log in logs[name].items()}, name
        assert reports[name]["silent"] == [n for n in REPLICAS if n not in logs[name]]
        assert all(rows[n]["lost_committed"] <= rows[n]["lost"] for n in logs[name])
        code, _, err = shell("partition", "recover", "-t", name, "--elect", str(elected), "--yes")
        assert code == 0, err
        assert f"loses {rows[elected]['lost']} records that other replicas have" in err
    wait_for(
        lambda: all(logs[name].keys() <= set(part.isr) for name, part in states(cluster).items()),
        "the others follow the leaders",
    )
    for name, (_, _, elected) in CASES.items():
        found = shell("consume", name, "-o", "beginning", "-e")[1].split()
        assert found == logs[name][elected], name
