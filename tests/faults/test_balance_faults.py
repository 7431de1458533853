"""`headrace balance` and `headrace node remove` as processes, in a cluster of processes: the source, the
destination, the active controller or the command is killed or paused while moves are in progress."""

import json
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import headrace
import pytest
from fault_cluster import FaultCluster, Server
from fault_workload import Workload
from headrace.services.balance.removal import CORDON
from headrace.services.replication_throttle import FETCHING, RATES, SENDING
from operator_command import OperatorCommand
from waiting import PATIENCE_S

RECORDS, RECORD_BYTES = 6_000, 1_000  # of the topic that makes moves last
PACE = ("--throttle", "600000", "--max-concurrent", "6")
GOALS = ("--sample", "0", "--goal", "replicas", "--goal", "leaders")
BALANCE = ("balance", "--execute", *GOALS, *PACE)
REMOVE = ("node", "remove", "4", "--yes", *PACE)
TOPICS = ("t", "bulk")
LEFT = {SENDING, FETCHING, *RATES, CORDON}


def faults(command: str) -> list[Any]:
    """Every victim killed and paused. Only a killed balance is short enough for every run of the tests."""
    short = ("balance", "command", "kill")
    return [
        pytest.param(victim, fault, marks=[] if (command, victim, fault) == short else [pytest.mark.faults])
        for victim in ("source", "destination", "controller", "command")
        for fault in ("kill", "pause")
    ]


def loaded(cluster: FaultCluster, *nodes: int) -> Workload:
    """Two topics with replicas on these nodes: one is under load, the other has six megabytes."""
    with cluster.clients.admin() as admin:
        for name, count in (("t", 2), ("bulk", 4)):
            places = {n: (*nodes[n % 3 :], *nodes[: n % 3]) for n in range(count)}
            made = headrace.NewTopic(name, assignments=places, configs={"min.insync.replicas": 2})
            admin.create_topics(made).raise_for_errors()
    for name in TOPICS:
        cluster.until_in_sync(name)
        cluster.until_serving(name)
    with headrace.Producer(cluster.bootstrap, client_id="observer-2", acks="all") as producer:
        for number in range(RECORDS):
            producer.send("bulk", b"%d" % number + b" " * RECORD_BYTES, partition=number % 4)
    return Workload(cluster, "t").start()


def moving(cluster: FaultCluster) -> list[Any]:
    """The registrations of partitions that are being reassigned."""
    topics = cluster.image().topics
    parts = [part for name in TOPICS for part in topics[name].partitions]
    return [part for part in parts if part.adding_replicas or part.removing_replicas]


def victim_of(cluster: FaultCluster, kind: str) -> Server:
    """The server that the fault hits, by its role in a move in progress."""
    if kind == "controller":
        return cluster.active_controller
    part = next(part for part in moving(cluster) if part.adding_replicas and part.leader >= 0)
    return cluster.node(part.leader if kind == "source" else part.adding_replicas[0])


def hit(cluster: FaultCluster, victim: Server, fault: str) -> None:
    """Kill or pause a server until another one has replaced it; then it returns."""
    before = cluster.quorum().leader_id
    victim.kill() if fault == "kill" else victim.pause()
    if victim in cluster.controllers:
        cluster.until(lambda: cluster.quorum().leader_id != before, "another controller is active")
    else:
        cluster.until(lambda: cluster.is_fenced(victim.id), f"{victim.name} is fenced")
    victim.start() if fault == "kill" else victim.resume()


def hit_command(cluster: FaultCluster, command: OperatorCommand, fault: str) -> None:
    """Kill the command, or pause it until the moves that it has begun are complete."""
    if fault == "kill":
        command.kill()
        return
    command.process.send_signal(signal.SIGSTOP)
    cluster.until(lambda: not moving(cluster), "moves end without the command")
    command.process.send_signal(signal.SIGCONT)


def left_behind(cluster: FaultCluster) -> list[Any]:
    """Moves in progress, throttles and cordons."""
    configs = cluster.image().configs
    return [*moving(cluster), *(key for key, values in configs.items() if not LEFT.isdisjoint(values))]


def check(cluster: FaultCluster, work: Workload) -> None:
    """Nothing is left of the command; each partition has three replicas in sync, and each acknowledged record
    is there once."""
    for name in TOPICS:
        cluster.until_in_sync(name)
        assert {len(part.replicas) for part in cluster.image().topics[name].partitions} == {3}
    assert left_behind(cluster) == []
    work.more()
    work.finish()
    assert work.unknown == 0, work.errors
    found: list[int] = []
    with cluster.clients.consumer("bulk", auto_offset_reset="earliest") as consumer:
        while len(found) < RECORDS:
            records = consumer.poll(PATIENCE_S)
            assert records, f"only {len(found)} of {RECORDS} records are there"
            found += [int(record.value) for record in records]
    assert sorted(found) == list(range(RECORDS))


@pytest.fixture
def loaded_cluster(make_cluster: Callable[..., FaultCluster]) -> FaultCluster:
    """Three controllers, so that another one becomes active, and four nodes."""
    return make_cluster(nodes=4, controllers=3)


@pytest.mark.parametrize(("victim", "fault"), faults("balance"))
def test_a_balance_survives_a_fault(
    loaded_cluster: FaultCluster, tmp_path: Path, victim: str, fault: str
) -> None:
    """The command carries on, or the next one settles what is left of it, before it continues."""
    cluster = loaded_cluster
    work = loaded(cluster, 1, 2, 3)
    command = OperatorCommand(cluster, tmp_path, *BALANCE)
    cluster.until(lambda: moving(cluster), "moves are in progress", evidence=lambda: command.text)
    if victim == "command":
        hit_command(cluster, command, fault)
    else:
        hit(cluster, victim_of(cluster, victim), fault)
    if (victim, fault) == ("command", "kill"):
        assert left_behind(cluster), "the fault came too late"
        command = OperatorCommand(cluster, tmp_path, *BALANCE)
        command.until_says("moves that are in progress; `headrace balance cancel` cancels them")
        command.until_says("removed the throttles that an interrupted run left on bulk, t")
    assert command.ended() == 0, command.text
    check(cluster, work)
    proposal = OperatorCommand(cluster, tmp_path, "balance", *GOALS, "-o", "json")
    assert proposal.ended() == 0
    assert json.loads(proposal.text.partition("\nnothing to move")[0])["moves"] == [], proposal.text


@pytest.mark.parametrize(("victim", "fault"), faults("remove"))
def test_a_removal_survives_a_fault(
    loaded_cluster: FaultCluster, tmp_path: Path, victim: str, fault: str
) -> None:
    """Node 4 leaves in the end. A killed command is repeated."""
    cluster = loaded_cluster
    work = loaded(cluster, 4, 1, 2)
    command = OperatorCommand(cluster, tmp_path, *REMOVE)
    cluster.until(lambda: moving(cluster), "moves are in progress", evidence=lambda: command.text)
    if victim == "command":
        hit_command(cluster, command, fault)
    else:
        hit(cluster, victim_of(cluster, victim), fault)
    if (victim, fault) == ("command", "kill"):
        command = OperatorCommand(cluster, tmp_path, *REMOVE)
    command.until_says("stop its process now")
    cluster.node(4).stop()
    assert command.ended() == 0, command.text
    assert 4 not in cluster.image().brokers
    check(cluster, work)


@pytest.mark.faults
def test_a_removed_node_that_dies_is_emptied_from_the_others(
    loaded_cluster: FaultCluster, tmp_path: Path
) -> None:
    """Node 4 is killed for good while its replicas are moved: the copies go on from the other replicas."""
    cluster = loaded_cluster
    work = loaded(cluster, 4, 1, 2)
    command = OperatorCommand(cluster, tmp_path, *REMOVE)
    cluster.until(lambda: moving(cluster), "moves are in progress", evidence=lambda: command.text)
    cluster.node(4).kill()
    assert command.ended() == 0, command.text
    assert 4 not in cluster.image().brokers
    check(cluster, work)
