"""Alerts of servers, requests and coordinators, in a cluster of processes."""

import contextlib
import os
import resource
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import headrace
import password_flood
import pytest
import request_flood
from alert_cluster import HOST, AlertCluster, first_segment, hang_reads, limit_descriptors, port_of, release
from alerting import AlertWatch
from fault_cluster import Raw, Server
from headrace import TopicPartition
from headrace.protocol.coordinator_ids import partition_of_id
from headrace.protocol.messages import registry
from headrace.protocol.messages.data import ProducePartition, ProduceRequest
from log_rig import batch

pytestmark = pytest.mark.xdist_group("alerts")  # one cluster for all

OFFSETS = "__consumer_offsets"
FETCHES, CONNECTIONS = 5_200, 26  # more than the rule allows to wait
LONG_MS = 90_000
GROUPS = 4
DESCRIPTORS, SPARE_DESCRIPTORS = 60, 15  # for connections, and for files of the node


@contextlib.contextmanager
def connections(
    cluster: AlertCluster, node: Server, count: int, name: str = "observer-0"
) -> Iterator[list[Raw]]:
    """Native connections to a node."""
    made = [cluster.raw(node, name) for _ in range(count)]
    yield made
    for each in made:
        each.close()


@contextlib.contextmanager
def flooding(port: int) -> Iterator[None]:
    """A process that sends requests to a Kafka listener."""
    flood = subprocess.Popen([sys.executable, request_flood.__file__, str(port)])
    try:
        yield
    finally:
        flood.kill()
        flood.wait()


def commit(cluster: AlertCluster, group: str, topic: str) -> TopicPartition:
    """Commit an offset; the partition with the group's log."""
    with cluster.clients.admin() as admin:
        admin.alter_group_offsets(group, {TopicPartition(topic, 0): 0}, create=True).raise_for_errors()
    return TopicPartition(OFFSETS, partition_of_id(group, len(cluster.image().topics[OFFSETS].partitions)))


def lead(cluster: AlertCluster, tp: TopicPartition, node: Server) -> None:
    """Let this replica lead the partition."""
    replicas = cluster.partition(*tp).replicas
    order = (node.id, *(each for each in replicas if each != node.id))
    with cluster.clients.admin() as admin:
        admin.alter_partition_reassignments({tp: order}).raise_for_errors()
        cluster.until(lambda: cluster.partition(*tp).replicas == order, f"node {node.id} is preferred")
        admin.elect_leaders(headrace.ElectionType.PREFERRED, [tp])
    cluster.until(lambda: cluster.leader(*tp) == node.id, f"node {node.id} leads {tp}")


@pytest.mark.faults
@pytest.mark.alerts("HeadraceServerRestarts")
def test_server_that_is_killed_again_and_again(
    cluster: AlertCluster, watch: AlertWatch, fault: Callable
) -> None:
    node = cluster.nodes[1]
    started = f'process_start_time_seconds{{instance="{HOST}:{port_of(node, "metrics")}"}}'

    def restart() -> None:
        began = watch.server.value(started)
        node.kill()
        node.start()
        watch.server.wait_for(f"{started} > {began}", "the new process is scraped")

    with fault(watch) as fires:
        fires(each=restart)


@pytest.mark.faults
@pytest.mark.alerts("HeadraceEventLoopBusy", "HeadraceEventLoopSaturated")
def test_flood_of_requests(cluster: AlertCluster, watch: AlertWatch, fault: Callable) -> None:
    """At a node that was just started: the ratio is that of a minute."""
    node = cluster.nodes[1]
    with fault(watch) as fires:
        node.stop()
        node.start()
        assert node.process is not None
        with contextlib.suppress(PermissionError):  # a busy machine leaves no CPU to use up
            os.setpriority(os.PRIO_PROCESS, node.process.pid, -15)
        with flooding(port_of(node, "PLAINTEXT")):
            fires()


@pytest.mark.alerts("HeadraceFileDescriptorsLow")
def test_many_connections_under_a_low_limit(
    cluster: AlertCluster, watch: AlertWatch, fault: Callable
) -> None:
    node, opened = cluster.nodes[1], []
    address = (HOST, port_of(node, "PLAINTEXT"))
    assert node.process is not None
    with fault(watch) as fires, contextlib.ExitStack() as stack:

        def connect() -> None:
            if len(opened) < DESCRIPTORS - SPARE_DESCRIPTORS:
                opened.append(stack.enter_context(socket.create_connection(address)))

        before = limit_descriptors(node, DESCRIPTORS)
        stack.callback(resource.prlimit, node.process.pid, resource.RLIMIT_NOFILE, before)
        fires(each=connect)


@pytest.mark.alerts("HeadracePurgatoryLarge")
def test_fetches_that_wait(cluster: AlertCluster, watch: AlertWatch, fault: Callable) -> None:
    """Very many consumers of an empty topic."""
    topic_id = cluster.create("empty", 1)
    with fault(watch) as fires, connections(cluster, cluster.node(1), CONNECTIONS) as made:
        waiting = [
            cluster.network.thread.submit(each._client.fetch(topic_id, max_wait_ms=LONG_MS))
            for each in made
            for _ in range(FETCHES // CONNECTIONS)
        ]
        fires()
        made[0].begin_produce(topic_id, b"for all")
        for each in waiting:
            each.result(LONG_MS / 1000)
    cluster.delete("empty")


@pytest.mark.faults
@pytest.mark.alerts("HeadraceAuthenticationFailures")
def test_wrong_passwords(cluster: AlertCluster, watch: AlertWatch, fault: Callable) -> None:
    address = (HOST, port_of(cluster.node(1), "SASL_PLAINTEXT"))
    with fault(watch) as fires:
        fires(each=lambda: password_flood.flood_kafka(address, "PLAIN", 1, 4))


@pytest.mark.faults
@pytest.mark.alerts("HeadraceClientsThrottled")
def test_clients_above_their_quota(cluster: AlertCluster, watch: AlertWatch, fault: Callable) -> None:
    """They share the quota of their client id."""
    topic_id = cluster.create("throttled", 1)
    entity = headrace.quota_entity(client_id="client-9")
    with (
        fault(watch) as fires,
        connections(cluster, cluster.node(1), 8, "client-9") as made,
        cluster.clients.admin() as admin,
    ):
        admin.alter_client_quotas({entity: {"producer_byte_rate": 10_000}}).raise_for_errors()

        def send() -> None:
            for each in [each.begin_produce(topic_id, bytes(1_000)) for each in made]:
                each.result(60)

        fires(each=send)
        admin.alter_client_quotas({entity: {"producer_byte_rate": None}}).raise_for_errors()
    cluster.delete("throttled")


@pytest.mark.faults
@pytest.mark.alerts("HeadraceFetchFails")
def test_fetches_behind_the_end(cluster: AlertCluster, watch: AlertWatch, fault: Callable) -> None:
    """A consumer that goes on with an offset that the log does not have."""
    topic_id = cluster.create("short", 1)
    with fault(watch) as fires, connections(cluster, cluster.node(1), 1) as (raw,):
        fires(each=lambda: [raw.fetch(topic_id, 1_000_000) for _ in range(10)])
    cluster.delete("short")


@pytest.mark.faults
@pytest.mark.alerts("HeadraceTransactionsUnverified")
def test_zombie_of_a_transaction(cluster: AlertCluster, watch: AlertWatch, fault: Callable) -> None:
    """It goes on after the end of its transaction."""
    topic_id = cluster.create("transactional", 1)
    with cluster.clients.producer(transactional_id="zombie") as producer, producer.transaction():
        producer.send("transactional", b"x")
    with cluster.clients.admin() as admin:
        known = admin.fence_producers("zombie")["zombie"]
    settings: dict[str, Any] = {"producer_id": known.producer_id, "producer_epoch": known.producer_epoch}
    data = batch(timestamp=time.time_ns() // 1_000_000, base_sequence=0, is_transactional=True, **settings)
    partitions = (ProducePartition(topic_id, 0),)
    body = ProduceRequest(-1, 5_000, partitions, transactional_id="zombie", adds_partitions=False)
    with fault(watch) as fires, connections(cluster, cluster.node(1), 1) as (raw,):

        def go_on() -> None:
            sent = cluster.network.thread.submit(raw._client.ask(registry.PRODUCE, body, [data]))
            assert sent.result(60).body.partitions[0].error_code

        fires(each=go_on)
    cluster.delete("transactional")


@pytest.mark.faults
@pytest.mark.alerts("HeadraceRebalances")
def test_members_that_come_and_go(cluster: AlertCluster, watch: AlertWatch, fault: Callable) -> None:
    cluster.create("read", 1)

    def join(number: int) -> None:
        with cluster.clients.consumer("read", group_id=f"restless-{number}") as consumer:
            cluster.until(lambda: not consumer.poll(0.05) and consumer.assignment(), "it has its partition")

    with fault(watch) as fires, ThreadPoolExecutor(GROUPS) as pool:
        fires(each=lambda: list(pool.map(join, range(GROUPS))))
    cluster.delete("read")


@pytest.mark.alerts("HeadraceCoordinatorFailed")
def test_corrupt_log_of_a_coordinator(cluster: AlertCluster, watch: AlertWatch, fault: Callable) -> None:
    """The replica with the corrupt batch leads, until one leads that is intact."""
    cluster.create("committed", 1)
    tp = commit(cluster, "corrupt", "committed")
    cluster.until_in_sync(OFFSETS)
    intact = cluster.node(cluster.leader(*tp))
    damaged = cluster.node(cluster.follower(*tp))
    with fault(watch) as fires, first_segment(damaged, tp).open("r+b") as file:
        file.seek(-1, 2)
        place, before = file.tell(), file.read(1)
        for byte, node in ((bytes([before[0] ^ 255]), damaged), (before, intact)):
            file.seek(place)
            file.write(byte)
            file.flush()
            lead(cluster, tp, node)
            if node is damaged:
                fires()
    cluster.delete("committed")


@pytest.mark.alerts("HeadraceCoordinatorLoading")
def test_disk_that_hangs_under_a_coordinator(
    cluster: AlertCluster, watch: AlertWatch, fault: Callable
) -> None:
    """The new leader reads the log."""
    cluster.create("committed", 1)
    tp = commit(cluster, "slow", "committed")
    cluster.until_in_sync(OFFSETS)
    follower = cluster.node(cluster.follower(*tp))
    with fault(watch) as fires:
        hang_reads(follower)
        lead(cluster, tp, follower)
        fires()
        release(follower)
    cluster.delete("committed")
