"""`headrace balance` against four nodes that replicate: proposals, moves, interrupts."""

from collections.abc import Iterator
from typing import Any

import pytest
from command_line import CommandLine
from headrace.clients.admin.admin_types import NewTopic
from headrace.clients.sync.admin_io import Admin
from headrace.services.local_io import LocalCluster, local
from waiting import wait_for

RECORD = b"x" * 1000


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with local(nodes=4, broker_session_timeout_ms=3_000) as cluster:
        yield cluster


@pytest.fixture
def admin(cluster: LocalCluster) -> Admin:
    return cluster.admin()


@pytest.fixture
def shell(cluster: LocalCluster, command_line: CommandLine) -> CommandLine:
    return command_line.at(cluster.bootstrap)


def skewed(cluster: LocalCluster, name: str, partitions: int = 6, records: int = 200) -> None:
    """A topic that is on nodes 1 and 2 only, led by 1, with records of 1000 bytes."""
    places = dict.fromkeys(range(partitions), (1, 2))
    cluster.admin().create_topics(NewTopic(name, assignments=places)).raise_for_errors()
    with cluster.producer(linger_ms=5) as producer:
        for number in range(records):
            producer.send(name, RECORD, partition=number % partitions)


def replicas(admin: Admin, name: str) -> dict[int, tuple[int, ...]]:
    return {part.partition: part.replicas for part in admin.describe_topics(name)[name].partitions}


def throttles(shell: CommandLine, name: str) -> list[Any]:
    """All throttle configs that are set, of the topic and of the nodes."""
    nodes = [option for number in range(1, 5) for option in ("--node", str(number))]
    rows = shell.json("config", "describe", "--topic", name, *nodes)
    return [row for row in rows if "throttled" in row["key"]]


def test_a_proposal_moves_nothing_and_the_same_moves_are_carried_out(
    cluster: LocalCluster, shell: CommandLine, admin: Admin
) -> None:
    """Six partitions on two of four nodes: the plan has the copies with their bytes and its duration; then
    they move under a throttle, which is gone afterwards, no record is lost, and nothing is left to do."""
    skewed(cluster, "skew")
    limit = ("-t", "skew", "--sample", "0", "--throttle", "50000000")
    proposed = shell.json("balance", *limit)
    assert replicas(admin, "skew") == dict.fromkeys(range(6), (1, 2)), "nothing has moved"
    copied = [move for move in proposed["moves"] if move["copies"]]
    assert sum(len({*move["to"]} - {*move["from"]}) for move in copied) == 6, "half of the replicas"
    assert all(move["copies"] > 30_000 for move in copied)
    assert proposed["copied_bytes"] == sum(move["copies"] for move in proposed["moves"])
    assert proposed["expected_s"] is not None
    goals = {row["goal"]: row for row in proposed["goals"]}
    assert goals["replicas"]["after"] < goals["replicas"]["before"]

    code, _, err = shell("balance", *limit, "--execute", "--max-concurrent", "2")
    assert code == 0, err
    moved = {move["partition"]: tuple(move["to"]) for move in proposed["moves"]}
    assert {number: set(found) for number, found in replicas(admin, "skew").items()} == {
        number: set(moved.get(number, (1, 2))) for number in range(6)
    }
    assert throttles(shell, "skew") == []
    assert len(shell("consume", "skew", "-o", "beginning", "-e")[1].split()) == 200
    assert shell.json("balance", *limit)["moves"] == []


def test_an_interrupted_run_leaves_nothing_in_progress(
    cluster: LocalCluster, shell: CommandLine, admin: Admin, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C while copies crawl under a tiny throttle: they are cancelled, the throttle is gone, the message
    says how to continue; a repeated run without a throttle completes the balance."""
    from headrace.services.balance.execution import Execution

    skewed(cluster, "slow", records=600)
    begun = []

    def interrupted(_run: Execution) -> Iterator[object]:
        begun.append(len(admin.list_partition_reassignments()))
        if begun[-1]:
            raise KeyboardInterrupt
        return iter(())

    monkeypatch.setattr(Execution, "_watch_nodes", interrupted)
    slow = ("balance", "-t", "slow", "--sample", "0", "--goal", "replicas")
    code, _, err = shell(*slow, "--execute", "--throttle", "1000")
    assert (code, begun[-1] > 0) == (130, True), err
    assert "`headrace balance --execute` continues" in err
    assert admin.list_partition_reassignments() == {}
    assert throttles(shell, "slow") == []
    assert replicas(admin, "slow") == dict.fromkeys(range(6), (1, 2))
    monkeypatch.undo()
    code, _, err = shell(*slow, "--execute")
    assert code == 0, err
    assert shell.json(*slow)["moves"] == []


def test_cancel_cleans_up_after_a_killed_run(cluster: LocalCluster, shell: CommandLine, admin: Admin) -> None:
    """What a killed run leaves: a move under a throttle. `balance cancel` ends both."""
    skewed(cluster, "left", partitions=1, records=600)
    move = '{"partitions": [{"topic": "left", "partition": 0, "replicas": [3, 4]}]}'
    assert shell("partition", "reassign", "--execute", move, "--throttle", "1000")[0] == 0
    assert throttles(shell, "left")
    code, _, err = shell("balance", "cancel")
    assert (code, "cancelled 1 moves" in err) == (0, True), err
    assert admin.list_partition_reassignments() == {}
    assert throttles(shell, "left") == []
    wait_for(lambda: replicas(admin, "left") == {0: (1, 2)}, "the move is undone")


def test_traffic_is_measured_by_the_nodes(cluster: LocalCluster, admin: Admin) -> None:
    """Bytes that clients wrote and read, by partition, on the replica that served them."""
    skewed(cluster, "busy", partitions=1, records=100)
    with cluster.consumer("busy", auto_offset_reset="earliest") as consumer:
        got = 0
        while got < 100:
            got += len(consumer.poll(1.0))
    found = admin.describe_replicas([1, 2])
    (leader,) = [each for each in found[1].replicas.values() if each.topic == "busy"]
    (follower,) = [each for each in found[2].replicas.values() if each.topic == "busy"]
    assert leader.produced_bytes >= 100 * len(RECORD)
    assert leader.fetched_bytes >= 100 * len(RECORD)
    assert (follower.produced_bytes, follower.fetched_bytes) == (0, 0)
    assert (leader.log_end_offset, follower.log_end_offset) == (100, 100)


def test_a_watched_cluster_is_balanced_by_itself(
    cluster: LocalCluster, shell: CommandLine, admin: Admin, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With balance.enable=false it only says that it is paused; then it moves what is due, and rests."""
    from headrace.services.balance.watching import ENABLE

    skewed(cluster, "watched", partitions=12)
    said: list[str] = []

    def report(text: str) -> None:
        said.append(text)
        if text.startswith("paused: balance.enable"):
            assert shell("config", "alter", "--cluster-wide", "--set", "balance.enable=true")[0] == 0
        elif text == "balanced":
            raise KeyboardInterrupt

    monkeypatch.setattr("headrace.services.cli.balance.note", report)
    assert shell("config", "alter", "--cluster-wide", "--set", f"{ENABLE}=false")[0] == 0
    watch = ("balance", "--watch", "--interval", "0.1", "--settle", "0", "--sample", "0")
    code, _, err = shell(*watch, "--goal", "replicas", "--goal", "leaders")
    assert code == 130, err
    steps = [text.partition(":")[0].partition(" ")[0] for text in said]
    assert [steps[0], steps[-1], "moving" in steps] == ["paused", "balanced", True], said
    assert {node for part in replicas(admin, "watched").values() for node in part} == {1, 2, 3, 4}
