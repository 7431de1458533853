"""Scenarios 1 to 7 of RELIABILITY 1.8: servers are killed, stopped, paused and restarted under load."""

import threading
import time
from typing import Any

import headrace
import pytest
from fault_cluster import SESSION_S, FaultCluster, hold
from fault_workload import Workload
from headrace import TopicPartition, errors
from proxy import Way
from waiting import PATIENCE_S

SOME_OR_ALL = [2, pytest.param(5, marks=pytest.mark.faults)]


@pytest.mark.parametrize("bounces", SOME_OR_ALL)
def test_s01_the_leader_is_killed(cluster: Any, measured: Any, bounces: int) -> None:
    """SIGKILL: another node is elected, producers continue before the killed node restarts, and it rejoins
    the ISR."""
    cluster.create_topic("t", 3, min_insync_replicas=2)
    work = Workload(cluster, "t").start()
    begun_s = time.monotonic()
    for _ in range(bounces):
        node = cluster.node(cluster.leader("t"))
        node.kill()
        cluster.until(lambda node=node: cluster.leader("t") != node.id, "another node leads")
        work.more()
        node.start()
        cluster.until_in_sync("t")
    work.more()
    measured(work, begun_s)
    work.finish()
    assert work.unknown == 0, work.errors
    for partition in range(3):
        cluster.until_replicas_agree("t", partition)


@pytest.mark.parametrize("bounces", SOME_OR_ALL)
def test_s02_the_leader_is_stopped(cluster: Any, measured: Any, bounces: int) -> None:
    """SIGTERM: leadership moves before the process ends, and no session expires."""
    cluster.create_topic("t", 3, min_insync_replicas=2)
    work = Workload(cluster, "t").start()
    begun_s = time.monotonic()
    for _ in range(bounces):
        node = cluster.node(cluster.leader("t"))
        node.stop()
        assert cluster.leader("t") != node.id
        work.more()
        node.start()
        cluster.until_in_sync("t")
    measured(work, begun_s)
    work.finish()
    assert work.unknown == 0, work.errors
    cluster.until_replicas_agree("t")


def test_s03_the_leader_is_paused(cluster: Any, measured: Any) -> None:
    """SIGSTOP for three session timeouts: the resumed old leader acknowledges no pending produce request, and
    serves no uncommitted record."""
    cluster.create_topic("t", min_insync_replicas=2)
    work = Workload(cluster, "t").start()
    begun_s = time.monotonic()
    node = cluster.node(cluster.leader("t"))
    topic_id = cluster.image().topics["t"].topic_id
    raw = cluster.raw(node)
    node.pause()
    late = raw.begin_produce(topic_id, b"to the leader of the past", timeout_ms=10_000)
    cluster.until(lambda: cluster.leader("t") != node.id, "another node leads")
    work.more()
    hold(3 * SESSION_S)
    node.resume()
    assert not raw.is_acknowledged(late)
    raw.close()
    cluster.until_in_sync("t")
    work.more()
    measured(work, begun_s)
    work.finish()  # no consumer may have read the late request's record: the history does not have it
    cluster.until_replicas_agree("t")


def create_until(cluster: FaultCluster, stop: threading.Event) -> dict[str, str]:
    """Create topics one after the other; returns the outcome by name."""
    found: dict[str, str] = {}
    with cluster.clients.admin(default_api_timeout_ms=20_000, request_timeout_ms=3_000) as admin:
        while not stop.is_set():
            name = f"storm-{len(found)}"
            (outcome,) = admin.create_topics(headrace.NewTopic(name, 5, 3)).errors.values() or (None,)
            found[name] = type(outcome).__name__
    return found


@pytest.mark.faults
@pytest.mark.parametrize("controllers", [1, 3])
def test_s04_the_controller_is_killed_in_a_storm_of_topics(
    make_cluster: Any, measured: Any, controllers: int
) -> None:
    """Every acknowledged topic exists with all its partitions, no topic exists in part, and produce
    continues."""
    cluster = make_cluster(controllers=controllers)
    cluster.create_topic("t", min_insync_replicas=2)
    work = Workload(cluster, "t").start()
    begun_s = time.monotonic()
    stop, made = threading.Event(), dict[str, str]()
    storm = threading.Thread(target=lambda: made.update(create_until(cluster, stop)), daemon=True)
    storm.start()
    for _ in range(3):
        before = len(cluster.image().topics)
        cluster.until(
            lambda before=before: len(cluster.image().topics) > before + 5, "more topics are created"
        )
        leader = cluster.active_controller
        leader.kill()
        work.more()
        leader.start()
    stop.set()
    storm.join()
    measured(work, begun_s)
    work.finish()
    # after a lost response the retry finds its own topic
    assert set(made.values()) <= {"NoneType", "TopicAlreadyExistsError", "ApiTimeoutError"}
    topics = cluster.image().topics
    for name, outcome in made.items():
        assert name in topics or outcome == "ApiTimeoutError"
        assert name not in topics or len(topics[name].partitions) == 5
    for name in list(topics)[:3]:
        cluster.until_in_sync(name)


@pytest.mark.faults
def test_s05_two_of_three_controllers_are_killed(make_cluster: Any, measured: Any) -> None:
    """Without a majority the metadata cannot change and live leaders still serve; a majority restores
    both."""
    cluster = make_cluster(controllers=3)
    cluster.create_topic("t", 3, min_insync_replicas=2)
    work = Workload(cluster, "t").start()
    begun_s = time.monotonic()
    leader = cluster.active_controller
    dead = [leader, next(each for each in cluster.controllers if each is not leader)]
    for server in dead:
        server.kill()
    admin = cluster.clients.admin(request_timeout_ms=1_000, default_api_timeout_ms=3_000)
    with pytest.raises((errors.KafkaError, errors.ApiTimeoutError)):
        admin.create_topics(headrace.NewTopic("u")).raise_for_errors()
    hold(2 * SESSION_S)  # no node can be fenced without a controller
    work.more(500)
    measured(work, begun_s)
    for server in dead:
        server.start()
    cluster.create_topic("v")
    work.more()
    work.finish()
    assert work.unknown == 0, work.errors


@pytest.mark.faults
def test_s06_all_nodes_are_killed_together(cluster: Any, measured: Any) -> None:
    """The page cache survives: every acknowledged record is there after the restart."""
    cluster.create_topic("t", 3, min_insync_replicas=2)
    work = Workload(cluster, "t").start()
    begun_s = time.monotonic()
    for _ in range(2):
        for node in cluster.nodes:
            node.kill()
        for node in cluster.nodes:
            node.start(wait=False)
        for node in cluster.nodes:
            node.wait_ready()
        cluster.until_in_sync("t")
        work.more()
    measured(work, begun_s)
    work.finish()
    for partition in range(3):
        cluster.until_replicas_agree("t", partition)


@pytest.mark.faults
def test_s07_all_nodes_are_restarted_one_after_the_other(cluster: Any, measured: Any) -> None:
    """A clean rolling restart under load loses no record and returns no error to a client."""
    cluster.create_topic("t", 6, min_insync_replicas=2)
    work = Workload(cluster, "t", consumers=2).start()
    begun_s = time.monotonic()
    for node in cluster.nodes:
        node.stop()
        node.start()
        cluster.until_in_sync("t")
    work.more()
    measured(work, begun_s)
    work.finish()
    assert not work.errors
    for partition in range(6):
        cluster.until_replicas_agree("t", partition)


@pytest.mark.parametrize("hard", [True, False], ids=["kill", "stop"])
def test_only_replica_recognizes_stored_batches(make_cluster: Any, hard: bool) -> None:
    """Five batches are stored and their responses lost when the only node ends. With producer snapshots
    between and after them none is lost or duplicated."""
    cluster = make_cluster(nodes=1)
    cluster.create_topic("t", 1, 1, segment_bytes=1 << 20)
    (node,) = cluster.nodes
    options = {"client_id": "client-0", "request_timeout_ms": 3_000, "linger_ms": 0}
    with headrace.Producer(cluster.bootstrap, **options) as producer:
        producer.send("t", b"first").result(PATIENCE_S)
        cluster.network.freeze(cluster.client_links([node]), Way.BACK)
        sent = [producer.send("t", b"%d" % number * 400_000) for number in range(5)]
        cluster.until(lambda: len(cluster.logs_of("t")[node.id]) > 2_000_000, "all five are in the log")
        assert not any(future.done() for future in sent)
        node.kill() if hard else node.stop()
        cluster.network.heal(is_reset=True)
        node.start()
        assert [future.result(PATIENCE_S).offset for future in sent] == [1, 2, 3, 4, 5]
    with cluster.clients.consumer() as consumer:
        assert consumer.end_offsets(TopicPartition("t", 0), timeout=PATIENCE_S)[TopicPartition("t", 0)] == 6
